"""All rows as machine words, parted by owner: sorting a part brings the rows of an owner together, in the order of picks.

The pick is a function of owner and group, so one sort brings the rows of a pair together *and* the pairs of an owner into the
order in which they are kept: the first κ runs stay. Picks are there with their leading bits only. Where that leaves open which
groups come first, the owner is looked at again, by whole picks. Where picks decide nothing, or few bits are left for them, a word
holds (owner, group, row), or (owner, row) where that is too wide.

Parts are small enough for the processor's caches, and no owner is in two of them: they are sorted and bounded in any order.
"""

from __future__ import annotations

from dataclasses import field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.engines.memory.layout import Layout
from shoal.engines.memory.ordered import Ordered
from shoal.engines.memory.pairs import Pairs, grouped
from shoal.engines.memory.picks import PICK_BITS
from shoal.engines.memory.segments import Segments, keep_smallest
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Codes, Groups, Owners
    from shoal.engines.memory.picks import Picks

SLICE_ROWS = 1 << 18
BLOCK_ROWS = 1 << 18
STEP_ROWS = 1 << 16
"""What is computed from this many rows stays in memory that a thread has already, and mostly in the processor's caches. Threads
that take shorter steps wake each other more often: each call of NumPy hands the interpreter's lock over."""


@dataclass(frozen=True, slots=True)
class Packed:
    """All rows as words, in parts that have no owner in common; `most` groups of an owner stay where that is said."""

    owners: Owners
    groups: Groups
    picks: Picks
    listed: NDArray[np.bool_] | None
    most: int | None
    layout: Layout
    words: NDArray[np.uint64]
    parts: list[list[NDArray[np.uint64]]]
    again: bool = False
    """Whether parts are asked for again: then sorted words stay."""
    ordered: dict[int, NDArray[np.uint64]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        owners: Owners,
        groups: Groups,
        picks: Picks,
        listed: NDArray[np.bool_] | None,
        most: int | None,
        pool: Executor,
        *,
        again: bool = False,
    ) -> Packed:
        """Rows of all groups, or of those that are `listed`."""
        layout, rows = Layout.of(owners, groups, most), len(groups.codes)
        # one array for all blocks, that of the owners where it may be written over: memory that is new to a process takes long
        words = owners.room()
        if words is None:
            words = np.empty(rows, dtype=np.uint64)
        parts: list[list[NDArray[np.uint64]]] = [[] for _ in range(1 << layout.part_bits)]
        packed = cls(owners, groups, picks, listed, most, layout, words, parts, again)
        for pieces in pool.map(packed._block, range(0, rows, BLOCK_ROWS)):
            for part, piece in zip(packed.parts, pieces, strict=True):
                part.append(piece)
        return packed

    def _block(self, start: int) -> list[NDArray[np.uint64]]:
        """The words of a block of rows, parted by owner."""
        end = min(start + BLOCK_ROWS, len(self.groups.codes))
        words = np.empty(end - start, dtype=np.uint64)
        numbers = np.empty(end - start, dtype=np.uint8 if self.layout.part_bits <= 8 else np.uint16)
        filled = 0
        for first in range(start, end, STEP_ROWS):
            filled += self._step(first, min(first + STEP_ROWS, end), words[filled:], numbers[filled:])
        words, numbers = words[:filled], numbers[:filled]
        if not self.layout.part_bits:
            return [words]
        position = self.words[start : start + filled]
        words = words.take(np.argsort(numbers, kind="stable"), mode="clip", out=position)
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.parts))).tolist()
        return [words[start:end] for start, end in pairwise([0, *ends])]

    def _step(self, start: int, end: int, words: NDArray[np.uint64], numbers: NDArray[Any]) -> int:
        """Writes the words of some rows and the numbers of their parts; says how many there are."""
        owners, groups = self.owners.codes(start, end), self.groups.codes[start:end]
        rows = np.arange(start, end, dtype=np.uint64)
        if self.listed is not None:
            chosen = np.flatnonzero(self.listed[groups])
            owners, groups, rows = owners[chosen], groups[chosen], rows[chosen]
        spread = self.layout.spread(owners)
        np.bitwise_or(self._words(owners, spread, groups), rows, out=words[: len(rows)])
        np.right_shift(spread, np.uint64(self.layout.owner_bits), out=numbers[: len(rows)], casting="unsafe")
        return len(rows)

    def _words(self, owners: NDArray[np.uint64], spread: NDArray[np.uint64], groups: Codes) -> NDArray[np.uint64]:
        layout = self.layout
        words = spread << np.uint64(layout.below_owner)  # the bits of the part fall out
        if layout.pick_bits:
            picks = self.picks.of_pairs(self.picks.of_owners(owners), groups)
            picks >>= np.uint64(PICK_BITS - layout.pick_bits)
            picks <<= np.uint64(layout.below_pick)
            words |= picks
        if layout.group_bits:
            words |= groups.astype(np.uint64) << np.uint64(layout.below_group)
        return words

    def slices(self, part: int) -> Iterator[Pairs]:
        """What is kept of the owners of one part."""
        for piece in _cut_at_owners(self._sorted(part), self.layout.below_owner):
            yield self._by_pick(part, piece) if self.layout.pick_bits else self._by_group(part, piece)

    def _sorted(self, part: int) -> NDArray[np.uint64]:
        if part in self.ordered:
            return self.ordered[part]
        words = np.concatenate(self.parts[part]) if self.parts[part] else np.empty(0, dtype=np.uint64)
        self.parts[part].clear()
        words.sort()
        if self.again:
            self.ordered[part] = words
        return words

    # ---- pairs in the order of groups ----------------------------------------------------------------------------

    def _by_group(self, part: int, words: NDArray[np.uint64]) -> Pairs:
        """Pairs of the words' owners and groups, cut to those that stay."""
        layout, rows = self.layout, self.layout.rows(words)
        if not layout.group_bits and self.groups.size > 1:
            owners = layout.codes(part, words >> np.uint64(layout.below_owner))
            return self._cut(grouped(owners, self.groups.codes[rows], rows))
        both = words >> np.uint64(layout.below_group)
        segments = Segments.of_runs(both)
        return self._cut(self._pairs(part, both[segments.starts], segments, rows))

    def _pairs(self, part: int, heads: NDArray[np.uint64], segments: Segments, rows: NDArray[np.int64]) -> Pairs:
        """Pairs, from what is above the row in the words that they begin with."""
        layout = self.layout
        owners = layout.codes(part, heads >> np.uint64(layout.pick_bits + layout.group_bits))
        groups = (heads & np.uint64((1 << layout.group_bits) - 1)).view(np.int64)
        return Pairs(owners, groups, segments, rows)

    def _cut(self, pairs: Pairs) -> Pairs:
        """The pairs, cut to the `most` groups of each owner that have the smallest picks."""
        if self.most is None:
            return pairs
        runs = Segments.of_runs(pairs.owners)
        if not (runs.lengths > self.most).any():
            return pairs
        return pairs.only(keep_smallest(self._whole_picks(pairs), runs, self.most))

    def _whole_picks(self, pairs: Pairs) -> NDArray[np.uint64]:
        """The picks of some pairs."""
        runs = Segments.of_runs(pairs.owners)
        owners = runs.spread(self.picks.of_owners(pairs.owners[runs.starts]))
        return self.picks.of_pairs(owners, pairs.groups)

    # ---- pairs in the order of picks -----------------------------------------------------------------------------

    def _by_pick(self, part: int, words: NDArray[np.uint64]) -> Pairs:
        """The first runs of every owner; where their order leaves open which ones stay, whole picks decide."""
        ordered = Ordered.of(words, self.layout, self._most)
        if not self.layout.group_bits and self.groups.size > 1:  # a run may be of several groups
            return self._by_pick_alone(part, ordered)
        doubtful = ordered.in_doubt()
        if len(doubtful):
            ordered = self._looked_at_again(part, ordered, ordered.runs_of(doubtful))
        kept = ordered.first_runs()
        return self._pairs(part, kept.heads, kept.segments, self.layout.rows(kept.words))

    @property
    def _most(self) -> int:
        assert self.most is not None  # noqa: S101 - picks decide only where something has to go
        return self.most

    def _looked_at_again(self, part: int, ordered: Ordered, runs: NDArray[np.int64]) -> Ordered:
        """The same with the runs of some owners, all that they have, chosen by whole picks."""
        heads = ordered.runs.heads[runs]
        pairs = self._pairs(part, heads, Segments.of_runs(heads), runs)
        kept = keep_smallest(self._whole_picks(pairs), Segments.of_runs(pairs.owners), self._most)
        return ordered.keeping(runs, kept)

    def _by_pick_alone(self, part: int, ordered: Ordered) -> Pairs:
        """The same where words have no room for groups: owners with two groups in a run are left out and looked at again."""
        kept = ordered.first_runs()
        runs = _with_two_groups(self.groups.codes[self.layout.rows(kept.words)], kept.segments)
        mixed = np.unique(kept.heads[runs] >> np.uint64(self.layout.above_row_below_owner))
        if len(mixed):
            theirs = ordered.runs_of(mixed)
            kept = ordered.keeping(theirs, np.zeros(len(theirs), dtype=bool)).first_runs()
        rows = self.layout.rows(kept.words)
        groups = self.groups.codes[rows[kept.segments.starts]].astype(np.int64)
        pairs = replace(self._pairs(part, kept.heads, kept.segments, rows), groups=groups)
        return pairs.and_(self._by_group(part, ordered.words_of(mixed))) if len(mixed) else pairs


def _with_two_groups(groups: Codes, segments: Segments) -> NDArray[np.int64]:
    """The segments that have rows of more than one group."""
    differs = groups[1:] != groups[:-1]
    differs[segments.starts[1:] - 1] = False
    found = np.flatnonzero(differs)
    return np.searchsorted(segments.starts, found, side="right") - 1 if len(found) else found


def _cut_at_owners(words: NDArray[np.uint64], below_owner: int) -> Iterator[NDArray[np.uint64]]:
    """Runs of sorted words that hold all rows of their owners."""
    shift = np.uint64(below_owner)
    cuts = sorted(set(np.searchsorted(words, words[SLICE_ROWS::SLICE_ROWS] >> shift << shift).tolist()))
    for start, stop in zip([0, *cuts], [*cuts, len(words)], strict=True):
        if start < stop:
            yield words[start:stop]
