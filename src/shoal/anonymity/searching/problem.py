"""What a search works on: tuples, a ladder for each quasi-identifier, demands, and how many rows may be dropped.

Losses are whole numbers. A cell loses (leaves under its label − 1) / (leaves − 1), so with D the least common multiple of
all (leaves − 1) and whole weights w, `unit[j] = w_j · D / (leaves_j − 1)` makes every cell's loss an integer; a suppressed
row loses w_j · D in each column.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.measuring.classes import Classes, classes_of
from shoal.anonymity.measuring.definitions import Presence, Setting, surviving
from shoal.anonymity.measuring.population import population_classes, shared_codes
from shoal.anonymity.measuring.tuples import number_classes, summed
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.anonymity.hierarchies.ladders import Ladder
    from shoal.anonymity.measuring.definitions import Demand
    from shoal.anonymity.measuring.tuples import Tuples

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

Levels = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """A table to recode. `limit` is how many rows may be suppressed."""

    tuples: Tuples
    ladders: tuple[Ladder, ...]
    demands: tuple[Demand, ...]
    limit: int
    weights: tuple[Fraction, ...]
    people: Tuples | None = None
    sampling: float | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.tuples.total

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(ladder.levels for ladder in self.ladders)

    @property
    def top(self) -> Levels:
        """Everything `*`."""
        return tuple(levels - 1 for levels in self.shape)

    @cached_property
    def keeps_everything(self) -> bool:
        """With a lower limit of presence nothing can be suppressed."""
        return any(isinstance(demand, Presence) and demand.keeps_everything for demand in self.demands)

    @cached_property
    def room(self) -> int:
        """The rows that may really be dropped."""
        return 0 if self.keeps_everything else self.limit

    @cached_property
    def setting(self) -> Setting:
        """What the monotony of demands depends on."""
        people = self.people is not None and self.people.spanning
        return Setting(self.room > 0, self.tuples.spanning, people)

    # losses as whole numbers

    @cached_property
    def _scale(self) -> int:
        return math.lcm(*(max(ladder.leaves - 1, 1) for ladder in self.ladders))

    @cached_property
    def _whole_weights(self) -> tuple[int, ...]:
        common = math.lcm(*(weight.denominator for weight in self.weights))
        return tuple(int(weight * common) for weight in self.weights)

    @cached_property
    def unit(self) -> tuple[int, ...]:
        """The loss of one leaf beyond the first, in each column."""
        pairs = zip(self._whole_weights, self.ladders, strict=True)
        return tuple(weight * self._scale // max(ladder.leaves - 1, 1) for weight, ladder in pairs)

    @cached_property
    def suppressed_row(self) -> int:
        """The loss of a row that is dropped."""
        return sum(self._whole_weights) * self._scale

    @cached_property
    def everything(self) -> int:
        """The loss of dropping all rows: what losses are shares of."""
        return max(self.suppressed_row * self.rows, 1)

    @cached_property
    def lost(self) -> tuple[tuple[Integers, ...], ...]:
        """Column → level → code → leaves lost."""
        return tuple(tuple(ladder.lost(level) for level in range(ladder.levels)) for ladder in self.ladders)

    @cached_property
    def column_loss(self) -> tuple[tuple[int, ...], ...]:
        """Column → level → the loss of all rows there."""
        return self.losses_of(np.ones(len(self.tuples.rows), dtype=bool))

    def losses_of(self, chosen: Mask) -> tuple[tuple[int, ...], ...]:
        """Column → level → the loss of the rows of some tuples."""
        found = []
        rows = self.tuples.rows[chosen]
        for position, unit in enumerate(self.unit):
            lost = self.lost[position]
            histogram = summed(self.tuples.codes[chosen, position], rows, len(lost[0]))
            found.append(tuple(unit * int(histogram @ level[: len(histogram)]) for level in lost))
        return tuple(found)

    # classes of a recoding

    @cached_property
    def people_codes(self) -> list[Integers]:
        """The population's tuples in the codes of the ladders."""
        return [] if self.people is None else shared_codes(self.tuples, self.people)[0]

    def partition(self, levels: Levels) -> tuple[Integers, Classes]:
        """The class of each tuple at these levels, and the classes."""
        coded = [
            ladder.maps[level][self.tuples.codes[:, position]]
            for position, (ladder, level) in enumerate(zip(self.ladders, levels, strict=True))
        ]
        sizes = [len(ladder.labels[level]) for ladder, level in zip(self.ladders, levels, strict=True)]
        if self.people is None:
            part, first = number_classes(coded, sizes)
            return part, classes_of(self.tuples, part, len(first), None, self.sampling)
        theirs = [
            ladder.maps[level][codes]
            for ladder, level, codes in zip(self.ladders, levels, self.people_codes, strict=True)
        ]
        part, count, counts = population_classes(coded, theirs, sizes, self.people)
        return part, classes_of(self.tuples, part, count, counts, self.sampling)

    def kept(self, classes: Classes) -> Mask:
        """The classes that are published; none at all where a lower limit of presence lets nothing go."""
        kept = surviving(classes, self.demands)
        if self.keeps_everything and (classes.absent or not kept.all()):
            return np.zeros(classes.count, dtype=bool)
        return kept

    def fails_below(self, classes: Classes) -> Mask:
        """The classes whose rows fail in every finer recoding too."""
        failing = np.zeros(classes.count, dtype=bool)
        for demand in self.demands:
            found = demand.fails_below(classes, self.setting)
            if found is not None:
                failing |= found
        return failing
