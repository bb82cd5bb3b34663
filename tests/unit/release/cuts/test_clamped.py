"""Bounds that were found cut values off: the far ends of intervals count what the noisy histogram says about it, for nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.events import LaplaceNoise, Shift
from shoal.errors import InternalError
from shoal.params import Bounds
from shoal.plan.aggregates import Extreme, Quantile, Quantiles
from shoal.plan.expressions import Column
from shoal.plan.measures import Histogram, OwnerMean, RowCount
from shoal.plan.types import DOUBLE
from shoal.release.cuts.clamped import beyond_in_words, what_is_clamped
from shoal.release.cuts.widening import Widening, of_quantile

OWNERS = 400
X = Column("x", DOUBLE)
REALS = Histogram(OwnerMean(X))
NOISE = LaplaceNoise(Shift(1, 1), Fraction(2))


def cut(filled, low, high, histogram=REALS):
    """What is clamped where these bins (by upper edge) have these counts, and bounds reach from edge to edge."""
    counts = np.zeros(len(histogram.bins))
    uppers = [float(histogram.edges(number)[1]) for number in histogram.bins]
    lowers = [float(histogram.edges(number)[0]) for number in histogram.bins]
    for edge, count in filled.items():
        counts[uppers.index(edge)] = count
    ends = lowers.index(low), uppers.index(high)
    return what_is_clamped(histogram, NOISE, counts, ends, Bounds(Fraction(low), Fraction(high)))


def test_what_lies_above_is_counted_above_and_what_lies_below_below():
    found = cut({32: 100, 64: 1000}, 32, 64)
    assert found.below.believed == pytest.approx(100 * 8 / 1000)
    assert found.above.believed == 0
    assert found.below.feared > found.below.believed
    found = cut({128: 100, 64: 1000}, 32, 64)
    assert found.above.believed == pytest.approx(100 * 32 / 1000)
    assert found.above.feared > found.above.believed > found.below.believed


def test_a_far_bin_that_is_noise_is_not_believed():
    far = cut({64: 1000, 2.0**20: 5}, 32, 64)
    near = cut({64: 1000}, 32, 64)
    assert far.above.believed == near.above.believed == 0
    assert far.above.feared <= 64


def test_more_owners_fear_less():
    assert cut({64: 10**6}, 32, 64).above.feared < cut({64: 100}, 32, 64).above.feared / 1000


def test_rows_of_each_owner_are_whole_numbers():
    found = cut({1: 100, 3: 500, 7: 20}, 1, 3, Histogram(RowCount()))
    assert found.above.believed == pytest.approx(20 * (5.5 - 3) / 600)


def test_words_name_the_share():
    assert "about 9%" in beyond_in_words(cut({128: 100, 64: 1000}, 32, 64))
    assert "next to none" in beyond_in_words(cut({64: 10**6}, 32, 64))


def test_an_end_is_never_moved_inwards():
    with pytest.raises(InternalError):
        Widening(high_factor=Fraction(1, 2))
    with pytest.raises(InternalError):
        Widening(low_shift=Fraction(-1))
    low, high = Widening(low_factor=Fraction(2), high_factor=Fraction(3)).of(
        np.array([10.0, -4.0]), np.array([20.0, -1.0])
    )
    assert low.tolist() == [0.0, -4.0]
    assert high.tolist() == [60.0, -1.0]


def test_numbers_without_an_interval_stay_without():
    low, high = (np.array([None, 1.0], dtype=object) for _ in range(2))
    assert Widening(high_shift=Fraction(1)).of(low, high)[1].tolist() == [None, 2.0]


def test_a_quantile_goes_beyond_a_bound_as_far_as_it_may_lie():
    found, bounds = cut({128: 100, 64: 1000}, 32, 64), Bounds(Fraction(32), Fraction(64))
    greatest, median = Extreme(X, "max"), Quantile(X, Fraction(1, 2), 1)
    low, high = of_quantile(greatest, found, bounds).of(np.array([40.0, 40.0]), np.array([63.0, 64.0]))
    assert low.tolist() == [40.0, 40.0]
    assert high[0] == 63.0
    assert high[1] >= 128.0
    assert of_quantile(median, found, bounds).of(np.array([40.0]), np.array([64.0]))[1].tolist() == [64.0]
    tenth = Quantile(X, Fraction(19, 20), 1)
    assert of_quantile(tenth, found, bounds).of(np.array([40.0]), np.array([64.0]))[1].tolist() == [128.0]


def lists(*rows):
    made = np.empty(len(rows), dtype=object)
    made[:] = rows
    return made


def test_each_number_of_a_list_goes_beyond_a_bound_as_far_as_it_does_alone():
    found, bounds = cut({128: 100, 64: 1000}, 32, 64), Bounds(Fraction(32), Fraction(64))
    ranks = Fraction(1, 2), Fraction(19, 20), Fraction(1)
    widening = of_quantile(Quantiles(X, ranks, 1), found, bounds)
    low, high = widening.of(lists([40.0, 40.0, 40.0], None), lists([64.0, 64.0, 64.0], None))
    alone = [of_quantile(Quantile(X, rank, 1), found, bounds) for rank in ranks]
    assert high[0] == [each.of(np.array([40.0]), np.array([64.0]))[1][0] for each in alone]
    assert high[0][0] == 64.0 < high[0][1] < high[0][2]
    assert low.tolist() == [[40.0, 40.0, 40.0], None]
    assert high[1] is None
    inside = widening.of(lists([40.0, 40.0, 40.0]), lists([50.0, 60.0, 63.0]))
    assert inside[1].tolist() == [[50.0, 60.0, 63.0]]


def test_towards_zero_an_end_is_zero():
    found, bounds = cut({64: 1000, 16: 40}, 32, 64), Bounds(Fraction(32), Fraction(64))
    low, _ = of_quantile(Extreme(X, "min"), found, bounds).of(np.array([32.0]), np.array([50.0]))
    assert low.tolist() == [0.0]
    low, _ = of_quantile(Quantiles(X, 2, 1), found, bounds).of(lists([32.0, 40.0, 50.0]), lists([33.0, 45.0, 50.0]))
    assert low.tolist() == [[0.0, 40.0, 50.0]]


@pytest.mark.parametrize("listed", ["APPROX_QUANTILES(x, 4)", "QUANTILE_CONT(x, [1.0])"])
def test_the_ends_of_a_list_hold_values_that_bounds_cut(listed):
    """Three of 6,000 values are far beyond what noise lets a search find; the answer keeps its ends as bytes."""
    values = np.concatenate([np.random.default_rng(3).uniform(3, 60, 6000), [100, 120, 150]])
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 1.0, "delta": 1e-6},
    }
    with shoal.connect({"t": pa.table({"uid": range(6003), "x": values})}, catalog=catalog) as session:
        answers = [session.query(f"SELECT {listed} AS q FROM t") for _ in range(6)]
    ends = [answer.intervals().to_dicts()[0] for answer in answers]
    # A search finds the three by chance in fewer than one answer of a hundred.
    assert sum(each["q_high"][-1] >= 150 > each["q_noise_high"][-1] for each in ends) >= 4
    assert all(each["q_low"][0] <= values.min() for each in ends) or listed.endswith("[1.0])")
    assert all("whom the noise hides" in " ".join(answer.notes) for answer in answers)
    assert shoal.Result.from_bytes(answers[0].to_bytes()).intervals().to_dicts()[0] == ends[0]


def test_a_least_value_that_could_be_anywhere_is_said_to_say_nothing():
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 1.0, "delta": 1e-6},
    }
    with shoal.connect({"t": pa.table({"uid": range(90), "x": np.linspace(33, 63, 90)})}, catalog=catalog) as session:
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.05, measure_cut = 0)"
        sql = f"{clause} MAX(x, contribution_bounds_per_row => (0, 100)) AS most FROM t"
        # Its interval is shorter by chance in 1 of 25 answers: eight of them in a row are so once in 10¹¹ runs.
        notes = [note for _ in range(8) for note in session.query(sql).notes]
    assert any(note.startswith("most: noise hides how far off the number is") for note in notes)


@pytest.fixture(scope="module")
def made_up():
    """A stranger's file: one number per owner, about 50 ± 15; at ε = 1 the octave from 32 to 64 alone stands out, mostly."""
    values = np.random.default_rng(7).normal(50, 15, OWNERS)
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    table = pa.table({"uid": np.arange(OWNERS), "x": values, "half": np.arange(OWNERS) % 2})
    return shoal.connect({"t": table}, catalog=catalog), float(values.mean()), float(values.std())


@pytest.mark.parametrize("column", ["AVG(x)", "STDDEV(x)"])
def test_intervals_hold_the_truth_where_values_are_clamped(made_up, column):
    """Sixteen answers: the noise alone misses once in twenty; fewer than nine hold in less than 1 of 10⁶ runs."""
    session, mean, deviation = made_up
    truth = mean if column.startswith("AVG") else deviation
    rows = [session.query(f"SELECT {column} AS a FROM t").intervals().to_dicts()[0] for _ in range(16)]
    assert sum(row["a_low"] <= truth <= row["a_high"] for row in rows) >= 9
    assert all(row["a_low"] <= row["a_noise_low"] <= row["a_noise_high"] <= row["a_high"] for row in rows)


def test_bounds_of_each_group_move_the_ends_of_their_groups(made_up):
    session, _, _ = made_up
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 4, delta = 1e-6, kappa = 1, inferred_bounds = PER_GROUP) "
        "half, AVG(x) AS a FROM t GROUP BY half"
    )
    rows = session.query(sql).intervals().to_dicts()
    assert rows
    assert all(row["a_low"] <= row["a_noise_low"] and row["a_high"] > row["a_noise_high"] for row in rows)


def test_bytes_keep_what_was_clamped(made_up):
    result = made_up[0].query("SELECT AVG(x) AS a FROM t")
    assert shoal.Result.from_bytes(result.to_bytes()).intervals(0.8).to_dicts() == result.intervals(0.8).to_dicts()


def test_bins_next_to_the_bounds_that_stand_out_are_believed_as_they_are():
    falling = cut({16: 5000, 32: 1200, 64: 200, 128: 40, 256: 30, 512: 28}, 8, 64)
    assert falling.above.believed == pytest.approx((40 * 32 + 30 * 128 + 28 * 320) / 6400)
    assert falling.above.feared > 1.5 * falling.above.believed
    assert falling.heaviness == 1
    assert cut({64: 5000, 128: 40}, 32, 64).heaviness == 0


def test_noise_far_out_does_not_stand_out():
    gap = cut({64: 5000, 2.0**12: 60}, 32, 64)
    assert gap.above.believed == 0


def test_a_tail_that_hardly_falls_is_feared_to_go_on():
    """Prices: most below 16, and a few in each octave up to thousands of times that; noise hides the last ones."""
    body = {2: 700, 4: 2300, 8: 1000, 16: 150}
    light = cut(body | {32: 40, 64: 10}, 1, 16)
    heavy = cut(body | {32: 40, 64: 25, 128: 20, 256: 15, 512: 10}, 1, 16)
    hidden = sum(4 * (0.75 * 2.0**octave - 16) for octave in range(10, 14)) / 4150
    seen = sum(n * (0.75 * edge - 16) for edge, n in {32: 40, 64: 25, 128: 20, 256: 15, 512: 10}.items()) / 4150
    assert heavy.above.feared > seen + hidden
    assert light.above.feared < seen


def test_bins_that_stand_out_only_all_together_are_seen():
    few = {2.0**octave: 5 for octave in range(7, 17)}
    assert cut({64: 1000} | few, 32, 64).above.believed > cut({64: 1000}, 32, 64).above.believed
