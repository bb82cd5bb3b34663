"""Numbers: every function is total. Undefined results (overflow, division by zero, outside the domain) are NULL.

Integers are 64 bits wide; sums and products are formed in 128 bits and are NULL when they do not fit. Doubles follow
IEEE 754, except that NaN is NULL and −0.0 is 0.0; infinities are values, and clamp to a bound later. Decimals become
doubles in arithmetic.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import DOUBLE, INTEGER, Kind
from shoal.sql.functions import forms
from shoal.sql.functions.forms import (
    builtin,
    canonical_double,
    cast,
    compare,
    huge,
    let,
    let_many,
    not_zero,
    number,
    raw_double,
    when,
    whole,
    wide_total,
)
from shoal.sql.functions.overloads import Constant, Function, Overload, checked_count, overloaded, wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.sql.functions.forms import Body
    from shoal.sql.functions.overloads import Bind

DIGITS = 15
"""The most digits ROUND and TRUNC keep or drop."""

_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}


def _integer_product(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """One wide factor makes the product wide."""
    return whole(builtin("*", a, huge(b)))


def _integer_total(name: str) -> Body:
    return lambda a, b: wide_total(name, a, b)


def _double_pair(name: str) -> Body:
    return lambda a, b: canonical_double(builtin(name, raw_double(a), raw_double(b)))


def folded(call: Call) -> Expression:
    """Sums, differences and products of constants, and signs of constants, as constants."""
    values = [a.value for a in call.arguments if isinstance(a, Literal)]
    if len(values) < len(call.arguments) or None in values:
        return call
    if call.function == "negate":
        return _literal(-values[0], call)
    return _literal(_EXACT[call.function](*values), call)


def _literal(value: Any, call: Call) -> Expression:
    fits = not isinstance(value, int) or abs(value) <= forms.LARGEST_INTEGER
    if isinstance(value, float):
        fits, value = not math.isnan(value), value + 0.0
    return Literal(value if fits else None, call.type, call.position)


def _folding(bind: Bind) -> Bind:
    def bound(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        call = bind(function, arguments, position)
        return folded(call) if isinstance(call, Call) else call

    return bound


def _pair(name: str, sign: str, meaning: str, of_integers: Body) -> Function:
    function = overloaded(
        name,
        f"a {sign} b",
        meaning,
        Overload((INTEGER, INTEGER), INTEGER, of_integers),
        Overload((DOUBLE, DOUBLE), DOUBLE, _double_pair(sign)),
    )
    return replace(function, bind=_folding(function.bind), operator=True)


def _negated_integer(value: exp.Expr) -> exp.Expr:
    return whole(builtin("-", huge(value)))


def _bind_negate(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 1, 1, position)
    (value,) = arguments
    if not value.type.is_numeric:
        raise wrong_arguments(function, arguments, position)
    return folded(Call(function.name, arguments, value.type.plain(), position))


def _negate(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    (value,) = arguments
    if call.type.kind is Kind.INTEGER:
        return _negated_integer(value)
    if call.type.kind is Kind.DECIMAL:
        return cast(builtin("-", value), f"DECIMAL({call.type.precision}, {call.type.scale})")
    return forms.positive_zero(builtin("-", value))


def _quotient(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return canonical_double(builtin("/", a, not_zero(b)))


def _whole_quotient(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """Only -2⁶³ // -1 overflows; 64-bit division is ten times as fast as 128-bit."""
    if _is_plain_divisor(b):
        return builtin("//", cast(a, "BIGINT"), b)
    return let_many(
        [a, b],
        lambda v, w: when(
            compare(exp.EQ, w, number(-1)), _negated_integer(v), builtin("//", v.copy(), _divisor(w.copy()))
        ),
    )


def _whole_remainder(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """The remainder by -1 equals the remainder by 1."""
    if _is_plain_divisor(b):
        return builtin("%", cast(a, "BIGINT"), b)
    return builtin(
        "%", cast(a, "BIGINT"), let(b, lambda w: when(compare(exp.EQ, w, number(-1)), number(1), _divisor(w)))
    )


def _is_plain_divisor(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and int(value.this) != 0


def _divisor(value: exp.Expr) -> exp.Expr:
    """Neither 0 nor -1."""
    return when(exp.Not(this=exp.In(this=value, expressions=[number(0), number(-1)])), cast(value.copy(), "BIGINT"))


def _double_remainder(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return canonical_double(builtin("%", a, not_zero(b)))


def _inside(condition: Callable[[exp.Expr], exp.Expr], name: str) -> Body:
    """The function where the condition holds, NULL elsewhere."""
    return lambda x: canonical_double(let(x, lambda v: builtin(name, when(condition(v), v.copy()))))


def _positive(value: exp.Expr) -> exp.Expr:
    return compare(exp.GT, value, number(0))


def _not_negative(value: exp.Expr) -> exp.Expr:
    return compare(exp.GTE, value, number(0))


def _unit(value: exp.Expr) -> exp.Expr:
    return forms.between(value, number(-1), number(1))


def _finite(value: exp.Expr) -> exp.Expr:
    return builtin("isfinite", value)


def _logarithm(value: exp.Expr, base: exp.Expr) -> exp.Expr:
    """ln(value) / ln(base), as one quotient so that all engines agree."""
    return canonical_double(builtin("/", _natural(value), not_zero(_natural(base))))


def _natural(value: exp.Expr) -> exp.Expr:
    return let(value, lambda v: builtin("ln", when(_positive(v), v.copy())))


def _power(base: exp.Expr, exponent: exp.Expr) -> exp.Expr:
    """0 to a negative power is a division by zero: NULL."""

    def guarded(v: exp.Expr, w: exp.Expr) -> exp.Expr:
        pole = forms.connected(exp.And, (compare(exp.EQ, v, number(0)), compare(exp.LT, w, number(0))))
        return when(pole, exp.Null(), builtin("pow", v.copy(), w.copy()))

    return canonical_double(let_many([base, exponent], guarded))


def _real(name: str, meaning: str, form: Body | None = None, *, aliases: tuple[str, ...] = ()) -> Function:
    """A function of one double."""
    written = form or (lambda x: canonical_double(builtin(name, x)))
    return overloaded(name, f"{name.upper()}(x)", meaning, Overload((DOUBLE,), DOUBLE, written), aliases=aliases)


def _few_digits(digits: int) -> str | None:
    return None if abs(digits) <= DIGITS else f"The number of digits must be between -{DIGITS} and {DIGITS}."


def _unchanged(value: exp.Expr, *_: exp.Expr) -> exp.Expr:
    return value


def _rounding(name: str, meaning: str, *, digits: bool, aliases: tuple[str, ...] = ()) -> Function:
    """ROUND, TRUNC, FLOOR, CEIL: integers are whole already."""
    whole = [
        Overload((INTEGER,), INTEGER, _unchanged),
        Overload((DOUBLE,), DOUBLE, lambda x: canonical_double(builtin(name, x))),
    ]
    with_digits = Overload(
        (DOUBLE, Constant(INTEGER, _few_digits)), DOUBLE, lambda x, n: canonical_double(builtin(name, x, n))
    )
    usage = f"{name.upper()}(x [, digits])" if digits else f"{name.upper()}(x)"
    return overloaded(name, usage, meaning, *whole, *([with_digits] if digits else []), aliases=aliases)


def _sign_of(value: exp.Expr) -> exp.Expr:
    return cast(builtin("sign", value), "BIGINT")


SUM = _pair("add", "+", "The sum.", _integer_total("+"))
DIFFERENCE = _pair("subtract", "-", "The difference.", _integer_total("-"))
"""Both also move dates: shifts.py completes them."""

NEGATE = Function("negate", "-x", "The number with the other sign.", _bind_negate, _negate, operator=True)

FUNCTIONS = (
    NEGATE,
    _pair("multiply", "*", "The product; NULL when it does not fit.", _integer_product),
    replace(
        overloaded(
            "divide",
            "a / b",
            "The quotient, a double also for integers; NULL when b is 0.",
            Overload((DOUBLE, DOUBLE), DOUBLE, _quotient),
        ),
        operator=True,
        aliases=("safe_divide", "fdiv"),
    ),
    replace(
        overloaded(
            "integer_divide",
            "a // b",
            "The whole quotient of two integers, rounded towards zero; NULL when b is 0.",
            Overload((INTEGER, INTEGER), INTEGER, _whole_quotient),
        ),
        operator=True,
        aliases=("div",),
    ),
    replace(
        overloaded(
            "modulo",
            "a % b",
            "The remainder, with the sign of a; NULL when b is 0.",
            Overload((INTEGER, INTEGER), INTEGER, _whole_remainder),
            Overload((DOUBLE, DOUBLE), DOUBLE, _double_remainder),
        ),
        operator=True,
        aliases=("mod", "fmod"),
    ),
    overloaded(
        "abs",
        "ABS(x)",
        "The number without its sign.",
        Overload((INTEGER,), INTEGER, lambda x: whole(builtin("abs", huge(x)))),
        Overload((DOUBLE,), DOUBLE, lambda x: canonical_double(builtin("abs", x))),
    ),
    overloaded(
        "sign",
        "SIGN(x)",
        "-1, 0 or 1.",
        Overload((INTEGER,), INTEGER, _sign_of),
        Overload((DOUBLE,), INTEGER, _sign_of),
    ),
    _rounding("round", "To the nearest whole number, or to digits; halves go away from zero.", digits=True),
    _rounding("trunc", "Towards zero.", digits=True, aliases=("truncate",)),
    _rounding("floor", "The next whole number below.", digits=False),
    _rounding("ceil", "The next whole number above.", digits=False, aliases=("ceiling",)),
    _real("sqrt", "The square root; NULL for negative numbers.", _inside(_not_negative, "sqrt")),
    _real("cbrt", "The cube root."),
    _real("exp", "e to the power x."),
    _real("ln", "The natural logarithm; NULL unless x > 0.", _inside(_positive, "ln")),
    _real("log10", "The logarithm to base 10; NULL unless x > 0.", _inside(_positive, "log10")),
    _real("log2", "The logarithm to base 2; NULL unless x > 0.", _inside(_positive, "log2")),
    overloaded(
        "log",
        "LOG(x [, base])",
        "The natural logarithm, or that to the given base; NULL unless both are positive and the base is not 1.",
        Overload((DOUBLE,), DOUBLE, _inside(_positive, "ln")),
        Overload((DOUBLE, DOUBLE), DOUBLE, _logarithm),
    ),
    overloaded(
        "pow",
        "POW(x, y)",
        "x to the power y; NULL where that is not a number.",
        Overload((DOUBLE, DOUBLE), DOUBLE, _power),
        aliases=("power",),
    ),
    _real("sin", "The sine; NULL for infinities.", _inside(_finite, "sin")),
    _real("cos", "The cosine; NULL for infinities.", _inside(_finite, "cos")),
    _real("tan", "The tangent; NULL for infinities.", _inside(_finite, "tan")),
    _real("asin", "The inverse sine; NULL outside [-1, 1].", _inside(_unit, "asin")),
    _real("acos", "The inverse cosine; NULL outside [-1, 1].", _inside(_unit, "acos")),
    _real("atan", "The inverse tangent."),
    overloaded(
        "atan2",
        "ATAN2(y, x)",
        "The angle of the point (x, y).",
        Overload((DOUBLE, DOUBLE), DOUBLE, lambda y, x: canonical_double(builtin("atan2", y, x))),
    ),
    _real("sinh", "The hyperbolic sine."),
    _real("cosh", "The hyperbolic cosine."),
    _real("tanh", "The hyperbolic tangent."),
    _real("degrees", "Radians to degrees."),
    _real("radians", "Degrees to radians."),
    overloaded("pi", "PI()", "3.14159…", Overload((), DOUBLE, lambda: number(math.pi))),
)
