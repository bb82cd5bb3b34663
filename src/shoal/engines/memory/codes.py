"""Columns as small numbers: equal codes for equal values, so that an owner and a group fit one machine word together.

Codes are positions of this table's values and mean nothing elsewhere: whatever is random or released goes by values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.group_keys import roomy
from shoal.plan.types import Kind, Type
from shoal.sql import functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.unsignedinteger[Any]]

MOST_GROUP_CODES = 1 << 22
MOST_OWNER_CODES = 1 << 40
"""Integers are coded by their distance from the smallest one while there are at most this many codes; else by a dictionary."""

BLOCK_ROWS = 1 << 16

_COUNTED = {Kind.INTEGER, Kind.BOOLEAN, Kind.DATE}
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as codes below `size`: distances from `lowest`, or places in `dictionary`."""

    codes: Codes
    size: int
    lowest: int = 0
    dictionary: pa.Array | None = None


def encode(column: pa.ChunkedArray, type_: Type, most: int) -> Coded:
    """Codes of a column: distances where there are at most `most`, else places in a dictionary; NULL has a code too."""
    counted = _distances(column, most) if type_.kind in _COUNTED else None
    if counted is not None:
        return counted
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
    joined = np.concatenate(codes) if codes else np.empty(0, dtype=np.int32)
    return Coded(joined.view(np.uint32), max(len(dictionary), 1), dictionary=dictionary)


def _distances(column: pa.ChunkedArray, most: int) -> Coded | None:
    numbers = (column.cast(pa.int32()) if column.type == pa.date32() else column).cast(pa.int64())
    ends = pc.min_max(numbers).as_py()
    nulls = numbers.null_count > 0
    # where values are missing, distances start at 1 and NULL is 0
    lowest = (ends["min"] or 0) - int(nulls)
    size = (ends["max"] or 0) - lowest + 1
    if size > most:
        return None
    codes: Codes = np.empty(len(numbers), dtype="u4" if size <= 1 << 32 else "u8")
    start = 0
    for chunk in numbers.chunks:
        plain = (chunk.fill_null(0) if chunk.null_count else chunk).to_numpy(zero_copy_only=False)
        distance = plain.view(np.uint64) - np.uint64(lowest % _WORD)
        if chunk.null_count:
            distance[chunk.is_null().to_numpy(zero_copy_only=False)] = 0
        codes[start : start + len(chunk)] = distance
        start += len(chunk)
    return Coded(codes, size, lowest)


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner of every row as a code, and the canonical integer behind each code."""

    codes: Codes
    size: int
    lowest: int
    entries: NDArray[np.uint64] | None

    @classmethod
    def of(cls, column: pa.ChunkedArray, type_: Type) -> Owners:
        """Owners are never NULL."""
        coded = encode(column, type_, MOST_OWNER_CODES if type_.kind is Kind.INTEGER else 0)
        entries = None if coded.dictionary is None else functions.canonical_integers(coded.dictionary, type_)
        return cls(coded.codes, coded.size, coded.lowest, entries)

    def canonical(self, codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The canonical integers of some owners; the caller drops bits above 62."""
        return codes + np.uint64(self.lowest % _WORD) if self.entries is None else self.entries[codes]


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of every row as one code below `size`; `example` is a row of each group, −1 for codes that no row has."""

    codes: Codes
    size: int
    example: NDArray[np.int64]
    columns: tuple[pa.ChunkedArray, ...]
    types: tuple[Type, ...]

    @classmethod
    def of(cls, rows: pa.Table, types: tuple[Type, ...]) -> Groups:
        """The keys k0, k1 … of a row together; without keys there is one group."""
        columns = tuple(rows.column(f"k{i}") for i in range(len(types)))
        codes: Codes = np.zeros(rows.num_rows, dtype=np.uint32)
        size = 1
        for column, type_ in zip(columns, types, strict=True):
            coded = encode(column, type_, MOST_GROUP_CODES)
            codes, size = _combined(codes, size, coded) if size > 1 else (coded.codes, coded.size)
        return cls(codes, size, _examples(codes, size), columns, types)

    def existing(self) -> NDArray[np.int64]:
        """Codes that rows have."""
        return np.flatnonzero(self.example >= 0)

    def canonical(self) -> list[NDArray[np.uint64]]:
        """For each key, the canonical integer behind every code that rows have."""
        existing = self.existing()
        found = []
        for column, type_ in zip(self.keys(existing).columns, self.types, strict=True):
            integers = np.zeros(self.size, dtype=np.uint64)
            integers[existing] = functions.canonical_integers(column, type_)
            found.append(integers)
        return found

    def keys(self, codes: NDArray[np.int64]) -> pa.Table:
        """The keys of some groups that have rows."""
        rows = self.example[codes]
        return pa.table({f"k{i}": _take(column, rows) for i, column in enumerate(self.columns)})


def _take(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array:
    """The values of some rows; chunk by chunk, because Arrow would copy the whole column into one first."""
    column = roomy(pa.table({"k": column})).column("k")
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum([len(chunk) for chunk in column.chunks], dtype=np.int64)
    cuts = np.searchsorted(rows[order], ends)
    parts = [pa.array([], column.type)]
    start = 0
    for chunk, end, stop in zip(column.chunks, ends, cuts, strict=True):
        parts.append(chunk.take(pa.array(rows[order[start:stop]] - (end - len(chunk)))))
        start = stop
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.concat_arrays(parts).take(pa.array(back))


def _examples(codes: Codes, size: int) -> NDArray[np.int64]:
    """A row of every code, −1 for codes without; in blocks that stay in the processor's caches."""
    example = np.full(size, -1, dtype=np.int64)
    for start in range(0, len(codes), BLOCK_ROWS):
        block = codes[start : start + BLOCK_ROWS]
        example[block] = np.arange(start, start + len(block), dtype=np.int64)
    return example


def _combined(codes: Codes, size: int, other: Coded) -> tuple[Codes, int]:
    """Pairs of codes as codes; by a dictionary where there would be too many."""
    pairs = codes.astype(np.uint64) * np.uint64(other.size) + other.codes
    if size * other.size <= MOST_GROUP_CODES:
        return pairs.astype(np.uint32), size * other.size
    encoded = pa.array(pairs).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).view(np.uint32), max(len(encoded.dictionary), 1)
