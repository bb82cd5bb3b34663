"""What a secret graph can be asked, and what the kinds of graphs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.policies.domain import Domain, Indices
from shoal.policies.tables import MOST_EDGES, too_many_edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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


def changes(x: Positions, y: Positions) -> Positions:
    """How far two values are apart, attribute by attribute."""
    return tuple(abs(a - b) for a, b in zip(x, y, strict=True))


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


def sizes(domain: Domain) -> Iterator[tuple[str, int]]:
    """Attributes with their sizes."""
    return zip(domain.names, domain.shape, strict=True)
