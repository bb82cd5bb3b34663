"""Groups, samples and parts, against formulas and small worlds."""

from __future__ import annotations

import math

import pytest

from shoal import guarantees as g
from shoal.errors import ShoalError


def test_groups_by_their_formulas():
    assert g.group(g.Pure(0.5), 4) == g.Pure(2)
    assert g.group(g.Gaussian(0.5), 4) == g.Gaussian(2)
    assert g.group(g.ZeroConcentrated(0.1, 0.3), 3).rho == pytest.approx(0.9)
    assert g.group(g.ZeroConcentrated(0.1, 0.3), 3).xi == pytest.approx(0.3 * 3 * (1 + 1 / 2 + 1 / 3))
    assert g.group(g.Renyi(16, 0.1), 4).alpha == 4
    assert g.group(g.Renyi(16, 0.1), 4).epsilon == pytest.approx(0.9)
    assert g.group(g.Approximate(0, 1e-6), 7).delta == pytest.approx(7e-6)
    assert g.group(g.TotalVariation(0.1), 3) == g.TotalVariation(0.3)
    assert g.group(g.LaplaceNoise(10), 3) == g.LaplaceNoise(10, 3)
    assert g.group(g.GeometricNoise(10, 2), 3) == g.GeometricNoise(10, 6)
    assert g.group(g.GaussianNoise(10), 3) == g.GaussianNoise(10, 3)
    assert g.group(g.RandomizedResponse(1), 2) == g.Pure(2)
    assert g.group(g.MutualInformation(1), 1) == g.MutualInformation(1)


def test_a_group_is_reached_one_person_at_a_time():
    """Worst case of two steps of (ε, δ): P₀ ≤ e^ε P₁ + δ and P₁ ≤ e^ε P₂ + δ give P₀ ≤ e^{2ε} P₂ + δ(1 + e^ε)."""
    epsilon, delta = 0.7, 1e-3
    two = g.group(g.Approximate(epsilon, delta), 2)
    assert two.delta == pytest.approx(delta * (1 + math.exp(epsilon)))


@pytest.mark.parametrize(
    ("claim", "size", "code"),
    [
        (g.Renyi(16, 0.1), 3, "E_UNSUPPORTED"),
        (g.Renyi(7, 0.1), 4, "E_UNSUPPORTED"),
        (g.KullbackLeibler(0.1), 2, "E_UNSUPPORTED"),
        (g.Subsampled(g.Pure(1), 0.5), 2, "E_UNSUPPORTED"),
        (g.Approximate(5, 1e-3), 3, "E_OPTION_INVALID"),
        (g.Pure(1), 10_000_000, "E_OPTION_INVALID"),
        (g.Pure(1), 0, "E_OPTION_INVALID"),
    ],
)
def test_groups_that_are_promised_nothing(claim, size, code):
    with pytest.raises(ShoalError, match=code):
        g.group(claim, size)


@pytest.mark.parametrize("rate", [0.01, 0.5, 1])
def test_sampling_randomised_response_is_exactly_as_private_as_claimed(rate):
    epsilon = 1.5
    likely = 1 / (1 + math.exp(-epsilon))
    there = rate * likely + (1 - rate) * (1 - likely)
    claimed = g.subsample(g.Pure(epsilon), rate).epsilon
    assert max(there / (1 - likely), likely / (1 - there)) == pytest.approx(math.exp(claimed))


def test_samples_by_neighbours():
    assert g.subsample(g.Approximate(1, 1e-6), 0.1) == g.subsample(
        g.Approximate(1, 1e-6), 0.1, neighbours="replace-one"
    )
    assert g.subsample(g.GaussianNoise(2), 0.01) == g.Subsampled(g.GaussianNoise(2), 0.01)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: g.subsample(g.GaussianNoise(2), 0.01, neighbours="replace-one"), "E_UNSUPPORTED"),
        (lambda: g.subsample(g.ZeroConcentrated(1), 0.01), "E_UNSUPPORTED"),
        (lambda: g.subsample(g.Pure(1), 0.01, neighbours="friends"), "E_USAGE"),
        (lambda: g.subsample(g.Pure(1), 0), "E_OPTION_INVALID"),
        (lambda: g.parallel([]), "E_USAGE"),
        (lambda: g.parallel(["dp(1)"]), "E_USAGE"),
        (lambda: g.parallel([g.GaussianNoise(1), g.Approximate(1, 1e-6)]), "E_UNSUPPORTED"),
    ],
)
def test_samples_and_parts_that_are_not_known(call, code):
    with pytest.raises(ShoalError, match=code):
        call()


def test_parts_cost_the_worst_or_the_two_worst():
    assert g.parallel([g.Pure(1), g.Pure(2), g.Pure(0.5)]) == g.Pure(2)
    assert g.parallel(g.Pure(1) * 1_000_000, neighbours="replace-one") == g.Pure(2)
    both = g.parallel([g.Approximate(1, 1e-6), g.Approximate(0.5, 1e-5)], neighbours="replace-one")
    assert (both.epsilon, both.delta) == pytest.approx((1.5, 1.1e-5))
    assert g.parallel([g.Gaussian(3), g.GaussianNoise(0.25)], neighbours="replace-one").mu == pytest.approx(5)
    assert g.parallel([g.ZeroConcentrated(1), g.GaussianNoise(1)]) == g.ZeroConcentrated(1)
    assert g.parallel([g.LaplaceNoise(2), g.Pure(0.1)]) == g.Pure(0.5)
