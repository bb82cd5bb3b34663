"""Counts in several groups on a coarse grid: the certified δ is the sum over all outputs, and nothing smaller passes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, Shift
from shoal.mechanisms.certificates.lattice import is_coarse, lattice_delta
from shoal.mechanisms.gaussian_certificate import grouped_gaussian_holds, joint_gaussian_certificate
from shoal.mechanisms.joint_gaussian import joint_gaussian_sigmas

MILLIONTH = Fraction(1, 10**6)


def delta_over_all_outputs(shift, coordinates, sigma, epsilon):
    """Σ max(0, P − e^ε·P′) over the vectors themselves."""
    reach = int(9 * sigma) + shift + 3
    points = np.arange(-reach, reach + 1)
    total = np.exp(-(points**2) / (2 * sigma**2)).sum()
    one = np.exp(-((points - shift) ** 2) / (2 * sigma**2)) / total
    other = np.exp(-(points**2) / (2 * sigma**2)) / total
    moved, still = one, other
    for _ in range(coordinates - 1):
        moved, still = np.multiply.outer(moved, one).ravel(), np.multiply.outer(still, other).ravel()
    return float(np.maximum(0.0, moved - np.exp(epsilon) * still).sum())


@pytest.mark.parametrize(
    ("shift", "coordinates", "sigma", "epsilon"),
    [(1, 2, 1.5, 4.0), (1, 3, 1.0, 2.0), (3, 2, 2.5, 3.0), (1, 3, 0.5, 8.0), (2, 2, 3.0, 0.25)],
)
def test_the_certified_delta_is_the_sum_over_all_outputs(shift, coordinates, sigma, epsilon):
    found = float(lattice_delta(shift, coordinates, Fraction(sigma), Fraction(epsilon)))
    assert found == pytest.approx(delta_over_all_outputs(shift, coordinates, sigma, epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", [4, 8])
@pytest.mark.parametrize("groups", [2, 5])
def test_noise_on_coarse_grids_is_within_half_a_percent_of_the_least(epsilon, groups):
    (sigma,) = joint_gaussian_sigmas([Shift(1, groups)], [1], Fraction(epsilon), MILLIONTH)
    part = GaussianNoise(Shift(1, groups), sigma)
    assert joint_gaussian_certificate([part], Fraction(epsilon), MILLIONTH) == "lattice"
    assert grouped_gaussian_holds([part], Fraction(epsilon), MILLIONTH, groups)
    less = GaussianNoise(Shift(1, groups), sigma * Fraction(995, 1000))
    assert joint_gaussian_certificate([less], Fraction(epsilon), MILLIONTH) is None


def test_fewer_coordinates_take_less_than_their_part_of_delta():
    sigma, epsilon = Fraction(27, 10), Fraction(4)
    deltas = [lattice_delta(1, left, sigma, epsilon) for left in range(1, 6)]
    assert all(delta * 5 <= deltas[-1] * left for left, delta in enumerate(deltas, start=1))


def test_only_one_part_that_does_not_spread_is_summed():
    spread, several = GaussianNoise(Shift(1, 3, 6), Fraction(1)), [GaussianNoise(Shift(1, 3), Fraction(1))] * 2
    assert joint_gaussian_certificate([spread], Fraction(20), MILLIONTH) != "lattice"
    assert joint_gaussian_certificate(several, Fraction(20), MILLIONTH) != "lattice"
    assert not is_coarse(3, 100)
    assert not is_coarse(1, 1)
