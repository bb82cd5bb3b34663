"""k-anonymous tables: a fixed generalization, counts above T shown, absence never shown.

Moving the target from a value to absence, show the attacker everybody who is neither at that value nor absent. What is left of
the others is, for a rare value, M ~ Bin(a, 2·boundary) fair coins between the value and absence, a ≤ m at a corner, and the
count of the value is hidden up to T. A common value is a count on a blanket, whatever is hidden. From value to value are two
such legs: (ε, δ) twice is (2ε, (1 + e^ε)·δ).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from shoal.frozen import dataclass
from shoal.knowledge.blanket import Blanket
from shoal.knowledge.distributions import Floats, binomial
from shoal.knowledge.thresholds import Corners

_GRID = 24
_MOST_ANSWERS = 500  # of the known people, told apart; larger ones stand for smaller ones
_FEW = 2000  # so few others that looking for a place to stop takes longer than not to
_LARGEST_EPSILON = 30.0
_GOLDEN = (math.sqrt(5) - 1) / 2


_coins = lru_cache(maxsize=256)(binomial)


@dataclass(frozen=True)
class KAnonymity:
    """Counts of a table in which `boundary` separates rare from common values."""

    unknown: int
    threshold: int
    boundary: float
    known: int = 0

    @cached_property
    def _best(self) -> tuple[float, float]:
        """The ε with the smallest δ: beyond it, a larger ε would only pay more for the second leg."""
        low, high = 0.0, _LARGEST_EPSILON
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = self._two_legs(left), self._two_legs(right)
        while high - low > 0.1:
            if at_left > at_right:
                low, left, at_left = left, right, at_right
                right = low + _GOLDEN * (high - low)
                at_right = self._two_legs(right)
            else:
                high, right, at_right = right, left, at_left
                left = high - _GOLDEN * (high - low)
                at_left = self._two_legs(left)
        return min(((at_left, left), (at_right, right)))[::-1]

    @property
    def smallest(self) -> float:
        """The smallest δ of two legs at any ε."""
        return min(1.0, self._best[1])

    def delta(self, epsilon: float) -> float:
        """Two legs of half the ε, or those of a smaller ε where they give less."""
        best_epsilon, best = self._best
        return min(1.0, best if epsilon >= best_epsilon else self._two_legs(epsilon))

    def _two_legs(self, epsilon: float) -> float:
        return (1 + math.exp(epsilon / 2)) * self.leg(epsilon / 2)

    def leg(self, epsilon: float) -> float:
        """From a value to absence, or back: the worse of a common and of a rare value."""
        common = Blanket(self.unknown, self.boundary).delta(epsilon)
        return max(common, self._rare(epsilon))

    def _rare(self, epsilon: float) -> float:
        """Max over a of Σ_M P[Bin(a, 2·boundary) = M]·δ_T(ε; Bin(M, ½)), direction by direction."""
        stop = self._stop(epsilon)
        largest = binomial(stop, 2 * self.boundary).last
        return max(self._largest_mean(apart, stop) for apart in self._coin_deltas(largest, epsilon))

    def _stop(self, epsilon: float) -> int:
        """An a from which on even the bare count of a people is below what some smaller a gives."""
        if self.unknown <= _FEW:
            return self.unknown
        turns = (1 + math.exp(-epsilon), 1 + math.exp(epsilon))  # coins for which T is where the ratio passes e^ε
        guesses = [min(self.unknown, math.ceil(self.threshold * turn / (2 * self.boundary))) for turn in turns]
        largest = binomial(max(guesses), 2 * self.boundary).last
        found = max(self._mean(apart, a) for apart, a in zip(self._coin_deltas(largest, epsilon), guesses, strict=True))
        low, high = 0, self.unknown
        while high - low > max(1, high // 64):
            middle = (low + high) // 2
            if Blanket(middle, self.boundary).delta(epsilon) < found:
                high = middle
            else:
                low = middle
        return high

    def _coin_deltas(self, largest: int, epsilon: float) -> Floats:
        """δ_T(ε; Bin(M, ½)) for M up to the largest, a row for each direction, averaged over the known people's answers."""
        corners = Corners(largest, 0.5, epsilon)
        totals = np.zeros((2, largest + 1))
        for b, weight in binomial(self.known, self.boundary).in_groups(_MOST_ANSWERS, self.threshold + 1):
            totals += weight * np.array(corners.deltas(self.threshold - b, largest + 2))
        return totals

    def _mean(self, apart: Floats, a: int) -> float:
        coins = _coins(a, 2 * self.boundary)
        return float(coins.chances @ apart[coins.first : coins.last + 1])

    def _largest_mean(self, apart: Floats, stop: int) -> float:
        """The largest mean over a ≤ stop, on ever finer grids.

        For one threshold the means rise and then fall: δ_T does so in M, and binomials diminish variation.
        """
        low, high = 0, stop
        while True:
            grid = np.unique(np.linspace(low, high, _GRID).astype(np.int64))
            means = [self._mean(apart, int(a)) for a in grid]
            best = int(np.argmax(means))
            if len(grid) == high - low + 1:
                return means[best]
            low, high = int(grid[max(0, best - 1)]), int(grid[min(len(grid) - 1, best + 1)])
