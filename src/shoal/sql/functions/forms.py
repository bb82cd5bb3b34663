"""Building blocks of engine expressions: qualified built-ins, let-bindings, and the guards that make functions total.

In DuckDB a macro named `+`, `||`, `LIKE` or `sum` shadows the built-in, for operators too. So everything that the
engine looks up by name is written `system.main."+"(a, b)`. Comparisons, AND, OR, NOT, IS NULL, CASE, CAST, COALESCE,
BETWEEN and IN are syntax: nothing can shadow them.

A guard needs its value twice (`CASE WHEN x >= 0 THEN sqrt(x) END`). Writing a value twice doubles the text at every
level of nesting, so a value that is more than a column is bound once: `system.main.invoke(LAMBDA v : …, value)`.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = Callable[..., exp.Expr]

LONGEST_TEXT = 1 << 16
"""In bytes; a function result longer than this is NULL. Engines process a few thousand rows at a time, outside the memory they
account for, so longer strings could exhaust it."""

LARGEST_INTEGER = (1 << 63) - 1

_CANONICAL, _SUM = "canonical double", "wide sum"
_depth = ContextVar("depth of let-bindings", default=0)

_ATOMS = (exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean)
_CLOSED = (*_ATOMS, exp.Func, exp.Paren, exp.Case, exp.Neg, exp.Window, exp.Filter)


def builtin(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call that no macro can shadow.

    >>> builtin("+", exp.column("a"), number(1)).sql("duckdb", normalize_functions=False)
    'system.main."+"(a, 1)'
    """
    return exp.Anonymous(this=qualified(name), expressions=list(arguments))


def qualified(name: str) -> str:
    """A name of the engine's own functions and operators, which nothing of the same name can shadow."""
    return f"system.main.{name}" if name.isidentifier() else f'system.main."{name}"'


def let(value: exp.Expr, body: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The body, which may use the value any number of times; the value is evaluated once.

    >>> let(exp.column("a"), lambda v: builtin("+", v, v.copy())).sql("duckdb", normalize_functions=False)
    'system.main."+"(a, a)'
    >>> bound = let(builtin("sqrt", exp.column("a")), lambda v: builtin("+", v, v.copy()))
    >>> bound.sql("duckdb", normalize_functions=False)
    'system.main.invoke(LAMBDA v : system.main."+"(v, v), system.main.sqrt(a))'
    """
    return let_many([value], body)


def let_many(values: list[exp.Expr], body: Callable[..., exp.Expr]) -> exp.Expr:
    """The same for several values at once: the body takes as many arguments."""
    level = _depth.get()
    names = [value if is_atom(value) else exp.to_identifier(_name(level, i)) for i, value in enumerate(values)]
    bound = [(name, value) for name, value in zip(names, values, strict=True) if name is not value]
    token = _depth.set(level + 1)
    try:
        inner = body(*(name.copy() for name in names))
    finally:
        _depth.reset(token)
    if not bound:
        return inner
    function = exp.Lambda(this=inner, expressions=[name.copy() for name, _ in bound], colon=True)
    return builtin("invoke", function, *(value for _, value in bound))


def _name(level: int, index: int) -> str:
    """v, w, x, … for the values of one binding; a binding inside the body of another uses different names."""
    return f"{chr(ord('v') + index)}{level or ''}"


def is_atom(value: exp.Expr) -> bool:
    """Whether writing the value twice costs nothing."""
    if isinstance(value, (exp.Neg, exp.Cast)):
        return isinstance(value.this, (exp.Literal, exp.Null)) or (isinstance(value, exp.Cast) and is_atom(value.this))
    return isinstance(value, _ATOMS)


def operand(value: exp.Expr) -> exp.Expr:
    """The value, in parentheses if an adjacent operator could split it.

    To sqlglot AND and OR are functions too, yet they are written between their operands.
    """
    closed = isinstance(value, _CLOSED) and not isinstance(value, exp.Binary)
    return value if closed else exp.Paren(this=value)


def number(value: float) -> exp.Expr:
    """A constant; a float keeps an exponent, so that the engine reads a double and not a decimal."""
    if isinstance(value, int):
        return exp.Literal.number(value) if value >= -LARGEST_INTEGER else cast(text(str(value)), "BIGINT")
    if value in (float("inf"), float("-inf")):
        return cast(text(str(value)), "DOUBLE")
    digits = repr(abs(value))
    literal = exp.Literal.number(digits if "e" in digits else f"{digits}e0")
    return exp.Neg(this=literal) if value < 0 else literal


def text(value: str) -> exp.Expr:
    """A text constant."""
    return exp.Literal.string(value)


def null(engine_type: str) -> exp.Expr:
    """A NULL that knows its type."""
    return cast(exp.Null(), engine_type)


_COMMON_TYPES = {
    "BIGINT": exp.DType.BIGINT,
    "BOOLEAN": exp.DType.BOOLEAN,
    "DATE": exp.DType.DATE,
    "DOUBLE": exp.DType.DOUBLE,
    "HUGEINT": exp.DType.INT128,
    "TIME": exp.DType.TIME,
    "TIMESTAMP": exp.DType.TIMESTAMPNTZ,
    "UHUGEINT": exp.DType.UINT128,
    "VARCHAR": exp.DType.TEXT,
}
"""How sqlglot parses these names; precomputed because loading its dialect would take as long as planning a query."""


@cache
def _parsed_type(engine_type: str) -> exp.DataType:
    known = _COMMON_TYPES.get(engine_type)
    if known is not None:
        return exp.DataType(this=known, nested=False)
    return exp.DataType.build(engine_type, dialect="duckdb")


def data_type(engine_type: str) -> exp.DataType:
    """An engine type by name; parsing the name again for every cast would take most of the compile time."""
    known = _parsed_type(engine_type)
    return known.copy() if known.expressions else exp.DataType(this=known.this, nested=False)


def cast(value: exp.Expr, engine_type: str) -> exp.Expr:
    """A cast that has a value for every value; any other is a try-cast, and the engine's reading is checked for it."""
    return exp.Cast(this=value, to=data_type(engine_type))


def try_cast(value: exp.Expr, engine_type: str) -> exp.Expr:
    """A cast that gives NULL where the value does not fit."""
    return exp.TryCast(this=value, to=data_type(engine_type), requires_string=False)


def when(condition: exp.Expr, value: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Expr:
    """CASE WHEN condition THEN value [ELSE otherwise] END."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def compare(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """One comparison."""
    return kind(this=operand(left), expression=operand(right))


def connected(kind: type[exp.Expr], conditions: tuple[exp.Expr, ...]) -> exp.Expr:
    """Conditions joined by AND or by OR."""
    whole, *others = (c if isinstance(c, kind) else operand(c) for c in conditions)
    for condition in others:
        whole = kind(this=whole, expression=condition)
    return whole


def between(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """Low ≤ value ≤ high; as two comparisons if the value contains a relation, which the engine cannot copy into them."""
    if value.find(exp.Query) is not None:
        first = exp.GTE(this=operand(value), expression=operand(low))
        second = exp.LTE(this=operand(value.copy()), expression=operand(high))
        return exp.Paren(this=exp.And(this=first, expression=second))
    return exp.Between(this=operand(value), low=operand(low), high=operand(high))


def canonical_double(value: exp.Expr) -> exp.Expr:
    """NaN becomes NULL and −0.0 becomes 0.0: after this, equal doubles are the same bits."""
    canonical = let(value, lambda v: when(builtin("isnan", v), exp.Null(), positive_zero(v.copy())))
    canonical.meta[_CANONICAL] = True
    return canonical


def raw_double(value: exp.Expr) -> exp.Expr:
    """The double before it was made canonical: a sum or product of NaN is NaN, so one guard around the whole will do."""
    bound = value.meta.get(_CANONICAL) and isinstance(value, exp.Anonymous)
    return value.expressions[-1] if bound else value


def positive_zero(value: exp.Expr) -> exp.Expr:
    """−0.0 + 0.0 is 0.0, and nothing else changes."""
    return builtin("+", value, number(0.0))


def not_zero(value: exp.Expr) -> exp.Expr:
    """The divisor, NULL where it is zero."""
    if isinstance(value, exp.Literal) and float(value.this) != 0:
        return value
    return let(value, lambda v: when(compare(exp.NEQ, v, number(0)), v.copy()))


def huge(value: exp.Expr) -> exp.Expr:
    """A 64-bit integer with room for sums and products of two."""
    return cast(value, "HUGEINT")


def whole(value: exp.Expr) -> exp.Expr:
    """A 128-bit integer as one of 64 bits, NULL where it does not fit."""
    return try_cast(value, "BIGINT")


def wide_sum(value: exp.Expr) -> exp.Expr:
    """The term of a sum; a nested sum stays wide, because no sum that fits in a query exceeds 128 bits."""
    summed = isinstance(value, exp.TryCast) and value.this.meta.get(_SUM)
    return value.this if summed else huge(value)


def wide_total(name: str, a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """A + b or a - b in 128 bits, NULL where the result does not fit 64."""
    total = builtin(name, wide_sum(a), wide_sum(b))
    total.meta[_SUM] = True
    return whole(total)


def clamped(value: exp.Expr, low: int, high: int) -> exp.Expr:
    """The integer, moved into [low, high]; NULL stays NULL (the engine's LEAST and GREATEST skip it)."""
    if isinstance(value, exp.Literal):
        return number(min(max(int(value.this), low), high))
    return let(
        value,
        lambda v: exp.Case(
            ifs=[
                exp.If(this=compare(exp.GT, v, number(high)), true=number(high)),
                exp.If(this=compare(exp.LT, v.copy(), number(low)), true=number(low)),
            ],
            default=v.copy(),
        ),
    )


FIRST_DAY = "0001-01-01"
LAST_DAY = "9999-12-31"


def in_calendar(value: exp.Expr, engine_type: str) -> exp.Expr:
    """The date or timestamp, NULL outside the years 1 to 9999 (the engine's infinities included)."""
    low, high = (cast(text(day), engine_type) for day in (FIRST_DAY, LAST_DAY))
    if engine_type == "TIMESTAMP":
        high = cast(text(f"{LAST_DAY} 23:59:59.999999"), engine_type)
    return let(value, lambda v: when(between(v, low, high), v.copy()))


def in_day(value: exp.Expr) -> exp.Expr:
    """The time, NULL if invalid: before midnight or after the last microsecond."""
    first, last = (cast(text(moment), "TIME") for moment in ("00:00:00", "23:59:59.999999"))
    return let(value, lambda v: when(between(v, first, last), v.copy()))


def calendar_date(value: exp.Expr) -> exp.Expr:
    """The date, NULL outside the calendar."""
    return in_calendar(value, "DATE")


def calendar_timestamp(value: exp.Expr) -> exp.Expr:
    """The timestamp, NULL outside the calendar."""
    return in_calendar(value, "TIMESTAMP")


def within(amount: exp.Expr, most: int) -> exp.Expr:
    """The amount as a 32-bit integer, NULL beyond ± most."""
    return try_cast(let(amount, lambda v: when(between(v, number(-most), number(most)), v.copy())), "INTEGER")


EARLIEST_INSTANT = -62_135_596_800_000_000
LATEST_INSTANT = 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds since 1970."""


def instant(microseconds: exp.Expr) -> exp.Expr:
    """Microseconds since 1970 as a timestamp; NULL outside the years 1 to 9999."""
    low, high = number(EARLIEST_INSTANT), number(LATEST_INSTANT)
    inside = let(microseconds, lambda v: when(between(v, low, high), v.copy()))
    return builtin("make_timestamp", try_cast(inside, "BIGINT"))
