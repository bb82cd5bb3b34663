"""Rules side by side: what they say, what they do not, and in which order they stand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import guarantees as g
from shoal.accounting.claims import loss_distributions
from shoal.errors import ShoalError

PURE = ("basic", "advanced", "zcdp", "renyi")


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([0.003, 0.1, 0.5, 2]),
    st.integers(1, 200),
    st.sampled_from([0, 1e-12]),
    st.sampled_from([1e-9, 1e-3]),
)
def test_no_rule_is_below_the_optimum(epsilon, times, own, delta):
    claims = g.Approximate(epsilon, own) * times
    optimum = g.compose(claims, delta=delta, rule="optimal").epsilon
    for rule in PURE:
        assert g.compose(claims, delta=delta, rule=rule).epsilon >= optimum * (1 - 1e-9)


EPSILONS = st.just(0.0) | st.floats(1e-9, 30)
CLAIMS = st.one_of(
    st.builds(g.Pure, EPSILONS),
    st.builds(g.Approximate, EPSILONS, st.sampled_from([0.0, 1e-300, 1e-9, 0.3])),
    st.builds(g.LaplaceNoise, st.floats(1e-3, 1e6), st.floats(1e-3, 1e3)),
    st.builds(g.GeometricNoise, st.floats(1e-3, 1e6), st.integers(1, 1000)),
    st.builds(g.GaussianNoise, st.floats(1e-2, 1e6)),
    st.builds(g.ZeroConcentrated, st.floats(1e-9, 100), st.floats(0, 10)),
    st.builds(g.Renyi, st.floats(1.001, 1e6), EPSILONS),
    st.builds(g.TruncatedConcentrated, st.floats(1e-9, 100), st.floats(1.001, 1e6)),
    st.builds(g.KullbackLeibler, st.floats(0, 5)),
    st.builds(g.MeanConcentrated, st.floats(1e-6, 10), st.floats(1e-6, 10)),
    st.builds(g.Subsampled, st.builds(g.Pure, EPSILONS), st.floats(1e-6, 1)),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(CLAIMS, st.integers(1, 50)), min_size=1, max_size=3), st.sampled_from([0, 1e-300, 1e-6, 0.5]))
def test_any_claims_get_a_number_or_a_sentence_from_every_rule(runs, delta):
    claims = g.Claims(runs)
    for rule in ("basic", "advanced", "optimal", "zcdp", "renyi", "gdp"):
        together = g.compose(claims, delta=delta, rule=rule)
        assert together.epsilon >= 0
        if math.isfinite(together.epsilon) and delta:
            assert (
                g.compose(claims, epsilon=together.epsilon, rule=rule).delta <= max(delta, 1e-299) * (1 + 1e-6) + 1e-15
            )


def test_a_rule_that_does_not_apply_is_a_row_with_its_reason():
    together = g.compose("laplace(10)*50", delta=1e-6, rule="gdp")
    assert together.epsilon == math.inf
    assert together.by_rule["gdp"] == "only for Gaussian claims, and laplace(10) is not one"
    assert "Nothing is promised" in str(together)
    assert g.compose("kl(3)", epsilon=1).delta == 1.0


@pytest.mark.parametrize(
    ("claims", "rule", "why"),
    [
        ("dp(0.1) + dp(0.2)", "advanced", "the same ε and δ"),
        ("gaussian(1)", "optimal", "no (ε, δ) of its own"),
        ("dp(0.1)*1000 + dp(0.2)*1000", "optimal", "sums of losses"),
        (" + ".join(f"dp(0.{i})" for i in range(11, 24)), "optimal", "up to 12"),
        ("renyi(8, 0.5)", "zcdp", "has no ρ"),
        ("kl(3)", "renyi", "no Rényi curve"),
        ("dp(1, 1e-3)", "basic", "add up to 0.001"),
        ("dp(1, 1e-3)", "zcdp", "larger δ"),
        ("rr(1000)", "numerical", "single loss"),
    ],
)
def test_why_a_rule_has_no_number(claims, rule, why):
    assert why in g.compose(claims, delta=1e-6).by_rule[rule]


def test_too_many_sums_are_left_to_the_numerical_rule():
    together = g.compose("dp(0.01)*1000 + dp(0.02)*1000", delta=1e-6)
    assert together.rule == "numerical"
    assert together.epsilon_at_least <= together.epsilon < together.by_rule["renyi"]


def test_basic_shares_delta_evenly_among_claims_without_an_epsilon():
    together = g.compose("gaussian(2)*4 + dp(0.5)", delta=1e-6, rule="basic").epsilon
    assert together == pytest.approx(4 * g.convert(g.GaussianNoise(2), "dp", delta=2.5e-7).epsilon + 0.5)


def test_a_curve_falls_and_goes_through_the_answer():
    together = g.compose("gaussian(5)*10", delta=1e-6)
    curve = together.curve(20)
    assert [delta for _, delta in curve] == sorted((delta for _, delta in curve), reverse=True)
    assert together.curve([together.epsilon])[0][1] == pytest.approx(1e-6, rel=1e-6)
    assert len(together.curve([0.1, 0.2], rule="zcdp")) == 2


def test_the_chart_has_a_line_for_each_rule(tmp_path):
    figure = g.compose("gaussian(5)*10", delta=1e-6, rule="gdp").plot(tmp_path / "chart.svg")
    assert {line.get_label() for line in figure.axes[0].lines} >= {"gdp", "zcdp", "renyi", "basic"}
    assert (tmp_path / "chart.svg").exists()
    with pytest.raises(ShoalError, match="E_USAGE"):
        g.compose("gaussian(5)", delta=1e-6, rule="gdp").plot(tmp_path / "chart.nonsense")


def test_without_the_extra_the_numerical_rule_is_a_row_or_an_error_by_name(monkeypatch):
    monkeypatch.setattr(loss_distributions, "is_installed", lambda: False)
    together = g.compose("laplace(10)*50", delta=1e-6)
    assert together.rule == "optimal"
    assert together.by_rule["numerical"].startswith("not installed")
    assert together.epsilon_at_least is None
    with pytest.raises(ShoalError, match="E_MISSING_EXTRA"):
        g.compose("laplace(10)*50", delta=1e-6, rule="numerical")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: g.compose("dp(1)"), "E_USAGE"),
        (lambda: g.compose("dp(1)", delta=1e-6, epsilon=1), "E_USAGE"),
        (lambda: g.compose("dp(1)", delta=1e-6, rule="magic"), "E_USAGE"),
        (lambda: g.compose([], delta=1e-6), "E_USAGE"),
        (lambda: g.compose([1], delta=1e-6), "E_USAGE"),
        (lambda: g.compose("dp(1)", delta=1), "E_OPTION_INVALID"),
        (lambda: g.compose("dp(1)", delta=-1), "E_OPTION_INVALID"),
        (lambda: g.compose("dp(1)", delta="1e-6"), "E_OPTION_INVALID"),
        (lambda: g.compose("dp(1)", epsilon=-1), "E_OPTION_INVALID"),
        (lambda: g.compose("dp(1)*10000000 + dp(1)", delta=1e-6), "E_OPTION_INVALID"),
    ],
)
def test_wrong_questions_are_refused(call, code):
    with pytest.raises(ShoalError, match=code):
        call()


def test_a_dictionary_has_four_keys():
    assert list(g.compose("dp(1)", delta=1e-6).to_dict()) == ["epsilon", "delta", "rule", "by_rule"]
