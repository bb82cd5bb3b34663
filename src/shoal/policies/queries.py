"""Questions that a policy can be asked about: each is Σ v(record) for a public v, or a mean of one.

>>> from shoal.policies.domain import Domain
>>> ages = Domain({"age": range(0, 5)})
>>> ranges("age", [(0, 1), (2, 4)]).table(ages).totals(np.array([1, 2, 3, 4, 5]))
[3, 12]
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies.domain import Domain, Indices, usage
from shoal.policies.tables import Dense, OneHot, Prefixes, Table, whole_steps

if TYPE_CHECKING:
    from shoal.policies.tables import Steps

MOST_RANGES = 10_000
MOST_BITS = 256
"""Answers of `linear` have denominators of at most this many binary digits."""


@dataclass(frozen=True)
class Histogram:
    """How many records have each combination of some attributes."""

    names: tuple[str, ...]

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """The attributes that v looks at."""
        return domain.projected(_known(domain, self.names)).names

    def table(self, domain: Domain) -> Table:
        """One coordinate a cell."""
        size = domain.projected(self.names).require_enumerable().size
        return OneHot(np.arange(size, dtype=np.int64), np.ones(size, dtype=np.int64), size)

    def keys(self, domain: Domain) -> list[Any]:
        """The cells."""
        seen = domain.projected(self.names)
        return [seen.plain(seen.record(i)) for i in range(seen.size)]

    @property
    def name(self) -> str:
        """What it is called."""
        return f"histogram of {', '.join(self.names)}"


@dataclass(frozen=True)
class Cumulative:
    """How many records are at most each value of an ordered attribute: every range and quantile follows from it."""

    attribute: str

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """The attribute."""
        domain.ordered(self.attribute)
        return (self.attribute,)

    def table(self, domain: Domain) -> Table:
        """Thresholds between neighbouring values; the last count is n."""
        size = domain.projected([self.attribute]).require_enumerable().size
        return Prefixes(np.arange(size - 1, -1, -1, dtype=np.int64), size - 1)

    def keys(self, domain: Domain) -> list[Any]:
        """The values."""
        return list(domain.ordered(self.attribute).values)

    @property
    def name(self) -> str:
        """What it is called."""
        return f"cumulative histogram of {self.attribute}"


@dataclass(frozen=True)
class Ranges:
    """How many records lie in each of some ranges of an ordered attribute, both ends inside."""

    attribute: str
    intervals: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.intervals) <= MOST_RANGES:
            raise usage(f"ranges() takes from 1 to {MOST_RANGES} ranges.")

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """The attribute."""
        domain.ordered(self.attribute)
        return (self.attribute,)

    def positions(self, domain: Domain) -> list[tuple[int, int]]:
        """First and last position of each range."""
        attribute = domain.ordered(self.attribute)
        found = [(attribute.position(low), attribute.position(high)) for low, high in self.intervals]
        if any(low > high for low, high in found):
            raise usage("A range is (low, high) with low ≤ high.", 'ranges("age", [(0, 17), (18, 64)])')
        return found

    def table(self, domain: Domain) -> Table:
        """1 inside a range, else 0."""
        rows = np.zeros(
            (domain.projected([self.attribute]).require_enumerable().size, len(self.intervals)), dtype=np.int64
        )
        for column, (low, high) in enumerate(self.positions(domain)):
            rows[low : high + 1, column] = 1
        return Dense(rows)

    def keys(self, domain: Domain) -> list[Any]:  # noqa: ARG002 - one protocol
        """The ranges."""
        return list(self.intervals)

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{len(self.intervals)} ranges of {self.attribute}"


@dataclass(frozen=True)
class Sum:
    """The sum of each of some ordered attributes; `mean`: divided by the public number of records."""

    names: tuple[str, ...]
    mean: bool = False

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """The attributes, in the domain's order."""
        if not self.names or len(set(self.names)) < len(self.names):
            raise usage("sum() and mean() name different attributes.", 'sum("age")')
        for name in self.names:
            domain.ordered(name)
        return domain.projected(self.names).names

    def table(self, domain: Domain) -> Table:
        """One coordinate an attribute, in the order of the query."""
        seen = domain.projected(self.names).require_enumerable()
        columns = [seen.grid[seen.axis(name)] + seen.ordered(name).values[0] for name in self.names]
        return Dense(np.stack(columns, axis=1))

    def ends(self, domain: Domain) -> list[tuple[int, int]]:
        """The range of each attribute."""
        return [(domain.ordered(name).values[0], domain.ordered(name).values[-1]) for name in self.names]

    def keys(self, domain: Domain) -> list[Any]:  # noqa: ARG002 - one protocol
        """The attributes."""
        return list(self.names)

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{'mean' if self.mean else 'sum'} of {', '.join(self.names)}"


@dataclass(frozen=True)
class Linear:
    """Σ function(record) for any public function of a record to a number or a sequence of numbers."""

    function: Callable[[dict[str, Any]], Any]
    name: str
    _tables: dict[Domain, Table] = field(default_factory=dict, compare=False, repr=False)

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """All of them: what the function looks at is not known."""
        return domain.names

    def table(self, domain: Domain) -> Table:
        """The function at every value of the domain, on the grid of its common denominator."""
        if domain not in self._tables:
            self._tables[domain] = self._evaluated(domain.require_enumerable())
        return self._tables[domain]

    def _evaluated(self, domain: Domain) -> Table:
        columns = [
            _column(attribute.values, axis) for attribute, axis in zip(domain.attributes, domain.grid, strict=True)
        ]
        names = domain.names
        try:
            found = [self.function(dict(zip(names, record, strict=True))) for record in zip(*columns, strict=True)]
        except Exception as error:  # noqa: BLE001 - the caller's function, on public values
            raise usage(f"The function of {self.name!r} failed on a value of the domain: {error}.") from None
        if set(map(type, found)) == {int}:
            return Dense(whole_steps(found).reshape(-1, 1))
        return _dense([tuple(row) if isinstance(row, Sequence | np.ndarray) else (row,) for row in found], self.name)

    def keys(self, domain: Domain) -> list[Any]:
        """Numbers, from 0."""
        return list(range(self.table(domain).coordinates))


def _column(values: range | tuple[Any, ...], axis: Indices) -> list[Any]:
    """One attribute of every value of the domain."""
    if isinstance(values, range):
        return list((axis + values.start).tolist())
    return list(np.array(values, dtype=object)[axis])


def _dense(rows: Sequence[Sequence[Any]], name: str) -> Dense:
    width = len(rows[0])
    if width == 0 or any(len(row) != width for row in rows):
        raise usage(f"The function of {name!r} returns rows of different lengths, or empty ones.")
    numbers = [_rational(value, name) for row in rows for value in row]
    denominator = math.lcm(*{number.denominator for number in numbers})
    if denominator.bit_length() > MOST_BITS:
        raise ShoalError("E_LIMITS", f"The values of {name!r} have no short common denominator.")
    steps: Steps = whole_steps([number.numerator * (denominator // number.denominator) for number in numbers])
    return Dense(steps.reshape(len(rows), width), Fraction(1, denominator))


def _rational(value: Any, name: str) -> int | Fraction:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | Fraction):
        return value
    if isinstance(value, np.integer):
        return int(value)
    raise usage(
        f"The function of {name!r} returns {type(value).__name__}, which is not exact.", "Return an int or a Fraction."
    )


def _known(domain: Domain, names: tuple[str, ...]) -> tuple[str, ...]:
    if not names or len(set(names)) < len(names):
        raise usage("histogram() names different attributes.", 'histogram("age", "ward")')
    for name in names:
        domain.attribute(name)
    return names


Query = Histogram | Cumulative | Ranges | Sum | Linear


# ---- how people write them -------------------------------------------------------------------------------------------


def histogram(*names: str) -> Query:
    """How many records have each combination of these attributes."""
    return Histogram(names)


def cumulative(name: str) -> Query:
    """How many records are at most each value: ranges and quantiles follow from it."""
    return Cumulative(name)


def ranges(name: str, intervals: Sequence[tuple[int, int]]) -> Query:
    """How many records lie in each range; both ends of a range lie inside."""
    try:
        listed = tuple((int(low), int(high)) for low, high in intervals)
    except (TypeError, ValueError):
        raise usage("Ranges are pairs of whole numbers.", 'ranges("age", [(0, 17), (18, 64)])') from None
    return Ranges(name, listed)


def sum(*names: str) -> Query:  # noqa: A001 - policy.sum is the name users write
    """The sum of each attribute named."""
    return Sum(names)


def mean(*names: str) -> Query:
    """The mean of each attribute named, over the whole data set: the sum divided by the public number of records."""
    return Sum(names, mean=True)


def linear(function: Callable[[dict[str, Any]], Any], *, name: str = "linear") -> Query:
    """Σ function(record): a record is a dict of attribute → value, the function returns int or Fraction, one or several."""
    if not builtins.callable(function):
        raise usage(
            "linear() takes a function of a record.", 'linear(lambda record: record["age"] ** 2, name="squares")'
        )
    return Linear(function, name)
