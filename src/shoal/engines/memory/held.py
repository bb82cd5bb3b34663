"""Rows as an engine hands them over, batch after batch, held in few large pieces of memory.

An engine allocates anew for every batch. What it hands over is small and used again for the next batch, as long as nobody keeps
it; thousands of pieces that are kept would be new to the operating system in every query, which takes longer than copying.

Large pieces are used by one query after the other: the operating system clears what it hands out, and for the rows of a query that
takes as long as sorting them. A piece is lent with a loan that every array over it keeps alive. When the last of them is gone, the
next one may have it.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from numpy.typing import NDArray

HELD_ROWS = 1 << 20
"""So many numbers fill whole large pages, which the operating system hands out much faster."""


LARGE = 1 << 24
"""Smaller pieces are left to the usual allocator, which keeps them itself."""
MOST_KEPT = 1 << 29
"""Bytes that wait for the next query, at most."""


class Kept:
    """Pieces that nobody uses now."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._pieces: list[mmap.mmap] = []
        self._lock = threading.RLock()  # a loan may end anywhere, here included

    def empty(self, count: int, type_: np.dtype[Any]) -> NDArray[Any]:
        """Room for some numbers, whatever is in it."""
        size = count * type_.itemsize
        if size < LARGE:
            return np.empty(count, type_)
        size = 1 << (size - 1).bit_length()  # few sizes, so that pieces fit; what is not written to is not there
        return np.frombuffer(_lent(self, self._taken(size), size), type_, count)

    def _taken(self, size: int) -> mmap.mmap:
        with self._lock:
            fitting = [position for position, piece in enumerate(self._pieces) if len(piece) == size]
            if fitting:
                return self._pieces.pop(fitting[-1])
        try:
            return _from_system(size)
        except OSError:
            self.keep_at_most(0)
        try:
            return _from_system(size)
        except OSError:
            raise MemoryError from None

    def keep_at_most(self, most: int) -> None:
        """Lets go of what is kept beyond this many bytes, now and from now on."""
        with self._lock:
            self._most = most
            self._trim()

    def give_back(self, piece: mmap.mmap) -> None:
        """Keeps a piece; the oldest ones go where there are too many."""
        with self._lock:
            self._pieces.append(piece)
            self._trim()

    def _trim(self) -> None:
        while sum(map(len, self._pieces)) > self._most:
            self._pieces.pop(0)

    def __len__(self) -> int:
        with self._lock:
            return len(self._pieces)


def _from_system(size: int) -> mmap.mmap:
    """A piece that nobody else sees, in large pages where there are any."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        piece.madvise(mmap.MADV_HUGEPAGE)
    return piece


def _lent(kept: Kept, piece: mmap.mmap, size: int) -> Any:
    loan = _loans(size).from_buffer(piece)
    loan.kept, loan.piece = kept, piece
    return loan


@cache
def _loans(size: int) -> Any:
    """Objects over a piece of this size, which give it back when they go."""

    def give_back(self: Any) -> None:
        self.kept.give_back(self.piece)

    return type("Loan", (ctypes.c_char * size,), {"__del__": give_back})


KEPT = Kept()
"""Those of this process."""


@cache
def keep_small_pieces() -> None:
    """Has the usual allocator keep what is smaller than `LARGE`, from now on.

    That of glibc gives a piece back to the system at once unless it has seen one that was larger go, and keeps up to twice the size
    of the largest (`M_MMAP_THRESHOLD` in mallopt(3)). Nothing is written here, so no page is ever touched. Others do not mind.
    """
    np.empty(LARGE, dtype=np.uint8)


class HeldColumn:
    """One column: numbers are copied, everything else and what has missing values is kept as it came."""

    def __init__(self, type_: pa.DataType, expected: int, *, narrow: bool = False) -> None:
        self._whole = type_
        self._type = pa.int32() if narrow and type_ == pa.int64() else type_
        self._size = max(expected, HELD_ROWS)
        self._numbers = _numbers_of(self._type)
        self._chunks: list[pa.Array] = []
        self._block: NDArray[Any] | None = None
        self._filled = 0

    def add(self, array: pa.Array) -> None:
        """Some more values."""
        if self._type != self._whole and not _is_narrow(array):
            self._widen()
        if self._numbers is None or array.null_count:
            self._close()
            self._chunks.append(array)
            return
        values = np.frombuffer(array.buffers()[1], _numbers_of(array.type))[array.offset : array.offset + len(array)]
        while len(values):
            if self._block is None:
                self._block = KEPT.empty(self._size, self._numbers)
            taken = values[: self._size - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            values = values[len(taken) :]
            if self._filled == self._size:
                self._close()

    def _widen(self) -> None:
        """What came so far, and what comes from now on, in as many bits as its type has."""
        self._close()
        self._type, self._numbers = self._whole, _numbers_of(self._whole)
        self._chunks = [chunk.cast(self._type) for chunk in self._chunks]

    def _close(self) -> None:
        """What is filled becomes a chunk."""
        if self._block is not None:
            self._chunks.append(pa.Array.from_buffers(self._type, self._filled, [None, pa.py_buffer(self._block)]))
        self._block, self._filled = None, 0

    def column(self) -> pa.ChunkedArray:
        """All values."""
        self._close()
        return pa.chunked_array(self._chunks, self._type)


def held(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], expected: int = 0, narrow: Container[str] = ()
) -> pa.Table:
    """All rows; numbers of at most as many rows as are expected lie in one piece. Memory is taken as it is filled.

    Columns that may be `narrow` are held as 32-bit integers where all of their numbers are such.
    """
    columns = [HeldColumn(field.type, expected, narrow=field.name in narrow) for field in schema]
    for batch in batches:
        if batch.num_rows:
            for column, array in zip(columns, batch.columns, strict=True):
                column.add(array)
    return pa.table([column.column() for column in columns], schema.names)


def _is_narrow(array: pa.Array) -> bool:
    """Whether all of some 64-bit numbers are there, and need no more than half of the bits."""
    if array.null_count or not len(array):
        return not len(array)
    values = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]
    return bool(values.min() >= -(1 << 31) and values.max() < 1 << 31)


def _numbers_of(type_: pa.DataType) -> np.dtype[Any] | None:
    """How the numbers of a type lie in memory; None where they are not simply one after the other."""
    if not pa.types.is_primitive(type_) or pa.types.is_boolean(type_):
        return None
    if pa.types.is_floating(type_):
        return np.dtype(f"f{type_.bit_width // 8}")
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(type_) else 'i'}{type_.bit_width // 8}")
