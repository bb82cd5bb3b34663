"""Pairs of owner and group, each with a segment of rows: what slices of rows become before owners add anything."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.segments import Segments, bits_for
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Codes


@dataclass(frozen=True)
class Pairs:
    """Pairs of owner and group, the pairs of one owner together, with the segment of `rows` that each pair has.

    Where pairs were `cut` from others, their rows are picked out when somebody asks for them: counts of owners never do.
    """

    owners: NDArray[np.uint64]
    groups: NDArray[np.int64]
    segments: Segments
    all_rows: NDArray[np.int64]
    cut: tuple[Segments, NDArray[np.bool_]] | None = None

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows of all segments, one after the other."""
        if self.cut is None:
            return self.all_rows
        segments, kept = self.cut
        return self.all_rows[segments.members(kept)]

    def only(self, kept: NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        chosen = np.flatnonzero(kept)
        lengths = Segments.of_lengths(self.segments.lengths[chosen])
        return Pairs(self.owners[chosen], self.groups[chosen], lengths, self.rows, (self.segments, kept))

    def and_(self, other: Pairs) -> Pairs:
        """These pairs and those of other owners."""
        return Pairs(
            np.concatenate([self.owners, other.owners]),
            np.concatenate([self.groups, other.groups]),
            Segments.of_lengths(np.concatenate([self.segments.lengths, other.segments.lengths])),
            np.concatenate([self.rows, other.rows]),
        )


def grouped(owners: NDArray[np.uint64], groups: Codes, rows: NDArray[np.int64]) -> Pairs:
    """Rows that lie together by owner, sorted by group as well: among few rows, owners and positions are small numbers."""
    position, group_bits = bits_for(len(rows)), bits_for(int(groups.max()) + 1)
    runs = Segments.of_runs(owners)
    words = runs.spread(np.arange(len(runs.starts), dtype=np.uint64)) << np.uint64(group_bits) | groups
    words = words << np.uint64(position) | np.arange(len(rows), dtype=np.uint64)
    words.sort()
    order = (words & np.uint64((1 << position) - 1)).view(np.int64)
    segments = Segments.of_runs(words >> np.uint64(position))
    heads = order[segments.starts]
    return Pairs(owners[heads], groups[heads].astype(np.int64), segments, rows[order])
