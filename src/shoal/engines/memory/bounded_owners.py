"""Bounding in memory: the rows of whole owners, packed into machine words, sorted, and cut to κ groups of each owner.

A word holds (owner, group, row) codes, high bits first. One sort brings the rows of an owner, and in them the rows of a group,
together; slices at borders of owners are then bounded one by one, small enough for the processor's caches, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.segments import WORD, Segments, bits_for, duplicate_numbers, first_of_kind, keep_smallest
from shoal.plan.totals import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Codes, Groups, Owners
    from shoal.engines.memory.rows import Argument
    from shoal.plan.totals import SamplingKey

SLICE_ROWS = 1 << 18
BLOCK_ROWS = 1 << 16
PARTS = 2
"""Into how many parts rows are packed at the same time, a power of two; everything is read once for each."""
WORD_FOR_ROWS = WORD
_LOW_62 = np.uint64(MASK)
_ONE = np.uint64(1)


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


@dataclass(frozen=True, slots=True)
class Packed:
    """All rows as sorted words, in parts that have no owner in common.

    Where (owner, group, row) is too wide for a word, groups are left out and looked up later.
    """

    parts: tuple[NDArray[np.uint64], ...]
    group_bits: int
    row_bits: int
    group_codes: Codes | None

    @classmethod
    def of(cls, owners: Owners, groups: Groups, listed: NDArray[np.bool_] | None, pool: Executor) -> Packed:
        """Rows of all groups, or of those that are `listed`; every second owner (third …) goes into another part."""
        row_bits, group_bits = bits_for(len(groups.codes)), bits_for(groups.size)
        fits = bits_for(owners.size) + group_bits + row_bits <= WORD_FOR_ROWS
        width = group_bits if fits else None

        def part(number: int) -> NDArray[np.uint64]:
            return _sorted_words(owners.codes, groups.codes, listed, width, row_bits, number)

        parts = tuple(pool.map(part, range(PARTS)))
        return cls(parts, group_bits if fits else 0, row_bits, None if fits else groups.codes)

    def slices(self) -> Iterator[NDArray[np.uint64]]:
        """Runs of words that hold all rows of their owners."""
        below_owner = np.uint64(self.group_bits + self.row_bits)
        for words in self.parts:
            first = words[SLICE_ROWS::SLICE_ROWS] >> below_owner << below_owner
            cuts = np.unique(np.searchsorted(words, first))
            for start, stop in zip([0, *cuts], [*cuts, len(words)], strict=True):
                if start < stop:
                    yield words[start:stop]

    def pairs(self, words: NDArray[np.uint64]) -> Pairs:
        """What one slice holds."""
        rows = (words & np.uint64((1 << self.row_bits) - 1)).view(np.int64)
        both = words >> np.uint64(self.row_bits)
        if self.group_codes is not None:
            return _grouped(both, self.group_codes[rows], rows)
        segments = Segments.of_runs(both)
        heads = both[segments.starts]
        groups = heads & np.uint64((1 << self.group_bits) - 1)
        return Pairs(heads >> np.uint64(self.group_bits), groups.view(np.int64), segments, rows)


def _sorted_words(
    owners: Codes, groups: Codes, listed: NDArray[np.bool_] | None, group_bits: int | None, row_bits: int, part: int
) -> NDArray[np.uint64]:
    """The words of one part's rows, packed block by block and sorted; without `group_bits` they have no group."""
    words = np.empty(sum(_of_part(block, part).sum() for _, block in _blocks(owners)), dtype=np.uint64)
    filled = 0
    for start, block in _blocks(owners):
        mine = _of_part(block, part)
        group = groups[start : start + len(block)]
        if listed is not None:
            mine &= listed[group]
        rows = np.flatnonzero(mine)
        word = block[rows].astype(np.uint64)
        if group_bits is not None:
            word <<= np.uint64(group_bits)
            word |= group[rows]
        word <<= np.uint64(row_bits)
        word |= (rows + start).view(np.uint64)
        words[filled : filled + len(word)] = word
        filled += len(word)
    words = words[:filled]
    words.sort()
    return words


def _blocks(codes: Codes) -> Iterator[tuple[int, Codes]]:
    """Runs of rows that stay in the processor's caches, and where they start."""
    return ((start, codes[start : start + BLOCK_ROWS]) for start in range(0, len(codes), BLOCK_ROWS))


def _of_part(owners: Codes, part: int) -> NDArray[np.bool_]:
    mine: NDArray[np.bool_] = np.equal(owners & owners.dtype.type(PARTS - 1), part)
    return mine


def _grouped(owners: NDArray[np.uint64], groups: Codes, rows: NDArray[np.int64]) -> Pairs:
    """Rows sorted by owner, sorted by group as well: among few rows, owners and places are small numbers."""
    place, group_bits = bits_for(len(rows)), bits_for(int(groups.max()) + 1)
    runs = Segments.of_runs(owners)
    words = runs.spread(np.arange(len(runs.starts), dtype=np.uint64)) << np.uint64(group_bits) | groups
    words = words << np.uint64(place) | np.arange(len(rows), dtype=np.uint64)
    words.sort()
    order = (words & np.uint64((1 << place) - 1)).view(np.int64)
    segments = Segments.of_runs(words >> np.uint64(place))
    heads = order[segments.starts]
    return Pairs(owners[heads], groups[heads].astype(np.int64), segments, rows[order])


@dataclass(frozen=True)
class Picks:
    """The keyed numbers of owners and groups: (mixed(a·u + b) | 1)·mixed(Σ mᵢ·gᵢ + d) mod 2⁶², in words that wrap around."""

    key: SamplingKey
    owners: Owners
    groups: NDArray[np.uint64]

    @classmethod
    def of(cls, key: SamplingKey, owners: Owners, groups: Groups) -> Picks:
        """The keyed numbers of all groups, and what is needed for those of owners."""
        hashed = np.full(groups.size, key.number(2), dtype=np.uint64)
        for index, integers in enumerate(groups.canonical()):
            hashed += integers * np.uint64(key.odd(3 + index))
        return cls(key, owners, mixed(hashed))

    def of_pairs(self, pairs: Pairs, runs: Segments) -> NDArray[np.uint64]:
        """One pick for each pair; `runs` are the runs of pairs of one owner."""
        canonical = self.owners.canonical(pairs.owners[runs.starts])
        odd = mixed(canonical * np.uint64(self.key.odd(0)) + np.uint64(self.key.number(1))) | _ONE
        return (runs.spread(odd) * self.groups[pairs.groups]) & _LOW_62

    def of_rows(
        self, pairs: NDArray[np.uint64], canonical: list[NDArray[np.uint64]], duplicates: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """One pick for each row, from the pick of its owner and group, its values and its duplicate number."""
        content = np.uint64(self.key.number(20)) + duplicates * np.uint64(self.key.odd(19))
        for index, integers in enumerate(canonical):
            content += integers * np.uint64(self.key.odd(21 + index))
        return ((pairs | _ONE) * mixed(content)) & _LOW_62


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """x·(⌊x/2³¹⌋ | 1) mod 2⁶² of the low 62 bits."""
    low = numbers & _LOW_62
    return (low * ((low >> np.uint64(31)) | _ONE)) & _LOW_62


@dataclass(frozen=True)
class Bounded:
    """What is kept of some owners, and rows sampled from it. Everything is computed when it is first asked for."""

    pairs: Pairs
    picks: Picks
    arguments: tuple[Argument, ...]
    rows_are_cut: bool = False
    _taken: dict[int, Argument] = field(default_factory=dict)
    _samples: dict[tuple[int, int], tuple[NDArray[np.int64], Argument]] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Pairs, picks: Picks, arguments: tuple[Argument, ...], most: int | None) -> Bounded:
        """The pairs, cut to the `most` groups of each owner that have the smallest picks."""
        runs = Segments.of_runs(pairs.owners)
        if most is not None and (runs.lengths > most).any():
            pairs = pairs.only(keep_smallest(picks.of_pairs(pairs, runs), runs, most))
        return cls(pairs, picks, arguments)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group of every pair."""
        return self.pairs.groups

    @property
    def segments(self) -> Segments:
        """The rows of every pair."""
        return self.pairs.segments

    @cached_property
    def runs(self) -> Segments:
        """Runs of pairs of the same owner."""
        return Segments.of_runs(self.pairs.owners)

    @cached_property
    def pair_picks(self) -> NDArray[np.uint64]:
        """The pick of every pair."""
        return self.picks.of_pairs(self.pairs, self.runs)

    @cached_property
    def first_pairs(self) -> NDArray[np.bool_]:
        """The pair with the smallest pick of each owner."""
        return keep_smallest(self.pair_picks, self.runs, 1)

    def argument(self, number: int) -> Argument:
        """An argument for the kept rows."""
        if number not in self._taken:
            self._taken[number] = self.arguments[number].take(self.pairs.rows)
        return self._taken[number]

    def counts(self, number: int | None) -> NDArray[np.int64]:
        """Rows of each pair, or those where an argument has a value."""
        if number is None or self.argument(number).missing is None:
            return self.segments.lengths
        return self.segments.sums(self.argument(number).present().astype(np.int64))

    def sample(self, number: int, most: int) -> tuple[NDArray[np.int64], Argument]:
        """At most this many rows of each pair that have a value: the number of their pair, and the argument there."""
        wanted = (number, most)
        if wanted not in self._samples:
            rows = self._with_value(number, first_pairs_only=False)
            self._samples[wanted] = rows if self.rows_are_cut else self._smallest(*rows, most)
        return self._samples[wanted]

    def one_row(self, number: int, *, first_pairs_only: bool) -> tuple[NDArray[np.int64], Argument]:
        """One row with a value of each pair, or of the first pair of each owner."""
        return self._smallest(*self._with_value(number, first_pairs_only=first_pairs_only), 1)

    def _with_value(self, number: int, *, first_pairs_only: bool) -> tuple[NDArray[np.int64], Argument]:
        argument = self.argument(number)
        pairs = self.segments.spread(np.arange(len(self.groups)))
        if argument.missing is None and not first_pairs_only:
            return pairs, argument
        wanted = argument.present()
        if first_pairs_only:
            wanted &= self.segments.spread(self.first_pairs)
        chosen = np.flatnonzero(wanted)
        return pairs[chosen], argument.take(chosen)

    def _smallest(self, pairs: NDArray[np.int64], argument: Argument, most: int) -> tuple[NDArray[np.int64], Argument]:
        """The rows of each pair that have the smallest picks."""
        segments = Segments.of_runs(pairs)
        if not len(pairs) or not (segments.lengths > most).any():
            return pairs, argument
        duplicates = duplicate_numbers(argument.identities(), segments)
        picks = self.picks.of_rows(self.pair_picks[pairs], [argument.canonical()], duplicates)
        chosen = np.flatnonzero(keep_smallest(picks, segments, most))
        return pairs[chosen], argument.take(chosen)

    def distinct(self, number: int, most: int) -> tuple[NDArray[np.int64], Argument]:
        """At most this many different values of each pair."""
        pairs, argument = self._with_value(number, first_pairs_only=False)
        if not len(pairs):
            return pairs, argument
        first = np.flatnonzero(first_of_kind(argument.identities(), Segments.of_runs(pairs)))
        pairs, argument = pairs[first], argument.take(first)
        picks = self.picks.of_rows(self.pair_picks[pairs], [argument.canonical()], np.ones(len(pairs), dtype=np.uint64))
        chosen = np.flatnonzero(keep_smallest(picks, Segments.of_runs(pairs), most))
        return pairs[chosen], argument.take(chosen)
