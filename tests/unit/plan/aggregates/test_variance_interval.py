"""Intervals of variances: about their level, and no wider than what all three noises allow at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.params import Bounds
from shoal.plan.aggregates import NoisyMeasure, Variance
from shoal.plan.expressions import Column
from shoal.plan.measures import Steps
from shoal.plan.types import DOUBLE

BOUNDS, GRID, DRAWS = Bounds(Fraction(0), Fraction(1)), Fraction(1, 2**20), 4000
SCALES = (Fraction(2), Fraction(1, 2), Fraction(4))


def readings(values, kind, generator):
    """The three noisy sums of a variance, so many times."""
    centred = values - 0.5
    exact = (centred.sum(), (centred**2).sum(), float(len(values)))
    found = []
    for number, scale, grid, measure in zip(
        exact, SCALES, (GRID, GRID**2, Fraction(1)), VARIANCE.measures, strict=True
    ):
        drawn = (
            generator.laplace(0, float(scale), DRAWS)
            if kind is LaplaceNoise
            else generator.normal(0, float(scale), DRAWS)
        )
        noisy = np.array([round((number + each) / float(grid)) for each in drawn], dtype=object)
        steps = Steps.outward(BOUNDS, GRID) if measure.power else None
        noise = kind(Shift(1, 1), scale / grid, grid)
        found.append(NoisyMeasure(measure, noise, grid, BOUNDS if measure.power else None, steps, noisy))
    return found


VARIANCE = Variance(Column("x", DOUBLE), 1, sample=False, root=True)


@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise])
@pytest.mark.parametrize(("mean", "spread"), [(0.5, 0.1), (0.9, 0.05), (0.2, 0.2)])
@pytest.mark.parametrize("rows", [60, 10_000])
def test_intervals_hold_as_often_as_they_say(kind, mean, spread, rows):
    """4,000 draws of a chance of 95%: fewer than 93.3% of them hold in less than 1 of 10⁶ runs; the seed is fixed."""
    generator = np.random.default_rng(5)
    values = np.clip(generator.normal(mean, spread, rows), 0, 1)
    taken = readings(values, kind, generator)
    low, high = VARIANCE.interval(taken, 0.95)
    assert np.mean((low <= values.std()) & (values.std() <= high)) >= 0.933
    widest = VARIANCE._corners(taken, 0.95)
    assert np.all(low >= widest[0])
    assert np.all(high <= widest[1])
    if rows == 10_000:
        assert np.mean(high - low) < 0.8 * np.mean(widest[1] - widest[0])
