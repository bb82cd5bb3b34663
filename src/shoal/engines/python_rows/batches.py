"""Rows on their way to functions: cut between owners, so that no worker holds too much at one time.

The rows of one owner stay together as long as a worker has room for them. More of them are handed over in parts, which begin at
fixed numbers of the owner's own rows; where a function has to see all of them, the owner is left out. Both follow from that owner's
own rows. Otherwise the release would end, after its charge, because of one owner.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.python_rows.pool import Batch
from shoal.engines.python_rows.stages import OWNER
from shoal.engines.python_rows.worker import LEAST_MEMORY
from shoal.frozen import dataclass
from shoal.plan.types import Kind
from shoal.sql import functions
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from shoal.engines.python_rows.stages import Stage
    from shoal.plan.totals import SamplingKey

BATCH_ROWS = 1 << 15
"""Rows that a worker has as records at one time: more of them are slower to make, as they leave the processor's caches."""
BATCH_BYTES = 1 << 22
"""Bytes of stored rows that a worker gets at one time: strings are as long as whoever wrote them liked, and their records, with
what a function makes of each, must fit its memory."""
ROOM_OF_OWNER = LEAST_MEMORY // 2
"""Bytes that all rows of one owner may take in a worker at one time, as they are counted here; functions have the rest."""
ROOM_OF_PART = ROOM_OF_OWNER // 16
RECORD, VALUE, COPIES = 250, 100, 8
"""Bytes of a record and of each value in it, and how often a worker holds the bytes of stored strings. Measured: a worker with
`LEAST_MEMORY` holds twice as much as this allows for, with numbers, times, decimals and strings."""
NEXT_PART = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True, slots=True)
class OwnedBatch(Batch):
    """A batch with the owners of its rows, which stay here."""

    owners: pa.Array


def batches_of(stage: Stage, rows: Iterable[pa.RecordBatch], key: SamplingKey) -> Iterator[OwnedBatch]:
    """Sorted rows, cut once they are many or long."""
    most = max(1, BATCH_ROWS // stage.made_of_one)
    whole, last = list[pa.RecordBatch](), _OneOwner(stage)
    for piece in (one for batch in rows for part in _pieces(batch, most) for one in _by_owner(stage, part)):
        starts = _starts(piece, last.name)
        ends = int(starts[0]) if len(starts) else piece.num_rows
        last.add(piece.slice(0, ends))
        for number, part in last.cut(ended=bool(len(starts))):
            yield _batch(stage, [part], key, number)
        if len(starts):
            whole += [*last.rows, piece.slice(ends, int(starts[-1]) - ends)]
            last = _OneOwner(stage)
            last.add(piece.slice(int(starts[-1])))
        if _is_full(whole, most):
            yield _batch(stage, whole, key)
            whole = []
    for number, part in last.cut(ended=True):
        yield _batch(stage, [part], key, number)
    if any(part.num_rows for part in (*whole, *last.rows)):
        yield _batch(stage, [*whole, *last.rows], key)


class _OneOwner:
    """The rows of one owner so far, and where they are cut once they are more than a worker has room for."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._taken = self._parts = 0
        self.name: pa.Scalar | None = None
        self.rows: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that follow those before them."""
        if rows.num_rows:
            self.name = rows.column(OWNER)[0]
            self._taken += room_for(self._stage, rows)
            self.rows.append(rows)
        if self._taken > ROOM_OF_OWNER and self._stage.needs_whole_owners:
            self.rows = []

    def cut(self, *, ended: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Parts that are complete, with their numbers; of an owner whose rows fit, none."""
        if self._taken <= ROOM_OF_OWNER or not self.rows:
            return
        held = pa.Table.from_batches(self.rows).combine_chunks()
        size = rows_of_part(self._stage)
        complete = held.num_rows if ended else held.num_rows - held.num_rows % size
        for start in range(0, complete, size):
            self._parts += 1
            yield self._parts, held.slice(start, min(size, complete - start)).to_batches()[0]
        self.rows = held.slice(complete).to_batches()


def room_for(stage: Stage, rows: pa.RecordBatch) -> int:
    """Bytes that a worker takes for some rows, and for what functions make of them, strings of their own left out.

    The sum over pieces is that of the whole: how rows arrive depends on other owners.
    """
    texts = sum(int(pc.sum(pc.binary_length(c)).as_py() or 0) for c in rows.columns if _is_text(c.type))
    return int(rows.num_rows) * _bytes_of_records(stage) + COPIES * texts


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def rows_of_part(stage: Stage) -> int:
    """How many rows of a large owner a worker gets at one time, however long their strings are."""
    texts = sum(value.type.kind is Kind.TEXT for _, value in stage.steps[0].arguments)
    return max(1, ROOM_OF_PART // (_bytes_of_records(stage) + COPIES * LONGEST_TEXT * texts))


def _bytes_of_records(stage: Stage) -> int:
    values = len(stage.steps[0].arguments) + stage.made_of_one * sum(len(step.made) for step in stage.steps)
    return RECORD * (1 + stage.made_of_one * len(stage.steps)) + VALUE * values


def _pieces(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The rows in order, in pieces that are no fuller than a batch for a worker should be."""
    if batch.num_rows > 1 and _is_full([batch], most):
        for half in (batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)):
            yield from _pieces(half, most)
    elif batch.num_rows:
        yield batch


def _by_owner(stage: Stage, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A piece in which some owner may have too much, owner by owner."""
    if room_for(stage, piece) <= ROOM_OF_OWNER:
        yield piece
        return
    edges = [0, *_changes(piece.column(OWNER)).tolist(), piece.num_rows]
    for start, end in pairwise(edges):
        yield piece.slice(start, end - start)


def _is_full(held: list[pa.RecordBatch], most: int) -> bool:
    rows, size = sum(part.num_rows for part in held), sum(part.nbytes for part in held)
    return bool(rows >= most or size >= BATCH_BYTES)


def _changes(owners: pa.Array) -> NDArray[np.int64]:
    """Where the owner is another than in the row before."""
    differs = pc.not_equal(owners.slice(1), owners.slice(0, max(0, len(owners) - 1)))
    return np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1


def _starts(piece: pa.RecordBatch, before: pa.Scalar | None) -> NDArray[np.int64]:
    """Where owners begin in a piece; `before` is the owner of the row before it."""
    owners = piece.column(OWNER)
    changes = _changes(owners)
    return changes if before is not None and owners[0] == before else np.insert(changes, 0, 0)


def _batch(stage: Stage, held: list[pa.RecordBatch], key: SamplingKey, part: int = 0) -> OwnedBatch:
    """Rows of whole owners, or a part of one owner's, who draws other numbers there."""
    rows = pa.Table.from_batches(held).combine_chunks()
    owners = rows.column(OWNER).combine_chunks()
    ends = np.append(_changes(owners), rows.num_rows).astype(np.int64)
    last = owners.take(pa.array(ends - 1))
    factor, summand = _numbers(key)
    with np.errstate(over="ignore"):
        seeds = functions.canonical_integers(last, stage.owner.type).astype(np.uint64) * factor + summand
        seeds += NEXT_PART * np.uint64(part)
    return OwnedBatch(rows.drop_columns([OWNER]), ends, seeds, owners)


@lru_cache(maxsize=16)
def _numbers(key: SamplingKey) -> tuple[np.uint64, np.uint64]:
    """Two numbers that follow from the key of a query, and are none of those that groups are sampled by."""
    digest = hashlib.blake2b(repr(key.seeds).encode(), digest_size=16, person=b"python rows").digest()
    return np.uint64(int.from_bytes(digest[:8]) | 1), np.uint64(int.from_bytes(digest[8:]))
