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
    """Dates by month, quarter, year and decade; numbers by intervals; strings of digits of one length by masks."""
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
    """Widths of 1, 2 or 5 times a power of ten, from two intervals down to about two values in each."""
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    if len(values) <= 2:
        return Flat()
    numbers = [as_fraction(value) for value in values.to_pylist()]
    low, high = min(numbers), max(numbers)
    width = _largest_width(high - low)
    while _intervals(low, high, width) < 2:
        width = _finer_width(width)
    least = Fraction(2) if kind_of(values.type) == "integer" else Fraction(0)
    widths = [width]
    while 2 * _intervals(low, high, finer := _finer_width(widths[-1])) <= len(numbers) and finer >= least:
        widths.append(finer)
    return Intervals(tuple(reversed([each for each in widths if each >= least]))) if width >= least else Flat()


def _intervals(low: Fraction, high: Fraction, width: Fraction) -> int:
    return int(high // width - low // width) + 1


def _largest_width(most: Fraction) -> Fraction:
    """The largest 1-2-5 width that is not above a number."""
    power = Fraction(1)
    while power > most:
        power /= 10
    while power * 10 <= most:
        power *= 10
    return next(power * digit for digit in (5, 2, 1) if power * digit <= most)


def _finer_width(width: Fraction) -> Fraction:
    """The next 1-2-5 width that divides this one: 500, 100, 50, 10; 200, 100."""
    digit = width
    while digit >= 10:
        digit /= 10
    while digit < 1:
        digit *= 10
    return width / (5 if digit == 5 else 2)
