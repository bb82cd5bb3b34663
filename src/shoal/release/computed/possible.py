"""What a computed column can be at all: counts are never negative, and a part divided by the sum of all parts is at most 1.

Noise knows no such limits, so that drawn intervals would go past them. The exact number never lies there.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.plan.expressions import Call, Cast, Column, Literal, WindowCall
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.plan.expressions import Expression
    from shoal.release.computed.parts import Parts

Range = tuple[float, float]
ANYTHING: Range = (-math.inf, math.inf)
NEVER_NEGATIVE: Range = (0.0, math.inf)


def possible_values(expression: Expression, known: Mapping[str, Range], parts: Parts = frozenset()) -> Range:
    """The least and the greatest value, given those of the columns that it reads, and which of them are `parts` of others.

    >>> from shoal.plan.types import DOUBLE
    >>> n = Column("n", DOUBLE)
    >>> share = Call("divide", (n, WindowCall("sum", (n,), (), (), None, DOUBLE)), DOUBLE)
    >>> possible_values(Call("multiply", (Literal(100, DOUBLE), share), DOUBLE), {"n": NEVER_NEGATIVE})
    (0.0, 100.0)
    """
    match expression:
        case Column():
            return known.get(expression.symbol, ANYTHING)
        case Literal() if (constant := _constant(expression)) is not None:
            return constant, constant
        case Cast():
            inner = possible_values(expression.value, known, parts)
            return _rounded(inner) if expression.type.kind is Kind.INTEGER else inner
        case Call(function="round", arguments=(first, *_)):
            return _rounded(possible_values(first, known, parts))
        case Call(function="nullif", arguments=(first, *_)):
            return possible_values(first, known, parts)
        case Call(function="multiply", arguments=(first, second)):
            return _product(possible_values(first, known, parts), possible_values(second, known, parts))
        case Call(function="divide", arguments=(first, second)):
            return _quotient(first, second, known, parts)
        case WindowCall(function="sum" | "avg" | "min" | "max", arguments=(value,)):
            least, greatest = possible_values(value, known, parts)
            return (least, greatest) if expression.function != "sum" else NEVER_NEGATIVE if least >= 0 else ANYTHING
    return ANYTHING


def _rounded(values: Range) -> Range:
    """To whole numbers, outwards: whatever digits are kept, no value goes past them."""
    least, greatest = values
    return (
        math.floor(least) if math.isfinite(least) else least,
        math.ceil(greatest) if math.isfinite(greatest) else greatest,
    )


def _product(first: Range, second: Range) -> Range:
    """Of two numbers that are never negative; anything else is not worked out."""
    if first[0] < 0 or second[0] < 0:
        return ANYTHING
    most = first[1] * second[1] if first[1] and second[1] else 0.0
    return first[0] * second[0], most


def _quotient(part: Expression, whole: Expression, known: Mapping[str, Range], parts: Parts) -> Range:
    """A part of a sum is at most 1 of it, if no other part is negative; so is a number that is part of another."""
    if min(possible_values(part, known, parts)[0], possible_values(whole, known, parts)[0]) < 0:
        return ANYTHING
    factor, counted = _without_factor(part)
    divisor, total = _without_factor(whole)
    if isinstance(total, WindowCall) and total.function == "sum" and total.frame is None:
        of_each, summed = _without_factor(total.arguments[0])
        if summed == counted and divisor * of_each > 0:
            return 0.0, factor / (divisor * of_each)
    if isinstance(counted, Column) and isinstance(total, Column) and (counted.symbol, total.symbol) in parts:
        return (0.0, factor / divisor) if divisor > 0 else NEVER_NEGATIVE
    return NEVER_NEGATIVE


def _without_factor(expression: Expression) -> tuple[float, Expression]:
    """An expression as a constant times the rest; types aside."""
    match expression:
        case Cast() if expression.type.kind is not Kind.INTEGER or expression.value.type.kind is Kind.INTEGER:
            return _without_factor(expression.value)
        case Call(function="nullif", arguments=(first, *_)):
            return _without_factor(first)
        case Call(function="multiply", arguments=(first, second)):
            for constant, rest in ((first, second), (second, first)):
                if (number := _constant(constant)) is not None:
                    factor, inner = _without_factor(rest)
                    return number * factor, inner
    return 1.0, expression


def _constant(expression: Expression) -> float | None:
    while isinstance(expression, Cast):
        expression = expression.value
    if not isinstance(expression, Literal) or isinstance(expression.value, bool):
        return None
    return float(expression.value) if isinstance(expression.value, (int, float, Fraction)) else None
