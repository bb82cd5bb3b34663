"""Known counts: how many records lie in each cell of one family is public, and moves must keep it.

With them neighbours differ by a minimal set of moves that keeps every count: its moves lead around one simple cycle of cells
(proof: each cell has as many moves in as out, so the moves fall into cycles; each cycle alone keeps the counts, so a minimal set
is one, and one that meets a cell twice is two). `moves` is the length of the longest such cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.policies.domain import Domain, Indices, usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal.policies.graphs.secret import Pairs, Secret

MOST_CELLS = 16
"""Up to this many cells the longest cycle is searched; above, the largest component is its upper bound."""


@dataclass(frozen=True, slots=True)
class CountsBy:
    """The counts of every combination of some attributes."""

    names: tuple[str, ...]

    def check(self, domain: Domain) -> None:
        """The attributes exist."""
        if not self.names:
            raise usage("counts_by() names at least one attribute.", 'counts_by("ward")')
        for name in self.names:
            domain.attribute(name)

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """The attributes that decide the cell."""
        return tuple(name for name in domain.names if name in self.names)

    def labels(self, domain: Domain, names: Sequence[str]) -> Indices:
        """The cell of every value of `domain.projected(names)`."""
        return domain.projected(names).labels(self.names)

    def keys(self, domain: Domain) -> list[Any]:
        """What each cell is called, in order."""
        seen = domain.projected(self.names).require_enumerable()
        return [seen.plain(seen.record(i)) for i in range(seen.size)]

    def words(self) -> str:
        """What is known."""
        return f"the number of records for each {' and '.join(self.names)}"

    def to_dict(self) -> Any:
        """The names."""
        return list(self.names)


@dataclass(frozen=True, slots=True)
class CountsOf:
    """The counts of some disjoint sets of values; all other values form one more cell."""

    cells: tuple[tuple[Any, ...], ...]

    def check(self, domain: Domain) -> None:
        """Values of the domain, none of them in two cells."""
        listed = [domain.index(value) for cell in self.cells for value in cell]
        if not listed:
            raise usage("counts_of() lists sets of values.", "counts_of([[3, 4, 5]])")
        if len(set(listed)) < len(listed):
            raise usage("The cells of counts_of() overlap.")

    def attributes(self, domain: Domain) -> tuple[str, ...]:
        """All of them."""
        return domain.names

    def labels(self, domain: Domain, names: Sequence[str]) -> Indices:
        """The cell of every value; the last cell is what no set lists."""
        if set(names) != set(domain.names):
            raise usage("Cells of listed values need every attribute.")
        cell = np.full(domain.require_enumerable().size, len(self.cells), dtype=np.int64)
        for number, values in enumerate(self.cells):
            cell[[domain.index(value) for value in values]] = number
        return cell

    def keys(self, domain: Domain) -> list[Any]:  # noqa: ARG002 - one protocol
        """Numbers, in the order of the list; the rest comes last."""
        return list(range(len(self.cells) + 1))

    def words(self) -> str:
        """What is known."""
        return f"the number of records in {len(self.cells)} listed sets of values"

    def to_dict(self) -> Any:
        """The sets."""
        return {"cells": [[list(v) if isinstance(v, tuple) else v for v in cell] for cell in self.cells]}


Known = CountsBy | CountsOf


def counts_by(*names: str) -> Known:
    """The number of records for each combination of these attributes is public."""
    return CountsBy(tuple(names))


def counts_of(cells: Sequence[Sequence[Any]]) -> Known:
    """The number of records in each of these sets of values is public; the sets are disjoint."""
    try:
        listed = tuple(tuple(tuple(v) if isinstance(v, list) else v for v in cell) for cell in cells)
    except TypeError:
        raise usage("counts_of() lists sets of values.", "counts_of([[3, 4, 5]])") from None
    return CountsOf(listed)


def from_dict(written: Any) -> Known:
    """Reads what `to_dict` and the catalog write."""
    if isinstance(written, dict) and set(written) == {"cells"}:
        return counts_of(written["cells"])
    if isinstance(written, list | tuple) and written and all(isinstance(name, str) for name in written):
        return CountsBy(tuple(written))
    raise usage("Known counts are lists of attributes.", 'known = [["ward"]]')


# ---- the longest cycle ---------------------------------------------------------------------------------------------


def moves(domain: Domain, secret: Secret, known: Known | None) -> int:
    """The length of the longest simple directed cycle in the graph of cells (a loop has length 1)."""
    if known is None:
        return 1
    names = known.attributes(domain)
    cell = known.labels(domain, names)
    cells = int(cell.max()) + 1
    links = list(_links(secret.pieces(domain, names), cell))
    component = _components(cells, links)
    largest = int(np.bincount(component).max())
    if largest <= 2 or cells > MOST_CELLS:
        return largest
    near = np.zeros((cells, cells), dtype=bool)
    for u, v in _arcs(secret.pieces(domain, names), cell):
        near[u, v] = near[v, u] = True
    np.fill_diagonal(near, val=False)
    return max(_longest_cycle(near[np.ix_(c, c)]) for c in _members(component))


def _links(pieces: Iterator[Indices | Pairs], cell: Indices) -> Iterator[Pairs]:
    """Pairs of cells that say which cells hang together: neighbours in a list of each clique, and all pairs."""
    for piece in pieces:
        if isinstance(piece, tuple):
            yield cell[piece[0]], cell[piece[1]]
        else:
            order = np.argsort(piece, kind="stable")
            same = piece[order][1:] == piece[order][:-1]
            yield cell[order[:-1][same]], cell[order[1:][same]]


def _arcs(pieces: Iterator[Indices | Pairs], cell: Indices) -> Iterator[tuple[int, int]]:
    """Every pair of cells with an edge between them."""
    for piece in pieces:
        if isinstance(piece, tuple):
            ends = np.unique(np.stack([cell[piece[0]], cell[piece[1]]], axis=1), axis=0)
            yield from ((int(u), int(v)) for u, v in ends)
        else:
            met = np.unique(np.stack([piece, cell], axis=1), axis=0)
            for label in np.unique(met[:, 0]):
                inside = met[met[:, 0] == label, 1]
                yield from ((int(u), int(v)) for u in inside for v in inside)


def _components(count: int, links: list[Pairs]) -> Indices:
    """The number of the component of every cell: each takes the least label in reach, until nothing changes."""
    component = np.arange(count, dtype=np.int64)
    while True:
        before = component.copy()
        for u, v in links:
            least = np.minimum(component[u], component[v])
            np.minimum.at(component, u, least)
            np.minimum.at(component, v, least)
        component = component[component]
        if np.array_equal(before, component):
            return component


def _members(component: Indices) -> list[Indices]:
    return [np.flatnonzero(component == number) for number in np.unique(component)]


def _longest_cycle(near: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    """The longest simple cycle of a connected symmetric graph of at most 16 cells.

    `ends[mask]`: the cells in which a simple path that starts at the lowest cell of the mask and visits all of it can end.
    """
    count = len(near)
    if count <= 2 or near.sum() == count * (count - 1):
        return count
    beside = [sum(1 << v for v in range(count) if near[u, v]) for u in range(count)]
    ends = [0] * (1 << count)
    longest = 2
    for mask in range(1, 1 << count):
        start = (mask & -mask).bit_length() - 1
        if mask == 1 << start:
            ends[mask] = mask
        reached = ends[mask]
        if not reached:
            continue
        size = mask.bit_count()
        if size > longest and reached & beside[start]:
            longest = size
        higher = ~mask & ((1 << count) - 1) & ~((1 << start) - 1)
        for v in _bits(higher):
            if reached & beside[v]:
                ends[mask | 1 << v] |= 1 << v
    return longest


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
