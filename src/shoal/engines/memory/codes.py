"""Columns as small numbers: equal codes for equal values, so that an owner and a group fit one machine word together.

Codes are positions of this table's values and mean nothing elsewhere: whatever is random or released goes by values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.group_keys import as_arrow, roomy
from shoal.frozen import dataclass
from shoal.plan.types import Kind, Type
from shoal.sql import functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.unsignedinteger[Any]]

MOST_GROUP_CODES = 1 << 22
MOST_OWNER_CODES = 1 << 40
"""Integers are coded by their distance from the smallest one while there are at most this many codes; else by a dictionary."""

FEW_CODES = 1 << 16
"""Up to this many group codes it is not worth finding out which of them rows have."""
BLOCK_ROWS = 1 << 16

_COUNTED = {Kind.INTEGER, Kind.BOOLEAN, Kind.DATE}
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as codes below `size`: distances from `lowest`, where 0 may mean NULL, or positions in `dictionary`."""

    codes: Codes
    size: int
    type: pa.DataType
    lowest: int = 0
    nulls: bool = False
    dictionary: pa.Array | None = None

    def values(self, codes: NDArray[np.int64]) -> pa.Array:
        """The values behind some codes."""
        if self.dictionary is not None:
            return roomy(pa.table({"k": self.dictionary})).column("k").take(as_arrow(codes)).combine_chunks()
        distances = codes.astype(np.uint64) + np.uint64(self.lowest % _WORD)
        numbers = as_arrow(distances.view(np.int64))
        if self.nulls:
            numbers = pc.if_else(pc.equal(as_arrow(codes), 0), None, numbers)
        return (numbers.cast(pa.int32()) if self.type == pa.date32() else numbers).cast(self.type)


def encode(column: pa.ChunkedArray, type_: Type, most: int, *, ours: bool = False) -> Coded:
    """Codes of a column: distances where there are at most `most`, else positions in a dictionary; NULL has a code too.

    A column that is `ours` may be written over.
    """
    counted = _distances(column, most, ours=ours) if type_.kind in _COUNTED else None
    if counted is not None:
        return counted
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
    joined = np.concatenate(codes) if codes else np.empty(0, dtype=np.int32)
    return Coded(joined.view(np.uint32), max(len(dictionary), 1), column.type, dictionary=dictionary)


def _distances(column: pa.ChunkedArray, most: int, *, ours: bool) -> Coded | None:
    stored = pa.int64() if column.type == pa.int32() else column.type  # whole numbers may be held in fewer bits
    numbers = column.cast(pa.int32() if column.type in {pa.date32(), pa.int32()} else pa.int64())
    ends = pc.min_max(numbers).as_py()
    nulls = numbers.null_count > 0
    # where values are missing, distances start at 1 and NULL is 0
    lowest = (ends["min"] or 0) - int(nulls)
    size = (ends["max"] or 0) - lowest + 1
    if size > most:
        return None
    if ours and not nulls and numbers.type == pa.int32() and (held := _writable(numbers)) is not None:
        np.subtract(held, np.int32(lowest), out=held)  # around the word, too
        return Coded(held.view(np.uint32), size, stored, lowest)
    codes: Codes = np.empty(len(numbers), dtype=_narrowest(size))
    start = 0
    for chunk in numbers.chunks:
        plain = (chunk.fill_null(0) if chunk.null_count else chunk).to_numpy(zero_copy_only=False)
        distance = codes[start : start + len(chunk)]
        # around the word and back: the smallest number less one may be no number of 64 bits
        first = np.uint64(lowest % _WORD) if plain.dtype == np.int64 else np.int64(lowest)
        np.subtract(plain.view(np.uint64) if plain.dtype == np.int64 else plain, first, out=distance, casting="unsafe")
        if chunk.null_count:
            distance[chunk.is_null().to_numpy(zero_copy_only=False)] = 0
        start += len(chunk)
    return Coded(codes, size, stored, lowest, nulls)


def _writable(numbers: pa.ChunkedArray) -> NDArray[Any] | None:
    """The numbers where they lie, if that is in one piece that can be written to."""
    if numbers.num_chunks != 1:
        return None
    chunk = numbers.chunk(0)
    held = np.frombuffer(chunk.buffers()[1], chunk.type.to_pandas_dtype())[chunk.offset : chunk.offset + len(chunk)]
    return held if held.flags.writeable else None


def _narrowest(size: int) -> str:
    return next(name for name, bits in (("u2", 16), ("u4", 32), ("u8", 64)) if size <= 1 << bits)


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner of every row as a code, and the canonical integer behind each code.

    Whole numbers stay as they are, and their distances from the lowest are taken when somebody asks for codes; they may be
    written over by then, where they are `ours`.
    """

    numbers: NDArray[Any]
    size: int
    lowest: int
    entries: NDArray[np.uint64] | None
    ours: bool = False

    @classmethod
    def of(cls, column: pa.ChunkedArray, type_: Type, *, ours: bool = False) -> Owners:
        """Owners are never NULL."""
        if type_.kind is Kind.INTEGER:
            whole = column.cast(pa.int64())
            lowest, highest = (each or 0 for each in pc.min_max(whole).as_py().values())
            if highest - lowest < MOST_OWNER_CODES:
                held = _writable(whole) if ours or whole.type != column.type else None
                numbers = whole.to_numpy() if held is None else held
                return cls(numbers, highest - lowest + 1, lowest, None, held is not None)
        coded = encode(column, type_, 0)
        return cls(coded.codes, coded.size, 0, functions.canonical_integers(coded.dictionary, type_))

    def codes(self, start: int = 0, end: int | None = None) -> NDArray[np.uint64]:
        """The codes of some rows."""
        numbers = self.numbers[start:end]
        if self.entries is not None:
            return numbers.astype(np.uint64)
        return np.subtract(numbers.view(np.uint64), np.uint64(self.lowest % _WORD))

    def room(self) -> NDArray[np.uint64] | None:
        """Where a word for each row may be written, once its code is read."""
        return self.numbers.view(np.uint64) if self.ours else None

    def canonical(self, codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The canonical integers of some owners; the caller drops bits above 62."""
        return codes + np.uint64(self.lowest % _WORD) if self.entries is None else self.entries[codes]


@dataclass(frozen=True, slots=True)
class Step:
    """How the codes of one more key are combined with those before: their product, or positions in a dictionary of products."""

    key: Coded
    type: Type
    dictionary: NDArray[np.uint64] | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of every row as one code below `size`, and how its keys are read off the code."""

    codes: Codes
    size: int
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, rows: pa.Table, types: tuple[Type, ...], *, ours: bool = False) -> Groups:
        """The keys k0, k1 … of a row together; without keys there is one group. Columns that are `ours` may be written over."""
        groups = cls(np.zeros(0 if types else rows.num_rows, dtype=np.uint16), 1, ())
        for number, type_ in enumerate(types):
            groups = groups._with(encode(rows.column(f"k{number}"), type_, MOST_GROUP_CODES, ours=ours), type_)
        return groups

    def _with(self, key: Coded, type_: Type) -> Groups:
        """One key more; codes by a dictionary where there would be too many."""
        step = Step(replace(key, codes=np.empty(0, dtype=np.uint16)), type_)
        if not self.steps:
            return Groups(key.codes, key.size, (step,))
        pairs = self.codes.astype(np.uint64) * np.uint64(key.size) + key.codes
        size = self.size * key.size
        if size <= MOST_GROUP_CODES:
            return Groups(pairs.astype(_narrowest(size)), size, (*self.steps, step))
        encoded = pa.array(pairs).dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).view(np.uint32)
        entries = encoded.dictionary.to_numpy(zero_copy_only=False)
        return Groups(codes, max(len(entries), 1), (*self.steps, replace(step, dictionary=entries)))

    def existing(self) -> NDArray[np.int64]:
        """Codes that rows have; where there are few codes, or nearly all are sure to occur, all of them."""
        last = self.steps[-1] if self.steps else None
        listed = last is not None and (last.dictionary if len(self.steps) > 1 else last.key.dictionary) is not None
        if self.size <= FEW_CODES or listed:
            return np.arange(self.size if len(self.codes) else 0)
        found = np.zeros(self.size, dtype=bool)
        for start in range(0, len(self.codes), BLOCK_ROWS):
            found[self.codes[start : start + BLOCK_ROWS]] = True
        return np.flatnonzero(found)

    def canonical(self) -> list[NDArray[np.uint64]]:
        """For each key, the canonical integer behind every code that rows have."""
        existing = self.existing()
        found = []
        for column, step in zip(self.keys(existing).columns, self.steps, strict=True):
            integers = np.zeros(self.size, dtype=np.uint64)
            integers[existing] = functions.canonical_integers(column, step.type)
            found.append(integers)
        return found

    def keys(self, codes: NDArray[np.int64]) -> pa.Table:
        """The keys of some groups."""
        columns: list[pa.Array] = []
        for step in reversed(self.steps):
            pairs = codes if step.dictionary is None else step.dictionary[codes].astype(np.int64)
            codes, own = np.divmod(pairs, step.key.size)
            columns.append(step.key.values(own))
        return pa.table({f"k{i}": column for i, column in enumerate(reversed(columns))})
