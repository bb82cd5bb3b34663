"""Intervals: (months, days, microseconds), or an integer column times a unit; they are only ever added to a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import INTEGER, INTERVAL, TEXT, Kind
from shoal.sql.functions.coerce import coerced, constant, text_constant, unsupported

if TYPE_CHECKING:
    from shoal.sql.functions.overloads import Function

Span = tuple[int, int, int]

SECOND = 1_000_000
_UNITS: dict[str, Span] = {
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3600 * SECOND),
    "minute": (0, 0, 60 * SECOND),
    "second": (0, 0, SECOND),
    "millisecond": (0, 0, 1000),
    "microsecond": (0, 0, 1),
}
UNITS = tuple(_UNITS)
LARGEST = 10**12

_TERM = re.compile(r"\s*([+-]?\d{1,12})\s*([a-zA-Z]+)\s*,?")


def unit_named(written: str) -> str | None:
    """The unit's own name for `MONTHS`, `iso_week`, `day`…, or None.

    >>> unit_named("Days")
    'day'
    """
    name = written.strip().lower()
    aliases = {
        "isoweek": "week",
        "mon": "month",
        "min": "minute",
        "sec": "second",
        "us": "microsecond",
        "ms": "millisecond",
    }
    name = aliases.get(name, name)
    return next((unit for unit in UNITS if name in {unit, f"{unit}s"}), None)


def bind_interval(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    """INTERVAL amount unit, INTERVAL 'text': a constant, or a call where the amount is a column."""
    texts = [text_constant(a) for a in arguments]
    if len(arguments) == 1 and texts[0] is not None:
        return Literal(_parsed(texts[0], position), INTERVAL, position)
    unit = unit_named(texts[1] or "") if len(arguments) == 2 else None
    if unit is None:
        raise unsupported(f"{function.usage} needs a unit: {', '.join(UNITS)}.", position)
    amount = arguments[0]
    if texts[0] is not None:
        return Literal(_parsed(f"{texts[0]} {unit}", position), INTERVAL, position)
    whole = coerced(amount, INTEGER)
    if whole is None:
        raise unsupported(f"{function.usage} takes a whole number of {unit}s.", position)
    if isinstance(whole, Literal):
        return Literal(_times(whole.value, unit, position), INTERVAL, position)
    return Call(function.name, (whole, Literal(unit, TEXT, position)), INTERVAL, position)


def _times(amount: int | None, unit: str, position: Position) -> Span | None:
    if amount is None:
        return None
    if abs(amount) > LARGEST:
        raise unsupported("The interval is too long.", position)
    months, days, microseconds = _UNITS[unit]
    return months * amount, days * amount, microseconds * amount


def _parsed(written: str, position: Position) -> Span:
    """`1 year 3 months`, `-90 days`: whole numbers of units, summed."""
    total, at = (0, 0, 0), 0
    while at < len(written.rstrip()) or not at:
        match = _TERM.match(written, at)
        unit = unit_named(match[2]) if match else None
        if match is None or unit is None:
            raise unsupported("An interval is written as whole numbers with units, like '90 days'.", position)
        more = _times(int(match[1]), unit, position) or total
        total = (total[0] + more[0], total[1] + more[1], total[2] + more[2])
        at = match.end()
    return total


def parts_of(interval: Expression, position: Position) -> list[tuple[str, Expression]]:
    """The interval as amounts of months, days and microseconds that can be added one after the other."""
    if isinstance(interval, Literal):
        span = interval.value or (None, 0, 0)
        amounts = zip(("add_months", "add_days", "add_microseconds"), span, strict=True)
        return [(name, Literal(amount, INTEGER, position)) for name, amount in amounts if amount != 0]
    if isinstance(interval, Call) and interval.type.kind is Kind.INTERVAL:
        amount, unit = interval.arguments
        span = _UNITS[constant(unit)]
        name, factor = next(
            (n, f) for n, f in zip(("add_months", "add_days", "add_microseconds"), span, strict=True) if f
        )
        return [(name, Call("multiply", (amount, Literal(factor, INTEGER, position)), INTEGER, position))]
    raise unsupported("An interval is a constant, or an integer column with a unit.", position)
