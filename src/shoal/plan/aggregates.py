"""One class per aggregate: which measures it needs, how its budget is shared between them, how noisy sums become an answer.

`finish` and `interval` see released numbers and public parameters only. Intervals are marginal: they speak of the noise, not
of clamping, of dropped groups, or of the group having been kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shoal.errors import InternalError
from shoal.plan.measures import (
    DistinctValues,
    Leaves,
    Measure,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
    Steps,
)
from shoal.plan.types import DOUBLE, INTEGER, RELEASED_LIST, Kind, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.accounting.events import AdditiveNoise
    from shoal.params import Bounds
    from shoal.plan.expressions import Expression

INT64_MAX = 2**63 - 1
Column = "NDArray[Any]"
Interval = tuple["NDArray[Any]", "NDArray[Any]"]


class Forest(Protocol):
    """What noisy trees, one per group, can be asked."""

    def quantiles(self, probabilities: Sequence[float]) -> NDArray[Any]:
        """Places in [0, 1] below which these fractions of a group's rows lie: (groups, probabilities)."""


@dataclass(frozen=True, slots=True)
class NoisyMeasure:
    """A measure after noise, for all released groups, with the public parameters it was taken with."""

    measure: Measure
    noise: AdditiveNoise
    grid: Fraction
    bounds: Bounds | None
    steps: Steps | None
    values: NDArray[Any]
    forest: Forest | None = None

    @property
    def floats(self) -> NDArray[np.float64]:
        """The released values in the analyst's units."""
        return np.array(self.values, dtype=np.float64) * float(self.grid)

    def half_width(self, level: float) -> float:
        """How far the noise strays with this confidence, in the analyst's units."""
        from shoal.mechanisms.calibrate import noise_quantile

        if self.noise.shift.l1 == 0:
            return 0.0
        return noise_quantile(self.noise, level) * float(self.grid)

    def whole_half_width(self, level: float) -> float:
        """The same for an answer that is rounded to a whole number: a draw within q ends within ⌊q + ½⌋."""
        return float(math.floor(self.half_width(level) + 0.5))


def _nothing(size: int) -> NDArray[Any]:
    return np.full(size, None, dtype=object)


def _integers(reading: NoisyMeasure) -> NDArray[Any]:
    """Whole numbers, rounded from a finer grid if need be, saturated to 64 bits after the noise."""
    return np.array([max(-INT64_MAX - 1, min(INT64_MAX, v)) for v in _whole(reading)], dtype=np.int64)


def _whole(reading: NoisyMeasure) -> list[int]:
    """Whole numbers of any size."""
    top, bottom = reading.grid.numerator, reading.grid.denominator
    return [(2 * int(v) * top + bottom) // (2 * bottom) for v in reading.values]


def _around_whole(reading: NoisyMeasure, level: float) -> Interval:
    """Exact quantiles of the noise around a whole number, also where what is shown ends at 64 bits."""
    return _around(np.array(_whole(reading), dtype=np.float64), reading.whole_half_width(level))


def _around(values: NDArray[Any], half_width: float) -> Interval:
    centre = np.array(values, dtype=np.float64)
    return centre - half_width, centre + half_width


@dataclass(frozen=True, slots=True)
class CountOwners:
    """COUNT(DISTINCT owner): each owner is one; with an argument (an owner that may be missing) those who have it."""

    argument: Expression | None = None
    name = "COUNT(DISTINCT owner)"
    type = INTEGER
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The owners of a group."""
        return (OwnerCount(self.argument),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count, negative where the noise makes it so."""
        return _integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return _around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class CountRows:
    """COUNT(*) and COUNT(x): rows per owner clamped to [0, U]; `rows` replaces the clamp when rows are bounded per owner."""

    argument: Expression | None
    rows: int | None = None
    name = "COUNT"
    type = INTEGER
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows, clamped per owner, or one by one."""
        return (RowCount(self.argument) if self.rows is None else RowMoment(self.argument, 0, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count."""
        return _integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return _around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class Sum:
    """SUM(x): the sum of an owner's values in a group, clamped to [L, U]."""

    argument: Expression
    rows: int | None = None
    name = "SUM"
    shares = (Fraction(1),)

    @property
    def is_integer(self) -> bool:
        """Sums of integers are integers."""
        return self.argument.type.kind is Kind.INTEGER

    @property
    def type(self) -> Type:
        """Integer in, integer out."""
        return INTEGER if self.is_integer else DOUBLE

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One clamped sum per owner, or rows clamped one by one."""
        if self.rows is None:
            return (OwnerSum(self.argument, self.is_integer),)
        return (RowMoment(self.argument, 1, self.rows, centred=False, is_integer=self.is_integer),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy sum."""
        if readings[0].bounds is None:
            return _nothing(len(readings[0].values))
        return _integers(readings[0]) if self.is_integer else readings[0].floats

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        if readings[0].bounds is None:
            return self.finish(readings), self.finish(readings)
        if self.is_integer:
            return _around_whole(readings[0], level)
        return _around(readings[0].floats, readings[0].half_width(level))


@dataclass(frozen=True, slots=True)
class Average:
    """AVG(x): the average of per-owner averages, m + S / max(1, n), clamped to [L, U].

    The sum S carries most of the error unless the answer lies at the edge of the bounds, so it gets 70% of the budget.
    """

    argument: Expression
    rows: int | None = None
    name = "AVG"
    type = DOUBLE
    shares = (Fraction(7, 10), Fraction(3, 10))

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The centred sum, and how many owners (or rows) it is over."""
        if self.rows is None:
            return OwnerMean(self.argument), OwnerCount(self.argument)
        return RowMoment(self.argument, 1, self.rows), RowMoment(self.argument, 0, self.rows)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """M + S / max(1, n), clamped."""
        total, count = readings
        if total.bounds is None or total.steps is None:
            return _nothing(len(total.values))
        return self._quotient(total, total.floats, count.floats)

    def _quotient(self, total: NoisyMeasure, sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
        assert total.bounds is not None  # noqa: S101 - narrowed by both callers
        assert total.steps is not None  # noqa: S101 - same
        middle = total.steps.middle * float(total.grid)
        means: NDArray[Any] = middle + sums / np.maximum(counts, 1.0)
        return np.asarray(np.clip(means, float(total.bounds.lower), float(total.bounds.upper)))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Conservative: both noises stay within their widths at once (union bound), the quotient at its extremes."""
        total, count = readings
        if total.bounds is None:
            return _nothing(len(total.values)), _nothing(len(total.values))
        each = (1 + level) / 2
        sum_width, count_width = total.half_width(each), count.half_width(each)
        ends = [
            self._quotient(total, total.floats + side * sum_width, count.floats + way * count_width)
            for side in (-1, 1)
            for way in (-1, 1)
        ]
        return np.minimum.reduce(ends), np.maximum.reduce(ends)


@dataclass(frozen=True, slots=True)
class Variance:
    """VAR and STDDEV over at most `rows` rows of an owner: E[y²] − E[y]², y = x − m, clamped to [0, (U−L)²/4]."""

    argument: Expression
    rows: int
    sample: bool
    root: bool
    type = DOUBLE
    shares = (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))

    @property
    def name(self) -> str:
        """As the analyst knows it."""
        return ("STDDEV" if self.root else "VAR") + ("_SAMP" if self.sample else "_POP")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Σ y, Σ y², rows."""
        return tuple(RowMoment(self.argument, power, self.rows) for power in (1, 2, 0))

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """From three noisy sums."""
        first, second, count = readings
        if first.bounds is None:
            return _nothing(len(first.values))
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
        if self.sample:
            variance = variance * rows / np.maximum(rows - 1, 1.0)
        return np.asarray(np.sqrt(variance) if self.root else variance)

    @staticmethod
    def _middle(reading: NoisyMeasure) -> float:
        """Where a centred sum has its zero; squares are counted on the square of their rows' grid."""
        assert reading.steps is not None  # noqa: S101 - moments have bounds
        return float(reading.steps.middle * float(reading.grid) ** (1 / reading.measure.power))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Conservative: all three noises within their widths at once; extremes over the corners, 0 where they may cross."""
        first, second, count = readings
        if first.bounds is None:
            return _nothing(len(first.values)), _nothing(len(first.values))
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
        # The variance is largest where the mean of y is nearest 0; that corner need not be among the ones above.
        centred = self._combined(
            first,
            np.clip(0.0, first.floats - widths[0], first.floats + widths[0]),
            second,
            second.floats + widths[1],
            np.maximum(count.floats - widths[2], 1.0),
        )
        return np.minimum.reduce(corners), np.maximum.reduce([*corners, centred])


@dataclass(frozen=True, slots=True)
class Quantile:
    """PERCENTILE, MEDIAN, NTILE, APPROX_QUANTILES: read off one noisy tree that all quantiles of a column share."""

    argument: Expression
    fraction: Fraction
    rows: int
    name = "QUANTILE"
    type = DOUBLE
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows per leaf."""
        return (Leaves(self.argument, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The place in [L, U]."""
        return _place(readings[0], float(self.fraction))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:  # noqa: ARG002 - no honest one
        """None: a tree says nothing certain about its own rank error."""
        size = len(readings[0].values)
        return _nothing(size), _nothing(size)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """APPROX_QUANTILES(x, n): the n + 1 cut points from the least to the greatest, off the same tree."""

    argument: Expression
    parts: int
    rows: int
    name = "QUANTILES"
    type = RELEASED_LIST
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows per leaf."""
        return (Leaves(self.argument, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """Lists of places in [L, U], monotone."""
        if readings[0].bounds is None:
            return _nothing(len(readings[0].values))
        cuts = _places(readings[0], [i / self.parts for i in range(self.parts + 1)])
        lists = np.empty(len(cuts), dtype=object)
        lists[:] = [row.tolist() for row in cuts]
        return lists

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:  # noqa: ARG002 - no honest one
        """None, as for a single quantile."""
        size = len(readings[0].values)
        return _nothing(size), _nothing(size)


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN and MAX: the outermost quantile of per-owner extremes."""

    argument: Expression
    side: str
    rows = 1
    type = DOUBLE
    shares = (Fraction(1),)

    @property
    def name(self) -> str:
        """MIN or MAX."""
        return self.side.upper()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Owners per leaf of their own extreme."""
        return (Leaves(self.argument, 1, extreme=self.side),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The place in [L, U]."""
        return _place(readings[0], 0.0 if self.side == "min" else 1.0)

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:  # noqa: ARG002 - no honest one
        """None: nothing bounds how far the true extreme lies."""
        size = len(readings[0].values)
        return _nothing(size), _nothing(size)


def _place(reading: NoisyMeasure, fraction: float) -> NDArray[Any]:
    places: NDArray[Any] = _places(reading, [fraction])[:, 0]
    return places


def _places(reading: NoisyMeasure, fractions: Sequence[float]) -> NDArray[Any]:
    """Where these fractions lie in [L, U]: (groups, fractions); NULL where no bounds were found."""
    if reading.bounds is None or reading.forest is None:
        return _nothing(len(reading.values) * len(fractions)).reshape(-1, len(fractions))
    low, high = float(reading.bounds.lower), float(reading.bounds.upper)
    places: NDArray[Any] = low + (high - low) * reading.forest.quantiles(fractions)
    return places


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """COUNT(DISTINCT x): different values, of which each owner brings at most `rows` to a group, chosen at random."""

    argument: Expression
    rows: int
    name = "COUNT(DISTINCT)"
    type = INTEGER
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Different values kept."""
        return (DistinctValues(self.argument, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count."""
        return _integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return _around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class ApproxBounds:
    """APPROX_BOUNDS(x): [lower, upper] that hold about all values of one row per owner, the same for every group."""

    argument: Expression
    rows = 1
    name = "APPROX_BOUNDS"
    type = RELEASED_LIST
    shares: tuple[Fraction, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def feed(self) -> Measure:
        """What its histogram looks at."""
        return RowMoment(self.argument, 1, 1)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:  # noqa: ARG002 - one signature for all
        """There is nothing to read but the histogram; see `released.answer_table`."""
        raise InternalError("bounds are not made from readings")

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:  # noqa: ARG002 - same
        """Bounds have no interval."""
        raise InternalError("bounds have no interval")


Aggregate = (
    ApproxBounds | CountOwners | CountRows | Sum | Average | Variance | Quantile | Quantiles | Extreme | CountDistinct
)
