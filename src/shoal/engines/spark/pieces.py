"""Rows on their way to the task of their owner: cut by bucket before the shuffle, as bytes that Spark moves and never looks into.

Spark writes a row at a time where it shuffles, and once more where a task of Python gets it. So rows become Arrow once, where they
are read; a first task cuts them by bucket, numbers as narrow as what they hold, and the shuffle moves a few thousand pieces.

Which bucket an owner is in decides nothing but where the work is done. Nothing here knows Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.group_keys import as_arrow
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

PIECES = "part int, table_ int, rows binary"
PIECE_BYTES = 32 << 10
"""A piece takes about this much room, and Spark hands over `MOST_ROWS_AT_ONCE` of them at once."""
MOST_ROWS_AT_ONCE = 1 << 12
_ODD = np.uint64(0xC2B2AE3D27D4EB4F)
_NARROW = (pa.int8(), pa.int16(), pa.int32())


@dataclass(frozen=True, slots=True)
class Cutter:
    """How the rows of one table are cut: by their owner, a whole number, or by the number of the bucket in the last column."""

    table: int
    labels: tuple[int, ...]
    """For each bucket the number that leads Spark to its task."""
    owner: int | None

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows, in pieces of one bucket each."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= PIECE_BYTES * len(self.labels):
                yield self._pieces(waiting)
                waiting, size = [], 0
        if size:
            yield self._pieces(waiting)

    def _pieces(self, waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(waiting).combine_chunks()
        buckets = self._buckets(rows)
        if self.owner is None:
            rows = rows.drop_columns(rows.column_names[-1])
        rows = narrowed(rows).take(as_arrow(np.argsort(buckets, kind="stable")))
        ends = np.cumsum(np.bincount(buckets, minlength=len(self.labels))).tolist()
        at_once = max(1, 2 * rows.num_rows * PIECE_BYTES // max(1, rows.nbytes))
        parts, found = [], []
        for label, start, end in zip(self.labels, [0, *ends], ends, strict=False):
            for first in range(start, end, at_once):
                parts.append(label)
                found.append(as_stream(rows.slice(first, min(at_once, end - first))))
        columns = {"part": pa.array(parts, pa.int32()), "table_": pa.array([self.table] * len(parts), pa.int32())}
        return pa.RecordBatch.from_pydict({**columns, "rows": pa.array(found, pa.binary())})

    def _buckets(self, rows: pa.Table) -> NDArray[np.uint16]:
        if self.owner is None:
            numbers = np.asarray(rows.column(rows.num_columns - 1)).astype(np.uint64)
        else:
            numbers = np.asarray(rows.column(self.owner).cast(pa.int64())).view(np.uint64) * _ODD
            numbers >>= np.uint64(40)
            numbers %= np.uint64(len(self.labels))
        return numbers.astype(np.uint16 if len(self.labels) <= 1 << 16 else np.uint32)


def narrowed(rows: pa.Table) -> pa.Table:
    """The same rows, whole numbers in as few bytes as all of them fit.

    >>> [str(part.type) for part in narrowed(pa.table({"a": [1, None], "b": [1 << 40, 0], "c": [0.5, 1.0]})).schema]
    ['int8', 'int64', 'double']
    """
    return pa.table([_narrow(column) for column in rows.columns], rows.column_names)


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_integer(column.type):
        return column
    ends = pc.min_max(column).as_py()
    bits = 1 + max((ends["min"] or 0).bit_length(), (ends["max"] or 0).bit_length())
    wanted = next((type_ for type_ in _NARROW if bits <= type_.bit_width < column.type.bit_width), None)
    return column if wanted is None else column.cast(wanted)


def pieces_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows that came, and the number of their table."""
    for batch in batches:
        for number, stored in zip(batch.column("table_").to_pylist(), batch.column("rows"), strict=True):
            yield number, pa.ipc.open_stream(stored.as_buffer()).read_all()


def joined(pieces: list[pa.Table]) -> pa.Table:
    """All rows of some pieces; numbers as wide as the widest of them."""
    return pa.concat_tables(pieces, promote_options="permissive")


def as_stream(rows: pa.Table) -> bytes:
    """A table as bytes that Spark moves around and never looks into."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def labels_for(buckets: int) -> tuple[int, ...]:
    """For each bucket a whole number that `repartition` by a column of numbers leads to a task of its own.

    Spark takes the hash of the number, so that with 0, 1, 2 … some tasks would get several buckets and others none.

    >>> labels_for(4)
    (12, 6, 2, 0)
    """
    candidates = 16 * buckets + 64
    while True:
        tasks = hashed(np.arange(candidates, dtype=np.uint32)).astype(np.int64) % buckets
        found, first = np.unique(tasks, return_index=True)
        if len(found) == buckets:
            return tuple(first.tolist())
        candidates *= 2


def hashed(numbers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The hash that Spark's `hash` has of 32-bit integers: Murmur3 with the seed 42.

    >>> hashed(np.array([0, 1], dtype=np.uint32)).tolist()
    [933211791, -559580957]
    """
    with np.errstate(over="ignore"):
        mixed = _rotated(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        state ^= np.uint32(4)
        state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        state ^= state >> np.uint32(16)
    return np.asarray(state.view(np.int32))


def _rotated(numbers: Any, by: int) -> Any:
    return numbers << np.uint32(by) | numbers >> np.uint32(32 - by)
