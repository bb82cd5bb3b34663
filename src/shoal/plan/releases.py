"""A private plan: releases in order, each a measure with its noise; the events specify the mechanisms.

`PrivateSelect` is the analyst's query; `SelectPlan` is what will run and what it costs. The only back-reference
(`Inferred`: bounds found by an earlier release of the same plan) is data, not a call.
"""

from __future__ import annotations

from dataclasses import field as dataclass_field
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.accounting.accountants import Loss
    from shoal.accounting.events import AdditiveNoise, Event, Randomised, Selection
    from shoal.params import Bounds
    from shoal.plan.aggregates import Aggregate
    from shoal.plan.expressions import Expression, Position
    from shoal.plan.limits.sought import Search, TotalOf
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.nodes import Field, Node


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one private SELECT, checked; None means the analyst left it out."""

    clause: str
    epsilon: Fraction
    delta: Fraction | None
    max_groups_per_owner: int | None = None
    max_rows_per_owner: int | None = None
    strategy: str = "AUTO"
    min_owners: int = 1
    selection_epsilon: Fraction | None = None
    confidence_level: Fraction = Fraction(19, 20)
    noise: str = "AUTO"
    inferred_bounds: str = "GLOBAL"
    find_limits: bool = False
    """Whether unspecified limits are first found privately."""
    measure_cut: Fraction = Fraction(0)
    """The share of ε spent on measuring how much the given limits cut."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One private aggregate of the SELECT: what it computes and what the analyst specified."""

    field: Field
    aggregate: Aggregate
    bounds: Bounds | None
    bounds_source: str
    epsilon: Fraction | None = None
    report: str | None = None
    rows_left_open: bool = False
    """Whether the number of rows, or values, it reads per owner was left unspecified."""
    position: Position = dataclass_field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PrivateSelect:
    """The query: owned rows, group keys, aggregates, options, and the public groups if there are any."""

    input: Node
    keys: tuple[tuple[Field, Expression], ...]
    aggregates: tuple[AggregateCall, ...]
    options: Options
    public_groups: Node | None = None
    groups_note: str = ""
    notes: tuple[str, ...] = ()
    position: Position = dataclass_field(default=None, compare=False)
    one_row_per_owner: bool = False
    """An owner's sum, mean and only row are the same number, so they share the search for bounds. Privacy never depends on it."""
    population: int | None = None
    """About how many owners there are, if that is public: how much of ε a search for bounds gets."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """How much one owner may add: κ groups, or R rows; `grouped` is False when the one group is public."""

    grouped: bool
    max_groups: int = 1
    max_rows: int | None = None

    @property
    def groups(self) -> int:
        """The number of groups one owner can appear in."""
        if not self.grouped:
            return 1
        return self.max_rows if self.max_rows is not None else self.max_groups


@dataclass(frozen=True, slots=True)
class Inferred:
    """Bounds that the histogram number `histogram` of this plan will find."""

    histogram: int


@dataclass(frozen=True, slots=True)
class HistogramRelease:
    """A noisy logarithmic histogram from which bounds are read."""

    histogram: Histogram
    noise: AdditiveNoise

    @property
    def price(self) -> Fraction | None:
        """The ε of the histogram alone; None if it is part of a joint Gaussian release."""
        from shoal.accounting.events import LaplaceNoise

        return self.noise.epsilon if isinstance(self.noise, LaplaceNoise) else None


@dataclass(frozen=True, slots=True)
class Release:
    """A measure and its noise. With `Inferred` bounds the noise is given for bounds of one unit, and scaled with them."""

    measure: Measure
    noise: Randomised
    bounds: Bounds | Inferred | None


@dataclass(frozen=True, slots=True)
class Column:
    """An aggregate of the answer: which releases it reads, and which histogram found its bounds."""

    call: AggregateCall
    releases: tuple[int, ...]
    histogram: int | None = None


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """What will run for one private SELECT, and what it costs."""

    select: PrivateSelect
    contribution: Contribution
    histograms: tuple[HistogramRelease, ...]
    releases: tuple[Release, ...]
    columns: tuple[Column, ...]
    selection: Selection | None
    shared_count: int | None
    events: tuple[Event, ...]
    notes: tuple[str, ...] = ()
    composition: str = "basic"
    search: Search | None = None
    """If limits are found first: both steps. The rest is then step two for an example of possible limits."""
    guessed: tuple[int, ...] = ()
    """Columns whose limits are public guesses, so what they cut is unknown."""
    domains: tuple[int | None, ...] = ()
    """For each column, the largest number of values COUNT(DISTINCT x) can find, if that is public."""
    total_of: TotalOf | None = None
    """If groups are divided by this one number, and it has their limits."""
    one_row: bool = False
    """Whether it is public that an owner has at most one row: an average of owners' averages is then an average of rows."""

    @property
    def finds_bounds_per_group(self) -> bool:
        """Whether every group shown gets its own bounds."""
        return any(release.histogram.per_group for release in self.histograms)

    def parts_that_select(self) -> tuple[int, ...]:
        """The two releases, from the lower and from the upper bound, whose sum decides which groups appear."""
        pairs = [column.releases for column in self.columns if self.shared_count in column.releases]
        first = next((pair for pair in pairs if pair[0] == self.shared_count), ())
        return tuple(first)

    def share_of_joint_release(self, noise: Randomised) -> float | None:
        """The share of the squared norm Σ Δ²/σ² that a noise takes, if it is part of a joint Gaussian release."""
        from shoal.accounting.events import JointGaussian, SelectedGaussian

        for event in self.events:
            if isinstance(event, JointGaussian | SelectedGaussian) and noise in event.parts:
                norms = {part: part.shift.l2_squared / float(part.sigma) ** 2 for part in event.parts}
                return norms[noise] / sum(norms[part] for part in event.parts)
        return None

    def price_of_bounds(self, histogram: int) -> str:
        """What finding bounds costs, in words."""
        release = self.histograms[histogram]
        if release.price is not None:
            return f" for ε = {float(release.price):.3g}"
        share = self.share_of_joint_release(release.noise)
        return f" for {share:.0%} of the joint release" if share is not None else ""


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """A whole statement: private SELECTs, and the public relation built on their stored rows."""

    sql: str
    root: Node
    selects: tuple[SelectPlan, ...]
    epsilon: Fraction
    delta: Fraction
    loss: Loss
    catalog_version: str = ""
    notes: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, in order."""
        return tuple(event for select in self.selects for event in select.events)
