"""Quantiles of whole numbers are whole numbers, closer than among all leaves, with narrower intervals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import QuantileChoice, RankTarget, Shift
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.quantile_choice import ChosenQuantiles
from shoal.mechanisms.ranks.whole_numbers import LEAVES_EACH, WholeQuantiles, number_of

LEAVES, COPIES = 65536, 100
FRACTIONS = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
AGES = np.clip(np.round(np.random.default_rng(3).normal(38, 13, 1500)), 17, 90).astype(np.int64)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 99, 120, 1000, LEAVES // LEAVES_EACH])
def test_every_whole_number_is_found_again_from_its_leaf(width):
    numbers = np.arange(width + 1)
    leaf = np.clip(np.floor(numbers * (LEAVES / width)), 0, LEAVES - 1).astype(np.int64)
    assert (number_of(leaf, LEAVES, width) == numbers).all()
    beside = np.clip(leaf[1:-1] - 1, 0, LEAVES - 1), np.clip(leaf[1:-1] + 1, 0, LEAVES - 1)  # rounding of reals
    assert all((number_of(each, LEAVES, width) == numbers[1:-1]).all() for each in beside)


def test_ages_are_whole_and_closer_than_among_all_leaves():
    leaf, count = np.unique((AGES * (LEAVES / 120)).astype(np.int64), return_counts=True)
    copies = COPIES, np.repeat(np.arange(COPIES), len(leaf)), np.tile(leaf, COPIES), np.tile(count, COPIES)
    choice = QuantileChoice(Shift(1), Fraction(5), tuple(map(RankTarget, FRACTIONS)), Fraction(5), nested=True)
    whole = WholeQuantiles.of(*copies, choice, LEAVES, seeded_entropy(1), 120)
    any_leaf = ChosenQuantiles(*copies, choice, LEAVES, seeded_entropy(1))
    shares = [float(p) for p in FRACTIONS]
    truth = np.quantile(AGES, shares)
    found = whole.quantiles(shares) * 120
    assert np.abs(found - np.round(found)).max() < 1e-9
    errors = [np.sqrt(np.mean((each.quantiles(shares) * 120 - truth) ** 2)) for each in (whole, any_leaf)]
    assert errors[0] <= errors[1]
    bands, wide = whole.bands(FRACTIONS, [0.95]), any_leaf.bands(FRACTIONS, [0.95])
    low, high = bands.low[:, :, 0] * 120, bands.high[:, :, 0] * 120
    assert np.mean((low <= truth + 1e-9) & (truth <= high + 1e-9)) > 0.95
    assert (low <= found + 1e-9).all()
    assert (found <= high + 1e-9).all()
    assert np.median(high - low) <= np.median(wide.high - wide.low) * 120


def test_without_counts_there_is_no_interval():
    choice = QuantileChoice(Shift(1), Fraction(5), (RankTarget(Fraction(1, 2)),))
    nobody = np.zeros(0, dtype=np.int64)
    whole = WholeQuantiles.of(1, nobody, nobody, nobody, choice, LEAVES, seeded_entropy(1), 5)
    assert whole.bands([Fraction(1, 2)], [0.9]) is None
    assert 0 <= whole.quantiles([0.5])[0, 0] <= 1
