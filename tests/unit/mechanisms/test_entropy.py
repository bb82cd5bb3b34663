"""The source of random bits: exact uniform integers, no state shared after a fork, seeds marked unsafe."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shoal.errors import InternalError
from shoal.mechanisms.entropy import SYSTEM, Entropy, seeded_entropy, system_entropy


class Tape(Entropy):
    """Plays given bytes."""

    safe = False

    def __init__(self, content: bytes) -> None:
        self.content = content

    def bytes(self, count):
        played, self.content = self.content[:count], self.content[count:]
        return played


def test_only_the_system_is_safe():
    assert system_entropy() is SYSTEM
    assert SYSTEM.safe
    assert not seeded_entropy(1).safe


def test_a_seed_repeats_itself_and_two_seeds_differ():
    first, again, other = (seeded_entropy(seed).uint64(8) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_words_have_all_sixty_four_bits():
    words = SYSTEM.uint64(4096)
    assert words.dtype == np.uint64
    ones = np.bitwise_or.reduce(words), np.bitwise_and.reduce(words)
    assert ones == (2**64 - 1, 0)  # false alarm: 128 · 2⁻⁴⁰⁹⁶


def test_below_uses_each_accepted_pattern_once_and_rejects_the_rest():
    outcomes = Counter()
    for byte in range(256):
        tape = Tape(bytes([byte, 0b0000_0000]))
        outcomes[(tape.bits(3), byte >> 5)] += 1
    assert all(value == pattern for value, pattern in outcomes)
    accepted = Counter(Tape(bytes([byte, 0])).below(5) for byte in range(160))
    assert accepted == dict.fromkeys(range(5), 32)
    assert Tape(bytes([0b111_00000, 0b110_00000, 0b100_00000])).below(5) == 4


def test_below_one_is_zero_and_below_nothing_is_a_bug_of_ours():
    assert SYSTEM.below(1) == 0
    with pytest.raises(InternalError):
        SYSTEM.below(0)


def test_below_handles_bounds_of_hundreds_of_bits():
    bound = 3**200
    assert all(0 <= SYSTEM.below(bound) < bound for _ in range(50))


def test_a_permutation_holds_every_number_once():
    order = SYSTEM.permutation(1000)
    assert sorted(order) == list(range(1000))
    assert list(order) != list(range(1000))  # false alarm: 1/1000!
    assert len(SYSTEM.permutation(0)) == 0


def test_threads_draw_different_words():
    """16 threads that begin together, 200 words each: no word twice (false alarm: below 1e-12)."""
    together = threading.Barrier(16)

    def drawn(_):
        together.wait()
        return SYSTEM.uint64(200).tolist()

    with ThreadPoolExecutor(16) as pool:
        words = [word for found in pool.map(drawn, range(16)) for word in found]
    assert len(set(words)) == len(words) == 3200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_processes_after_a_fork_draw_different_bits():
    reader, writer = os.pipe()
    SYSTEM.uint64(10)
    child = os.fork()
    if child == 0:
        os.write(writer, SYSTEM.bytes(32))
        os._exit(0)
    mine = SYSTEM.bytes(32)
    os.waitpid(child, 0)
    assert os.read(reader, 32) != mine
