"""What the noisy cells of `measure_cut` say: never that nothing was cut where nobody was seen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.plan.limits.sought import CUT_EDGES, KEPT_EDGES, Sought
from shoal.release.cuts.measured import both, what_is_kept
from shoal.release.cuts.widening import factor_of
from shoal.rewrite.limits.choosing import HALF, Kept

CELLS = Sought("cut", tuple(map(Fraction, CUT_EDGES)), (0,), tuple(map(Fraction, KEPT_EDGES)))
SCALE = 20.0


def kept(cells, epsilon=0.05):
    """Of owners in (row, column) cells, without noise."""
    counts = np.zeros((len(CUT_EDGES) + 1, len(KEPT_EDGES) + 1))
    for place, owners in cells.items():
        counts[place] = owners
    return what_is_kept(CELLS, counts.ravel().tolist(), SCALE, epsilon)


def test_shares_are_those_of_the_middles():
    found = kept({(0, 0): 1000, (2, 0): 1000})
    assert found.share == pytest.approx(2000 * 1.8 / (2000 * 1.8 + 1000 * 8))
    assert found.binds
    assert found.pessimistic < found.share


def test_few_owners_say_nothing():
    assert kept({}) is HALF
    assert kept({(0, 0): 300}) is HALF  # 300 · 0.05 < 20
    assert kept({(0, 0): 5000}).measured


def test_a_cell_that_noise_alone_fills_is_not_believed():
    assert kept({(0, 1): 5000, (6, 4): 60}).share == 1.0


def test_owners_that_are_spread_over_many_cells_are_seen_together():
    spread = {(row, 2): 90 for row in range(1, 7)}
    assert kept({(0, 0): 5000} | spread).share < 0.3


def test_where_nothing_is_cut_next_to_nothing_is_feared():
    found = kept({(0, 1): 20_000})
    assert found.share == 1.0
    assert found.pessimistic > 0.97
    assert not found.binds


def test_two_kinds_of_limits_keep_less_than_one():
    first, second = Kept(0.5, 0.4, measured=True), Kept(0.5, 0.5, measured=True, exponent=1.5, binds=True)
    assert both(first, second) == Kept(0.25, 0.2, measured=True, exponent=1.5, binds=True)
    assert both(first, HALF) == Kept(0.25, 0.2, measured=False, exponent=1.5)
    assert both(Kept(1.0, 1.0, measured=True), HALF) is HALF
    assert both(None, first) is first


def test_what_was_not_measured_is_assumed_to_be_half_whatever_was_read():
    assert factor_of(Kept(1.0, 1.0, measured=False)) == factor_of(HALF) > Fraction(14, 5)
    assert factor_of(Kept(1.0, 1.0, measured=True)) == 1


def test_few_owners_that_surely_lose_most_are_believed_that_they_do():
    """390 owners who keep 4 to 15 rows and lose 16 to 63: too few to measure, and still no reason to assume a half."""
    found = kept({(3, 1): 390})
    assert not found.measured
    assert found.share < 0.3
    assert factor_of(found) > factor_of(HALF)
