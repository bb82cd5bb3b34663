"""How people write dates and numbers in text: 31.12.2025, 31-Dec-25, 1.234,50 and 1,234.50."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from shoal.cli.first_catalog.looking import Looked

_CLOCK = r"(?: ([0-9]{1,2}:[0-9]{2})(:[0-9]{2})?)?"
_DATE = re.compile(rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([0-9]{{4}}|[0-9]{{2}}){_CLOCK}")
_NAMED_MONTH = re.compile(rf"[0-9]{{1,2}}([ -])([A-Za-z]{{3}})\1([0-9]{{4}}|[0-9]{{2}}){_CLOCK}")
_MONTHS = frozenset({"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"})
_COMMA = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?")
"""Numbers with a decimal comma, and points between thousands."""
_SIGNS = frozenset("$€£¥%")
_POINT = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?")
"""Numbers with a decimal point, and commas between thousands."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """How numbers are written that are not written as 1234.5."""

    decimal: str
    thousands: str
    whole: bool = False
    """Whether all are whole numbers."""

    @property
    def type_name(self) -> str:
        """What such a column is read as."""
        return "BIGINT" if self.whole else "DOUBLE"


def dates_written(values: Collection[str]) -> str | None:
    """How dates are written that are not written as 2010-12-31; None where they are none, or could be two ways.

    >>> dates_written(["06.10.2025", "25.10.2025"]), dates_written(["12/1/10 8:26", "12/31/10 9:00"])
    ('%d.%m.%Y', '%m/%d/%y %H:%M')
    >>> dates_written(["31-Dec-2024", "1-Feb-2025"]), dates_written(["1/2/2025"])
    ('%d-%b-%Y', None)
    """
    return _in_digits(values) or _with_names(values)


def _in_digits(values: Collection[str]) -> str | None:
    parts = [match.groups() for value in values if (match := _DATE.fullmatch(value)) is not None]
    kinds = {(mark, len(year), hours is not None, seconds is not None) for _, mark, _, year, hours, seconds in parts}
    if not parts or len(parts) < len(values) or len(kinds) != 1:
        return None
    first, second = (max(int(part[position]) for part in parts) for position in (0, 2))
    ((mark, digits, with_time, with_seconds),) = kinds
    day_first = mark == "." or first > 12
    if max(first, second) > 31 or min(first, second) > 12 or (mark != "." and max(first, second) <= 12):
        return None
    days = ("%d", "%m") if day_first else ("%m", "%d")
    return mark.join((*days, _year(digits))) + _clock(with_time=with_time, with_seconds=with_seconds)


def _with_names(values: Collection[str]) -> str | None:
    """Days, the first letters of months, years."""
    parts = [match.groups() for value in values if (match := _NAMED_MONTH.fullmatch(value)) is not None]
    kinds = {(mark, len(year), hours is not None, seconds is not None) for mark, _, year, hours, seconds in parts}
    if not parts or len(parts) < len(values) or len(kinds) != 1 or {part[1].lower() for part in parts} - _MONTHS:
        return None
    ((mark, digits, with_time, with_seconds),) = kinds
    return mark.join(("%d", "%b", _year(digits))) + _clock(with_time=with_time, with_seconds=with_seconds)


def _year(digits: int) -> str:
    return "%Y" if digits == 4 else "%y"


def _clock(*, with_time: bool, with_seconds: bool) -> str:
    return (" %H:%M:%S" if with_seconds else " %H:%M") if with_time else ""


def numbers_written(values: Collection[str]) -> tuple[Numbers, ...]:
    """The ways in which strings are numbers that have commas: none, one, or both where nobody can tell 1,234 from 1.234.

    >>> [each.decimal for each in (*numbers_written(["1.234,50", "59,55"]), *numbers_written(["41,489", "1,204,312.5"]))]
    [',', '.']
    >>> [each.type_name for each in numbers_written(["41,489", "850"])], numbers_written(["59.5"]), numbers_written(["a,b"])
    (['BIGINT', 'DOUBLE'], (), ())
    """
    if not any("," in value for value in values):
        return ()
    found = []
    if all(map(_POINT.fullmatch, values)):
        found.append(Numbers(".", ",", whole=not any("." in value for value in values)))
    if all(map(_COMMA.fullmatch, values)):
        found.append(Numbers(",", "."))
    return tuple(found)


def sign_beside(values: Collection[str]) -> str:
    """The sign of a currency, or %, that stands before or after every number; empty if there is none.

    >>> sign_beside(["$29.99", "$1,200"]), sign_beside(["12,50 €", "3 €"]), sign_beside(["12%"]), sign_beside(["$5", "6"])
    ('$', '€', '%', '')
    """
    signs = {value[0] if value[:1] in _SIGNS else value[-1:] for value in values}
    sign = signs.pop() if len(signs) == 1 else ""
    if sign not in _SIGNS:
        return ""
    bare = [value.strip(f"{sign} ") for value in values]
    return sign if all(_POINT.fullmatch(each) or _COMMA.fullmatch(each) for each in bare) else ""


def decided(ways: tuple[Numbers, ...], delimiter: str | None) -> Numbers | None:
    """The way to read them: where both fit, a file with commas between its columns has them between thousands.

    >>> both = numbers_written(["41,489", "850"])
    >>> decided(both, ",").type_name, decided(both, ";"), decided(both[1:], ";").type_name
    ('BIGINT', None, 'DOUBLE')
    """
    return ways[0] if len(ways) == 1 or (ways and delimiter == ",") else None


@dataclass(frozen=True, slots=True)
class Spelled:
    """What the catalog says about the strings of one CSV table, and the columns that it reads."""

    options: Mapping[str, str]
    types: Mapping[str, str]


def spelled(columns: Mapping[str, Looked], delimiter: str) -> Spelled:
    """One way for dates, one for timestamps and one for numbers: that of most columns; the others stay text."""
    written = {name: looked.written for name, looked in columns.items() if looked.written is not None}
    dates = _most(each for each in written.values() if "%H" not in each)
    times = _most(each for each in written.values() if "%H" in each)
    types = {name: "DATE" if each == dates else "TIMESTAMP" for name, each in written.items() if each in {dates, times}}
    ways = {name: decided(looked.numbers, delimiter) for name, looked in columns.items() if not looked.sign}
    numbers = {name: way for name, way in ways.items() if way is not None}
    decimal = _most(way.decimal for way in numbers.values())
    types |= {name: way.type_name for name, way in numbers.items() if way.decimal == decimal}
    thousands = _most(way.thousands for way in numbers.values() if way.decimal == decimal)
    options = {"date_format": dates, "timestamp_format": times, "decimal": decimal, "thousands": thousands}
    usual = {"decimal": "."}
    return Spelled({key: value for key, value in options.items() if value and usual.get(key) != value}, types)


def _most(ways: Iterable[str]) -> str | None:
    """The one that most have, the first of several."""
    listed = list(ways)
    return max(dict.fromkeys(listed), key=listed.count, default=None)
