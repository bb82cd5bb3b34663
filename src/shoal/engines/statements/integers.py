"""Integer arithmetic as SQL that every engine computes alike: steps of a grid, clamps, floors, keyed mixing, bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.relations import call
from shoal.errors import InternalError
from shoal.plan.measures import SATURATION_BITS
from shoal.plan.totals import MASK
from shoal.plan.types import DOUBLE, Kind, Type
from shoal.sql import functions
from shoal.sql.functions.forms import cast, try_cast

if TYPE_CHECKING:
    from fractions import Fraction


LARGEST_WIDE = 2**127


def integer(value: int) -> exp.Expr:
    """A wide integer literal; engines read small ones faster. What none can read is found out here, not at the first row."""
    check_width(value)
    literal: exp.Expr = exp.Literal.number(abs(value))
    if value < 0:
        literal = exp.Neg(this=literal)
    return cast(literal, "HUGEINT")


def check_width(value: int) -> None:
    """InternalError for an integer that cannot be written."""
    if abs(value) >= LARGEST_WIDE:
        raise InternalError("a number is too large for any engine")


def wide(value: exp.Expr) -> exp.Expr:
    """A 128-bit integer."""
    return cast(value, "HUGEINT")


def masked(value: exp.Expr) -> exp.Expr:
    """Value mod 2⁶²."""
    return exp.BitwiseAnd(this=exp.Paren(this=value), expression=integer(MASK))


def mixed(value: exp.Expr) -> exp.Expr:
    """x·(⌊x/2³¹⌋ | 1) mod 2⁶²: keys in a row, such as days, are no longer in a row, or the outer ones would be picked more."""
    high = exp.IntDiv(this=exp.Paren(this=value.copy()), expression=integer(2**31))
    return masked(times(value, exp.BitwiseOr(this=exp.Paren(this=high), expression=integer(1))))


def times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left · right."""
    return exp.Mul(this=exp.Paren(this=left), expression=exp.Paren(this=right))


def plus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left + right."""
    return exp.Add(this=exp.Paren(this=left), expression=exp.Paren(this=right))


def clamped(value: exp.Expr, lower: int, upper: int) -> exp.Expr:
    """The value, at least lower and at most upper."""
    return call("least", call("greatest", value, integer(lower)), integer(upper))


def floor_divided(value: exp.Expr, divisor: int) -> exp.Expr:
    """⌊value / divisor⌋ for a positive divisor, whatever the engine's own division does with negative numbers."""
    remainder = exp.Mod(this=exp.Paren(this=value), expression=integer(divisor))
    positive = exp.Mod(this=exp.Paren(this=plus(remainder, integer(divisor))), expression=integer(divisor))
    return exp.IntDiv(
        this=exp.Paren(this=exp.Sub(this=exp.Paren(this=value.copy()), expression=exp.Paren(this=positive))),
        expression=integer(divisor),
    )


def exists(condition: exp.Expr) -> exp.Expr:
    """1 when the condition holds, else 0."""
    return exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))


def not_null(value: exp.Expr) -> exp.Expr:
    """Value IS NOT NULL."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left IS NOT DISTINCT FROM right."""
    return exp.NullSafeEQ(this=left, expression=right)


def on_grid(value: exp.Expr, type_: Type, row_grid: Fraction) -> exp.Expr:
    """A row's number in steps: ⌊x/grid + ½⌋, saturated; integers stay what they are, and NULL stays NULL."""
    if type_.kind is Kind.INTEGER and row_grid == 1:
        return wide(value)
    scaled = times(functions.cast_form(value, type_, DOUBLE), functions.double_form(float(1 / row_grid)))
    limit = functions.double_form(float(2**SATURATION_BITS))
    # LEAST and GREATEST would skip NULL and make a missing value the smallest of all.
    saturated = exp.Case(
        ifs=[
            exp.If(this=exp.GTE(this=scaled, expression=limit), true=limit.copy()),
            exp.If(this=exp.LTE(this=scaled.copy(), expression=exp.Neg(this=limit.copy())), true=exp.Neg(this=limit)),
        ],
        default=scaled.copy(),
    )
    return try_cast(call("floor", plus(saturated, functions.double_form(0.5))), "HUGEINT")


def log_bin(value: exp.Expr, top: int) -> exp.Expr:
    """0 for 0, else ±(1 + ⌊log₂|v|⌋), at most ±top: a float logarithm, mended where it rounds across a power of two."""
    size = call("least", call("abs", value), integer(2 ** (SATURATION_BITS + 30)))
    logarithm = call("log2", cast(call("greatest", size, integer(1)), "DOUBLE"))
    guess = try_cast(call("floor", logarithm), "INTEGER")
    low_power = exp.BitwiseLeftShift(this=integer(1), expression=exp.Paren(this=guess))
    too_high = exists(exp.GT(this=low_power, expression=size.copy()))
    high_power = exp.BitwiseLeftShift(this=integer(2), expression=exp.Paren(this=guess.copy()))
    too_low = exists(exp.LTE(this=high_power, expression=size.copy()))
    number = plus(
        exp.Sub(this=exp.Paren(this=guess.copy()), expression=exp.Paren(this=too_high)),
        plus(too_low, exp.Literal.number(1)),
    )
    number = call("least", number, exp.Literal.number(top))
    return exp.Case(
        ifs=[
            exp.If(this=exp.EQ(this=value.copy(), expression=exp.Literal.number(0)), true=exp.Literal.number(0)),
            exp.If(
                this=exp.LT(this=value.copy(), expression=exp.Literal.number(0)),
                true=exp.Neg(this=exp.Paren(this=number)),
            ),
        ],
        default=number.copy(),
    )
