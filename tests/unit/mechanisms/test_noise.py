"""Exact numbers plus exact noise: nothing wraps, nothing is drawn where nothing moves, every value is on the grid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.noise import add_noise, draw_noise, saturate_int64
from shoal.mechanisms.sampling.samplers import discrete_gaussian, discrete_laplace

NOISES = [LaplaceNoise(Shift(1), Fraction(7, 2)), GaussianNoise(Shift(1), Fraction(7, 2))]


@pytest.mark.parametrize(("noise", "draw"), list(zip(NOISES, [discrete_laplace, discrete_gaussian], strict=True)))
def test_noise_is_the_noise_of_the_event(noise, draw):
    drawn = draw_noise(noise, 1000, seeded_entropy(4))
    assert (drawn == draw(Fraction(7, 2), 1000, seeded_entropy(4))).all()


@pytest.mark.parametrize("noise", NOISES)
def test_each_entry_gets_a_draw_of_its_own(noise):
    released = add_noise(noise, [10] * 1000)
    assert len(set(released)) > 5


@pytest.mark.parametrize("noise", NOISES)
def test_wide_integers_are_added_exactly(noise):
    exact = [2**100, -(2**100), 2**63 - 1, -(2**63), 0]
    differences = [int(out) - number for out, number in zip(add_noise(noise, exact), exact, strict=True)]
    assert all(abs(difference) < 500 for difference in differences)
    assert len(set(add_noise(noise, exact[:1] * 300))) > 5
    assert all(isinstance(number, int) for number in add_noise(noise, np.array(exact[2:], dtype=np.int64)))


def test_a_shift_of_zero_draws_nothing():
    class Broken:
        safe = True

        def __getattr__(self, name):
            raise AssertionError("no randomness is asked for")

    for noise in (LaplaceNoise(Shift(0, 9), Fraction(0)), GaussianNoise(Shift(0), Fraction(0))):
        assert add_noise(noise, [5, -2], Broken()).tolist() == [5, -2]


def test_noise_of_a_huge_scale_reaches_beyond_int64_and_saturates_only_at_the_end():
    released = add_noise(LaplaceNoise(Shift(2**70), Fraction(2**70)), [0] * 500, seeded_entropy(1))
    assert max(abs(int(number)) for number in released) > 2**70
    assert set(saturate_int64(released).tolist()) >= {2**63 - 1, -(2**63)}
