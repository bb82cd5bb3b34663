"""Canonical forms as data: messages that are hashed in whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.frozen import dataclass
from shoal.risk.hashing import shapes

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Bytes, Hashes, Positions, SipHash

Shapes = npt.NDArray[np.uint16]

LONGEST_PAYLOAD = 256
_PIECE = 128
_FOLDED = 0x80
_U = np.uint64


@dataclass(frozen=True, slots=True)
class Words:
    """n messages of one length: full blocks, and the last block with kind and length (see `siphash`)."""

    blocks: list[Hashes]
    last: Hashes
    kind: str

    def hashes(self, hasher: SipHash) -> Hashes:
        """One hash a message."""
        return hasher.of_words(self.blocks, self.last)

    def take(self, chosen: Positions) -> Words:
        """Some of the messages."""
        return Words([block[chosen] for block in self.blocks], self.last[chosen], self.kind)

    def shapes(self) -> Shapes:
        """What the values look like from afar."""
        return shapes.of_words(self.kind, self.blocks, self.last)


@dataclass(frozen=True, slots=True)
class Texts:
    """n messages of many lengths: stretches of a buffer that has 8 more bytes behind the last stretch."""

    data: Bytes
    starts: Positions
    lengths: Positions
    kind: str
    folded: bool = False

    def hashes(self, hasher: SipHash) -> Hashes:
        """One hash a message; long ones are folded first."""
        ending = ord(self.kind) | (_FOLDED if self.folded else 0)
        long = np.flatnonzero(self.lengths > LONGEST_PAYLOAD)
        if not len(long):
            return hasher.of_texts(self.data, self.starts, self.lengths, ending)
        out = np.empty(len(self.starts), dtype=np.uint64)
        short = np.flatnonzero(self.lengths <= LONGEST_PAYLOAD)
        out[short] = hasher.of_texts(self.data, self.starts[short], self.lengths[short], ending)
        out[long] = self.take(long).fold(hasher).hashes(hasher)
        return out

    def fold(self, hasher: SipHash) -> Texts:
        """The messages as the hashes of their pieces."""
        pieces = -(-self.lengths // _PIECE)
        within = _PIECE * _counting(pieces)
        starts = np.repeat(self.starts, pieces) + within
        lengths = np.minimum(np.repeat(self.lengths, pieces) - within, _PIECE)
        return lists_of_hashes(hasher.of_texts(self.data, starts, lengths, ord("p")), pieces, self.kind, folded=True)

    def take(self, chosen: Positions) -> Texts:
        """Some of the messages."""
        return Texts(self.data, self.starts[chosen], self.lengths[chosen], self.kind, self.folded)

    def shapes(self) -> Shapes:
        """What the values look like from afar."""
        return shapes.of_texts(self.kind, self.data, self.starts, self.lengths)


Form = Words | Texts
Part = tuple["Positions | None", Form]


@dataclass(frozen=True, slots=True)
class Canonical:
    """An array in canonical form: parts of one kind each, and the positions of their values (None: everywhere)."""

    length: int
    parts: list[Part]

    def hashes(self, hasher: SipHash) -> Hashes:
        """One hash a value."""
        if len(self.parts) == 1 and self.parts[0][0] is None:
            return self.parts[0][1].hashes(hasher)
        out = np.full(self.length, null_hash(hasher), dtype=np.uint64)
        for positions, form in self.parts:
            out[slice(None) if positions is None else positions] = form.hashes(hasher)
        return out

    def shapes(self, chosen: Positions) -> Shapes:
        """The shapes of the values at these positions."""
        out = np.full(len(chosen), shapes.NULL, dtype=np.uint16)
        for positions, form in self.parts:
            if positions is None:
                return form.take(chosen).shapes()
            where = np.minimum(np.searchsorted(positions, chosen), max(len(positions) - 1, 0))
            here = np.flatnonzero(positions[where] == chosen) if len(positions) else np.empty(0, np.int64)
            out[here] = form.take(where[here]).shapes()
        return out


def null_hash(hasher: SipHash) -> np.uint64:
    """The hash of NULL."""
    return hasher.of_words([], np.array([(1 << 56) | ord("0")], dtype=np.uint64))[0]  # type: ignore[no-any-return]


def combination(columns: list[Hashes], hasher: SipHash) -> Hashes:
    """The hash of each row of several columns, from the hashes of its values."""
    return hasher.of_words(columns, last_block(np.zeros(len(columns[0]), np.uint64), 8 * len(columns) + 1, "T"))


def lists_of_hashes(hashes: Hashes, counts: Positions, kind: str, *, folded: bool = False) -> Texts:
    """Messages that are runs of 8-byte hashes, `counts` of them each."""
    data = np.concatenate([hashes, np.zeros(1, np.uint64)]).view(np.uint8)
    lengths = 8 * counts.astype(np.int64)
    return Texts(data, np.cumsum(lengths) - lengths, lengths, kind, folded)


def _counting(counts: Positions) -> Positions:
    """0, 1, … for each count, one after the other: [2, 3] gives 0 1 0 1 2."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def last_block(payload: Hashes, length: int, kind: str) -> Hashes:
    """The last block of messages whose kind comes right after the payload's last bytes."""
    position = 8 * ((length - 1) % 8)
    return payload | _U(((length & 255) << 56) | (ord(kind) << position))


def fixed(payload: Hashes, kind: str) -> Words:
    """Messages of 8 bytes and their kind."""
    return Words([payload], last_block(np.zeros(len(payload), np.uint64), 9, kind), kind)


def texts(array: pa.Array, kind: str) -> Texts:
    """Messages of the bytes of a string or binary array."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    raw = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else np.empty(0, np.uint8)
    )
    data = np.concatenate([raw[offsets[0] : offsets[-1]], np.zeros(8, np.uint8)])
    return Texts(data, offsets[:-1] - offsets[0], np.diff(offsets), kind)
