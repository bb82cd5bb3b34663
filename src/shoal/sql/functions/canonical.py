"""Canonical integers: one 62-bit number for each owner and each group key, the same in the engine and in memory.

Sampling hashes these, never positions or dictionary codes. Equal values have equal integers; different values may
share one (integers that agree in their low 62 bits do), so ordering by a hash needs the value itself as the
tie-break.

| type | integer |
|---|---|
| integer, boolean | its low 62 bits in two's complement |
| date, timestamp, time | days, microseconds, microseconds since midnight, as an integer |
| text | the low 62 bits of the MD5 of its UTF-8 bytes, read little-endian |
| decimal | the same for its fixed-scale decimal digits |
| double | its 64 IEEE bits b, folded: the low 62 bits of b ⊕ ⌊b / 2³²⌋ |
| NULL | a constant |
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from shoal.errors import InternalError
from shoal.plan.totals import MASK
from shoal.plan.types import Kind, Type
from shoal.sql.functions import forms
from shoal.sql.functions.forms import builtin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

NULL_INTEGER = 0x1B873593_CC9E2D51 & MASK
"""The canonical integer of NULL."""

_FOREVER = (1 << 63) - 1


def canonical_integer(value: exp.Expr, type_: Type) -> exp.Expr:
    """The canonical integer of a value, as a BIGINT in [0, 2⁶²)."""
    if type_.kind is Kind.NULL:
        return forms.number(NULL_INTEGER)
    if type_.kind not in _IN_ENGINE:
        raise InternalError(f"a value of type {type_} has no canonical integer")
    return exp.Coalesce(this=_IN_ENGINE[type_.kind](value), expressions=[forms.number(NULL_INTEGER)])


def _low_bits(value: exp.Expr) -> exp.Expr:
    return builtin("&", forms.cast(value, "BIGINT"), forms.number(MASK))


def _digest(value: exp.Expr) -> exp.Expr:
    low = builtin("&", builtin("md5_number", value), forms.cast(forms.number(MASK), "UHUGEINT"))
    return forms.try_cast(low, "BIGINT")


def _days(value: exp.Expr) -> exp.Expr:
    return _low_bits(builtin("-", value, forms.cast(forms.text("1970-01-01"), "DATE")))


def _folded_bits(value: exp.Expr) -> exp.Expr:
    bits = forms.try_cast(forms.cast(value, "BIT"), "UBIGINT")
    half = forms.cast(forms.number(32), "UBIGINT")
    folded = forms.let(bits, lambda b: builtin("xor", b, builtin(">>", b.copy(), half)))
    return forms.try_cast(builtin("&", folded, forms.cast(forms.number(MASK), "UBIGINT")), "BIGINT")


_IN_ENGINE: dict[Kind, Callable[[exp.Expr], exp.Expr]] = {
    Kind.INTEGER: _low_bits,
    Kind.BOOLEAN: _low_bits,
    Kind.DATE: _days,
    Kind.TIMESTAMP: lambda value: _low_bits(builtin("epoch_us", value)),
    Kind.TIME: lambda value: _low_bits(builtin("epoch_us", value)),
    Kind.TEXT: _digest,
    Kind.DOUBLE: _folded_bits,
    Kind.DECIMAL: lambda value: _digest(forms.cast(value, "VARCHAR")),
}


def canonical_integers(array: pa.Array | pa.ChunkedArray, type_: Type) -> NDArray[np.uint64]:
    """The canonical integers of an Arrow array of values of this type.

    >>> canonical_integers(pa.array([1, -1, None]), Type(Kind.INTEGER)).tolist()
    [1, 4611686018427387903, 1983613069789375825]
    """
    plain = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(plain.type):
        return _of_dictionary(plain, type_)
    if type_.kind is Kind.DOUBLE:
        return _of_doubles(plain)
    if type_.kind in {Kind.TEXT, Kind.DECIMAL}:
        encoded = pc.dictionary_encode(plain)
        return _of_codes(encoded, _digests(_written(encoded.dictionary, type_)))
    return _of_integers(plain, type_)


def _of_dictionary(array: Any, type_: Type) -> NDArray[np.uint64]:
    return _of_codes(array, canonical_integers(array.dictionary, type_))


def _of_codes(array: Any, of_dictionary: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each row takes the integer of its dictionary entry; a missing code is NULL."""
    table = np.append(of_dictionary, np.uint64(NULL_INTEGER))
    codes = pc.fill_null(array.indices.cast(pa.int64()), len(of_dictionary)).to_numpy(zero_copy_only=False)
    return np.asarray(table[codes], dtype=np.uint64)


def _of_doubles(array: Any) -> NDArray[np.uint64]:
    """NULL becomes NaN on the way to NumPy, and NaN is NULL everywhere in a plan; −0.0 is 0.0."""
    return folded_bits(array.cast(pa.float64()).to_numpy(zero_copy_only=False))


def folded_bits(doubles: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The canonical integers of doubles, NaN standing for NULL.

    >>> folded_bits(np.array([1.0, -0.0, np.nan])).tolist()
    [4607182419872710656, 0, 1983613069789375825]
    """
    bits = (doubles + 0.0).view(np.uint64)
    folded = (bits ^ (bits >> np.uint64(32))) & np.uint64(MASK)
    return np.where(np.isnan(doubles), np.uint64(NULL_INTEGER), folded)


def _written(values: Any, type_: Type) -> Iterable[bytes]:
    """The bytes that are hashed, one entry for each distinct value."""
    if type_.kind is Kind.TEXT:
        return values.cast(pa.large_binary()).to_pylist() if len(values) else []
    return [_fixed(value, type_).encode() for value in values.to_pylist()]


def _fixed(value: Any, type_: Type) -> str:
    """A decimal as the engine writes it: `.50` when no digit fits before the point."""
    digits = format(value, "f")
    return digits.replace("0.", ".", 1) if type_.precision == type_.scale else digits


def _digests(written: Iterable[bytes | None]) -> NDArray[np.uint64]:
    digests = [NULL_DIGEST if w is None else hashlib.md5(w, usedforsecurity=False).digest()[:8] for w in written]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64) & np.uint64(MASK)


NULL_DIGEST = NULL_INTEGER.to_bytes(8, "little")


def _of_integers(array: Any, type_: Type) -> NDArray[np.uint64]:
    signed = _as_int64(array, type_)
    missing = pc.is_null(signed).to_numpy(zero_copy_only=False)
    values = pc.fill_null(signed, 0).to_numpy(zero_copy_only=False).view(np.uint64) & np.uint64(MASK)
    return np.where(missing, np.uint64(NULL_INTEGER), values)


def _microseconds(array: Any) -> Any:
    """Since 1970; infinities are NULL, and nanoseconds round to the nearest, halves away from zero, as in the engine."""
    raw = array.cast(pa.int64())
    finite = pc.if_else(pc.is_in(raw, pa.array([_FOREVER, -_FOREVER])), None, raw)
    if array.type.unit != "ns":
        return pc.multiply(finite, {"s": 1_000_000, "ms": 1000, "us": 1}[array.type.unit])
    return pc.multiply(pc.sign(finite), pc.divide(pc.add(pc.abs(finite), 500), 1000))


def _as_int64(array: Any, type_: Type) -> Any:
    if type_.kind is Kind.NULL:
        return pa.nulls(len(array), pa.int64())
    if type_.kind is Kind.DATE:
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if type_.kind is Kind.TIMESTAMP:
        return _microseconds(array)
    if type_.kind is Kind.TIME:
        return array.cast(pa.time64("us")).cast(pa.int64())
    return array.cast(pa.int64())
