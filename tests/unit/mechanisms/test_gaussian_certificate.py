"""The certificates of joint Gaussian noise against brute force: what they accept is private, too little is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from shoal.accounting.events import GaussianNoise, Shift
from shoal.mechanisms.certified import decimal_near
from shoal.mechanisms.gaussian_certificate import (
    ROUNDING_VARIANCES,
    approximate_norm,
    discrete_gaussian_delta,
    gaussian_delta,
    joint_gaussian_certificate,
    joint_gaussian_holds,
    largest_norm,
    rounding_error,
    zcdp_holds,
)
from shoal.mechanisms.joint_gaussian import gaussian_sigma, joint_gaussian_sigmas

BUDGETS = [(e, d) for e in ("0.1", "1", "4") for d in ("1e-2", "1e-5", "1e-9")]


def masses(sigma, reach):
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def brute_force_delta(parts, epsilon):
    """Σ max(0, P[x] − e^ε·P[x − shift]) over all outputs x of the whole vector, in floats."""
    before, after = np.ones(1), np.ones(1)
    for part in parts:
        sigma, shift = float(part.sigma), part.shift.per_coordinate
        mass = masses(sigma, math.ceil(12 * sigma) + shift)
        moved = np.concatenate([np.zeros(shift), mass])[: len(mass)]
        for _ in range(part.shift.coordinates):
            before, after = np.outer(before, mass).ravel(), np.outer(after, moved).ravel()
    return float(np.maximum(before - math.exp(epsilon) * after, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_continuous_delta_agrees_with_an_independent_implementation(epsilon, delta):
    norm = float(largest_norm(Fraction(epsilon), Fraction(delta)))
    ratio = float(epsilon) / norm
    expected = stats.norm.cdf(norm / 2 - ratio) - math.exp(float(epsilon)) * stats.norm.cdf(-norm / 2 - ratio)
    assert expected == pytest.approx(float(delta), rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [*BUDGETS, ("1e-10", "1e-15"), ("1e6", "1e-15"), ("1e-10", "0.1"), ("50", "1e-6")]
)
def test_the_largest_norm_holds_and_nothing_noticeably_larger_does(epsilon, delta):
    norm = Fraction(largest_norm(Fraction(epsilon), Fraction(delta)))
    assert gaussian_delta(norm**2, Fraction(epsilon)) <= decimal_near(Fraction(delta))
    assert gaussian_delta((norm * (1 + Fraction(1, 10**9))) ** 2, Fraction(epsilon)) > decimal_near(Fraction(delta))


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1, 20, 400])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-6, 1e-15, 1e-100])
def test_the_norm_in_floats_is_close_to_the_certified_one(epsilon, delta):
    certified = float(largest_norm(Fraction(epsilon), Fraction(delta)))
    assert approximate_norm(epsilon, delta) == pytest.approx(certified, rel=1e-7)


@pytest.mark.parametrize("epsilon", [0, 1e-300, 1e-12, 1e-3, 1, 700, 1e6])
@pytest.mark.parametrize("delta", [0.0, 5e-324, 1e-300, 1e-20, 0.1, 0.5, 0.999, 1 - 1e-16])
def test_the_norm_in_floats_exists_for_whatever_can_be_asked(epsilon, delta):
    assert 1e-41 < approximate_norm(epsilon, delta) < 1e11


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.5])
def test_without_epsilon_the_norm_is_that_of_the_total_variation(delta):
    """δ = 2Φ(μ/2) − 1, about μ/√(2π) where it is small."""
    norm = approximate_norm(0.0, delta)
    assert math.erf(norm / 2 / math.sqrt(2)) == pytest.approx(delta, rel=1e-6)


def test_the_analytic_scale_is_the_published_one():
    assert float(gaussian_sigma(1, Fraction(1), Fraction(1, 10**5))) == pytest.approx(3.730631634, abs=1e-9)


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3, 2), Fraction(4), Fraction(11)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_the_discrete_delta_is_the_sum_over_all_outputs(shift, sigma, epsilon):
    part = GaussianNoise(Shift(shift), sigma)
    expected = brute_force_delta([part], float(epsilon))
    assert float(discrete_gaussian_delta(shift, sigma, epsilon)) == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("sigma", [Fraction(3, 2), Fraction(5, 2), Fraction(6)])
@pytest.mark.parametrize("variance", ROUNDING_VARIANCES[:4])
@pytest.mark.parametrize("start", [0, 3])
def test_rounded_continuous_noise_is_discrete_noise_up_to_the_factor_of_the_lemma(sigma, variance, start):
    tau_squared, sigma_squared = float(variance), float(sigma) ** 2
    kept = sigma_squared - tau_squared
    points = np.linspace(start - 12 * math.sqrt(kept), start + 12 * math.sqrt(kept), 8_001)
    density = np.exp(-((points - start) ** 2) / (2 * kept)) / math.sqrt(2 * math.pi * kept)
    cells = np.arange(-90, 91)
    rounding = np.exp(-((cells[:, None] - points) ** 2) / (2 * tau_squared))
    made = np.trapezoid(density * rounding / rounding.sum(axis=0), points, axis=1)
    drawn = np.exp(-((cells - start) ** 2) / (2 * sigma_squared))
    drawn /= drawn.sum()
    near = np.abs(cells - start) < 5 * float(sigma)
    error = float(rounding_error(sigma, variance))
    ratio = drawn[near] / made[near]
    assert np.abs(ratio - 1).max() <= error / (1 - error) + 1e-11


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 10**3)])
@pytest.mark.parametrize("shifts", [[Shift(1, 2)], [Shift(1), Shift(2)], [Shift(1), Shift(1), Shift(3)], [Shift(1, 3)]])
def test_what_is_calibrated_jointly_is_private_by_brute_force(shifts, epsilon, delta):
    sigmas = joint_gaussian_sigmas(shifts, [1] * len(shifts), epsilon, delta)
    if max(sigmas) * 25 > 10**3 and sum(shift.coordinates for shift in shifts) > 2:
        pytest.skip("too many outputs to sum")
    parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert brute_force_delta(parts, float(epsilon)) <= float(delta) * (1 + 1e-9)


def test_a_smaller_move_is_never_worse():
    sigma, epsilon = Fraction(3), Fraction(1)
    deltas = [discrete_gaussian_delta(shift, sigma, epsilon) for shift in range(1, 12)]
    assert deltas == sorted(deltas)


def test_releases_that_nobody_moves_are_ignored():
    still = GaussianNoise(Shift(0, 7), Fraction(0))
    noisy = GaussianNoise(Shift(1), Fraction(15, 4))
    assert joint_gaussian_certificate([still], Fraction(1), Fraction(1, 10**5)) == "none needed"
    assert joint_gaussian_certificate([still, noisy], Fraction(1), Fraction(1, 10**5)) == "discrete"


def test_a_move_that_may_spread_over_entries_is_not_judged_as_one_coordinate():
    sigma = joint_gaussian_sigmas([Shift(1)], [1], Fraction(3), Fraction(1, 20))[0]
    alone, spread = GaussianNoise(Shift(1), sigma), GaussianNoise(Shift(1, entries=4), sigma)
    assert joint_gaussian_holds([alone], Fraction(3), Fraction(1, 20))
    assert not joint_gaussian_holds([spread], Fraction(3), Fraction(1, 20))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("shifts", [[Shift(1)], [Shift(1, 5)], [Shift(7, 3), Shift(1, 3)]])
def test_noise_five_percent_too_small_is_refused(epsilon, delta, shifts):
    budget = Fraction(epsilon), Fraction(delta)
    sigmas = joint_gaussian_sigmas(shifts, [1] * len(shifts), *budget)
    parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, sigmas, strict=True)]
    assert joint_gaussian_holds(parts, *budget)
    if min(sigmas) > 2:  # on a coarser grid a smaller scale can be better
        small = [GaussianNoise(part.shift, part.sigma * Fraction(95, 100)) for part in parts]
        assert not joint_gaussian_holds(small, *budget)


def test_the_classical_scale_at_a_large_epsilon_is_refused():
    epsilon, delta = Fraction(10), Fraction(1, 10**5)
    classical = Fraction(math.sqrt(2 * math.log(1.25e5)) / 10 * 100)
    assert not joint_gaussian_holds([GaussianNoise(Shift(100), classical)], epsilon, delta)


def test_the_analytic_scale_is_refused_on_a_coarse_grid_where_it_exceeds_delta():
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    analytic = gaussian_sigma(1, epsilon, delta)
    assert not joint_gaussian_holds([GaussianNoise(Shift(1), analytic)], epsilon, delta)
    excess = float(discrete_gaussian_delta(1, analytic, epsilon)) / 1e-5
    assert excess == pytest.approx(1.035, abs=5e-3)


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 10), Fraction(2)])
def test_the_zcdp_conversion_covers_the_gaussian_it_stands_for(rho):
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(8)):
        norm_squared = 2 * rho
        least = Fraction(gaussian_delta(norm_squared, epsilon))
        assert not zcdp_holds(rho, epsilon, least / 2)
        assert zcdp_holds(rho, epsilon, min(Fraction(99, 100), least * 20 + Fraction(1, 10**12)))


def test_the_zcdp_conversion_never_promises_more_than_the_exact_discrete_delta():
    for sigma, epsilon in itertools.product((Fraction(1, 2), Fraction(1), Fraction(3)), (Fraction(1, 4), Fraction(2))):
        exact = Fraction(discrete_gaussian_delta(1, sigma, epsilon))
        if exact > Fraction(1, 10**300):
            assert not zcdp_holds(1 / (2 * sigma**2), epsilon, exact * Fraction(99, 100))


def test_an_enormous_zcdp_loss_is_refused_quietly():
    assert not zcdp_holds(Fraction(10**9), Fraction(1), Fraction(1, 10))
    assert zcdp_holds(Fraction(0), Fraction(1), Fraction(1, 10))
