"""Dates, times and timestamps in the calendar of the years 1 to 9999.

Anything outside is NULL, as are the engine's infinities. Weeks begin on Monday (ISO), and DAYOFWEEK counts from Sunday
= 0, ISODOW from Monday = 1; for BigQuery's keywords, `weeks` defines their meaning. Timestamps have no zone: those stored
with one are converted to UTC.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import DATE, DOUBLE, INTEGER, TEXT, TIME, TIMESTAMP, Kind, Type
from shoal.sql.functions import forms, weeks
from shoal.sql.functions.coerce import as_temporal, coerced, constant, text_constant, unsupported
from shoal.sql.functions.forms import (
    builtin,
    calendar_date,
    calendar_timestamp,
    cast,
    compare,
    huge,
    in_calendar,
    let,
    number,
    text,
    try_cast,
    when,
    within,
)
from shoal.sql.functions.intervals import SECOND, unit_named
from shoal.sql.functions.overloads import (
    Function,
    Overload,
    checked_count,
    never_asked,
    overloaded,
    special,
    wrong_arguments,
)
from shoal.sql.functions.values import engine_type, resolve_cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.sql.functions.overloads import Bind

PARTS = {
    "year": "year",
    "isoyear": "isoyear",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "isoweek": "week",
    "weekofyear": "week",
    "day": "day",
    "dayofmonth": "day",
    "dayofweek": "dayofweek",
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "isodow": "isodow",
    "dayofyear": "dayofyear",
    "doy": "dayofyear",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
_CLOCK = ("hour", "minute", "second")
_DATE_UNITS = ("year", "quarter", "month", "week", "day")


def _unit_and_times(
    function: Function, arguments: tuple[Expression, ...], position: Position
) -> tuple[str, list[Expression], bool]:
    """The unit, the times, and whether the unit came first (DuckDB) or last (BigQuery)."""
    first = unit_named(text_constant(arguments[0]) or "")
    times = arguments[1:] if first else arguments[:-1]
    last = text_constant(arguments[-1]) or ""
    name = first or (last if last in weeks.WEEKS else unit_named(last))
    if name is None:
        raise unsupported(f"{function.usage} needs a constant unit such as 'month' or WEEK(MONDAY).", position)
    converted = [as_temporal(time) for time in times]
    if any(part is None for part in converted):
        raise wrong_arguments(function, arguments, position)
    return name, [part for part in converted if part is not None], bool(first)


def _bind_trunc(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    unit, (value,), _ = _unit_and_times(function, arguments, position)
    if unit not in (*_DATE_UNITS, *weeks.WEEKS):
        value = coerced(value, TIMESTAMP) or value
    return Call(function.name, (Literal(unit, TEXT, position), value), value.type.plain(), position)


def _trunc(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    unit, value = arguments
    week = constant(call.arguments[0])
    if week in weeks.WEEKS:
        begun = calendar_date(weeks.beginning(week, _date(value, call.type)))
        return begun if call.type.kind is Kind.DATE else try_cast(begun, "TIMESTAMP")
    if call.type.kind is Kind.DATE:
        return try_cast(builtin("date_trunc", unit, calendar_date(value)), "DATE")
    return builtin("date_trunc", unit, calendar_timestamp(value))


def _bind_diff(function: Function, arguments: tuple[Expression, ...], position: Position) -> Call:
    checked_count(function, arguments, 3, 3, position)
    unit, times, first = _unit_and_times(function, arguments, position)
    start, end = times if first else times[::-1]
    whole_days = unit in (*_DATE_UNITS, *weeks.WEEKS)
    if function.name == "timestamp_diff" or not whole_days or start.type.kind is not end.type.kind:
        start, end = coerced(start, TIMESTAMP) or start, coerced(end, TIMESTAMP) or end
    return Call(function.name, (Literal(unit, TEXT, position), start, end), INTEGER, position)


def _diff(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    unit, start, end = arguments
    type_, week = call.arguments[1].type, constant(call.arguments[0])
    if week in weeks.WEEKS:
        return weeks.beginnings_between(week, _date(start, type_), _date(end, type_))
    return builtin("date_diff", unit, _guarded(start, type_), _guarded(end, type_))


def _elapsed(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    """Whole units between two instants, rounded towards zero."""
    lengths = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
    unit = constant(call.arguments[0])
    steps = lengths.get(unit, 0) * SECOND or {"millisecond": 1000, "microsecond": 1}[unit]
    start, end = (builtin("epoch_us", calendar_timestamp(time)) for time in arguments[1:])
    return builtin("//", builtin("-", end, start), number(steps))


def _bind_elapsed(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    call = _bind_diff(function, arguments, position)
    if constant(call.arguments[0]) in {"year", "quarter", "month", *weeks.WEEKS}:
        raise unsupported("TIMESTAMP_DIFF counts units of fixed length, up to weeks.", position, hint="Use DATE_DIFF.")
    return call


def _bind_part(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    part, value = arguments
    written = (text_constant(part) or "").lower()
    if written in {"date", "time"}:
        return resolve_cast(as_temporal(value) or value, DATE if written == "date" else TIME, position)
    if written == "epoch":
        return _BY_NAME["epoch"].bind(_BY_NAME["epoch"], (value,), position)
    if written not in PARTS:
        raise unsupported(f"{function.usage} takes one of the parts {', '.join(sorted(PARTS))}.", position)
    return _part(function, PARTS[written], value, position)


def _bind_extract(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    """EXTRACT with BigQuery's keywords; parts that only DuckDB has mean what they mean there."""
    checked_count(function, arguments, 2, 2, position)
    part, value = arguments
    name = weeks.part_in_words(text_constant(part) or "")
    if name in weeks.WEEKS or name == weeks.FROM_ONE:
        return _part(function, name, value, position)
    return _bind_part(function, arguments, position)


def _is_apart(value: Expression) -> bool:
    """Whether it is one time less another, which is a number of seconds."""
    return isinstance(value, Call) and value.function == "seconds_between"


def _with_seconds(function: Function) -> Function:
    """EPOCH also accepts the difference of two times, which is already in seconds."""

    def bind(known: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        return (
            arguments[0]
            if len(arguments) == 1 and _is_apart(arguments[0])
            else function.bind(known, arguments, position)
        )

    return replace(function, bind=bind)


def _part(function: Function, name: str, value: Expression, position: Position) -> Expression:
    source = value if value.type.kind is Kind.TIME and name in _CLOCK else as_temporal(value)
    if source is None and _is_apart(value):
        raise unsupported(
            f"{function.usage} does not take a part of what lies between two times: it is a number of seconds here.",
            position,
            hint="Divide by 60 for minutes, 3600 for hours, or count them: DATE_DIFF('minute', start, end).",
        )
    if source is None:
        raise wrong_arguments(function, (value,), position)
    return Call("date_part", (Literal(name, TEXT, position), source), INTEGER, position)


def _part_form(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    part, value = arguments
    name, type_ = constant(call.arguments[0]), call.arguments[1].type
    guarded = _guarded(value, type_)
    if name in weeks.WEEKS:
        return weeks.number_in_year(name, guarded)
    if name == weeks.FROM_ONE:
        return builtin("+", _whole_part(text("dayofweek"), guarded), number(1))
    return _whole_part(part, guarded)


def _whole_part(part: exp.Expr, time: exp.Expr) -> exp.Expr:
    """The engine treats a part of a constant as a double."""
    return try_cast(builtin("date_part", part, time), "BIGINT")


def _date(value: exp.Expr, type_: Type) -> exp.Expr:
    """The day of a date or a timestamp."""
    guarded = _guarded(value, type_)
    return guarded if type_.kind is Kind.DATE else try_cast(guarded, "DATE")


def _guarded(value: exp.Expr, type_: Type) -> exp.Expr:
    return value if type_.kind is Kind.TIME else in_calendar(value, engine_type(type_))


def _part_function(name: str, meaning: str, aliases: tuple[str, ...] = ()) -> Function:
    def bind(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        checked_count(function, arguments, 1, 1, position)
        return _part(function, PARTS[name], arguments[0], position)

    return special(name, f"{name.upper()}(time)", meaning, bind, never_asked, aliases=aliases)


def _bind_to(target: Type) -> Bind:
    def bind(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        if target.kind is Kind.DATE and len(arguments) == 3:
            return _BY_NAME["make_date"].bind(_BY_NAME["make_date"], arguments, position)
        checked_count(function, arguments, 1, 1, position)
        if arguments[0].type.kind not in {Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.NULL}:
            raise wrong_arguments(function, arguments, position)
        return resolve_cast(arguments[0], target, position)

    return bind


def _made_date(year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
    """Through text, which the engine parses without errors: 2023-2-30 is NULL."""
    parts = [cast(part, "VARCHAR") for part in (within(year, 9999), month, day)]
    written = builtin(
        "||", builtin("||", builtin("||", builtin("||", parts[0], text("-")), parts[1]), text("-")), parts[2]
    )
    return calendar_date(try_cast(written, "DATE"))


_WRITTEN_FORMAT = re.compile(r"(?:[^%\\]|%[YymdHIMSpjaAbBfuwUWVG%])*")
_READ_FORMAT = re.compile(r"(?:[^%\\]|%[YymdHIMSpjbBf%])*")


def _expanded(written: str) -> str:
    return written.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S")


def _bind_format(allowed: re.Pattern[str], gives: Type) -> Bind:
    """A constant format and a value, in either order."""

    def bind(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        checked_count(function, arguments, 2, 2, position)
        value, layout = arguments if _is_format(arguments[1]) else arguments[::-1]
        if not _is_format(layout):
            raise unsupported(f"{function.usage} needs a constant format such as '%Y-%m-%d'.", position)
        written = _expanded(text_constant(layout) or "")
        if len(written) > 100 or not allowed.fullmatch(written):
            raise unsupported(f"{function.usage} takes a format of %Y %m %d %H %M %S and the like.", position)
        source = coerced(value, TEXT) if gives != TEXT else as_temporal(value)
        if source is None:
            raise wrong_arguments(function, arguments, position)
        return Call(function.name, (source, Literal(written, TEXT, position)), gives, position)

    return bind


def _is_format(argument: Expression) -> bool:
    return "%" in (text_constant(argument) or "")


def _formatted(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    value, layout = arguments
    return builtin("strftime", _guarded(value, call.arguments[0].type), layout)


def _parsed_timestamp(value: exp.Expr, layout: exp.Expr) -> exp.Expr:
    return calendar_timestamp(builtin("try_strptime", value, layout))


def _parsed_date(value: exp.Expr, layout: exp.Expr) -> exp.Expr:
    return try_cast(_parsed_timestamp(value, layout), "DATE")


def _over(
    name: str,
    usage: str,
    meaning: str,
    gives: Type,
    form: Callable[[exp.Expr], exp.Expr],
    aliases: tuple[str, ...] = (),
) -> Function:
    """A function of a date or a timestamp."""
    return overloaded(
        name,
        usage,
        meaning,
        Overload((DATE,), gives, lambda value: form(calendar_date(value))),
        Overload((TIMESTAMP,), gives, lambda value: form(calendar_timestamp(value))),
        aliases=aliases,
    )


def _since_1970(name: str, steps: int, meaning: str, aliases: tuple[str, ...] = ()) -> Function:
    """Whole steps of this many microseconds since 1970, rounded down."""

    def form(value: exp.Expr) -> exp.Expr:
        exact = builtin("epoch_us", calendar_timestamp(value))
        if steps == 1:
            return exact
        return let(exact, lambda v: builtin("//", _rounding_down(v, steps), number(steps)))

    return overloaded(name, f"{name.upper()}(time)", meaning, Overload((TIMESTAMP,), INTEGER, form), aliases=aliases)


def _rounding_down(value: exp.Expr, steps: int) -> exp.Expr:
    """The engine divides towards zero: negative numbers go one step further down first."""
    return when(compare(exp.LT, value, number(0)), builtin("-", value.copy(), number(steps - 1)), value.copy())


def _from_1970(name: str, steps: int, meaning: str, aliases: tuple[str, ...] = ()) -> Function:
    form = Overload((INTEGER,), TIMESTAMP, lambda n: forms.instant(builtin("*", huge(n), huge(number(steps)))))
    return overloaded(name, f"{name.upper()}(n)", meaning, form, aliases=aliases)


def _epoch(value: exp.Expr) -> exp.Expr:
    return builtin("/", cast(builtin("epoch_us", value), "DOUBLE"), number(float(SECOND)))


FUNCTIONS = (
    Function(
        "date_trunc",
        "DATE_TRUNC('unit', time) or DATE_TRUNC(time, unit)",
        "The beginning of the year, quarter, month, week, day, hour, minute or second; a date stays a date. "
        "Weeks begin on Monday with 'week' as a string or ISOWEEK, on Sunday with the bare word WEEK, on Tuesday with "
        "WEEK(TUESDAY).",
        _bind_trunc,
        _trunc,
        aliases=("datetrunc", "timestamp_trunc", "datetime_trunc"),
    ),
    Function(
        "date_diff",
        "DATE_DIFF('unit', start, end) or DATE_DIFF(end, start, unit)",
        "How many beginnings of a unit lie between two times; of weeks as in DATE_TRUNC, but with 'week' as a string how "
        "many whole weeks.",
        _bind_diff,
        _diff,
        aliases=("datediff", "datetime_diff"),
    ),
    Function(
        "timestamp_diff",
        "TIMESTAMP_DIFF(end, start, unit)",
        "How many whole units passed between two times, rounded towards zero.",
        _bind_elapsed,
        _elapsed,
    ),
    Function(
        "date_part",
        "DATE_PART('part', time)",
        "A part of a date, timestamp or time as an integer, as the function of that name gives it.",
        _bind_part,
        _part_form,
        aliases=("datepart",),
    ),
    special(
        "extract",
        "EXTRACT(part FROM time)",
        "A part as DATE_PART gives it, but DAYOFWEEK counts from Sunday = 1, and WEEK from the first Sunday of the year, "
        "WEEK(MONDAY) from the first Monday, with week 0 before it.",
        _bind_extract,
        never_asked,
    ),
    _part_function("year", "The year."),
    _part_function("quarter", "The quarter, 1 to 4."),
    _part_function("month", "The month, 1 to 12."),
    _part_function("week", "The ISO week, 1 to 53.", ("weekofyear", "isoweek")),
    _part_function("day", "The day of the month.", ("dayofmonth",)),
    _part_function("dayofweek", "The day of the week, Sunday = 0.", ("dow", "weekday")),
    _part_function("isodow", "The day of the week, Monday = 1."),
    _part_function("dayofyear", "The day of the year.", ("doy",)),
    _part_function("isoyear", "The year of the ISO week."),
    _part_function("hour", "The hour."),
    _part_function("minute", "The minute."),
    _part_function("second", "The second."),
    _over("last_day", "LAST_DAY(time)", "The last day of the month.", DATE, lambda value: builtin("last_day", value)),
    _over("dayname", "DAYNAME(time)", "The English name of the day.", TEXT, lambda value: builtin("dayname", value)),
    _over("monthname", "MONTHNAME(time)", "The English name of the month.", TEXT, lambda v: builtin("monthname", v)),
    overloaded(
        "make_date",
        "MAKE_DATE(year, month, day)",
        "The date; NULL where there is no such day.",
        Overload((INTEGER, INTEGER, INTEGER), DATE, _made_date),
        aliases=("date_from_parts", "datefromparts"),
    ),
    special("date", "DATE(x)", "x as a date; also DATE(year, month, day).", _bind_to(DATE), never_asked),
    special("timestamp", "TIMESTAMP(x)", "x as a timestamp.", _bind_to(TIMESTAMP), never_asked, aliases=("datetime",)),
    Function(
        "strftime",
        "STRFTIME(time, format)",
        "The time written in a constant format of %Y %m %d %H %M %S %j %a %b …",
        _bind_format(_WRITTEN_FORMAT, TEXT),
        _formatted,
        aliases=("format_date", "format_timestamp", "format_datetime"),
    ),
    special(
        "strptime",
        "STRPTIME(text, format)",
        "The timestamp read in a constant format; NULL where the text does not fit.",
        _bind_format(_READ_FORMAT, TIMESTAMP),
        _parsed_timestamp,
        aliases=("try_strptime", "parse_timestamp", "parse_datetime"),
    ),
    special(
        "parse_date",
        "PARSE_DATE(format, text)",
        "The date read in a constant format; NULL where the text does not fit.",
        _bind_format(_READ_FORMAT, DATE),
        _parsed_date,
    ),
    _with_seconds(
        overloaded(
            "epoch",
            "EPOCH(time)",
            "Seconds since 1970, with fractions; of one time less another, the seconds between them.",
            Overload((TIMESTAMP,), DOUBLE, lambda value: _epoch(calendar_timestamp(value))),
        )
    ),
    _since_1970("unix_seconds", SECOND, "Whole seconds since 1970."),
    _since_1970("unix_millis", 1000, "Whole milliseconds since 1970.", ("epoch_ms",)),
    _since_1970("unix_micros", 1, "Microseconds since 1970.", ("epoch_us",)),
    overloaded(
        "unix_date",
        "UNIX_DATE(date)",
        "Days since 1970.",
        Overload((DATE,), INTEGER, lambda value: builtin("-", calendar_date(value), cast(text("1970-01-01"), "DATE"))),
    ),
    _from_1970("timestamp_seconds", SECOND, "The timestamp this many seconds after 1970.", ("to_timestamp",)),
    _from_1970("timestamp_millis", 1000, "The timestamp this many milliseconds after 1970."),
    _from_1970("timestamp_micros", 1, "The timestamp this many microseconds after 1970.", ("make_timestamp",)),
)

_BY_NAME = {function.name: function for function in FUNCTIONS}
