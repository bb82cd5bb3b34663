"""What lies beyond bounds that were found: read off the noisy histogram that found them, so it costs nothing more.

A bin of an octave stands for three quarters of its outer edge, one of whole numbers for its middle. Beyond the outermost filled
bins the counts are mostly noise. *Believed* is at most 0.3 of the bin before; *feared* is what the bin next to the bounds may hold
at one-sided confidence of 95%, at most half of the bin before, and 0.3 of that in the next. Towards zero octaves are half as wide
each, so values that lie evenly halve from bin to bin: there feared is half of the bin before throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.mechanisms.calibrate import noise_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.accounting.events import AdditiveNoise
    from shoal.params import Bounds
    from shoal.plan.measures import Histogram

BELIEVED, FEARED_FIRST = 0.3, 0.5
SQUARED = 2
"""This many bins count in the mean square: further out it would grow with every bin that is merely feared."""
TWO_SIDED = 0.9
"""The level whose quantile the noise exceeds, to one side, once in twenty."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """One side of the bounds, per owner: how much lies beyond them (believed, feared), and its feared mean square."""

    believed: float = 0.0
    feared: float = 0.0
    square: float = 0.0


@dataclass(frozen=True, slots=True)
class Clamped:
    """What bounds cut off: below and above; about how many owners, how large their values are, and what share is outside."""

    below: Beyond
    above: Beyond
    owners: float
    size: float
    """The mean of |x| within the bounds."""
    both_signs: bool
    outside: float
    feared_outside: float

    @property
    def shares(self) -> tuple[float, float]:
        """The share of a sum that is kept at the upper bound: believed, and feared."""
        size = max(self.size, 1e-300)
        return size / (size + self.above.believed), size / (size + self.above.feared)


def what_is_clamped(
    histogram: Histogram, noise: AdditiveNoise, noisy: NDArray[Any], ends: tuple[int, int], bounds: Bounds
) -> Clamped:
    """What lies beyond the bounds that reach from the first to the last of the `ends`, which are places of bins."""
    counts = np.array(noisy, dtype=np.float64)
    middles = np.array([_middle(histogram, number) for number in histogram.bins])
    low, high = float(bounds.lower), float(bounds.upper)
    first, last = ends
    inside = np.maximum(counts[first : last + 1], 0.0)
    owners = max(float(inside.sum()), 1.0)
    spread = float(noise_quantile(noise, TWO_SIDED)) if noise.shift.l1 else 0.0
    sizes = np.abs(middles)
    up, down = slice(last + 1, None), slice(first - 1, None, -1) if first else slice(0, 0)
    grows = sizes[up] > sizes[last:-1], sizes[down] > sizes[first:0:-1]
    above = _side(counts[up], (middles - high)[up], grows[0], float(inside[-1]), spread)
    below = _side(counts[down], (low - middles)[down], grows[1], float(inside[0]), spread)
    size = float(inside @ np.abs(np.clip(middles[first : last + 1], low, high))) / owners
    believed, feared = above.owners + below.owners, above.feared_owners + below.feared_owners
    return Clamped(
        above=above.per_owner(owners),
        below=below.per_owner(owners),
        owners=owners,
        size=size,
        both_signs=low < 0,
        outside=believed / (owners + believed),
        feared_outside=feared / (owners + feared),
    )


def _middle(histogram: Histogram, number: int) -> float:
    inner, outer = (float(edge) for edge in histogram.edges(number))
    if number < 0:
        inner, outer = outer, inner
    return (inner + outer) / 2 if histogram.grid == 1 else 0.75 * outer


@dataclass(frozen=True, slots=True)
class _Side:
    """Sums over the owners of one side, and how many they are."""

    lost: float
    feared: float
    square: float
    owners: float
    feared_owners: float

    def per_owner(self, owners: float) -> Beyond:
        return Beyond(self.lost / owners, self.feared / owners, self.square / owners)


def _side(
    counts: NDArray[np.float64],
    excess: NDArray[np.float64],
    grows: NDArray[np.bool_],
    at_the_bound: float,
    spread: float,
) -> _Side:
    """Bins from the bounds outwards; `grows` where the next octave is wider than the one before."""
    believed, feared = np.zeros(len(counts)), np.zeros(len(counts))
    before = feared_before = at_the_bound
    for place, count in enumerate(np.maximum(counts, 0.0)):
        before = believed[place] = min(count, BELIEVED * before)
        fall = BELIEVED if place and grows[place] else FEARED_FIRST
        feared_before = feared[place] = min(count + spread, fall * feared_before)
        if feared_before < 1 / 2:
            break
    far = np.maximum(excess, 0.0)
    return _Side(
        float(believed @ far),
        float(feared @ far),
        float(feared[:SQUARED] @ far[:SQUARED] ** 2),
        float(believed.sum()),
        float(feared.sum()),
    )


def most_clamped(cuts: Sequence[Clamped | None]) -> Clamped | None:
    """The one that cuts off most, of groups that have the same bounds."""
    known = [cut for cut in cuts if cut is not None]
    return max(known, key=lambda cut: cut.above.feared + cut.below.feared, default=None)


def beyond_in_words(clamped: Clamped | None, *, counted: bool = True) -> str:
    """About how many owners' values lie beyond the bounds; not `counted` where there is no interval."""
    if clamped is None or clamped.feared_outside < 0.005:
        return "; next to none lie there"
    believed, feared = clamped.outside, clamped.feared_outside
    ends = ", which the far ends count" if counted else ""
    return f"; about {believed:.0%} (up to {feared:.0%}) of them lie there{ends}"
