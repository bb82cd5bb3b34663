"""What can be demanded of a table: one frozen class for each definition.

`holds` says which classes keep a demand. `fails_below` says which classes break it in a way that no finer recoding mends:
their rows fail wherever the levels are at most these, so the search may leave those recodings out. The proofs:

- k, k-map: a class of a finer recoding is part of one here, so it has no more owners.
- distinct l: nor has it more values or owners; but whether one value is held by *every* owner is inherited only where no
  owner has rows in two tuples (an owner may hold the value in the other tuple).
- entropy, recursive, t, upper δ: a union of classes that hold is a class that holds (averages of shares), so a class that
  fails has a part that fails, *somewhere*: which rows is unknown, so it helps only where nothing may be suppressed, and
  only where no owner is counted in two parts.
- a lower δ: never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from shoal.anonymity.measuring import diversity
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Classes, Held
    from shoal.anonymity.measuring.distances import Distance

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

CLOSE = 1e-9
"""A float this near to its limit is decided in exact arithmetic."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the monotony of a demand depends on."""

    suppressing: bool  # rows may be dropped
    spanning: bool  # some owner has rows in several tuples
    population_spanning: bool = False


class Demand(Protocol):
    """A demand on every class of a table."""

    @property
    def name(self) -> str:
        """The parameter of `enforce` that makes it."""

    @property
    def sentence(self) -> str:
        """What it asks for, in words."""

    @property
    def column(self) -> str | None:
        """The sensitive column it speaks of."""

    def holds(self, classes: Classes) -> Mask:
        """Which classes keep it."""

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:
        """Which classes break it in every finer recoding too; None where that cannot be said."""

    def to_dict(self) -> dict[str, object]:
        """The demand as `enforce` takes it."""


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def _at_most(part: Integers, whole: Integers, limit: Fraction) -> Mask:
    """Whether part ≤ limit · whole, exactly."""
    if limit.numerator < 1 << 20 and limit.denominator < 1 << 20:
        return part * limit.denominator <= limit.numerator * whole
    exact = part.astype(object) * limit.denominator <= limit.numerator * whole.astype(object)
    return np.asarray(exact, dtype=bool)


@dataclass(frozen=True, slots=True)
class KAnonymity:
    """Every class has at least k owners."""

    k: int
    name: str = "k"
    column: None = None

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class has at least {self.k:,} owners"

    def holds(self, classes: Classes) -> Mask:
        """Whether f ≥ k."""
        return classes.owners >= self.k

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:  # noqa: ARG002 - one signature for all definitions
        """Always: parts are smaller."""
        return ~self.holds(classes)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"k": self.k}


@dataclass(frozen=True, slots=True)
class KMap:
    """Every class has at least k owners in the population, counted or estimated from a sampling fraction."""

    k: int
    name: str = "k_map"
    column: None = None

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class has at least {self.k:,} owners in the population"

    def holds(self, classes: Classes) -> Mask:
        """F ≥ k; without a population f/π ≥ k."""
        if classes.population is not None:
            return classes.population >= self.k
        fraction = as_fraction(classes.sampling or 1.0)
        return _at_most(np.full(classes.count, self.k), classes.owners, 1 / fraction)

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:  # noqa: ARG002 - one signature for all definitions
        """Always: parts are smaller in the population too."""
        return ~self.holds(classes)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"k_map": self.k}


@dataclass(frozen=True, slots=True)
class Presence:
    """The share of a class's population that is in the table lies between two limits."""

    low: Fraction
    high: Fraction
    name: str = "presence"
    column: None = None

    @property
    def sentence(self) -> str:
        """In words."""
        return f"between {float(self.low):g} and {float(self.high):g} of each class's population is in the table"

    @property
    def keeps_everything(self) -> bool:
        """A suppressed class has the ratio 0: with a lower limit nothing can be suppressed."""
        return self.low > 0

    def holds(self, classes: Classes) -> Mask:
        """Whether low · F ≤ f ≤ high · F."""
        population = classes.population
        if population is None:
            return np.zeros(classes.count, dtype=bool)
        within = _at_most(classes.owners, population, self.high)
        if self.low > 0:
            within &= _at_most(population, classes.owners, 1 / self.low)
        return within

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:
        """The upper limit, where nothing is suppressed and nobody is counted twice."""
        if setting.suppressing or setting.spanning or setting.population_spanning or classes.population is None:
            return None
        return ~_at_most(classes.owners, classes.population, self.high)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"presence": [_number(self.low), _number(self.high)]}


class _OnValues:
    """What the demands on a sensitive column share."""

    __slots__ = ()
    column: str

    def held(self, classes: Classes) -> Held:
        """The column's counts."""
        return classes.values[self.column]


@dataclass(frozen=True, slots=True)
class Distinct(_OnValues):
    """Every class has at least l values and l owners, and no value that all its owners hold."""

    at_least: int
    column: str
    name: str = "l"

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class has at least {self.at_least:,} values of {self.column}"

    def holds(self, classes: Classes) -> Mask:
        """Distinct l of every class."""
        return diversity.distinct_l(self.held(classes)) >= self.at_least

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:
        """Too few values or owners: always. One value for all: where no owner has two tuples."""
        held = self.held(classes)
        if not setting.spanning:
            return ~self.holds(classes)
        return np.minimum(held.distinct(), held.sizes) < self.at_least

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"l": {self.column: self.at_least}}


class _Merging(_OnValues):
    """Demands that a union of classes inherits."""

    __slots__ = ()

    def holds(self, classes: Classes) -> Mask:
        """Which classes keep it."""
        raise NotImplementedError

    def fails_below(self, classes: Classes, setting: Setting) -> Mask | None:
        """Only where nothing is suppressed and nobody is counted twice."""
        if setting.suppressing or setting.spanning:
            return None
        return ~self.holds(classes)


@dataclass(frozen=True, slots=True)
class Entropy(_Merging):
    """The values of every class are as uncertain as l equally common ones."""

    at_least: Fraction
    column: str
    name: str = "entropy_l"

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class has an entropy of at least ln {float(self.at_least):g} in {self.column}"

    def holds(self, classes: Classes) -> Mask:
        """exp(entropy) ≥ l."""
        held, limit = self.held(classes), float(self.at_least)
        found = diversity.entropy_l(held)
        result = found >= limit
        for number in np.flatnonzero(np.abs(found - limit) <= CLOSE * max(1.0, limit)).tolist():
            result[number] = diversity.entropy_reaches(list(held.of_class(number).values()), self.at_least)
        return result

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"entropy_l": {self.column: _number(self.at_least)}}


@dataclass(frozen=True, slots=True)
class Recursive(_Merging):
    """The most common value of a class is rarer than c times all but the l − 1 most common together."""

    c: Fraction
    at_least: int
    column: str
    name: str = "recursive"

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class is recursively ({float(self.c):g}, {self.at_least})-diverse in {self.column}"

    def holds(self, classes: Classes) -> Mask:
        """r₁ < c (r_l + … + r_m)."""
        first, rest = diversity.recursive_parts(self.held(classes), self.at_least)
        return ~_at_most(rest, first, 1 / self.c)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"recursive": {self.column: [_number(self.c), self.at_least]}}


@dataclass(frozen=True, slots=True)
class Closeness(_Merging):
    """The values of every class are distributed within t of the whole table's."""

    t: Fraction
    column: str
    distance: Distance
    name: str = "t"

    @property
    def sentence(self) -> str:
        """In words."""
        return f"every class is within {float(self.t):g} of the table in {self.column} ({self.distance.name} distance)"

    def holds(self, classes: Classes) -> Mask:
        """Distance ≤ t from the table that the classes know."""
        return self.within(self.held(classes))

    def within(self, held: Held) -> Mask:
        """Distance ≤ t; next to the limit in fractions."""
        found, limit = self.distance.by_class(held), float(self.t)
        result = found <= limit
        overall = held.held.tolist()
        for number in np.flatnonzero(np.abs(found - limit) <= CLOSE).tolist():
            result[number] = self.distance.exact(held.of_class(number), overall) <= self.t
        return result

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"t": {self.column: _number(self.t)}}


def surviving(classes: Classes, demands: tuple[Demand, ...], allowed: Mask | None = None) -> Mask:
    """The classes that stay: those that keep every demand, and t also against the table of those that stay."""
    kept = np.ones(classes.count, dtype=bool) if allowed is None else allowed.copy()
    for demand in demands:
        kept &= demand.holds(classes)
    closeness = [demand for demand in demands if isinstance(demand, Closeness)]
    while closeness and kept.any() and not kept.all():
        close = np.all([demand.within(demand.held(classes).among(kept)) for demand in closeness], axis=0)
        if close[kept].all():
            break
        kept &= close
    return kept
