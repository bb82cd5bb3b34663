"""Certified real numbers: decimal arithmetic with 80 digits, and results as bounds that contain the truth.

Every public function returns an `Enclosure`. The working precision is 10^−80 per operation and Decimal's exp, ln and
sqrt are correctly rounded; results are widened by a relative 10^−50 (`around`), which covers the roundings of up to
10^20 operations and of arguments up to 10^20. Truncated series and fractions carry their own bounds.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from decimal import localcontext as decimal_context
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

DIGITS = 80
SCALE_BITS = 40
ARITHMETIC = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, DivisionByZero])
MARGIN = Decimal("1e-50")
SMALLEST = Decimal((0, (1,), MIN_EMIN))
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
SERIES_UP_TO = 6
FRACTION_TERMS = 120


class Enclosure(NamedTuple):
    """A real number between two decimals."""

    lower: Decimal
    upper: Decimal


def arithmetic() -> AbstractContextManager[Context]:
    """Decimal arithmetic with 80 digits and all exponents, for the length of a with-block."""
    return decimal_context(ARITHMETIC)


def around(value: Decimal) -> Enclosure:
    """The bounds of a number ≥ 0 that was computed with a relative error below 10^−50; 0 may be an underflow."""
    with arithmetic():
        return Enclosure(value * (1 - MARGIN), value * (1 + MARGIN) if value else SMALLEST)


def complement(chance: Enclosure) -> Enclosure:
    """The bounds of 1 − p."""
    with decimal_context(ARITHMETIC) as context:
        context.rounding = ROUND_FLOOR
        lower = 1 - chance.upper
        context.rounding = ROUND_CEILING
        return Enclosure(max(lower, Decimal(0)), 1 - chance.lower)


def decimal_near(value: Fraction) -> Decimal:
    """The fraction rounded to 80 digits."""
    return ARITHMETIC.divide(Decimal(value.numerator), Decimal(value.denominator))


def decimal_below(value: Fraction) -> Decimal:
    """A decimal of 80 digits not above the fraction."""
    with decimal_context(ARITHMETIC) as context:
        context.rounding = ROUND_FLOOR
        return Decimal(value.numerator) / Decimal(value.denominator)


def exp_of_minus(exponent: Fraction) -> Enclosure:
    """The bounds of e^{−exponent}, for 0 ≤ exponent ≤ 10^17; beyond that, the bounds say only that it is positive and tiny."""
    if exponent > 10**17:
        return Enclosure(Decimal(0), ARITHMETIC.exp(Decimal(-(10**17))))
    return around(ARITHMETIC.exp(decimal_near(-exponent)))


def normal_tail(point: Decimal) -> Enclosure:
    """The bounds of P[N ≥ point] for a standard normal N.

    Up to 6: 1/2 − φ(z)·Σ z^{2k+1}/(1·3⋯(2k+1)), positive terms, the remainder bounded by a geometric
    series. Beyond: φ(z) times Laplace's continued fraction 1/(z + 1/(z + 2/(z + …))), whose successive truncations
    lie on either side of its value.
    """
    if point < 0:
        return complement(normal_tail(-point))
    with arithmetic():
        density = (-(point * point) / 2).exp() / (2 * PI).sqrt()
        if point <= SERIES_UP_TO:
            return around(Decimal("0.5") - density * _odd_series(point))
        ends = sorted(density * _mills_ratio(point, terms) for terms in (FRACTION_TERMS, FRACTION_TERMS + 1))
        return Enclosure(around(ends[0]).lower, around(ends[1]).upper)


def _odd_series(point: Decimal) -> Decimal:
    """Σ z^{2k+1}/(1·3⋯(2k+1)) up to a relative 10^−78; at most 10^9 for z ≤ 6, so that 1/2 − φ·Σ keeps 60 digits."""
    square = point * point
    term = total = point
    odd = 1
    while term * Decimal("1e78") > total or square * 2 > odd:
        odd += 2
        term = term * square / odd
        total += term
    return total


def _mills_ratio(point: Decimal, terms: int) -> Decimal:
    tail = point
    for numerator in range(terms, 0, -1):
        tail = point + numerator / tail
    return 1 / tail


def round_scale_up(value: Fraction) -> Fraction:
    """The smallest number with 40 binary digits not below the value: exact as a float, and cheap to sample from.

    >>> from fractions import Fraction
    >>> round_scale_up(Fraction(10)), float(round_scale_up(Fraction(1, 3)))
    (Fraction(10, 1), 0.3333333333334849)
    """
    if value <= 0:
        return Fraction(0)
    exponent = SCALE_BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    unit = Fraction(2) ** exponent
    return math.ceil(value * unit) / unit
