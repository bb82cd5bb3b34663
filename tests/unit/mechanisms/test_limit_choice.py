"""Reading noisy histograms and choosing limits: what stands out is believed, tails fall, the choice follows the data."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.mechanisms import limit_choice
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


def test_a_bin_far_out_needs_more_than_one_next_to_others():
    far = [1000, 0, 0, 0, 0, 80, 0]
    near = [1000, 300, 0, 60, 55, 55, 0]
    assert read_histogram(far, 10, MIDDLES, slow=0.5).owners[5] == 0
    assert read_histogram(near, 10, MIDDLES, slow=0.5).owners[5] == 55


def test_bins_next_to_each_other_stand_out_together():
    assert read_histogram([5, 0, 38, 38, 36, 3, 0], 10, MIDDLES, slow=0.5).found
    assert not read_histogram([38, 0, 0, 38, 0, 0, 0], 10, MIDDLES, slow=0.5).found


def test_noise_next_to_the_last_bin_is_not_believed():
    reading = read_histogram([100_000, 15, 0, 0, 0, 0, 0], 10, MIDDLES, slow=0.5)
    assert reading.kept(1.0) == 1.0
    assert reading.kept(1.0, pessimistic=True) < 1.0


@pytest.mark.slow
def test_false_limits_add_little_to_the_error():
    # 20,000 histograms of owners with one group each: a limit c is too large by a factor of c. With the chance falling by 1/c² the
    # mean square of it stays small; at the same chance for every bin one far bin in 200 runs would make it 100 or more.
    middles = middles_of([1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000], whole=True)
    noise = np.random.default_rng(5).laplace(0, 10, (20_000, len(middles)))
    noise[:, 0] += 10_000
    readings = (read_histogram(row, 10, middles, slow=0.7) for row in noise)
    largest = [middles[reading.owners > 0][-1] for reading in readings]
    assert np.mean(np.square(largest)) < 20


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


def test_a_tail_that_does_not_fall_off_weighs_and_goes_on_beyond_the_last_edge():
    heavy = read_histogram([4000, 2000, 1000, 500, 250, 125, 60], 10, MIDDLES, slow=0.5, beyond=8)
    light = read_histogram([1000, 3000, 4000, 900, 20, 5, 0], 10, MIDDLES, slow=0.5, beyond=8)
    assert heavy.heaviness == 1
    assert light.heaviness < 0.5
    assert heavy.kept(32, pessimistic=True) < heavy.kept(32) - 0.1
    assert heavy.middles[-1] == 48 * 2**8
    assert heavy.pessimistic.sum() == pytest.approx(heavy.owners.sum(), abs=1)
    assert heavy.certain == 24.5
    assert light.certain == 6.5


def test_heavy_owners_are_within_what_is_feared_of_them():
    # Pareto owners with exponent 0.9, 4,000 of them and a histogram at ε = 0.1: what is kept is below what is believed, and not far
    # below what is feared. The seed is fixed, so this cannot fail by chance.
    rng = np.random.default_rng(9)
    edges = [2.0**power for power in range(11)]
    middles = middles_of(edges, whole=True)
    for _ in range(20):
        rows = np.minimum(1 + rng.pareto(0.9, 4000) * 3, 2000).astype(int)
        counts = np.bincount(np.searchsorted(edges, rows), minlength=12) + rng.laplace(0, 10, 12)
        reading = read_histogram(counts, 10, middles, slow=0.5, unseen=0.0, beyond=8)
        kept = np.minimum(rows, 256).sum() / rows.sum()
        assert reading.heaviness > 0.3
        assert reading.kept(256, pessimistic=True) ** 1.25 < kept < reading.kept(256, with_tail=True) + 0.02


def test_bins_that_barely_stand_out_say_little_about_a_tail():
    sure = read_histogram([0, 500, 260, 130, 70, 0, 0], 2, MIDDLES, slow=0.5, beyond=8)
    hidden = read_histogram([0, 500, 260, 130, 70, 0, 0], 40, MIDDLES, slow=0.5, beyond=8)
    assert sure.heaviness > 0.75
    assert hidden.heaviness < 0.5


def test_noise_next_to_owners_with_one_group_is_no_heavy_tail():
    reading = read_histogram([4200, 40, 50, 45, 0, 0, 0], 10, MIDDLES, slow=0.7, beyond=8)
    assert reading.heaviness == 0


def test_one_bin_far_out_does_not_outdo_few_owners_who_are_spread():
    edges = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
    counts = [0.0, 3, 4, 15, 19, 22, 14, 9, 3] + [0.0] * 10
    counts[16] = 29.0  # more than any other, and more than noise of this scale is expected to be anywhere
    reading = read_histogram(counts, 5.0, middles_of(edges, whole=True), slow=0.5)
    assert reading.found
    assert reading.owners[16] < 1
    assert reading.owners[4] > 0


OCTAVES = middles_of([2**power for power in range(31)], whole=False)


def test_a_part_that_is_empty_has_no_bin_far_from_everybody():
    # Sums of one sign: noise filled one bin of the other, a million times as large. It made intervals of trillions.
    everybody = np.zeros(32)
    everybody[6:10] = 400, 900, 700, 200
    empty = np.zeros(32)
    empty[28] = 75
    alone = read_histogram(empty, 10, OCTAVES, slow=0.5)
    beside = read_histogram(empty, 10, OCTAVES, slow=0.5, whole=everybody + empty)
    assert alone.found
    assert not beside.found


def test_a_bin_far_out_that_noise_may_have_filled_is_not_feared():
    counts = np.zeros(32)
    counts[6:10] = 400, 900, 700, 200
    counts[28] = 75
    reading = read_histogram(counts, 10, OCTAVES, slow=0.5)
    assert reading.pessimistic[28] < 1
    counts[28] = 400
    assert read_histogram(counts, 10, OCTAVES, slow=0.5).pessimistic[28] >= 400


def test_a_tail_is_feared_to_fall_as_slowly_as_what_is_seen_of_it():
    falling = np.array([400 * 0.62**power for power in range(8)] + [0.0] * 24)
    steep = np.array([400 * 0.5**power for power in range(8)] + [0.0] * 24)
    slowly, quickly = (read_histogram(counts, 2, OCTAVES, slow=0.5) for counts in (falling, steep))
    assert slowly.heaviness == 1
    assert slowly.kept(128, pessimistic=True) < 0.7 * quickly.kept(128, pessimistic=True)


def test_chance_adds_to_what_a_heavy_tail_is_feared_to_hold_of_one_total():
    """Octaves that halve hold as much each; how many owners are in the last varies by more than there are."""
    middles = middles_of([float(2**k) for k in range(20)], whole=False)
    heavy = [1000.0 / 2**k for k in range(6)] + [0.0] * 15
    light = [1000.0 / 8**k for k in range(4)] + [0.0] * 17

    def feared(counts, *, one_total):
        return read_histogram(counts, 2.0, middles, slow=0.5, unseen=0.0, one_total=one_total)

    calm, reading = (feared(heavy, one_total=one) for one in (False, True))
    assert reading.heaviness > 0.7
    more = float((reading.pessimistic - calm.pessimistic) @ middles)
    spread = float(calm.pessimistic[6:] @ middles[6:] ** 2) ** 0.5
    assert more == pytest.approx(limit_choice.CHANCE * reading.heaviness**2 * spread, rel=1e-6)
    assert np.array_equal(feared(light, one_total=True).pessimistic, feared(light, one_total=False).pessimistic)


EDGES = [2.0**power for power in range(-10, 31)]


def of_sums(filled, **options):
    """Counts of owners' sums, and their reading; `filled`: the first of neighbouring bins → what they hold."""
    counts = np.zeros(len(EDGES) + 1)
    for first, owners in filled.items():
        counts[first : first + len(owners)] = owners
    return counts, read_histogram(counts, 4.5, middles_of(EDGES, whole=False), slow=0.5, **options)


SPREAD = [10, 7, 13, 7, 13, 7, 13, 7, 11, 10]


def test_a_bin_that_noise_filled_does_not_outdo_owners_who_are_spread():
    """Seventy owners in eleven octaves hide one by one; a bin far below them holds 35, which is noise."""
    counts, reading = of_sums({4: [35]})
    assert reading.found
    assert not limit_choice.overlooks(counts, 4.5, reading, reading.top)
    counts, misread = of_sums({4: [35], 14: [9, 4, 12, 3, 13, 2, 12, 4, 11]})
    assert misread.top == 4
    assert limit_choice.overlooks(counts, 4.5, misread, misread.top)


def test_owners_who_are_spread_are_found_together():
    _, alone = of_sums({14: SPREAD})
    assert not alone.found
    _, together = of_sums({4: [20], 14: SPREAD}, wide=True)
    assert together.found
    assert together.top == 23
    _, noise = of_sums({4: [20], 14: [9, -4, 12, -3, 13, -12]}, wide=True)
    assert not noise.found


def test_what_stands_out_is_believed_whatever_few_owners_lie_beyond():
    for beyond in ([8, 9, 7, 8, 9], [20] * 9):
        counts, reading = of_sums({10: [400, 300, *beyond]})
        assert reading.found
        assert not limit_choice.overlooks(counts, 4.5, reading, reading.top)


def test_noise_fills_neighbours_as_rarely_as_it_should():
    draw = np.random.default_rng(2)
    found = sum(
        read_histogram(
            draw.laplace(0, 4.5, len(EDGES) + 1), 4.5, middles_of(EDGES, whole=False), slow=0.5, wide=True
        ).found
        for _ in range(2000)
    )
    assert found < 100  # 5%; runs overlap, so that it is less


GROUPS = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500]
IN_MANY_GROUPS = [2, 4, 1, 8, 10, 16, 33, 50, 95, 115, 77, 65, 51, 34, 34, 13, 0]
"""Six hundred owners by how many films they rated."""


def test_hundreds_of_owners_in_many_groups_each_are_hardly_ever_overlooked():
    draw = np.random.default_rng(608)
    middles = middles_of(GROUPS, whole=True)
    readings = [
        read_histogram(IN_MANY_GROUPS + draw.laplace(0, 20, len(IN_MANY_GROUPS)), 20, middles, slow=0.6, beyond=8)
        for _ in range(1000)
    ]
    assert sum(not reading.found for reading in readings) <= 10
    assert sum(reading.top < GROUPS.index(50) for reading in readings if reading.found) <= 20
