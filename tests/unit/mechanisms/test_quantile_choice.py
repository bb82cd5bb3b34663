"""Quantiles by the exponential mechanism: the law that is drawn, what one row changes of it, and how far off it is."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import QuantileChoice, RankTarget, Shift
from shoal.errors import InternalError
from shoal.mechanisms import quantile_choice
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.quantile_choice import (
    ChosenQuantiles,
    Pieces,
    distances,
    doubled_rank,
    outer_margin,
    piece_exactly,
    planned_fraction,
    rank_error,
    rank_spread,
    units_per_row,
)

COUNTS = [0, 3, 1, 0, 2, 0, 0]
MEDIAN, P90, LEAST, GREATEST = (
    RankTarget(Fraction(1, 2)),
    RankTarget(Fraction(9, 10)),
    RankTarget(Fraction(0), 2),
    RankTarget(Fraction(1), 2),
)
LEANING = RankTarget(Fraction(1), 2, Fraction(1, 2))
TARGETS = [
    MEDIAN,
    P90,
    LEAST,
    GREATEST,
    RankTarget(Fraction(1, 4)),
    RankTarget(Fraction(1, 3), 1),
    LEANING,
    RankTarget(Fraction(1, 20), 1, Fraction(-3, 20)),
]


def pieces_of(counts) -> Pieces:
    """Rows in every leaf, empty ones too."""
    leaf = np.flatnonzero(counts)
    return Pieces.of(1, np.zeros_like(leaf), leaf, np.asarray(counts)[leaf], len(counts))


def drawn_from(counts, target: RankTarget, scale: Fraction, times: int, seed: int) -> np.ndarray:
    """How often each leaf is drawn in this many groups that are alike."""
    leaf = np.flatnonzero(counts)
    group = np.repeat(np.arange(times), len(leaf))
    rows = np.tile(np.asarray(counts)[leaf], times)
    choice = QuantileChoice(Shift(1), scale, (target,))
    chosen = ChosenQuantiles(times, group, np.tile(leaf, times), rows, choice, len(counts), seeded_entropy(seed))
    places = chosen.quantiles([float(target.fraction)])[:, 0] * len(counts) - 0.5
    return np.bincount(places.round().astype(np.int64), minlength=len(counts))


def law(counts, target: RankTarget, scale: float) -> np.ndarray:
    """The probability of every leaf, written down from the definition, leaf by leaf."""
    rows = sum(counts)
    inwards = max(Fraction(0), target.margin - Fraction(1, 2))
    rank = min(max(target.fraction * rows, inwards), rows - inwards)
    rank = Fraction(rows, 2) if rows < 2 * inwards else rank
    below = [sum(counts[:leaf]) for leaf in range(len(counts))]
    low, high = 1 - target.lean, 1 + target.lean
    far = [max(0, low * (rank - b - c), high * (b - rank)) for b, c in zip(below, counts, strict=True)]
    weights = np.array([math.exp(-float(d / target.reach) / scale) for d in far])
    return weights / weights.sum()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_one_row_moves_no_probability_by_more_than_is_charged(target):
    scale = 1.5
    tightest = 0.0
    for counts in itertools.product(range(3), repeat=4):
        for leaf in range(4):
            more = [count + (place == leaf) for place, count in enumerate(counts)]
            ratios = np.log(law(more, target, scale) / law(counts, target, scale))
            tightest = max(tightest, float(np.abs(ratios).max()))
            # Bounded range: what the zCDP loss of a choice goes by.
            assert ratios.max() - ratios.min() <= 2 / scale + 1e-12
    assert tightest <= 2 / scale + 1e-12
    assert tightest > 0.5 / scale


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.sampled_from(TARGETS))
@settings(max_examples=60)
def test_pieces_have_the_distances_of_their_leaves(counts, target):
    pieces = pieces_of(counts)
    far = np.repeat(distances(pieces, target), pieces.width) / units_per_row(target)
    weights = np.exp(-far / (float(target.reach) * 1.5))
    assert int(pieces.width.sum()) == len(counts)
    assert weights / weights.sum() == pytest.approx(law(counts, target, 1.5), rel=1e-12)


@given(st.sampled_from(TARGETS), st.integers(0, 10**9))
def test_a_rank_grows_by_at_most_one_with_a_row(target, rows):
    unit = 2 * target.fraction.denominator
    ranks = doubled_rank(target, np.array([rows, rows + 1]))
    assert 0 <= ranks[1] - ranks[0] <= unit


@pytest.mark.parametrize("target", [MEDIAN, P90, LEAST, LEANING], ids=str)
def test_leaves_are_drawn_with_their_probabilities(target):
    """40,000 draws; a χ² test at 10⁻⁷ for each of four targets."""
    drawn = drawn_from(COUNTS, target, Fraction(2), 40_000, 11)
    assert stats.chisquare(drawn, 40_000 * law(COUNTS, target, 2.0)).pvalue > 1e-7


def test_a_wrong_scale_is_seen_by_the_same_test():
    drawn = drawn_from(COUNTS, MEDIAN, Fraction(19, 10), 40_000, 12)
    assert stats.chisquare(drawn, 40_000 * law(COUNTS, MEDIAN, 2.0)).pvalue < 1e-7


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.sampled_from(TARGETS), st.integers(0, 2**64 - 1))
@settings(max_examples=60)
def test_integers_and_floats_choose_the_same_piece(counts, target, word):
    pieces = pieces_of(counts)
    far = distances(pieces, target)
    rate = 1 / (units_per_row(target) * target.reach * Fraction(3, 2))
    chosen, sure = quantile_choice._by_floats(pieces, far, float(rate), np.array([word], dtype=np.uint64))
    exactly = piece_exactly(pieces.width.tolist(), far.tolist(), rate, word, seeded_entropy(1))
    assert not sure[0] or chosen[0] == exactly


def test_a_cut_at_exactly_one_half_is_decided():
    """Two leaves that are alike, and a number that starts like the cut between them: more digits decide."""
    entropy = seeded_entropy(2)
    found = {
        piece_exactly([1, 1], [0, 0], Fraction(1, 3), word, entropy) for word in (2**63 - 1, 2**63) for _ in range(20)
    }
    assert found == {0, 1}
    assert piece_exactly([2, 1, 1, 2], [1, 0, 0, 1], Fraction(1, 3), 2**63, entropy) == 2
    assert piece_exactly([2, 1, 1, 2], [1, 0, 0, 1], Fraction(1, 3), 2**63 - 1, entropy) == 1


def test_close_calls_go_to_the_integers(monkeypatch):
    monkeypatch.setattr(quantile_choice, "UNSURE", 1.0)
    drawn = drawn_from(COUNTS, P90, Fraction(2), 1500, 5)
    assert stats.chisquare(drawn, 1500 * law(COUNTS, P90, 2.0)).pvalue > 1e-7


@pytest.mark.parametrize("scale", [2, 40])
def test_the_chosen_leaf_is_as_near_the_rank_as_is_told(scale):
    """400 draws at 95%: more than 60 misses would happen once in 10¹³ runs."""
    leaf, count = leaves_of(np.random.default_rng(3).lognormal(2, 1, 3000) / 1000)
    ranks = np.concatenate([[0], np.cumsum(count)])
    for target in (MEDIAN, P90):
        choice = QuantileChoice(Shift(1), Fraction(scale), (target,))
        found = repeated(leaf, count, choice, 400, 4)[:, 0] * 65536
        upto, below = (ranks[np.searchsorted(leaf, found.astype(np.int64), side)] for side in ("right", "left"))
        rank = float(target.fraction) * 3000
        off = np.maximum(0, np.maximum(rank - upto, below - rank))
        assert np.sum(off > rank_error(choice, target, 0.95, 65536)) <= 60


def leaves_of(places) -> tuple[np.ndarray, np.ndarray]:
    """Rows at places in [0, 1], counted by leaf."""
    return np.unique((np.clip(places, 0, 0.99999) * 65536).astype(np.int64), return_counts=True)


def repeated(leaf, count, choice: QuantileChoice, times: int, seed: int) -> np.ndarray:
    """The quantiles of this many groups with the same rows."""
    group = np.repeat(np.arange(times), len(leaf))
    fractions = [float(target.fraction) for target in choice.targets]
    rows = np.tile(leaf, times), np.tile(count, times)
    return ChosenQuantiles(times, group, *rows, choice, 65536, seeded_entropy(seed)).quantiles(fractions)


def test_the_least_value_is_found_where_the_rows_are():
    """normal(95, 3) in [0, 100]: the first noisy count of a tree is anywhere. 40 draws; 12 misses happen once in 10⁹ runs."""
    leaf, count = leaves_of(np.random.default_rng(7).normal(0.95, 0.03, 1000))
    target = RankTarget(Fraction(0), outer_margin(Fraction(2), 65536))
    found = repeated(leaf, count, QuantileChoice(Shift(1), Fraction(2), (target,)), 40, 8)
    assert np.sum(np.abs(found - 0.86) > 0.1) < 12


@pytest.mark.parametrize("fraction", [Fraction(1), Fraction(19, 20)])
def test_a_choice_that_leans_is_closer_to_thin_ends(fraction):
    """The law over lognormal rows in [0, 1000]: expected squared errors, with the same loss."""
    leaf, count = leaves_of(np.random.default_rng(20).lognormal(2, 1, 1000) / 1000)
    rows = np.zeros(65536, dtype=np.int64)
    rows[leaf] = count
    places, truth = (np.arange(65536) + 0.5) / 65536, np.searchsorted(np.cumsum(rows), float(fraction) * 1000) / 65536
    errors = []
    for lean in (Fraction(0), Fraction(1, 2) if fraction == 1 else Fraction(3, 20)):
        scale = Fraction(5, 2)
        target = RankTarget(fraction, outer_margin(scale, 65536, lean), lean)
        pieces = pieces_of(rows)
        weights = np.repeat(np.exp(-distances(pieces, target) / float(units_per_row(target) * scale)), pieces.width)
        errors.append(math.sqrt(np.sum(weights * (places - truth) ** 2) / weights.sum()))
    assert errors[1] < 0.9 * errors[0]


def test_the_spread_of_a_choice_that_leans_is_that_of_its_two_sides():
    """Rows one to a leaf, far from both ends: the law is exponential to either side."""
    target, scale = RankTarget(Fraction(1), 500, Fraction(1, 2)), 20.0
    chances = law([1] * 1000, target, scale)
    # Half a row of distance at the leaves beside the rank is all that a real line is different by.
    spread = math.sqrt(np.sum(chances * (np.arange(1000) - 499.5) ** 2))
    assert spread == pytest.approx(rank_spread(QuantileChoice(Shift(1), Fraction(20), (target,)), 1000), rel=0.01)


def test_only_a_rank_with_a_margin_leans():
    with pytest.raises(InternalError, match="leans"):
        RankTarget(Fraction(1, 2), 0, Fraction(1, 2))
    with pytest.raises(InternalError, match="leans"):
        RankTarget(Fraction(1), 2, Fraction(1))


def test_quantiles_of_groups_are_monotone_and_remembered():
    targets = tuple(RankTarget(Fraction(i, 4), 2 if i in {0, 4} else 0) for i in range(5))
    choice = QuantileChoice(Shift(1, 2), Fraction(8), targets)
    group, leaf = np.array([0, 0, 2, 2, 2]), np.array([4, 4, 1, 6, 7])
    chosen = ChosenQuantiles(4, group, leaf, np.ones(5, dtype=np.int64), choice, 16, seeded_entropy(1))
    found = chosen.quantiles([0.0, 0.25, 0.5, 0.75, 1.0])
    assert found.shape == (4, 5)
    assert (np.diff(found, axis=1) >= 0).all()
    assert np.array_equal(chosen.quantiles([0.5, 0.25]), found[:, [2, 1]])
    with pytest.raises(InternalError, match="not drawn"):
        chosen.quantiles([0.1])
    with pytest.raises(InternalError, match="outside"):
        ChosenQuantiles(1, group, leaf, np.ones(5, dtype=np.int64), choice, 16)


def test_a_choice_costs_twice_its_rows_over_its_scale():
    choice = QuantileChoice(Shift(3, 4, 12), Fraction(100), (MEDIAN, P90))
    loss = plan_loss([choice])
    assert (loss.epsilon, loss.delta) == (Fraction(2 * 2 * 12, 100), 0)
    assert loss.rho == Fraction(2 * 4 * 9, 2 * 100**2)
    assert loss.rho <= loss.epsilon**2 / 8


def test_fractions_with_many_digits_are_rounded_when_planning():
    assert planned_fraction(Fraction(1, 3)) == Fraction(1, 3)
    assert planned_fraction(0.1) == Fraction(1, 10)
    assert planned_fraction(Fraction(123456789, 10**9)).denominator <= 10**6
