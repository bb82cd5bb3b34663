"""Words of whole owners, sorted: runs of a pair, in the order in which an owner keeps them."""

from __future__ import annotations

from dataclasses import replace
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
    """All runs of some owners, and which of them an owner keeps: its first ones, `most` at the most.

    A run is beyond them exactly where the run `most` positions before it is of the same owner: nobody has to count runs.
    """

    runs: Runs
    first: NDArray[np.bool_]
    layout: Layout
    most: int

    @classmethod
    def of(cls, words: NDArray[np.uint64], layout: Layout, most: int) -> Ordered:
        """Neighbours with the same owner, pick and group are a run."""
        above_row = words >> np.uint64(layout.below_group)
        segments = Segments.of_runs(above_row)
        heads = above_row.take(segments.starts)
        first = np.ones(len(heads), dtype=bool)
        np.greater_equal(heads[most:] ^ heads[:-most], np.uint64(1 << layout.above_row_below_owner), out=first[most:])
        return cls(Runs(words, heads, segments), first, layout, most)

    def in_doubt(self) -> NDArray[np.uint64]:
        """Owners, as they are in the words, of whose runs the last one kept and the next have the same leading bits of a pick."""
        heads = self.runs.heads
        alike = np.flatnonzero((heads[1:] ^ heads[:-1]) < np.uint64(1 << self.layout.group_bits))
        last = alike[self.first[alike] & ~self.first[alike + 1]]
        return heads[last] >> np.uint64(self.layout.above_row_below_owner)

    def keeping(self, runs: NDArray[np.int64], kept: NDArray[np.bool_]) -> Ordered:
        """The same where it is known of some runs whether they are kept."""
        first = self.first.copy()
        first[runs] = kept
        return replace(self, first=first)

    def first_runs(self) -> Runs:
        """The runs that owners keep."""
        if self.first.all():
            return self.runs
        chosen, segments = np.flatnonzero(self.first), self.runs.segments
        kept = Segments.of_lengths(segments.lengths.take(chosen))
        words = kept.spread(segments.starts.take(chosen) - kept.starts)
        words += np.arange(len(words))
        return Runs(self.runs.words.take(words), self.runs.heads.take(chosen), kept)

    def runs_of(self, owners: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Positions of all runs of some owners."""
        return _positions_of(owners, self.runs.heads, self.layout.above_row_below_owner)

    def words_of(self, owners: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """All words of some owners."""
        return self.runs.words.take(_positions_of(owners, self.runs.words, self.layout.below_owner))


def _positions_of(owners: NDArray[np.uint64], among: NDArray[np.uint64], below_owner: int) -> NDArray[np.int64]:
    """Where some owners, in their order, are in sorted numbers that have so many bits below the owner."""
    least = owners << np.uint64(below_owner)
    begins = np.searchsorted(among, least)
    ends = np.searchsorted(among, least | np.uint64((1 << below_owner) - 1), side="right")
    spans = Segments.of_lengths(ends - begins)
    return np.asarray(np.arange(spans.size) + spans.spread(begins - spans.starts))
