from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.risk.sketch.owner_sets import HIGHEST_RANK, OwnerBatch, OwnerSets, cardinalities, sorted_pairs


def random_hashes(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def one_set(owners: np.ndarray, registers: int = 512) -> OwnerSets:
    sets = OwnerSets(registers, count=1)
    sets.add(np.zeros(len(owners), np.int64), OwnerBatch(owners))
    sets.settle()
    return sets


def state(sets: OwnerSets) -> tuple[bytes, ...]:
    sets.settle()
    parts = (sets.list_sets, sets.list_owners, sets.dense_sets, sets.registers)
    return tuple(np.ascontiguousarray(part).tobytes() for part in parts)


def test_a_set_is_exact_up_to_an_eighth_of_its_registers():
    owners = random_hashes(64)
    sizes, exact = one_set(np.concatenate([owners, owners])).sizes()
    assert sizes[0] == 64
    assert exact[0]


def test_one_owner_more_makes_registers():
    sets = one_set(random_hashes(65))
    assert len(sets.dense_sets) == 1
    assert len(sets.list_owners) == 0


def test_ranks_are_the_place_of_the_first_one_bit():
    hashes = np.array(
        [1 << 54, 1 << 53, (1 << 55) - 1, 0, (511 << 55) | (1 << 7), (511 << 55) | (1 << 6)], dtype=np.uint64
    )
    registers, ranks = OwnerBatch(hashes).places(9)
    assert registers.tolist() == [0, 0, 0, 0, 511, 511]
    assert ranks.tolist() == [1, 2, 1, HIGHEST_RANK, 48, HIGHEST_RANK]


@pytest.mark.parametrize("registers", [16, 512, 4096, 65536])
@pytest.mark.parametrize("owners", [100, 1_000, 100_000])
def test_the_estimate_is_within_six_standard_errors(registers, owners):
    """8 sets a case, 12 cases: false alarm below 96 · 2Φ(−6) < 1e-6."""
    for seed in range(8):
        sizes, exact = one_set(random_hashes(owners, seed), registers).sizes()
        slack = 0 if exact[0] else 6 * 1.04 / np.sqrt(registers)
        assert abs(sizes[0] / owners - 1) <= slack


def test_the_mean_of_many_estimates_has_no_bias():
    """64 sets of 512 registers: standard error of the mean 0.6%; five of them, false alarm below 1e-6."""
    for owners in (200, 1_300, 2_000, 50_000):
        sizes = [one_set(random_hashes(owners, seed)).sizes()[0][0] for seed in range(64)]
        assert abs(np.mean(sizes) / owners - 1) < 5 * 1.04 / np.sqrt(512 * 64)


def test_empty_registers_count_nobody_and_full_ones_do_not_overflow():
    assert cardinalities(np.zeros((1, 16), np.uint8))[0] == 0
    assert np.isfinite(cardinalities(np.full((1, 16), HIGHEST_RANK - 1, np.uint8))[0])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=400), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_form_of_a_set_depends_on_its_owners_only(pairs, random):
    """Rows in any order, in any batches, merged in any way, end in the same bytes."""
    hashes = random_hashes(41)
    whole = OwnerSets(16, count=5)
    whole.add(np.array([s for s, _ in pairs], np.int64), OwnerBatch(hashes[[o for _, o in pairs]]))
    shuffled = random.sample(pairs, len(pairs))
    parts = [OwnerSets(16, count=5) for _ in range(3)]
    for place, (number, owner) in enumerate(shuffled):
        parts[place % 3].add(np.array([number]), OwnerBatch(hashes[[owner]]))
    merged = parts[2]
    merged.merge(parts[0], np.arange(5))
    merged.merge(parts[1], np.arange(5))
    merged.merge(parts[1], np.arange(5))
    assert state(merged) == state(whole)


def test_renaming_moves_and_drops_sets():
    sets = OwnerSets(16, count=3)
    sets.add(np.array([0, 1, 1, 2, 2, 2]), OwnerBatch(random_hashes(6)))
    sets.rename(np.array([0, -1, 4]), 5)
    assert sets.list_lengths().tolist() == [1, 0, 0, 0, 0]
    assert sets.dense_sets.tolist() == [4]


def test_pairs_that_agree_in_all_sorted_bits_are_still_told_apart():
    owners = np.array([5, 4, 5, 4], dtype=np.uint64)  # equal above the lowest bit
    sets, kept = sorted_pairs(np.array([1, 1, 1, 0]), owners, 2)
    assert list(zip(sets.tolist(), kept.tolist(), strict=True)) == [(0, 4), (1, 4), (1, 5)]
