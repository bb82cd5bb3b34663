"""What a mechanism costs, as δ(ε): the exact privacy profile of the losses that claims are made of.

A profile says for every ε the smallest δ such that (ε, δ)-privacy holds. Each class here is one worst pair of outputs:
`delta_at` and `epsilon_at` walk along its profile, `renyi_at` is its Rényi divergence of order α > 1. All of it is
evaluated in 80 digits and rounded up, so that a claim made from it is valid.

    >>> round(float(Gaussian(Fraction(1)).delta_at(Fraction(1))), 7)
    0.1269367
    >>> round(float(Gaussian(Fraction(1, 2)).epsilon_at(Fraction(1, 10**6))), 6)
    2.254085
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from shoal.errors import InternalError
from shoal.exact import float_above
from shoal.frozen import dataclass
from shoal.mechanisms.certified import arithmetic, normal_tail

if TYPE_CHECKING:
    from collections.abc import Callable

_MARGIN = Decimal("1e-30")
"""Relative, and far above what roundings to 80 digits can do to the formulas of this module."""
_CANCELLED = Decimal("1e-70")
"""Absolute, for differences of numbers around 1: far above what 80 digits lose in them."""
_KEPT_BITS = 120
_SMALLEST = Decimal("1e-400")
"""Smaller numbers are rounded up to it, or down to 0."""
_SMALLEST_DELTA = Fraction(1, 10**350)
_HUGE_MU = 10**6
_HUGE_EPSILON = 10**15
"""Beyond these, e^ε has no digits any more; what sampling takes off is nothing beside it."""


class Loss(Protocol):
    """A worst pair of outputs, known by its profile and its Rényi curve."""

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """δ(ε), rounded up."""

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """The smallest ε with δ(ε) ≤ δ, rounded up."""

    def renyi_at(self, order: Decimal) -> Decimal:
        """The Rényi divergence of an order above 1, inside decimal arithmetic; not rounded."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Response:
    """Randomised response: a loss of ±ε, the worst pair of every ε-private mechanism."""

    epsilon: Fraction

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """(e^ε₀ − e^ε)/(1 + e^ε₀).

        >>> round(float(Response(Fraction(1)).delta_at(Fraction(1, 2))), 7)
        0.2876491
        """
        if epsilon >= self.epsilon:
            return Fraction(0)
        with arithmetic():
            own = decimal_of(self.epsilon)
            return above((1 - (decimal_of(epsilon) - own).exp()) / (1 + (-own).exp()) + _CANCELLED)

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """ln(e^ε₀ − δ(1 + e^ε₀)), at least 0."""
        with arithmetic():
            own = decimal_of(self.epsilon)
            left = 1 - decimal_of(delta) * (1 + (-own).exp())
            epsilon = own + left.ln() + _CANCELLED * (1 + own) if left > 0 else Decimal(0)
            return min(above(max(epsilon, Decimal(0))), self.epsilon)

    def renyi_at(self, order: Decimal) -> Decimal:
        """ln((sinh αε − sinh (α−1)ε)/sinh ε)/(α − 1), written without overflow."""
        own = decimal_of(self.epsilon)
        bend = (1 + (-(2 * order - 1) * own).exp()).ln() - (1 + (-own).exp()).ln()
        return own + bend / (order - 1)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale b on a number that moves by Δ: `reach` is Δ/b."""

    reach: Fraction

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """1 − e^{(ε − Δ/b)/2}."""
        if epsilon >= self.reach:
            return Fraction(0)
        with arithmetic():
            return above(1 - (decimal_of(epsilon - self.reach) / 2).exp() + _CANCELLED)

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """Δ/b + 2 ln(1 − δ), at least 0."""
        with arithmetic():
            reach = decimal_of(self.reach)
            epsilon = reach + 2 * (1 - decimal_of(delta)).ln() + _CANCELLED * (1 + reach)
            return min(above(max(epsilon, Decimal(0))), self.reach)

    def renyi_at(self, order: Decimal) -> Decimal:
        """ln(α/(2α−1)·e^{(α−1)Δ/b} + (α−1)/(2α−1)·e^{−αΔ/b})/(α − 1)."""
        reach, twice = decimal_of(self.reach), 2 * order - 1
        mixed = order / twice + (order - 1) / twice * (-twice * reach).exp()
        return reach + mixed.ln() / (order - 1)


@dataclass(frozen=True, slots=True)
class Geometric:
    """Discrete Laplace noise, P[x] ∝ e^{−|x|/b}, on a whole number that moves by `shift`."""

    scale: Fraction
    shift: int

    @property
    def reach(self) -> Fraction:
        """The largest loss."""
        return self.shift / self.scale

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """F(x) − e^ε·F(x − s) at the largest x whose loss (s − 2x)/b is above ε."""
        if epsilon >= self.reach:
            return Fraction(0)
        last = math.ceil((self.shift - epsilon * self.scale) / 2) - 1
        with arithmetic():
            step = (-1 / decimal_of(self.scale)).exp()
            difference = self._below(last, step) - decimal_of(epsilon).exp() * self._below(last - self.shift, step)
            return above(max(difference, Decimal(0)) + _CANCELLED)

    @staticmethod
    def _below(point: int, step: Decimal) -> Decimal:
        """P[X ≤ point]."""
        tail = step ** abs(point + (point >= 0)) / (1 + step)
        return 1 - tail if point >= 0 else tail

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """By bisection."""
        return smallest_epsilon(self.delta_at, delta, self.reach)

    def renyi_at(self, order: Decimal) -> Decimal:
        """Three geometric series: x ≤ 0, 0 < x < s, and x ≥ s."""
        step = (-1 / decimal_of(self.scale)).exp()
        middle_step = step ** (2 * order - 1)
        middle = (middle_step - middle_step**self.shift) / (1 - middle_step)
        rest = (1 + step ** ((2 * order - 1) * self.shift)) / (1 - step)
        mixed = (rest + middle) * (1 - step) / (1 + step)
        return decimal_of(self.reach) + mixed.ln() / (order - 1)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise: telling N(0, 1) from N(μ, 1)."""

    mu: Fraction

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2)."""
        with arithmetic():
            mu, exponent = decimal_of(self.mu), decimal_of(epsilon)
            upper = normal_tail(exponent / mu - mu / 2).upper
            if self.mu > _HUGE_MU:
                return min(Fraction(1), above(upper))
            lower = normal_tail(exponent / mu + mu / 2).lower
            return min(Fraction(1), above(max(upper - exponent.exp() * lower, Decimal(0))))

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """By bisection; for a huge μ, where e^ε has no digits any more, μ²/2 + μ√(2 ln(1/δ))."""
        if self.mu > _HUGE_MU:
            with arithmetic():
                mu, logs = decimal_of(self.mu), -decimal_of(delta).ln()
                return above(mu * mu / 2 + mu * (2 * logs).sqrt())
        return smallest_epsilon(self.delta_at, delta)

    def renyi_at(self, order: Decimal) -> Decimal:
        """αμ²/2."""
        return order * decimal_of(self.mu) ** 2 / 2


@dataclass(frozen=True, slots=True)
class Sampled:
    """Another mechanism, run on a Poisson sample of the people at a rate q (add/remove neighbours)."""

    of: Laplace | Gaussian
    rate: Fraction

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """q·δ(ln(1 + (e^ε − 1)/q))."""
        with arithmetic():
            inner = (1 + (decimal_of(epsilon).exp() - 1) / decimal_of(self.rate)).ln()
            before = _below(inner)
        return self.rate * self.of.delta_at(max(before, Fraction(0)))

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """ln(1 + q(e^ε − 1)) with the ε of the mechanism itself at δ/q."""
        if delta >= self.rate:
            return Fraction(0)
        return amplified(self.of.epsilon_at(delta / self.rate), self.rate)

    def renyi_at(self, order: Decimal) -> Decimal:
        """Gaussian noise at a whole order: ln(Σ_j C(α, j)(1−q)^{α−j} q^j e^{j(j−1)μ²/2})/(α − 1)."""
        if not isinstance(self.of, Gaussian):
            return Decimal("Infinity")
        if self.rate == 1 or self.of.mu > _HUGE_MU:
            return self.of.renyi_at(order)
        whole, rate, mu = int(order), decimal_of(self.rate), decimal_of(self.of.mu)
        terms = (
            math.comb(whole, j) * (1 - rate) ** (whole - j) * rate**j * (j * (j - 1) * mu * mu / 2).exp()
            for j in range(whole + 1)
        )
        return sum(terms, Decimal(0)).ln() / (order - 1)


def is_bounded(loss: Loss) -> bool:
    """Whether the loss has a largest value, so that there is an ε at δ = 0."""
    return not isinstance(loss.of if isinstance(loss, Sampled) else loss, Gaussian)


def amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """ln(1 + q(e^ε − 1)), rounded up: the ε that is left when only a share q of the people is looked at.

    >>> round(float(amplified(Fraction(1), Fraction(1, 100))), 8)
    0.01703686
    """
    if epsilon > _HUGE_EPSILON:
        return epsilon
    with arithmetic():
        share = decimal_of(rate)
        return min(above((1 + share * (decimal_of(epsilon).exp() - 1)).ln() + _CANCELLED), epsilon)


def smallest_epsilon(
    delta_at: Callable[[Fraction], Fraction], delta: Fraction, at_most: Fraction | None = None
) -> Fraction:
    """The smallest ε with δ(ε) ≤ δ of a falling profile, rounded up to 52 bits; `at_most` is an ε that is large enough."""
    if at_most is None and delta < _SMALLEST_DELTA:
        raise InternalError("an unbounded loss has no ε at so small a δ")
    if delta_at(Fraction(0)) <= delta:
        return Fraction(0)
    high = 1e-9 if at_most is None else float_above(at_most)
    while at_most is None and delta_at(Fraction(high)) > delta:
        high *= 4
    low = 0.0 if at_most is not None else high / 4 if high > 1e-9 else 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if high - low <= high * 2**-50 or middle in {low, high}:
            break
        if delta_at(Fraction(middle)) <= delta:
            high = middle
        else:
            low = middle
    return Fraction(high) if at_most is None else min(Fraction(high), at_most)


def decimal_of(value: Fraction) -> Decimal:
    """A fraction to 80 digits, inside decimal arithmetic."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def above(value: Decimal) -> Fraction:
    """A short fraction that is not below a number ≥ 0 with a relative error of at most 10⁻³⁰."""
    return _shortened(value * (1 + _MARGIN), 1)


def _below(value: Decimal) -> Fraction:
    return _shortened(value * (1 - _MARGIN), 0)


def _shortened(value: Decimal, up: int) -> Fraction:
    """About thirty-six digits, rounded up or down."""
    if value < _SMALLEST:
        return Fraction(_SMALLEST) if up and value > 0 else Fraction(0)
    exponent = _KEPT_BITS - math.floor(value.adjusted() * 3.3219280948873626)
    exact = Fraction(value)
    scaled = exact * 2**exponent if exponent >= 0 else exact / 2**-exponent
    whole = math.floor(scaled) + up
    return Fraction(whole, 2**exponent) if exponent >= 0 else Fraction(whole * 2**-exponent)
