"""Rows in memory, handed on in the order in which functions see them: those of an owner together, sorted by all that is seen.

The order is the one of `stages.statement`, except that owners come in any order. A row becomes one machine word (owner, leading
bits of what functions see, row), because NumPy sorts words many times faster than an engine sorts rows; rows that agree in these
bits are looked at again. Beside the rows there is one array of words, and everything else is made piece by piece: memory that is
new to a process costs more than sorting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Places = slice | NDArray[np.int64]

WORD = 64
PIECE_ROWS = 1 << 15
_TOP = np.uint64(1 << (WORD - 1))


class TooManyBits(Exception):  # noqa: N818 - not a failure: the engine sorts instead
    """Owners and rows do not fit one word together."""


def sorted_batches(
    read: Callable[[], pa.Table], otherwise: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The rows that are read, in order, an empty batch first; `otherwise` sorts them where they cannot be sorted here."""
    try:
        rows = read()
        found = in_order(rows)
    except (TooManyBits, MemoryError, pa.ArrowException):
        rows = found = None
    if rows is None or found is None:  # out here nothing holds what was read
        yield from otherwise()
        return
    yield pa.RecordBatch.from_pylist([], rows.schema)
    yield from found


def in_order(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows, those of an owner (the first column) together, sorted by the columns from left to right."""
    whole = rows.combine_chunks()
    order = Order.of([Sortable.of(column) for column in whole.columns], rows.num_rows)
    return (
        pa.record_batch([column.take(pa.array(positions)) for column in _chunks(whole)], schema=rows.schema)
        for positions in order.pieces()
    )


def _chunks(whole: pa.Table) -> list[pa.Array]:
    return [column.chunk(0) if column.num_chunks else column.combine_chunks() for column in whole.columns]


@dataclass(frozen=True, slots=True)
class Sortable:
    """A column whose values are sorted as words are: distances from the lowest, NULL before all others."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None
    lowest: np.uint64
    bits: int

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Sortable:
        """Machine numbers as they are, other values by their position among all of them."""
        missing = np.asarray(column.is_null().combine_chunks()) if column.null_count else None
        values = _numbers(column) if _is_number(column.type) else _ranks(column)
        there = values if missing is None else values[~missing]
        lowest, highest = (there.min(), there.max()) if len(there) else (values.dtype.type(0),) * 2
        if lowest != lowest:  # noqa: PLR0124 - there is a NaN
            raise TooManyBits
        ends = _words(np.array([lowest, highest]))
        size = int(ends[1] - ends[0]) + (missing is not None)
        if size >> WORD:
            raise TooManyBits
        return cls(values, missing, ends[0], size.bit_length())

    def numbers(self, rows: Places) -> NDArray[np.uint64]:
        """Below 2^bits, for some rows."""
        numbers = _words(self.values[rows]) - self.lowest
        if self.missing is not None:
            numbers += np.uint64(1)
            numbers[self.missing[rows]] = 0
        return numbers


@dataclass(frozen=True, slots=True)
class Order:
    """Sorted words: the row is in the low bits, and above it as much of the columns as there was room for."""

    columns: list[Sortable]
    words: NDArray[np.uint64]
    row_bits: int

    @classmethod
    def of(cls, columns: list[Sortable], rows: int) -> Order:
        """All rows; TooManyBits where there is no room for the owner."""
        row_bits = max(rows - 1, 0).bit_length()
        if columns[0].bits > WORD - row_bits:
            raise TooManyBits
        words = np.arange(rows, dtype=np.uint64)
        for start in range(0, rows, PIECE_ROWS):
            positions = slice(start, start + PIECE_ROWS)
            _write(words[positions], columns, positions, WORD - row_bits)
        words.sort()
        return cls(columns, words, row_bits)

    def pieces(self) -> Iterator[NDArray[np.int64]]:
        """The rows in order, some at a time. Rows that look alike are in one piece."""
        start, rows = 0, len(self.words)
        while start < rows:
            end = min(start + PIECE_ROWS, rows)
            if end < rows:  # up to the last one that looks like the one before the cut
                end = int(np.searchsorted(self.words, self.words[end - 1] | self._row_mask, side="right"))
            yield self._sorted(self.words[start:end])
            start = end

    @property
    def _row_mask(self) -> np.uint64:
        return np.uint64((1 << self.row_bits) - 1)

    def _sorted(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Rows of some words; those that look alike are sorted by whole columns, unless words hold all of these."""
        rows = (words & self._row_mask).view(np.int64)
        if sum(column.bits for column in self.columns) <= WORD - self.row_bits:
            return rows
        heads = words >> np.uint64(self.row_bits)
        alike = np.zeros(len(heads) + 1, dtype=bool)
        np.equal(heads[1:], heads[:-1], out=alike[1:-1])
        members = np.flatnonzero(alike[1:] | alike[:-1])
        if len(members):
            tied = rows[members]
            keys = [column.numbers(tied) for column in reversed(self.columns[1:])]
            rows[members] = tied[np.lexsort([*keys, heads[members]])]
        return rows


def _write(words: NDArray[np.uint64], columns: list[Sortable], positions: slice, free: int) -> None:
    """Adds columns to the words of some rows, from the highest bit down, until there is no room."""
    shift = WORD - free
    for column in columns:
        taken = min(column.bits, free)
        free -= taken
        if taken:
            words |= column.numbers(positions) >> np.uint64(column.bits - taken) << np.uint64(shift + free)
        if taken < column.bits:
            return


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_))


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Machine numbers; the one in place of NULL means nothing."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width < WORD else pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return np.asarray((column.fill_null(0) if column.null_count else column).combine_chunks().to_numpy())


def _ranks(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Other values by their position among all of them, strings compared by their bytes; the one in place of NULL means nothing."""
    encoded = column.combine_chunks().dictionary_encode()
    ranks = np.zeros(max(len(encoded.dictionary), 1), dtype=np.uint64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary), dtype=np.uint64)
    return np.asarray(ranks[encoded.indices.fill_null(0).to_numpy()])


def _words(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Machine numbers as words that are sorted alike."""
    if values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # there is one zero
        return np.where(bits >= _TOP, ~bits, bits | _TOP)
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    return values.astype(np.int64).view(np.uint64) ^ _TOP
