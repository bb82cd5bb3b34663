"""What holds for an aggregate whose class says nothing else: bounds, words, and the error to expect."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.params import many
from shoal.plan.aggregates.complements import expected_width, is_complement
from shoal.plan.aggregates.noisy_measure import half_width

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


Possible = tuple[Fraction | None, Fraction | None]


class OfOwner(enum.Enum):
    """What an aggregate makes of the rows that one owner has in one group, where that is a number."""

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
    """What every aggregate has to say, and what holds for one that says nothing else."""

    __slots__ = ()
    argument: Expression | None
    shares: tuple[Fraction, ...]
    """How its budget is shared between its measures."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As the analyst knows it."""

    @property
    @abstractmethod
    def type(self) -> Type:
        """Of the answer."""

    @property
    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """What each owner adds to it."""

    @abstractmethod
    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The answer, from noisy sums and public parameters alone."""

    @abstractmethod
    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Where the answer without noise may be, at this level of confidence."""

    needs_owners = False
    """Whether the expected error depends on how many owners a group has."""
    without_bounds = (
        "no bounds could be found privately{paid}, so the cell is NULL; give bounds in the query. "
        "Finding them takes about {needed} with values of one size"
    )
    without_bounds_there = "NULL there"
    """The same in a few words, where single groups have none."""
    stands_without_bounds = False
    """Whether there is a number where no bounds were found."""
    loses: str | None = None
    """What limits on each owner take away from a sum over owners; None for what is no such sum."""
    never_negative = False
    counts_values = False
    """Counts values that are different from each other."""
    counts_owners = False
    of_owner: OfOwner | None = None
    """What one owner gives one group, where that can be told from the owner's rows alone."""

    @property
    def adds_up(self) -> bool:
        """Whether it is a sum over owners, which limits on each of them make smaller."""
        return self.loses is not None

    @property
    def counts_all_rows(self) -> bool:
        """COUNT(*)."""
        return False

    @property
    def clamped(self) -> Clamped | None:
        """What values beyond the bounds would have moved; None where nothing is said about it."""
        return None

    @property
    def feed(self) -> Measure | None:
        """What a histogram looks at whose bounds are themselves the answer."""
        return None

    @property
    def partition(self) -> tuple[Measure, ...]:
        """Sums of which one owner moves no more than one whole, and which say the same as the measures."""
        return ()

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """Which shares of the rows lie below what is asked for, in an aggregate of quantiles."""
        return ()

    @property
    def catalog_bounds_note(self) -> str | None:
        """What to say where bounds are the catalog's, and how many rows an owner has in a group is not known."""
        return None

    def measures_within(self, bounds: Bounds | None) -> tuple[Measure, ...]:  # noqa: ARG002 - few go by the bounds
        """The measures, given the bounds that are known."""
        return self.measures

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:  # noqa: ARG002 - same
        """Bounds of what one owner gives a group, from what is known of single values and of rows per owner and group."""
        return known if known is not None and (known.from_catalog or known.lower < known.upper) else None

    def possible(self, bounds: Bounds | None) -> Possible:  # noqa: ARG002 - few go by the bounds
        """The least and the most that the exact number can be, where values surely lie within the bounds."""
        return (Fraction(0) if self.never_negative else None), None

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """How far the noise strays, before data is read; None where that depends on the data."""
        return None

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:  # noqa: ARG002 - few say it of groups
        """What of one owner it reads, where that is fixed before data is read; empty where nothing is."""
        return "" if bounds is None else f"{name}: values are clamped to {range_in_words(bounds)}."

    def sought_limit(self, call: AggregateCall) -> str | None:  # noqa: ARG002 - most have none
        """Which limit is looked for where nobody named one: "rows", "values" or "sum"."""
        return None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:  # noqa: ARG002 - most have none
        """The call under a limit that was found."""
        return call

    def one_by_one(self, call: AggregateCall, rows: int) -> AggregateCall | None:  # noqa: ARG002 - most have none
        """The call where rows of an owner are limited in all groups together; None where that is not a limit for it."""
        return None

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - same
        """What a limit on one group cuts ("groups", "rows", "values" or "sum"), and where; None where nothing is measured."""
        return None


class OneNumber(Aggregate):
    """An aggregate that is one noisy number: its error is that of the noise."""

    __slots__ = ()

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """The quantile of the noise."""
        return expected_width(releases, level) if is_complement(releases) else half_width(releases[0].noise, level)


class KeptRows(Aggregate):
    """An aggregate of at most `rows` rows of an owner in a group."""

    __slots__ = ()
    rows: int

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """How many rows, and how they are clamped."""
        clamped = "" if bounds is None else f", clamped to {range_in_words(bounds)}"
        return f"{name} looks at no more than {many(self.rows, 'row')} of each owner{where}{clamped}."

    def sought_limit(self, call: AggregateCall) -> str | None:
        """How many rows."""
        return "rows" if call.rows_left_open else None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:
        """So many rows."""
        return with_rows(call, limit)


def with_rows(call: AggregateCall, limit: Fraction) -> AggregateCall:
    """The call over this many rows, or values, of an owner in a group."""
    limited = replace(call.aggregate, rows=int(limit))  # type: ignore[type-var]  # every class is a dataclass, and those that ask have rows
    return replace(call, aggregate=limited, rows_left_open=False)


def range_in_words(bounds: Bounds) -> str:
    """Bounds as an answer says them."""
    return f"[{float(bounds.lower):,.6g}, {float(bounds.upper):,.6g}]"
