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
_WORD = 8
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], dtype=np.uint64)
"""For each number of bytes the part of a word that they fill."""
_NARROW = (pa.int8(), pa.int16(), pa.int32())


@dataclass(frozen=True, slots=True)
class Cutter:
    """How the rows of one table are cut: by their owner, a number or a string, or by the bucket in the last column."""

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
            numbers = _hashes(rows.column(self.owner))
            numbers >>= np.uint64(40)
            numbers %= np.uint64(len(self.labels))
        return numbers.astype(np.uint16 if len(self.labels) <= 1 << 16 else np.uint32)


def _hashes(owners: pa.ChunkedArray) -> NDArray[np.uint64]:
    if pa.types.is_integer(owners.type):
        return np.asarray(owners.cast(pa.int64()).fill_null(0)).view(np.uint64) * _ODD
    return hashed_texts(owners)


def hashed_texts(texts: pa.ChunkedArray) -> NDArray[np.uint64]:
    """A number for each string, the same wherever the string is: eight bytes at a time are mixed in. 0 stands for NULL.

    >>> found = hashed_texts(pa.chunked_array([["a", "nine bytes", None], ["a"]])).tolist()
    >>> found[0] == found[3] != found[1], found[2]
    (True, 0)
    """
    found = [_hashed_texts(chunk) for chunk in texts.chunks]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)


def _hashed_texts(texts: pa.Array) -> NDArray[np.uint64]:
    if not len(texts):
        return np.zeros(0, dtype=np.uint64)
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    places = np.frombuffer(texts.buffers()[1], dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    starts, lengths = places[:-1].astype(np.int64), np.diff(places).astype(np.int64)
    used = (texts.buffers()[2] or b"")[: int(places[-1])]
    padded = np.frombuffer(bytes(used) + bytes(_WORD), dtype=np.uint8)
    words = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded.data, strides=(1,))
    state = (lengths.astype(np.uint64) + np.uint64(1)) * _ODD
    left = np.arange(len(texts))
    for start in range(0, int(lengths.max()), _WORD):
        left = left[lengths[left] > start]
        word = words[starts[left] + start] & _MASKS[np.minimum(lengths[left] - start, _WORD)]
        mixed = (state[left] ^ word) * _ODD
        state[left] = mixed ^ mixed >> np.uint64(32)
    if texts.null_count:
        state[np.asarray(texts.is_null())] = 0
    return state * _ODD


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
