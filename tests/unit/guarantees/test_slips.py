"""Slips of the literature: each test fails on the old statement and holds for ours."""

from __future__ import annotations

import math

import pytest

from shoal import guarantees as g
from shoal.accounting.claims import profiles
from shoal.errors import ShoalError
from shoal.guarantees.claims import exact


def test_a_thousand_ones_are_not_the_root_of_k_times_two_epsilon():
    """Old: k (ε, δ) answers are (2ε√(2k ln(1/δ′)), δ′ + kδ). It lacks kε(e^ε − 1)."""
    old = 2 * math.sqrt(2 * 1000 * math.log(1e6))
    assert old == pytest.approx(332.45, abs=0.01)
    mean_loss = 1000 * math.tanh(0.5)
    assert old < mean_loss == pytest.approx(462.1, abs=0.1)
    assert g.compose("dp(1)*1000", epsilon=old).delta > 0.99999
    assert g.compose("dp(1)*1000", delta=1e-6, rule="advanced").epsilon > mean_loss
    assert g.compose("dp(1)*1000", delta=1e-6, rule="optimal").epsilon == pytest.approx(591.08, abs=0.01)


def test_the_short_formula_follows_only_while_the_mean_is_small():
    def old(epsilon, times, delta):
        return 2 * epsilon * math.sqrt(2 * times * math.log(1 / delta))

    for epsilon, times in ((0.01, 1000), (0.1, 100), (1, 20), (1, 1000), (2, 50)):
        follows = math.tanh(epsilon / 2) * math.sqrt(times) <= math.sqrt(2 * math.log(1e6))
        ours = g.compose(g.Pure(epsilon) * times, delta=1e-6, rule="advanced").epsilon
        if follows:
            assert ours <= old(epsilon, times, 1e-6)
    assert g.compose(g.Pure(1) * 1000, delta=1e-6, rule="optimal").epsilon > old(1, 1000, 1e-6)


def test_the_textbook_gaussian_is_not_private_enough_above_one():
    """Old: σ² = 2Δ² ln(1.25/δ)/ε² for every ε. At ε = 10, δ = 10⁻⁶ the true δ is 1.9·10⁻⁶."""
    sigma = math.sqrt(2 * math.log(1.25e6)) / 10
    true_delta = g.convert(g.GaussianNoise(sigma), g.Approximate, epsilon=10).delta
    assert true_delta == pytest.approx(1.9e-6, abs=5e-8)
    assert g.noise_for(10, 1e-6, 1, kind="gaussian") > sigma


def test_renyi_claims_of_different_orders_compose_at_the_smaller_one():
    """Old: at the larger order, about which the other claim says nothing."""
    together = g.compose([g.Renyi(4, 0.1), g.Renyi(32, 0.2)], delta=1e-6, rule="renyi").epsilon
    at_smaller = g.convert(g.Renyi(4, 0.3), g.Approximate, delta=1e-6).epsilon
    at_larger = g.convert(g.Renyi(32, 0.3), g.Approximate, delta=1e-6).epsilon
    assert together == pytest.approx(at_smaller)
    assert together > at_larger
    parts = g.parallel([g.Renyi(4, 0.1), g.Renyi(32, 0.2)], neighbours="replace-one")
    assert (parts.alpha, float(parts.epsilon)) == (4, pytest.approx(0.3))


def test_concentrated_claims_add_both_parameters():
    """Old: (ξ₁ + ξ₂, ξ₁ + ξ₂)."""
    together = g.compose(
        [g.ZeroConcentrated(0.1, 0.02), g.ZeroConcentrated(0.3, 0.01)], delta=1e-6, rule="zcdp"
    ).epsilon
    one = g.convert(g.ZeroConcentrated(0.4, 0.03), g.Approximate, delta=1e-6).epsilon
    assert together == pytest.approx(one)
    assert together > g.convert(g.ZeroConcentrated(0.03, 0.03), g.Approximate, delta=1e-6).epsilon


def test_deviations_of_mean_concentrated_claims_add_up_as_squares():
    """τ of two is √(τ₁² + τ₂²)."""
    together = g.compose([g.MeanConcentrated(0.1, 0.3), g.MeanConcentrated(0.1, 0.4)], delta=1e-6, rule="zcdp").epsilon
    assert together == pytest.approx(g.compose([g.MeanConcentrated(0.2, 0.5)], delta=1e-6, rule="zcdp").epsilon)


def test_truncated_concentrated_privacy_has_the_logarithm_of_delta():
    """Old: ρ + 2√(ρ ln(1/ρ)), whatever δ is."""
    rho, omega = 0.01, 100
    near = g.convert(g.TruncatedConcentrated(rho, omega), g.Approximate, delta=1e-6).epsilon
    assert near == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)))
    assert near > rho + 2 * math.sqrt(rho * math.log(1 / rho))
    far = g.convert(g.TruncatedConcentrated(rho, 3), g.Approximate, delta=1e-6).epsilon
    assert far == pytest.approx(rho * 3 + math.log(1e6) / 2)


def test_one_pair_of_epsilon_and_delta_is_not_concentrated():
    """Old: (ξ + √(ρ ln 1/δ), δ)-DP for one δ gives zCDP. It is needed for every δ: no Rényi divergence is finite here."""
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        g.convert(g.Approximate(1, 1e-6), g.ZeroConcentrated)
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        g.convert(g.Approximate(1, 1e-6), g.Renyi, alpha=2)


@pytest.mark.parametrize("alpha", [0.5, 1])
def test_renyi_claims_need_an_order_above_one(alpha):
    """Old: the conversions are printed for α ≤ 1."""
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        g.Renyi(alpha, 0.5)
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        g.convert(g.Pure(1), g.Renyi, alpha=alpha)


def test_probabilistic_privacy_is_the_stronger_one_at_equal_numbers():
    """Old: (ε, δ)-DP implies (ε, δ)-probabilistic DP. It needs (ε + γ, δ/(1 − e^{−γ}))."""
    same = g.convert(g.Probabilistic(1, 1e-6), g.Approximate)
    assert (same.epsilon, same.delta) == (1, 1e-6)
    back = g.convert(g.Approximate(1, 1e-6), g.Probabilistic, gamma=0.1)
    assert back.epsilon == pytest.approx(1.1)
    assert back.delta == pytest.approx(1e-6 / (1 - math.exp(-0.1)))
    # Gaussian noise at its exact (1, δ) has a loss above 1 far more often than δ.
    mu = 0.5
    delta = float(profiles.Gaussian(exact(mu)).delta_at(exact(1)))
    chance_above = math.erfc((1 / mu - mu / 2) / math.sqrt(2)) / 2
    assert chance_above > 3 * delta


def test_the_sum_of_errors_says_less_than_privacy():
    """P_FA + P_MD ≥ 2/(1 + e^ε) follows from ε-DP; errors of 0 and 2/(1 + e^ε) fulfil it, and no ε-private answer has them."""
    epsilon = 1.0
    least_sum = 2 / (1 + math.e)
    for rate in (0.0, 0.01, 0.1, 0.268941, 0.5, 0.9):
        assert rate + 1 - g.power(rate, epsilon) >= least_sum - 1e-12
    assert g.power(0.0, epsilon) == 0 < 1 - least_sum


def test_the_upper_belief_has_one_in_its_denominator():
    """Old: e^ε p/(e^ε + (e^ε − 1)p), which is below the prior."""
    prior, epsilon = 0.5, math.log(3)
    old = 3 * prior / (3 + 2 * prior)
    assert old < prior < g.posterior(prior, epsilon).high == pytest.approx(0.75)


def test_ln_four_removes_three_fifths_of_the_uncertainty():
    """Old: two thirds; that is ln 5."""
    removed = [g.meaning(math.log(n)).uncertainty_removed for n in (2, 3, 4, 5)]
    assert removed == pytest.approx([1 / 3, 1 / 2, 3 / 5, 2 / 3])


def test_the_mean_loss_is_tighter_than_the_square():
    """Old: min(ε, ε²): valid, and loose."""
    for epsilon in (0.01, 0.5, 1, 3):
        assert g.convert(g.Pure(epsilon), g.KullbackLeibler).epsilon < min(epsilon, epsilon**2)


def test_delta_is_not_the_chance_that_the_bounds_fail():
    """A pair of outputs that is (ε, δ)-private and breaks the bounds at ε + γ as often as `fails_with` says."""
    epsilon, delta, slack = 0.5, 1e-3, 0.1
    reach = math.exp(epsilon + slack)
    above = delta / (1 - math.exp(-slack))
    first = (above, above / reach, 1 - above - above / reach)
    second = (above / reach, above, first[2])
    for p, q in ((first, second), (second, first)):
        assert sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True)) == pytest.approx(delta)
    breaks = first[0] + first[1]
    assert g.posterior(0.5, epsilon, delta, slack=slack).fails_with == pytest.approx(breaks)
    assert breaks > 10 * delta
