"""Noisy forests: accurate, monotone, drawn once per node; bounds from a histogram."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms import quantiles
from shoal.mechanisms.calibrate import approx_bounds_threshold
from shoal.mechanisms.entropy import SYSTEM, seeded_entropy
from shoal.mechanisms.quantiles import NoisyForest, NoisyTree, bounds_from_histograms, closest_with_sum

NO_NOISE = LaplaceNoise(Shift(0), Fraction(0))
LAPLACE = LaplaceNoise(Shift(1, 4), Fraction(4))
GAUSSIAN = GaussianNoise(Shift(1, 4), Fraction(8))
LEAVES = 16**4


def counted(positions):
    return np.unique(np.minimum((np.asarray(positions) * LEAVES).astype(np.int64), LEAVES - 1), return_counts=True)


def test_without_noise_quantiles_are_right_to_one_leaf():
    positions = np.random.default_rng(1).beta(2, 5, 10_001)
    tree = NoisyTree(*counted(positions), NO_NOISE)
    for p in (0.01, 0.25, 0.5, 0.9, 0.999):
        assert tree.quantile(p) == pytest.approx(np.quantile(positions, p), abs=1.5 / LEAVES)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_a_million_values_are_found_within_one_percent_of_rank(noise):
    positions = np.sort(np.random.default_rng(2).lognormal(2, 1, 1_000_000) / 10_000)
    tree = NoisyTree(*counted(np.minimum(positions, 0.999999)), noise)
    wanted = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    found = tree.quantiles(wanted)
    low = np.searchsorted(positions, found - 1 / LEAVES) / len(positions)
    high = np.searchsorted(positions, found + 1 / LEAVES) / len(positions)
    assert (low - 0.01 <= wanted).all()
    assert (wanted <= high + 0.01).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(min_value=0, max_value=LEAVES - 1), max_size=40),
    st.lists(st.floats(min_value=0, max_value=1), min_size=2, max_size=12),
    st.integers(min_value=0, max_value=10**6),
)
def test_quantiles_are_monotone_and_inside_whatever_the_noise(leaves, probabilities, seed):
    leaf = np.array(leaves, dtype=np.int64)
    tree = NoisyTree(leaf, np.ones_like(leaf), LAPLACE, entropy=seeded_entropy(seed))
    found = tree.quantiles(sorted(probabilities))
    assert (np.diff(found) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_noise_is_drawn_once_per_node_and_remembered(monkeypatch):
    drawn = []
    draw = quantiles.draw_noise
    monkeypatch.setattr(
        quantiles, "draw_noise", lambda noise, size, entropy: drawn.append(size) or draw(noise, size, entropy)
    )
    tree = NoisyTree(np.array([5, 60_000]), np.array([1000, 1000]), LAPLACE)
    first = tree.quantile(0.25)
    assert drawn == [16] * 4
    assert tree.quantile(0.25) == first
    assert sum(drawn) == 64
    tree.quantile(0.75)
    assert sum(drawn) == 64 + 3 * 16  # the children of the root are known, the other branch is new
    assert tree.quantiles([0.25, 0.75])[0] == first
    assert sum(drawn) == 64 + 3 * 16


def test_empty_children_get_noise_too(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        quantiles, "draw_noise", lambda _noise, size, _entropy: sizes.append(size) or np.zeros(size, dtype=np.int64)
    )
    NoisyTree(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), LAPLACE).quantiles([0.1, 0.9])
    assert all(size % 16 == 0 and size for size in sizes)


def test_two_trees_of_a_forest_have_noise_of_their_own():
    empty = np.zeros(0, dtype=np.int64)
    found = NoisyForest(50, empty, empty, empty, LAPLACE).quantiles([0.5])
    assert len(set(found[:, 0].tolist())) > 10


def test_a_forest_finds_each_group_where_it_is():
    group = np.array([0, 2, 2])
    leaf = np.array([LEAVES // 4, LEAVES // 2, LEAVES - 1])
    forest = NoisyForest(3, group, leaf, np.array([10**6, 10**6, 10**6]), LAPLACE)
    found = forest.quantiles([0.2, 0.8])
    assert found[0] == pytest.approx([0.25, 0.25], abs=1e-4)
    assert found[2] == pytest.approx([0.5, 1.0], abs=1e-4)


def test_an_empty_tree_without_noise_is_cut_evenly():
    empty = np.zeros(0, dtype=np.int64)
    assert NoisyTree(empty, empty, NO_NOISE).quantiles([0.0, 0.3, 1.0]) == pytest.approx([0, 0.3, 1])


def test_a_count_outside_the_tree_is_a_bug_of_ours():
    for leaf in (-1, LEAVES):
        with pytest.raises(InternalError):
            NoisyTree(np.array([leaf]), np.array([1]), LAPLACE)


def test_noise_of_a_huge_scale_still_gives_a_position():
    huge = LaplaceNoise(Shift(1, 4), Fraction(2**70))
    assert 0 <= NoisyTree(np.array([3]), np.array([1]), huge).quantile(0.5) <= 1


def test_other_shapes_of_tree_work():
    tree = NoisyTree(np.array([0, 7]), np.array([50, 50]), NO_NOISE, branching=2, height=3)
    assert tree.quantiles([0.25, 0.75]) == pytest.approx([1 / 16, 15 / 16])


@given(
    st.lists(st.floats(min_value=-50, max_value=50), min_size=1, max_size=8), st.floats(min_value=0.1, max_value=300)
)
def test_the_closest_numbers_have_the_sum_and_are_closest(numbers, total):
    row = np.array([numbers])
    found = closest_with_sum(row, np.array([total]))[0]
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    # optimality: all positive entries are lowered alike, and a zero entry would have been lowered below zero
    cut = (row[0] - found)[found > 1e-9]
    assert np.ptp(cut) < 1e-9
    assert (row[0][found == 0] <= cut.max() + 1e-9).all()


def test_bounds_are_the_outermost_bins_that_stand_out():
    noise = LaplaceNoise(Shift(1), Fraction(2))
    counts = np.zeros((2, 100), dtype=np.int64)
    counts[0, 30], counts[0, 57] = 1000, 800
    counts[1, 12] = 900
    assert bounds_from_histograms(counts, noise).tolist() == [[30, 57], [12, 12]]


def test_bounds_relax_step_by_step_and_give_up_on_noise():
    noise = LaplaceNoise(Shift(1), Fraction(2))
    strict = approx_bounds_threshold(noise, 64, quantiles.NO_FALSE_BIN[0])
    relaxed = approx_bounds_threshold(noise, 64, quantiles.NO_FALSE_BIN[-1])
    assert relaxed < strict
    counts = np.zeros((1, 64), dtype=np.int64)
    counts[0, 9] = strict  # only a relaxed level sees it: K itself does not exceed K
    assert bounds_from_histograms(counts, noise).tolist() == [[9, 9]]
    assert bounds_from_histograms(counts, noise, quantiles.NO_FALSE_BIN[:1]).tolist() == [[-1, -1]]
    counts[0, 9] = relaxed
    assert bounds_from_histograms(counts, noise).tolist() == [[-1, -1]]


def test_bins_next_to_each_other_find_bounds_together():
    noise = LaplaceNoise(Shift(1), Fraction(2))
    counts = np.zeros((2, 100), dtype=np.int64)
    counts[0, 40:45] = 12, 15, 16, 14, 11  # 68 owners, no bin of which stands out
    counts[1, [10, 30, 50, 70]] = 16
    alone = approx_bounds_threshold(noise, 100, quantiles.NO_FALSE_BIN[-1])
    assert counts.max() < alone
    assert bounds_from_histograms(counts, noise).tolist() == [[40, 44], [-1, -1]]


def test_bins_that_stand_out_together_from_gaussian_noise_go_by_its_own_tail():
    """Laplace noise of the same variance exceeds 75 in three bins as seldom as Gaussian noise exceeds 57."""
    noise = GaussianNoise(Shift(1), Fraction(7))
    counts = np.zeros((2, 181), dtype=np.int64)
    counts[0, 90:93] = 20, 22, 18
    counts[1, 90:93] = 18, 20, 16
    assert bounds_from_histograms(counts, noise).tolist() == [[90, 92], [-1, -1]]
    seeds = np.random.default_rng(3).normal(0, 7, (20_000, 181))
    # One histogram in a thousand may have a false bin: 20 are expected, 50 happen less than once in 10⁸ runs.
    assert (bounds_from_histograms(np.rint(seeds).astype(np.int64), noise)[:, 0] >= 0).sum() < 50


def test_bounds_reach_to_the_other_side_of_zero_where_its_bins_stand_out_together():
    noise = LaplaceNoise(Shift(1), Fraction(2))
    counts = np.zeros((3, 101), dtype=np.int64)
    counts[:, 60:64] = 40
    counts[0, 37:41] = 14  # the same octaves below zero, which is bin 50: none of them stands out
    counts[1, [38, 40]] = 4, 5
    counts[2, 20:24] = 14  # far beyond
    assert bounds_from_histograms(counts, noise).tolist() == [[60, 63]] * 3
    assert bounds_from_histograms(counts, noise, zero=50).tolist() == [[37, 63], [60, 63], [60, 63]]
    assert bounds_from_histograms(counts[:, ::-1], noise, zero=50).tolist() == [[37, 63], [37, 40], [37, 40]]


def test_bounds_grow_over_neighbours_that_noise_seldom_makes():
    noise = LaplaceNoise(Shift(1), Fraction(2))
    counts = np.zeros((1, 64), dtype=np.int64)
    counts[0, 18:24] = 3, 19, 500, 800, 19, 3
    assert bounds_from_histograms(counts, noise).tolist() == [[19, 22]]
    counts[0, 20:22] = 5000, 8000  # 19 of 13,000 are not worth bounds twice as wide
    assert bounds_from_histograms(counts, noise).tolist() == [[20, 21]]


def test_bounds_are_seldom_found_in_noise_alone():
    # 20,000 histograms of noise, at most 2 in 1,000 of which may show anything: above 90 has a chance below 1e-6
    noise = LaplaceNoise(Shift(1), Fraction(2))
    drawn = np.random.default_rng(7).laplace(0, 2, (20_000, 60)).round().astype(np.int64)
    assert (bounds_from_histograms(drawn, noise)[:, 0] >= 0).sum() < 90


# ---- trees of many groups ------------------------------------------------------------------------------------------


def forest_of(groups, entropy=None):
    """A thousand rows in each group, at leaves of its own, and no noise."""
    leaf = np.tile(np.arange(0, 65536, 64), groups) // (1 + np.repeat(np.arange(groups), 1024) % 3)
    group, noise = np.repeat(np.arange(groups), 1024), NO_NOISE
    return NoisyForest(groups, group, leaf, np.ones(len(leaf), dtype=np.int64), noise, entropy=entropy or SYSTEM)


RANKS = [Fraction(i, 10) for i in range(11)]


@pytest.mark.parametrize("sampled", [False, True])
def test_trees_that_are_grown_some_groups_at_a_time_have_the_same_quantiles_and_bands(monkeypatch, sampled):
    whole = forest_of(10)
    bands, positions = whole.bands(RANKS, [0.9], sampled=sampled), whole.quantiles([float(p) for p in RANKS])
    monkeypatch.setattr(quantiles, "WALKS_AT_ONCE", 35)
    parted = forest_of(10)
    found = parted.bands(RANKS, [0.9], sampled=sampled)
    assert np.array_equal(parted.quantiles([float(p) for p in RANKS]), positions)
    assert np.array_equal(parted.quantiles([0.5, 0.1]), positions[:, [5, 1]])
    assert np.array_equal(found.low, bands.low)
    assert np.array_equal(found.high, bands.high)
    assert (found.fractions, found.levels) == (bands.fractions, bands.levels)


def test_a_tree_that_was_not_kept_is_never_drawn_again(monkeypatch):
    monkeypatch.setattr(quantiles, "WALKS_AT_ONCE", 35)
    parted = forest_of(10)
    parted.bands(RANKS, [0.9])
    assert all(not len(seen.nodes) for seen in parted._visited)
    with pytest.raises(InternalError):
        parted.quantiles([0.33])
    with pytest.raises(InternalError):
        parted.bands(RANKS, [0.9])
    read = forest_of(10)
    read.quantiles([0.5])
    with pytest.raises(InternalError):
        read.bands(RANKS, [0.9])


def test_what_trees_take_does_not_grow_with_the_number_of_groups():
    """A kilobyte for each quantile: half a gigabyte for these."""
    ranks = [Fraction(i, 50) for i in range(51)]
    taken = []
    for groups in (1_300, 5_200):
        empty = np.zeros(0, dtype=np.int64)
        forest = NoisyForest(groups, empty, empty, empty, LaplaceNoise(Shift(1, 4), Fraction(4)))
        tracemalloc.start()
        try:
            forest.bands(ranks, [0.9])
            taken.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert taken[1] < 1.5 * taken[0]
