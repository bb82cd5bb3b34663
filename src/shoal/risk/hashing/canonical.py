"""The canonical form of a value: the bytes that are hashed, the same whichever engine or file format it came through.

A form is a payload and a final byte, the kind:

| kind | value | payload |
|---|---|---|
| `0` | NULL, NaN | nothing |
| `i` | a whole number from −2⁶³ to 2⁶³ − 1 of any numeric type (7, 7.0, 7.00; −0.0 is 0) | 8 bytes, two's complement |
| `f` | another number that is a double or has at most 15 significant digits | 8 bytes of the nearest IEEE double |
| `n` | any other number | text `digits e exponent`, without trailing zeros |
| `b` | boolean | 8 bytes, 0 or 1 |
| `t` | date (its midnight) or timestamp (with a zone: in UTC) | 8 bytes of seconds since 1970, 4 of nanoseconds |
| `c` | time of day | 8 bytes of nanoseconds |
| `d` | duration | 8 bytes of seconds, 4 of nanoseconds |
| `v` | calendar interval | 4 bytes of months, 4 of days, 8 of nanoseconds |
| `s` | text, UUID (36 lower-case characters) | UTF-8, as it is: no folding, no trimming |
| `x` | bytes | as they are |
| `l` | list | the 8-byte hashes of its elements, in order |
| `r` | record | the hashes of name and value of each field, ordered by name |
| `m` | map | the hashes of its entries as records, ordered by hash |
| `T` | a combination of columns | the hashes of the values, in the order of the columns |

All integers are little-endian. A payload of more than 256 bytes is folded first: the hashes of its 128-byte pieces
(kind `p`) become the payload, the kind gets its high bit set, and so on until it is short enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import ShoalError
from shoal.risk.hashing.messages import Canonical, Form, Part, Texts, Words, fixed, last_block, lists_of_hashes, texts
from shoal.risk.hashing.numbers import decimals, floats

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes, SipHash


def canonical(array: pa.Array, hasher: SipHash) -> Canonical:
    """The canonical form of every value of an Arrow array; the hash function is for what is nested or long."""
    array = _unwrapped(array)
    if array.null_count == 0:
        return Canonical(len(array), _parts(array, hasher))
    valid = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    inner = _parts(array.drop_null(), hasher)
    return Canonical(
        len(array), [(valid if positions is None else valid[positions], form) for positions, form in inner]
    )


def _unwrapped(array: pa.Array) -> pa.Array:
    """The array behind extension, dictionary, run-end and view types."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _unwrapped(_of_extension(array))
    if pa.types.is_dictionary(kind):
        return _unwrapped(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _unwrapped(pc.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    return array


def _of_extension(array: pa.Array) -> pa.Array:
    name = getattr(array.type, "extension_name", "")
    if name == "arrow.bool8":
        return pc.not_equal(array.storage, pa.scalar(0, pa.int8()))
    if name == "arrow.uuid":
        return _uuid_texts(array.storage)
    return array.storage


def _uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs as other engines write them: 8-4-4-4-12 lower-case hexadecimal digits."""
    raw = np.frombuffer(array.buffers()[1] or b"", np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((len(array), 36), ord("-"), np.uint8)
    digits_at = [position for position in range(36) if position not in {8, 13, 18, 23}]
    text[:, digits_at[0::2]] = digits[raw.reshape(-1, 16) >> 4]
    text[:, digits_at[1::2]] = digits[raw.reshape(-1, 16) & 15]
    offsets = np.arange(0, 36 * (len(array) + 1), 36, dtype=np.int64)
    plain = pa.LargeStringArray.from_buffers(len(array), pa.py_buffer(offsets), pa.py_buffer(text))
    return pc.if_else(array.is_valid(), plain, pa.scalar(None, pa.large_string())) if array.null_count else plain


def _parts(array: pa.Array, hasher: SipHash) -> list[Part]:
    """The forms of an array without NULLs."""
    kind = array.type
    if len(array) == 0 or pa.types.is_null(kind):
        return []
    if pa.types.is_floating(kind):
        return floats(array.cast(pa.float64()).to_numpy())
    if pa.types.is_uint64(kind) and int(pc.max(array).as_py()) >= 2**63:
        return decimals(array.cast(pa.decimal128(20, 0)))
    if pa.types.is_integer(kind):
        return [(None, fixed(array.cast(pa.int64()).to_numpy().view(np.uint64), "i"))]
    if pa.types.is_decimal(kind):
        return decimals(array)
    return [(None, _single_form(array, hasher))]


def _single_form(array: pa.Array, hasher: SipHash) -> Form:
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return texts(array, "s")
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return texts(array, "x")
    if pa.types.is_fixed_size_binary(kind):
        return texts(array.cast(pa.large_binary()), "x")
    if pa.types.is_boolean(kind):
        return fixed(array.cast(pa.uint8()).to_numpy().astype(np.uint64), "b")
    if pa.types.is_temporal(kind):
        return _temporal(array)
    return _nested(array, hasher)


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _temporal(array: pa.Array) -> Words:
    kind = array.type
    if pa.types.is_date32(kind):
        return _seconds(array.cast(pa.int32()).to_numpy().astype(np.int64) * 86_400, 1, "t")
    if pa.types.is_date64(kind):
        return _seconds(array.cast(pa.int64()).to_numpy(), 1_000, "t")
    if pa.types.is_timestamp(kind):
        return _seconds(array.cast(pa.int64()).to_numpy(), _PER_SECOND[kind.unit], "t")
    if pa.types.is_duration(kind):
        return _seconds(array.cast(pa.int64()).to_numpy(), _PER_SECOND[kind.unit], "d")
    if pa.types.is_time(kind):
        ticks = array.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).to_numpy().astype(np.int64)
        return fixed((ticks * (10**9 // _PER_SECOND[kind.unit])).view(np.uint64), "c")
    return _calendar_intervals(array)


def _seconds(ticks: npt.NDArray[np.int64], per_second: int, kind: str) -> Words:
    seconds = ticks // per_second
    nanoseconds = (ticks - seconds * per_second) * (10**9 // per_second)
    return Words([seconds.view(np.uint64)], last_block(nanoseconds.view(np.uint64), 13, kind), kind)


def _calendar_intervals(array: pa.Array) -> Words:
    if array.type != pa.month_day_nano_interval():
        raise _unsupported(array.type)
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    return Words([words[0::2], words[1::2]], last_block(np.zeros(len(array), np.uint64), 17, "v"), "v")


def _nested(array: pa.Array, hasher: SipHash) -> Form:
    kind = array.type
    if pa.types.is_struct(kind):
        return _records(array, hasher)
    if pa.types.is_map(kind):
        return _maps(array, hasher)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _nested(array.cast(pa.large_list(kind.value_type)), hasher)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        counts = pc.list_value_length(array).to_numpy()
        return lists_of_hashes(canonical(array.flatten(), hasher).hashes(hasher), counts, "l")
    raise _unsupported(kind)


def _records(array: pa.Array, hasher: SipHash) -> Words:
    blocks: list[Hashes] = []
    fields = sorted((array.type.field(position).name, position) for position in range(array.type.num_fields))
    for (name, _), child in zip(fields, (array.flatten()[position] for _, position in fields), strict=True):
        blocks.append(np.full(len(array), hasher.of_bytes(name.encode() + b"s"), dtype=np.uint64))
        blocks.append(canonical(child, hasher).hashes(hasher))
    return Words(blocks, last_block(np.zeros(len(array), np.uint64), 8 * len(blocks) + 1, "r"), "r")


def _maps(array: pa.Array, hasher: SipHash) -> Texts:
    offsets = array.offsets.to_numpy().astype(np.int64)
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    # keys and items may begin before the first offset of a slice
    entries = entries.slice(
        int(offsets[0]) if len(entries) > offsets[-1] - offsets[0] else 0, int(offsets[-1] - offsets[0])
    )
    hashes, counts = canonical(entries, hasher).hashes(hasher), np.diff(offsets)
    order = np.lexsort((hashes, np.repeat(np.arange(len(counts)), counts)))
    return lists_of_hashes(hashes[order], counts, "m")


def _unsupported(kind: pa.DataType) -> ShoalError:
    return ShoalError(
        "E_UNSUPPORTED", f"Values of the type {kind} have no canonical form.", hint="Leave the column out."
    )


def has_canonical_form(kind: pa.DataType) -> bool:
    """Whether values of a type can be hashed: all but unions and a few exotic intervals."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_canonical_form(kind.storage_type)
    if pa.types.is_union(kind) or (pa.types.is_interval(kind) and kind != pa.month_day_nano_interval()):
        return False
    children = [kind.value_type] if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else []
    children += [kind.field(position).type for position in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return all(has_canonical_form(child) for child in children)
