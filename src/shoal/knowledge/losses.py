"""How far 1 + S and S are apart: hockey-stick divergences of shifted counts, exactly.

    δ(ε) = max( Σ_k (P[S = k − r] − e^ε·P[S = k])₊ , Σ_k (P[S = k] − e^ε·P[S = k − r])₊ )

S is log-concave, so the ratio P[S = k − r]/P[S = k] only grows with k, and each sum is a difference of two tails.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from shoal.frozen import dataclass
from shoal.knowledge.distributions import Distribution, Floats, tails


class Loss(Protocol):
    """The curve of a release: δ for every ε, not yet rounded up."""

    @property
    def smallest(self) -> float:
        """What δ never falls below, however large ε is."""

    def delta(self, epsilon: float) -> float:
        """The divergence in the worse direction."""


@dataclass(frozen=True)
class ShiftedCounts:
    """The worst of several counts, each compared with itself plus `shift`, in both directions.

    `rows` has a distribution a row, from any first value: where a count begins does not matter.
    """

    rows: Floats
    shift: int = 1

    @cached_property
    def _both(self) -> Floats:
        """The rows and their mirror images, with room for the shift on both sides: one direction is enough now."""
        room = np.zeros((2 * len(self.rows), self.shift))
        return np.hstack((room, np.vstack((self.rows, self.rows[:, ::-1])), room))

    @cached_property
    def _tails(self) -> Floats:
        return tails(self._both)

    @cached_property
    def _first_and_last(self) -> tuple[np.ndarray, np.ndarray]:
        there = self._both > 0
        return there.argmax(axis=1), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)

    @cached_property
    def smallest(self) -> float:
        """P[S > last − shift]: nothing but the shifted count can be that large."""
        _, last = self._first_and_last
        return float(self._tails[np.arange(len(last)), last - self.shift + 1].max())

    def deltas(self, epsilon: float) -> Floats:
        """The divergence of every row, upwards and then downwards."""
        ratio, numbers = math.exp(epsilon), np.arange(len(self._both))
        low, last = self._first_and_last  # at `low` the ratio is too small, behind `last` it is infinite
        high = last + 1
        while (high - low > 1).any():
            middle = (low + high) // 2
            above = self._both[numbers, middle - self.shift] > ratio * self._both[numbers, middle]
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        found: Floats = self._tails[numbers, high - self.shift] - ratio * self._tails[numbers, high]
        worst: Floats = np.maximum(found, self._tails[numbers, last - self.shift + 1])
        return worst

    def delta(self, epsilon: float) -> float:
        """The worst row in the worse direction."""
        return float(self.deltas(epsilon).max())


@dataclass(frozen=True)
class NoisyCounts:
    """The same with two-sided geometric noise on top, P[Z = z] ∝ e^{−|z|/b}; S + Z is log-concave too."""

    rows: Floats
    noise_scale: float
    shift: int = 1
    smallest: float = 0.0

    @cached_property
    def _tails(self) -> Floats:
        """P[S + Z ≥ k] for k = −shift … last + shift + 1, rows and their mirror images.

        Sums over z ≥ 0 and z < 0 run along the counts; beyond the last count the tail is geometric.
        """
        rows = np.vstack((self.rows, self.rows[:, ::-1]))
        decay = math.exp(-1 / self.noise_scale)
        room = np.zeros((len(rows), self.shift))
        noisy = np.hstack((room, rows, room, np.zeros((len(rows), 1))))
        from_below, from_above = noisy.copy(), np.zeros_like(noisy)
        for k in range(1, noisy.shape[1]):
            from_below[:, k] += decay * from_below[:, k - 1]
            from_above[:, -k - 1] = decay * (noisy[:, -k] + from_above[:, -k])
        share = (1 - decay) / (1 + decay)
        beyond = decay * from_below[:, -1:] / (1 - decay)
        summed = np.cumsum(np.hstack((from_below + from_above, beyond))[:, ::-1], axis=1)[:, ::-1]
        scaled: Floats = share * summed
        return scaled

    def deltas(self, epsilon: float) -> Floats:
        """The divergence of every row, upwards and then downwards; nothing is lost where the noise alone keeps ε."""
        if epsilon * self.noise_scale >= self.shift:
            return np.zeros(2 * len(self.rows))
        upper = self._tails[:, : -self.shift] - math.exp(epsilon) * self._tails[:, self.shift :]
        worst: Floats = upper.max(axis=1, initial=0.0)
        return worst

    def delta(self, epsilon: float) -> float:
        """The worst row in the worse direction."""
        return float(self.deltas(epsilon).max())


def stacked(counts: list[Distribution]) -> Floats:
    """Distributions as rows of equal length."""
    width = max(len(count.chances) for count in counts)
    return np.array([np.pad(count.chances, (0, width - len(count.chances))) for count in counts])
