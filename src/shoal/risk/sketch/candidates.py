"""Which values of a batch may enter the sample of a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.risk.hashing.encoding import Encoded
    from shoal.risk.hashing.siphash import Hashes, Positions


@dataclass(frozen=True, slots=True)
class Candidates:
    """The smallest distinct hashes of a batch, ascending, and which row has which."""

    hashes: Hashes
    counts: Positions  # rows of each
    examples: Positions  # for each, a position in the encoded column that has it
    rows: Positions | None  # the rows below the ceiling; None: all
    of_row: Positions  # for each of these rows which candidate; len(hashes): none

    def first(self, limit: int) -> Candidates:
        """The smallest `limit` of them."""
        if len(self.hashes) <= limit:
            return self
        of_row = np.minimum(self.of_row, limit)
        return Candidates(self.hashes[:limit], self.counts[:limit], self.examples[:limit], self.rows, of_row)


def find_candidates(values: Encoded, ceiling: np.uint64, limit: int) -> Candidates:
    """The smallest `limit` distinct hashes of a batch that do not exceed the ceiling."""
    if values.codes is None:
        rows = np.flatnonzero(values.hashes <= ceiling)
        hashes, of_row, firsts = _distinct(values.hashes[rows])
        counts = np.bincount(of_row, minlength=len(hashes))
        return Candidates(hashes, counts, rows[firsts], rows, of_row).first(limit)
    uses = np.bincount(values.codes, minlength=len(values.hashes))
    live = np.flatnonzero((uses > 0) & (values.hashes <= ceiling))
    hashes, numbers, firsts = _distinct(values.hashes[live])
    counts = np.zeros(len(hashes), np.int64)
    np.add.at(counts, numbers, uses[live])
    of_code = np.full(len(values.hashes), -1, dtype=np.int64)
    of_code[live] = numbers
    of_row = of_code[values.codes]
    if len(live) == len(values.hashes):
        return Candidates(hashes, counts, live[firsts], None, of_row).first(limit)
    rows = np.flatnonzero(of_row >= 0)
    return Candidates(hashes, counts, live[firsts], rows, of_row[rows]).first(limit)


def _distinct(hashes: Hashes) -> tuple[Hashes, Positions, Positions]:
    """The distinct hashes in order; for each input which of them it is; for each of them one input that has it."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    numbers = np.empty(len(hashes), dtype=np.int64)
    numbers[order] = np.cumsum(first) - 1
    return ordered[first], numbers, order[first]


def places_of(hashes: Hashes, kept: Hashes) -> Positions:
    """The position of each hash in a sorted array, −1 where it is not in it."""
    if not len(kept):
        return np.full(len(hashes), -1, dtype=np.int64)
    positions = np.minimum(np.searchsorted(kept, hashes), len(kept) - 1)
    return np.where(kept[positions] == hashes, positions, -1)
