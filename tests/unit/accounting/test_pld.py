"""Numerical composition inside one plan: never below the exact loss, and close to it."""

import math
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting import pld
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    OptimalSelection,
    Shift,
    ThresholdSelection,
)
from shoal.accounting.pld import plan_delta, plan_epsilon
from shoal.errors import InternalError, ShoalError

pytest.importorskip("dp_accounting")

MILLIONTH = Fraction(1, 10**6)


def laplace(shift, scale, coordinates=1):
    return LaplaceNoise(Shift(shift, coordinates), Fraction(scale))


def gaussian(shift, sigma, coordinates=1, epsilon=Fraction(1), delta=MILLIONTH):
    return JointGaussian((GaussianNoise(Shift(shift, coordinates), Fraction(sigma)),), epsilon, delta)


def losses_of_laplace(shift, scale):
    """Masses of the loss of X against X + shift, by units of 1/scale, from the definition."""
    p, masses = math.exp(-1 / scale), Counter()
    for x in range(-60 * scale, 60 * scale + shift):
        masses[abs(x - shift) - abs(x)] += (1 - p) / (1 + p) * p ** abs(x)
    return {unit / scale: mass for unit, mass in masses.items()}


def losses_of_gaussian(shift, sigma):
    xs = range(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    weights = {x: math.exp(-(x**2) / (2 * sigma**2)) for x in xs}
    total, masses = math.fsum(weights.values()), Counter()
    for x, weight in weights.items():
        masses[shift * (shift - 2 * x) / (2 * sigma**2)] += weight / total
    return dict(masses)


def exact_delta(distributions, epsilon):
    """E[(1 − e^{ε − loss})₊] over all combinations of losses."""
    joint = {0.0: 1.0}
    for masses in distributions:
        after = Counter()
        for loss, mass in joint.items():
            for other, weight in masses.items():
                after[round(loss + other, 12)] += mass * weight
        joint = after
    return math.fsum(mass * -math.expm1(epsilon - loss) for loss, mass in joint.items() if loss > epsilon)


SMALL_PLANS = {
    "one Laplace": ([laplace(1, 2)], [losses_of_laplace(1, 2)]),
    "Laplace with a shift": ([laplace(7, 10)], [losses_of_laplace(7, 10)]),
    "several coordinates": ([laplace(1, 4, 6)], [losses_of_laplace(1, 4)] * 6),
    "different Laplaces": (
        [laplace(1, 4), laplace(3, 9, 2)],
        [losses_of_laplace(1, 4)] + [losses_of_laplace(3, 9)] * 2,
    ),
    "one Gaussian": ([gaussian(1, 5)], [losses_of_gaussian(1, 5)]),
    "a coarse Gaussian": ([gaussian(1, Fraction(3, 2), epsilon=Fraction(4))], [losses_of_gaussian(1, 1.5)]),
    "both": ([gaussian(1, 5), laplace(1, 4)], [losses_of_gaussian(1, 5), losses_of_laplace(1, 4)]),
}


@pytest.mark.parametrize(("events", "distributions"), SMALL_PLANS.values(), ids=SMALL_PLANS.keys())
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 0.7, 1.2])
def test_delta_is_never_below_the_exact_one_and_close_to_it(events, distributions, epsilon):
    exact = exact_delta(distributions, epsilon)
    ours = plan_delta(events, Fraction(str(epsilon)))
    assert ours >= Fraction(exact) * (1 - Fraction(1, 10**12))
    assert float(ours) <= exact * 1.01 + 1e-9


@pytest.mark.parametrize(("events", "distributions"), SMALL_PLANS.values(), ids=SMALL_PLANS.keys())
@pytest.mark.parametrize("delta", [Fraction(1, 100), MILLIONTH, Fraction(1, 10**8)])
def test_epsilon_is_certified_by_the_exact_delta(events, distributions, delta):
    epsilon = plan_epsilon(events, delta)
    assert exact_delta(distributions, float(epsilon)) <= delta
    assert plan_delta(events, epsilon) <= delta


def test_a_deltas_too_small_for_floating_point_fall_back_to_what_is_proved_otherwise():
    events = [laplace(1, 10)] * 10
    assert plan_epsilon(events, Fraction(1, 10**13)) == 1
    assert plan_epsilon(events, Fraction(0)) == 1


def test_many_coordinates_cost_much_less_than_their_sum():
    events = [laplace(1, 50, 50)]
    assert plan_loss(events).epsilon == 1
    assert plan_epsilon(events, MILLIONTH) < Fraction(57, 100)


@pytest.mark.parametrize("coordinates", [1, 20])
@pytest.mark.parametrize("ratio", [2, 10])
def test_a_fine_grid_of_values_agrees_with_the_library_on_a_coarser_one(monkeypatch, ratio, coordinates):
    coarse, fine = (
        laplace(5_000, 5_000 * ratio, coordinates),
        laplace(5_000 * 2**14, 5_000 * 2**14 * ratio, coordinates),
    )
    assert float(plan_epsilon([coarse], MILLIONTH)) == pytest.approx(float(plan_epsilon([fine], MILLIONTH)), rel=1e-3)
    coarse = gaussian(100, 100 * ratio, coordinates, Fraction(40))
    fine = gaussian(100 * 2**14, 100 * 2**14 * ratio, coordinates, Fraction(40))
    assert float(plan_epsilon([coarse], MILLIONTH)) == pytest.approx(float(plan_epsilon([fine], MILLIONTH)), rel=1e-3)


@pytest.mark.parametrize("interval", [2.0**-14, 2.0**-10, 2.0**-4])
def test_our_own_masses_are_the_librarys_or_a_little_higher(interval):
    for gaussian_noise, masses, shift, scale in (
        (False, pld._laplace_masses(3_000, 9_000.0, interval), 3_000, 9_000),
        (True, pld._gaussian_masses(400, 700.0, interval), 400, 700),
    ):
        library = pld._distribution(pld._Noise(gaussian_noise, shift, Fraction(scale)), interval)
        ours = pld._library().PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)
        for epsilon in np.linspace(0, 2, 9):
            low, high = library.get_delta_for_epsilon(epsilon), ours.get_delta_for_epsilon(epsilon)
            assert low * (1 - 1e-9) - 1e-15 <= high <= low * 1.01 + 1e-6


def test_blocks_of_a_very_fine_gaussian_hold_all_of_it_and_hardly_more():
    masses = pld._gaussian_masses(2**22, 3.0 * 2**22, 2.0**-12)
    assert 1 <= sum(masses.values()) + 1e-12 <= 1 + 1e-8


def test_selection_enters_as_randomised_response_and_a_chance():
    selection = OptimalSelection(Fraction(1), MILLIONTH / 2, max_groups_per_owner=20)
    assert plan_epsilon([selection], MILLIONTH / 4 * 3) < Fraction(9, 10)
    assert plan_epsilon([selection], MILLIONTH / 2) == 1
    assert plan_delta([selection], Fraction(1)) == MILLIONTH / 2
    with pytest.raises(ShoalError):
        plan_epsilon([selection], MILLIONTH / 3)


def test_a_threshold_adds_its_chance_to_the_noise_it_reads():
    noise = laplace(1, 10, 5)
    threshold = ThresholdSelection(noise, 200, MILLIONTH / 2, max_groups_per_owner=5)
    alone, together = plan_delta([noise], Fraction(2, 5)), plan_delta([noise, threshold], Fraction(2, 5))
    assert together == alone + MILLIONTH / 2
    with pytest.raises(InternalError):
        plan_epsilon([threshold], MILLIONTH)


def test_a_shift_of_zero_costs_nothing():
    assert plan_epsilon([laplace(0, 1)], Fraction(0)) == 0
    assert plan_delta([laplace(0, 1)], Fraction(0)) == 0


def test_gaussian_moves_that_may_spread_are_refused():
    """Rows in different leaves have the same norms; that they are no worse than rows in one is not proven."""
    event = JointGaussian((GaussianNoise(Shift(3, 4, 12), Fraction(99)),), Fraction(1), MILLIONTH)
    with pytest.raises(InternalError):
        plan_delta([event], Fraction(1))
    with pytest.raises(InternalError):
        plan_epsilon([event], MILLIONTH)


def test_laplace_moves_that_may_spread_lose_what_a_move_in_one_entry_loses():
    spread, together = LaplaceNoise(Shift(3, 4, 12), Fraction(10)), laplace(3, 10, 4)
    assert plan_delta([spread], Fraction(1, 2)) == plan_delta([together], Fraction(1, 2))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("moves", [(1, 1), (1, 4), (3, 3), (2, 7), (2, 1, 3)])
def test_a_move_of_laplace_noise_that_spreads_is_never_worse_by_brute_force(scale, moves):
    """The divergence of a spread move from its likelihood ratios, which depend on the sum of the clamped noises alone."""
    ratio = math.exp(-1 / float(scale))

    def law(move):
        """Of the noise clamped to [0, move]: beyond it the ratio stays the same."""
        masses = np.array([ratio**k * (1 - ratio) / (1 + ratio) for k in range(move + 1)])
        masses[0], masses[-1] = 1 / (1 + ratio), ratio**move / (1 + ratio)
        return masses

    together = law(sum(moves))
    spread = law(moves[0])
    for move in moves[1:]:
        spread = np.convolve(spread, law(move))
    losses = (sum(moves) - 2 * np.arange(sum(moves) + 1)) / float(scale)
    for epsilon in np.linspace(-losses[0], losses[0], 41):
        lost = np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))
        assert float(spread @ lost) <= float(together @ lost) + 1e-13


def test_large_losses_are_refused():
    for call in (
        lambda: plan_epsilon([laplace(1000, 1)], MILLIONTH),
        lambda: plan_delta([laplace(1, 1)], Fraction(51)),
    ):
        with pytest.raises(ShoalError) as caught:
            call()
        assert caught.value.code == "E_OPTION_INVALID"


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    pld._distribution.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ShoalError) as caught:
        plan_epsilon([laplace(1, 10)] * 3, MILLIONTH)
    assert caught.value.code == "E_MISSING_EXTRA"
    assert "shoal[accounting]" in caught.value.hint
