"""COUNT of owners, of rows and of different values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.plan.aggregates.defaults import OneNumber
from shoal.plan.aggregates.noisy_measure import Interval, around_whole, integers
from shoal.plan.known_bounds import Known
from shoal.plan.measures import (
    DistinctValues,
    Measure,
    OwnerCount,
    RowCount,
    RowMoment,
)
from shoal.plan.types import INTEGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates.noisy_measure import NoisyMeasure
    from shoal.plan.expressions import Expression


@dataclass(frozen=True, slots=True)
class CountOwners(OneNumber):
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
        return integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class CountRows(OneNumber):
    """COUNT(*) and COUNT(x): rows per owner clamped to [0, U]; `rows` replaces the clamp when rows are bounded per owner."""

    argument: Expression | None
    rows: int | None = None
    name = "COUNT"
    type = INTEGER
    without_bounds = "no bound could be found privately{paid}, so each owner counts once at most"
    without_bounds_there = "each owner counts once there"
    shares = (Fraction(1),)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows, clamped per owner, or one by one."""
        return (RowCount(self.argument) if self.rows is None else RowMoment(self.argument, 0, self.rows),)

    def measures_within(self, bounds: Bounds | None) -> tuple[Measure, ...]:
        """COUNT(*) with at most one row per owner is the number of owners."""
        once = self.argument is None and bounds is not None and bounds.lower == 0 and bounds.upper == 1
        return (OwnerCount(),) if once else self.measures

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:  # noqa: ARG002 - values say nothing
        """As many rows as the catalog says an owner has in a group."""
        return None if rows is None else Known(Fraction(0), Fraction(rows), from_catalog=True)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count."""
        return integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class CountDistinct(OneNumber):
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
        return integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return around_whole(readings[0], level)
