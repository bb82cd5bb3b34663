"""Merging released bits without bias (sketch–flip–merge, with asymmetric flips kept asymmetric).

A released bit of a sketch with p = P[1 | 1] and q = P[1 | 0] is the number x = s for a 0 and −r for a 1, s = p/(p − q),
r = (1 − p)/(p − q): its mean is 1 where the true bit is 0, and 0 where it is 1. The product of two such numbers has mean 1 where
both true bits are 0, and 0 else: it is unbiased for "not (a or b)". A coin turns it into a bit again: with H and L the largest
and the smallest product, the new bit is 1 with chance (H − x₁x₂)/(H − L), so that

    p′ = H/(H − L)        q′ = (H − 1)/(H − L).

Keeping p′ ≠ 1 − q′ is what makes this better than the published merge, which makes the flips symmetric again. In general
s = Πsᵢ, p = min pᵢ, q = p·(1 − 1/s): the order does not matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass
from shoal.risk.private.flips import Bits, coins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.mechanisms.entropy import Entropy


@dataclass(frozen=True, slots=True)
class Flips:
    """p = P[1 | 1] and q = P[1 | 0]."""

    keep: float
    noise: float

    @property
    def zero(self) -> float:
        """What a 0 counts: s = p/(p − q)."""
        return self.keep / (self.keep - self.noise)

    @property
    def one(self) -> float:
        """What a 1 counts, without its sign: r = (1 − p)/(p − q)."""
        return (1 - self.keep) / (self.keep - self.noise)

    def then(self, other: Flips) -> Flips:
        """The flips of a merge.

        >>> symmetric = Flips(0.731058579, 0.268941421)
        >>> round(symmetric.then(symmetric).keep, 6), round(symmetric.then(symmetric).noise, 6)
        (0.731059, 0.438945)
        """
        high, low = self.ends(other)
        return Flips(high / (high - low), (high - 1) / (high - low))

    def ends(self, other: Flips) -> tuple[float, float]:
        """The largest and the smallest product."""
        high = max(self.zero * other.zero, self.one * other.one)
        return high, -max(self.zero * other.one, self.one * other.zero)

    def merged(self, times: int) -> Flips:
        """The flips of this many sketches with these flips, merged."""
        return Flips(self.keep, -self.keep * math.expm1(-times * math.log(self.zero)))


def merge_bits(first: Bits, flips: Flips, second: Bits, other: Flips, entropy: Entropy) -> Bits:
    """The merged bits, with fresh coins."""
    high, low = flips.ends(other)
    values = np.where(first, -flips.one, flips.zero), np.where(second, -other.one, other.zero)
    chances: NDArray[np.float64] = (high - values[0] * values[1]) / (high - low)
    return coins(np.clip(chances, 0.0, 1.0), entropy)
