"""How much of what lies beyond bounds one group may hold, if bounds are the same for all groups.

On average a group holds its share, and a few values that are a thousand times the others never spread evenly. Per owner of a group
of n owners, of N in all, with the mean f and the mean square q of what lies beyond the bounds:

- chance alone makes it f + Z·√(q/n);
- a group whose average lies r times as far from the other bound as that of all has more large values: f·r² + r·Z·√(q/n);
- no group holds more than all there is, f·N/n;
- owners who lie beyond the bound count as being there, so their share of a group is at most that of its average between the
  bounds.

Everything is read from released numbers: the histogram that found the bounds, and the group's own average and size.
"""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        if not (min(self.feared, self.square, self.each) >= 0 and self.owners >= 1 and self.span):
            raise InternalError("a tail has a size and a place")

    def in_groups(self, low: NDArray[Any], high: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.float64]:
        """How far averages between these ends, of this many owners each, may lie from those of clamped values."""
        owners = np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)
        furthest = self._from_other_bound(high if self.span > 0 else low)
        of_all = max(self._from_other_bound(np.array([self.mean]))[0], 1e-9)
        larger = np.maximum(self._from_other_bound((low + high) / 2) / of_all, 1.0)
        likely = self.feared * larger**2 + larger * Z * np.sqrt(self.square / owners)
        most = np.minimum(self.feared * self.owners / owners, self.each * furthest)
        return np.asarray(np.maximum(np.minimum(likely, most), self.feared))

    def _from_other_bound(self, means: NDArray[Any]) -> NDArray[np.float64]:
        """As a share of the distance between the bounds."""
        return np.clip((np.asarray(means, dtype=np.float64) - self.other_bound) / self.span, 0.0, 1.0)


def tails_of(clamped: Clamped, bounds: Bounds) -> tuple[Tail | None, Tail | None]:
    """Of both sides; None where nothing is feared."""
    low, high = float(bounds.lower), float(bounds.upper)
    share_below, share_above = clamped.shares_outside
    return (
        _tail(clamped, clamped.below, share_below, high, low - high),
        _tail(clamped, clamped.above, share_above, low, high - low),
    )


def _tail(clamped: Clamped, beyond: Beyond, share: float, other_bound: float, span: float) -> Tail | None:
    if not (beyond.feared and share and span):
        return None
    each = beyond.feared / share
    return Tail(beyond.feared, beyond.square, each, clamped.owners, other_bound, span, clamped.mean)
