"""Values at the border of the engine: stored columns, constants, casts and group keys.

Inside a plan there is one type for each kind of value, and equal values are the same bits: integers are BIGINT, reals
are DOUBLE without NaN and −0.0, strings compare by bytes, timestamps are UTC without a zone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction

from sqlglot import exp

from shoal.errors import InternalError
from shoal.plan.expressions import Cast, Expression, Literal, Position
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIME, TIMESTAMP, Kind, Type, decimal
from shoal.sql.functions import forms
from shoal.sql.functions.coerce import coerced, named, nearest_double, parsed_temporal, unsupported
from shoal.sql.functions.forms import builtin, canonical_double, compare, number, try_cast, when

_STORED: dict[str, Type] = {
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), INTEGER),
    # wider than 64 bits with a sign: as decimals, or half of all hashed owner ids would be lost
    "UBIGINT": decimal(20, 0),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), decimal(38, 0)),
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    **dict.fromkeys(("VARCHAR", "UUID", "JSON"), TEXT),
    "DATE": DATE,
    "TIME": TIME,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), TIMESTAMP),
}

_WRITTEN: dict[str, Type] = {
    **{name: type_ for name, type_ in _STORED.items() if name not in {"UUID", "JSON"}},
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), INTEGER),
    **dict.fromkeys(("INT", "INT1", "INT2", "INT4", "INT8", "INT64", "LONG", "BYTEINT", "INT32", "INT16"), INTEGER),
    **dict.fromkeys(("FLOAT64", "FLOAT8", "FLOAT4", "REAL", "DOUBLE PRECISION"), DOUBLE),
    **dict.fromkeys(("STRING", "TEXT", "CHAR", "BPCHAR", "CHARACTER VARYING"), TEXT),
    **dict.fromkeys(("BOOL", "LOGICAL"), BOOLEAN),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), TIMESTAMP),
    "NUMERIC": decimal(38, 9),
    "BIGNUMERIC": DOUBLE,
}

_WITH_ZONE = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS")
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC|BIGNUMERIC|DEC)\s*(?:\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\))?")
_SIZED_TEXT = re.compile(r"(?:VARCHAR|CHAR|STRING|TEXT|BPCHAR|CHARACTER VARYING)\s*\(\s*\d+\s*\)")

ENGINE_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIME: "TIME",
    Kind.NULL: "BIGINT",
}


def engine_type(type_: Type) -> str:
    """The one engine type that values of this type have inside a plan."""
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if type_.kind not in ENGINE_TYPES:
        raise InternalError(f"a value of type {type_} has no engine type")
    return ENGINE_TYPES[type_.kind]


def type_of(stored: str) -> Type:
    """The type of a stored column, from the engine's name of it; unsupported where equal values can differ in spelling.

    >>> type_of("DECIMAL(12,2)")
    Type(kind=<Kind.DECIMAL: 'decimal'>, precision=12, scale=2, storage='DECIMAL(12,2)')
    >>> type_of("STRUCT(a INTEGER)").kind
    <Kind.UNSUPPORTED: 'unsupported'>
    """
    name = stored.strip().upper()
    if name in _STORED:
        return replace(_STORED[name], storage=stored)
    if name.startswith("ENUM(") and not name.endswith("[]"):
        return replace(TEXT, storage=stored)
    known = _decimal_named(name) or type_named(name)
    return replace(known, storage=stored) if known else Type(Kind.UNSUPPORTED, storage=stored)


def type_named(written: str) -> Type | None:
    """The type meant by CAST(… AS name), in the spelling of BigQuery, DuckDB or PostgreSQL; None if unknown.

    >>> type_named("int64").kind, type_named("NUMERIC(10, 2)").scale
    (<Kind.INTEGER: 'integer'>, 2)
    """
    name = " ".join(written.upper().split())
    if name in _WRITTEN:
        return _WRITTEN[name].plain()
    return TEXT if _SIZED_TEXT.fullmatch(name) else _decimal_named(name)


def _decimal_named(name: str) -> Type | None:
    match = _DECIMAL.fullmatch(name)
    if not match:
        return None
    precision = int(match[1] or 18)
    scale = int(match[2] or (0 if match[1] else 3))
    return decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else None


def scan_form(column: exp.Expr, type_: Type) -> exp.Expr:
    """A stored column as a value of the plan; a column already stored as the plan's own type is unchanged.

    >>> scan_form(exp.column("age"), type_of("UTINYINT")).sql("duckdb", normalize_functions=False)
    'TRY_CAST(age AS BIGINT)'
    >>> scan_form(exp.column("name"), type_of("VARCHAR")).sql("duckdb", normalize_functions=False)
    'name COLLATE "binary"'
    """
    if type_.kind is Kind.UNSUPPORTED:
        raise InternalError("an unsupported column was scanned")
    if type_.storage.upper() in _WITH_ZONE:
        return _utc(column)
    if type_.kind is Kind.INTEGER and type_.storage.upper() in {"DOUBLE", "FLOAT"}:
        return _whole(column)
    stored = column if _is_own(type_) else try_cast(column, engine_type(type_))
    if type_.kind is Kind.DOUBLE:
        return canonical_double(stored)
    if type_.kind in {Kind.DATE, Kind.TIMESTAMP}:
        # an engine may fail on a stored instant outside the calendar as soon as it is formatted or computed with
        return forms.in_calendar(stored, engine_type(type_))
    if type_.kind is Kind.TIME:
        return forms.in_day(stored)
    # a declared collation does not show in the column's type, and would make different strings equal
    binary = exp.to_identifier("binary", quoted=True)
    return exp.Collate(this=stored, expression=binary) if type_.kind is Kind.TEXT else stored


def bounded_scan_form(column: exp.Expr, type_: Type, longest: int | None = None) -> exp.Expr:
    """The same for private rows: a string that is too long is read as NULL, at the latest at the limit for function results.

    The owner of a row decides how long its strings are. Engines process thousands of rows at a time, and joins repeat them, so
    long strings could run a query out of memory, or exceed one message, only when their owner is present.

    >>> bounded_scan_form(exp.column("name"), type_of("VARCHAR")).sql("duckdb", normalize_functions=False)
    'CASE WHEN system.main.strlen(name COLLATE "binary") <= 65536 THEN name COLLATE "binary" END'
    """
    stored, most = scan_form(column, type_), forms.LONGEST_TEXT
    if not may_be_long(type_):
        return stored
    return when(compare(exp.LTE, builtin("strlen", stored), number(min(longest or most, most))), stored.copy())


def may_be_long(type_: Type) -> bool:
    """Whether a stored value is a string of unbounded length."""
    name = type_.storage.upper()
    return type_.kind is Kind.TEXT and name != "UUID" and not name.startswith("ENUM(")


def _is_own(type_: Type) -> bool:
    """Whether the column is stored as the plan's own type."""
    return "".join(type_.storage.upper().split()) == "".join(engine_type(type_).split())


def _whole(column: exp.Expr) -> exp.Expr:
    """Whole numbers stored as reals; NULL for 7.4, which must not become the same number as 7."""
    rounded = exp.EQ(this=column, expression=builtin("trunc", column.copy()))
    exact = compare(exp.LTE, builtin("abs", column.copy()), number(2.0**53))
    return when(exp.And(this=rounded, expression=exact), try_cast(column.copy(), "BIGINT"))


def _utc(column: exp.Expr) -> exp.Expr:
    """The instant as a timestamp in UTC, whatever the session's time zone; years 1 to 9999."""
    return forms.instant(builtin("epoch_us", try_cast(column, "TIMESTAMPTZ")))


def literal_form(literal: Literal) -> exp.Expr:
    """A constant as the engine reads it."""
    value, type_ = literal.value, literal.type
    if value is None:
        return forms.null(engine_type(type_)) if type_.kind is not Kind.NULL else exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return forms.text(value)
    if isinstance(value, (date, time)):
        written = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
        return forms.cast(forms.text(written), engine_type(type_))
    if type_.kind is Kind.DECIMAL:
        return forms.try_cast(forms.text(_digits(Fraction(value), type_.scale)), engine_type(type_))
    if type_.kind is Kind.DOUBLE:
        return forms.number(nearest_double(value))
    return forms.number(value)


def _digits(value: Fraction, scale: int) -> str:
    """A fraction as digits after the point, halves away from zero."""
    scaled = abs(value) * 10**scale
    whole = str(int(scaled + Fraction(1, 2))).rjust(scale + 1, "0")
    point = f"{whole[: len(whole) - scale]}.{whole[len(whole) - scale :]}" if scale else whole
    return f"-{point}" if value < 0 else point


_CASTS: dict[Kind, set[Kind]] = {
    Kind.BOOLEAN: {Kind.INTEGER, Kind.TEXT},
    Kind.INTEGER: {Kind.BOOLEAN, Kind.DOUBLE, Kind.DECIMAL, Kind.TEXT},
    Kind.DOUBLE: {Kind.INTEGER, Kind.DECIMAL, Kind.TEXT},
    Kind.DECIMAL: {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.TEXT},
    Kind.TEXT: {Kind.BOOLEAN, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIME},
    Kind.DATE: {Kind.TIMESTAMP, Kind.TEXT},
    Kind.TIMESTAMP: {Kind.DATE, Kind.TIME, Kind.TEXT},
    Kind.TIME: {Kind.TEXT},
}


def resolve_cast(value: Expression, target: Type, position: Position) -> Expression:
    """CAST(value AS target), always a try-cast: what does not fit is NULL.

    Doubles round to the nearest integer, halves to the even one; decimals round halves away from zero.
    """
    source = value.type
    widened = coerced(value, target)
    if widened is not None:
        return widened
    if (
        isinstance(value, Literal)
        and source.kind is Kind.TEXT
        and target.kind in {Kind.DATE, Kind.TIMESTAMP, Kind.TIME}
    ):
        parsed = None if value.value is None else parsed_temporal(value.value, target.kind)
        if parsed is not None or value.value is None:
            return Literal(parsed, target.plain(), position)
    if source.kind is Kind.BOOLEAN and target.kind in {Kind.DOUBLE, Kind.DECIMAL}:
        return resolve_cast(Cast(value, INTEGER, position), target, position)
    if target.kind not in _CASTS.get(source.kind, set()):
        allowed = ", ".join(sorted(kind.value for kind in _CASTS.get(source.kind, set()))) or "nothing"
        raise unsupported(
            f"A value of {named(source)} cannot be cast to {target}.", position, hint=f"It casts to: {allowed}."
        )
    return Cast(value, target.plain(), position)


def cast_form(value: exp.Expr, source: Type, target: Type) -> exp.Expr:
    """A cast that gives NULL for what does not fit."""
    if isinstance(value, exp.Column) and source.plain() == target.plain():
        return value
    converted = try_cast(value, engine_type(target))
    return _written_in_text(converted, target) if source.kind is Kind.TEXT else converted


def _written_in_text(value: exp.Expr, target: Type) -> exp.Expr:
    """The value a string represents, if the plan has it: the engine also accepts 'nan', 'infinity' and '24:00:00'."""
    if target.kind is Kind.DOUBLE:
        return canonical_double(value)
    if target.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return forms.in_calendar(value, engine_type(target))
    return forms.in_day(value) if target.kind is Kind.TIME else value


def key_form(value: exp.Expr, type_: Type) -> exp.Expr:
    """A value as a group key: equal keys are the same bytes, and dates lie in the years 1 to 9999 (else NULL)."""
    if type_.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return forms.in_calendar(value, engine_type(type_))
    if type_.kind in {Kind.INTEGER, Kind.NULL}:
        return forms.cast(value, "BIGINT")
    if type_.kind in {Kind.UNSUPPORTED, Kind.INTERVAL}:
        raise InternalError("values of this type cannot be group keys")
    return value
