"""A plan in the making: what each pass adds before mechanisms are assigned. Frozen like everything else."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.accounting.events import RankTarget
    from shoal.params import Bounds
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.releases import Contribution, Inferred, PrivateSelect


MANY_OWNERS, LEAST_OF_MEANS = 8_000, Fraction(1, 3)
"""From so many owners times ε on, finding bounds of averages gets less, down to a third of what the average gets."""


@dataclass(frozen=True, slots=True)
class Part:
    """One additive release to be made: a measure, its bounds, and in how many coordinates one owner shows.

    `entries` is how many integers one owner can touch at all, where the same norms may be spread over more of them.
    """

    measure: Measure
    bounds: Bounds | Inferred | None
    coordinates: int
    entries: int | None = None
    targets: tuple[RankTarget, ...] = ()
    """Ranks to be found by choosing among leaves, instead of counting them in a noisy tree."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What shares one even part of the budget: an aggregate's parts, with the share of each; `epsilon` if it has its own."""

    parts: tuple[int, ...]
    shares: tuple[Fraction, ...]
    histogram: int | None = None
    epsilon: Fraction | None = None
    feed: Measure | None = None
    """What to find bounds for, for an aggregate that needs nothing else."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The SELECT, how it is bounded, and what has to be released."""

    select: PrivateSelect
    contribution: Contribution
    parts: tuple[Part, ...] = ()
    units: tuple[Unit, ...] = ()
    unit_of_call: tuple[int, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    needs_selection: bool = False
    shared_unit: int | None = None
    notes: tuple[str, ...] = ()

    def left_by_histogram(self, unit: Unit, of_means: Fraction = Fraction(1)) -> Fraction:
        """The part of its share that an aggregate keeps: a histogram that k of them read gets as much as each of the k.

        For averages it gets `of_means` times as much.
        """
        if unit.histogram is None:
            return Fraction(1)
        readers = [other for other in self.units if other.histogram == unit.histogram]
        means = all(self._averages_owners(other) for other in readers)
        return len(readers) / (len(readers) + (self._of_means(of_means) if means else Fraction(1)))

    def _of_means(self, usual: Fraction) -> Fraction:
        """Many owners are seen with less of ε. Without groups noise is small anyway, and what lies beyond bounds decides."""
        owners = (self.select.population or 0) * self.select.options.epsilon if self.select.keys else Fraction(0)
        return usual if owners <= MANY_OWNERS else max(min(usual, LEAST_OF_MEANS), usual * MANY_OWNERS / owners)

    def _averages_owners(self, unit: Unit) -> bool:
        return any(self.parts[index].measure.averages_owners for index in unit.parts)
