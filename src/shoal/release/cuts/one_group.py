"""How much of what lies beyond bounds one group may hold, if bounds are the same for all groups.

On average a group holds its share, and a few values that are a thousand times the others never spread evenly. Per owner of a group
of n owners, of N in all, with the mean f and the mean square q of what lies beyond the bounds:

- chance alone makes it f + Z·√(q/n);
- a group whose average lies r times as far from the other bound as that of all has more large values: f·r² + r·Z·√(q/n);
- no group holds more than all there is, f·N/n;
- owners who lie beyond the bound count as being there, so their share of a group is at most that of its average between the
  bounds.

What is feared because noise might hide it, and not because it is seen, falls on every group alike: one group is not expected to
have all that nobody has seen. All of it counts as seen for quotients, and where groups are made of the values themselves.
Towards zero nothing goes past zero, so nothing more is added there.

Everything is read from released numbers: the histogram that found the bounds, and the group's own average and size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.release.cuts.clamped import Beyond, Clamped

Z = 1.5


@dataclass(frozen=True, slots=True)
class Tail:
    """What lies beyond one bound, over all groups."""

    feared: float
    """Per owner of all, as are the mean square and the mean."""
    square: float
    each: float
    """Per owner who lies there."""
    owners: float
    other_bound: float
    span: float
    """From the other bound to this one; negative for what lies below."""
    mean: float
    seen: float = 1.0
    """Which part of what is feared is seen: the root of that share, as what is seen is a part of a tail."""
    by_itself: bool = False
    """Groups are made of the values: nothing is left to chance, and those on the tail's side of the mean may have all of it."""
    apart: float = 0.0
    """How far averages of rows may lie from those of owners, over all groups: as much as values vary."""

    def __post_init__(self) -> None:
        sizes = min(self.feared, self.square, self.each, self.seen, 1 - self.seen)
        if not (sizes >= 0 and self.owners >= 1 and self.span):
            raise InternalError("a tail has a size and a place")

    def in_groups(self, low: NDArray[Any], high: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.float64]:
        """How far averages between these ends, of this many owners each, may lie from those of clamped values."""
        owners = np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)
        furthest = self._from_other_bound(high if self.span > 0 else low)
        of_all = max(self._from_other_bound(np.array([self.mean]))[0], 1e-9)
        larger = np.maximum(self._from_other_bound((low + high) / 2) / of_all, 1.0)
        likely = self.feared * larger**2 + larger * Z * np.sqrt(self.square / owners)
        if self.by_itself:
            likely = np.where(larger > 1, np.inf, self.feared)
        most = np.minimum(self.feared * self.owners / owners, self.each * furthest)
        more = np.maximum(np.minimum(likely, most) - self.feared, 0.0)
        if self.by_itself:
            # Groups of the tail vary more than all do: at most as if all that varies were theirs.
            more += np.where(larger > 1, self.apart * (np.sqrt(np.maximum(self.owners / owners, 1.0)) - 1), 0.0)
        return np.asarray(self.feared + self.seen * more)

    def _from_other_bound(self, means: NDArray[Any]) -> NDArray[np.float64]:
        """As a share of the distance between the bounds."""
        return np.clip((np.asarray(means, dtype=np.float64) - self.other_bound) / self.span, 0.0, 1.0)


def tails_of(
    clamped: Clamped, bounds: Bounds, *, by_itself: bool = False, apart: float = 0.0
) -> tuple[Tail | None, Tail | None]:
    """Of both sides; None where nothing is feared. `by_itself`: groups are made of the values."""
    low, high = float(bounds.lower), float(bounds.upper)
    share_below, share_above = clamped.shares_outside
    return (
        _tail(clamped, clamped.below, share_below, (high, low - high), by_itself=by_itself, apart=apart)
        if low <= 0
        else None,
        _tail(clamped, clamped.above, share_above, (low, high - low), by_itself=by_itself, apart=apart)
        if high >= 0
        else None,
    )


def _tail(
    clamped: Clamped, beyond: Beyond, share: float, place: tuple[float, float], *, by_itself: bool, apart: float
) -> Tail | None:
    other_bound, span = place
    if not (beyond.feared and share and span):
        return None
    each = beyond.feared / share
    seen = 1.0 if clamped.quotients or by_itself else min(1.0, math.sqrt(beyond.believed / beyond.feared))
    return Tail(
        beyond.feared,
        beyond.square,
        each,
        clamped.owners,
        other_bound,
        span,
        clamped.mean,
        seen,
        by_itself=by_itself,
        apart=apart,
    )
