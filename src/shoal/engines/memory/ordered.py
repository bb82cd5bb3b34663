"""Words of whole owners, sorted: runs of a pair, in the order in which an owner keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.segments import Segments
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.memory.layout import Layout


@dataclass(frozen=True, slots=True)
class Runs:
    """Some words in runs; a head is what the words of a run hold above the row."""

    words: NDArray[np.uint64]
    heads: NDArray[np.uint64]
    segments: Segments


@dataclass(frozen=True, slots=True)
class Ordered:
    """Runs, and how many of them each owner has."""

    runs: Runs
    of_owners: Segments
    below_owner: int

    @classmethod
    def of(cls, words: NDArray[np.uint64], layout: Layout) -> Ordered:
        """Neighbours with the same owner, pick and group are a run."""
        above_row = words >> np.uint64(layout.below_group)
        segments = Segments.of_runs(above_row)
        heads = above_row[segments.starts]
        below_owner = layout.pick_bits + layout.group_bits
        return cls(Runs(words, heads, segments), Segments.of_runs(heads >> np.uint64(below_owner)), below_owner)

    def owners(self) -> NDArray[np.uint64]:
        """The owners, as they are in the words."""
        return self.runs.heads[self.of_owners.starts] >> np.uint64(self.below_owner)

    def in_doubt(self, layout: Layout, most: int) -> NDArray[np.int64]:
        """Owners whose first groups the order of their words does not tell."""
        heads, starts = self.runs.heads, self.of_owners.starts
        crowded = np.flatnonzero(self.of_owners.lengths > most)
        last = starts[crowded] + most
        return crowded[(heads[last] ^ heads[last - 1]) < np.uint64(1 << layout.group_bits)]

    def first_runs(self, most: int, without: NDArray[np.int64]) -> Runs:
        """The first runs of every owner, and none of some owners."""
        first = np.minimum(self.of_owners.lengths, most)
        first[without] = 0
        if not (first < self.of_owners.lengths).any():
            return self.runs
        kept = _begin(self.of_owners.lengths, first)
        borders, begins, ends = self._borders()
        # the runs that an owner keeps are its first ones, and so are their words
        words = self.runs.words[_begin(ends - begins, borders[self.of_owners.starts + first] - begins)]
        return Runs(words, self.runs.heads[kept], Segments.of_lengths(self.runs.segments.lengths[kept]))

    def words_of(self, owners: NDArray[np.int64]) -> NDArray[np.uint64]:
        """All words of some owners."""
        _, begins, ends = self._borders()
        bounds = zip(begins[owners].tolist(), ends[owners].tolist(), strict=True)
        return np.concatenate([self.runs.words[begin:end] for begin, end in bounds])

    def _borders(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where runs begin, and where the words of every owner begin and end."""
        borders = np.append(self.runs.segments.starts, len(self.runs.words))
        starts = self.of_owners.starts
        return borders, borders[starts], borders[starts + self.of_owners.lengths]


def _begin(lengths: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which members are among the first of their segment, as many as are kept, for segments of these lengths."""
    counts = np.empty(2 * len(lengths), dtype=np.int64)
    counts[::2] = first
    np.subtract(lengths, first, out=counts[1::2])
    stays = np.zeros(len(counts), dtype=bool)
    stays[::2] = True
    return np.repeat(stays, counts)
