"""How losses of claims that are fixed in advance add up: the exact optimum, the advanced rule, and Rényi curves.

Proof notes.

*Optimal* (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016). An (ε, δ)-private answer is never worse than: everything
is revealed with chance δ, else randomised response at ε. Products of these are never worse than the answers together,
so δ(ε) = 1 − Π(1 − δᵢ)·(1 − E[(1 − e^{ε−L})₊]) where L is a sum of ±εᵢ with chances e^εᵢ/(1 + e^εᵢ) and
1/(1 + e^εᵢ). Equal parts have binomial chances. Every term of the sum is positive, so floats lose a few units in the
last place: the sum is taken at a slightly smaller ε and widened, both by more than that.

*Rényi*. Divergences of one order α add up, also when mechanisms are chosen after earlier answers. With the sum ε_α,
ε = ε_α + ln((α − 1)/α) − (ln δ + ln α)/(α − 1) for every α > 1 (Balle et al. 2020; Canonne, Kamath, Steinke 2020).
Any α is valid: the search for a good one needs no proof, the value at it is rounded up.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.accounting.claims.profiles import above, decimal_of
from shoal.exact import float_above, float_below
from shoal.frozen import dataclass
from shoal.mechanisms.certified import arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_STATES = 10**6
MOST_DISTINCT = 12
SMALLEST_ORDER = 1.01
LARGEST_ORDER = 4096.0
_WHOLE_ORDERS = (*range(2, 65), 72, 80, 96, 112, 128, 160, 192, 256)
_ULP = 2.0**-52
_CANCELLED = Decimal("1e-60")
"""Absolute, for what cancels in a Rényi curve."""
_FEW_DIGITS = Context(prec=34, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


# --- the exact optimum ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimal:
    """Claims (ε, δ), each this many times: their exact joint profile.

    >>> half = Optimal({Fraction(1, 10): 50}, Fraction(0))
    >>> round(half.epsilon_at(Fraction(1, 10**6)), 6)
    3.172903
    """

    counts: Mapping[Fraction, int]
    chance: Fraction
    """That everything is revealed: 1 − Π(1 − δᵢ), rounded up."""

    @property
    def largest_loss(self) -> Fraction:
        """Σε."""
        return sum((epsilon * count for epsilon, count in self.counts.items()), Fraction(0))

    def delta_at(self, epsilon: Fraction) -> float:
        """δ(ε), rounded up."""
        chance = float_above(self.chance)
        if epsilon >= self.largest_loss:
            return chance
        return _up(min(1.0, chance + (1 - chance) * self._divergence(float_below(epsilon))))

    def epsilon_at(self, delta: Fraction) -> float | None:
        """The smallest ε with δ(ε) ≤ δ, rounded up; None where even the largest one has a larger δ."""
        if delta < self.chance:
            return None
        room = float_below((delta - self.chance) / (1 - self.chance)) * (1 - 4 * _ULP)
        if self._divergence(0.0) <= room:
            return 0.0
        low, high = 0.0, float_above(self.largest_loss)
        while high - low > 4 * _ULP * high:
            middle = (low + high) / 2
            if middle in {low, high}:
                break
            low, high = (low, middle) if self._divergence(middle) <= room else (middle, high)
        return high

    def epsilon_at_least(self, delta: Fraction) -> float:
        """The same, rounded down: some mechanism with these claims is not private at a smaller ε."""
        room = float_above(max(delta - self.chance, Fraction(0)) / (1 - self.chance)) * (1 + 4 * _ULP)
        low, high = 0.0, float_above(self.largest_loss)
        while high - low > 4 * _ULP * high:
            middle = (low + high) / 2
            if middle in {low, high}:
                break
            low, high = (middle, high) if self._divergence(middle, up=False) > room else (low, middle)
        return low

    def _divergence(self, epsilon: float, *, up: bool = True) -> float:
        """E[(1 − e^{ε−L})₊], rounded up or down."""
        import numpy as np

        losses, chances, slack, margin = self._distribution
        if up and epsilon >= losses[-1]:
            return 0.0
        epsilon += -slack if up else slack
        first = int(np.searchsorted(losses, epsilon, side="right"))
        total = float((chances[first:] * -np.expm1(epsilon - losses[first:])).sum())
        return total * margin if up else total / margin

    @cached_property
    def _distribution(self) -> tuple[Any, Any, float, float]:
        """Losses in rising order, their chances, how far off a loss may be, and by what factor a chance."""
        import numpy as np

        losses, logs, largest, weight = np.zeros(1), np.zeros(1), 0.0, 8.0
        for epsilon, count in self.counts.items():
            one = float(epsilon)
            signs = np.arange(count + 1, dtype=np.float64)
            factorials = _log_factorials(count)
            here = factorials[-1] - factorials - factorials[::-1]
            here -= (count - signs) * one + count * math.log1p(math.exp(-one))
            losses = (losses[:, None] + (2 * signs - count)[None, :] * one).ravel()
            logs = (logs[:, None] + here[None, :]).ravel()
            largest += count * one
            weight += 24 * math.lgamma(count + 2) + 8 + 750
        order = np.argsort(losses, kind="stable")
        return losses[order], np.exp(logs[order]), 8 * _ULP * largest, 1 + 2 * _ULP * weight


def _log_factorials(largest: int) -> Any:
    """Ln 0! … ln n!, by Stirling's series from 32 on: what it leaves out is below 10⁻¹⁷."""
    import numpy as np

    x = np.arange(1, largest + 2, dtype=np.float64)
    inverse = 1 / (x * x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / x
    logs = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    small = [math.lgamma(j + 1) for j in range(min(32, largest + 1))]
    logs[: len(small)] = small
    return logs


def chance_of_any(deltas: Mapping[Fraction, int]) -> Fraction:
    """1 − Π(1 − δᵢ), rounded up.

    >>> float(chance_of_any({Fraction(1, 10): 2}))
    0.19
    """
    if not any(deltas):
        return Fraction(0)
    with arithmetic():
        logs = (count * (1 - decimal_of(delta)).ln() for delta, count in deltas.items())
        bound = above(1 - sum(logs, Decimal(0)).exp())
    return min(bound, sum((delta * count for delta, count in deltas.items()), Fraction(0)), Fraction(1))


# --- the advanced rule ------------------------------------------------------------------------------------------------


def advanced_epsilon(epsilon: Fraction, times: int, delta: Fraction) -> Fraction:
    """The ε of k equal ε-private answers at δ′: the smallest of kε and the two bounds of the advanced rule, rounded up.

    With m = kε·tanh(ε/2), the mean loss: m + ε√(2k ln(1/δ′)), and m + ε√(2k ln(e + √(kε²)/δ′)).

    >>> round(float(advanced_epsilon(Fraction(1, 10), 50, Fraction(1, 10**6))), 6)
    3.919797
    """
    basic = epsilon * times
    if delta <= 0 or epsilon == 0:
        return basic
    with arithmetic():
        one, count, chance = decimal_of(epsilon), Decimal(times), decimal_of(delta)
        logs = min(-chance.ln(), (Decimal(1).exp() + count.sqrt() * one / chance).ln())
        return min(basic, above(_mean_loss(one, count) + one * (2 * count * logs).sqrt()))


def advanced_delta(epsilon: Fraction, times: int, total: Fraction) -> Fraction | None:
    """The smallest δ′ at which `advanced_epsilon` is at most `total`, rounded up; None where the mean loss is above it."""
    if epsilon * times <= total:
        return Fraction(0)
    with arithmetic():
        one, count = decimal_of(epsilon), Decimal(times)
        room = decimal_of(total) - _mean_loss(one, count)
        if room <= 0:
            return None
        exponent = room * room / (2 * count * one * one)
        first = (-exponent).exp()
        below = exponent.exp() - Decimal(1).exp()
        second = count.sqrt() * one / below if below > 0 else first
        return min(Fraction(1), above(min(first, second)))


def _mean_loss(epsilon: Decimal, times: Decimal) -> Decimal:
    """kε·tanh(ε/2)."""
    falling = (-epsilon).exp()
    return times * epsilon * (1 - falling) / (1 + falling)


# --- Rényi curves -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RenyiCurve:
    """Divergences that add up at every order: curves, each this many times, known up to a largest order."""

    curves: Sequence[tuple[Callable[[Decimal], Decimal], int]]
    largest_order: Fraction | None = None
    whole_orders: bool = False

    def at(self, order: Decimal) -> Decimal:
        """The sum at one order, inside decimal arithmetic."""
        return sum((curve(order) * count for curve, count in self.curves), Decimal(0))

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """The ε at δ, at the best order, rounded up.

        >>> curve = RenyiCurve([(lambda order: order / 2, 1)])
        >>> round(float(curve.epsilon_at(Fraction(1, 10**6))), 4)
        5.2215
        """
        return self._best(lambda order: renyi_epsilon(self.at(order), order, delta))

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """The δ at ε, at the best order, rounded up, at most 1."""
        return min(Fraction(1), self._best(lambda order: renyi_delta(self.at(order), order, epsilon)))

    def _best(self, value: Callable[[Decimal], Decimal]) -> Fraction:
        """The value at a good order: the order is found in few digits, the value there has all of them."""
        with localcontext(_FEW_DIGITS):
            orders = self._orders()
            values = [value(order) for order in orders]
            position = min(range(len(values)), key=values.__getitem__)
            best = orders[position]
            if not self.whole_orders and len(orders) > 2:
                near = _narrowed(value, orders[max(0, position - 1)], orders[min(position + 1, len(orders) - 1)])
                best = min(best, near, key=value)
        with arithmetic():
            return above(max(value(best) + _CANCELLED, Decimal(0)))

    def _orders(self) -> list[Decimal]:
        """Orders to try: whole ones, or some that are spread evenly on a logarithmic scale, and the largest."""
        largest = None if self.largest_order is None else decimal_of(self.largest_order)
        if self.whole_orders:
            every = [Decimal(order) for order in _WHOLE_ORDERS]
        else:
            ratio = (LARGEST_ORDER - 1) / (SMALLEST_ORDER - 1)
            every = [Decimal(f"{1 + (SMALLEST_ORDER - 1) * ratio ** (i / 47):.12g}") for i in range(48)]
        if largest is None:
            return every
        within = [order for order in every if order < largest]
        return within if self.whole_orders and largest != int(largest) else [*within, largest]


def _narrowed(value: Callable[[Decimal], Decimal], low: Decimal, high: Decimal) -> Decimal:
    """About the best order between two, by golden sections."""
    golden = (Decimal(5).sqrt() - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(28):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right


def renyi_epsilon(divergence: Decimal, order: Decimal, delta: Fraction) -> Decimal:
    """ε_α + ln((α − 1)/α) − (ln δ + ln α)/(α − 1), inside decimal arithmetic; may be negative."""
    logs = decimal_of(delta).ln() + order.ln()
    return divergence + ((order - 1) / order).ln() - logs / (order - 1)


def renyi_delta(divergence: Decimal, order: Decimal, epsilon: Fraction) -> Decimal:
    """e^{(α−1)(ε_α − ε + ln((α−1)/α))}/α, inside decimal arithmetic."""
    exponent = (order - 1) * (divergence - decimal_of(epsilon) + ((order - 1) / order).ln())
    return exponent.exp() / order if exponent < 1000 else Decimal(1)


def _up(value: float) -> float:
    return min(1.0, math.nextafter(value * (1 + 4 * _ULP), math.inf)) if value else 0.0
