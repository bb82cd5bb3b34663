"""Integer weights for an ε: what every randomiser of the local model is made of, rounded so that the promise holds exactly.

A report that a value *supports* has weight w₁ = ⌊e^ε·w₀⌋, any other w₀. Two values give one report with chances in the
ratio w₁ : w₀ at most, so the realised loss is ln(w₁/w₀) ≤ ε, with no rounding left to argue about. Estimators use the same
rationals.

    >>> weights_for(Fraction(1)).inside
    2988782477962
    >>> weights_for(Fraction(1)).realised_epsilon <= 1
    True
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from shoal import params
from shoal.errors import ShoalError
from shoal.exact import Number, as_fraction, float_below
from shoal.frozen import dataclass
from shoal.mechanisms.sampling.inversion import enclose_exp

LARGEST_EPSILON = Fraction(40)
SMALL_EPSILON = Fraction(1, 1 << 30)
"""Below it 40 binary places would round a good part of ε away, and 80 are taken."""
DOUBTFUL_EPSILON = 5


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of a report that the own value supports, and of any other."""

    inside: int
    outside: int

    @property
    def ratio(self) -> Fraction:
        """w₁/w₀, which replaces e^ε in every formula."""
        return Fraction(self.inside, self.outside)

    @property
    def realised_epsilon(self) -> float:
        """ln(w₁/w₀), rounded down."""
        return log_below(self.ratio)


def checked_epsilon(value: object, option: str = "epsilon") -> Fraction:
    """An ε of the local model: from 1e-10 to 40."""
    epsilon = params.epsilon(value, option=option)
    if epsilon > LARGEST_EPSILON:
        raise ShoalError(
            "E_OPTION_INVALID",
            f"{option} must be from 1e-10 to 40 in the local model; got {float(epsilon):g}.",
            hint=f"Write {option} = 1. From 10 on a report says almost everything about its sender.",
        )
    return epsilon


def places(epsilon: Fraction) -> int:
    """Binary places of the weights for this ε."""
    return 80 if epsilon < SMALL_EPSILON else 40


def weights_for(epsilon: Fraction) -> Weights:
    """(⌊e^ε·w₀⌋, w₀), w₀ = 2⁴⁰, or 2⁸⁰ for tiny ε."""
    outside = 1 << places(epsilon)
    return Weights(floor_exp(epsilon, outside), outside)


def floor_exp(epsilon: Fraction, scale: int) -> int:
    """⌊e^ε·scale⌋, for certain: e^ε is irrational, so more digits always decide."""
    digits = 60
    while True:
        context = Context(prec=digits)
        power = Fraction(context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))))
        slack = power * Fraction(1, 10 ** (digits - 5))
        low, high = math.floor((power - slack) * scale), math.floor((power + slack) * scale)
        if low == high:
            return low
        digits *= 2


def ratio_above(step: Fraction) -> tuple[int, int]:
    """(⌈e^{−step}·2^b⌉, 2^b): the ratio of the geometric mechanism, rounded towards more noise."""
    bits = places(step)
    low, high = enclose_exp(step, bits + 64)
    return max(-(-low >> 64), -(-high >> 64)), 1 << bits


def log_below(ratio: Fraction) -> float:
    """ln(ratio) as a float that is not above it, for ratio ≥ 1."""
    if ratio == 1:
        return 0.0
    context = Context(prec=60)
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    logarithm = Fraction(context.ln(quotient))
    return float_below(max(Fraction(0), logarithm - Fraction(1, 10**45)))


def from_keep_probability(probability: Number) -> float:
    """The ε of randomized response that is truthful with this chance ½ + γ: ln((½ + γ)/(½ − γ)), rounded up.

    >>> round(from_keep_probability(0.75), 6)
    1.098612
    """
    try:
        chance = as_fraction(probability)
    except ValueError:
        chance = Fraction(0)
    if not Fraction(1, 2) < chance < 1:
        raise ShoalError(
            "E_USAGE",
            "The chance of a true answer must lie between one half and one.",
            hint="Two coins, truth unless both decide otherwise: from_keep_probability(0.75).",
        )
    return math.nextafter(log_below(chance / (1 - chance)), math.inf)


def warnings_about(epsilon: Fraction | float) -> str | None:
    """What to say about a large ε: one report practically reveals its value."""
    if epsilon <= DOUBTFUL_EPSILON:
        return None
    if epsilon < params.PROTECTS_UP_TO:
        return f"ε = {float(epsilon):g} is large for a single report: it deserves suspicion."
    return params.warning_about(epsilon) or f"ε = {float(epsilon):g} protects nobody: use it only on data you may see."


def fraction_text(value: Fraction) -> str:
    """An exact number in a question: decimal where that is exact, a quotient otherwise.

    >>> fraction_text(Fraction(1, 4)), fraction_text(Fraction(1, 3))
    ('0.25', '1/3')
    """
    context = Context(prec=60, rounding=ROUND_FLOOR)
    decimal = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{decimal.normalize(context):f}" if Fraction(decimal) == value else str(value)
