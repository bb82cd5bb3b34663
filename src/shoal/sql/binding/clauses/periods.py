"""Years, months, weeks and days of a period that is public: the catalog bounds the date, or WHERE does.

Which groups there are then follows from the query's text and the catalog, so that it costs nothing and tells nothing.
"""

from __future__ import annotations

import datetime as dt
from operator import add, mul, sub
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.plan.expressions import Call, Cast, Column, Expression, Literal, children, walk
from shoal.plan.traverse import columns_read
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Period = tuple[dt.date, dt.date]
"""The first and the last day, both included."""
MOST_DAYS = 45_000
"""Longer periods than 120 years are not listed."""
MOST_STEPS = 2_000_000
"""Parts of keys, times days, in all SELECTs of a statement: more takes seconds, before anything is charged."""
LARGEST = 2**63 - 1
"""Larger numbers have no value in some engines, and another type in others."""
FIRST_YEAR = 1000
"""Earlier years are written with fewer digits by some, and with zeros by others."""
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS: dict[str, Callable[[dt.date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "week": lambda day: day.isocalendar().week,
    "isodow": lambda day: day.isoweekday(),
    "dayofweek": lambda day: day.isoweekday() % 7,
}
_TRUNCATED: dict[str, Callable[[dt.date], dt.date]] = {
    "year": lambda day: day.replace(month=1, day=1),
    "quarter": lambda day: day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1),
    "month": lambda day: day.replace(day=1),
    "week": lambda day: day - dt.timedelta(days=day.weekday()),
    "day": lambda day: day,
}
_WRITTEN: dict[str, Callable[[dt.date], str]] = {
    "Y": lambda day: f"{day.year:04}",
    "y": lambda day: f"{day.year % 100:02}",
    "m": lambda day: f"{day.month:02}",
    "d": lambda day: f"{day.day:02}",
    "B": lambda day: _MONTHS[day.month - 1],
    "b": lambda day: _MONTHS[day.month - 1][:3],
    "A": lambda day: _DAYS[day.weekday()],
    "a": lambda day: _DAYS[day.weekday()][:3],
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"add": add, "subtract": sub, "multiply": mul}
_COMPARED = {
    "greater_equal": "less_equal",
    "greater": "less",
    "less_equal": "greater_equal",
    "less": "greater",
    "equal": "equal",
}
"""Comparisons, and the same with sides exchanged."""


class _UnknownError(Exception):
    """The value is not a function of the day, or not one that is known here."""


@dataclass(frozen=True, slots=True)
class _TimeOn:
    """Some time of a day: its parts down to the day are known, it itself is not."""

    day: dt.date


def date_behind(value: Expression) -> str | None:
    """The symbol of the one column that a key is computed from, if it is a date or a timestamp, or a string that is read as one."""
    symbols = columns_read(value)
    times = [part for part in walk(value) if _is_time(part)]
    read = frozenset(symbol for time in times for symbol in columns_read(time))
    return (
        next(iter(symbols)) if times and len(symbols) == 1 and read == symbols and not _asks_for_text(value) else None
    )


def _is_time(value: Expression) -> bool:
    """Whether this is a stored time, or a stored string read as one."""
    match value:
        case Column(type=type_):
            return type_.is_temporal
        case Call(function="strptime", arguments=(Column(), Literal())):
            return True
        case Cast(value=Column(type=stored), type=type_):
            return stored.kind is Kind.TEXT and type_.is_temporal
    return False


def _asks_for_text(value: Expression) -> bool:
    """Whether the string itself is read anywhere, beside the time that it says."""
    if _is_time(value):
        return False
    return isinstance(value, Column) or any(_asks_for_text(part) for part in children(value))


class Calendar:
    """Computes what keys are on the days of periods, for one statement: what it has time for, as nothing is charged yet."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._left = steps

    def in_period(
        self, values: Sequence[Expression], period: Period, most: int
    ) -> tuple[tuple[object, ...], ...] | None:
        """As `in_period`, or None where that would take longer than there is time for."""
        self._left -= (steps := _steps(values, period))
        if self._left >= 0:
            return in_period(values, period, most)
        self._left += steps
        return None


def _steps(values: Sequence[Expression], period: Period) -> int:
    """About how much this takes: the parts of keys, and the characters that they write, on every day."""
    parts = [part for value in values for part in walk(value)]
    letters = sum(len(part.value) for part in parts if isinstance(part, Literal) and isinstance(part.value, str))
    return (len(parts) + letters) * ((period[1] - period[0]).days + 1)


def in_period(values: Sequence[Expression], period: Period, most: int) -> tuple[tuple[object, ...], ...] | None:
    """Every combination of values that keys have on the days of a period, in order; None if unknown, or more than `most`.

    >>> from shoal.plan.types import DATE, INTEGER, TEXT
    >>> year = Call("date_part", (Literal("year", TEXT), Column("c1", DATE)), INTEGER)
    >>> in_period([year], (dt.date(2023, 12, 30), dt.date(2025, 1, 2)), 100)
    ((2023,), (2024,), (2025,))
    """
    first, last = period
    if first.year < FIRST_YEAR or not 0 <= (last - first).days < MOST_DAYS:
        return None
    found: dict[tuple[object, ...], None] = {}
    try:
        for number in range((last - first).days + 1):
            day = first + dt.timedelta(days=number)
            found[tuple(_shown(value, day) for value in values)] = None
            if len(found) > most:
                return None
    except _UnknownError:
        return None
    return tuple(found)


def _shown(value: Expression, day: dt.date) -> object:
    found = _on(value, day)
    if isinstance(found, _TimeOn):
        raise _UnknownError
    return found


def _on(value: Expression, day: dt.date) -> Any:
    """What an expression over one date is on a day."""
    if _is_time(value):
        return day if value.type.kind is Kind.DATE else _TimeOn(day)
    match value:
        case Literal(value=str() | int() as constant):
            return constant
        case Cast(value=inner, type=type_):
            return _cast(_on(inner, day), type_.kind)
        case Call(function="date_part", arguments=(Literal(value=str(part)), time)) if part in _PARTS:
            return _PARTS[part](_day(_on(time, day)))
        case Call(function="date_trunc", arguments=(Literal(value=str(part)), time)) if part in _TRUNCATED:
            start = _TRUNCATED[part](_day(_on(time, day)))
            return start if value.type.kind is Kind.DATE else dt.datetime.combine(start, dt.time())
        case Call(function="strftime", arguments=(time, Literal(value=str(form)))):
            return _written(_day(_on(time, day)), form)
        case Call(function="monthname" | "dayname" as name, arguments=(time,)):
            return _WRITTEN["B" if name == "monthname" else "A"](_day(_on(time, day)))
        case Call(function="concat", arguments=arguments):
            return "".join(_only(str, _on(argument, day)) for argument in arguments)
        case Call(function=function, arguments=(left, right)) if function in _ARITHMETIC:
            return _small(_ARITHMETIC[function](_only(int, _on(left, day)), _only(int, _on(right, day))))
    raise _UnknownError


def _small(number: int) -> int:
    if abs(number) > LARGEST:
        raise _UnknownError
    return number


def _only(kind: type[Any], found: object) -> Any:
    if type(found) is not kind:
        raise _UnknownError
    return found


def _day(found: object) -> dt.date:
    match found:
        case _TimeOn(day=day):
            return day
        case dt.datetime():
            return found.date()
        case dt.date():
            return found
    raise _UnknownError


def _cast(found: object, kind: Kind) -> object:
    """Casts that every engine writes the same way: times to their day, whole numbers and days to text."""
    if kind is Kind.DATE:
        return _day(found)
    if kind is Kind.TIMESTAMP and isinstance(found, (_TimeOn, dt.datetime)):
        return found
    if kind is Kind.TIMESTAMP and isinstance(found, dt.date):
        return dt.datetime.combine(found, dt.time())
    if kind is Kind.TEXT and type(found) in {int, str, dt.date}:
        return str(found)
    if kind is Kind.INTEGER and type(found) is int:
        return found
    raise _UnknownError


def _written(day: dt.date, form: str) -> str:
    text, rest = "", iter(form)
    for character in rest:
        directive = next(rest, "") if character == "%" else ""
        if character == "%" and directive not in _WRITTEN:
            raise _UnknownError
        text += _WRITTEN[directive](day) if directive else character
    return text


# ---- periods of WHERE ----------------------------------------------------------------------------------------------


def period_of(symbol: str, conditions: Iterable[Expression], known: Period | None) -> Period | None:
    """The days that a date can have: those of the catalog, if it says so, as far as conditions allow; None if an end is open."""
    first, last = known or (None, None)
    for condition in conditions:
        least, most = _allowed(symbol, condition)
        first = least if first is None or (least is not None and least > first) else first
        last = most if last is None or (most is not None and most < last) else last
    return (first, last) if first is not None and last is not None and first <= last else None


_Ends = tuple[dt.date | None, dt.date | None]


def _allowed(symbol: str, condition: Expression) -> _Ends:
    if not isinstance(condition, Call) or columns_read(condition) != {symbol}:
        return None, None
    match condition.function, condition.arguments:
        case "between", (value, least, most):
            low, high = _bounded(value, "greater_equal", least), _bounded(value, "less_equal", most)
            return low[0], high[1]
        case "in", (value, *others):
            ends = [_bounded(value, "equal", other) for other in others]
            firsts, lasts = [first for first, _ in ends if first], [last for _, last in ends if last]
            known = len(firsts) == len(lasts) == len(ends) > 0
            return (min(firsts), max(lasts)) if known else (None, None)
        case function, (left, right) if function in _COMPARED:
            if isinstance(left, Literal):
                return _bounded(right, _COMPARED[function], left)
            return _bounded(left, function, right)
    return None, None


def _bounded(value: Expression, comparison: str, other: Expression) -> _Ends:
    """The days that `value comparison other` allows, where the value is the date itself or its year."""
    if not isinstance(other, Literal):
        return None, None
    if _is_year(value):
        return _years(comparison, other.value)
    if not _is_date(value) or not isinstance(other.value, dt.date):
        return None, None
    whole = not isinstance(other.value, dt.datetime) or other.value.time() == dt.time()
    day = other.value.date() if isinstance(other.value, dt.datetime) else other.value
    if comparison == "less" and whole and day > dt.date.min:
        return None, day - dt.timedelta(days=1)
    if comparison == "greater" and value.type.kind is Kind.DATE and day < dt.date.max:
        return day + dt.timedelta(days=1), None
    return (day if comparison in {"greater", "greater_equal", "equal"} else None), (
        day if comparison in {"less", "less_equal", "equal"} else None
    )


def _years(comparison: str, year: object) -> _Ends:
    if type(year) is not int or not FIRST_YEAR <= year <= dt.MAXYEAR - 1:
        return None, None
    least = year + (comparison == "greater")
    most = year - (comparison == "less")
    return (
        dt.date(least, 1, 1) if comparison in {"greater", "greater_equal", "equal"} else None,
        dt.date(most, 12, 31) if comparison in {"less", "less_equal", "equal"} else None,
    )


def _is_year(value: Expression) -> bool:
    match value:
        case Call(function="date_part", arguments=(Literal(value="year"), time)):
            return _is_date(time)
    return False


def _is_date(value: Expression) -> bool:
    if _is_time(value):
        return True
    match value:
        case Cast(value=inner, type=type_):
            return type_.is_temporal and _is_date(inner)
    return False
