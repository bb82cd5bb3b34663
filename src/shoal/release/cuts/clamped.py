"""What lies beyond found bounds: read from the noisy histogram that found them, so it costs nothing extra.

A bin of an octave stands for three quarters of its outer edge, one of whole numbers for its middle. Bounds end where bins hold
less than a hundredth of all values, so that bins next to them may stand out from the noise, alone or with up to nine neighbours:
these are believed as they are, and feared with a standard deviation more. Further out counts are mostly noise. *Believed* is at
most 0.3 of the bin before; *feared* is what the next bin may hold at one-sided confidence of 95%, at most half of the bin
before, and 0.3 of that in the next, or up to half where the tail that is seen falls about as slowly as 1/x. Where three octaves
beyond the bounds stand out and fall more slowly still (a few prices that are a thousand times the others), so do those that are
feared. Quotients fall as slowly as 1/x, whatever is seen. Towards zero octaves are half as wide each, so values that lie evenly
halve from bin to bin: there feared is half of the bin before throughout.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import noise_quantile, noise_standard_deviation
from shoal.mechanisms.limit_choice import heaviness_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.accounting.events import AdditiveNoise
    from shoal.params import Bounds
    from shoal.plan.measures import Histogram

BELIEVED, FEARED_FIRST = 0.3, 0.5
SQUARED = 2
"""This many bins beyond those that stand out count in the mean square, up to three times as many where the tail does not fall off:
further out it would grow with every bin that is merely feared."""
STANDS_OUT, NEIGHBOURS, FEW = 3.5, (1, 2, 3, 4, 6, 8, 10), 4
"""Standard deviations of the noise of this many neighbouring bins together."""
SURELY, POOLED = 8.0, 0.85
"""A bin beyond one that noise hides is believed as it is from so many standard deviations on; else it holds at most this share of
the one before."""
HEAVIER = 2.0
"""Bounds lie where few values are left, and a tail as heavy as 1/x falls faster before them: what is seen counts twice."""
ENOUGH_SEEN, SLOWEST = 3, 0.65
"""From this many octaves beyond the bounds on, all further ones are assumed to fall the same way; no more slowly than this."""
TO_ZERO = ((0.0, 0.0),)
TWO_SIDED = 0.9
"""The level whose quantile the noise exceeds, to one side, once in twenty."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """One side of the bounds, per owner: how much lies beyond them (believed, feared), and its feared mean square."""

    believed: float = 0.0
    feared: float = 0.0
    square: float = 0.0
    tail: tuple[tuple[float, float], ...] = ()
    """Bin by bin from the bound outwards: which share of owners is feared beyond it, and its outer edge."""

    def reach(self, share: float) -> float | None:
        """How far out values may lie that fewer than this share of owners exceed; None if nothing is feared beyond the bound."""
        return next((edge for beyond, edge in self.tail if beyond <= share), None)


@dataclass(frozen=True, slots=True)
class Clamped:
    """What bounds cut off, below and above: roughly how many owners, how large their values are, and what share is outside."""

    below: Beyond
    above: Beyond
    owners: float
    size: float
    """The mean of |x| within the bounds."""
    both_signs: bool
    outside: float
    feared_outside: float
    heaviness: float = 0.0
    """How far values beyond the upper bound fail to fall off, from 0 to 1."""
    spread: float = 0.0
    """The standard deviation of owners' values within the bounds."""
    shares_outside: tuple[float, float] = (0.0, 0.0)
    """Which share of owners is feared below and above."""
    seen: int = 0
    """How many bins beyond the bounds stand out from the noise."""
    mean: float = 0.0
    """Of owners' values within the bounds."""
    quotients: bool = False

    @property
    def shares(self) -> tuple[float, float]:
        """The share of a sum that is kept at the upper bound: believed, and feared."""
        size = max(self.size, 1e-300)
        return size / (size + self.above.believed), size / (size + self.above.feared)


def what_is_clamped(
    histogram: Histogram,
    noise: AdditiveNoise,
    noisy: NDArray[Any],
    ends: tuple[int, int],
    bounds: Bounds,
    *,
    quotients: bool = False,
) -> Clamped:
    """What lies beyond the bounds that reach from the first to the last of the `ends`, which are places of bins.

    `quotients`: values are divided by something, so they are known to fall off about as slowly as 1/x.
    """
    middles = np.array([_middle(histogram, number) for number in histogram.bins])
    outer = np.array([_outer(histogram, number) for number in histogram.bins])
    sizes = np.abs(middles)
    first, last = ends
    up, down = _outwards(first, last)
    grows = sizes[up] > sizes[last:-1], sizes[down] > sizes[first:0:-1]
    bins = np.array(noisy, dtype=np.float64), middles, outer
    return _clamped(bins, ends, bounds, grows, _Noised.of(noise), quotients=quotients)


def what_is_beyond(edges: Sequence[Fraction], noise: AdditiveNoise, noisy: Sequence[float], bounds: Bounds) -> Clamped:
    """What lies beyond bounds that were given, by bins of owners' values with these edges; the outermost have no end."""
    upper = np.array([float(edge) for edge in edges])
    middles = np.concatenate(
        [[1.5 * upper[0] - 0.5 * upper[1]], (upper[:-1] + upper[1:]) / 2, [1.5 * upper[-1] - 0.5 * upper[-2]]]
    )
    first = next(position for position, edge in enumerate(edges) if edge > bounds.lower)
    last = next(position for position, edge in enumerate(edges) if edge >= bounds.upper)
    up, down = _outwards(first, last)
    grows = np.ones(len(middles[up]), dtype=bool), np.ones(len(middles[down]), dtype=bool)
    # Bins within the bounds are equally wide, so how they fall says nothing about octaves beyond.
    outer = np.concatenate([upper[:first], middles[first : last + 1], upper[last:]])
    return _clamped((np.array(noisy), middles, outer), (first, last), bounds, grows, _Noised.of(noise), shape=1)


def _outwards(first: int, last: int) -> tuple[slice, slice]:
    """The bins above the last of two places, and those below the first, from there on."""
    return slice(last + 1, None), slice(first - 1, None, -1) if first else slice(0, 0)


def _clamped(
    bins: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    ends: tuple[int, int],
    bounds: Bounds,
    grows: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    noised: _Noised,
    shape: int | None = None,
    *,
    quotients: bool = False,
) -> Clamped:
    """Both sides, from counts, middles and outer edges; `shape`: how many bins inside are used to see how they fall."""
    counts, middles, outer = bins
    low, high = float(bounds.lower), float(bounds.upper)
    first, last = ends
    inside = np.maximum(counts[first : last + 1], 0.0)
    owners = max(float(inside.sum()), 1.0)
    up, down = _outwards(first, last)
    at_ends = inside[-(shape or len(inside)) :], inside[::-1][-(shape or len(inside)) :]
    above = _side(counts[up], (middles - high)[up], grows[0], at_ends[0], noised, quotients=quotients)
    below = _side(counts[down], (low - middles)[down], grows[1], at_ends[1], noised, quotients=quotients)
    # Towards zero octaves never end; ending at 0 instead does no harm.
    below_tail = TO_ZERO if low > 0 else _tail(below.bins, outer[down], owners)
    above_tail = TO_ZERO if high < 0 else _tail(above.bins, outer[up], owners)
    within = np.clip(middles[first : last + 1], low, high)
    size = float(inside @ np.abs(within)) / owners
    believed, feared = above.owners + below.owners, above.feared_owners + below.feared_owners
    return Clamped(
        above=above.per_owner(owners, above_tail),
        below=below.per_owner(owners, below_tail),
        owners=owners,
        size=size,
        both_signs=low < 0,
        outside=believed / (owners + believed),
        feared_outside=feared / (owners + feared),
        heaviness=above.heaviness,
        spread=_deviation(within, np.where(inside >= 2 * noised.deviation, inside, 0.0)),
        shares_outside=(below.feared_owners / (owners + feared), above.feared_owners / (owners + feared)),
        seen=below.seen + above.seen,
        mean=float(inside @ within) / owners,
        quotients=quotients,
    )


def without_outside(clamped: Clamped) -> Clamped:
    """The same if nothing can lie beyond the bounds: what seems to is noise."""
    return replace(clamped, below=Beyond(), above=Beyond(), outside=0.0, feared_outside=0.0, shares_outside=(0.0, 0.0))


def _tail(feared: NDArray[np.float64], edges: NDArray[np.float64], owners: float) -> tuple[tuple[float, float], ...]:
    """For every bin that may hold somebody, the share of owners further out, and its outer edge."""
    last = int(np.flatnonzero(feared >= 1 / 2)[-1]) + 1 if (feared >= 1 / 2).any() else 0
    beyond = np.concatenate([np.cumsum(feared[:last][::-1])[::-1][1:], [0.0]]) / owners
    return tuple(zip(beyond.tolist(), edges[:last].tolist(), strict=True)) if last else ()


def _deviation(values: NDArray[np.float64], owners: NDArray[np.float64]) -> float:
    """The standard deviation of the values of this many owners; 0 if noise hides all of them."""
    if not owners.sum():
        return 0.0
    mean = float(owners @ values) / float(owners.sum())
    return math.sqrt(float(owners @ (values - mean) ** 2) / float(owners.sum()))


def _outer(histogram: Histogram, number: int) -> float:
    """The end of a bin that lies farther from 0."""
    return max((float(edge) for edge in histogram.edges(number)), key=abs)


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
    heaviness: float
    seen: int
    bins: NDArray[np.float64]
    """Feared, bin by bin from the bounds outwards."""

    def per_owner(self, owners: float, tail: tuple[tuple[float, float], ...]) -> Beyond:
        return Beyond(self.lost / owners, self.feared / owners, self.square / owners, tail)


@dataclass(frozen=True, slots=True)
class _Noised:
    """The noise of one bin: what it exceeds once in twenty, and its standard deviation."""

    spread: float
    deviation: float

    @staticmethod
    def of(noise: AdditiveNoise) -> _Noised:
        if not noise.shift.l1:
            return _Noised(0.0, 0.0)
        return _Noised(float(noise_quantile(noise, TWO_SIDED)), noise_standard_deviation(noise))

    def standing_out(self, counts: NDArray[np.float64]) -> int:
        """How many bins, from the bounds outwards and without a gap, stand out, alone or with neighbours."""
        last = 0
        while width := next((w for w in NEIGHBOURS if self._stands_out(counts[last : last + w], w)), 0):
            last += width
        return last

    def seen(self, counts: NDArray[np.float64], seen: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bins that stand out, believed and feared; one that does so with its neighbours alone holds less than the one before.

        Noise may have filled it, and a few owners far out would move an end by orders of magnitude.
        """
        believed, feared = np.maximum(counts, 0.0), np.zeros(len(counts))
        feared[:seen] = believed[:seen] + self.deviation
        least, surely = max(STANDS_OUT * self.deviation, 1.0), SURELY * self.deviation
        unbroken = True
        for position in range(seen):
            unbroken = unbroken and counts[position] >= least
            if not unbroken and position and counts[position] < surely:
                believed[position] = min(believed[position], POOLED * believed[position - 1])
                feared[position] = min(feared[position], POOLED * feared[position - 1])
        return believed, feared

    def _stands_out(self, run: NDArray[np.float64], width: int) -> bool:
        least = max(STANDS_OUT * self.deviation * math.sqrt(width), 1.0)
        alone = width > FEW and run.max(initial=0.0) > run.sum() / 2  # one bin far out is not a tail
        return len(run) == width and bool(run[-1] > 0) and float(run.sum()) >= least and not alone


def _side(
    counts: NDArray[np.float64],
    excess: NDArray[np.float64],
    grows: NDArray[np.bool_],
    inside: NDArray[np.float64],
    noised: _Noised,
    *,
    quotients: bool,
) -> _Side:
    """Bins from the bounds outwards, after those `inside`; `grows` if the next octave is wider than the one before."""
    seen = noised.standing_out(counts)
    believed, feared = noised.seen(counts, seen)
    falling = heaviness_of(
        np.concatenate([inside, counts[:seen]]), len(inside) + seen - 1, FEARED_FIRST, noised.deviation
    )
    heavy = quotients and bool(grows[:1].all())
    heaviness = 1.0 if heavy else min(1.0, HEAVIER * falling)
    as_seen = _fall_of(believed[:seen])
    fall = max(BELIEVED + (FEARED_FIRST - BELIEVED) * heaviness, as_seen)
    before = believed[seen - 1] if seen else float(inside[-1])
    feared_before = feared[seen - 1] if seen else float(inside[-1])
    for position in range(seen, len(counts)):
        before = believed[position] = min(believed[position], BELIEVED * before)
        most = (fall if position > seen and grows[position] else max(FEARED_FIRST, as_seen)) * feared_before
        feared_before = feared[position] = min(max(counts[position], 0.0) + (1 + heaviness) * noised.spread, most)
        if feared_before < 1 / 2:
            believed[position + 1 :] = 0.0
            break
    squared = (
        len(counts) if heavy else seen + SQUARED + math.ceil(2 * SQUARED * heaviness) + (SQUARED if as_seen else 0)
    )
    far = np.maximum(excess, 0.0)
    return _Side(
        float(believed @ far),
        float(feared @ far),
        float(feared[:squared] @ far[:squared] ** 2),
        float(believed.sum()),
        float(feared.sum()),
        heaviness,
        seen,
        feared,
    )


def _fall_of(seen: NDArray[np.float64]) -> float:
    """How octaves that stand out beyond the bounds fall, from one to the next; 0 if there are too few to tell."""
    if len(seen) < ENOUGH_SEEN:
        return 0.0
    return min(float(seen[1:].sum()) / max(float(seen[:-1].sum()), 1e-9), SLOWEST)


def most_clamped(cuts: Sequence[Clamped | None]) -> Clamped | None:
    """The one that cuts off most, among groups that have the same bounds."""
    known = [cut for cut in cuts if cut is not None]
    return max(known, key=lambda cut: cut.above.feared + cut.below.feared, default=None)


def beyond_in_words(clamped: Clamped | None) -> str:
    """Roughly how many owners' values lie beyond the bounds."""
    if clamped is None or clamped.feared_outside < 0.005:
        return "; next to none lie there"
    believed, feared = clamped.outside, clamped.feared_outside
    return f"; about {believed:.0%} (up to {feared:.0%}) of them lie there, which the far ends count"
