from __future__ import annotations

import numpy as np
import pytest

from shoal.errors import InternalError
from shoal.risk.hashing.siphash import SipHash

KEY = bytes(range(16))
MASK = 2**64 - 1


def rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & MASK


def reference(key: bytes, message: bytes) -> int:
    """SipHash-2-4 word by word, as the paper writes it."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def sip_round() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)

    whole = len(message) - len(message) % 8
    blocks = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    blocks.append(int.from_bytes(message[whole:], "little") | (len(message) & 255) << 56)
    for block in blocks:
        v[3] ^= block
        sip_round()
        sip_round()
        v[0] ^= block
    v[2] ^= 255
    for _ in range(4):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_published_test_vectors_come_out():
    published = {1: 0x74F839C593DC67FD, 8: 0x93F5F5799A932462, 15: 0xA129CA6149BE45E5, 63: 0x958A324CEB064572}
    for length, expected in published.items():
        assert int(SipHash(KEY).of_bytes(bytes(range(length)))) == expected


def test_stretches_of_all_lengths_hash_like_the_reference():
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, 20_008).astype(np.uint8)
    starts, lengths = rng.integers(0, 19_000, 3_000), rng.integers(0, 300, 3_000)
    found = SipHash(KEY).of_texts(data, starts, lengths, ord("s"))
    for start, length, hashed in zip(starts[:500], lengths[:500], found[:500], strict=True):
        assert int(hashed) == reference(KEY, data[start : start + length].tobytes() + b"s")


def test_words_hash_like_the_bytes_they_are_made_of():
    words = np.array([7, 2**64 - 1, 0], dtype=np.uint64)
    last = np.array([(9 << 56) | ord("i")] * 3, dtype=np.uint64)
    found = SipHash(KEY).of_words([words], last)
    assert [int(h) for h in found] == [reference(KEY, int(word).to_bytes(8, "little") + b"i") for word in words]


def test_more_rows_than_a_chunk_hash_the_same():
    words = np.arange(40_000, dtype=np.uint64)
    last = np.full(40_000, 9 << 56, dtype=np.uint64)
    whole = SipHash(KEY).of_words([words], last)
    assert int(whole[39_999]) == reference(KEY, (39_999).to_bytes(8, "little") + b"\0")


def test_another_key_gives_other_hashes():
    assert SipHash(KEY).of_bytes(b"x") != SipHash(bytes(16)).of_bytes(b"x")


def test_a_key_of_the_wrong_length_is_a_bug_of_ours():
    with pytest.raises(InternalError):
        SipHash(b"short")
