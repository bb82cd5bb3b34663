"""How many owners a released sketch saw: maximum likelihood, with an interval by the likelihood ratio.

P[1 at level l] = p − (p − q)·e^{−n·w_l} with w_l = 2^{−l−1}/buckets, the last level doubled. The ones of a level are counted;
levels are independent, and within a level bits are so but for a small negative correlation, which makes intervals cautious.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import ShoalError
from shoal.risk.sketch.estimate import Estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.risk.private.merging import Flips

    Floats = NDArray[np.float64]

_GRID = 400
_GOLDEN = (math.sqrt(5) - 1) / 2


def weights(levels: int, buckets: int) -> Floats:
    """The chance w_l that an owner lands on one bit of level l."""
    chances = np.ldexp(1.0 / buckets, -np.arange(1, levels + 1))
    chances[-1] *= 2
    return chances


class Likelihood:
    """The likelihood of the number of owners, given the ones of every level."""

    def __init__(self, ones: Floats, buckets: int, flips: Flips) -> None:
        self._ones, self._buckets, self._flips = ones, buckets, flips
        self._weights = weights(len(ones), buckets)
        self.most = 40.0 / float(self._weights[-1])  # here the last level is full

    def log(self, owners: float) -> float:
        """Its logarithm, up to a constant."""
        p = self._flips.keep - (self._flips.keep - self._flips.noise) * np.exp(-owners * self._weights)
        p = np.clip(p, 1e-300, 1 - 1e-16)
        return float((self._ones * np.log(p) + (self._buckets - self._ones) * np.log1p(-p)).sum())

    def estimate(self, level: float) -> Estimate:
        """The most likely number, and all that are hardly less likely."""
        grid = np.concatenate(([0.0], np.geomspace(0.5, self.most, _GRID)))
        heights = [self.log(float(n)) for n in grid]
        best = int(np.argmax(heights))
        value = self._peak(float(grid[max(0, best - 1)]), float(grid[min(_GRID, best + 1)]))
        allowed = self.log(value) - NormalDist().inv_cdf(0.5 + level / 2) ** 2 / 2
        low = 0.0 if self.log(0.0) >= allowed else self._crossing(0.0, value, allowed)
        high = self.most if self.log(self.most) >= allowed else self._crossing(self.most, value, allowed)
        return Estimate(value, low, high)

    def _peak(self, low: float, high: float) -> float:
        for _ in range(60):
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            low, high = (low, right) if self.log(left) >= self.log(right) else (left, high)
        middle = (low + high) / 2
        return 0.0 if self.log(0.0) >= self.log(middle) else middle

    def _crossing(self, outside: float, inside: float, allowed: float) -> float:
        """Where the likelihood passes what is allowed, between a number outside of the interval and one inside."""
        for _ in range(60):
            middle = (outside + inside) / 2
            outside, inside = (middle, inside) if self.log(middle) < allowed else (outside, middle)
        return outside


def relative_error(owners: float, levels: int, buckets: int, flips: Flips) -> float:
    """The standard error over the number of owners, by the information in all levels."""
    if owners <= 0:
        raise ShoalError("E_USAGE", "owners must be above 0.", hint="owners=100000")
    w = weights(levels, buckets)
    spread = flips.keep - flips.noise
    p = flips.keep - spread * np.exp(-owners * w)
    slope = spread * w * np.exp(-owners * w)
    information = float((buckets * slope**2 / (p * (1 - p))).sum())
    return 1 / (owners * math.sqrt(information)) if information > 0 else math.inf
