"""How far the ends of an interval move beyond the noise, because limits or bounds left something out.

A count, or a sum of what is never negative, loses a share: its high end is divided by what was kept. Bounds move a mean by
what lies beyond them, and a spread by the root of its mean square. An interval of a quantile that ends at a bound goes as far past
it as values are feared that are no fewer than the quantile leaves out; so does each interval of a list. The moved end has no
confidence level.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.aggregates.defaults import Clamped as Moved
from shoal.plan.aggregates.defaults import OfOwner
from shoal.plan.types import RELEASED_LIST
from shoal.release.cuts.one_group import Tail, tails_of
from shoal.rewrite.limits.choosing import at_most_half

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates import Aggregate
    from shoal.release.cuts.clamped import Clamped
    from shoal.rewrite.limits.choosing import Kept

Ends = tuple["NDArray[Any]", "NDArray[Any]"]
MEASURED = 1.25
"""The exponent of the share that bounds keep: groups differ from the whole."""
OF_SPREAD = 0.3
"""Of the spread of owners' averages: how far the average of rows may lie from theirs. It is their correlation with the number of
rows, times the spread of that number relative to its mean; on fourteen columns of public data sets the median was 0.07, and that of
quantities of Online Retail is 0.14."""
OF_ROWS_LEFT_OUT, OF_ROWS_OF_GROUP = 0.25, 0.4
"""How far towards either bound the average of rows that were left out may lie from that of the others. They belong to owners
of whom as many rows as the limit allows were read, so that only owners with many rows can differ; in one group they differ more."""
LARGEST = Fraction(10**12)
NEAR = 1e-6
"""As a fraction of the width of bounds: anything less, next to a bound or beyond it, is ignored."""
SPREADS: dict[Moved | None, str] = {Moved.VARIANCE: "square", Moved.DEVIATION: "root"}


@dataclass(frozen=True, slots=True)
class Widening:
    """Both ends: what each is divided by the kept share of (as a factor), and how far it is moved besides.

    `both_signs`: what is shown may be of either sign, so that factors act on the larger end's size; else the high end is
    multiplied, and the low end is made smaller by its factor. `of_spread`: the shift is one of standard deviations.
    """

    low_factor: Fraction = Fraction(1)
    high_factor: Fraction = Fraction(1)
    low_shift: Fraction = Fraction(0)
    high_shift: Fraction = Fraction(0)
    both_signs: bool = False
    least: Fraction | None = None
    most: Fraction | None = None
    """What the exact number cannot be less, or more, than: both ends stay within, unless noise carried them past it whole."""
    at: tuple[Fraction, Fraction] | None = None
    reach: tuple[Fraction, Fraction] | None = None
    """For quantiles: bounds at which values are clamped, and how far values beyond them may lie. Ends at a bound go there."""
    tails: tuple[Tail | None, Tail | None] | None = None
    """For averages by group: what lies below and above the bounds in all. Shifts then are those of a group without a size."""
    left_out: Fraction = Fraction(0)
    within: tuple[Fraction, Fraction] | None = None
    """For averages of rows: the part of the way to bounds of one row that each end goes, because of rows that were left out."""
    of_spread: str = ""
    """'' for what is shown as it is; 'root' for a standard deviation, 'square' for a variance."""
    reaches: tuple[tuple[Fraction, Fraction], ...] | None = None
    """For lists of quantiles: `reach` of each."""

    def __post_init__(self) -> None:
        factors = all(1 <= factor <= LARGEST for factor in (self.low_factor, self.high_factor))
        if not factors or min(self.low_shift, self.high_shift) < 0 or self.of_spread not in {"", "root", "square"}:
            raise InternalError("an interval is made wider, never narrower")

    @property
    def widens(self) -> bool:
        """Whether anything is moved at all."""
        moved = max(self.low_factor, self.high_factor) > 1 or max(self.low_shift, self.high_shift) > 0
        return moved or self.reach is not None or self.reaches is not None or self.left_out > 0

    @property
    def possible(self) -> tuple[float, float]:
        """What the exact number is at least and at most; infinite if nothing is known."""
        least, most = (
            math.inf * side if end is None else float(end) for end, side in ((self.least, -1), (self.most, 1))
        )
        return least, most

    def of(
        self, low: NDArray[Any], high: NDArray[Any], *, whole: bool = True, sizes: NDArray[Any] | None = None
    ) -> Ends:
        """The ends including what was left out, kept within what is possible; without `whole`, those of the noise alone.

        `sizes`: about how many owners each group has, where that was released.
        """
        bounded = self.least is not None or self.most is not None
        if not bounded and not (whole and self.widens):
            return low, high
        known = np.array([value is not None for value in low], dtype=bool)
        wide = low.copy(), high.copy()
        if whole and self.at is not None and self.reaches is not None:
            return _listed(*wide, np.flatnonzero(known), self.at, self.reaches)
        ends = low[known].astype(np.float64), high[known].astype(np.float64)
        moved = self._moved(*ends) if whole and self.widens else ends
        if whole and sizes is not None and self.tails is not None:
            moved = self._further(ends, moved, sizes[known])
        wide[0][known], wide[1][known] = self._possible(ends, moved)
        return wide

    def _further(self, noise: Ends, moved: Ends, sizes: NDArray[Any]) -> Ends:
        """A group may hold more than its share of what lies beyond the bounds."""
        below, above = (
            0.0 if tail is None else tail.in_groups(*noise, sizes) - tail.feared for tail in self.tails or (None, None)
        )
        return moved[0] - below, moved[1] + above

    def _possible(self, noise: Ends, wide: Ends) -> Ends:
        """Cut where the exact number cannot lie; what noise carried there whole stays, and goes no further."""
        least, most = self.possible
        lowest = np.where(noise[1] > least, least, noise[0])
        highest = np.where(noise[0] < most, most, noise[1])
        return np.maximum(wide[0], lowest), np.minimum(wide[1], highest)

    def _moved(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> Ends:
        if self.at is not None and self.reach is not None:
            return _reaching(low, high, self.at, *map(float, self.reach))
        up, down = float(self.high_shift), float(self.low_shift)
        if self.within is not None:
            part, (lower, upper) = float(self.left_out), map(float, self.within)
            low, high = low - part * np.maximum(low - lower, 0.0), high + part * np.maximum(upper - high, 0.0)
        if self.of_spread == "square":
            return low, (np.sqrt(np.maximum(high, 0.0)) + up) ** 2
        more, less = float(self.high_factor) - 1, float(self.low_factor) - 1
        if self.both_signs:
            size = np.maximum(np.abs(low), np.abs(high))
            # A group with the minority sign has its cut on the other side.
            other = (low + high < 0) != (less > more)
            down_by, up_by = (np.where(other, max(less, more), end) for end in (less, more))
            return low - down_by * size - down, high + up_by * size + up
        return low - less * np.maximum(low, 0.0) - down, high + more * np.maximum(high, 0.0) + up

    def and_also(self, other: Widening) -> Widening:
        """Both, one after the other."""
        return Widening(
            min(LARGEST, self.low_factor * other.low_factor),
            min(LARGEST, self.high_factor * other.high_factor),
            self.low_shift + other.low_shift,
            self.high_shift + other.high_shift,
            self.both_signs or other.both_signs,
            self.least if other.least is None else other.least,
            self.most if other.most is None else other.most,
            self.at or other.at,
            self.reach or other.reach,
            self.tails or other.tails,
            max(self.left_out, other.left_out),
            self.within or other.within,
            self.of_spread or other.of_spread,
            self.reaches or other.reaches,
        )


NOTHING = Widening()


def _listed(
    low: NDArray[Any],
    high: NDArray[Any],
    known: NDArray[np.intp],
    at: tuple[Fraction, Fraction],
    reaches: tuple[tuple[Fraction, Fraction], ...],
) -> Ends:
    """The same of lists: each of their numbers has a reach of its own."""
    down, up = (np.array([float(reach[side]) for reach in reaches]) for side in (0, 1))
    for row in known.tolist():
        ends = _reaching(np.array(low[row], np.float64), np.array(high[row], np.float64), at, down, up)
        low[row], high[row] = ends[0].tolist(), ends[1].tolist()
    return low, high


def _reaching(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    at: tuple[Fraction, Fraction],
    down: float | NDArray[np.float64],
    up: float | NDArray[np.float64],
) -> Ends:
    """Ends at a bound, where clamped values lie, go as far as these may."""
    lower, upper, near = float(at[0]), float(at[1]), float(at[1] - at[0]) * NEAR
    return (
        np.where(low <= lower + near, np.minimum(low, down), low),
        np.where(high >= upper - near, np.maximum(high, up), high),
    )


def of_limits(aggregate: Aggregate, kept: Kept | None, *, never_negative: bool) -> Widening:
    """What limits on each owner cut from a count or a sum."""
    if kept is None or not aggregate.adds_up:
        return NOTHING
    factor = factor_of(kept)
    if never_negative or aggregate.never_negative:
        return Widening(high_factor=factor)
    against = kept.against
    if against is None:
        return Widening(low_factor=factor, high_factor=factor, both_signs=True)
    # With P and N kept of either sign, N = part·(P + N), what is shown is P − N: both are that, times their part, by 1 − 2·part.
    net = 1 - 2 * against.part
    of_most = _factor(1 + (float(factor) - 1) * (1 - against.part) / net)
    of_rest = _factor(1 + (float(factor_of(against.kept)) - 1) * against.part / net)
    low, high = (of_rest, of_most) if against.below else (of_most, of_rest)
    return Widening(low_factor=low, high_factor=high, both_signs=True)


def of_rows(aggregate: Aggregate, kept: Kept | None, bounds: Bounds | None, *, grouped: bool) -> Widening:
    """What an average of rows may lose where an owner has more rows than are read."""
    if kept is None or bounds is None or not aggregate.averages_rows:
        return NOTHING
    left_out = (OF_ROWS_OF_GROUP if grouped else OF_ROWS_LEFT_OUT) * (1 - 1 / float(factor_of(kept)))
    return Widening(left_out=Fraction(left_out).limit_denominator(10**6), within=(bounds.lower, bounds.upper))


def factor_of(kept: Kept) -> Fraction:
    """1/R^γ for the share R that limits kept: between what is believed and what is feared, or at most a half if unknown."""
    known = kept if kept.measured else at_most_half(kept.share, kept.pessimistic)
    return _factor(_between(known.share, known.pessimistic, known.heaviness) ** -known.exponent)


def _between(share: float, feared: float, heaviness: float = 0.0) -> float:
    """Nearer to what is feared where that is close, or where the tail that is seen does not fall off."""
    share, feared = max(share, 1e-6), max(feared, 1e-6)
    weight = max(feared, heaviness)
    return float(share ** (1 - weight) * feared**weight)


def _factor(number: float) -> Fraction:
    return min(LARGEST, max(Fraction(1), Fraction(number).limit_denominator(10**6)))


def of_bounds(
    aggregate: Aggregate,
    clamped: Clamped | None,
    bounds: Bounds | None,
    *,
    grouped: bool,
    one_row: bool,
    by_itself: bool = False,
) -> Widening:
    """What bounds of values, or of an owner's sums, cut from an aggregate; and how rows differ from their owners.

    `by_itself`: groups are made of the values.
    """
    if clamped is None:
        return NOTHING
    if aggregate.clamped is Moved.MEAN:
        both = 0.0 if one_row or aggregate.of_owner is not OfOwner.MEAN else OF_SPREAD * clamped.spread
        return Widening(
            low_shift=_shift(clamped.below.feared + both, clamped.size),
            high_shift=_shift(clamped.above.feared + both, clamped.size),
            tails=tails_of(clamped, bounds, by_itself=by_itself, apart=both)
            if grouped and bounds is not None
            else None,
        )
    if aggregate.clamped in SPREADS:
        beyond = math.sqrt(clamped.below.square + clamped.above.square)
        return Widening(high_shift=_shift(beyond), of_spread=SPREADS[aggregate.clamped])
    if aggregate.clamped is Moved.SUM:
        return _of_sums(clamped, grouped=grouped)
    return NOTHING


def of_quantile(aggregate: Aggregate, clamped: Clamped | None, bounds: Bounds | None) -> Widening:
    """How far a quantile may lie beyond bounds: to where fewer values than it leaves out are feared further out.

    A group may have a heavier tail than the whole, so half of them count.
    """
    if clamped is None or bounds is None:
        return NOTHING
    at = bounds.lower, bounds.upper
    reaches = tuple(_reach(float(rank), clamped, bounds) for rank in aggregate.ranks)
    if all(reach == at for reach in reaches):
        return NOTHING
    return Widening(at=at, reaches=reaches) if aggregate.type == RELEASED_LIST else Widening(at=at, reach=reaches[0])


def _reach(rank: float, clamped: Clamped, bounds: Bounds) -> tuple[Fraction, Fraction]:
    """How far below and above the bounds one quantile may lie."""
    near = float(bounds.upper - bounds.lower) * NEAR
    below, above = clamped.shares_outside
    low = clamped.below.reach(rank / 2) if below > rank / 2 else None
    high = clamped.above.reach((1 - rank) / 2) if above > (1 - rank) / 2 else None
    return (
        bounds.lower if low is None or low > float(bounds.lower) - near else Fraction(low),
        bounds.upper if high is None or high < float(bounds.upper) + near else Fraction(high),
    )


def _of_sums(clamped: Clamped, *, grouped: bool) -> Widening:
    """Owners' sums that lie beyond their bounds; alone, one total is moved by the sum of all that lies beyond."""
    up = _between(*clamped.shares, clamped.heaviness) ** -MEASURED
    down = 1 + MEASURED * clamped.below.feared / max(clamped.size, 1e-300)
    if grouped:
        return Widening(low_factor=_factor(down), high_factor=_factor(up), both_signs=clamped.both_signs)
    return Widening(
        low_shift=_shift(clamped.owners * clamped.below.feared),
        high_shift=_shift(clamped.owners * (up - 1) * clamped.size),
    )


def _shift(distance: float, size: float = 0.0) -> Fraction:
    """A distance; one that is tiny relative to what it moves counts as 0."""
    return Fraction(distance) if distance > NEAR * size else Fraction(0)
