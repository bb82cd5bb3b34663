"""Graphs that hide facts: the whole value, or a number of its attributes, any of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.policies.domain import Domain, Indices, usage
from shoal.policies.graphs.secret import Pairs, Positions, Secret, changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Full(Secret):
    """All pairs: the value of a record is hidden, its presence is not."""

    kind = "full"

    def check(self, domain: Domain) -> None:
        """Every domain has this graph."""

    def pieces(self, domain: Domain, names: Sequence[str]) -> Iterator[Indices | Pairs]:
        """One clique."""
        if names:
            yield np.zeros(domain.projected(names).require_enumerable().size, dtype=np.int64)

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
    """Pairs that differ in at most `count` attributes: any such number of facts of one record is hidden."""

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
        seen = domain.projected(names).require_enumerable() if names else None
        if seen is None:
            return
        for moved in itertools.combinations(seen.names, min(self.count, len(seen.names))):
            yield seen.labels([name for name in seen.names if name not in moved])

    def is_edge(self, domain: Domain, x: Positions, y: Positions) -> bool:  # noqa: ARG002 - one protocol
        """At least one attribute differs, and at most c do."""
        return 1 <= sum(map(bool, changes(x, y))) <= self.count

    def hops(self, domain: Domain, x: Positions, y: Positions) -> int | float:  # noqa: ARG002 - one protocol
        """⌈differing attributes / c⌉."""
        return -(-sum(map(bool, changes(x, y))) // self.count)

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
