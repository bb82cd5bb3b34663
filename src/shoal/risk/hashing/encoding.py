"""From a batch of a column to hashes, once for each distinct value where values repeat.

Hashing costs about 70 ns a value and finding the distinct ones 5 to 700 ns a row, depending on how many there are: a
look at the first rows of a batch decides. Nothing about the result depends on that choice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.frozen import dataclass
from shoal.risk.hashing import shapes
from shoal.risk.hashing.canonical import canonical
from shoal.risk.hashing.messages import Shapes, combination

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes, Positions, SipHash

_LOOK = 4096  # rows looked at before choosing
_LONGEST_SPAN = 1 << 17  # integers hashed ahead of time
_REPEATING = 0.5  # distinct values per row, below which finding them pays

Codes = npt.NDArray[np.int64] | npt.NDArray[np.int32]


class Shaped(Protocol):
    """Knows the shapes of values by their positions."""

    def shapes(self, chosen: Positions) -> Shapes:
        """The shapes at these positions."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A column of a batch: hashes of its values, and which of them each row has (`codes` None: row i has hash i)."""

    hashes: Hashes
    codes: Codes | None
    shaped: Shaped
    length: int

    def by_row(self) -> Hashes:
        """The hash of each row."""
        return self.hashes if self.codes is None else self.hashes[self.codes]

    def take(self, rows: Positions) -> Encoded:
        """Some of the rows."""
        codes = rows if self.codes is None else self.codes[rows]
        return Encoded(self.hashes, codes, self.shaped, len(rows))


class _Combinations:
    """The shape of a combination says only that it is one."""

    def shapes(self, chosen: Positions) -> Shapes:
        return np.full(len(chosen), shapes.COMBINATION, dtype=np.uint16)


class ColumnEncoder:
    """Encodes the batches of one column; remembers the last dictionary it saw."""

    def __init__(self, hasher: SipHash) -> None:
        self._hasher = hasher
        self._dictionary: pa.Array | None = None
        self._of_dictionary: tuple[Hashes, Shaped] | None = None
        self._known_span: tuple[int, int] | None = None
        self._of_span: tuple[Hashes, Shaped]

    def encode(self, array: pa.Array) -> Encoded:
        """The hashes of an array, and which row has which."""
        if pa.types.is_dictionary(array.type):
            return self._encode_dictionary(array)
        span = self._span(array)
        if span is not None:
            return self._encode_span(array, *span)
        if not _repeats(array):
            form = canonical(array, self._hasher)
            return Encoded(form.hashes(self._hasher), None, form, len(array))
        array = array.dictionary_encode(null_encoding="encode")
        form = canonical(array.dictionary, self._hasher)
        return Encoded(form.hashes(self._hasher), array.indices.to_numpy(), form, len(array))

    def _span(self, array: pa.Array) -> tuple[int, int] | None:
        """The first and last of integers or dates that lie close together, in this batch and those before."""
        if len(array) < _LOOK or not (pa.types.is_date32(array.type) or pa.types.is_signed_integer(array.type)):
            return None
        ends = pc.min_max(array.cast(pa.int32()) if pa.types.is_date32(array.type) else array)
        if ends["min"].as_py() is None:
            return None
        low, high = int(ends["min"].as_py()), int(ends["max"].as_py())
        known = self._known_span
        wide = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
        return next((span for span in (wide, (low, high)) if span[1] - span[0] < _LONGEST_SPAN), None)

    def _encode_span(self, array: pa.Array, low: int, high: int) -> Encoded:
        """Every integer of the span is hashed once, and a row's code is its distance from the first."""
        if self._known_span != (low, high):
            numbers = pa.array(np.arange(low, high + 1)).cast(
                pa.int32() if pa.types.is_date32(array.type) else pa.int64()
            )
            every = pa.concat_arrays([numbers.cast(array.type), pa.nulls(1, array.type)])
            form = canonical(every, self._hasher)
            self._known_span, self._of_span = (low, high), (form.hashes(self._hasher), form)
        plain = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
        codes = plain.cast(pa.int64()).fill_null(high + 1).to_numpy() - low
        hashes, shaped = self._of_span
        return Encoded(hashes, codes, shaped, len(array))

    def _encode_dictionary(self, array: pa.DictionaryArray) -> Encoded:
        dictionary, indices = array.dictionary, array.indices
        if indices.null_count:  # one more entry, NULL, for the rows without an index
            dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
            indices = indices.cast(pa.int64()).fill_null(len(dictionary) - 1)
        codes = indices.cast(pa.int64()).to_numpy()
        if len(dictionary) > 2 * len(codes) and not self._same_dictionary(dictionary):
            used, codes = np.unique(codes, return_inverse=True)
            dictionary = dictionary.take(pa.array(used))
        hashes, shaped = self._hashes_of(dictionary)
        return Encoded(hashes, codes, shaped, len(codes))

    def _hashes_of(self, dictionary: pa.Array) -> tuple[Hashes, Shaped]:
        """Batches of one row group share a dictionary, which is hashed once."""
        if self._of_dictionary is None or not self._same_dictionary(dictionary):
            form = canonical(dictionary, self._hasher)
            self._dictionary, self._of_dictionary = dictionary, (form.hashes(self._hasher), form)
        return self._of_dictionary

    def _same_dictionary(self, dictionary: pa.Array) -> bool:
        known = self._dictionary
        return known is not None and len(known) == len(dictionary) and dictionary.equals(known)


def _repeats(array: pa.Array) -> bool:
    if pa.types.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType) or pa.types.is_null(array.type):
        return False
    if pa.types.is_run_end_encoded(array.type):
        return False
    start = array.slice(0, _LOOK)
    return len(start) > 0 and len(start.unique()) < _REPEATING * len(start)


def combine(columns: list[Encoded], hasher: SipHash) -> Encoded:
    """The hashes of a combination of columns, row by row, or by distinct pairs of codes where these are few."""
    sizes = [len(column.hashes) for column in columns]
    rows = columns[0].length
    coded = [column.codes for column in columns if column.codes is not None]
    if len(coded) < len(columns) or math.prod(sizes) > rows:
        return Encoded(combination([column.by_row() for column in columns], hasher), None, _Combinations(), rows)
    codes = np.zeros(rows, dtype=np.int64)
    for more, size in zip(coded, sizes, strict=True):
        codes = codes * size + more
    grids = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    every = [column.hashes[grid] for column, grid in zip(columns, grids, strict=True)]
    return Encoded(combination(every, hasher), codes, _Combinations(), rows)
