"""Moving dates and timestamps: sums and differences with days and with intervals; what leaves the calendar is NULL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan.expressions import Call, Expression, Position
from shoal.plan.types import DATE, INTEGER, TIMESTAMP, Kind
from shoal.sql.functions import arithmetic, forms
from shoal.sql.functions.coerce import as_temporal, coerced, is_temporal, unsupported
from shoal.sql.functions.forms import builtin, calendar_date, calendar_timestamp, huge, try_cast, within
from shoal.sql.functions.intervals import bind_interval, parts_of
from shoal.sql.functions.overloads import (
    Function,
    Overload,
    checked_count,
    never_asked,
    overloaded,
    special,
    wrong_arguments,
)

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
    raise unsupported("Timestamps are subtracted with DATE_DIFF('second', start, end).", position)


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
        meaning="The difference, NULL when it does not fit; also of dates (days), and of a time and an interval.",
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
        "ADD_DAYS(time, n)",
        "n days later.",
        Overload((DATE, INTEGER), DATE, _days_later),
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _timestamp_days_later),
    ),
    overloaded(
        "add_months",
        "ADD_MONTHS(time, n)",
        "n months later, on the last day where the month is shorter.",
        Overload((DATE, INTEGER), DATE, _months_later),
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _timestamp_months_later),
    ),
    overloaded(
        "add_microseconds",
        "ADD_MICROSECONDS(time, n)",
        "n microseconds later.",
        Overload((TIMESTAMP, INTEGER), TIMESTAMP, _microseconds_later),
    ),
    overloaded(
        "days_between",
        "DAYS_BETWEEN(start, end)",
        "The number of days from one date to another; also written end - start.",
        Overload((DATE, DATE), INTEGER, lambda start, end: builtin("-", calendar_date(end), calendar_date(start))),
    ),
    special(
        "date_add",
        "DATE_ADD(time, INTERVAL n unit)",
        "The time moved forwards.",
        _bind_shift(backwards=False),
        never_asked,
        aliases=("timestamp_add", "datetime_add"),
    ),
    special(
        "date_sub",
        "DATE_SUB(time, INTERVAL n unit)",
        "The time moved backwards.",
        _bind_shift(backwards=True),
        never_asked,
        aliases=("timestamp_sub", "datetime_sub"),
    ),
)

_BY_NAME = {function.name: function for function in FUNCTIONS}
