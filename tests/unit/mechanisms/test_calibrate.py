"""Scales, thresholds and error bars of the discrete noise really drawn, against sums over its terms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift, ThresholdSelection
from shoal.errors import InternalError
from shoal.mechanisms.calibrate import (
    approx_bounds_threshold,
    delta_per_group,
    joint_gaussian_holds,
    joint_gaussian_sigmas,
    joint_scales,
    laplace_scale,
    noise_quantile,
    noise_standard_deviation,
    noise_tail,
    smallest_tail_point,
    threshold_for,
    threshold_holds,
)

NOISES = [
    LaplaceNoise(Shift(1), Fraction(1, 3)),
    LaplaceNoise(Shift(1), Fraction(1)),
    LaplaceNoise(Shift(1, 5), Fraction(5)),
    LaplaceNoise(Shift(1), Fraction(77, 2)),
    GaussianNoise(Shift(1), Fraction(1, 3)),
    GaussianNoise(Shift(1), Fraction(3)),
    GaussianNoise(Shift(1), Fraction(77, 2)),
    GaussianNoise(Shift(1), Fraction(90)),
]


def law(noise):
    """The points of one entry of the noise and their chances, in floats."""
    points = np.arange(-4000, 4001, dtype=float)
    if isinstance(noise, LaplaceNoise):
        weights = np.exp(-np.abs(points) / float(noise.scale))
    else:
        weights = np.exp(-(points**2) / (2 * float(noise.sigma) ** 2))
    return points, weights / weights.sum()


def test_the_laplace_scale_is_the_shift_over_epsilon_and_never_less():
    assert laplace_scale(Shift(3, 5), Fraction(1, 2)) == 30
    scale = laplace_scale(Shift(1), Fraction(3))
    assert 1 / scale <= 3
    assert LaplaceNoise(Shift(1), scale).epsilon <= 3
    assert laplace_scale(Shift(0, 4), Fraction(1)) == 0


def test_a_laplace_scale_five_percent_too_small_claims_more_than_its_epsilon():
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(4)):
        shift = Shift(3, 5)
        small = LaplaceNoise(shift, laplace_scale(shift, epsilon) * Fraction(95, 100))
        assert small.epsilon > epsilon


def test_laplace_noise_without_a_budget_is_a_bug_of_ours():
    with pytest.raises(InternalError):
        laplace_scale(Shift(1), Fraction(0))


@given(st.fractions(min_value=Fraction(1, 10**13), max_value=Fraction(1, 2)), st.integers(min_value=1, max_value=60))
def test_delta_per_group_composes_to_at_most_delta_and_is_nearly_the_most(delta, groups):
    single = delta_per_group(delta, groups)
    assert (1 - single) ** groups >= 1 - delta
    if groups > 1:
        assert (1 - single * (1 + Fraction(1, 2**50))) ** groups < 1 - delta


def test_delta_per_group_of_very_many_groups_is_still_positive_and_below_the_even_share_times_its_limit():
    delta, groups = Fraction(1, 10**12), 10**9
    single = delta_per_group(delta, groups)
    assert delta / groups <= single <= delta / groups * (1 + delta)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "chance", [Fraction(9, 10), Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6), Fraction(1, 10**11)]
)
def test_the_smallest_tail_point_is_the_smallest(noise, chance):
    point = smallest_tail_point(noise, chance)
    assert noise_tail(noise, point).upper <= float(chance)
    assert noise_tail(noise, point - 1).lower > float(chance)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_an_interval_covers_its_level_and_one_step_less_does_not(noise, level):
    points, chances = law(noise)
    half = noise_quantile(noise, level)
    assert chances[np.abs(points) <= half].sum() >= level - 1e-12
    if half:
        assert chances[np.abs(points) <= half - 1].sum() < level


@pytest.mark.parametrize("sigma", [Fraction(2**20), Fraction(2**40), Fraction(2**60)])
def test_intervals_of_fine_noise_are_those_of_the_continuous_noise(sigma):
    assert noise_quantile(GaussianNoise(Shift(1), sigma), 0.95) / float(sigma) == pytest.approx(1.959963985, rel=1e-6)
    assert noise_quantile(LaplaceNoise(Shift(1), sigma), 0.95) / float(sigma) == pytest.approx(math.log(20), rel=1e-5)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 2.0])
def test_a_level_outside_zero_and_one_is_a_bug_of_ours(level):
    with pytest.raises(InternalError):
        noise_quantile(NOISES[0], level)


@pytest.mark.parametrize("noise", NOISES)
def test_the_standard_deviation_is_that_of_the_discrete_noise(noise):
    points, chances = law(noise)
    assert noise_standard_deviation(noise) == pytest.approx(math.sqrt((points**2 * chances).sum()), rel=1e-6)


def test_noise_that_is_not_drawn_has_no_width():
    still = LaplaceNoise(Shift(0), Fraction(0))
    assert noise_standard_deviation(still) == 0
    assert noise_quantile(still, 0.95) == 0
    assert noise_standard_deviation(LaplaceNoise(Shift(1), Fraction(1, 10**4))) == 0


def test_the_continuous_laplace_threshold_breaks_delta_and_the_exact_one_does_not():
    noise, delta = LaplaceNoise(Shift(1), Fraction(1)), Fraction(1, 10**5)
    continuous = 1 - math.log(2 - 2 * (1 - 1e-5))
    appears = float(noise_tail(noise, math.ceil(continuous) - 1).upper)
    assert appears == pytest.approx(1.22e-5, rel=0.01)
    assert threshold_for(noise, 1, delta) == math.ceil(continuous) + 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("groups", [1, 5, 100])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**12)])
def test_a_threshold_one_lower_is_refused(noise, groups, delta):
    threshold = threshold_for(noise, groups, delta)
    right = ThresholdSelection(noise, threshold, delta, groups)
    low = ThresholdSelection(noise, threshold - 1, delta, groups)
    assert threshold_holds(right)
    assert not threshold_holds(low)


def test_a_threshold_for_laplace_noise_is_refused_for_gaussian_noise_of_the_same_width():
    delta = Fraction(1, 10**6)
    laplace = LaplaceNoise(Shift(1), Fraction(3))
    wide = GaussianNoise(Shift(1), Fraction(12))
    threshold = threshold_for(laplace, 1, delta)
    assert not threshold_holds(ThresholdSelection(wide, threshold, delta, 1))


def test_a_threshold_that_ignores_the_groups_per_owner_is_refused():
    noise, delta = LaplaceNoise(Shift(1, 5), Fraction(5)), Fraction(1, 10**6)
    assert not threshold_holds(ThresholdSelection(noise, threshold_for(noise, 1, delta), delta, 5))


@pytest.mark.parametrize("by_groups", [True, False])
@pytest.mark.parametrize("groups", [1, 3, 20])
def test_noise_and_threshold_share_delta_by_groups_and_split_it_otherwise(groups, by_groups):
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    shifts, weights = [Shift(1, groups), Shift(4, groups)], [Fraction(2, 3), Fraction(1, 3)]
    scales = joint_scales(shifts, weights, groups, epsilon, delta, by_groups=by_groups)
    parts = tuple(GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, scales.sigmas, strict=True))
    threshold = threshold_for(parts[0], groups, scales.delta_threshold)
    selection = ThresholdSelection(parts[0], threshold, scales.delta_threshold, groups)
    assert joint_gaussian_holds(parts, epsilon, scales.delta_noise)
    assert threshold_holds(selection)
    assert scales.delta_noise + scales.delta_threshold == (2 * delta if by_groups else delta)
    loss = plan_loss(scales.events(parts, epsilon, selection))
    assert (loss.epsilon, loss.delta, loss.rho_delta) == (epsilon, delta, scales.delta_threshold)


def test_one_delta_lowers_a_gaussian_threshold_by_about_a_twentieth():
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    for groups in (1, 5, 50):
        heights = []
        for by_groups in (True, False):
            scales = joint_scales([Shift(1, groups)], [1], groups, epsilon, delta, by_groups=by_groups)
            noise = GaussianNoise(Shift(1, groups), scales.sigmas[0])
            heights.append(threshold_for(noise, groups, scales.delta_threshold))
        assert 0.92 < heights[0] / heights[1] < 0.96


def test_a_delta_is_not_shared_where_its_bound_is_not_convex():
    # At ε = 10⁻⁶ and δ = 0.1 the bound bends downwards, and nothing is proven about one group moved and one new.
    scales = joint_scales([Shift(1, 2)], [1], 2, Fraction(1, 10**6), Fraction(1, 10))
    assert not scales.one_delta
    assert joint_scales([Shift(1, 1)], [1], 1, Fraction(1, 10**6), Fraction(1, 10)).one_delta


def test_a_good_split_is_better_than_giving_nearly_everything_to_one_side():
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    scales = joint_scales([Shift(1, 5)], [1], 5, epsilon, delta, by_groups=False)
    best = threshold_for(GaussianNoise(Shift(1, 5), scales.sigmas[0]), 5, scales.delta_threshold)
    for share in (Fraction(1, 1000), Fraction(999, 1000)):
        sigma = joint_gaussian_sigmas([Shift(1, 5)], [1], epsilon, delta * share)[0]
        assert best < threshold_for(GaussianNoise(Shift(1, 5), sigma), 5, delta * (1 - share))


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(4), Fraction(20)])
@pytest.mark.parametrize("bins", [2, 65, 2100])
@pytest.mark.parametrize("probability", [Fraction(99, 100), 1 - Fraction(1, 10**9)])
def test_the_bin_threshold_is_the_exact_version_of_its_formula(scale, bins, probability):
    noise = LaplaceNoise(Shift(1), scale)
    threshold = approx_bounds_threshold(noise, bins, probability)
    chance = float(noise_tail(noise, threshold + 1).upper)
    assert math.exp((bins - 1) * math.log1p(-chance)) >= float(probability)
    continuous = -float(scale) * math.log(-2 * math.expm1(math.log(probability) / (bins - 1)))
    assert threshold == pytest.approx(continuous, abs=1.01 + 0.05 / float(scale))
    if threshold:
        lower = float(noise_tail(noise, threshold).lower)
        assert (bins - 1) * math.log1p(-lower) < math.log(probability)


def test_a_histogram_without_bins_is_a_bug_of_ours():
    with pytest.raises(InternalError):
        approx_bounds_threshold(NOISES[0], 0, Fraction(1, 2))
