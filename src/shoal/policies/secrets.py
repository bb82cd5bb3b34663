"""The secret graph G: which pairs of values nobody may tell apart.

Five kinds. Each knows its edges as *pieces* over any choice of attributes: labels (all pairs of values with the same label) or
lists of pairs. Projected onto fewer attributes, a graph of the first four kinds is again one of its kind; edges that move other
attributes only become loops, which change nothing.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.exact import as_fraction
from shoal.policies import hops
from shoal.policies.domain import LARGEST_TABLE, Domain, Indices, usage
from shoal.policies.tables import MOST_EDGES, too_many_edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Positions = tuple[int, ...]
Pairs = tuple[Indices, Indices]


class Secret(ABC):
    """A symmetric graph on a domain, without loops."""

    kind: str

    @abstractmethod
    def check(self, domain: Domain) -> None:
        """Refuse a graph that does not fit the domain."""

    @abstractmethod
    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """The edges, seen through these attributes: labels or pairs over `domain.projected(names)`."""

    @abstractmethod
    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """Whether two values are a secret pair."""

    @abstractmethod
    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """The length of the shortest path, or infinity."""

    @abstractmethod
    def spans(self, domain: Domain) -> list[Positions]:
        """Upper ends of |x − y| over the edges, attribute by attribute: every edge lies below one of them."""

    @abstractmethod
    def words(self, domain: Domain) -> str:
        """What is hidden, as a sentence without its end."""

    @abstractmethod
    def to_dict(self) -> Any:
        """The graph as the catalog writes it."""

    def lift(self, domain: Domain, names: Sequence[str], x: Positions, y: Positions) -> tuple[Positions, Positions]:
        """An edge of the domain that looks like (x, y) through these attributes."""
        at = {name: i for i, name in enumerate(domain.projected(names).names)}
        return (
            tuple(x[at[name]] if name in at else 0 for name in domain.names),
            tuple(y[at[name]] if name in at else 0 for name in domain.names),
        )

    def farthest(self, domain: Domain, names: Sequence[str]) -> Positions:
        """The span whose sum over these attributes is largest; 0 elsewhere."""
        kept = [
            tuple(s if n in names else 0 for n, s in zip(domain.names, span, strict=True))
            for span in self.spans(domain)
        ]
        return max(kept, key=sum)

    def attain(self, domain: Domain, span: Positions) -> tuple[Positions, Positions]:
        """An edge with this span."""
        return tuple(0 for _ in domain.shape), span

    def has_edges(self, domain: Domain) -> bool:
        """Whether anything is hidden at all."""
        return any(any(span) for span in self.spans(domain))


def _changes(x: Positions, y: Positions) -> Positions:
    return tuple(abs(a - b) for a, b in zip(x, y, strict=True))


def _names_in(domain: Domain, names: Sequence[str]) -> Domain:
    return domain.projected(names)


@dataclass(frozen=True, slots=True)
class Full(Secret):
    """All pairs: the value of a record is hidden, its presence is not."""

    kind = "full"

    def check(self, domain: Domain) -> None:
        """Every domain has this graph."""

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """One clique."""
        if names:
            yield np.zeros(_names_in(domain, names).require_enumerable().size, dtype=np.int64)

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:  # noqa: ARG002 - one protocol
        """Any two values."""
        return x != y

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:  # noqa: ARG002 - one protocol
        """One step leads everywhere."""
        return int(x != y)

    def spans(self, domain: Domain) -> list[Positions]:
        """The whole box."""
        return [tuple(size - 1 for size in domain.shape)]

    def words(self, domain: Domain) -> str:
        """The whole value."""
        return f"the whole value of a record ({', '.join(domain.names)})"

    def to_dict(self) -> Any:
        """One word."""
        return "full"


@dataclass(frozen=True, slots=True)
class Attributes(Secret):
    """Pairs that differ in at most `count` attributes: any so many facts of one record are hidden."""

    count: int
    kind = "attributes"

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise usage("attributes(c) takes a whole number from 1.")

    def check(self, domain: Domain) -> None:
        """C is at most the number of attributes."""
        if self.count > len(domain.attributes):
            raise usage(f"attributes({self.count}) is more than the domain has ({len(domain.attributes)}).")

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """For every choice of c attributes, the cliques of all others."""
        seen = _names_in(domain, names).require_enumerable() if names else None
        if seen is None:
            return
        for moved in itertools.combinations(seen.names, min(self.count, len(seen.names))):
            yield seen.labels([name for name in seen.names if name not in moved])

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:  # noqa: ARG002 - one protocol
        """At least one attribute differs, and at most c do."""
        return 1 <= sum(map(bool, _changes(x, y))) <= self.count

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:  # noqa: ARG002 - one protocol
        """⌈differing attributes / c⌉."""
        return -(-sum(map(bool, _changes(x, y))) // self.count)

    def spans(self, domain: Domain) -> list[Positions]:
        """The box of every choice of c attributes."""
        whole = range(len(domain.shape))
        return [
            tuple(size - 1 if axis in moved else 0 for axis, size in enumerate(domain.shape))
            for moved in itertools.combinations(whole, self.count)
        ]

    def words(self, domain: Domain) -> str:
        """How many facts."""
        what = "any one attribute" if self.count == 1 else f"any {self.count} attributes together"
        return f"{what} of a record ({', '.join(domain.names)})"

    def to_dict(self) -> Any:
        """The number."""
        return {"attributes": self.count}


@dataclass(frozen=True, slots=True)
class Distance(Secret):
    """Per attribute named: |x − y| ≤ θ there, and everything else equal."""

    reaches: tuple[tuple[str, int], ...]
    kind = "distance"

    def __post_init__(self) -> None:
        if not self.reaches:
            raise usage("distance() names at least one attribute.", "distance(age=5)")
        for name, reach in self.reaches:
            if isinstance(reach, bool) or not isinstance(reach, int) or reach < 1:
                raise usage(f"The distance of {name!r} is a whole number from 1.", "distance(age=5)")

    def check(self, domain: Domain) -> None:
        """The attributes named are ordered."""
        for name, _ in self.reaches:
            domain.ordered(name)

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """Offset by offset along each attribute."""
        moved = [(name, reach) for name, reach in self.reaches if name in names]
        if not moved:
            return
        seen = _names_in(domain, names).require_enumerable()
        for name, reach in moved:
            if reach >= seen.attribute(name).size - 1:
                yield seen.labels([other for other in seen.names if other != name])
        offsets = [
            tuple(step if i == seen.axis(name) else 0 for i in range(len(seen.shape)))
            for name, reach in moved
            for step in range(1, reach + 1)
            if reach < seen.attribute(name).size - 1
        ]
        yield from shifted_pairs(seen, offsets)

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """One attribute differs, by at most its θ."""
        changed = [i for i, gap in enumerate(_changes(x, y)) if gap]
        reach = dict(self.reaches)
        return len(changed) == 1 and _changes(x, y)[changed[0]] <= reach.get(domain.names[changed[0]], 0)

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """Σ ⌈|x_i − y_i| / θ_i⌉ over the attributes named; infinite where another one differs."""
        reach = dict(self.reaches)
        total = 0
        for name, gap in zip(domain.names, _changes(x, y), strict=True):
            if gap and name not in reach:
                return math.inf
            total += -(-gap // reach[name]) if gap else 0
        return total

    def spans(self, domain: Domain) -> list[Positions]:
        """Each attribute alone."""
        reach = dict(self.reaches)
        return [
            tuple(min(reach[name], size - 1) if other == name else 0 for other, size in _sizes(domain))
            for name in domain.names
            if name in reach
        ]

    def words(self, domain: Domain) -> str:  # noqa: ARG002 - one protocol
        """Up to which distance."""
        return " or ".join(f"{name} up to a distance of {reach}" for name, reach in self.reaches)

    def to_dict(self) -> Any:
        """Attribute → θ."""
        return {"distance": dict(self.reaches)}


@dataclass(frozen=True, slots=True)
class Within(Secret):
    """Σ weight·|x_i − y_i| ≤ limit over the attributes named; everything else equal."""

    limit: Fraction
    weights: tuple[tuple[str, Fraction], ...]
    kind = "distance"

    def __post_init__(self) -> None:
        if not self.weights:
            raise usage("distance(within=…) names the attributes it adds up.", "distance(within=10, lat=1, lon=1)")
        if self.limit <= 0 or any(weight <= 0 for _, weight in self.weights):
            raise usage("distance(within=…) takes positive numbers.")

    def check(self, domain: Domain) -> None:
        """The attributes named are ordered."""
        for name, _ in self.weights:
            domain.ordered(name)

    def _offsets(self, seen: Domain) -> list[Positions]:
        """Every step inside the ball whose first change points upward."""
        weight = dict(self.weights)
        ranges = [
            range(-reach, reach + 1)
            for name, size in _sizes(seen)
            for reach in [min(size - 1, int(self.limit / weight[name])) if name in weight else 0]
        ]
        if math.prod(len(r) for r in ranges) > LARGEST_TABLE:
            raise too_many_edges()
        costs = [weight.get(name, Fraction(0)) for name in seen.names]
        return [
            step
            for step in itertools.product(*ranges)
            if next((s for s in step if s), 0) > 0
            and sum((c * abs(s) for c, s in zip(costs, step, strict=True)), Fraction(0)) <= self.limit
        ]

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """Offset by offset."""
        if any(name in names for name, _ in self.weights):
            seen = _names_in(domain, names).require_enumerable()
            yield from shifted_pairs(seen, self._offsets(seen))

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """Inside the ball, and not the same value."""
        weight = dict(self.weights)
        gaps = dict(zip(domain.names, _changes(x, y), strict=True))
        if x == y or any(gap and name not in weight for name, gap in gaps.items()):
            return False
        return sum((weight[name] * gap for name, gap in gaps.items() if gap), Fraction(0)) <= self.limit

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """The fewest whole steps inside the ball that make the way: a search, not a quotient."""
        weight = dict(self.weights)
        gaps = dict(zip(domain.names, _changes(x, y), strict=True))
        if any(gap and name not in weight for name, gap in gaps.items()):
            return math.inf
        way = [(gap, weight[name]) for name, gap in gaps.items() if gap]
        return hops.fewest_steps(tuple(gap for gap, _ in way), tuple(w for _, w in way), self.limit)

    def spans(self, domain: Domain) -> list[Positions]:
        """Every step of the ball, signs left out."""
        steps = {tuple(abs(s) for s in step) for step in self._offsets(domain)}
        return sorted(steps) or [tuple(0 for _ in domain.shape)]

    def farthest(self, domain: Domain, names: Sequence[str]) -> Positions:
        """The cheapest attribute first, in whole steps up to its range: each step is worth the same, so greed is optimal."""
        left, weight = self.limit, dict(self.weights)
        steps = dict.fromkeys(domain.names, 0)
        for name in sorted((name for name in names if name in weight), key=lambda name: weight[name]):
            steps[name] = min(domain.attribute(name).size - 1, int(left / weight[name]))
            left -= steps[name] * weight[name]
        return tuple(steps.values())

    def has_edges(self, domain: Domain) -> bool:
        """Whether a step of 1 fits into the ball somewhere."""
        return any(self.farthest(domain, domain.names))

    def words(self, domain: Domain) -> str:  # noqa: ARG002 - one protocol
        """Which ball."""
        terms = " + ".join(f"{_short(w)}·|Δ{name}|" if w != 1 else f"|Δ{name}|" for name, w in self.weights)
        return f"{', '.join(name for name, _ in self.weights)} together, up to {terms} ≤ {_short(self.limit)}"

    def to_dict(self) -> Any:
        """The limit beside the weights."""
        weights = {name: _short(weight) for name, weight in self.weights}
        return {"distance": {"within": _short(self.limit), **weights}}


@dataclass(frozen=True, slots=True)
class Partition(Secret):
    """The same part in every cut attribute, the same value in every other one. The part itself is public."""

    parts: tuple[tuple[str, tuple[Any, ...]], ...]
    """Ordered attributes: where parts begin. Lists: tuples of values that form a part."""
    kind = "partition"

    def __post_init__(self) -> None:
        if not self.parts:
            raise usage("partition() names at least one attribute.", "partition(age=[0, 11, 21])")

    def check(self, domain: Domain) -> None:
        """Cut points lie inside their range, in order; listed parts do not overlap."""
        for name, cuts in self.parts:
            attribute = domain.attribute(name)
            if isinstance(attribute.values, range):
                whole = all(isinstance(cut, int) and not isinstance(cut, bool) for cut in cuts)
                if not cuts or not whole or list(cuts) != sorted(set(cuts)):
                    raise usage(f"The cut points of {name!r} are whole numbers in rising order.")
                if cuts[0] < attribute.values[0] or cuts[-1] > attribute.values[-1]:
                    raise usage(f"A cut point of {name!r} is outside of {attribute.described}.")
            else:
                self._check_lists(name, cuts, domain)

    @staticmethod
    def _check_lists(name: str, cuts: tuple[Any, ...], domain: Domain) -> None:
        if not all(isinstance(part, tuple) for part in cuts):
            raise usage(f"The parts of {name!r} are lists of values.", 'partition(ward=[["A", "B"], ["C"]])')
        listed = [domain.attribute(name).position(value) for part in cuts for value in part]
        if len(set(listed)) < len(listed):
            raise usage(f"The parts of {name!r} overlap.")

    def part_of(self, domain: Domain, name: str) -> Indices:
        """For every position of an attribute, the number of its part; uncut attributes have a part a value."""
        attribute = domain.attribute(name)
        cuts = dict(self.parts).get(name)
        positions = np.arange(attribute.size, dtype=np.int64)
        if cuts is None:
            return positions
        if isinstance(attribute.values, range):
            starts = np.array([cut - attribute.values[0] for cut in cuts], dtype=np.int64)
            return np.searchsorted(starts, positions, side="right").astype(np.int64)
        part = positions + len(cuts)  # a value that no part lists is alone
        for number, values in enumerate(cuts):
            part[[attribute.position(value) for value in values]] = number
        return part

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """One clique a part."""
        seen = _names_in(domain, names) if any(name in names for name, _ in self.parts) else None
        if seen is None:
            return
        seen.require_enumerable()
        labels = np.zeros(seen.size, dtype=np.int64)
        for axis, name in enumerate(seen.names):
            part = self.part_of(domain, name)
            labels = labels * (int(part.max()) + 1) + part[seen.grid[axis]]
        yield np.unique(labels, return_inverse=True)[1].astype(np.int64)

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """Two values of one part."""
        parts = [self.part_of(domain, name) for name in domain.names]
        return x != y and all(part[a] == part[b] for part, a, b in zip(parts, x, y, strict=True))

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """One step inside a part, and no way out of it."""
        if x == y:
            return 0
        return 1 if self.is_edge(domain, x, y) else math.inf

    def spans(self, domain: Domain) -> list[Positions]:
        """The widest part of every cut attribute."""
        return [tuple(high - low for low, high in (self.widest_part(domain, name) for name in domain.names))]

    def attain(self, domain: Domain, span: Positions) -> tuple[Positions, Positions]:
        """The ends of the widest parts, in the attributes that the span moves."""
        ends = [self.widest_part(domain, name) for name in domain.names]
        return tuple(low for low, _ in ends), tuple(
            high if gap else low for (low, high), gap in zip(ends, span, strict=True)
        )

    def widest_part(self, domain: Domain, name: str) -> tuple[int, int]:
        """First and last position of the part that is widest."""
        part = self.part_of(domain, name)
        ends = [np.flatnonzero(part == number)[[0, -1]] for number in np.unique(part)] if len(part) < 4096 else None
        if ends is None:
            starts = np.flatnonzero(np.diff(part, prepend=part[0] - 1))
            stops = np.append(starts[1:], len(part)) - 1
            best = int(np.argmax(stops - starts))
            return int(starts[best]), int(stops[best])
        low, high = max(ends, key=lambda pair: pair[1] - pair[0])
        return int(low), int(high)

    def words(self, domain: Domain) -> str:
        """Inside which parts."""
        cut = [f"{name} ({len(np.unique(self.part_of(domain, name)))} parts)" for name, _ in self.parts]
        return f"which value a record has inside its part of {', '.join(cut)}"

    def to_dict(self) -> Any:
        """Attribute → cut points."""
        written = {name: [list(cut) if isinstance(cut, tuple) else cut for cut in cuts] for name, cuts in self.parts}
        return {"partition": written}


@dataclass(frozen=True)
class Graph(Secret):
    """The pairs listed, made symmetric."""

    listed: tuple[tuple[Any, Any], ...]
    kind = "graph"

    def check(self, domain: Domain) -> None:
        """Both ends of every edge are values of the domain, and differ."""
        if not self.listed:
            raise usage("The graph has no edges: nothing would be hidden.")
        for x, y in self.listed:
            if domain.positions(x) == domain.positions(y):
                raise usage("An edge of a graph joins two different values.")

    def edges(self, domain: Domain) -> tuple[tuple[Positions, Positions], ...]:
        """The pairs as positions."""
        return _resolved(self.listed, domain)

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """One list of pairs."""
        if not names:
            return
        seen = _names_in(domain, names)
        kept = [domain.axis(name) for name in seen.names]
        ends = np.array([[[x[a] for a in kept], [y[a] for a in kept]] for x, y in self.edges(domain)], dtype=np.int64)
        flat = [np.ravel_multi_index(tuple(ends[:, side].T), seen.shape).astype(np.int64) for side in (0, 1)]
        yield flat[0], flat[1]

    def lift(self, domain: Domain, names: Sequence[str], x: Positions, y: Positions) -> tuple[Positions, Positions]:
        """The first listed edge that looks like it."""
        kept = [domain.axis(name) for name in _names_in(domain, names).names]
        for a, b in self.edges(domain):
            seen = tuple(a[i] for i in kept), tuple(b[i] for i in kept)
            if seen in {(x, y), (y, x)}:
                return (a, b) if seen == (x, y) else (b, a)
        raise usage("The graph has no such edge.")

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """Whether the pair is listed, in either direction."""
        edges = self.edges(domain)
        return (x, y) in edges or (y, x) in edges

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """Breadth first along the edges."""
        return hops.breadth_first(self.neighbours(domain), x, y)

    def neighbours(self, domain: Domain) -> Mapping[Positions, tuple[Positions, ...]]:
        """For every value with an edge, the values at the other end."""
        found: dict[Positions, list[Positions]] = {}
        for x, y in self.edges(domain):
            found.setdefault(x, []).append(y)
            found.setdefault(y, []).append(x)
        return {value: tuple(others) for value, others in found.items()}

    def spans(self, domain: Domain) -> list[Positions]:
        """Every edge as it is."""
        return [_changes(x, y) for x, y in self.edges(domain)]

    def attain(self, domain: Domain, span: Positions) -> tuple[Positions, Positions]:
        """The first edge that moves these attributes so far."""
        for x, y in self.edges(domain):
            if all(gap == wanted or not wanted for gap, wanted in zip(_changes(x, y), span, strict=True)):
                return x, y
        raise usage("The graph has no such edge.")

    def words(self, domain: Domain) -> str:
        """How many pairs."""
        count = len(self.edges(domain))
        return f"{count} listed pairs of values" if count > 1 else "one listed pair of values"

    def to_dict(self) -> Any:
        """The list of pairs."""
        return {"graph": [[list(v) if isinstance(v, tuple) else v for v in pair] for pair in self.listed]}


@lru_cache(maxsize=16)
def _resolved(listed: tuple[tuple[Any, Any], ...], domain: Domain) -> tuple[tuple[Positions, Positions], ...]:
    ordered = {tuple(sorted((domain.positions(x), domain.positions(y)))) for x, y in listed}
    return tuple(sorted(ordered))  # type: ignore[arg-type]


def shifted_pairs(seen: Domain, offsets: Sequence[Positions]) -> Iterator[Pairs]:
    """All pairs (x, x + offset) inside the domain; refused at the edge that is one too many, for whoever gets so far."""
    left = MOST_EDGES
    numbers = np.arange(seen.size, dtype=np.int64).reshape(seen.shape)
    for offset in offsets:
        low = tuple(slice(max(0, -o), m - max(0, o)) for m, o in zip(seen.shape, offset, strict=True))
        high = tuple(slice(max(0, o), m - max(0, -o)) for m, o in zip(seen.shape, offset, strict=True))
        x, y = numbers[low].ravel(), numbers[high].ravel()
        left -= len(x)
        if left < 0:
            raise too_many_edges()
        if len(x):
            yield x, y


def _sizes(domain: Domain) -> Iterator[tuple[str, int]]:
    return zip(domain.names, domain.shape, strict=True)


def _short(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


# ---- how people write them -------------------------------------------------------------------------------------------


def full() -> Secret:
    """All pairs: hides the value of a record (replacement privacy); not its presence."""
    return Full()


def attributes(count: int) -> Secret:
    """Pairs that differ in at most `count` attributes: hides any that many facts about one person."""
    return Attributes(count)


def distance(*, within: Any = None, **reach: Any) -> Secret:
    """Hides values up to a resolution.

    `distance(age=5)`: |x − y| ≤ 5 in age, all else equal; several names are several kinds of step, one at a time.
    `distance(within=10, lat=1, lon=2)`: |Δlat| + 2·|Δlon| ≤ 10, the attributes together.
    """
    try:
        amounts = {name: as_fraction(value) for name, value in reach.items()}
        limit = None if within is None else as_fraction(within)
    except (TypeError, ValueError):
        raise usage("Distances are numbers.", "distance(age=5)") from None
    if limit is not None:
        return Within(limit, tuple(amounts.items()))
    for name, amount in amounts.items():
        if amount < 1:
            raise usage(f"The distance of {name!r} is below 1: nothing would be hidden.", "distance(age=5)")
    return Distance(tuple((name, int(amount)) for name, amount in amounts.items()))


def partition(**parts: Any) -> Secret:
    """Hides which value a record has inside its part; the part itself is public.

    `partition(age=[0, 11, 21])`: ages 0–10, 11–20, 21 and above. A list without order has lists of values as parts.
    """
    for name, cuts in parts.items():
        if not isinstance(cuts, list | tuple | range):
            raise usage(f"The parts of {name!r} are a list of cut points.", "partition(age=[0, 11, 21])")
    frozen = {
        name: tuple(tuple(cut) if isinstance(cut, list | tuple) else cut for cut in cuts)
        for name, cuts in parts.items()
    }
    return Partition(tuple(frozen.items()))


def graph(edges: Sequence[Any]) -> Secret:
    """Hides the pairs listed: `graph([((30, "A"), (31, "A")), …])`; with one attribute `graph([(30, 31), …])`."""
    listed = []
    for edge in edges:
        try:
            x, y = edge
        except (TypeError, ValueError):
            raise usage("The edges of a graph are pairs of values.", "graph([(30, 31), (31, 32)])") from None
        listed.append((_frozen(x), _frozen(y)))
    return Graph(tuple(listed))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        raise usage("A value of a graph is a tuple in the order of the domain's attributes.")
    return tuple(value) if isinstance(value, list | tuple) else value


def from_dict(written: Any) -> Secret:
    """Reads what `to_dict` and the catalog write."""
    if written == "full":
        return Full()
    if not isinstance(written, dict) or len(written) != 1:
        raise usage("A secret is 'full', or one of attributes, distance, partition, graph with its value.")
    ((kind, value),) = written.items()
    if kind == "attributes":
        return Attributes(value)
    if kind == "graph" and isinstance(value, list | tuple):
        return graph(value)
    if kind in {"distance", "partition"} and isinstance(value, dict):
        return (distance if kind == "distance" else partition)(**value)
    raise usage(f"{kind!r} is not a kind of secret, or has the wrong value.", "secret = { distance = { age = 5 } }")
