"""What a query adds up for each value of the domain: v(x), in whole steps of a public grid, and how far apart two values are.

Three shapes, because most queries have many coordinates and few that are not 0: one coordinate a value (`OneHot`), a run of
ones (`Prefixes`), anything else (`Dense`). Each knows ‖v(x) − v(y)‖ for given pairs, and its maximum over *cliques* (all pairs
of values with the same label) by a closed form:

- `OneHot`: max(widest range of v inside a group, sum of the two largest max|v| of different groups);
- `Prefixes`: the largest difference of how many thresholds lie above a value;
- `Dense`: L1 over k coordinates is the maximum over the 2^k signs σ of max σ·v − min σ·v.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies.domain import Indices, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Steps = npt.NDArray[np.int64] | npt.NDArray[np.object_]

MOST_SIGNS = 10
MOST_EDGES = 1 << 26
_SMALL = 1 << 30
_LARGE = 1 << 60


class Largest(NamedTuple):
    """A maximum over edges, and an edge that attains it (None where it is 0)."""

    amount: int
    pair: tuple[int, int] | None


NOTHING = Largest(0, None)


def too_many_edges() -> ShoalError:
    """The refusal of an enumeration that would not end."""
    return ShoalError(
        "E_LIMITS",
        "The secret graph has more than 2^26 edges.",
        hint="Make the domain coarser, or the distance shorter.",
    )


def whole_steps(values: Sequence[int]) -> Steps:
    """Integers as an array: 64 bits where sums of a few of them fit, else Python's own."""
    largest = max((abs(value) for value in values), default=0)
    array = np.empty(len(values), dtype=np.int64 if largest < _LARGE // 4 else object)
    array[:] = values
    return array


def squares(amounts: Steps) -> Steps:
    """Squares that do not wrap."""
    if amounts.dtype == object or (len(amounts) and int(np.max(np.abs(amounts))) >= _SMALL):
        amounts = amounts.astype(object)
    return np.asarray(amounts * amounts)


def exact_dot(weights: Steps, counts: npt.NDArray[np.int64]) -> int:
    """Σ weight·count, as a Python integer that cannot wrap."""
    heavy = int(np.max(np.abs(weights), initial=0)) * int(np.sum(np.abs(counts)))
    if weights.dtype != object and heavy < _LARGE:
        return int(np.dot(weights, counts))
    return int(np.dot(weights.astype(object), counts.astype(object))) if len(weights) else 0


@dataclass(frozen=True)
class OneHot:
    """v(x) = amount(x) in the one coordinate group(x); group −1: v(x) = 0."""

    groups: Indices
    amounts: Steps
    coordinates: int
    grid: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        require(len(self.groups) == len(self.amounts), "a table has one group a value")
        hidden = self.groups < 0
        if hidden.any():
            object.__setattr__(self, "amounts", np.where(hidden, 0, self.amounts))

    def on(self, labels: Indices) -> OneHot:
        """The same table on a finer domain, of which `labels` are the values here."""
        return OneHot(self.groups[labels], self.amounts[labels], self.coordinates, self.grid)

    def between(self, x: Indices, y: Indices) -> Steps:
        """‖v(x) − v(y)‖₁ of each pair."""
        a, b = self.amounts[x], self.amounts[y]
        return np.where(self.groups[x] == self.groups[y], np.abs(a - b), np.abs(a) + np.abs(b))

    def between_squared(self, x: Indices, y: Indices) -> Steps:
        """‖v(x) − v(y)‖₂² of each pair."""
        a, b = self.amounts[x], self.amounts[y]
        return np.where(self.groups[x] == self.groups[y], squares(a - b), squares(a) + squares(b))

    def over_cliques(self, labels: Indices, *, squared: bool = False) -> Largest:
        """The maximum over all pairs of one label."""
        order = np.lexsort((self.groups, labels))
        label, group, amount = labels[order], self.groups[order], self.amounts[order]
        starts = _starts(label, group)
        lowest, highest = _ends(amount, starts)
        reach = np.where(np.abs(amount[lowest]) > np.abs(amount[highest]), lowest, highest)
        inside = amount[highest] - amount[lowest]
        across, first, second = _two_largest(np.abs(amount[reach]), label[starts], squared=squared)
        inside = squares(inside) if squared else inside
        best = int(np.argmax(inside))
        found = Largest(int(inside[best]), (int(order[lowest[best]]), int(order[highest[best]])))
        if across > found.amount:
            found = Largest(across, (int(order[reach[first]]), int(order[reach[second]])))
        return found if found.amount else NOTHING

    def ceiling(self, *, squared: bool = False) -> int:
        """What no pair of values exceeds."""
        return 2 * self.reach() ** (2 if squared else 1) if self.coordinates > 1 else -1

    def is_constant_on(self, labels: Indices) -> bool:
        """Whether v is the same for all values of one label."""
        group = np.where(self.amounts == 0, -1, self.groups)
        first = _first_of(labels)
        return bool((group == group[first]).all() and (self.amounts == self.amounts[first]).all())

    def norms(self) -> Steps:
        """‖v(x)‖₁ of every value."""
        return np.asarray(np.abs(self.amounts))

    def reach(self) -> int:
        """The largest ‖v(x)‖₁: what one more record can add."""
        return int(np.max(self.norms(), initial=0))

    def totals(self, counts: npt.NDArray[np.int64]) -> list[int]:
        """Σ count(x)·v(x), coordinate by coordinate."""
        kept = self.groups >= 0
        groups, amounts, counts = self.groups[kept], self.amounts[kept], counts[kept]
        heavy = int(np.max(np.abs(amounts), initial=0)) * int(np.sum(np.abs(counts)))
        wide = amounts.dtype == object or heavy >= _LARGE
        sums = np.zeros(self.coordinates, dtype=object if wide else np.int64)
        np.add.at(sums, groups, amounts.astype(object) * counts.astype(object) if wide else amounts * counts)
        return [int(total) for total in sums]


def _first_of(labels: Indices) -> Indices:
    """For every value, the first one of its label."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse]


def _starts(label: Indices, group: Indices) -> Indices:
    """Where a new (label, group) begins."""
    new = np.ones(len(label), dtype=bool)
    new[1:] = (label[1:] != label[:-1]) | (group[1:] != group[:-1])
    return np.flatnonzero(new)


def _ends(amount: Steps, starts: Indices) -> tuple[Indices, Indices]:
    """Where the smallest and the largest amount of every run is."""
    run = np.zeros(len(amount), dtype=np.int64)
    run[starts[1:]] = 1
    run = np.cumsum(run)
    by_amount = np.lexsort((amount, run))
    stops = np.append(starts[1:], len(amount)) - 1
    return by_amount[starts], by_amount[stops]


def _two_largest(reaches: Steps, label: Indices, *, squared: bool) -> tuple[int, int, int]:
    """The largest sum of two runs of the same label, and which they are; −1 where no label has two."""
    order = np.lexsort((reaches, label))
    pairs = np.flatnonzero(label[order][1:] == label[order][:-1])
    if not len(pairs):
        return -1, 0, 0
    sizes = squares(reaches) if squared else reaches
    sums = sizes[order[pairs]] + sizes[order[pairs + 1]]
    best = int(np.argmax(sums))
    return int(sums[best]), int(order[pairs[best]]), int(order[pairs[best] + 1])


@dataclass(frozen=True)
class Prefixes:
    """Coordinate j counts the records below threshold j; `above[x]` says how many thresholds lie above x."""

    above: Indices
    coordinates: int
    grid: Fraction = Fraction(1)

    def on(self, labels: Indices) -> Prefixes:
        """The same table on a finer domain."""
        return Prefixes(self.above[labels], self.coordinates, self.grid)

    def between(self, x: Indices, y: Indices) -> Steps:
        """‖v(x) − v(y)‖₁: the thresholds between x and y; the square of the L2 norm is the same number."""
        return np.asarray(np.abs(self.above[x] - self.above[y]))

    between_squared = between

    def over_cliques(self, labels: Indices, *, squared: bool = False) -> Largest:  # noqa: ARG002 - both norms agree
        """The maximum over all pairs of one label."""
        order = np.argsort(labels, kind="stable")
        starts = _starts(labels[order], np.zeros(len(labels), dtype=np.int64))
        lowest, highest = _ends(self.above[order], starts)
        spread = self.above[order[highest]] - self.above[order[lowest]]
        best = int(np.argmax(spread))
        amount = int(spread[best])
        return Largest(amount, (int(order[lowest[best]]), int(order[highest[best]]))) if amount else NOTHING

    def ceiling(self, *, squared: bool = False) -> int:  # noqa: ARG002 - both norms agree
        """What no pair of values exceeds."""
        return self.coordinates

    def is_constant_on(self, labels: Indices) -> bool:
        """Whether v is the same for all values of one label."""
        return bool((self.above == self.above[_first_of(labels)]).all())

    def norms(self) -> Steps:
        """‖v(x)‖₁ of every value."""
        return self.above

    def reach(self) -> int:
        """The largest ‖v(x)‖₁."""
        return int(np.max(self.above, initial=0))

    def totals(self, counts: npt.NDArray[np.int64]) -> list[int]:
        """Threshold by threshold (the lowest first), how many records lie below it."""
        per_rank = np.zeros(self.coordinates + 1, dtype=np.int64)
        np.add.at(per_rank, self.coordinates - self.above, counts)
        return [int(total) for total in np.cumsum(per_rank)[: self.coordinates]]


@dataclass(frozen=True)
class Dense:
    """Any v(x): a row of whole steps for each value."""

    rows: Steps
    grid: Fraction = Fraction(1)

    @property
    def coordinates(self) -> int:
        """How many numbers each value has."""
        return int(self.rows.shape[1])

    def on(self, labels: Indices) -> Dense:
        """The same table on a finer domain."""
        return Dense(self.rows[labels], self.grid)

    def between(self, x: Indices, y: Indices) -> Steps:
        """‖v(x) − v(y)‖₁ of each pair."""
        return np.asarray(np.abs(self.rows[x] - self.rows[y]).sum(axis=1))

    def between_squared(self, x: Indices, y: Indices) -> Steps:
        """‖v(x) − v(y)‖₂² of each pair."""
        gaps = self.rows[x] - self.rows[y]
        return np.asarray(squares(gaps.ravel()).reshape(gaps.shape).sum(axis=1))

    def over_cliques(self, labels: Indices, *, squared: bool = False) -> Largest:
        """The maximum over all pairs of one label: by signs where they are few, else pair by pair."""
        if (squared and self.coordinates > 1) or self.coordinates > MOST_SIGNS:
            return self._pair_by_pair(labels, squared=squared)
        best = NOTHING
        order = np.argsort(labels, kind="stable")
        starts = _starts(labels[order], np.zeros(len(labels), dtype=np.int64))
        for signs in itertools.product((1, -1), repeat=max(0, self.coordinates - 1)):
            along = self.rows[order] @ np.array([1, *signs][: self.coordinates], dtype=self.rows.dtype)
            lowest, highest = _ends(along, starts)
            spread = along[highest] - along[lowest]
            at = int(np.argmax(spread))
            if int(spread[at]) > best.amount:
                best = Largest(int(spread[at]), (int(order[lowest[at]]), int(order[highest[at]])))
        return Largest(best.amount**2, best.pair) if squared else best

    def _pair_by_pair(self, labels: Indices, *, squared: bool) -> Largest:
        return pair_by_pair(labels, self.between_squared if squared else self.between)

    def ceiling(self, *, squared: bool = False) -> int:  # noqa: ARG002 - nothing is known beforehand
        """What no pair of values exceeds; −1 where it would have to be looked for."""
        return -1

    def is_constant_on(self, labels: Indices) -> bool:
        """Whether v is the same for all values of one label."""
        return bool((self.rows == self.rows[_first_of(labels)]).all())

    def norms(self) -> Steps:
        """‖v(x)‖₁ of every value."""
        return np.asarray(np.abs(self.rows).sum(axis=1))

    def reach(self) -> int:
        """The largest ‖v(x)‖₁."""
        return int(np.max(self.norms(), initial=0))

    def totals(self, counts: npt.NDArray[np.int64]) -> list[int]:
        """Σ count(x)·v(x), coordinate by coordinate."""
        return [exact_dot(self.rows[:, column], counts) for column in range(self.coordinates)]


@dataclass(frozen=True)
class Columns:
    """v(x) = the values of some attributes themselves; kept attribute by attribute, so that no joint domain is looked at."""

    columns: tuple[Steps, ...]
    grid: Fraction = Fraction(1)

    @property
    def coordinates(self) -> int:
        """One an attribute."""
        return len(self.columns)

    def reach(self) -> int:
        """The largest ‖v(x)‖₁: the attributes move apart from each other."""
        return sum(int(np.max(np.abs(column))) for column in self.columns)


@dataclass(frozen=True)
class Stacked:
    """Several tables over the same values, all released: every coordinate counts with the weight of its table."""

    tables: tuple[OneHot | Prefixes | Dense, ...]
    weights: tuple[int, ...]

    def between(self, x: Indices, y: Indices) -> Steps:
        """Σ weight · ‖v(x) − v(y)‖₁ of each pair."""
        parts = zip(self.tables, self.weights, strict=True)
        return np.asarray(sum(table.between(x, y).astype(object) * weight for table, weight in parts))

    def over_cliques(self, labels: Indices, *, squared: bool = False) -> Largest:
        """The maximum over all pairs of one label."""
        require(not squared, "weights are about losses, which add up in L1")
        return pair_by_pair(labels, self.between)

    def between_squared(self, x: Indices, y: Indices) -> Steps:
        """Refused: losses add up in L1."""
        require(False, "weights are about losses, which add up in L1")
        return self.between(x, y)

    def ceiling(self, *, squared: bool = False) -> int:  # noqa: ARG002 - nothing is known beforehand
        """What no pair of values exceeds; −1 where it would have to be looked for."""
        return -1

    def is_constant_on(self, labels: Indices) -> bool:
        """Whether v is the same for all values of one label."""
        return all(table.is_constant_on(labels) for table in self.tables)

    def on(self, labels: Indices) -> Stacked:
        """The same tables on a finer domain."""
        return Stacked(tuple(table.on(labels) for table in self.tables), self.weights)

    def reach(self) -> int:
        """The largest Σ weight · ‖v(x)‖₁."""
        parts = zip(self.tables, self.weights, strict=True)
        return int(np.max(np.asarray(sum(table.norms().astype(object) * weight for table, weight in parts))))


Table = OneHot | Prefixes | Dense
Movable = Table | Stacked
"""What can be asked how far an edge moves it."""


def pair_by_pair(labels: Indices, gaps_between: Callable[[Indices, Indices], Steps]) -> Largest:
    """The largest gap between two values of one label, by looking at all of them."""
    best = NOTHING
    for x, y in clique_pairs(labels):
        gaps = gaps_between(x, y)
        at = int(np.argmax(gaps))
        if int(gaps[at]) > best.amount:
            best = Largest(int(gaps[at]), (int(x[at]), int(y[at])))
    return best


def clique_pairs(labels: Indices) -> Iterator[tuple[Indices, Indices]]:
    """All pairs of one label, row by row; too many are refused before the first."""
    _, sizes = np.unique(labels, return_counts=True)
    if int((sizes.astype(object) * (sizes - 1)).sum()) // 2 > MOST_EDGES:
        raise too_many_edges()
    order = np.argsort(labels, kind="stable")
    stops = np.cumsum(sizes)
    for start, stop in zip(stops - sizes, stops, strict=True):
        for first in range(start, stop - 1):
            rest = order[first + 1 : stop]
            yield np.full(len(rest), order[first]), rest
