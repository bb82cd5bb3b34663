"""Joint calibration: always certified, close to the best possible, proportional to the weights."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from shoal.accounting.events import GaussianNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms.gaussian_certificate import joint_gaussian_holds, largest_norm
from shoal.mechanisms.joint_gaussian import joint_gaussian_sigmas

CASES = [
    ([Shift(1)], [1]),
    ([Shift(1, 5)], [1]),
    ([Shift(10**6, 5), Shift(1, 5)], [0.5, 0.5]),
    ([Shift(1, 1000), Shift(3, 1000), Shift(1, 1000)], [0.2, 0.3, 0.5]),
    ([Shift(2**30)], [1]),
    ([Shift(0), Shift(3)], [0, 1]),
    ([Shift(2, 4, entries=8)], [1]),
]
BUDGETS = [
    ("1", "1e-5"),
    ("0.1", "1e-10"),
    ("10", "1e-5"),
    ("1e6", "1e-15"),
    ("1e-10", "1e-15"),
    ("50", "1e-6"),
    ("3", "0.1"),
]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize(("shifts", "weights"), CASES)
def test_calibrated_scales_hold_and_are_close_to_the_analytic_ones(shifts, weights, epsilon, delta):
    budget = Fraction(epsilon), Fraction(delta)
    sigmas = joint_gaussian_sigmas(shifts, weights, *budget)
    parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert joint_gaussian_holds(parts, *budget)
    moved = [part for part in parts if part.shift.l1]
    norm = math.sqrt(sum(part.shift.l2_squared / float(part.sigma) ** 2 for part in moved))
    analytic = float(largest_norm(*budget))
    assert norm >= analytic / 1.13  # zCDP at its worst, on grids coarser than the noise
    if min(part.sigma for part in moved) > 20:
        assert norm >= analytic / 1.001


def test_the_squared_norm_is_shared_by_the_weights():
    shifts, weights = [Shift(5, 2), Shift(1, 9)], [Fraction(1, 4), Fraction(3, 4)]
    sigmas = joint_gaussian_sigmas(shifts, weights, Fraction(1), Fraction(1, 10**6))
    shares = [shift.l2_squared / float(sigma) ** 2 for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert shares[1] / shares[0] == pytest.approx(3, rel=1e-9)


def test_nothing_to_move_needs_no_noise():
    assert joint_gaussian_sigmas([Shift(0), Shift(0, 4)], [1, 1], Fraction(1), Fraction(1, 10)) == (0, 0)


def test_a_release_that_moves_without_a_weight_is_a_bug_of_ours():
    with pytest.raises(InternalError):
        joint_gaussian_sigmas([Shift(1), Shift(1)], [1, 0], Fraction(1), Fraction(1, 10))


def test_joint_calibration_beats_the_even_split_of_epsilon():
    shifts = [Shift(1, 5)] * 3
    budget = Fraction(1), Fraction(1, 10**6)
    together = joint_gaussian_sigmas(shifts, [1, 1, 1], *budget)
    alone = joint_gaussian_sigmas([Shift(1, 5)], [1], budget[0] / 3, budget[1] / 3)
    assert together[0] < alone[0] * Fraction(2, 3)
