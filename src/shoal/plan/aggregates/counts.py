"""COUNT of owners, of rows and of distinct values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.params import Bounds, many
from shoal.plan.aggregates.complements import around_complement, is_complement, whole_numbers
from shoal.plan.aggregates.defaults import Clamped, OfOwner, OneNumber, with_rows
from shoal.plan.aggregates.noisy_measure import Interval, around_whole, integers
from shoal.plan.known_bounds import Known
from shoal.plan.measures import (
    DistinctValues,
    Measure,
    OwnerCount,
    RowCount,
    RowMoment,
    TotalRows,
)
from shoal.plan.types import INTEGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.plan.aggregates.noisy_measure import NoisyMeasure
    from shoal.plan.expressions import Expression
    from shoal.plan.releases import AggregateCall


class WholeCount(OneNumber):
    """A count of owners or rows: one noisy whole number, or two parts of a whole."""

    __slots__ = ()

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count; noise can make it negative."""
        return whole_numbers(readings) if is_complement(readings) else integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        if is_complement(readings):
            return around_complement(readings, level, whole_number=True)
        return around_whole(readings[0], level)


@dataclass(frozen=True, slots=True)
class CountOwners(WholeCount):
    """COUNT(DISTINCT owner): each owner counts once; with an argument (an owner that may be NULL), only if it is present."""

    argument: Expression | None = None
    name = "COUNT(DISTINCT owner)"
    type = INTEGER
    shares = (Fraction(1),)
    loses = "pairs of owner and group"
    never_negative = True
    counts_owners = True
    of_owner = OfOwner.ONE

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The owners of a group."""
        return (OwnerCount(self.argument),)

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - same
        """Only the number of groups."""
        return "groups", None


@dataclass(frozen=True, slots=True)
class CountRows(WholeCount):
    """COUNT(*) and COUNT(x): rows per owner clamped to [0, U]; `rows` replaces the clamp when rows are bounded per owner.

    `in_all`: U is the limit of an owner's rows in all groups together.
    """

    argument: Expression | None
    rows: int | None = None
    in_all: bool = False
    name = "COUNT"
    type = INTEGER
    without_bounds = "no bound could be found privately{paid}, so each owner counts once at most"
    without_bounds_there = "each owner counts once there"
    stands_without_bounds = True
    shares = (Fraction(1),)
    loses = "rows"
    never_negative = True
    counts_rows = True
    of_owner = OfOwner.ROWS
    clamped = Clamped.SUM

    @property
    def counts_all_rows(self) -> bool:
        """COUNT(*) has no argument."""
        return self.argument is None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows, clamped per owner, in each group or in all, or individually."""
        if self.in_all:
            return (TotalRows(self.argument),)
        return (RowCount(self.argument) if self.rows is None else RowMoment(self.argument, 0, self.rows),)

    def measures_within(self, bounds: Bounds | None) -> tuple[Measure, ...]:
        """COUNT(*) with at most one row per owner is the number of owners."""
        each = self.argument is None and not self.in_all
        once = each and bounds is not None and bounds.lower == 0 and bounds.upper == 1
        return (OwnerCount(),) if once else self.measures

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:  # noqa: ARG002 - values say nothing
        """The number of rows per owner and group that the catalog declares."""
        return None if rows is None else Known(Fraction(0), Fraction(rows), from_catalog=True)

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """This many rows."""
        where = " in all groups together" if self.in_all else where
        return "" if bounds is None else f"{name} counts at most {many(int(bounds.upper), 'row')} of each owner{where}."

    def sought_limit(self, call: AggregateCall) -> str | None:
        """An owner's rows in a group."""
        return "rows" if self.rows is None and call.bounds is None else None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:
        """This many rows."""
        return replace(call, bounds=Bounds(Fraction(0), limit), bounds_source="found")

    def one_by_one(self, call: AggregateCall, rows: int) -> AggregateCall | None:
        """Every row counts once, up to the limit."""
        if self.rows is not None or call.bounds is not None:
            return None
        return replace(call, aggregate=replace(self, rows=rows), bounds=None, bounds_source="none")

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Rows beyond the upper bound."""
        return None if self.rows is not None else ("rows", None if bounds is None else bounds.upper)


@dataclass(frozen=True, slots=True)
class CountDistinct(OneNumber):
    """COUNT(DISTINCT x): distinct values; each owner contributes at most `rows` of them to a group, chosen at random."""

    argument: Expression
    rows: int
    name = "COUNT(DISTINCT)"
    type = INTEGER
    shares = (Fraction(1),)
    loses = "values"
    never_negative = True
    counts_values = True

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The distinct values that are kept."""
        return (DistinctValues(self.argument, self.rows),)

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:  # noqa: ARG002 - of any size
        """This many values."""
        return f"{name} counts at most {many(self.rows, 'value')} of each owner{where}."

    def sought_limit(self, call: AggregateCall) -> str | None:
        """An owner's values in a group."""
        return "values" if call.rows_left_open else None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:
        """This many values."""
        return with_rows(call, limit)

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Values beyond the number kept."""
        return "values", None if is_open else Fraction(self.rows)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy count."""
        return integers(readings[0])

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        return around_whole(readings[0], level)
