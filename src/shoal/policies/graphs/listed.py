"""A graph given by its list of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.policies.domain import Domain, Indices, usage
from shoal.policies.graphs import hops
from shoal.policies.graphs.secret import Pairs, Positions, Secret, changes
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
        seen = domain.projected(names)
        kept = [domain.axis(name) for name in seen.names]
        ends = np.array([[[x[a] for a in kept], [y[a] for a in kept]] for x, y in self.edges(domain)], dtype=np.int64)
        flat = [np.ravel_multi_index(tuple(ends[:, side].T), seen.shape).astype(np.int64) for side in (0, 1)]
        yield flat[0], flat[1]

    def lift(self, domain: Domain, names: Sequence[str], x: Positions, y: Positions) -> tuple[Positions, Positions]:
        """The first listed edge that looks like it."""
        kept = [domain.axis(name) for name in domain.projected(names).names]
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
        return [changes(x, y) for x, y in self.edges(domain)]

    def attain(self, domain: Domain, span: Positions) -> tuple[Positions, Positions]:
        """The first edge that moves these attributes so far."""
        for x, y in self.edges(domain):
            if all(gap == wanted or not wanted for gap, wanted in zip(changes(x, y), span, strict=True)):
                return x, y
        raise usage("The graph has no such edge.")

    def words(self, domain: Domain) -> str:
        """How many pairs."""
        count = len(self.edges(domain))
        return f"{count} listed pairs of values" if count > 1 else "one listed pair of values"

    def to_dict(self) -> Any:
        """The list of pairs."""
        return {"graph": [[list(v) if isinstance(v, tuple) else v for v in pair] for pair in self.listed]}


@remembered(16)
def _resolved(listed: tuple[tuple[Any, Any], ...], domain: Domain) -> tuple[tuple[Positions, Positions], ...]:
    ordered = {tuple(sorted((domain.positions(x), domain.positions(y)))) for x, y in listed}
    return tuple(sorted(ordered))  # type: ignore[arg-type]
