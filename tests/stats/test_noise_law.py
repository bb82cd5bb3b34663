"""Noisy numbers as a whole: what is added follows the event, independently for every entry.

False alarms: each comparison rejects at 10⁻⁷; there are fewer than ten.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.mechanisms.calibrate import noise_quantile, noise_standard_deviation, noise_tail
from shoal.mechanisms.noise import add_noise

SAMPLES = 400_000
ALARM = 1e-7
NOISES = [
    LaplaceNoise(Shift(1, 3), Fraction(6)),
    GaussianNoise(Shift(1, 3), Fraction(19, 4)),
    LaplaceNoise(Shift(1), Fraction(1, 2)),
]


@pytest.mark.parametrize("noise", NOISES)
def test_the_share_outside_an_interval_is_the_share_the_exact_tail_says(noise):
    added = np.array(add_noise(noise, [10**20] * SAMPLES) - 10**20, dtype=np.int64)
    for level in (0.5, 0.95):
        half = noise_quantile(noise, level)
        outside = int((np.abs(added) > half).sum())
        chance = 2 * float(noise_tail(noise, half + 1).upper)
        assert stats.binomtest(outside, SAMPLES, chance).pvalue > ALARM
    spread = added.std() / noise_standard_deviation(noise)
    assert abs(spread - 1) < 0.02  # more than eight standard errors for either law


@pytest.mark.parametrize("noise", NOISES[:2])
def test_the_signs_of_two_entries_are_independent(noise):
    added = np.array(add_noise(noise, np.zeros(SAMPLES, dtype=np.int64)), dtype=np.int64)
    first, second = added[::2] > 0, added[1::2] > 0
    table = [
        [int((first & second).sum()), int((first & ~second).sum())],
        [int((~first & second).sum()), int((~first & ~second).sum())],
    ]
    assert stats.chi2_contingency(table).pvalue > ALARM
