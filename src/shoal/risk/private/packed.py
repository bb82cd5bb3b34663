"""Raw and released sketches as bytes. A reader trusts nothing: what no sketch can be ends in E_SKETCH."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from shoal.risk.sketch.binary_format import damaged, sealed, unsealed

if TYPE_CHECKING:
    from shoal.risk.private.flips import Bits

RAW_MAGIC = b"\x89SHDR\r\n\x1a"
RELEASED_MAGIC = b"\x89SHDP\r\n\x1a"
VERSION = 1
_MOST_RELEASES = 10_000
_HEADER = struct.Struct("<8sHBBBB2x16sI")  # magic, version, log2 buckets, levels, keyed, safe, key id, releases
_CHANCES = struct.Struct("<dd")
_RELEASE = struct.Struct("<d16s")  # ε and id


def _head(magic: bytes, bits: Bits, key_id: str | None, releases: int, *, safe: bool) -> bytes:
    levels, buckets = bits.shape
    key = bytes.fromhex(key_id or "00" * 16)
    return _HEADER.pack(magic, VERSION, buckets.bit_length() - 1, levels, key_id is not None, safe, key, releases)


def pack_raw(bits: Bits, key_id: str | None, releases: int) -> bytes:
    """A raw sketch as bytes; equal sketches give equal bytes."""
    head = _head(RAW_MAGIC, bits, key_id, min(releases, _MOST_RELEASES), safe=True)
    return sealed(head + np.packbits(bits, bitorder="little").tobytes())


def unpack_raw(data: bytes) -> tuple[Bits, str | None, int]:
    """Bits, key id and number of releases."""
    body = unsealed(data, RAW_MAGIC, VERSION)
    shape, key_id, _, releases = _read_head(body)
    return _read_bits(body, _HEADER.size, shape), key_id, releases


def pack_released(
    bits: Bits,
    key_id: str | None,
    chances: tuple[float, float],
    epsilons: tuple[float, ...],
    ids: frozenset[bytes],
    *,
    safe: bool,
) -> bytes:
    """A released sketch as bytes; ids are in order, apart from which ε is whose."""
    head = _head(RELEASED_MAGIC, bits, key_id, len(ids), safe=safe) + _CHANCES.pack(*chances)
    releases = b"".join(_RELEASE.pack(*pair) for pair in zip(sorted(epsilons), sorted(ids), strict=True))
    return sealed(head + releases + np.packbits(bits, bitorder="little").tobytes())


def unpack_released(
    data: bytes,
) -> tuple[Bits, str | None, tuple[float, float], tuple[float, ...], frozenset[bytes], bool]:
    """Everything that was packed."""
    body = unsealed(data, RELEASED_MAGIC, VERSION)
    shape, key_id, safe, count = _read_head(body)
    start = _HEADER.size + _CHANCES.size
    if not 1 <= count <= _MOST_RELEASES or len(body) < start + count * _RELEASE.size:
        raise damaged("its number of releases is impossible")
    keep, noise = _CHANCES.unpack_from(body, _HEADER.size)
    releases = [_RELEASE.unpack_from(body, start + i * _RELEASE.size) for i in range(count)]
    ids = frozenset(identity for _, identity in releases)
    if not 0 <= noise < keep <= 1 or len(ids) != count or not all(0 < epsilon <= 1e6 for epsilon, _ in releases):
        raise damaged("its chances are impossible")
    bits = _read_bits(body, start + count * _RELEASE.size, shape)
    return bits, key_id, (keep, noise), tuple(epsilon for epsilon, _ in releases), ids, safe


def _read_head(body: bytes) -> tuple[tuple[int, int], str | None, bool, int]:
    if len(body) < _HEADER.size:
        raise damaged("it ends within its header")
    _, _, bucket_bits, levels, keyed, safe, key_id, releases = _HEADER.unpack_from(body)
    if not 4 <= bucket_bits <= 16 or not 1 <= levels <= 48 or keyed > 1 or safe > 1 or (not keyed and any(key_id)):
        raise damaged("its sizes are impossible")
    return (levels, 1 << bucket_bits), key_id.hex() if keyed else None, bool(safe), releases


def _read_bits(body: bytes, start: int, shape: tuple[int, int]) -> Bits:
    count = shape[0] * shape[1]
    if len(body) != start + count // 8:
        raise damaged("its length does not fit its sizes")
    bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=start), count=count, bitorder="little")
    return bits.astype(np.bool_).reshape(shape)
