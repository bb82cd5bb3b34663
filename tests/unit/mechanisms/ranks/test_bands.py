"""Intervals of quantiles: they hold the exact value as often as they say, whatever the rows are."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.events import GaussianNoise, LaplaceNoise, QuantileChoice, RankTarget, Shift
from shoal.errors import InternalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.quantile_choice import ChosenQuantiles, outer_margin
from shoal.mechanisms.quantiles import NoisyForest
from shoal.mechanisms.ranks import bands as bands_module
from shoal.mechanisms.ranks.bands import TreeWalk, bands_of, noise_points, rows_to_pass, rungs_around, walk_points

LEAVES, COPIES = 4096, 200
GENERATOR = np.random.default_rng(7)
ROWS = {
    "uniform": GENERATOR.random(1000),
    "few": GENERATOR.random(12),
    "lognormal": np.clip(GENERATOR.lognormal(2, 1, 2000) / 1000, 0, 0.999),
    "ages": np.clip(np.round(GENERATOR.normal(40, 12, 3000)), 18, 90) / 120,
    "ratings": GENERATOR.integers(1, 6, 800) / 6,
    "two heaps": np.concatenate([np.full(100, 0.25), np.full(101, 0.75)]),
}
FRACTIONS = [Fraction(0), Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)]


def copies_of(rows):
    leaf, count = np.unique((rows * LEAVES).astype(np.int64), return_counts=True)
    group = np.repeat(np.arange(COPIES), len(leaf))
    return COPIES, group, np.tile(leaf, COPIES), np.tile(count, COPIES)


def chosen_from(rows, fractions, seed=1):
    scale = Fraction(5 * len(fractions), 2)
    margins = [0 if Fraction(1, 10) <= p <= Fraction(9, 10) else outer_margin(scale, LEAVES) for p in fractions]
    targets = tuple(RankTarget(p, margin) for p, margin in zip(fractions, margins, strict=True))
    choice = QuantileChoice(Shift(1), scale, targets, Fraction(5))
    return ChosenQuantiles(*copies_of(rows), choice, LEAVES, seeded_entropy(seed))


def misses(bands, rows, place, number):
    """Exact values beside an interval: PERCENTILE_CONT, and the parts of [L, U] that hold PERCENTILE_DISC."""
    fraction = float(bands.fractions[place])
    low, high = bands.low[:, place, number], bands.high[:, place, number]
    exact = [np.quantile(rows, fraction), np.quantile(rows, fraction, method="inverted_cdf")]
    return max(int(((value < low) | (value > high)).sum()) for value in exact)


@pytest.mark.parametrize("name", ROWS)
def test_intervals_hold_the_exact_value(name):
    """200 draws for each of six quantiles and two levels: more than 25 misses at 95%, or 75 at 80%, happen less than once in 10⁴
    runs where misses are as frequent as they may be; they are about a quarter of that, and the seed is fixed."""
    for fraction in FRACTIONS:
        bands = chosen_from(ROWS[name], [fraction]).bands([fraction], [0.8, 0.95])
        assert misses(bands, ROWS[name], 0, 0) <= 60
        assert misses(bands, ROWS[name], 0, 1) <= 20
        assert (bands.low <= bands.high).all()
        assert (bands.low[:, :, 1] <= bands.low[:, :, 0]).all()
        assert (bands.high[:, :, 1] >= bands.high[:, :, 0]).all()


@pytest.mark.parametrize("noise", [LaplaceNoise(Shift(1, 3), Fraction(3)), GaussianNoise(Shift(1, 3), Fraction(4))])
@pytest.mark.parametrize("name", ROWS)
def test_intervals_off_a_tree_hold_the_exact_value(name, noise):
    forest = NoisyForest(*copies_of(ROWS[name]), noise, height=3, entropy=seeded_entropy(2))
    bands = forest.bands(FRACTIONS, [0.8, 0.95])
    for place in range(len(FRACTIONS)):
        assert misses(bands, ROWS[name], place, 0) <= 60
        assert misses(bands, ROWS[name], place, 1) <= 20


def test_several_quantiles_share_their_counts():
    fractions = [Fraction(i, 10) for i in range(1, 10)]
    bands = chosen_from(ROWS["lognormal"], fractions).bands(fractions, [0.95])
    assert all(misses(bands, ROWS["lognormal"], place, 0) <= 20 for place in range(9))
    rows = np.sort(ROWS["lognormal"])
    wide = np.searchsorted(rows, bands.high[:, 4, 0]) - np.searchsorted(rows, bands.low[:, 4, 0])
    assert np.median(wide) < 1000


def test_a_heap_of_equal_values_has_a_narrow_interval():
    bands = chosen_from(ROWS["ages"], [Fraction(1, 2)]).bands([Fraction(1, 2)], [0.95])
    assert np.median(bands.high - bands.low) < 3 / 120


def test_without_counts_there_is_no_interval():
    choice = QuantileChoice(Shift(1), Fraction(2), (RankTarget(Fraction(1, 2)),))
    chosen = ChosenQuantiles(*copies_of(ROWS["few"]), choice, LEAVES, seeded_entropy(3))
    assert chosen.bands([Fraction(1, 2)], [0.95]) is None


def test_levels_between_known_ones_take_the_next_higher():
    bands = chosen_from(ROWS["uniform"], [Fraction(1, 2)]).bands([Fraction(1, 2)], [0.5, 0.95])
    assert (bands.at(0.6)[1] == bands.at(0.95)[1]).all()
    assert bands.at(0.99) is None


@pytest.mark.parametrize("fraction", [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("tree", [False, True])
def test_where_rows_are_a_sample_intervals_hold_the_quantile_of_all_rows(fraction, tree):
    """200 samples of 2,000 rows, noise of a tenth of a row: 20 misses where 10 are expected, with a fixed seed. Without
    the allowance more than half miss."""
    samples = np.random.default_rng(11).random((COPIES, 2000))
    group = np.repeat(np.arange(COPIES), 2000)
    cells, counts = np.unique(group * LEAVES + (samples.reshape(-1) * LEAVES).astype(np.int64), return_counts=True)
    held = COPIES, cells // LEAVES, cells % LEAVES, counts
    if tree:
        forest = NoisyForest(*held, LaplaceNoise(Shift(1, 3), Fraction(1, 10)), height=3, entropy=seeded_entropy(4))
    else:
        choice = QuantileChoice(Shift(1), Fraction(1, 10), (RankTarget(fraction),), Fraction(1, 10))
        forest = ChosenQuantiles(*held, choice, LEAVES, seeded_entropy(4))

    def missed(*, sampled):
        bands = forest.bands([fraction], [0.95], sampled=sampled)
        return int(((bands.low > float(fraction)) | (bands.high < float(fraction))).sum())

    assert missed(sampled=True) <= 20
    assert missed(sampled=False) > 60


@given(st.lists(st.integers(0, 15), min_size=1, max_size=5), st.sampled_from([16, 7, 100]))
@settings(max_examples=40)
def test_rungs_rise_from_end_to_end_and_hold_every_chosen_leaf(chosen, leaves):
    kept = sorted(min(leaf, leaves - 1) for leaf in chosen)
    rungs = rungs_around(np.array([kept]), leaves)[0]
    assert (np.diff(rungs) >= 0).all()
    assert (rungs[0], rungs[-1]) == (0, leaves)
    assert set(kept) | {leaf + 1 for leaf in kept} <= set(rungs.tolist())


def test_few_rungs_lie_where_few_rows_do():
    """Every bin adds noise to every interval: 32 of them made the median of 500 rows lie anywhere at small ε."""
    assert len(np.unique(rungs_around(np.array([[30_000]]), 65536))) <= 22
    assert rows_to_pass(LaplaceNoise(Shift(1), Fraction(4)), Fraction(1, 2), 0.95, 65536) < 28


def law_of_sums(scale: float, below: int, above: int, fraction: Fraction) -> dict[int, float]:
    """The law of d·((1 − p)·Σ − p·Σ′) by convolution of discrete Laplace noise, in whole numbers."""
    reach = math.ceil(14 * scale) + 2
    single = {k: math.exp(-abs(k) / scale) for k in range(-reach, reach + 1)}
    whole = sum(single.values())
    top, bottom = fraction.numerator, fraction.denominator
    law = {0: 1.0}
    for weight in [bottom - top] * below + [top] * above:
        terms = [(weight * k, w / whole) for k, w in single.items()]
        found: dict[int, float] = {}
        for (at, chance), (step, part) in itertools.product(law.items(), terms):
            found[at + step] = found.get(at + step, 0.0) + chance * part
        law = found
    return law


@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(1, 2), Fraction(3, 4), Fraction(1)])
@pytest.mark.parametrize(("below", "above"), [(1, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_points_of_the_noise_are_those_of_its_law(fraction, below, above, scale):
    noise = LaplaceNoise(Shift(1), Fraction(scale))
    law = law_of_sums(scale, below, above, fraction)
    for chance in (0.25, 0.05, 0.025, 0.005):
        point = float(noise_points(noise, np.array([[below], [above]]), float(fraction), chance)[0])
        beyond = sum(p for at, p in law.items() if at > point * fraction.denominator)
        assert beyond <= chance * 1.02
        # Not much further than needed: a row and a half less would be passed too often.
        nearer = sum(p for at, p in law.items() if at > (point - 1.5) * fraction.denominator - 1e-9)
        assert nearer >= chance * 0.98


def test_what_cannot_be_a_tail_is_refused():
    with pytest.raises(InternalError):
        noise_points(LaplaceNoise(Shift(1), Fraction(1)), np.array([[1], [1]]), 0.5, 0.5)


def test_without_noise_a_quantile_is_where_the_rows_say():
    rungs = np.array([[0, 3, 4, 5, 8]])
    low, high = bands_of(
        rungs, np.array([[5.0, 0.0, 7.0, 1.0]]), LaplaceNoise(Shift(0), Fraction(0)), [Fraction(1, 2)], [0.9]
    )
    assert (low[0, 0, 0], high[0, 0, 0]) == (4, 5)


def test_the_rows_that_an_interval_takes_fall_with_epsilon():
    rows = [rows_to_pass(LaplaceNoise(Shift(1), Fraction(5, e)), Fraction(1, 2), 0.95, 65536) for e in (1, 2, 4)]
    assert rows[0] > 1.8 * rows[1] > 3 * rows[2]


# ---- many quantiles at once ----------------------------------------------------------------------------------------

HUNDREDTHS = [Fraction(k, 100) for k in range(101)]


def test_what_a_walk_may_test_is_found_for_all_quantiles_at_once(monkeypatch):
    """A hundred quantiles took sixteen seconds of processor time, and two lists of a thousand the time of a whole query, after
    its charge: every edge on every way down found its point by itself."""
    calls = []
    monkeypatch.setattr(bands_module, "noise_points", lambda *asked: calls.append(asked) or noise_points(*asked))
    noise = LaplaceNoise(Shift(1, 4), Fraction(8))
    forest = NoisyForest(*copies_of(ROWS["few"]), noise, branching=16, height=3, entropy=seeded_entropy(3))
    found = forest.bands(HUNDREDTHS, [0.9, 0.95])
    assert len(calls) <= 2 * 3
    assert found.low.shape == found.high.shape == (COPIES, 101, 2)
    assert (found.low <= found.high).all()


@pytest.mark.parametrize("noise", [LaplaceNoise(Shift(1, 4), Fraction(8)), GaussianNoise(Shift(1, 4), Fraction(8))])
@pytest.mark.parametrize("upper", [False, True])
def test_quantiles_walk_together_as_they_do_alone(noise, upper):
    """The same counts for the same nodes, whoever asks."""
    groups, branching, height = 3, 4, 3

    def counted(node, level):
        return np.array([np.random.default_rng([int(n), level]).normal(30, 20, branching) for n in node])

    def walked(fractions):
        points = walk_points(noise, fractions, 0.01, branching, height)
        walk = TreeWalk(groups, points, fractions, upper=upper)
        for level in range(height):
            walk.into(counted(walk.node, level))
        return walk.node.reshape(groups, len(fractions))

    together = walked(FRACTIONS)
    for place, fraction in enumerate(FRACTIONS):
        np.testing.assert_array_equal(together[:, [place]], walked([fraction]))


def test_points_of_several_quantiles_are_those_of_each():
    noise = LaplaceNoise(Shift(1), Fraction(5))
    for level, table in enumerate(walk_points(noise, FRACTIONS, 0.02, 4, 3)):
        bins = 4 + 3 * level
        for place, fraction in enumerate(FRACTIONS):
            below = np.arange(1, bins)
            alone = noise_points(noise, np.stack([below, bins - below]), float(fraction), 0.02)
            np.testing.assert_allclose(table[place, 1:], alone, rtol=1e-12)
