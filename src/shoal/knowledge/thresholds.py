"""Counts that are shown above a threshold T only: δ of "at most T" and of every count above.

With every chance in [0, p] the worst case is at a corner: a of the others at p, the rest at 0, so S ~ Bin(a, p). Upwards

    D(a, k) = P[S ≥ k − 1] − e^ε·P[S ≥ k]        over k > T, a ≤ m

is largest at k = T + 1, and there it grows with a while a < T(1 − p)/(p·e^ε) + T − 1. Downwards

    L(a, j) = P[S ≤ j] − e^ε·P[S ≤ j − 1]        over j ≥ T, a ≤ m

is largest at j = T, where it grows while a < T − 1 + e^ε·T(1 − p)/p.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from shoal.frozen import dataclass
from shoal.knowledge.blanket import Whole, coin_cuts, coin_deltas
from shoal.knowledge.counts import LeftOut, left_out
from shoal.knowledge.distributions import (
    Distribution,
    Floats,
    binomial,
    binomial_chances,
    sum_of_answers,
    tails,
)

_MOST_CELLS = 100_000_000  # answers of known people × others that are worth a scan
_MOST_ANSWERS = 500  # of the known people, told apart


@dataclass(frozen=True)
class Threshold:
    """A threshold on a count of people who say yes with a chance of at most `at_most`."""

    unknown: int
    threshold: int
    at_most: float
    known: int = 0
    active: bool = False
    both_sides: bool = False

    @property
    def people(self) -> int:
        """Everybody: others, known ones and the target."""
        return self.unknown + self.known + 1

    @property
    def _is_alone(self) -> bool:
        """Whether one threshold decides: the known answers are none, chosen, or certain."""
        return self.active or not self.known or self.at_most in {0.0, 1.0}

    @property
    def _lowest(self) -> int:
        """The threshold when as many of the known people as can say yes."""
        return self.threshold - (0 if self.at_most == 0.0 and not self.active else self.known)

    @property
    def smallest(self) -> float:
        """The chance that a others all say yes and the count is shown, for the worst a."""
        if self._is_alone:
            return self._alone(math.inf, self._lowest)
        a = np.arange(min(self.unknown, self.threshold) + 1)
        enough = binomial(self.known, self.at_most).at_least(self.threshold - a)
        return float((self.at_most**a * enough).max())

    def delta(self, epsilon: float) -> float:
        """The worst corner in the worse direction."""
        if self._is_alone:
            return self._alone(epsilon, self._lowest)
        answers = binomial(self.known, self.at_most)
        # from T + 1 yes on, nothing is hidden any more; where there are too many answers, larger ones stand for smaller ones
        groups = answers.in_groups(_MOST_ANSWERS, self.threshold + 1)
        if len(groups) * (self.unknown + 1) > _MOST_CELLS:
            return sum(weight * self._alone(epsilon, self.threshold - b) for b, weight in groups)
        if self._scans_the_known:
            tried = [binomial(c, self.at_most).dense(self.known) for c in range(self.known + 1)]
            return self._scan(epsilon, list(range(self.known + 1)), np.array(tried))
        return self._scan(epsilon, [b for b, _ in groups], np.array([[weight for _, weight in groups]]))

    @property
    def _scans_the_known(self) -> bool:
        """Whether fewer known people at p can be worse, and there is time to look."""
        return self.both_sides and (self.known + 1) ** 2 * (self.unknown + 1) <= _MOST_CELLS

    def _alone(self, epsilon: float, threshold: int) -> float:
        """One threshold, worst a in closed form. Without one, a first yes is seen for what it is.

        A second mark changes nothing here: the first count that is shown lies below it.
        """
        if threshold <= 0:
            return 1.0
        if threshold > self.unknown or self.at_most == 0.0:
            return 0.0
        if math.isinf(epsilon) or self.at_most == 1.0:
            return self.at_most**threshold
        return worst_alone(threshold, self.unknown, self.at_most, epsilon)

    def _scan(self, epsilon: float, answers: list[int], weights: Floats) -> float:
        """Max over a, and over the rows of weights, of Σ_b weight·δ_a(T − b), direction by direction.

        Where there is no time to look at fewer known people, the second mark is left out: it is post-processing.
        """
        corners = Corners(self.unknown, self.at_most, epsilon)
        totals = np.zeros((2, len(weights), self.unknown + 1))
        for position, b in enumerate(answers):
            hidden_from = self.people - b - self.threshold if self._scans_the_known else self.people
            apart = np.array(corners.deltas(self.threshold - b, hidden_from))
            totals += weights[None, :, position, None] * apart[:, None, :]
        return float(totals.max())


def worst_alone(threshold: int, unknown: int, chance: float, epsilon: float) -> float:
    """Max over a of D(a, T + 1) and of L(a, T), for T ≥ 1 and 0 < p < 1.

    >>> round(worst_alone(20, 999, 0.05, 1.0) / 1.117729e-5, 5)
    1.0
    """
    odds, ratio = (1 - chance) / chance, math.exp(epsilon)
    up = min(unknown, max(threshold, math.ceil(threshold * odds / ratio + threshold - 1)))
    down = math.ceil(min(threshold - 1 + ratio * threshold * odds, unknown))
    upper, lower = binomial(up, chance), binomial(down, chance)
    k, j = np.arange(threshold + 1, upper.last + 2), np.arange(lower.first, threshold + 1)
    # summed as P[S = k − 1]·(1 − e^ε·P[S = k]/P[S = k − 1]): positive terms, where tails would nearly cancel
    upwards = (upper.at(k - 1) * (1 - ratio * (up - k + 1) / (k * odds))).sum()
    downwards = (lower.at(j) * (1 - ratio * j * odds / np.maximum(down - j + 1, 1))).sum()
    return float(max(0.0, upwards, downwards))


@dataclass(frozen=True)
class Corners:
    """δ of Bin(a, p) for a = 0 … m at one ε, for any threshold."""

    unknown: int
    chance: float
    epsilon: float

    @cached_property
    def _a(self) -> Whole:
        return np.arange(self.unknown + 1)

    @cached_property
    def _plain(self) -> tuple[Floats, Floats]:
        """Nothing hidden: upwards, and downwards as the mirror image."""
        up = coin_deltas(0, self.unknown, self.epsilon, 1, self.chance)
        return up, coin_deltas(0, self.unknown, self.epsilon, 1, 1 - self.chance)

    @cached_property
    def _cuts(self) -> tuple[Whole, Whole]:
        """The k where D(a, k), and the j where L(a, j), is largest when nothing is hidden."""
        mirrored = coin_cuts(self._a, self.epsilon, 1, 1 - self.chance)
        return coin_cuts(self._a, self.epsilon, 1, self.chance), self._a + 1 - mirrored

    def deltas(self, threshold: int, hidden_from: int) -> tuple[Floats, Floats]:
        """For each a: upwards and downwards, with counts up to the threshold hidden, and those from `hidden_from` on."""
        (up, down), (k, j) = self._plain, self._cuts
        if threshold >= 0:
            lowest = self._at(threshold)
            up, down = np.where(k > threshold, up, lowest[0]), np.where(j >= threshold, down, lowest[1])
        if hidden_from <= self.unknown + 1:
            last = self._at(hidden_from - 1)
            up, down = np.where(k > hidden_from, last[0], up), np.where(j >= hidden_from, last[1], down)
        return np.maximum(up, 0.0), np.maximum(down, 0.0)

    def _at(self, threshold: int) -> tuple[Floats, Floats]:
        """D(a, T + 1) = P[S = T] − (e^ε − 1)·P[S > T], and L(a, T) = P[S = T] − (e^ε − 1)·P[S < T], for each a."""
        if threshold < 0:
            return np.zeros(len(self._a)), np.zeros(len(self._a))
        at, more = binomial_chances(threshold, self._a, self.chance), math.expm1(self.epsilon)
        above = np.concatenate(([0.0], np.cumsum(self.chance * at[:-1])))
        return at - more * above, at - more * self._below(threshold)

    def _below(self, threshold: int) -> Floats:
        """P[S < T] for each a, summed from the largest a down."""
        least = binomial(self.unknown, self.chance).at(np.arange(threshold)).sum()
        steps = self.chance * binomial_chances(threshold - 1, self._a[:-1], self.chance)
        below: Floats = np.cumsum(np.concatenate(([least], steps[::-1])))[::-1]
        return below


@dataclass(frozen=True)
class KnownThreshold:
    """A threshold on the answers of people with these chances; the last `known` of them are known to the attacker."""

    probabilities: tuple[float, ...]
    threshold: int
    known: int = 0
    active: bool = False
    both_sides: bool = False

    @cached_property
    def _others(self) -> LeftOut:
        return left_out(np.array(self.probabilities[: len(self.probabilities) - self.known]))

    @cached_property
    def _answers(self) -> Distribution:
        """How many of the known people say yes."""
        return sum_of_answers(self.probabilities[len(self.probabilities) - self.known :])

    @property
    def smallest(self) -> float:
        """What no ε avoids."""
        return self.delta(math.inf)

    def delta(self, epsilon: float) -> float:
        """The worst target in the worse direction, raised for targets that were not tried.

        As for a bare count, but that f(1) is the δ of a threshold that is lower by one.
        """
        alone = np.array([self._of(count, epsilon, self.threshold, 1) for count in self._others.counts])
        lower = (self.threshold, max(0, self.threshold - 1))
        pairs = [max(self._of(count, epsilon, limit, 2) for limit in lower) for count in self._others.pairs]
        return min(1.0, float(self._others.raised(alone, np.array(pairs) if pairs else alone).max()))

    def _of(self, others: Distribution, epsilon: float, threshold: int, missing: int) -> float:
        unknown = len(self.probabilities) - self.known - missing
        up = _gains(others, epsilon, unknown)
        down = _gains(others.reversed(unknown), epsilon, unknown)[::-1]  # L(j) is D(m + 1 − j) of the mirror image
        return max(self._over_answers(up, threshold, 1), self._over_answers(down, threshold, 0))

    def _over_answers(self, gains: Floats, threshold: int, offset: int) -> float:
        """The chosen or the mean answer of the known people; `offset`: the first output that is shown is T + offset."""
        best_after = np.maximum.accumulate(gains[::-1])[::-1]
        b = np.arange(self.known + 1)
        first = np.clip(threshold - b + offset, 0, len(gains))
        if not self.both_sides:
            apart = np.append(best_after, 0.0)[first]
        else:
            last = len(self.probabilities) - b - threshold + offset  # one behind the last cut that can be told
            apart = np.array([gains[i:j].max(initial=0.0) if j > i else 0.0 for i, j in zip(first, last, strict=True)])
        return float(apart.max()) if self.active else float(self._answers.dense(self.known) @ apart)


def _gains(others: Distribution, epsilon: float, unknown: int) -> Floats:
    """max(0, D(k)) for k = 0 … m + 1; at an infinite ε what only the larger count can be."""
    above = np.concatenate(([1.0], tails(others.dense(unknown))))  # P[S ≥ k − 1] for k = 0 … m + 2
    if math.isinf(epsilon):
        return np.where(above[1:] > 0, 0.0, above[:-1])
    return np.maximum(above[:-1] - math.exp(epsilon) * above[1:], 0.0)
