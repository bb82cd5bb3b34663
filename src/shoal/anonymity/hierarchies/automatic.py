"""Hierarchies nobody had to write: from the type and the range of a column; no kinship of categories is invented."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from shoal.anonymity.hierarchies.rules import Dates, Flat, Intervals, Mask
from shoal.anonymity.hierarchies.values import kind_of, text_of
from shoal.exact import as_fraction

if TYPE_CHECKING:
    from shoal.anonymity.hierarchies.rules import Rule

AUTOMATIC_PERIODS = ("month", "quarter", "year", "decade")


def rule_for(column: pa.Array | pa.ChunkedArray) -> Rule:
    """Dates by month, quarter, year and decade; numbers by intervals; texts of digits of one length by masks."""
    kind = kind_of(column.type)
    values = pc.unique(column.drop_null())
    if kind == "date":
        return Dates(AUTOMATIC_PERIODS)
    if kind in {"integer", "number"}:
        return _numbers(values)
    texts = [str(text_of(value)) for value in values.to_pylist()]
    if texts and len(texts[0]) > 1 and all(len(text) == len(texts[0]) and text.isdigit() for text in texts):
        return Mask("right", len(texts[0]))
    return Flat()


def _numbers(values: pa.Array) -> Rule:
    """Widths of 1, 2 or 5 times a power of ten, each a multiple of the one before, until two intervals are left."""
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    if len(values) <= 2:
        return Flat()
    numbers = [as_fraction(value) for value in values.to_pylist()]
    low, high = min(numbers), max(numbers)
    width = _first_width((high - low) * 2 / len(numbers), whole=kind_of(values.type) == "integer")
    widths = [width]
    while _intervals(low, high, widths[-1]) > 2:
        widths.append(_next_width(widths[-1]))
    widths = [each for each in widths if _intervals(low, high, each) > 1]
    return Intervals(tuple(widths)) if widths else Flat()


def _intervals(low: Fraction, high: Fraction, width: Fraction) -> int:
    return int(high // width - low // width) + 1


def _first_width(at_least: Fraction, *, whole: bool) -> Fraction:
    """The smallest 1-2-5 width that puts about two values into each interval."""
    power = Fraction(1)
    while power > at_least:
        power /= 10
    while power * 10 <= at_least:
        power *= 10
    found = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= at_least)
    return max(found, Fraction(2)) if whole else found


def _next_width(width: Fraction) -> Fraction:
    """The next 1-2-5 width that is a multiple: 1, 2, 10, 20, 100; 5, 10, 20, 100."""
    digit = width
    while digit >= 10:
        digit /= 10
    while digit < 1:
        digit *= 10
    return width * (5 if digit == 2 else 2)
