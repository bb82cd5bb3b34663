"""Earth mover's distances between the values of a class and of the whole table, for t-closeness.

Each ground distance has a quick form over all classes at once (floats, over the values that a class has) and an exact form
for one class (fractions), which decides comparisons that come too close to a limit.

    >>> Ordered().exact({0: 1, 2: 1}, [1, 1, 1])
    Fraction(1, 6)
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from shoal.anonymity.measuring.tuples import counted
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Held

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class Distance(Protocol):
    """A ground distance between values, lifted to distributions."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def by_class(self, held: Held) -> Floats:
        """The distance of every class from the table."""

    def exact(self, cell: dict[int, int], held: Sequence[int]) -> Fraction:
        """The distance of one class, in fractions."""


def weighed(position: Integers, weights: Floats, count: int) -> Floats:
    """Sums of weights by position."""
    sums: Floats = np.bincount(position, weights=weights, minlength=count).astype(np.float64, copy=False)
    return sums


def _shares(held: Held) -> tuple[Floats, Floats]:
    """The share of each cell in its class, and of each value in the table."""
    totals = held.totals()
    return held.owners / totals[held.cls], held.held / max(int(held.held.sum()), 1)


def _excess(cell: dict[int, int], held: Sequence[int]) -> list[Fraction]:
    total, whole = sum(cell.values()), sum(held)
    return [Fraction(cell.get(value, 0), total) - Fraction(count, whole) for value, count in enumerate(held)]


@dataclass(frozen=True, slots=True)
class Equal:
    """Any two values are equally far apart: half of the sum of differences."""

    name: str = "equal"

    def by_class(self, held: Held) -> Floats:
        """The positive parts alone make up half of the sum."""
        share, overall = _shares(held)
        gain = np.maximum(share - overall[held.value], 0.0)
        return weighed(held.cls, gain, held.count)

    def exact(self, cell: dict[int, int], held: Sequence[int]) -> Fraction:
        """½ Σ |p − P|."""
        return sum((abs(part) for part in _excess(cell, held)), Fraction(0)) / 2


@dataclass(frozen=True, slots=True)
class Ordered:
    """Values are as far apart as their positions in order, among those that somebody in the table holds."""

    name: str = "ordered"

    def by_class(self, held: Held) -> Floats:
        """Between two values of a class its cumulative share does not change: each stretch is a difference of prefix sums."""
        present = held.held > 0
        size = int(present.sum())
        if size < 2:
            return np.zeros(held.count)
        overall = held.held[present] / int(held.held.sum())
        cumulative = np.cumsum(overall)
        prefix = np.concatenate(([0.0], np.cumsum(cumulative)))
        cls, start, end, level = _stretches(held, np.maximum(np.cumsum(present) - 1, 0), size)
        cross = np.clip(np.searchsorted(cumulative, level), start, end)
        below = level * (cross - start) - (prefix[cross] - prefix[start])
        above = (prefix[end] - prefix[cross]) - level * (end - cross)
        return np.bincount(cls, weights=below + above, minlength=held.count) / (size - 1)

    def exact(self, cell: dict[int, int], held: Sequence[int]) -> Fraction:
        """1/(m−1) Σ |cumulative excess|."""
        present = sum(count > 0 for count in held)
        if present < 2:
            return Fraction(0)
        total, running = Fraction(0), Fraction(0)
        for part, count in zip(_excess(cell, held), held, strict=True):
            if count:
                running += part
                total += abs(running)
        return total / (present - 1)


def _stretches(held: Held, rank: Integers, size: int) -> tuple[Integers, Integers, Integers, Floats]:
    """Stretches of values [start, end) of a class with one cumulative share, up to the last value but one.

    `rank` is the position of a value among those that anybody in the table holds: values that were suppressed away do not count.
    """
    value = rank[held.value]
    first = np.ones(len(held.cls), dtype=bool)
    first[1:] = held.cls[1:] != held.cls[:-1]
    running = np.cumsum(held.owners)
    before = np.maximum.accumulate(np.where(first, running - held.owners, 0))
    level = (running - before) / held.totals()[held.cls]
    end = np.full(len(held.cls), size - 1, dtype=np.int64)
    end[:-1][~first[1:]] = value[1:][~first[1:]]
    start = np.minimum(value, size - 1)
    ahead = np.flatnonzero(first)
    return (
        np.concatenate((held.cls, held.cls[ahead])),
        np.concatenate((start, np.zeros(len(ahead), dtype=np.int64))),
        np.concatenate((end, start[ahead])),
        np.concatenate((level, np.zeros(len(ahead)))),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Tree:
    """Values are as far apart as the height of the lowest label that holds both, over the height of the hierarchy.

    `labels[h]` is the label of each value at level h; level 0 is the values themselves.
    """

    labels: tuple[Integers, ...]
    name: str = "hierarchical"

    def by_class(self, held: Held) -> Floats:
        """What is moved under a label is the smaller of what its children have too much and too little."""
        total = np.zeros(held.count)
        share, overall = _shares(held)
        height = len(self.labels) - 1
        if height < 1:
            return total
        totals = held.totals()
        child_cls, child, child_share = held.cls, held.value, share
        for level in range(1, height + 1):
            below, here = self.labels[level - 1], self.labels[level]
            whole_below = weighed(below, overall, int(below.max()) + 1)
            whole_here = weighed(here, overall, int(here.max()) + 1)
            parent_of = np.zeros(len(whole_below), dtype=np.int64)
            parent_of[below] = here
            excess = child_share - whole_below[child]
            moved = _moved(held.count, child_cls, parent_of[child], excess, whole_below[child], whole_here)
            total += level / height * moved
            child_cls, child, sums = counted(held.cls, here[held.value], held.owners, len(whole_here))
            child_share = sums / totals[child_cls]
        return total

    def exact(self, cell: dict[int, int], held: Sequence[int]) -> Fraction:
        """Σ over labels of height/H · min(positive, negative excess of the children)."""
        excess, height = _excess(cell, held), len(self.labels) - 1
        total = Fraction(0)
        for level in range(1, height + 1):
            children: dict[tuple[int, int], Fraction] = {}
            for value, part in enumerate(excess):
                position = (int(self.labels[level][value]), int(self.labels[level - 1][value]))
                children[position] = children.get(position, Fraction(0)) + part
            for parent in {parent for parent, _ in children}:
                parts = [part for (above, _), part in children.items() if above == parent]
                plus = sum((part for part in parts if part > 0), Fraction(0))
                minus = -sum((part for part in parts if part < 0), Fraction(0))
                total += Fraction(level, height) * min(plus, minus)
        return total


def _moved(count: int, cls: Integers, parent: Integers, excess: Floats, overall: Floats, whole: Floats) -> Floats:
    """What moves under each label, summed by class; children that a class lacks are short of all they should have."""
    size = len(whole)
    key, number = np.unique(cls * size + parent, return_inverse=True)
    plus = np.bincount(number, weights=np.maximum(excess, 0.0))
    short = np.bincount(number, weights=np.maximum(-excess, 0.0) - overall)
    minus = whole[key % size] + short
    return weighed(key // size, np.minimum(plus, np.maximum(minus, 0.0)), count)
