"""Local recoding: cut the table in two again and again while both sides hold every demand (after LeFevre et al., 2006).

The column of largest loss is cut, at the position nearest to the median of owners where both sides hold. Nothing is
suppressed, and the same table is always cut the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.measuring.classes import Classes, Held
from shoal.anonymity.measuring.definitions import KAnonymity
from shoal.anonymity.measuring.tuples import counted, distinct_rows, summed
from shoal.anonymity.searching.evaluation import k_of
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from shoal.anonymity.searching.problem import Problem
    from shoal.anonymity.searching.spans import Line

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cut:
    """Places up to `at` of a column go left. A side is the number of another cut, or −1 − the number of a part."""

    column: int
    at: int
    left: int
    right: int


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """The finished cutting: the part of each tuple, the span of each part in each column, and the cuts."""

    of_tuple: Integers
    low: Integers  # parts × columns
    high: Integers
    cuts: tuple[Cut, ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Some tuples, with what the demands need to know of them."""

    tuples: Integers
    cells: dict[str, Integers]  # positions in the holdings' counts
    holders: dict[str, Integers]  # positions in the holdings' pairs
    pairs: Integers
    people: Integers
    people_pairs: Integers


class Mondrian:
    """Cuts a table; `holds_whole` says whether there is anything to start from."""

    def __init__(self, problem: Problem, lines: tuple[Line, ...]) -> None:
        self._problem, self._lines = problem, lines
        tuples, people = problem.tuples, problem.people
        self._positions = np.stack([line.position[tuples.codes[:, j]] for j, line in enumerate(lines)], axis=1)
        self._people = (
            np.stack([line.position[codes] for line, codes in zip(lines, problem.people_codes, strict=True)], axis=1)
            if people is not None
            else np.zeros((0, len(lines)), dtype=np.int64)
        )
        several = np.bincount(tuples.pairs[1], minlength=len(tuples.rows))
        self._weight = tuples.alone + several
        self._k = k_of(problem.demands)
        self._weights = [float(weight) for weight in problem.weights]

    def whole(self) -> _Part:
        """Everything as one part."""
        tuples, people = self._problem.tuples, self._problem.people
        return _Part(
            np.arange(len(tuples.rows)),
            {name: np.arange(len(held.position)) for name, held in tuples.sensitive.items()},
            {name: np.arange(len(held.pairs[0])) for name, held in tuples.sensitive.items()},
            np.arange(len(tuples.pairs[0])),
            np.arange(0 if people is None else len(people.rows)),
            np.arange(0 if people is None else len(people.pairs[0])),
        )

    def holds_whole(self) -> Classes | None:
        """The table as one class, where it breaks a demand; None where it holds them all."""
        part = self.whole()
        classes = self._classes(part, np.zeros(len(part.tuples), dtype=np.int64), 1)
        return None if self._all_hold(classes) else classes

    def run(self) -> Parts:
        """Cut while any part can be cut."""
        cuts: list[list[int]] = []
        finished: list[Integers] = []
        waiting: list[tuple[_Part, int, int]] = [(self.whole(), -1, 0)]
        while waiting:
            part, parent, side = waiting.pop()
            found = self._cut(part)
            number = -1 - len(finished) if found is None else len(cuts)
            if parent >= 0:
                cuts[parent][2 + side] = number
            if found is None:
                finished.append(part.tuples)
            else:
                column, at = found
                cuts.append([column, at, 0, 0])
                left = self._positions[part.tuples, column] <= at
                waiting.append((self._side(part, ~left, column, at, right=True), number, 1))
                waiting.append((self._side(part, left, column, at, right=False), number, 0))
        return self._parts(finished, cuts)

    def _parts(self, finished: list[Integers], cuts: list[list[int]]) -> Parts:
        of_tuple = np.empty(len(self._positions), dtype=np.int64)
        for number, tuples in enumerate(finished):
            of_tuple[tuples] = number
        low = np.stack([self._positions[tuples].min(axis=0) for tuples in finished])
        high = np.stack([self._positions[tuples].max(axis=0) for tuples in finished])
        return Parts(of_tuple, low, high, tuple(Cut(*cut) for cut in cuts))

    def _side(self, part: _Part, chosen: Mask, column: int, at: int, *, right: bool) -> _Part:
        inside = np.zeros(len(self._positions), dtype=bool)
        inside[part.tuples[chosen]] = True
        sensitive = self._problem.tuples.sensitive
        there = self._people[:, column] > at if right else self._people[:, column] <= at
        people = self._problem.people
        return _Part(
            part.tuples[chosen],
            {name: cells[inside[sensitive[name].position[cells]]] for name, cells in part.cells.items()},
            {name: pairs[inside[sensitive[name].pairs[1][pairs]]] for name, pairs in part.holders.items()},
            part.pairs[inside[self._problem.tuples.pairs[1][part.pairs]]],
            part.people[there[part.people]],
            part.people_pairs if people is None else part.people_pairs[there[people.pairs[1][part.people_pairs]]],
        )

    def _cut(self, part: _Part) -> tuple[int, int] | None:
        """The column and the position to cut at; None where no cut leaves two sides that hold."""
        weight = self._weight[part.tuples]
        if not len(part.pairs) and int(weight.sum()) < 2 * self._k:
            return None
        positions = self._positions[part.tuples]
        low, high = positions.min(axis=0), positions.max(axis=0)
        losses = [
            (self._weights[j] * line.lost(int(low[j]), int(high[j])) / line.most, j)
            for j, line in enumerate(self._lines)
        ]
        for _, column in sorted((loss for loss in losses if low[loss[1]] < high[loss[1]]), key=lambda x: (-x[0], x[1])):
            for at in self._candidates(positions[:, column], weight, column, part):
                if self._both_hold(part, positions[:, column] > at):
                    return column, at
        return None

    def _candidates(self, positions: Integers, weight: Integers, column: int, part: _Part) -> Iterator[int]:
        """Places to cut at, nearest to the median first; of categories first those between children."""
        present, number = np.unique(positions, return_inverse=True)
        left = np.cumsum(summed(number, weight, len(present)))[:-1]
        total, ends = int(weight.sum()), present[:-1]
        if not len(part.pairs):
            fits = (left >= self._k) & (total - left >= self._k)
            ends, left = ends[fits], left[fits]
        nearest = ends[np.lexsort((ends, np.abs(2 * left - total)))].tolist()
        line = self._lines[column]
        if line.ordered:
            yield from nearest
            return
        bounds = np.array(line.boundaries(int(present[0]), int(present[-1])), dtype=np.int64)
        after = present[np.minimum(np.searchsorted(present, ends, side="right"), len(present) - 1)]
        between = {
            int(end)
            for end, following in zip(ends, after, strict=True)
            if ((bounds >= end) & (bounds < following)).any()
        }
        yield from (at for at in nearest if at in between)
        yield from (at for at in nearest if at not in between)

    def _both_hold(self, part: _Part, right: Mask) -> bool:
        demands = self._problem.demands
        if len(demands) == 1 and isinstance(demands[0], KAnonymity) and not len(part.pairs):
            return True  # the candidates were chosen so
        return self._all_hold(self._classes(part, right.astype(np.int64), 2))

    def _all_hold(self, classes: Classes) -> bool:
        if self._problem.keeps_everything and classes.absent:
            return False
        return all(demand.holds(classes).all() for demand in self._problem.demands)

    def _classes(self, part: _Part, side: Integers, count: int) -> Classes:
        """The sides of a cut (or the part itself) as classes."""
        tuples = self._problem.tuples
        side_of = np.zeros(len(self._positions), dtype=np.int64)
        side_of[part.tuples] = side
        owners = summed(side, tuples.alone[part.tuples], count)
        if len(part.pairs):
            _, once = distinct_rows(tuples.pairs[0][part.pairs], side_of[tuples.pairs[1][part.pairs]])
            owners += np.bincount(once, minlength=count)
        values = {name: self._held(part, name, side_of, owners) for name in tuples.sensitive}
        population, absent = self._population(part, side, count)
        rows = summed(side, tuples.rows[part.tuples], count)
        return Classes(rows, owners, values, population, absent, 0, self._problem.sampling)

    def _held(self, part: _Part, name: str, side_of: Integers, owners: Integers) -> Held:
        holdings = self._problem.tuples.sensitive[name]
        cells, pairs = part.cells[name], part.holders[name]
        position, value, weight = side_of[holdings.position[cells]], holdings.value[cells], holdings.owners[cells]
        spanning: tuple[Integers, ...] = tuple(each[:0] for each in holdings.pairs)
        if len(pairs):
            spanning = distinct_rows(
                holdings.pairs[0][pairs], side_of[holdings.pairs[1][pairs]], holdings.pairs[2][pairs]
            )
            position = np.concatenate((position, spanning[1]))
            value = np.concatenate((value, spanning[2]))
            weight = np.concatenate((weight, np.ones(len(spanning[0]), dtype=np.int64)))
        cell = counted(position, value, weight, holdings.size)
        return Held(holdings, owners, *cell, (spanning[0], spanning[1], spanning[2]), holdings.held)

    def _population(self, part: _Part, side: Integers, count: int) -> tuple[Integers | None, int]:
        """Owners of the population within the span of each side, and whether any are outside of both."""
        people = self._problem.people
        if people is None:
            return None, 0
        positions, found = self._positions[part.tuples], np.full(len(people.rows), -1, dtype=np.int64)
        theirs = self._people[part.people]
        for number in range(count):
            mine = positions[side == number]
            inside = ((theirs >= mine.min(axis=0)) & (theirs <= mine.max(axis=0))).all(axis=1)
            found[part.people[inside]] = number
        chosen = found[part.people] >= 0
        owners = summed(found[part.people[chosen]], people.alone[part.people[chosen]], count)
        pairs = part.people_pairs[found[people.pairs[1][part.people_pairs]] >= 0]
        if len(pairs):
            _, once = distinct_rows(people.pairs[0][pairs], found[people.pairs[1][pairs]])
            owners += np.bincount(once, minlength=count)
        return owners, int((~chosen).any())
