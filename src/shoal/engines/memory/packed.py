"""All rows as machine words, parted by owner: sorting a part brings the rows of an owner together, in the order of picks.

A word holds (owner, leading bits of the pick, row), high bits first. The pick is a function of owner and group, so one sort
brings the rows of a pair together *and* the pairs of an owner into the order in which they are kept: the first κ runs stay.
Two groups of an owner may have the same leading bits; their owner is then looked at again, by whole picks. Where picks decide
nothing, or few bits are left for them, a word holds (owner, group, row), or (owner, row) where that is too wide.

Parts are small enough for the processor's caches, and no owner is in two of them: they are sorted and bounded in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.pairs import Pairs, grouped
from shoal.engines.memory.picks import PICK_BITS
from shoal.engines.memory.segments import WORD, Segments, bits_for, keep_smallest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Codes, Groups, Owners
    from shoal.engines.memory.picks import Picks

SLICE_ROWS = 1 << 18
BLOCK_ROWS = 1 << 17
PART_ROWS = 1 << 16
MOST_PARTS = 256
"""Rows are sorted into parts by one byte, which NumPy does without comparing."""
WORD_FOR_ROWS = WORD
FEWEST_PICK_BITS = 12
PICK_BITS_OF_WORDS = PICK_BITS
_SPREADING = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a word holds below the owner: `pick_bits` of the pick or `group_bits` of the group, and the row."""

    row_bits: int
    group_bits: int = 0
    pick_bits: int = 0

    @classmethod
    def of(cls, owners: Owners, groups: Groups, most: int | None) -> Layout:
        """Picks where at most so many groups of an owner are kept and there is room, else groups, else neither."""
        row_bits, group_bits = bits_for(len(groups.codes)), bits_for(groups.size)
        # one bit for a single owner: a shift by a whole word is none
        free = WORD_FOR_ROWS - max(bits_for(owners.size), 1) - row_bits
        if most is not None and free >= FEWEST_PICK_BITS:
            return cls(row_bits, pick_bits=min(free, PICK_BITS_OF_WORDS))
        return cls(row_bits, group_bits if free >= group_bits else 0)

    @property
    def below_owner(self) -> int:
        """Bits that are not the owner's."""
        return self.row_bits + self.group_bits + self.pick_bits

    def rows(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The rows of some words."""
        return (words & np.uint64((1 << self.row_bits) - 1)).view(np.int64)


@dataclass(frozen=True, slots=True)
class Packed:
    """All rows as words, in parts that have no owner in common; `most` groups of an owner stay where that is said."""

    owners: Owners
    groups: Groups
    picks: Picks
    listed: NDArray[np.bool_] | None
    most: int | None
    layout: Layout
    parts: list[list[NDArray[np.uint64]]]

    @classmethod
    def of(
        cls,
        owners: Owners,
        groups: Groups,
        picks: Picks,
        listed: NDArray[np.bool_] | None,
        most: int | None,
        pool: Executor,
    ) -> Packed:
        """Rows of all groups, or of those that are `listed`."""
        rows = len(groups.codes)
        bits = min(bits_for(MOST_PARTS), bits_for(-(-rows // PART_ROWS)))
        packed = cls(
            owners, groups, picks, listed, most, Layout.of(owners, groups, most), [[] for _ in range(1 << bits)]
        )
        for pieces in pool.map(lambda start: packed._block(start, bits), range(0, rows, BLOCK_ROWS)):
            for part, piece in zip(packed.parts, pieces, strict=True):
                part.append(piece)
        return packed

    def _block(self, start: int, bits: int) -> list[NDArray[np.uint64]]:
        """The words of a block of rows, parted by owner."""
        owners = self.owners.codes[start : start + BLOCK_ROWS].astype(np.uint64)
        groups = self.groups.codes[start : start + BLOCK_ROWS]
        rows = np.arange(start, start + len(owners), dtype=np.uint64)
        if self.listed is not None:
            chosen = np.flatnonzero(self.listed[groups])
            owners, groups, rows = owners[chosen], groups[chosen], rows[chosen]
        words = self._words(owners, groups)
        words |= rows
        if not bits:
            return [words]
        numbers = (owners * _SPREADING >> np.uint64(WORD - bits)).astype(np.uint8)
        words = words[np.argsort(numbers, kind="stable")]
        ends = np.cumsum(np.bincount(numbers, minlength=1 << bits)).tolist()
        return [words[start:end] for start, end in pairwise([0, *ends])]

    def _words(self, owners: NDArray[np.uint64], groups: Codes) -> NDArray[np.uint64]:
        layout = self.layout
        words = owners << np.uint64(layout.below_owner)
        if layout.pick_bits:
            picks = self.picks.of_pairs(self.picks.of_owners(owners), groups)
            picks >>= np.uint64(PICK_BITS - layout.pick_bits)
            picks <<= np.uint64(layout.row_bits)
            words |= picks
        elif layout.group_bits:
            words |= groups.astype(np.uint64) << np.uint64(layout.row_bits)
        return words

    def slices(self, part: int) -> Iterator[Pairs]:
        """What is kept of the owners of one part."""
        words = np.concatenate(self.parts[part]) if self.parts[part] else np.empty(0, dtype=np.uint64)
        self.parts[part].clear()
        words.sort()
        for piece in _cut_at_owners(words, self.layout.below_owner):
            yield self._by_pick(piece) if self.layout.pick_bits else self._by_group(piece)

    # ---- pairs in the order of groups ----------------------------------------------------------------------------

    def _by_group(self, words: NDArray[np.uint64]) -> Pairs:
        layout, rows = self.layout, self.layout.rows(words)
        both = words >> np.uint64(layout.row_bits)
        if not layout.group_bits and self.groups.size > 1:
            return self._cut(grouped(both, self.groups.codes[rows], rows))
        segments = Segments.of_runs(both)
        heads = both[segments.starts]
        groups = heads & np.uint64((1 << layout.group_bits) - 1)
        return self._cut(Pairs(heads >> np.uint64(layout.group_bits), groups.view(np.int64), segments, rows))

    def _cut(self, pairs: Pairs) -> Pairs:
        """The pairs, cut to the `most` groups of each owner that have the smallest picks."""
        if self.most is None:
            return pairs
        runs = Segments.of_runs(pairs.owners)
        if not (runs.lengths > self.most).any():
            return pairs
        owners = runs.spread(self.picks.of_owners(pairs.owners[runs.starts]))
        return pairs.only(keep_smallest(self.picks.of_pairs(owners, pairs.groups), runs, self.most))

    # ---- pairs in the order of picks -----------------------------------------------------------------------------

    def _by_pick(self, words: NDArray[np.uint64]) -> Pairs:
        assert self.most is not None  # noqa: S101 - picks decide only where something has to go
        layout = self.layout
        runs = Segments.of_runs(words >> np.uint64(layout.row_bits))
        owners = words[runs.starts] >> np.uint64(layout.below_owner)
        of_owners, lengths, stay = Segments.of_runs(owners), runs.lengths, words
        if (of_owners.lengths > self.most).any():
            first = np.minimum(of_owners.lengths, self.most)
            kept = _begin(of_owners.lengths, first)
            owners, lengths = owners[kept], lengths[kept]
            # the runs that an owner keeps are its first ones, and so are their words
            borders = np.append(runs.starts, len(words))
            begins, ends = borders[of_owners.starts], borders[of_owners.starts + of_owners.lengths]
            stay = words[_begin(ends - begins, borders[of_owners.starts + first] - begins)]
        rows, segments = layout.rows(stay), Segments.of_lengths(lengths)
        groups = self.groups.codes[rows]
        pairs = Pairs(owners, groups[segments.starts].astype(np.int64), segments, rows)
        mixed = _with_two_groups(groups, segments)
        return self._looked_at_again(words, pairs, np.unique(owners[mixed])) if len(mixed) else pairs

    def _looked_at_again(self, words: NDArray[np.uint64], pairs: Pairs, owners: NDArray[np.uint64]) -> Pairs:
        """The pairs, those of some owners found by whole picks; both words and pairs are in the order of owners."""
        below = np.uint64(self.layout.below_owner)
        first = np.searchsorted(words, owners << below)
        last = np.searchsorted(words, owners << below | np.uint64((1 << self.layout.below_owner) - 1), side="right")
        theirs = np.concatenate([words[start:stop] for start, stop in zip(first, last, strict=True)])
        rows = self.layout.rows(theirs)
        again = self._cut(grouped(theirs >> below, self.groups.codes[rows], rows))
        place = np.searchsorted(owners, pairs.owners)
        return pairs.only(owners[np.minimum(place, len(owners) - 1)] != pairs.owners).and_(again)


def _begin(lengths: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which members are among the first so many of their segment, for segments of these lengths."""
    counts = np.empty(2 * len(lengths), dtype=np.int64)
    counts[::2] = first
    np.subtract(lengths, first, out=counts[1::2])
    stays = np.zeros(len(counts), dtype=bool)
    stays[::2] = True
    return np.repeat(stays, counts)


def _with_two_groups(groups: Codes, segments: Segments) -> NDArray[np.int64]:
    """The segments that have rows of more than one group."""
    differs = groups[1:] != groups[:-1]
    differs[segments.starts[1:] - 1] = False
    found = np.flatnonzero(differs)
    return np.searchsorted(segments.starts, found, side="right") - 1 if len(found) else found


def _cut_at_owners(words: NDArray[np.uint64], below_owner: int) -> Iterator[NDArray[np.uint64]]:
    """Runs of sorted words that hold all rows of their owners."""
    shift = np.uint64(below_owner)
    cuts = np.unique(np.searchsorted(words, words[SLICE_ROWS::SLICE_ROWS] >> shift << shift))
    for start, stop in zip([0, *cuts], [*cuts, len(words)], strict=True):
        if start < stop:
            yield words[start:stop]
