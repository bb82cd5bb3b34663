"""Classes of a recoding: tuples that look the same, with their rows, their owners, and who among them holds which value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.measuring.tuples import counted, distinct_rows, summed
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.anonymity.measuring.tuples import Holdings, Tuples

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Held:
    """How many owners of each class hold each value of a sensitive column: cells (class, value, owners), ordered."""

    holdings: Holdings
    sizes: Integers  # owners of each class
    cls: Integers
    value: Integers
    owners: Integers
    pairs: tuple[Integers, Integers, Integers]  # (owner, class, value) of owners with several tuples
    held: Integers  # owners with each value, in the table that classes are compared with

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.sizes)

    def distinct(self) -> Integers:
        """How many values each class has."""
        return np.bincount(self.cls, minlength=self.count).astype(np.int64)

    def most(self) -> Integers:
        """The owners of the most common value of each class."""
        largest = np.zeros(self.count, dtype=np.int64)
        np.maximum.at(largest, self.cls, self.owners)
        return largest

    def totals(self) -> Integers:
        """Σ c_v of each class: more than its owners where an owner holds several values."""
        return summed(self.cls, self.owners, self.count)

    def among(self, kept: Mask) -> Held:
        """The same classes, compared with the table that only the kept ones make up."""
        return Held(self.holdings, self.sizes, self.cls, self.value, self.owners, self.pairs, self._held_by(kept))

    def _held_by(self, kept: Mask) -> Integers:
        """Owners with several tuples count once for each value, in however many classes they hold it."""
        owner, cls, value = self.pairs
        inside = kept[cls]
        _, once = distinct_rows(owner[inside], value[inside])
        in_each_class = np.bincount(value[inside], minlength=len(self.held))
        cells = kept[self.cls]
        everybody = summed(self.value[cells], self.owners[cells], len(self.held))
        return everybody - in_each_class + np.bincount(once, minlength=len(self.held))

    def of_class(self, number: int) -> dict[int, int]:
        """Value → owners of one class, for exact arithmetic."""
        low, high = np.searchsorted(self.cls, [number, number + 1])
        return dict(zip(self.value[low:high].tolist(), self.owners[low:high].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Classes:
    """Everything a definition may ask about the classes of a table, and of the population behind it."""

    rows: Integers
    owners: Integers
    values: dict[str, Held]
    population: Integers | None = None  # owners of each class in the population
    absent: int = 0  # classes of the population that the table lacks
    absent_owners: int = 0
    sampling: float | None = None

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.owners)


def owners_by_class(tuples: Tuples, part: Integers, count: int) -> Integers:
    """The owners of each class, each counted once; `part` says which class a tuple is in."""
    owners = summed(part, tuples.alone, count)
    if tuples.spanning:
        _, once = distinct_rows(tuples.pairs[0], part[tuples.pairs[1]])
        owners += np.bincount(once, minlength=count)
    return owners


def held_by_class(holdings: Holdings, part: Integers, sizes: Integers) -> Held:
    """Who holds what, class by class."""
    position, value, owners = part[holdings.position], holdings.value, holdings.owners
    owner, of_tuple, several = holdings.pairs
    if len(owner):
        owner, cls, several = distinct_rows(owner, part[of_tuple], several)
        position = np.concatenate((position, cls))
        value = np.concatenate((value, several))
        owners = np.concatenate((owners, np.ones(len(cls), dtype=np.int64)))
        pairs = (owner, cls, several)
    else:
        pairs = (owner, of_tuple, several)
    return Held(holdings, sizes, *counted(position, value, owners, holdings.size), pairs, holdings.held)


def classes_of(
    tuples: Tuples,
    part: Integers,
    count: int,
    population: tuple[Integers, int, int] | None = None,
    sampling: float | None = None,
) -> Classes:
    """The classes of a partition of the tuples; the population's side of them was counted before."""
    owners = owners_by_class(tuples, part, count)
    values = {name: held_by_class(holdings, part, owners) for name, holdings in tuples.sensitive.items()}
    in_population, absent, absent_owners = population if population is not None else (None, 0, 0)
    return Classes(summed(part, tuples.rows, count), owners, values, in_population, absent, absent_owners, sampling)
