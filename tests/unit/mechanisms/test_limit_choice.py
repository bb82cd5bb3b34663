"""Reading noisy histograms and choosing limits: what stands out is believed, tails fall, the choice follows the data."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.mechanisms.limit_choice import GroupOption, Target, choose, middles_of, read_histogram

EDGES = [1, 2, 4, 8, 16, 32]
MIDDLES = middles_of(EDGES, whole=True)


def test_bins_stand_for_the_middle_of_their_whole_numbers():
    assert MIDDLES.tolist() == [1, 2, 3.5, 6.5, 12.5, 24.5, 48]


def test_noise_alone_is_not_found():
    assert not read_histogram([3, -2, 5, 0, 1, -4, 2], 10, MIDDLES, slow=0.5).found


def test_counts_fall_beyond_the_last_bin_that_stands_out():
    reading = read_histogram([1000, 900, 10, 30, 25, 20, -3], 10, MIDDLES, slow=0.5)
    assert reading.found
    assert np.all(reading.owners[3:] <= 0.3 * reading.owners[2:-1] + 1e-9)
    assert np.all(reading.pessimistic >= reading.owners)


def test_a_lone_bin_needs_more_than_one_with_a_neighbour():
    lone = [1000, 0, 0, 0, 0, 55, 0]
    near = [1000, 0, 0, 0, 50, 55, 0]
    assert read_histogram(lone, 10, MIDDLES, slow=0.5).owners[5] == 0
    assert read_histogram(near, 10, MIDDLES, slow=0.5).owners[5] == 55


def test_false_bins_are_as_rare_as_they_should_be():
    # 2,000 histograms of noise alone; 5% chance each at most, so above 180 has a chance below 1e-6
    rng = np.random.default_rng(3)
    noise = rng.laplace(0, 10, (2000, len(MIDDLES)))
    assert sum(read_histogram(row, 10, MIDDLES, slow=0.5).found for row in noise) < 180


def test_what_is_kept_grows_with_the_limit():
    reading = read_histogram([1000, 900, 500, 200, 100, 60, 50], 1, MIDDLES, slow=0.5)
    shares = [reading.kept(edge) for edge in EDGES]
    assert shares == sorted(shares)
    assert all(reading.kept(edge, pessimistic=True) <= reading.kept(edge) + 1e-9 for edge in EDGES)


@pytest.mark.parametrize(("counts", "limit"), [([5000, 0, 0, 0, 0, 0, 0], 1.0), ([0, 0, 0, 5000, 0, 0, 0], 8.0)])
def test_owners_of_one_size_get_that_limit(counts, limit):
    reading = read_histogram(counts, 10, MIDDLES, slow=0.5)
    target = Target(tuple(map(float, EDGES)), reading, (2.0,))
    assert choose([GroupOption(1, lambda _: 1.0, 0.0)], None, [target], reading.total).limits == (limit,)


def test_more_noise_means_a_smaller_limit():
    reading = read_histogram([1000, 500, 250, 120, 60, 30, 15], 1, MIDDLES, slow=0.5)

    def limit(sigma: float) -> float:
        target = Target(tuple(map(float, EDGES)), reading, (sigma,))
        return choose([GroupOption(1, lambda _: 1.0, 0.0)], None, [target], reading.total).limits[0]

    assert limit(1.0) > limit(100.0)
