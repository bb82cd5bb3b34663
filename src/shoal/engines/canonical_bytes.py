"""Columns of keys as bytes and back: equal bytes for equal values, whatever compares them.

Another engine may think that 0.0 and −0.0 are one group, that NaN is none, or that two strings are equal under some collation. It
gets bytes, which mean the same to everybody; NULL stays NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BYTES = pa.large_binary()
"""With room for more than 2 GiB of keys: one more key must not be what a query fails on."""
_HASHED_BYTES = 64
_ODD = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.cumprod(np.full(_HASHED_BYTES, _ODD))


def to_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of canonical values as a column of bytes.

    >>> [value and value.hex() for value in to_bytes(pa.chunked_array([[1, None]])).to_pylist()]
    ['0100000000000000', None]
    """
    return pa.chunked_array([_array_to_bytes(chunk) for chunk in column.chunks], BYTES)


def _array_to_bytes(array: pa.Array) -> pa.Array:
    if _is_text(array.type):
        return array.cast(pa.large_string()).cast(BYTES)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_null(array.type):
        return pa.nulls(len(array), BYTES)
    width = _width(array.type)
    whole = pa.concat_arrays([array]) if array.offset else array
    offsets = pa.array(np.arange(len(whole) + 1, dtype=np.int64) * width)
    _, numbers = whole.buffers()
    bytes_ = pa.Array.from_buffers(BYTES, len(whole), [_validity(whole), offsets.buffers()[1], numbers])
    # Below a NULL may lie anything: what is compared as bytes must not hold it.
    return pa.compute.if_else(bytes_.is_valid(), bytes_, pa.scalar(None, BYTES))


def _validity(array: pa.Array) -> Any:
    return array.buffers()[0] if array.null_count else None


def parts_of(coded: pa.Table, parts: int) -> NDArray[np.int64]:
    """A number below `parts` for each row, the same for equal keys everywhere; it goes by the first bytes of every key.

    >>> parts_of(pa.table({"k0": pa.array([b"a", b"b", b"a"], pa.binary())}), 1 << 20).tolist()
    [355441, 1005431, 355441]
    """
    spread = np.zeros(coded.num_rows, dtype=np.uint64)
    for column in coded.columns:
        joined = column.cast(pa.large_binary()).combine_chunks()
        keys = pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined
        spread = spread * _ODD + _hashed(keys)
    spread ^= spread >> np.uint64(29)
    return ((spread * _ODD >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)


def _hashed(keys: pa.Array) -> NDArray[np.uint64]:
    """Σ (byte + 1)·oddᵖˡᵃᶜᵉ over the first bytes, in words that wrap around; 0 for NULL and for no bytes."""
    _, ends, stored = keys.buffers()
    borders = np.frombuffer(ends, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.where(np.asarray(keys.is_valid()), np.minimum(np.diff(borders), _HASHED_BYTES), 0)
    last = np.cumsum(lengths)
    positions = np.arange(int(lengths.sum())) - np.repeat(last - lengths, lengths)
    bytes_ = np.frombuffer(stored, np.uint8) if stored is not None and stored.size else np.zeros(1, np.uint8)
    read = bytes_[np.repeat(borders[:-1], lengths) + positions].astype(np.uint64) + np.uint64(1)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(read * _POWERS[positions])])
    return np.asarray(sums[last] - sums[last - lengths])


def from_bytes(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The column that `to_bytes` was given.

    >>> from_bytes(to_bytes(pa.chunked_array([[True, None]])), pa.bool_()).to_pylist()
    [True, None]
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], BYTES)
    return pa.chunked_array([_array_from_bytes(array, type_)], type_)


def _array_from_bytes(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if _is_text(type_):
        return array.cast(type_)
    if pa.types.is_null(type_):
        return pa.nulls(len(array))
    if pa.types.is_boolean(type_):
        return _array_from_bytes(array, pa.uint8()).cast(pa.bool_())
    width = _width(type_)
    filled = array.fill_null(bytes(width)) if array.null_count else pa.concat_arrays([array])
    joined = b"".join(filled.to_pylist())
    if len(joined) != width * len(array):
        raise InternalError("bytes that are not a value of their type")
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.Array.from_buffers(type_, len(array), [_bitmap(missing), pa.py_buffer(joined)])


def _bitmap(missing: NDArray[np.bool_] | None) -> Any:
    return None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _width(type_: pa.DataType) -> int:
    try:
        return int(type_.byte_width)
    except ValueError:
        raise InternalError("a key of a type without a fixed width") from None
