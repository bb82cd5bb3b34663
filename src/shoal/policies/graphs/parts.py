"""A graph that hides which value a record has inside its part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.policies.domain import Domain, Indices, usage
from shoal.policies.graphs.secret import Pairs, Positions, Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
        seen = domain.projected(names) if any(name in names for name, _ in self.parts) else None
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
