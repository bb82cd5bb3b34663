"""How far the noise may have moved each number of an answer under a policy, at any level requested later.

- One draw: exact for the discrete noise.
- AVG whose count is noisy too: μ = c + δ with |S − δC| ≤ h_S + |δ|·h_C, where |S − s| ≤ h_S and |C − n| ≤ h_C each fail with half
  of the miss, so that both hold at the level (Bonferroni); the hull of all such δ, inside the values a row can have.
- Quantiles: position j is the quantile when at most r records lie below it and at least r up to it, r = low end + p·(total). With
  d_j = c_j − (1 − p)·c_low − p·c_high this is d_j ≤ 0 ≤ d_{j+1}; a position stays in the interval unless a noisy d contradicts it
  by more than its noise reaches and one record more, which is what interpolating between two ranks can make of it. The noisy
  prefixes in d share the miss evenly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shoal.frozen import dataclass
from shoal.policies.answers import one_draw

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.policies.answers import Floats, PrefixNoise

End = float | None


class Spread(Protocol):
    """The noise of one aggregate, stored row by stored row."""

    def ends(self, row: int, level: float) -> tuple[End, End]:
        """The interval of the number in this row; None if there is none."""


@dataclass(frozen=True)
class OneDraw:
    """Numbers with one draw each, divided by a public count if they are averages."""

    values: tuple[float, ...]
    scale: Fraction
    grid: Fraction
    divisors: tuple[int, ...] | None = None

    def ends(self, row: int, level: float) -> tuple[End, End]:
        """The value ± half the width."""
        half = one_draw(self.scale, level) * float(self.grid) / (self.divisors[row] if self.divisors else 1)
        return self.values[row] - half, self.values[row] + half


@dataclass(frozen=True)
class Ratio:
    """Averages c + S/C with noise on both, between the values that a row of the group can have."""

    sums: tuple[float, ...]
    counts: tuple[int, ...]
    centres: tuple[float, ...]
    limits: tuple[tuple[float, float], ...]
    sum_scale: Fraction
    sum_grid: Fraction
    count_scale: Fraction

    def ends(self, row: int, level: float) -> tuple[End, End]:
        """The hull of all averages that the two noisy numbers allow."""
        each = (1 + level) / 2
        reach = one_draw(self.sum_scale, each) * float(self.sum_grid)
        low, high = ratio_ends(self.sums[row], reach, self.counts[row], one_draw(self.count_scale, each))
        centre, (least, most) = self.centres[row], self.limits[row]
        return min(max(centre + low, least), most), min(max(centre + high, least), most)


def ratio_ends(total: float, reach: float, count: float, count_reach: float) -> tuple[float, float]:
    """The hull of {s/n: |s − total| ≤ reach, 0 < n, |n − count| ≤ count_reach}."""
    most, fewest = count + count_reach, count - count_reach
    if most <= 0:
        return -math.inf, math.inf

    def highest(top: float) -> float:
        if top < 0:
            return top / most
        return top / fewest if fewest > 0 else math.inf

    return -highest(reach - total), highest(total + reach)


@dataclass(frozen=True)
class QuantileSpread:
    """One quantile of the positions low … high, which have these `domain` values, from noisy prefixes c_0 … c_m."""

    domain: tuple[float, ...]
    prefixes: tuple[float, ...]
    noise: PrefixNoise
    low: int
    high: int
    share: float
    value: float

    def ends(self, row: int, level: float) -> tuple[End, End]:
        """The values of the outermost positions that the prefixes do not contradict."""
        del row  # quantiles have no groups
        counts = np.array(self.prefixes[self.low : self.high + 2])
        rank = counts[0] + self.share * (counts[-1] - counts[0])
        half = self._half_widths(level) + 1
        kept = np.flatnonzero((counts[:-1] - rank <= half[:-1]) & (counts[1:] - rank >= -half[1:]))
        if not len(kept):  # prefixes that contradict each other: somewhere between the ends
            kept = np.arange(len(self.domain))
        ends = [self.domain[int(kept[0])], self.domain[int(kept[-1])]]
        return min(self.value, *ends), max(self.value, *ends)

    def _half_widths(self, level: float) -> Floats:
        """How far c_j − (1 − p)·c_low − p·c_high may lie from the truth, for every j."""
        noisy = 1 + sum(bool(self.noise.which[end - 1]) for end in (self.low, self.high + 1) if end)
        half = np.append(0.0, self.noise.half_widths(1 - (1 - level) / noisy))[self.low : self.high + 2]
        found: Floats = half + (1 - self.share) * half[0] + self.share * half[-1]
        return found


@dataclass(frozen=True)
class CopiedSpread:
    """The noise of an aggregate that a column of the answer copies, and from which stored row each of its numbers comes."""

    spread: Spread
    origin: tuple[int, ...]

    def interval(self, values: list[Any], level: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """(low, high) of every row; None if there is no number."""
        rows = zip(values, self.origin, strict=True)
        ends = [(None, None) if value is None else self.spread.ends(row, level) for value, row in rows]
        return np.array([low for low, _ in ends], dtype=object), np.array([high for _, high in ends], dtype=object)
