"""How many fit, and how much noise makes them fit."""

from __future__ import annotations

import pytest

from shoal import guarantees as g
from shoal.errors import ShoalError


@pytest.mark.parametrize("rule", ["basic", "advanced", "optimal", "zcdp", "renyi"])
@pytest.mark.parametrize("claim", [g.Pure(0.05), g.Approximate(0.2, 1e-8), g.LaplaceNoise(5)])
def test_the_count_is_the_last_one_that_fits(claim, rule):
    times = g.how_many(claim, 1, 1e-6, rule=rule)
    fits = [g.compose(claim * k, delta=1e-6, rule=rule).epsilon <= 1 for k in range(1, times + 3)]
    assert fits == [True] * times + [False] * 2


def test_gaussian_noise_is_counted_by_its_exact_rule():
    times = g.how_many(g.GaussianNoise(50), 1, 1e-6, rule="gdp")
    assert times == g.how_many(g.GaussianNoise(50), 1, 1e-6)
    assert g.compose(g.GaussianNoise(50) * times, delta=1e-6, rule="gdp").epsilon <= 1


def test_laplace_noise_gains_from_the_numerical_rule():
    by_hand = g.how_many(g.LaplaceNoise(2), 3, 1e-6, rule="optimal")
    assert g.how_many(g.LaplaceNoise(2), 3, 1e-6) >= by_hand
    assert g.compose(g.LaplaceNoise(2) * g.how_many(g.LaplaceNoise(2), 3, 1e-6), delta=1e-6).epsilon <= 3


def test_none_and_all():
    assert g.how_many(g.Pure(2), 1, 1e-6) == 0
    assert g.how_many(g.KullbackLeibler(3), 1, 1e-6) == 0
    assert g.how_many(g.Pure(0), 1, 0, rule="basic") == 10_000_000


@pytest.mark.parametrize(("kind", "rule"), [("laplace", "optimal"), ("geometric", "optimal"), ("gaussian", "gdp")])
@pytest.mark.parametrize("times", [1, 30])
def test_the_noise_fits_and_hardly_less_would(kind, rule, times):
    make = {"laplace": g.LaplaceNoise, "geometric": g.GeometricNoise, "gaussian": g.GaussianNoise}[kind]
    scale = g.noise_for(1, 1e-6, times, kind=kind, sensitivity=2)
    assert g.compose(make(scale, 2) * times, delta=1e-6, rule=rule).epsilon <= 1
    assert g.compose(make(scale * 0.999, 2) * times, delta=1e-6, rule=rule).epsilon > 1


def test_pure_privacy_needs_the_scale_of_the_textbook():
    assert g.noise_for(0.5, 0, 4) == pytest.approx(8)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: g.noise_for(0, 1e-6, 1), "E_OPTION_INVALID"),
        (lambda: g.noise_for(1, 0, 1, kind="gaussian"), "E_OPTION_INVALID"),
        (lambda: g.noise_for(1, 1e-6, 0), "E_OPTION_INVALID"),
        (lambda: g.noise_for(1, 1e-6, 1, kind="cauchy"), "E_USAGE"),
        (lambda: g.noise_for(1e-10, 0, 10_000_000), "E_OPTION_INVALID"),
        (lambda: g.how_many(g.Pure(1), -1, 0), "E_OPTION_INVALID"),
        (lambda: g.how_many(g.Pure(1), 1, 0, rule="magic"), "E_USAGE"),
    ],
)
def test_wrong_questions_are_refused(call, code):
    with pytest.raises(ShoalError, match=code):
        call()
