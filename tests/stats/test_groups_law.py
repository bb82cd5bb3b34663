"""How often groups really appear, against the exact keep probabilities.

False alarms: every comparison is an exact binomial test at 10⁻⁸; there are fewer than fifty.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from shoal.accounting.events import GaussianNoise, LaplaceNoise, OptimalSelection, Shift, ThresholdSelection
from shoal.mechanisms.calibrate import threshold_for
from shoal.mechanisms.group_selection import half_point, keep_probability, select

GROUPS = 200_000
ALARM = 1e-8
LAPLACE = LaplaceNoise(Shift(1, 2), Fraction(4))
GAUSSIAN = GaussianNoise(Shift(1, 2), Fraction(5))
DELTA = Fraction(1, 100)


@pytest.mark.parametrize(
    "selection",
    [
        OptimalSelection(Fraction(1), DELTA, 2),
        OptimalSelection(Fraction(1, 10**5), DELTA, 2, 6),
        OptimalSelection(Fraction(0), DELTA, 1),
        ThresholdSelection(LAPLACE, threshold_for(LAPLACE, 2, DELTA), DELTA, 2),
        ThresholdSelection(GAUSSIAN, threshold_for(GAUSSIAN, 2, DELTA), DELTA, 2, 3),
    ],
    ids=["optimal", "optimal, tiny epsilon", "optimal, no epsilon", "laplace", "gaussian"],
)
def test_groups_appear_as_often_as_they_should(selection):
    half = half_point(selection)
    for owners in (selection.min_owners, selection.min_owners + 1, half - 1, half, half + 2):
        kept = int(select(selection, np.full(GROUPS, owners)).kept.sum())
        assert stats.binomtest(kept, GROUPS, keep_probability(selection, owners)).pvalue > ALARM


def test_a_threshold_one_too_low_is_seen_at_a_large_delta():
    threshold = threshold_for(LAPLACE, 2, DELTA) - 1
    selection = ThresholdSelection(LAPLACE, threshold, DELTA, 2)
    kept = select(selection, np.ones(2 * GROUPS, dtype=np.int64)).kept.reshape(GROUPS, 2).any(axis=1).sum()
    assert stats.binomtest(int(kept), GROUPS, float(DELTA), alternative="greater").pvalue < ALARM
