"""Numbers that know how wrong they can be.

>>> share_of_trials(10, 100)
Estimate(value=0.1, low=0.05523, high=0.1744)
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVEL = 0.95
"""An interval holds the truth in at least about this share of scans."""

Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """A measured number and an interval that holds the truth with 95% confidence; exact when low = high."""

    value: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"Estimate(value={self.value:.4g}, low={self.low:.4g}, high={self.high:.4g})"

    def __iter__(self) -> Iterator[float]:
        return iter((self.value, self.low, self.high))

    @property
    def exact(self) -> bool:
        """Whether nothing was sampled."""
        return self.low == self.high

    @property
    def error(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def to_dict(self) -> dict[str, float]:
        """The three numbers, for machines."""
        return {"value": self.value, "low": self.low, "high": self.high}


def exactly(value: float) -> Estimate:
    """A number that was counted, not estimated."""
    return Estimate(float(value), float(value), float(value))


UNKNOWN_SHARE = Estimate(0.0, 0.0, 1.0)
"""A share of which nothing was seen."""


def share_of_trials(
    hits: float, trials: float, hits_low: float | None = None, hits_high: float | None = None
) -> Estimate:
    """A share seen in a sample, with Wilson's interval; `hits_low` and `hits_high` bound what was counted inexactly.

    Wilson: centre (p + z²/2n)/(1 + z²/n), half width z·√(p(1−p)/n + z²/4n²)/(1 + z²/n). Unlike p ± z√(p(1−p)/n) it does
    not shrink to nothing at p = 0 and p = 1.
    """
    if trials <= 0:
        return UNKNOWN_SHARE
    low = _wilson((hits if hits_low is None else hits_low) / trials, trials)[0]
    high = _wilson((hits if hits_high is None else hits_high) / trials, trials)[1]
    return Estimate(hits / trials, low, high)


def _wilson(share: float, trials: float) -> tuple[float, float]:
    spread = Z * Z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread * spread / 4) / (1 + spread)
    # at the ends the two terms cancel exactly in theory and almost in floats
    return (0.0 if share == 0 else max(0.0, centre - half), 1.0 if share == 1 else min(1.0, centre + half))


def distinct_from_threshold(kept: int, fraction: float) -> Estimate:
    """Distinct values when the `kept`-th smallest hash lies at this fraction of the hash space: (K − 1)/fraction.

    With n values, n·fraction is close to a Gamma(K) variable; its quantiles (Wilson–Hilferty:
    K(1 − 1/9K ± z/√9K)³) over the fraction give the interval. The relative standard error is 1/√K.
    """
    ends = [kept * (1 - 1 / (9 * kept) + side * Z / math.sqrt(9 * kept)) ** 3 for side in (-1, 1)]
    return Estimate((kept - 1) / fraction, max(ends[0], kept * fraction) / fraction, ends[1] / fraction)


def clipped(estimate: Estimate, top: float = 1.0) -> Estimate:
    """The same estimate of something that lies in [0, top]."""
    return Estimate(*(min(top, max(0.0, end)) for end in (estimate.value, estimate.low, estimate.high)))


def divided(above: Estimate, below: Estimate) -> Estimate:
    """A quotient of two independent estimates; relative errors add in squares."""
    if below.value <= 0:
        return UNKNOWN_SHARE
    quotient = above.value / below.value
    relative = below.error / below.value
    down = math.hypot((above.value - above.low) / below.value, quotient * relative)
    up = math.hypot((above.high - above.value) / below.value, quotient * relative)
    return Estimate(quotient, quotient - down, quotient + up)
