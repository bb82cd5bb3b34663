"""Arrays that lie in segments (the rows of an owner, the groups of an owner): sums, smallest members, duplicate numbers.

A segment is a run of neighbours; `starts` says where each begins and `lengths` how long it is, never 0. Sorting means sorting
64-bit numbers that carry a position in their low bits: NumPy sorts those many times faster than it finds a permutation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD = 64
COMPARED = 6
"""In segments of at most this many members, each is compared with each."""


class EqualPicks(Exception):  # noqa: N818 - not a failure: the values themselves must decide, and SQL compares them
    """Two members of a segment have the same keyed number where one of them has to go."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Where segments begin, and how long they are."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of_runs(cls, sorted_keys: NDArray[Any]) -> Segments:
        """One segment for each run of equal neighbours."""
        later = np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1])
        starts = np.zeros(len(later) + min(len(sorted_keys), 1), dtype=np.int64)
        np.add(later, 1, out=starts[1:])
        lengths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1:] = len(sorted_keys) - starts[-1:]
        return cls(starts, lengths)

    @classmethod
    def of_lengths(cls, lengths: NDArray[np.int64]) -> Segments:
        """Segments of these lengths, one after the other."""
        return cls(np.cumsum(lengths) - lengths, lengths)

    @property
    def size(self) -> int:
        """How many members all segments have."""
        return int(self.lengths.sum())

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value of each segment, given to all of its members."""
        return np.repeat(values, self.lengths)

    def members(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Positions of the members of the chosen segments."""
        return np.flatnonzero(self.spread(chosen))

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Σ over each segment; exact when the sum of each segment fits 64 bits, whatever the running total does."""
        if len(self.starts) == len(values):
            return values
        ends = np.cumsum(values)[self.starts + self.lengths - 1]
        sums: NDArray[np.int64] = ends.copy()
        sums[1:] -= ends[:-1]
        return sums

    def running(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Σ from the start of each segment up to each member; exact where these sums fit 64 bits."""
        upto: NDArray[np.int64] = np.cumsum(values)
        before: NDArray[np.int64] = self.spread(upto[self.starts] - values[self.starts])
        return upto - before


def bits_for(count: int) -> int:
    """Binary digits of the numbers 0 … count − 1."""
    return max(count - 1, 0).bit_length()


def keep_smallest(picks: NDArray[np.uint64], segments: Segments, most: int) -> NDArray[np.bool_]:
    """Which members belong to the `most` smallest picks of their segment.

    >>> picks = np.array([5, 1, 3, 9, 7], dtype=np.uint64)
    >>> keep_smallest(picks, Segments.of_lengths(np.array([3, 2])), 2).tolist()
    [False, True, True, True, True]
    """
    crowded = segments.lengths > most
    kept = np.ones(len(picks), dtype=bool)
    if not crowded.any():
        return kept
    if most == 1:
        return _least(picks, segments)
    members = segments.members(crowded)
    inner = Segments.of_lengths(segments.lengths[crowded])
    kept[members] = _smallest(picks[members], inner, most)
    return kept


def _least(picks: NDArray[np.uint64], segments: Segments) -> NDArray[np.bool_]:
    """The same where one member of every segment is kept."""
    kept: NDArray[np.bool_] = np.equal(picks, segments.spread(np.minimum.reduceat(picks, segments.starts)))
    if np.count_nonzero(kept) != len(segments.starts):
        raise EqualPicks
    return kept


def _smallest(picks: NDArray[np.uint64], segments: Segments, most: int) -> NDArray[np.bool_]:
    """The same where every segment is longer than `most`.

    Sorts (segment, leading bits of the pick) and reads off the last one kept; a segment whose leading bits tie there is
    decided by the whole pick.
    """
    count = len(segments.starts)
    width = bits_for(count)
    numbers = segments.spread(np.arange(count, dtype=np.uint64))
    # picks have 62 bits: two are free
    leading = (numbers << np.uint64(WORD - width) if width else numbers) | (picks >> np.uint64(max(width - 2, 0)))
    last = np.sort(leading)[segments.starts + (most - 1)]
    kept = leading <= segments.spread(last)
    many = segments.sums(kept.astype(np.int64)) != most
    if many.any():
        members = segments.members(many)
        kept[members] = _smallest_exactly(picks[members], Segments.of_lengths(segments.lengths[many]), most)
    return kept


def _smallest_exactly(picks: NDArray[np.uint64], segments: Segments, most: int) -> NDArray[np.bool_]:
    order = np.lexsort((picks, segments.spread(np.arange(len(segments.starts)))))
    last = picks[order[segments.starts + (most - 1)]]
    if (picks[order[segments.starts + most]] == last).any():
        raise EqualPicks
    return picks <= segments.spread(last)


def in_order(picks: NDArray[np.uint64], segments: Segments) -> NDArray[np.int64]:
    """The order of members by picks within each segment.

    >>> in_order(np.array([5, 1, 3, 9, 7], dtype=np.uint64), Segments.of_lengths(np.array([3, 2]))).tolist()
    [1, 2, 0, 4, 3]
    """
    numbers = segments.spread(np.arange(len(segments.starts)))
    order = np.lexsort((picks, numbers))
    ordered = picks[order]
    if ((ordered[1:] == ordered[:-1]) & (numbers[1:] == numbers[:-1])).any():
        raise EqualPicks
    return order


def duplicate_numbers(identities: NDArray[np.uint64], segments: Segments) -> NDArray[np.uint64]:
    """1 for the first member of its kind in its segment, 2 for the second …; which of equal members is first is all the same.

    >>> duplicate_numbers(np.array([7, 8, 7, 7], dtype=np.uint64), Segments.of_lengths(np.array([3, 1]))).tolist()
    [1, 1, 2, 1]
    """
    numbers = _numbers_among_few(identities, segments)
    several = segments.lengths > COMPARED
    if not several.any():
        return numbers
    members = segments.members(several)
    inner = Segments.of_lengths(segments.lengths[several])
    order = _together(identities[members], inner)
    runs = _runs(identities[members][order], inner.spread(np.arange(len(inner.starts)))[order])
    within = np.arange(len(order), dtype=np.int64) - runs.spread(runs.starts)
    numbers[members[order]] = (within + 1).astype(np.uint64)
    return numbers


def _numbers_among_few(identities: NDArray[np.uint64], segments: Segments) -> NDArray[np.uint64]:
    """The numbers where segments have few members: each is compared with those before it, which for few beats sorting."""
    numbers = np.ones(len(identities), dtype=np.uint64)
    longest = min(int(segments.lengths.max(initial=0)), COMPARED)
    of_segment: NDArray[np.int64] | None = None
    for distance in range(1, longest):
        alike = identities[distance:] == identities[:-distance]
        if not alike.any():  # usual for amounts
            continue
        if of_segment is None:
            of_segment = segments.spread(np.arange(len(segments.starts)))
        alike &= of_segment[distance:] == of_segment[:-distance]
        numbers[distance:] += alike
    return numbers


def first_of_kind(identities: NDArray[np.uint64], segments: Segments) -> NDArray[np.bool_]:
    """One member of each kind in each segment."""
    return np.equal(duplicate_numbers(identities, segments), 1)


def _runs(identities: NDArray[np.uint64], numbers: NDArray[np.int64]) -> Segments:
    """Runs of equal identity inside one segment."""
    new = np.r_[True, (identities[1:] != identities[:-1]) | (numbers[1:] != numbers[:-1])]
    starts = np.flatnonzero(new)
    return Segments(starts, np.diff(starts, append=len(identities)))


def _together(identities: NDArray[np.uint64], segments: Segments) -> NDArray[np.int64]:
    """An order by segment in which equal identities are neighbours: sorted by a hash, or by themselves where hashes collide."""
    numbers = segments.spread(np.arange(len(segments.starts), dtype=np.uint64))
    position, number = bits_for(len(identities)), bits_for(len(segments.starts))
    free = WORD - position - number
    hashed = (identities * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(WORD - free)
    packed = ((numbers << np.uint64(free)) | hashed) << np.uint64(position)
    packed |= np.arange(len(identities), dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << position) - 1)).astype(np.int64)
    same_hash = (packed[1:] >> np.uint64(position)) == (packed[:-1] >> np.uint64(position))
    arranged = identities[order]
    if (same_hash & (arranged[1:] != arranged[:-1])).any():
        return np.lexsort((identities, numbers))
    return order
