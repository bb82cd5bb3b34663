"""Rows as an engine hands them over, batch after batch, held in few large pieces of memory.

An engine allocates anew for every batch. What it hands over is small and used again for the next batch, as long as nobody keeps
it; thousands of pieces that are kept would be new to the operating system in every query, which takes longer than copying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

HELD_ROWS = 1 << 20
"""So many numbers fill whole large pages, which the operating system hands out much faster."""


class HeldColumn:
    """One column: numbers are copied, everything else and what has missing values is kept as it came."""

    def __init__(self, type_: pa.DataType, expected: int) -> None:
        self._type = type_
        self._size = max(expected, HELD_ROWS)
        self._numbers = _numbers_of(type_)
        self._chunks: list[pa.Array] = []
        self._block: NDArray[Any] | None = None
        self._filled = 0

    def add(self, array: pa.Array) -> None:
        """Some more values."""
        if self._numbers is None or array.null_count:
            self._close()
            self._chunks.append(array)
            return
        values = np.frombuffer(array.buffers()[1], self._numbers)[array.offset : array.offset + len(array)]
        while len(values):
            if self._block is None:
                self._block = np.empty(self._size, self._numbers)
            taken = values[: self._size - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            values = values[len(taken) :]
            if self._filled == self._size:
                self._close()

    def _close(self) -> None:
        """What is filled becomes a chunk."""
        if self._block is not None:
            self._chunks.append(pa.Array.from_buffers(self._type, self._filled, [None, pa.py_buffer(self._block)]))
        self._block, self._filled = None, 0

    def column(self) -> pa.ChunkedArray:
        """All values."""
        self._close()
        return pa.chunked_array(self._chunks, self._type)


def held(schema: pa.Schema, batches: Iterable[pa.RecordBatch], expected: int = 0) -> pa.Table:
    """All rows; numbers of at most as many rows as are expected lie in one piece. Memory is taken as it is filled."""
    columns = [HeldColumn(field.type, expected) for field in schema]
    for batch in batches:
        if batch.num_rows:
            for column, array in zip(columns, batch.columns, strict=True):
                column.add(array)
    return pa.table([column.column() for column in columns], schema=schema)


def _numbers_of(type_: pa.DataType) -> np.dtype[Any] | None:
    """How the numbers of a type lie in memory; None where they are not simply one after the other."""
    if not pa.types.is_primitive(type_) or pa.types.is_boolean(type_):
        return None
    if pa.types.is_floating(type_):
        return np.dtype(f"f{type_.bit_width // 8}")
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(type_) else 'i'}{type_.bit_width // 8}")
