"""The binary form of a sketch, version 1: see docs/reference/sketch-format.md.

A reader trusts nothing: every count is checked against the length of the data before anything is allocated, every
array against what a sketch can hold. Bytes that no sketch has end in E_SKETCH. What is read takes memory in
proportion to the bytes that were there, whatever they claim.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.sketch.owner_sets import HIGHEST_RANK, OwnerSets

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes, Positions

MAGIC = b"\x89KHLL\r\n\x1a"  # a high bit and line ends, so that a transfer as text shows
VERSION = 1
DIGEST_BYTES = 16
COLUMN_REGISTERS = 4096
"""Registers of the one set of owners a column has: 1.6% error, exact up to 512 owners."""

LARGEST_K = 1 << 20
SMALLEST_SIZE, LARGEST_M = 16, 1 << 16
LARGEST_ROWS = (1 << 62) - 1
_KINDS_OF_SHAPES = 13
_DENSE = 0xFFFF  # instead of the length of a list

# magic, version, owned by, log2 M, K, keyed, width of row counts, key id, rows, kept, dense, listed, column listed,
# dense
_HEADER = struct.Struct("<8sHBBIBB2x16sQIIQHBx")


@dataclass(slots=True)
class SketchFields:
    """The whole state of a sketch."""

    k: int
    m: int
    key_id: str | None
    rows: int
    owned_by: int  # 0 nobody yet, 1 owners, 2 rows
    hashes: Hashes
    rows_of_value: Positions
    shapes: npt.NDArray[np.uint16]
    owners_of_value: OwnerSets
    owners_of_column: OwnerSets


def check_sizes(k: int, m: int) -> None:
    """Refuse sizes that no sketch can have."""
    if isinstance(k, bool) or not isinstance(k, int) or not SMALLEST_SIZE <= k <= LARGEST_K:
        raise ShoalError("E_USAGE", f"k, the number of sampled values, is from {SMALLEST_SIZE} to {LARGEST_K}.")
    if isinstance(m, bool) or not isinstance(m, int) or not SMALLEST_SIZE <= m <= LARGEST_M or m & (m - 1):
        raise ShoalError(
            "E_USAGE", f"m, the number of registers, is a power of two from {SMALLEST_SIZE} to {LARGEST_M}."
        )


def damaged(what: str) -> ShoalError:
    """The error for bytes that are not a sketch."""
    return ShoalError("E_SKETCH", f"This is not a readable sketch: {what}.", hint="Make it again from the data.")


def sealed(body: bytes) -> bytes:
    """The bytes and their digest."""
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def unsealed(data: bytes, magic: bytes, version: int) -> bytes:
    """The bytes under an intact seal, with the right magic and version."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise damaged("it is not bytes")
    data = bytes(data)
    if len(data) < len(magic) + 2 + DIGEST_BYTES or data[: len(magic)] != magic:
        raise damaged("it does not begin like one")
    found = int.from_bytes(data[len(magic) : len(magic) + 2], "little")
    if found != version:
        raise ShoalError("E_SKETCH", f"The sketch has format version {found}; this program reads version {version}.")
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest() != digest:
        raise damaged("its checksum does not fit, so it was cut or changed")
    return body


def pack_sketch(fields: SketchFields) -> bytes:
    """A sketch as bytes; equal sketches give equal bytes."""
    values, column = fields.owners_of_value, fields.owners_of_column
    values.settle()
    column.settle()
    lengths = values.list_lengths()
    lengths[values.dense_sets] = _DENSE
    width = _width(fields.rows_of_value)
    header = _HEADER.pack(
        MAGIC, VERSION, fields.owned_by, fields.m.bit_length() - 1, fields.k, fields.key_id is not None, width,
        bytes.fromhex(fields.key_id or "00" * 16), fields.rows, len(fields.hashes), len(values.dense_sets),
        len(values.list_owners), len(column.list_owners), len(column.dense_sets),
    )  # fmt: skip
    arrays: list[npt.NDArray[Any]] = [
        fields.hashes.astype("<u8"), fields.rows_of_value.astype(f"<u{width}"), fields.shapes.astype("<u2"),
        lengths.astype("<u2") if fields.owned_by == 1 else lengths[:0].astype("<u2"),
        values.list_owners.astype("<u8"), values.registers, column.list_owners.astype("<u8"), column.registers,
    ]  # fmt: skip
    return sealed(header + b"".join(array.tobytes() for array in arrays))


def _width(rows: Positions) -> int:
    """The fewest bytes, of 1, 2, 4 and 8, that hold every count."""
    largest = int(rows.max()) if len(rows) else 0
    return next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))


class _Reader:
    """Takes arrays off the front of a buffer whose length was checked."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = _HEADER.size

    def take(self, kind: str, count: int) -> npt.NDArray[Any]:
        array = np.frombuffer(self._body, dtype=kind, count=count, offset=self._at)
        self._at += array.nbytes
        return array


def unpack_sketch(data: bytes) -> SketchFields:
    """The sketch in these bytes, or E_SKETCH."""
    body = unsealed(data, MAGIC, VERSION)
    if len(body) < _HEADER.size:
        raise damaged("it ends within its header")
    (_, _, owned_by, bits, k, keyed, width, key_id, rows, kept, dense, listed, column_listed, column_dense) = (
        _HEADER.unpack_from(body)
    )
    if not 4 <= bits <= 16 or not SMALLEST_SIZE <= k <= LARGEST_K or kept > k or owned_by > 2 or keyed > 1:
        raise damaged("its sizes are impossible")
    if (
        width not in {1, 2, 4, 8}
        or dense > kept
        or column_dense > 1
        or rows > LARGEST_ROWS
        or (not keyed and any(key_id))
    ):
        raise damaged("its counts are impossible")
    m = 1 << bits
    size = kept * (8 + width + 2 + (2 if owned_by == 1 else 0)) + 8 * (listed + column_listed)
    if len(body) != _HEADER.size + size + dense * m + column_dense * COLUMN_REGISTERS:
        raise damaged("its length does not fit its counts")
    reader = _Reader(body)
    hashes = reader.take("<u8", kept).astype(np.uint64)
    rows_of_value = reader.take(f"<u{width}", kept).astype(np.uint64)
    shapes = reader.take("<u2", kept).astype(np.uint16)
    lengths = reader.take("<u2", kept if owned_by == 1 else 0).astype(np.int64)
    of_value = _owner_sets(reader, m, lengths, listed, dense, kept)
    column_lengths = np.array([_DENSE if column_dense else column_listed], np.int64)
    of_column = _owner_sets(reader, COLUMN_REGISTERS, column_lengths, column_listed, column_dense, 1)
    _check_values(hashes, rows_of_value, shapes, rows, k)
    if _width(rows_of_value.view(np.int64)) != width:
        raise damaged("its counts are wider than they need be")
    counts = rows_of_value.view(np.int64)
    fields = SketchFields(
        k, m, key_id.hex() if keyed else None, rows, owned_by, hashes, counts, shapes, of_value, of_column
    )
    _check_owners(fields, lengths)
    return fields


def _check_values(hashes: Hashes, rows_of_value: Hashes, shapes: npt.NDArray[np.uint16], rows: int, k: int) -> None:
    if (hashes[1:] <= hashes[:-1]).any():
        raise damaged("its hashes are not in order")
    if len(rows_of_value) and (int(rows_of_value.min()) < 1 or int(rows_of_value.max()) > LARGEST_ROWS):
        raise damaged("it counts impossible rows")
    counted = sum(rows_of_value.tolist())
    if counted > rows or (len(hashes) < k and counted != rows):
        raise damaged("its rows do not add up")
    if len(shapes) and int(shapes.max()) >> 12 >= _KINDS_OF_SHAPES:
        raise damaged("it has values of an unknown kind")


def _owner_sets(reader: _Reader, m: int, lengths: Positions, listed: int, dense: int, count: int) -> OwnerSets:
    """Sets of owners from their lengths, lists and registers."""
    sets = OwnerSets(m, count)
    sets.list_owners = reader.take("<u8", listed).astype(np.uint64)
    sets.registers = reader.take("u1", dense * m).reshape(dense, m).copy()
    sets.dense_sets = np.flatnonzero(lengths == _DENSE)
    list_lengths = np.where(lengths == _DENSE, 0, lengths)
    if len(sets.dense_sets) != dense or int(list_lengths.sum()) != listed:
        raise damaged("its owners do not add up")
    if listed and int(list_lengths.max()) > sets.longest_list:
        raise damaged("a list of owners is too long")
    sets.list_sets = np.repeat(np.arange(len(lengths)), list_lengths)
    same_set = sets.list_sets[1:] == sets.list_sets[:-1]
    if (same_set & (sets.list_owners[1:] <= sets.list_owners[:-1])).any():
        raise damaged("its owners are not in order")
    if dense and (int(sets.registers.max()) > HIGHEST_RANK or not sets.registers.any(axis=1).all()):
        raise damaged("its registers are impossible")
    return sets


def _check_owners(fields: SketchFields, lengths: Positions) -> None:
    """Values have owners where owners are counted, and not more of them than rows."""
    column = fields.owners_of_column
    column_owners = len(column.list_owners) + len(column.dense_sets)
    if fields.owned_by != 1:
        if column_owners or len(fields.owners_of_value.list_owners) or (fields.owned_by == 0 and fields.rows):
            raise damaged("it lists owners where it counts none")
        return
    needed = np.where(lengths == _DENSE, fields.owners_of_value.longest_list + 1, lengths)
    if (needed < 1).any() or (needed > fields.rows_of_value).any():
        raise damaged("a value has more owners than rows, or none")
    if (column_owners == 0) != (fields.rows == 0):
        raise damaged("its owners do not add up")
