"""VARIANCE and STDDEV, read off sums of bounded numbers and of their squares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.plan.aggregates.defaults import Clamped, KeptRows, Possible
from shoal.plan.aggregates.noisy_measure import Interval, nothing
from shoal.plan.aggregates.sums import HIGH_LEVEL
from shoal.plan.aggregates.wholes import ends_of_variance, variance_and_rows
from shoal.plan.measures import (
    Measure,
    RowMoment,
)
from shoal.plan.types import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates.noisy_measure import NoisyMeasure
    from shoal.plan.expressions import Expression


CERTAIN = 4
"""A row count must be at least this many times its noise width for first-order errors to be accurate."""
ROOT_OF_TWO = Fraction(14143, 10000)
"""Rounded up."""


@dataclass(frozen=True, slots=True)
class Variance(KeptRows):
    """VAR and STDDEV over at most `rows` rows of an owner: E[y²] − E[y]², y = x − m, clamped to [0, (U−L)²/4].

    With Laplace noise and known bounds it is read off three sums that one row moves by (U − L)² in total (`wholes`).
    """

    argument: Expression
    rows: int
    sample: bool
    root: bool
    type = DOUBLE
    shares = (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))

    @property
    def clamped(self) -> Clamped | None:
        """Squares, or their root."""
        return Clamped.DEVIATION if self.root else Clamped.VARIANCE

    @property
    def name(self) -> str:
        """The name the analyst knows."""
        return ("STDDEV" if self.root else "VAR") + ("_SAMP" if self.sample else "_POP")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Σ y, Σ y², rows."""
        return tuple(RowMoment(self.argument, power, self.rows) for power in (1, 2, 0))

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Values beyond the bounds."""
        return None if bounds is None else ("value", None)

    def possible(self, bounds: Bounds | None) -> Possible:
        """Largest when half of the values are at each bound; for a sample of two it is twice as large."""
        if bounds is None:
            return Fraction(0), None
        width, more = bounds.upper - bounds.lower, Fraction(2) if self.sample else Fraction(1)
        return Fraction(0), (width / 2 * ROOT_OF_TWO**self.sample if self.root else width**2 / 4 * more)

    @property
    def partition(self) -> tuple[Measure, ...]:
        """Three sums that one row moves by (U − L)² in total."""
        ends = ("lower", "between", "upper")
        return tuple(RowMoment(self.argument, 2, self.rows, origin=origin) for origin in ends)

    def _as_asked(self, variance: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        """Of a sample, or its root."""
        if self.sample:
            variance = variance * rows / np.maximum(rows - 1, 1.0)
        return np.asarray(np.sqrt(variance) if self.root else variance)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """From three noisy sums."""
        first, second, count = readings
        if first.bounds is None:
            return nothing(len(first.values))
        if first.measure.origin != "middle":
            return self._as_asked(*variance_and_rows(readings))
        return self._combined(first, first.floats, second, second.floats, count.floats)

    def _combined(
        self, first: NoisyMeasure, sums: NDArray[Any], second: NoisyMeasure, squares: NDArray[Any], counts: NDArray[Any]
    ) -> NDArray[Any]:
        assert first.bounds is not None  # noqa: S101 - narrowed by both callers
        assert first.steps is not None  # noqa: S101 - same
        assert second.steps is not None  # noqa: S101 - same
        rows = np.maximum(counts, 1.0)
        # The two sums are centred on middles of two different grids; bring the square to the middle of the first.
        shift = self._middle(second) - self._middle(first)
        means = sums / rows
        mean_of_squares = squares / rows + 2 * shift * (means - shift) + shift**2
        largest = float(first.bounds.upper - first.bounds.lower) ** 2 / 4
        variance = np.clip(mean_of_squares - means**2, 0.0, largest)
        return self._as_asked(variance, rows)

    @staticmethod
    def _middle(reading: NoisyMeasure) -> float:
        """The zero point of a centred sum; squares are counted on the square of their rows' grid."""
        assert reading.steps is not None  # noqa: S101 - moments have bounds
        return float(reading.steps.middle * float(reading.grid) ** (1 / reading.measure.power))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Centred on v = Q/n − (S/n)² if n is well above its noise; else the range with all three noises within their widths."""
        first, _, count = readings
        if first.bounds is None:
            return nothing(len(first.values)), nothing(len(first.values))
        if first.measure.origin != "middle":
            near = level >= HIGH_LEVEL
            (least, most), (few, many) = ends_of_variance(readings, level, near=near)
            return self._as_asked(least, many), self._as_asked(most, few)
        wide = self._corners(readings, level)
        if level < HIGH_LEVEL:
            return wide
        certain = count.floats > CERTAIN * count.half_width(level)
        narrow = self._around(readings, level)
        ends = [np.where(certain, near, far) for near, far in zip(narrow, wide, strict=True)]
        return np.maximum(ends[0], wide[0]), np.minimum(ends[1], wide[1])

    def _around(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """The error of v to first order in the three noises: ∂v/∂Q = 1/n, ∂v/∂S = −2μ/n, ∂v/∂n = (μ² − v)/n.

        At high levels the width of a sum of noises is at most the root of the sum of their squared widths. n may be smaller by
        its own width, and the squared noise in μ is added on both sides.
        """
        first, second, count = readings
        of_sum, of_squares, of_count = (reading.half_width(level) for reading in readings)
        rows = np.maximum(count.floats, 1.0)
        plain = replace(self, sample=False, root=False)
        variance = plain.finish(readings).astype(np.float64)
        mean = first.floats / rows + self._middle(first) - self._middle(second)
        squared = of_squares**2 + (2 * mean * of_sum) ** 2 + ((mean**2 - variance) * of_count) ** 2
        fewer = np.maximum(rows - of_count, 1.0)
        width = np.sqrt(squared) / fewer + (of_sum / fewer) ** 2
        assert first.bounds is not None  # noqa: S101 - narrowed by the caller
        largest = float(first.bounds.upper - first.bounds.lower) ** 2 / 4
        ends = [np.clip(variance + side * width, 0.0, largest) for side in (-1, 1)]
        if self.sample:
            ends = [end * rows / np.maximum(rows - 1, 1.0) for end in ends]
        low, high = (np.sqrt(end) if self.root else end for end in ends)
        return low, high

    def _corners(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Conservative: extremes over the corners with all three noises within their widths; 0 where they may cross."""
        first, second, count = readings
        each = (2 + level) / 3
        widths = [reading.half_width(each) for reading in readings]
        corners = [
            self._combined(
                first,
                first.floats + a * widths[0],
                second,
                second.floats + b * widths[1],
                count.floats + c * widths[2],
            )
            for a in (-1, 0, 1)
            for b in (-1, 1)
            for c in (-1, 1)
        ]
        # The variance is largest where the mean of y is nearest 0; that point may not be among the corners above.
        centred = self._combined(
            first,
            np.clip(0.0, first.floats - widths[0], first.floats + widths[0]),
            second,
            second.floats + widths[1],
            np.maximum(count.floats - widths[2], 1.0),
        )
        return np.minimum.reduce(corners), np.maximum.reduce([*corners, centred])
