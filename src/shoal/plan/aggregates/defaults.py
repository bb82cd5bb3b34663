"""Defaults that an aggregate class may override: bounds, wording, and the expected error."""

from __future__ import annotations

import datetime as dt
import enum
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.params import many
from shoal.plan.aggregates.complements import expected_width, is_complement
from shoal.plan.aggregates.noisy_measure import half_width
from shoal.plan.expressions import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates.noisy_measure import Interval, NoisyMeasure
    from shoal.plan.expressions import Expression
    from shoal.plan.known_bounds import Known
    from shoal.plan.measures import Measure
    from shoal.plan.releases import AggregateCall, Release
    from shoal.plan.types import Type

PER_GROUP, PER_ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"
Possible = tuple[Fraction | None, Fraction | None]


class OfOwner(enum.Enum):
    """What an aggregate computes from one owner's rows in one group, if that is a number."""

    ONE = enum.auto()
    ROWS = enum.auto()
    SUM = enum.auto()
    MEAN = enum.auto()


class Clamped(enum.Enum):
    """What values beyond the bounds would have moved."""

    SUM = enum.auto()
    MEAN = enum.auto()
    VARIANCE = enum.auto()
    DEVIATION = enum.auto()


class Aggregate(ABC):
    """What every aggregate must provide, with defaults for the rest."""

    __slots__ = ()
    argument: Expression | None
    shares: tuple[Fraction, ...]
    """How its budget is shared between its measures."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name the analyst knows."""

    @property
    @abstractmethod
    def type(self) -> Type:
        """The type of the answer."""

    @property
    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """What each owner adds to it."""

    @abstractmethod
    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The answer, from noisy sums and public parameters alone."""

    @abstractmethod
    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Where the noise-free answer may lie, at this confidence level."""

    needs_owners = False
    """Whether the expected error depends on how many owners a group has."""
    bounds_argument = PER_GROUP
    """What a query calls its bounds."""
    without_bounds = (
        "no bounds could be found privately{paid}, so the cell is NULL; give bounds in the query "
        "(as the last argument: {argument}) or in the catalog (bounds = [0, 100] of the column). "
        "Finding them takes about {needed} with values of one size"
    )
    without_bounds_there = "NULL there"
    """The same in a few words, for when individual groups have no expected error."""
    stands_without_bounds = False
    """Whether there is still a number when no bounds were found."""
    loses: str | None = None
    """What per-owner limits remove from a sum over owners; None if it is not such a sum."""
    never_negative = False
    counts_values = False
    """Counts distinct values."""
    counts_owners = False
    of_owner: OfOwner | None = None
    """What one owner contributes to one group, if the owner's rows alone determine it."""

    @property
    def adds_up(self) -> bool:
        """Whether it is a sum over owners, which per-owner limits make smaller."""
        return self.loses is not None

    counts_rows = False
    """COUNT(*) or COUNT(x)."""
    is_share: bool = False
    """Written as a quotient of counts, of some rows and of all."""
    averages_rows = False
    """An average of single rows, of which an owner may have more than are read."""

    @property
    def counts_all_rows(self) -> bool:
        """COUNT(*)."""
        return False

    def as_count(self) -> Aggregate | None:
        """The count of rows that it is: SUM(CASE WHEN c THEN 1 ELSE 0 END)."""
        return None

    @property
    def clamped(self) -> Clamped | None:
        """What values beyond the bounds would have moved; None if this is not reported."""
        return None

    @property
    def feed(self) -> Measure | None:
        """What the histogram reads when its bounds are themselves the answer."""
        return None

    @property
    def partition(self) -> tuple[Measure, ...]:
        """Sums that carry the same information as the measures, and that one owner moves by at most one whole in total."""
        return ()

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """For quantiles: the shares of the rows that lie below the requested values."""
        return ()

    @property
    def catalog_bounds_note(self) -> str | None:
        """What to say when the bounds come from the catalog but the number of rows per owner and group is unknown."""
        return None

    def measures_within(self, bounds: Bounds | None) -> tuple[Measure, ...]:  # noqa: ARG002 - few go by the bounds
        """The measures, given the known bounds."""
        return self.measures

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:  # noqa: ARG002 - same
        """Bounds on one owner's contribution to a group, from what is known about single values and rows per owner and group."""
        return known if known is not None and (known.from_catalog or known.lower < known.upper) else None

    def possible(self, bounds: Bounds | None) -> Possible:  # noqa: ARG002 - few go by the bounds
        """The smallest and largest possible exact number, when values are certain to lie within the bounds."""
        return (Fraction(0) if self.never_negative else None), None

    def owners_of(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any] | None:  # noqa: ARG002 - few have it
        """About how many owners each group has, where the noisy sums tell; what is released, not what is exact."""
        return None

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """The spread of the noise, known before data is read; None if it depends on the data."""
        return None

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:  # noqa: ARG002 - few say it of groups
        """What it reads of one owner, if that is fixed before data is read; empty otherwise."""
        return "" if bounds is None else f"{name}: values are clamped to {range_in_words(bounds, self)}."

    def sought_limit(self, call: AggregateCall) -> str | None:  # noqa: ARG002 - most have none
        """Which limit to search for when none is given: "rows", "values" or "sum"."""
        return None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:  # noqa: ARG002 - most have none
        """The call with the limit that was found."""
        return call

    def one_by_one(self, call: AggregateCall, rows: int) -> AggregateCall | None:  # noqa: ARG002 - most have none
        """The call when an owner's rows are limited across all groups; None if such a limit does not apply to it."""
        return None

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - same
        """What a limit on one group cuts ("groups", "rows", "values" or "sum"), and where; None if nothing is measured."""
        return None


class OneNumber(Aggregate):
    """An aggregate that is a single noisy number: its error is the noise's error."""

    __slots__ = ()

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """The quantile of the noise."""
        return expected_width(releases, level) if is_complement(releases) else half_width(releases[0].noise, level)


class KeptRows(Aggregate):
    """An aggregate over at most `rows` rows per owner and group."""

    __slots__ = ()
    rows: int
    bounds_argument = PER_ROW

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """How many rows, and how they are clamped."""
        clamped = "" if bounds is None else f", clamped to {range_in_words(bounds, self)}"
        return f"{name} looks at no more than {many(self.rows, 'row')} of each owner{where}{clamped}."

    def sought_limit(self, call: AggregateCall) -> str | None:
        """How many rows."""
        return "rows" if call.rows_left_open else None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:
        """This many rows."""
        return with_rows(call, limit)


def with_rows(call: AggregateCall, limit: Fraction) -> AggregateCall:
    """The call over this many rows, or values, per owner and group."""
    limited = replace(call.aggregate, rows=int(limit))  # type: ignore[type-var]  # every class is a dataclass, and those that ask have rows
    return replace(call, aggregate=limited, rows_left_open=False)


def within_all(call: AggregateCall, limit: Fraction) -> AggregateCall:
    """A count or sum whose limit holds for all groups of an owner together."""
    limited = call.aggregate.within(call, limit)
    return replace(limited, aggregate=replace(limited.aggregate, in_all=True))  # type: ignore[type-var]  # counts and sums have it


WITHOUT_BOUNDS_OF_TIMES = (
    "no bounds could be found privately{paid}, so the cell is NULL; write the first and the last day into the catalog "
    '(bounds = ["2020-01-01", "2024-12-31"] of the column). Finding them takes about {needed} with values of one size'
)
_SECONDS_OF = {"unix_date": 86_400, "epoch": 1}
"""Functions that make numbers of times, and the seconds that their unit has."""


_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def seconds_of_unit(aggregate: Aggregate | None) -> int | None:
    """Of an aggregate that reads times as numbers since 1970, the seconds of one; None of any other."""
    argument = getattr(aggregate, "argument", None)
    return _SECONDS_OF.get(argument.function) if isinstance(argument, Call) else None


def range_in_words(bounds: Bounds, of: Aggregate | None = None) -> str:
    """Bounds as an answer words them; those of times as times, where a calendar has them."""
    low, high = float(bounds.lower), float(bounds.upper)
    unit = seconds_of_unit(of)
    if unit is not None:
        with suppress(OverflowError):
            first, last = (_1970 + dt.timedelta(seconds=end * unit) for end in (low, high))
            written = "%Y-%m-%d %H:%M:%S" if unit == 1 else "%Y-%m-%d"
            return f"[{first:{written}}, {last:{written}}]"
    return f"[{low:,.6g}, {high:,.6g}]"
