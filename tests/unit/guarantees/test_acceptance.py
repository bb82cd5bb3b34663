"""The acceptance table: numbers computed by enumeration in 60 digits, and against other accountants."""

from __future__ import annotations

import math

import pytest

from shoal import guarantees as g

CLOSE = 1e-6


def near(value):
    return pytest.approx(value, rel=CLOSE)


def test_fifty_tenths_by_each_rule():
    rules = g.compose("dp(0.1)*50", delta=1e-6).by_rule
    assert [rules[name] for name in ("basic", "advanced", "optimal", "zcdp")] == near([5, 3.919797, 3.172903, 3.542291])


def test_fifty_times_laplace_noise_is_best_composed_numerically():
    together = g.compose("laplace(10)*50", delta=1e-6)
    assert together.by_rule["numerical"] == pytest.approx(3.1202, abs=0.002)
    assert together.by_rule["renyi"] == pytest.approx(3.2996, abs=0.002)
    assert together.rule == "numerical"
    assert together.epsilon == together.by_rule["numerical"]
    assert 3.118 < together.epsilon_at_least <= together.epsilon


def test_fifty_times_gaussian_noise():
    rules = g.compose("gaussian(20)*50", delta=1e-6).by_rule
    assert [rules["gdp"], rules["zcdp"]] == near([1.543630, 1.659979])
    assert rules["numerical"] == pytest.approx(1.5436, abs=0.001)


def test_a_thousand_ones():
    assert g.compose("dp(1)*1000", delta=1e-6).by_rule["optimal"] == near(591.0797)
    assert g.compose("dp(1)*1000", epsilon=332.4516).by_rule["optimal"] == near(0.9999964)


@pytest.mark.parametrize(
    ("claims", "delta", "epsilon"),
    [
        ("dp(0.01)*1000", 1e-6, 1.365447),
        ("dp(1)*10", 1e-6, 9.999977),
        ("dp(0.1)*5 + dp(0.3)*3 + dp(0.5)", 1e-3, 1.694130),
        ("dp(0.1,1e-9)*50", 1e-6, 3.176922),
    ],
)
def test_the_optimal_rule(claims, delta, epsilon):
    assert g.compose(claims, delta=delta, rule="optimal").epsilon == near(epsilon)


def test_different_parts_at_an_epsilon():
    assert g.compose("dp(0.1)*5 + dp(0.3)*3 + dp(0.5)", epsilon=1).delta == near(0.04641170)


def test_a_mixture_of_mechanisms():
    mixture = g.compose("laplace(10)*10 + gaussian(8)*5 + rr(0.3)*3", delta=1e-6)
    assert mixture.by_rule["numerical"] == pytest.approx(2.5273, abs=0.003)


def test_a_thousand_steps_on_samples():
    steps = g.compose(g.Subsampled(g.GaussianNoise(2), 0.01) * 1000, delta=1e-6, rule="numerical")
    assert steps.epsilon == pytest.approx(0.7209, abs=0.002)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 10), (0.05, 26), (0.01, 562)])
def test_how_many_fit(epsilon, times):
    assert g.how_many(g.Pure(epsilon), 1, 1e-6, rule="optimal") == times


def test_conversions():
    assert g.convert(g.Renyi(8, 0.5), g.Approximate, delta=1e-6).epsilon == near(2.043050)
    assert g.convert(g.Pure(0.5), g.Renyi, alpha=8).epsilon == near(0.4323537)
    assert g.convert(g.Pure(1), g.KullbackLeibler).epsilon == near(0.4621172)
    assert g.convert(g.Gaussian(1), g.Approximate, epsilon=1).delta == near(0.1269367)
    assert g.convert(g.Gaussian(0.5), g.Approximate, delta=1e-6).epsilon == near(2.254085)


def test_groups_and_samples():
    group = g.group(g.Approximate(0.5, 1e-8), 4)
    assert (group.epsilon, group.delta) == near((2, 9.848692e-8))
    sample = g.subsample(g.Approximate(1, 1e-6), 0.01)
    assert (sample.epsilon, sample.delta) == near((0.01703686, 1e-8))


@pytest.mark.parametrize(
    ("prior", "epsilon", "bounds"),
    [
        (0.5, math.log(3), (0.25, 0.75)),
        (0.1, 5, (7.481007e-4, 0.9428256)),
        (0.01, 1, (3.702197e-3, 2.672363e-2)),
    ],
)
def test_beliefs(prior, epsilon, bounds):
    assert g.posterior(prior, epsilon) == near(bounds)


def test_tests_and_guesses():
    assert g.power(0.05, 1, 1e-5) == near(0.1359241)
    assert g.guess_accuracy(1) == near(0.7310586)
    assert g.guess_accuracy(1, 0.01) == near(0.7337480)
