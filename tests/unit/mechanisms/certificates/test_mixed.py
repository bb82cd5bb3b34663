"""Coarse parts beside finer ones: the certified δ is the sum over all outputs, and what is calibrated is private."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, Shift
from shoal.mechanisms.certificates.mixed import NEGLIGIBLE, Coarse, approximate_mixed_delta, mixed_delta
from shoal.mechanisms.certificates.normal import gaussian_delta
from shoal.mechanisms.gaussian_certificate import (
    coarse_and_finer,
    grouped_gaussian_holds,
    joint_gaussian_certificate,
    joint_gaussian_holds,
    zcdp_holds,
)
from shoal.mechanisms.joint_gaussian import grouped_gaussian_sigmas, joint_gaussian_sigmas

MILLIONTH = Fraction(1, 10**6)
FINE = 10**9
GIVEN_AWAY = 4 * NEGLIGIBLE


def law(shift, sigma, reach):
    """Chances of a moved and of an unmoved number, over all outputs."""
    points = np.arange(-reach, reach + shift + 1)
    total = np.exp(-(np.arange(-40 * reach, 40 * reach + 1) ** 2) / (2 * sigma**2)).sum()
    return tuple(np.exp(-((points - move) ** 2) / (2 * sigma**2)) / total for move in (shift, 0))


def delta_over_all_outputs(parts, epsilon):
    """Σ max(0, P − e^ε·P′) over the vectors themselves; each part is (shift, coordinates, σ)."""
    moved = still = np.ones(1)
    for shift, coordinates, sigma in parts:
        one, other = law(shift, sigma, math.ceil(9 * sigma) + 2)
        for _ in range(coordinates):
            moved, still = np.multiply.outer(moved, one).ravel(), np.multiply.outer(still, other).ravel()
    return float(np.maximum(0.0, moved - math.exp(epsilon) * still).sum())


def delta_with_continuous_noise(shift, sigma, norm, epsilon):
    """The same for one number and one continuous number that moves by `norm` deviations, integrated on a fine grid."""
    points = np.linspace(-12, 12 + norm, 20_001)
    moved, still = (np.exp(-((points - move) ** 2) / 2) / math.sqrt(2 * math.pi) for move in (norm, 0))
    one, other = law(shift, sigma, math.ceil(9 * sigma) + 2)
    excess = np.maximum(0.0, np.multiply.outer(one, moved) - math.exp(epsilon) * np.multiply.outer(other, still))
    return float(np.trapezoid(excess, points, axis=1).sum())


@pytest.mark.parametrize("epsilon", [-5.0, -0.5, 0.0, 0.5, 5.0])
def test_the_delta_of_continuous_noise_holds_for_what_is_left_of_epsilon(epsilon):
    points = np.linspace(-12, 14, 400_001)
    densities = [np.exp(-((points - move) ** 2) / 2) / math.sqrt(2 * math.pi) for move in (1.5, 0)]
    expected = np.trapezoid(np.maximum(0.0, densities[0] - math.exp(epsilon) * densities[1]), points)
    assert float(gaussian_delta(Fraction(9, 4), Fraction(epsilon))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(1, 1, 0.75), (2, 1, 1.75)], 6.0),
        ([(1, 2, 1.0), (3, 1, 2.5)], 4.0),
        ([(1, 1, 0.5), (1, 1, 1.0), (2, 1, 2.0)], 8.0),
        ([(1, 2, 0.75)], 0.5),
    ],
)
def test_the_certified_delta_of_coarse_parts_is_the_sum_over_all_outputs(parts, epsilon):
    coarse = tuple(Coarse(shift, coordinates, Fraction(sigma)) for shift, coordinates, sigma in parts)
    expected = delta_over_all_outputs(parts, epsilon)
    found = float(mixed_delta(coarse, Fraction(0), Fraction(epsilon), Fraction(expected)))
    assert expected * (1 - 1e-9) <= found <= expected * (1 + GIVEN_AWAY * len(parts))


@pytest.mark.parametrize(
    ("shift", "sigma", "norm", "epsilon"), [(1, 1.0, 0.5, 4.0), (2, 1.5, 1.0, 6.0), (1, 0.5, 1.5, 1.0)]
)
def test_the_certified_delta_beside_continuous_noise_is_the_integral_over_all_outputs(shift, sigma, norm, epsilon):
    coarse, norm_squared = (Coarse(shift, 1, Fraction(sigma)),), Fraction(norm) ** 2
    expected = delta_with_continuous_noise(shift, sigma, norm, epsilon)
    found = float(mixed_delta(coarse, norm_squared, Fraction(epsilon), Fraction(expected)))
    assert expected * (1 - 1e-5) <= found <= expected * (1 + GIVEN_AWAY + 1e-5)
    assert approximate_mixed_delta(coarse, norm**2, epsilon, expected) == pytest.approx(expected, rel=1e-3)


def test_what_is_negligible_only_makes_the_bound_larger():
    coarse, rest = (Coarse(1, 2, Fraction(3, 2)),), (Fraction(1, 4), Fraction(4))
    close, loose = (mixed_delta(coarse, *rest, delta) for delta in (Fraction(1, 10**15), Fraction(99, 100)))
    assert close < loose


@pytest.mark.parametrize("epsilon", [6, 8, 12])
@pytest.mark.parametrize(
    "shifts", [[Shift(1), Shift(FINE)], [Shift(1, 2), Shift(FINE, 2)], [Shift(1), Shift(FINE), Shift(3)]]
)
def test_beside_finer_parts_no_other_certificate_would_do(shifts, epsilon):
    sigmas = joint_gaussian_sigmas(shifts, [1] * len(shifts), Fraction(epsilon), MILLIONTH)
    parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert joint_gaussian_certificate(parts, Fraction(epsilon), MILLIONTH) == "mixed"
    more = [GaussianNoise(part.shift, part.sigma * Fraction(1015, 1000)) for part in parts]
    assert not zcdp_holds(sum((part.rho for part in more), Fraction(0)), Fraction(epsilon), MILLIONTH)
    assert joint_gaussian_certificate(more, Fraction(epsilon), MILLIONTH) == "mixed"
    less = [GaussianNoise(part.shift, part.sigma * Fraction(975, 1000)) for part in parts]
    assert joint_gaussian_certificate(less, Fraction(epsilon), MILLIONTH) is None


@pytest.mark.parametrize("epsilon", [3.0, 5.0, 9.0, 14.0])
@pytest.mark.parametrize("shifts", [[Shift(1), Shift(4)], [Shift(1), Shift(2), Shift(1)], [Shift(1, 2), Shift(2)]])
def test_what_is_calibrated_is_private_by_brute_force(shifts, epsilon):
    delta = Fraction(1, 10**4)
    sigmas = joint_gaussian_sigmas(shifts, [1] * len(shifts), Fraction(epsilon), delta)
    parts = [
        (shift.per_coordinate, shift.coordinates, float(sigma)) for shift, sigma in zip(shifts, sigmas, strict=True)
    ]
    found = delta_over_all_outputs(parts, epsilon)
    assert found <= float(delta) * (1 + 1e-9)


def test_with_a_threshold_every_number_of_groups_takes_its_part_of_delta():
    shifts, epsilon, groups = [Shift(1, 3), Shift(FINE, 3)], Fraction(8), 3
    sigmas = grouped_gaussian_sigmas(shifts, [1, 1], epsilon, MILLIONTH, groups)
    parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert grouped_gaussian_holds(parts, epsilon, MILLIONTH, groups)
    for left in range(1, groups + 1):
        coarse = (Coarse(1, left, sigmas[0]),)
        norm_squared = Fraction(FINE) ** 2 * left / sigmas[1] ** 2
        assert mixed_delta(coarse, norm_squared, epsilon, MILLIONTH) * groups <= MILLIONTH * left


def test_weights_and_other_numbers_of_groups_share_no_delta_by_sums():
    epsilon = Fraction(12)
    sigmas = joint_gaussian_sigmas([Shift(1, 2), Shift(FINE, 2)], [1, 1], epsilon, MILLIONTH)
    plain, fine = (
        GaussianNoise(shift, sigma) for shift, sigma in zip([Shift(1, 2), Shift(FINE, 2)], sigmas, strict=True)
    )
    assert grouped_gaussian_holds([plain, fine], epsilon, MILLIONTH, 2)
    assert not grouped_gaussian_holds([plain, fine], epsilon, MILLIONTH, 3)
    weights = GaussianNoise(Shift(2 * FINE, 2, length=2 * FINE), fine.sigma * Fraction(3, 2))
    assert joint_gaussian_certificate([plain, weights], epsilon, MILLIONTH) == "mixed"
    assert not grouped_gaussian_holds([plain, weights], epsilon, MILLIONTH, 2)


def test_only_coarse_parts_that_do_not_spread_are_summed():
    spread, wide = GaussianNoise(Shift(2, 1, 2), Fraction(1)), GaussianNoise(Shift(FINE), Fraction(FINE))
    plain = GaussianNoise(Shift(1), Fraction(1))
    assert coarse_and_finer([spread, wide, plain], MILLIONTH) == ((plain,), (spread, wide))
    many = [GaussianNoise(Shift(1), Fraction(2))] * 4
    coarse, finer = coarse_and_finer(many, MILLIONTH)
    assert len(coarse) + len(finer) == 4
    assert finer


def test_sums_over_many_groups_are_left_to_the_other_certificates():
    """At a large ε noise on 500 groups is small, and 500 sums over them took minutes of planning."""
    many, few = GaussianNoise(Shift(1, 500), Fraction(1)), GaussianNoise(Shift(1, 2), Fraction(1))
    assert coarse_and_finer([many, few], MILLIONTH) == ((few,), (many,))
    assert grouped_gaussian_sigmas([Shift(1, 500), Shift(FINE, 500)], [1, 1], Fraction(1_000), MILLIONTH, 500)


def test_a_search_for_a_scale_stays_below_one_that_is_enough(monkeypatch):
    """A line through two points led to noise 20,000 times as wide, and a list of its sums to all memory of the machine."""
    asked = []

    def remembered(coarse, *rest):
        asked.extend(float(part.sigma) for part in coarse)
        return approximate_mixed_delta(coarse, *rest) if max(asked) < 10 else pytest.fail("sums without end")

    monkeypatch.setattr("shoal.mechanisms.joint_gaussian.approximate_mixed_delta", remembered)
    for kappa, weights in ((4, [0.571, 0.429]), (4, [1, 0.75]), (3, [1, 0.5]), (5, [2, 1]), (2, [3, 1])):
        sigmas = grouped_gaussian_sigmas([Shift(1, kappa), Shift(1, kappa)], weights, Fraction(1000), MILLIONTH, kappa)
        assert sigmas is None or max(sigmas) < 1
    assert asked


def test_chances_below_what_sums_are_rounded_to_are_left_to_the_other_certificates():
    """At δ = 10⁻³⁰⁰ no sum is negligible, and each is rounded up to more than δ: minutes of planning that could prove nothing."""
    parts = [GaussianNoise(Shift(1, 5), Fraction(1, 2)), GaussianNoise(Shift(FINE, 5), Fraction(FINE, 2))]
    assert coarse_and_finer(parts, MILLIONTH)[0]
    assert coarse_and_finer(parts, Fraction(1, 10**300)) == ((), tuple(parts))
    assert float(mixed_delta((Coarse(1, 5, Fraction(1, 2)),), Fraction(1), Fraction(700), Fraction(1, 10**12))) > 1e-300
    budget = Fraction(700), Fraction(1, 10**300)
    sigmas = grouped_gaussian_sigmas([Shift(1, 5), Shift(FINE, 5), Shift(3, 5)], [1, 1, 1], *budget, 5)
    assert sigmas is None or grouped_gaussian_holds(
        [GaussianNoise(s, sigma) for s, sigma in zip([Shift(1, 5), Shift(FINE, 5), Shift(3, 5)], sigmas, strict=True)],
        *budget,
        5,
    )


@pytest.mark.parametrize("epsilon", [30, 100, 1_000, 100_000])
def test_noise_is_found_at_a_large_epsilon_too(epsilon):
    shifts, budget = [Shift(10, 3), Shift(1, 3)], (Fraction(epsilon), MILLIONTH)
    sigmas = joint_gaussian_sigmas(shifts, [Fraction(5, 7), Fraction(2, 7)], *budget)
    assert min(sigmas) > 0
    assert joint_gaussian_holds([GaussianNoise(s, sigma) for s, sigma in zip(shifts, sigmas, strict=True)], *budget)
