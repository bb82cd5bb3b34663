"""The conversion between zCDP and (ε, δ) is tight, and errs to one side only."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from shoal.accounting.zcdp import laplace_rho, zcdp_delta, zcdp_epsilon, zcdp_rho_limit
from shoal.errors import InternalError

RHOS = [1e-12, 1e-6, 1e-3, 0.0244, 0.5, 3.0, 100.0, 1e6, 5e11]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-6, 0.01, 0.5, 0.999]


def best_over_all_orders(rho, delta):
    """min over α of αρ + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α), by a general minimiser."""

    def epsilon(log_a):
        a = math.exp(log_a)
        return (1 + a) * rho + (math.log(1 / delta) - math.log1p(a)) / a - math.log1p(1 / a)

    starts = [
        optimize.minimize_scalar(epsilon, bounds=(low, low + 8), method="bounded").fun for low in range(-40, 690, 8)
    ]
    return max(0.0, min(starts))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_the_best_over_all_orders(rho, delta):
    ours = float(zcdp_epsilon(Fraction(rho), Fraction(delta)))
    assert ours == pytest.approx(best_over_all_orders(rho, delta), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 10.0])
def test_epsilon_covers_the_gaussian_mechanism_whose_exact_loss_is_known(rho, delta):
    epsilon, mu = float(zcdp_epsilon(Fraction(rho), Fraction(delta))), math.sqrt(2 * rho)
    log_second = epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)
    exact_delta = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(log_second)
    assert exact_delta <= delta
    assert exact_delta >= delta / 30


@settings(deadline=None)
@given(st.floats(1e-10, 1e9), st.floats(1e-300, 0.9))
def test_the_largest_rho_for_an_epsilon_stays_within_it_and_comes_close(epsilon, delta):
    limit = zcdp_rho_limit(Fraction(epsilon), Fraction(delta))
    assert limit >= 0
    if limit > 0:
        assert zcdp_epsilon(limit, Fraction(delta)) <= Fraction(epsilon) * (1 + Fraction(1, 10**25))
    assert zcdp_epsilon(limit * Fraction(1001, 1000) + Fraction(1, 10**40), Fraction(delta)) >= Fraction(
        epsilon
    ) * Fraction(99, 100)


@settings(deadline=None)
@given(st.floats(1e-12, 1e9), st.floats(1e-12, 1e9), st.floats(1e-300, 0.9))
def test_more_rho_never_means_less_epsilon(first, second, delta):
    low, high = sorted((first, second))
    below, above = zcdp_epsilon(Fraction(low), Fraction(delta)), zcdp_epsilon(Fraction(high), Fraction(delta))
    assert below <= above * (1 + Fraction(1, 10**12))


def test_no_loss_needs_no_epsilon():
    assert zcdp_epsilon(Fraction(0), Fraction(1, 10**6)) == 0


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1)])
def test_there_is_no_conversion_without_a_delta(delta):
    with pytest.raises(InternalError):
        zcdp_epsilon(Fraction(1), delta)
    with pytest.raises(InternalError):
        zcdp_rho_limit(Fraction(1), delta)


@pytest.mark.parametrize("delta", [1e-100, 1e-12, 1e-6, 0.01])
@pytest.mark.parametrize("rho", [1e-3, 0.0244, 0.5, 3.0, 100.0])
def test_delta_and_epsilon_are_two_ways_to_say_the_same(rho, delta):
    back = zcdp_delta(Fraction(rho), zcdp_epsilon(Fraction(rho), Fraction(delta)))
    assert Fraction(delta) * (1 - Fraction(1, 10**15)) <= back <= Fraction(delta) * (1 + Fraction(1, 10**15))


def test_a_delta_beyond_all_floats_is_still_not_zero():
    assert 0 < zcdp_delta(Fraction(1, 10**9), Fraction(50)) <= Fraction(1, 10**300)


def test_without_enough_epsilon_everything_may_be_lost():
    assert zcdp_delta(Fraction(10**6), Fraction(1)) == 1
    with pytest.raises(InternalError):
        zcdp_delta(Fraction(1), Fraction(-1))


# ---- Laplace noise ---------------------------------------------------------------------------------------------------


def renyi_over_order(shift: int, scale: float, order: float) -> float:
    """D_α/α of discrete Laplace noise and its copy, summed term by term."""
    points = np.arange(-math.ceil(60 * scale), shift + math.ceil(60 * scale) + 1, dtype=np.float64)
    normalised = -np.abs(points) / scale - math.log((1 + math.exp(-1 / scale)) / (1 - math.exp(-1 / scale)))
    moved = -np.abs(points - shift) / scale - math.log((1 + math.exp(-1 / scale)) / (1 - math.exp(-1 / scale)))
    logs = order * normalised + (1 - order) * moved
    top = float(logs.max())
    return (top + math.log(float(np.exp(logs - top).sum()))) / (order - 1) / order


@pytest.mark.parametrize(
    ("shift", "scale"), [(1, 1), (1, 10), (3, 2), (7, 7), (40, 10), (50, 200), (5, Fraction(1, 2))]
)
def test_laplace_noise_costs_no_more_than_its_rho_at_any_order(shift, scale):
    rho = float(laplace_rho(shift, Fraction(scale)))
    orders = [1 + 10.0**exponent for exponent in np.linspace(-5, 2, 40)]
    found = [renyi_over_order(shift, float(scale), order) for order in orders]
    assert max(found) <= rho * (1 + 1e-9)
    assert rho <= found[0] * (1 + 1e-3)


def test_the_rho_of_laplace_noise_is_below_that_of_every_pure_mechanism():
    for shift, scale in ((1, 1), (1000, 500), (2**20, 2**21), (1, 10**12), (3, Fraction(1, 10**6))):
        epsilon = Fraction(shift) / scale
        assert 0 < laplace_rho(shift, Fraction(scale)) <= epsilon**2 / 2
    assert float(laplace_rho(2**20, Fraction(2**20))) == pytest.approx(math.exp(-1), rel=1e-6)
    assert laplace_rho(0, Fraction(1)) == 0


@given(st.integers(1, 200), st.fractions(Fraction(1, 10), 500), st.integers(1, 9))
@settings(max_examples=100)
def test_a_smaller_share_of_epsilon_costs_at_most_the_same_share_of_rho(shift, scale, tenths):
    share = Fraction(tenths, 10)
    assert laplace_rho(shift, scale / share) <= share * laplace_rho(shift, scale) * (
        1 + Fraction(1, 10**20)
    ) + Fraction(1, 10**25)
