"""Every conversion against its formula, and what does not exist."""

from __future__ import annotations

import math

import pytest

from shoal import guarantees as g
from shoal.errors import ShoalError

E = math.e


def below(x):
    return math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize(
    ("claim", "to", "parameters", "expected"),
    [
        (g.Pure(1), g.Renyi, {"alpha": 3}, math.log((math.sinh(3) - math.sinh(2)) / math.sinh(1)) / 2),
        (g.Pure(3), g.ZeroConcentrated, {}, 4.5),
        (g.Pure(2), g.KullbackLeibler, {}, 2 * math.tanh(1)),
        (g.Pure(1), g.TotalVariation, {}, (E - 1) / (E + 1)),
        (g.Pure(1), g.Approximate, {}, 1),
        (g.Pure(1), g.Approximate, {"delta": 0.01}, math.log(E - 0.01 * (1 + E))),
        (g.Approximate(1, 0.01), g.TotalVariation, {}, (E - 1 + 0.02) / (E + 1)),
        (g.Approximate(1, 1e-6), g.Probabilistic, {"gamma": 0.5}, 1.5),
        (g.Approximate(1, 0.01), g.Approximate, {"delta": 0.01}, 1),
        (g.Probabilistic(1, 1e-6), g.Approximate, {}, 1),
        (g.KullbackLeibler(0.02), g.TotalVariation, {}, 0.1),
        (g.KullbackLeibler(0.02), g.MutualInformation, {}, 0.02),
        (g.MutualInformation(0.02), g.TotalVariation, {}, 0.2),
        (g.TotalVariation(0.1), g.Approximate, {}, 0),
        (g.Renyi(8, 0.5), g.Approximate, {"delta": 1e-6}, 0.5 + math.log(7 / 8) - (math.log(1e-6) + math.log(8)) / 7),
        (g.Renyi(8, 0.001), g.Approximate, {"delta": 0.9}, 0),
        (g.Renyi(8, 0.5), g.Renyi, {"alpha": 4}, 0.5),
        (g.Renyi(8, 0.5), g.KullbackLeibler, {}, 0.5),
        (g.ZeroConcentrated(0.1, 0.2), g.Renyi, {"alpha": 5}, 0.7),
        (g.ZeroConcentrated(0.1, 0.2), g.KullbackLeibler, {}, 0.3),
        (g.ZeroConcentrated(0.5, 0.2), g.Approximate, {"delta": 1e-6}, 5.2215344 + 0.2),
        (
            g.TruncatedConcentrated(0.01, 100),
            g.Approximate,
            {"delta": 1e-6},
            0.01 + 2 * math.sqrt(0.01 * math.log(1e6)),
        ),
        (g.TruncatedConcentrated(0.01, 3), g.Approximate, {"delta": 1e-6}, 0.03 + math.log(1e6) / 2),
        (g.TruncatedConcentrated(0.01, 3), g.Renyi, {"alpha": 2}, 0.02),
        (g.MeanConcentrated(1, 1), g.ZeroConcentrated, {}, 0.5),
        (g.Gaussian(0.5), g.Approximate, {"delta": 1e-6}, 2.2540846),
        (g.Gaussian(0.5), g.ZeroConcentrated, {}, 0.125),
        (g.Gaussian(0.5), g.Renyi, {"alpha": 4}, 0.5),
        (g.Gaussian(0.5), g.TotalVariation, {}, 2 * below(0.25) - 1),
        (g.LaplaceNoise(10, 3), g.Pure, {}, 0.3),
        (g.LaplaceNoise(1), g.Approximate, {"delta": 0.1}, 1 + 2 * math.log(0.9)),
        (g.LaplaceNoise(1), g.Renyi, {"alpha": 2}, math.log(2 / 3 * E + 1 / 3 * math.exp(-2))),
        (g.GeometricNoise(10, 3), g.Pure, {}, 0.3),
        (g.GeometricNoise(1), g.Approximate, {"delta": 0.01}, math.log(E - 0.01 * (1 + E))),
        (g.GeometricNoise(1), g.Renyi, {"alpha": 3}, math.log((math.sinh(3) - math.sinh(2)) / math.sinh(1)) / 2),
        (g.GaussianNoise(4, 2), g.Gaussian, {}, 0.5),
        (g.GaussianNoise(4, 2), g.ZeroConcentrated, {}, 0.125),
        (g.GaussianNoise(4, 2), g.Approximate, {"delta": 1e-6}, 2.2540846),
        (g.RandomizedResponse(2), g.Pure, {}, 2),
        (g.Subsampled(g.Approximate(1, 1e-6), 0.01), g.Approximate, {}, math.log(1 + 0.01 * (E - 1))),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_conversion_is_its_formula_rounded_up(claim, to, parameters, expected):
    result = g.convert(claim, to, **parameters)
    assert type(result) is to
    first = next(iter(name for name in ("rho", "mu", "epsilon", "delta") if hasattr(result, name)))
    assert float(getattr(result, first)) == pytest.approx(expected, rel=1e-6)
    assert float(getattr(result, first)) >= expected * (1 - 1e-7)


def test_every_listed_conversion_is_tested_above_and_runs():
    tested = test_a_conversion_is_its_formula_rounded_up.pytestmark[0].args[1]
    assert {(type(claim), to) for claim, to, *_ in tested} == {(one.source, one.target) for one in g.conversions()}


def test_along_a_profile_delta_falls():
    deltas = [g.convert(g.LaplaceNoise(1), "dp", epsilon=e).delta for e in (0, 0.5, 1)]
    assert deltas == pytest.approx([1 - math.exp(-0.5), 1 - math.exp(-0.25), 0])


def test_several_orders_of_one_mechanism_give_the_smallest():
    orders = [g.Renyi(2, 0.1), g.Renyi(8, 0.5), g.Renyi(64, 5)]
    best = g.convert(orders, g.Approximate, delta=1e-6).epsilon
    assert best == min(g.convert(one, g.Approximate, delta=1e-6).epsilon for one in orders)


def test_from_add_and_remove_to_replace_one():
    assert g.convert(g.Pure(1), "replace-one") == g.Pure(2)
    approximate = g.convert(g.Approximate(1, 1e-6), "replace-one")
    assert (approximate.epsilon, approximate.delta) == pytest.approx((2, 1e-6 * (1 + E)))
    assert g.convert(g.ZeroConcentrated(1, 1), "replace-one") == g.ZeroConcentrated(4, 3)
    assert g.convert(g.Gaussian(1), "replace-one") == g.Gaussian(2)


@pytest.mark.parametrize(
    ("claim", "to", "chain"),
    [
        (g.Renyi(8, 0.5), g.TotalVariation, "Renyi → Approximate → TotalVariation"),
        (g.LaplaceNoise(1), g.KullbackLeibler, "LaplaceNoise → Pure → KullbackLeibler"),
        (g.GaussianNoise(1), g.Probabilistic, "GaussianNoise → Approximate → Probabilistic"),
        (g.TotalVariation(0.1), g.Pure, "No chain"),
        (g.Approximate(1, 1e-6), g.ZeroConcentrated, "No chain"),
    ],
)
def test_a_missing_conversion_names_the_chain_that_exists(claim, to, chain):
    with pytest.raises(ShoalError) as caught:
        g.convert(claim, to)
    assert caught.value.code == "E_UNSUPPORTED"
    assert chain in caught.value.hint


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: g.convert(g.Pure(1), g.Renyi), "E_USAGE"),
        (lambda: g.convert(g.Gaussian(1), g.Approximate), "E_USAGE"),
        (lambda: g.convert(g.Gaussian(1), g.Approximate, delta=1e-6, epsilon=1), "E_USAGE"),
        (lambda: g.convert(g.Pure(1), g.ZeroConcentrated, delta=1e-6), "E_USAGE"),
        (lambda: g.convert(g.Pure(1), g.Renyi, order=8), "E_USAGE"),
        (lambda: g.convert(g.Pure(1), "magic"), "E_USAGE"),
        (lambda: g.convert("dp(1)", g.Renyi, alpha=8), "E_USAGE"),
        (lambda: g.convert(g.Gaussian(1), g.Approximate, delta=1.5), "E_OPTION_INVALID"),
        (lambda: g.convert(g.Gaussian(1), g.Approximate, delta="1e-6"), "E_OPTION_INVALID"),
        (lambda: g.convert(g.Gaussian(1), g.Approximate, delta=0), "E_UNSUPPORTED"),
        (lambda: g.convert(g.Renyi(8, 0.5), g.Renyi, alpha=16), "E_OPTION_INVALID"),
        (lambda: g.convert(g.Approximate(1, 0.1), g.Probabilistic, gamma=0.01), "E_UNSUPPORTED"),
        (lambda: g.convert(g.KullbackLeibler(3), g.TotalVariation), "E_UNSUPPORTED"),
    ],
)
def test_wrong_questions_are_refused(call, code):
    with pytest.raises(ShoalError, match=code):
        call()
