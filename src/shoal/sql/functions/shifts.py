"""Moving dates and timestamps: sums and differences with days and intervals; results outside the calendar are NULL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind
from shoal.sql.functions import arithmetic, forms
from shoal.sql.functions.coerce import as_temporal, coerced, is_temporal, unsupported
from shoal.sql.functions.forms import builtin, calendar_date, calendar_timestamp, cast, huge, number, try_cast, within
from shoal.sql.functions.intervals import SECOND, bind_interval, parts_of
from shoal.sql.functions.overloads import (
    Function,
    Overload,
    checked_count,
    never_asked,
    overloaded,
    special,
    wrong_arguments,
)
from shoal.sql.functions.values import resolve_cast

if TYPE_CHECKING:
    from sqlglot import exp

    from shoal.sql.functions.overloads import Bind

_SPAN_DAYS = 3_652_059
_SPAN_MONTHS = 12 * 10_000


def _days_later(value: exp.Expr, days: exp.Expr) -> exp.Expr:
    return calendar_date(builtin("+", calendar_date(value), within(days, _SPAN_DAYS)))


def _timestamp_days_later(value: exp.Expr, days: exp.Expr) -> exp.Expr:
    return calendar_timestamp(builtin("+", calendar_timestamp(value), builtin("to_days", within(days, _SPAN_DAYS))))


def _months_later(value: exp.Expr, months: exp.Expr) -> exp.Expr:
    return calendar_date(
        try_cast(builtin("+", calendar_date(value), builtin("to_months", within(months, _SPAN_MONTHS))), "DATE")
    )


def _timestamp_months_later(value: exp.Expr, months: exp.Expr) -> exp.Expr:
    return calendar_timestamp(
        builtin("+", calendar_timestamp(value), builtin("to_months", within(months, _SPAN_MONTHS)))
    )


def _microseconds_later(value: exp.Expr, microseconds: exp.Expr) -> exp.Expr:
    return forms.instant(builtin("+", huge(builtin("epoch_us", value)), huge(microseconds)))


def _seconds_between(start: exp.Expr, end: exp.Expr) -> exp.Expr:
    microseconds = builtin(
        "-", builtin("epoch_us", calendar_timestamp(end)), builtin("epoch_us", calendar_timestamp(start))
    )
    return builtin("/", cast(microseconds, "DOUBLE"), number(float(SECOND)))


_FIRST_BUCKET = 946_857_600 * SECOND
"""2000-01-03, a Monday, in microseconds since 1970."""


def _bucket_start(value: exp.Expr, step: exp.Expr) -> exp.Expr:
    """Microseconds since the first bucket, rounded down to whole steps; the engine's remainder may be negative."""
    exact = huge(builtin("epoch_us", calendar_timestamp(value)))
    since = builtin("-", exact, number(_FIRST_BUCKET))
    width = builtin("greatest", huge(step), huge(number(1)))
    rest = builtin("%", builtin("+", builtin("%", since, width), width.copy()), width.copy())
    return forms.instant(builtin("-", exact.copy(), rest))


def _bind_bucket(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    width, value = arguments[0], as_temporal(arguments[1])
    if value is None or not isinstance(width, Literal) or width.type.kind is not Kind.INTERVAL or width.value is None:
        raise wrong_arguments(function, arguments, position)
    months, days, microseconds = width.value
    calendar = {1: "month", 3: "quarter", 12: "year"}.get(months)
    if calendar is not None and not days and not microseconds:
        return Call("date_trunc", (Literal(calendar, TEXT, position), value), value.type.plain(), position)
    step = days * 86_400 * SECOND + microseconds
    if months or step <= 0:
        raise unsupported(
            f"{function.usage} takes a positive length: weeks, days, hours …, or 1, 3 or 12 months.", position
        )
    instant = coerced(value, TIMESTAMP) or value
    start = Call("bucket_start", (instant, Literal(step, INTEGER, position)), TIMESTAMP, position)
    whole_days = value.type.kind is Kind.DATE and step % (86_400 * SECOND) == 0
    return resolve_cast(start, DATE, position) if whole_days else start


def _shift(value: Expression, interval: Expression, position: Position, *, backwards: bool) -> Expression:
    """A time moved by an interval: months first, then days, then the clock."""
    for name, amount in parts_of(interval, position):
        moved = _opposite(amount, position) if backwards else amount
        start = coerced(value, TIMESTAMP) if name == "add_microseconds" else value
        value = _BY_NAME[name].bind(_BY_NAME[name], (start or value, moved), position)
    return value


def _opposite(amount: Expression, position: Position) -> Expression:
    return arithmetic.NEGATE.bind(arithmetic.NEGATE, (amount,), position)


def _bind_sum(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    left, right = arguments if not is_temporal(arguments[1]) else arguments[::-1]
    if not is_temporal(left):
        return arithmetic.SUM.bind(function, arguments, position)
    if right.type.kind is Kind.INTERVAL:
        return _shift(left, right, position, backwards=False)
    return _plus_days(function, left, right, position)


def _bind_difference(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    left, right = arguments
    if not is_temporal(left) and not is_temporal(right):
        return arithmetic.DIFFERENCE.bind(function, arguments, position)
    if right.type.kind is Kind.INTERVAL:
        return _shift(left, right, position, backwards=True)
    end, start = coerced(left, DATE), coerced(right, DATE)
    if end is not None and start is not None:
        return Call("days_between", (start, end), INTEGER, position)
    if left.type.kind is Kind.DATE and right.type.kind is Kind.INTEGER:
        return _plus_days(function, left, _opposite(right, position), position)
    instants = coerced(right, TIMESTAMP), coerced(left, TIMESTAMP)
    if None in instants:
        raise unsupported("A time is subtracted from a time, days from a date.", position, hint="Cast one of them.")
    return _BY_NAME["seconds_between"].bind(_BY_NAME["seconds_between"], (right, left), position)


def _plus_days(function: Function, date: Expression, days: Expression, position: Position) -> Expression:
    if date.type.kind is not Kind.DATE or coerced(days, INTEGER) is None:
        raise wrong_arguments(function, (date, days), position)
    return _BY_NAME["add_days"].bind(_BY_NAME["add_days"], (date, days), position)


def _bind_shift(*, backwards: bool) -> Bind:
    def bind(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        checked_count(function, arguments, 2, 2, position)
        value = as_temporal(arguments[0])
        if value is None or arguments[1].type.kind not in {Kind.INTERVAL, Kind.INTEGER}:
            raise wrong_arguments(function, arguments, position)
        if arguments[1].type.kind is Kind.INTEGER:
            days = _opposite(arguments[1], position) if backwards else arguments[1]
            return _plus_days(function, value, days, position)
        return _shift(value, arguments[1], position, backwards=backwards)

    return bind


SUMS = (
    replace(
        arithmetic.SUM,
        bind=_bind_sum,
        meaning="The sum, NULL when it does not fit; a date and days, a date or timestamp and an interval.",
    ),
    replace(
        arithmetic.DIFFERENCE,
        bind=_bind_difference,
        meaning="The difference, NULL when it does not fit; also of dates (days), of timestamps (seconds), of a date or "
        "timestamp and an interval.",
    ),
)

FUNCTIONS = (
    special(
        "interval",
        "INTERVAL n unit",
        "A length of time, to add to or subtract from a date or timestamp.",
        bind_interval,
        never_asked,
        operator=True,
    ),
    overloaded(
        "add_days",
        "ADD_DAYS(when, n)",
        "n days later.",
        Overload((DATE, INTEGER), DATE, _days_later),
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _timestamp_days_later),
    ),
    overloaded(
        "add_months",
        "ADD_MONTHS(when, n)",
        "n months later, on the last day where the month is shorter.",
        Overload((DATE, INTEGER), DATE, _months_later),
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _timestamp_months_later),
    ),
    overloaded(
        "add_microseconds",
        "ADD_MICROSECONDS(when, n)",
        "n microseconds later.",
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _microseconds_later),
    ),
    overloaded(
        "days_between",
        "DAYS_BETWEEN(start, end)",
        "The number of days from one date to another; also written end - start.",
        Overload((DATE, DATE), INTEGER, lambda start, end: builtin("-", calendar_date(end), calendar_date(start))),
    ),
    overloaded(
        "seconds_between",
        "SECONDS_BETWEEN(start, end)",
        "The seconds from one timestamp to another, with their fraction; also written end - start.",
        Overload((TIMESTAMP, TIMESTAMP), DOUBLE, _seconds_between),
    ),
    special(
        "time_bucket",
        "TIME_BUCKET(INTERVAL n unit, time)",
        "The beginning of the stretch of that length in which the time lies. Weeks and what is shorter are counted from "
        "2000-01-03, a Monday; months, quarters and years are those of the calendar.",
        _bind_bucket,
        never_asked,
    ),
    overloaded(
        "bucket_start",
        "BUCKET_START(time, n)",
        "The same for stretches of n microseconds.",
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _bucket_start),
    ),
    special(
        "date_add",
        "DATE_ADD(when, INTERVAL n unit)",
        "The date or timestamp moved forwards.",
        _bind_shift(backwards=False),
        never_asked,
        aliases=("timestamp_add", "datetime_add"),
    ),
    special(
        "date_sub",
        "DATE_SUB(when, INTERVAL n unit)",
        "The date or timestamp moved backwards.",
        _bind_shift(backwards=True),
        never_asked,
        aliases=("timestamp_sub", "datetime_sub"),
    ),
)

_BY_NAME = {function.name: function for function in FUNCTIONS}
