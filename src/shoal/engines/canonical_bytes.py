"""Columns of keys as bytes and back: equal bytes for equal values, whatever compares them.

Another engine may think that 0.0 and −0.0 are one group, that NaN is none, or that two texts are equal under some collation. It
gets bytes, which mean the same to everybody; NULL stays NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of canonical values as a column of bytes.

    >>> [value and value.hex() for value in to_bytes(pa.chunked_array([[1, None]])).to_pylist()]
    ['0100000000000000', None]
    """
    return pa.chunked_array([_array_to_bytes(chunk) for chunk in column.chunks], pa.binary())


def _array_to_bytes(array: pa.Array) -> pa.Array:
    if _is_text(array.type):
        return array.cast(pa.binary())
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary())
    width = _width(array.type)
    whole = pa.concat_arrays([array]) if array.offset else array
    offsets = pa.array(np.arange(len(whole) + 1, dtype=np.int32) * np.int32(width))
    _, numbers = whole.buffers()
    bytes_ = pa.Array.from_buffers(pa.binary(), len(whole), [_validity(whole), offsets.buffers()[1], numbers])
    # Below a NULL may lie anything: what is compared as bytes must not hold it.
    return pa.compute.if_else(bytes_.is_valid(), bytes_, pa.scalar(None, pa.binary()))


def _validity(array: pa.Array) -> Any:
    return array.buffers()[0] if array.null_count else None


def from_bytes(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The column that `to_bytes` was given.

    >>> from_bytes(to_bytes(pa.chunked_array([[True, None]])), pa.bool_()).to_pylist()
    [True, None]
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.binary())
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
        raise InternalError("bytes that are no value of their type")
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
