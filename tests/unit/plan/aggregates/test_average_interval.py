"""The interval of an average covers, and is narrower than both noises at their worst at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.params import Bounds
from shoal.plan.aggregates import Average, NoisyMeasure
from shoal.plan.expressions import Column
from shoal.plan.measures import OwnerCount, OwnerMean, Steps
from shoal.plan.types import DOUBLE

DRAWS = 20_000
X = Column("x", DOUBLE)


def readings(kind, scale_of_sum, scale_of_count, mean, owners):
    rng = np.random.default_rng(5)
    bounds, steps = Bounds(Fraction(0), Fraction(100)), Steps(0, 100, 50)

    def drawn(scale):
        law = rng.laplace if kind is LaplaceNoise else rng.normal
        return np.rint(law(0, scale, DRAWS)).astype(np.int64)

    sums = np.array((mean - 50) * owners + drawn(scale_of_sum), dtype=object)
    counts = np.array(owners + drawn(scale_of_count), dtype=object)
    return (
        NoisyMeasure(OwnerMean(X), kind(Shift(50), Fraction(scale_of_sum)), Fraction(1), bounds, steps, sums),
        NoisyMeasure(OwnerCount(X), kind(Shift(1), Fraction(scale_of_count)), Fraction(1), None, None, counts),
    )


@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise])
@pytest.mark.parametrize("mean", [50, 90, 2])
@pytest.mark.parametrize("scales", [(100, 2), (40, 20), (500, 5)])
def test_the_interval_covers_as_often_as_it_says(kind, mean, scales):
    taken = readings(kind, *scales, mean, 200)
    low, high = Average(X).interval(taken, 0.95)
    covered = np.mean((low <= mean) & (mean <= high))
    # 20,000 draws at 95%: below 94.2% has a chance below 1e-6
    assert covered > 0.942


def test_it_is_narrower_than_both_noises_at_their_worst():
    taken = readings(LaplaceNoise, 100, 4, 85, 200)
    low, high = Average(X).interval(taken, 0.95)
    each = (1 + 0.95) / 2
    widest = (taken[0].half_width(each) + 50 * taken[1].half_width(each)) / 200
    assert np.median(high - low) < 2 * widest / 1.3


def test_a_count_that_may_be_nothing_leaves_the_bounds():
    taken = readings(LaplaceNoise, 100, 40, 85, 5)
    low, high = Average(X).interval(taken, 0.95)
    assert (low[0], high[0]) == (0.0, 100.0)
