"""Graphs that hide values up to a resolution, one attribute at a time or several together."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.policies.domain import LARGEST_TABLE, Domain, Indices, usage
from shoal.policies.graphs import hops
from shoal.policies.graphs.secret import Pairs, Positions, Secret, changes, shifted_pairs, sizes
from shoal.policies.tables import too_many_edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
        seen = domain.projected(names).require_enumerable()
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
        changed = [i for i, gap in enumerate(changes(x, y)) if gap]
        reach = dict(self.reaches)
        return len(changed) == 1 and changes(x, y)[changed[0]] <= reach.get(domain.names[changed[0]], 0)

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """Σ ⌈|x_i − y_i| / θ_i⌉ over the attributes named; infinite where another one differs."""
        reach = dict(self.reaches)
        total = 0
        for name, gap in zip(domain.names, changes(x, y), strict=True):
            if gap and name not in reach:
                return math.inf
            total += -(-gap // reach[name]) if gap else 0
        return total

    def spans(self, domain: Domain) -> list[Positions]:
        """Each attribute alone."""
        reach = dict(self.reaches)
        return [
            tuple(min(reach[name], size - 1) if other == name else 0 for other, size in sizes(domain))
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
            for name, size in sizes(seen)
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
            seen = domain.projected(names).require_enumerable()
            yield from shifted_pairs(seen, self._offsets(seen))

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:
        """Inside the ball, and not the same value."""
        weight = dict(self.weights)
        gaps = dict(zip(domain.names, changes(x, y), strict=True))
        if x == y or any(gap and name not in weight for name, gap in gaps.items()):
            return False
        return sum((weight[name] * gap for name, gap in gaps.items() if gap), Fraction(0)) <= self.limit

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:
        """The fewest whole steps inside the ball that make the way: a search, not a quotient."""
        weight = dict(self.weights)
        gaps = dict(zip(domain.names, changes(x, y), strict=True))
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


def _short(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
