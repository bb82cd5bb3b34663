"""A measure after noise, and how noisy integers become numbers, errors and intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shoal.errors import InternalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.accounting.events import Randomised
    from shoal.mechanisms.ranks.bands import RankBands
    from shoal.params import Bounds
    from shoal.plan.measures import Measure, Steps

INT64_MAX = 2**63 - 1
Interval = tuple["NDArray[Any]", "NDArray[Any]"]


class Forest(Protocol):
    """What noisy trees, one per group, can answer."""

    def quantiles(self, probabilities: Sequence[float]) -> NDArray[Any]:
        """Positions in [0, 1] below which these fractions of a group's rows lie: (groups, probabilities)."""

    def bands(
        self, fractions: Sequence[Fraction], levels: Sequence[float], *, sampled: bool = False
    ) -> RankBands | None:
        """Where these fractions lie, of these rows or of those they are a sample of, at each level; None if that is not known."""


@dataclass(frozen=True, slots=True)
class NoisyMeasure:
    """A measure after noise, for all released groups, with the public parameters it was taken with."""

    measure: Measure
    noise: Randomised
    grid: Fraction
    bounds: Bounds | None
    steps: Steps | None
    values: NDArray[Any]
    forest: Forest | None = None
    bands: RankBands | None = None
    """For quantiles: where they lie, from released numbers alone."""

    @property
    def floats(self) -> NDArray[np.float64]:
        """The released values in the analyst's units."""
        return np.array(self.values, dtype=np.float64) * float(self.grid)

    def half_width(self, level: float) -> float:
        """The half-width of the noise at this confidence, in the analyst's units."""
        return half_width(self.noise, level, self.grid)

    def whole_half_width(self, level: float) -> float:
        """The same for an answer rounded to a whole number: a draw within q ends up within ⌊q + ½⌋."""
        return float(math.floor(self.half_width(level) + 0.5))


def half_width(noise: Randomised, level: float, grid: Fraction | None = None) -> float:
    """The half-width of the noise at this confidence, in the analyst's units."""
    from shoal.accounting.events import QuantileChoice
    from shoal.mechanisms.calibrate import noise_quantile

    if isinstance(noise, QuantileChoice):
        raise InternalError("a choice adds no noise")

    if noise.shift.l1 == 0:
        return 0.0
    return noise_quantile(noise, level) * float(noise.grid if grid is None else grid)


def nothing(size: int) -> NDArray[Any]:
    """NULL for every group."""
    return np.full(size, None, dtype=object)


def integers(reading: NoisyMeasure) -> NDArray[Any]:
    """Whole numbers, rounded from a finer grid if necessary and saturated to 64 bits after the noise."""
    whole = _whole(reading)
    if isinstance(whole, np.ndarray):
        return whole
    return np.array([max(-INT64_MAX - 1, min(INT64_MAX, v)) for v in whole], dtype=np.int64)


def _whole(reading: NoisyMeasure) -> NDArray[np.int64] | list[int]:
    """Whole numbers of any size; vectorised if every intermediate result is certain to fit in 64 bits."""
    top, bottom = reading.grid.numerator, reading.grid.denominator
    largest = max(map(abs, reading.values), default=1)
    if 2 * max(int(largest), 1) * top + 2 * bottom <= INT64_MAX:
        return (2 * reading.values.astype(np.int64) * top + bottom) // (2 * bottom)
    return [(2 * int(v) * top + bottom) // (2 * bottom) for v in reading.values]


def around_whole(reading: NoisyMeasure, level: float) -> Interval:
    """Exact quantiles of the noise around a whole number, even where the answer is saturated to 64 bits."""
    return around(np.array(_whole(reading), dtype=np.float64), reading.whole_half_width(level))


def around(values: NDArray[Any], half_width: float) -> Interval:
    """A two-sided interval."""
    centre = np.array(values, dtype=np.float64)
    return centre - half_width, centre + half_width
