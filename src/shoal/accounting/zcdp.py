"""Between zero-concentrated privacy (ρ) and (ε, δ): the tight conversion, both ways, rounded against the analyst.

Floats only pick the order α of the conversion, and every α is valid. What is returned is evaluated in 80 digits, with a
margin far above what their rounding can do.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS = Context(prec=80, Emin=-999999, Emax=999999, traps=[])
_SMALLEST_FOR_RHO, _LARGEST_FOR_RHO = Fraction(1, 10**8), 1000
_LARGEST_SCALE = 10**45
"""Where ε²/2 is as good (its excess is ε³/6 at most), or where there is nothing left to gain."""

_SMALLEST_DELTA = Decimal("1e-400")
"""Smaller ones are rounded up to it, before an exponential can underflow to nothing."""


@remembered(1024)
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The ε of a ρ-zCDP mechanism at δ, rounded up.

    Precondition: ρ ≥ 0, 0 < δ < 1. Formula (Canonne, Kamath, Steinke 2020): for every α > 1,
    ε = αρ + g(α), g(α) = (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α). The best α = 1 + a solves a²ρ + ln(1 + a) = ln(1/δ),
    where the left side grows with a. Postcondition: every ρ-zCDP mechanism is (ε, δ)-private.

    >>> round(float(zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6))), 4)
    5.2215
    """
    if rho < 0 or not 0 < delta < 1:
        raise InternalError("conversion from zCDP needs ρ ≥ 0 and 0 < δ < 1")
    if rho == 0:
        return Fraction(0)
    log_inverse_delta = float(_log_inverse(delta))
    rho_float = float(rho)
    a = _root_of_increasing(lambda a: a * a * rho_float + math.log1p(a) - log_inverse_delta)
    with localcontext(_DIGITS):
        tilt, margin = _conversion_terms(a, delta)
        epsilon = (1 + a) * _decimal(rho) + tilt
        return _tidy(max(epsilon + margin * (1 + _decimal(rho)), Decimal(0)), ROUND_UP)


@remembered(256)
def zcdp_rho_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ, rounded down, such that ρ-zCDP implies (ε, δ)-privacy by the conversion of `zcdp_epsilon`.

    Precondition: ε > 0, 0 < δ < 1. Formula: ρ = (ε − g(α))/α for any α > 1; at the best one, with α = 1 + a,
    ρ = (ln(1/δ) − ln(1 + a))/a², along which ε falls as a grows.
    Postcondition: every ρ-zCDP mechanism is (ε, δ)-private.

    >>> limit = zcdp_rho_limit(Fraction(1), Fraction(1, 10**6))
    >>> zcdp_epsilon(limit, Fraction(1, 10**6)) <= 1, round(float(limit), 5)
    (True, 0.02436)
    """
    if epsilon <= 0 or not 0 < delta < 1:
        raise InternalError("conversion to zCDP needs ε > 0 and 0 < δ < 1")
    log_inverse_delta = float(_log_inverse(delta))
    epsilon_float = float(epsilon)

    def too_private(a: float) -> float:
        rho = (log_inverse_delta - math.log1p(a)) / a / a
        tilt = (log_inverse_delta - math.log1p(a)) / a - math.log1p(1 / a)
        return epsilon_float - ((1 + a) * rho + tilt)

    a = _root_of_increasing(too_private)
    with localcontext(_DIGITS):
        tilt, margin = _conversion_terms(a, delta)
        rho = (_decimal(epsilon) - tilt - margin * (1 + _decimal(epsilon))) / (1 + a)
        return _tidy(max(rho, Decimal(0)), ROUND_DOWN)


@remembered(1024)
def zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The δ of a ρ-zCDP mechanism at ε, rounded up.

    Precondition: ρ ≥ 0, ε ≥ 0. Formula: the one of `zcdp_epsilon`, solved for δ: with α = 1 + a,
    ln(1/δ) = a(ε − (1 + a)ρ + ln(1 + 1/a)) + ln(1 + a), largest where (1 + 2a)ρ − ln(1 + 1/a) = ε; the left side there
    grows with a. Postcondition: every ρ-zCDP mechanism is (ε, δ)-private.

    >>> round(float(zcdp_delta(Fraction(1, 2), Fraction(5))), 8)
    2.9e-06
    """
    if rho < 0 or epsilon < 0:
        raise InternalError("conversion from zCDP needs ρ ≥ 0 and ε ≥ 0")
    if rho == 0:
        return Fraction(0)
    rho_float, epsilon_float = float(rho), float(epsilon)
    a = _root_of_increasing(lambda a: (1 + 2 * a) * rho_float - math.log1p(1 / a) - epsilon_float)
    with localcontext(_DIGITS):
        exponent = a * (_decimal(epsilon) - (1 + a) * _decimal(rho) + (1 + 1 / a).ln()) + (1 + a).ln()
        delta = (-exponent * (1 - Decimal("1e-50"))).exp() * (1 + Decimal("1e-20"))
        return _tidy(min(max(delta, _SMALLEST_DELTA), Decimal(1)), ROUND_UP)


@remembered(1024)
def laplace_rho(shift: int, scale: Fraction) -> Fraction:
    """The ρ of discrete Laplace noise of scale b on one number that is moved by at most s steps, rounded up.

    Formula: ρ = ε − (1 − e^{−ε})/(b·sinh(1/b)), ε = s/b: the Kullback–Leibler divergence, which is ε + e^{−ε} − 1 on a fine grid
    and ε·tanh(ε/2) for s = 1 (docs/theory/accounting.md has the proof that no order α asks for more). It is convex in s and 0 at 0.

    >>> round(float(laplace_rho(1, Fraction(1))), 4), round(float(laplace_rho(2**20, Fraction(2**20))), 4)
    (0.4621, 0.3679)
    """
    if shift <= 0:
        return Fraction(0)
    epsilon, rough = shift / scale, (shift / scale) ** 2 / 2
    if not _SMALLEST_FOR_RHO <= epsilon <= _LARGEST_FOR_RHO or not 1 <= scale * _LARGEST_FOR_RHO <= _LARGEST_SCALE:
        return rough
    with localcontext(_DIGITS):
        rate, loss = _decimal(1 / scale), _decimal(epsilon)
        grown = rate.exp()
        damped = (1 - (-loss).exp()) * rate * 2 / (grown - 1 / grown)
        # Of 80 digits 1 − e^{−ε} loses 8 at most, and sinh 45.
        return min(rough, _tidy(loss - damped * (1 - Decimal("1e-25")) + Decimal("1e-28"), ROUND_UP))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _log_inverse(delta: Fraction) -> Decimal:
    with localcontext(_DIGITS):
        return -_decimal(delta).ln()


def _conversion_terms(a: Decimal, delta: Fraction) -> tuple[Decimal, Decimal]:
    """g(1 + a), and a margin far above what rounding to 80 digits can do to it."""
    log_inverse_delta = _log_inverse(delta)
    tilt = (log_inverse_delta - (1 + a).ln()) / a + (a / (1 + a)).ln()
    margin = Decimal("1e-60") * (1 + 1 / a) * (1 + log_inverse_delta)
    return tilt, margin


def _root_of_increasing(function: Callable[[float], float]) -> Decimal:
    """About where an increasing function crosses zero, between 1e-30 and 1e302, as a number of 15 digits."""
    low, high = math.log(1e-30), math.log(1e302)
    for _ in range(80):
        middle = (low + high) / 2
        if function(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle
    return Decimal(f"{math.exp(low):.14e}")


def _tidy(value: Decimal, rounding: str) -> Fraction:
    """Thirty digits, in the direction that is asked."""
    return Fraction(Context(prec=30, rounding=rounding, Emin=-999999, Emax=999999, traps=[]).plus(value))
