"""Building blocks of engine expressions: qualified built-ins, let-bindings, and the guards that make functions total.

In DuckDB a macro named `+`, `||`, `LIKE` or `sum` shadows the built-in, for operators too. So everything that the
engine looks up by name is written `system.main."+"(a, b)`. Comparisons, AND, OR, NOT, IS NULL, CASE, CAST, COALESCE,
BETWEEN and IN are syntax: nothing can stand in their way.

A guard needs its value twice (`CASE WHEN x >= 0 THEN sqrt(x) END`). Writing a value twice doubles the text at every
level of nesting, so a value that is more than a column is bound once: `system.main.invoke(LAMBDA v : …, value)`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = Callable[..., exp.Expression]

LONGEST_TEXT = 1 << 20
"""Bytes; a text that a function makes longer than this is NULL, so that no row can exhaust the memory."""

LARGEST_INTEGER = (1 << 63) - 1

_depth = ContextVar("depth of let-bindings", default=0)

_ATOMS = (exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean)
_CLOSED = (*_ATOMS, exp.Dot, exp.Func, exp.Paren, exp.Case, exp.Neg, exp.Window, exp.Filter)


def builtin(name: str, *arguments: exp.Expression) -> exp.Expression:
    """A call that no macro can shadow.

    >>> builtin("+", exp.column("a"), number(1)).sql("duckdb")
    'system.main."+"(a, 1)'
    """
    function = exp.Anonymous(this=exp.to_identifier(name, quoted=not name.isidentifier()), expressions=list(arguments))
    return exp.Dot.build([exp.to_identifier("system"), exp.to_identifier("main"), function])


def let(value: exp.Expression, body: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """The body, with the value in it as often as it likes and evaluated once.

    >>> let(exp.column("a"), lambda v: builtin("+", v, v.copy())).sql("duckdb")
    'system.main."+"(a, a)'
    >>> let(builtin("sqrt", exp.column("a")), lambda v: builtin("+", v, v.copy())).sql("duckdb")
    'system.main.invoke(LAMBDA v : system.main."+"(v, v), system.main.sqrt(a))'
    """
    return let_many([value], body)


def let_many(values: list[exp.Expression], body: Callable[..., exp.Expression]) -> exp.Expression:
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
    """v, w, x, … for the values of one binding; a binding inside the body of another has names of its own."""
    return f"{chr(ord('v') + index)}{level or ''}"


def is_atom(value: exp.Expression) -> bool:
    """Whether writing the value twice costs nothing."""
    if isinstance(value, (exp.Neg, exp.Cast)):
        return isinstance(value.this, (exp.Literal, exp.Null)) or (isinstance(value, exp.Cast) and is_atom(value.this))
    return isinstance(value, _ATOMS)


def operand(value: exp.Expression) -> exp.Expression:
    """The value, in parentheses where an operator beside it could tear it apart."""
    return value if isinstance(value, _CLOSED) else exp.Paren(this=value)


def number(value: float) -> exp.Expression:
    """A constant; a float keeps an exponent, so that the engine reads a double and not a decimal."""
    if isinstance(value, int):
        return exp.Literal.number(value) if value >= -LARGEST_INTEGER else cast(text(str(value)), "BIGINT")
    if value in (float("inf"), float("-inf")):
        return cast(text(str(value)), "DOUBLE")
    digits = repr(abs(value))
    literal = exp.Literal.number(digits if "e" in digits else f"{digits}e0")
    return exp.Neg(this=literal) if value < 0 else literal


def text(value: str) -> exp.Expression:
    """A text constant."""
    return exp.Literal.string(value)


def null(engine_type: str) -> exp.Expression:
    """A NULL that knows its type."""
    return cast(exp.Null(), engine_type)


def cast(value: exp.Expression, engine_type: str) -> exp.Expression:
    """A cast that cannot fail."""
    return exp.Cast(this=value, to=exp.DataType.build(engine_type, dialect="duckdb"))


def try_cast(value: exp.Expression, engine_type: str) -> exp.Expression:
    """A cast that gives NULL where the value does not fit."""
    return exp.TryCast(this=value, to=exp.DataType.build(engine_type, dialect="duckdb"), requires_string=False)


def when(condition: exp.Expression, value: exp.Expression, otherwise: exp.Expression | None = None) -> exp.Expression:
    """CASE WHEN condition THEN value [ELSE otherwise] END."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def compare(kind: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """One comparison."""
    return kind(this=operand(left), expression=operand(right))


def connected(kind: type[exp.Expression], conditions: tuple[exp.Expression, ...]) -> exp.Expression:
    """Conditions joined by AND or by OR."""
    whole, *others = (operand(condition) for condition in conditions)
    for condition in others:
        whole = kind(this=whole, expression=condition)
    return whole


def between(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """Low ≤ value ≤ high."""
    return exp.Between(this=operand(value), low=operand(low), high=operand(high))


def canonical_double(value: exp.Expression) -> exp.Expression:
    """NaN becomes NULL and −0.0 becomes 0.0: after this, equal doubles are the same bits."""
    return let(value, lambda v: when(builtin("isnan", v), exp.Null(), positive_zero(v.copy())))


def positive_zero(value: exp.Expression) -> exp.Expression:
    """−0.0 + 0.0 is 0.0, and nothing else changes."""
    return builtin("+", value, number(0.0))


def not_zero(value: exp.Expression) -> exp.Expression:
    """The divisor, NULL where it is zero."""
    if isinstance(value, exp.Literal) and float(value.this) != 0:
        return value
    return let(value, lambda v: when(compare(exp.NEQ, v, number(0)), v.copy()))


def huge(value: exp.Expression) -> exp.Expression:
    """A 64-bit integer with room for sums and products of two."""
    return cast(value, "HUGEINT")


def bounded_text(value: exp.Expression) -> exp.Expression:
    """The text, NULL where it is longer than `LONGEST_TEXT`."""
    return let(value, lambda v: when(compare(exp.LTE, builtin("strlen", v), number(LONGEST_TEXT)), v.copy()))


def clamped(value: exp.Expression, low: int, high: int) -> exp.Expression:
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


def in_calendar(value: exp.Expression, engine_type: str) -> exp.Expression:
    """The date or timestamp, NULL outside the years 1 to 9999 (the engine's infinities included)."""
    low, high = (cast(text(day), engine_type) for day in (FIRST_DAY, LAST_DAY))
    if engine_type == "TIMESTAMP":
        high = cast(text(f"{LAST_DAY} 23:59:59.999999"), engine_type)
    return let(value, lambda v: when(between(v, low, high), v.copy()))


def calendar_date(value: exp.Expression) -> exp.Expression:
    """The date, NULL outside the calendar."""
    return in_calendar(value, "DATE")


def calendar_timestamp(value: exp.Expression) -> exp.Expression:
    """The timestamp, NULL outside the calendar."""
    return in_calendar(value, "TIMESTAMP")


def within(amount: exp.Expression, most: int) -> exp.Expression:
    """The amount as a 32-bit integer, NULL beyond ± most."""
    return cast(let(amount, lambda v: when(between(v, number(-most), number(most)), v.copy())), "INTEGER")


EARLIEST_INSTANT = -62_135_596_800_000_000
LATEST_INSTANT = 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds since 1970."""


def instant(microseconds: exp.Expression) -> exp.Expression:
    """Microseconds since 1970 as a timestamp; NULL outside the years 1 to 9999."""
    low, high = number(EARLIEST_INSTANT), number(LATEST_INSTANT)
    inside = let(microseconds, lambda v: when(between(v, low, high), v.copy()))
    return builtin("make_timestamp", cast(inside, "BIGINT"))
