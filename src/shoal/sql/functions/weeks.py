"""Weeks that begin on any day: BigQuery's WEEK and WEEK(MONDAY), in addition to ISO weeks, which begin on Monday.

A week that begins on another day is an ISO week of dates moved by k days: it begins at iso(d + k) - k, where iso(d) is the
Monday of d. Its number in the year counts from the first such day; days before that are in week 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.sql.functions.forms import builtin, let, number, text, try_cast
from shoal.sql.functions.intervals import unit_named

if TYPE_CHECKING:
    from sqlglot import exp

DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
WEEKS = {f"week({day})": position for position, day in enumerate(DAYS)}
"""Weeks by the day they begin on; Sunday is day 0."""

FROM_ONE = "dayofweek from 1"
_ELAPSED = "timestamp_diff"
_UNITS_LAST = frozenset(
    {"date_trunc", "datetrunc", "timestamp_trunc", "datetime_trunc", "date_diff", "datediff", "datetime_diff", _ELAPSED}
)


def unit_in_words(function: str, word: str) -> str | None:
    """The meaning of a bare unit at the end of a call: BigQuery's weeks begin on Sunday.

    >>> unit_in_words("DATE_TRUNC", "WEEK"), unit_in_words("DATE_DIFF", "ISOWEEK"), unit_in_words("LENGTH", "WEEK")
    ('week(sunday)', 'week(monday)', None)
    """
    written = word.lower()
    if function.lower() not in _UNITS_LAST:
        return None
    if function.lower() != _ELAPSED:
        written = {"week": "week(sunday)", "isoweek": "week(monday)"}.get(written, written)
    return written if written.startswith("week(") else unit_named(written)


def part_in_words(word: str) -> str:
    """The meaning of a part in EXTRACT: BigQuery's days of the week begin with Sunday = 1, its weeks on Sunday."""
    return {"dayofweek": FROM_ONE, "week": "week(sunday)"}.get(word.lower(), word.lower())


def beginning(week: str, day: exp.Expr) -> exp.Expr:
    """The first day of the week that a date lies in."""
    return builtin("-", _monday(week, day), number(_shift(week)))


def beginnings_between(week: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """How many weeks begin after one date and no later than another."""
    days = builtin("-", _monday(week, end), _monday(week, start))
    return builtin("//", days, number(7))


def number_in_year(week: str, day: exp.Expr) -> exp.Expr:
    """⌊(day of the year + 6 - days since the week began) / 7⌋: 0 before the first day that begins a week."""

    def weeks(v: exp.Expr) -> exp.Expr:
        weekday = try_cast(builtin("date_part", text("dayofweek"), v), "BIGINT")
        since = builtin("%", builtin("+", weekday, number(7 - WEEKS[week])), number(7))
        in_year = try_cast(builtin("date_part", text("dayofyear"), v.copy()), "BIGINT")
        counted = builtin("+", in_year, number(6))
        return builtin("//", builtin("-", counted, since), number(7))

    return let(day, weeks)


def _shift(week: str) -> int:
    """How many days to move a date so that its ISO week is the intended one."""
    return (DAYS.index("monday") - WEEKS[week]) % 7


def _monday(week: str, day: exp.Expr) -> exp.Expr:
    """The Monday of the date that was moved."""
    return try_cast(builtin("date_trunc", text("week"), builtin("+", day, number(_shift(week)))), "DATE")
