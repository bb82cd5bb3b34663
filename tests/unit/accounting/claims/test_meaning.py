"""What ε means, against the worst pair of outputs that (ε, δ) allows."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.accounting.claims.meaning import DEFAULTS, Meaning, guess_accuracy, meaning, posterior, power
from shoal.errors import ShoalError


def worst_pair(epsilon, delta):
    """Everything is revealed with chance δ, else randomised response: four outputs with and without a person."""
    likely = 1 / (1 + math.exp(-epsilon))
    rest = 1 - delta
    return (delta, rest * likely, rest * (1 - likely), 0.0), (0.0, rest * (1 - likely), rest * likely, delta)


@given(st.floats(0, 8), st.floats(0, 0.5), st.floats(0, 1))
def test_the_best_guess_is_attained(epsilon, delta, prior):
    there, gone = worst_pair(epsilon, delta)
    best = sum(max(prior * p, (1 - prior) * q) for p, q in zip(there, gone, strict=True))
    assert guess_accuracy(epsilon, delta, prior) == pytest.approx(best, rel=1e-9)


@given(st.floats(0, 8), st.floats(0, 0.5), st.floats(0, 1))
def test_the_power_of_a_test_is_attained(epsilon, delta, rate):
    there, gone = worst_pair(epsilon, delta)
    found, left = 0.0, rate
    for p, q in zip(there, gone, strict=True):  # ordered by likelihood ratio
        taken = 1.0 if q <= left else max(left, 0.0) / q if q else 0.0  # what is left may be a little below 0
        found, left = found + taken * p, left - taken * q
    assert power(rate, epsilon, delta) == pytest.approx(found, rel=1e-9, abs=1e-12)


@given(st.floats(0, 20), st.floats(0.001, 0.999))
def test_beliefs_are_those_after_randomised_response(epsilon, prior):
    likely, seldom = 1 / (1 + math.exp(-epsilon)), math.exp(-epsilon) / (1 + math.exp(-epsilon))
    bounds = posterior(prior, epsilon)
    assert bounds.high == pytest.approx(prior * likely / (prior * likely + (1 - prior) * seldom))
    assert bounds.low == pytest.approx(prior * seldom / (prior * seldom + (1 - prior) * likely))
    assert bounds.low <= prior <= bounds.high


def test_huge_epsilons_promise_nothing_and_break_nothing():
    bounds = posterior(0.5, 1_000_000)
    assert (bounds.low, bounds.high) == (0, 1)
    assert power(0.01, 1_000_000) == 1
    assert guess_accuracy(1_000_000) == 1
    assert "protects nobody" in str(meaning(1_000_000))


@pytest.mark.parametrize("prior", [0, 1])
def test_the_certain_stay_certain(prior):
    assert posterior(prior, 3) == (prior, prior)


def test_numbers_of_the_service():
    assert tuple(round(x, 3) for x in meaning(1).posterior(0.1)) == (0.039, 0.232)
    assert meaning(1, 1e-6).best_guess(0.5) == pytest.approx(0.731059, rel=1e-6)
    assert meaning(2, 1e-3).best_guess(0.9) == pytest.approx(0.9001)
    assert meaning(1).odds_factor == pytest.approx(math.e)
    assert meaning(math.log(3)).honest_coin == pytest.approx(0.75)


def test_the_chance_of_failure_is_capped():
    assert posterior(0.5, 1, 0.9, slack=0.01).fails_with == 1
    assert posterior(0.5, 1).fails_with == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: posterior(-0.1, 1),
        lambda: posterior(1.1, 1),
        lambda: posterior(0.5, -1),
        lambda: posterior(0.5, float("nan")),
        lambda: posterior(0.5, "1"),
        lambda: posterior(0.5, 1, 1),
        lambda: posterior(0.5, 1, 0.1, slack=0),
        lambda: power(2, 1),
        lambda: guess_accuracy(None),
        lambda: meaning(1e7),
        lambda: meaning(1, people=0),
        lambda: Meaning(-1),
        lambda: Meaning(1, 0, 2.5),
    ],
)
def test_what_is_no_probability_or_epsilon_is_refused(call):
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        call()


def test_the_same_object_is_public_in_both_places():
    from shoal import guarantees

    assert shoal.meaning is meaning is guarantees.meaning
    assert guarantees.posterior is posterior


def test_warnings_are_about_epsilon_and_delta():
    assert meaning(10).warning is None
    assert "ε = 11" in meaning(11).warning
    assert meaning(1, 1e-6, people=100_000).warning.startswith("δ = 1e-06 is large")
    assert meaning(1, 1e-7, people=100_000).warning is None
    assert meaning(1, people=100_000).suggested_delta == 1e-7


def test_sentences_say_the_numbers_and_the_defaults_their_reasons():
    told = str(meaning(1, 1e-6))
    assert "2.72 times" in told
    assert "73.1%" in told
    assert "except with a chance of at most" in told
    assert all(reason in told for reason in DEFAULTS)


def test_a_dictionary_has_what_the_command_line_promises():
    told = meaning(1.1, 1e-6).to_dict(prior=0.1)
    assert {"epsilon", "delta", "posterior", "power", "guess_accuracy", "sentences", "warning"} <= set(told)
    assert told["posterior"] == list(meaning(1.1, 1e-6).posterior(0.1))


def test_the_page_runs_no_script_but_that_of_all_pages_and_asks_nobody(tmp_path):
    page = meaning(1, 1e-6, people=1000).to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert page.count("<script") == 1
    assert "default-src 'none'" in page
    assert re.findall(r"https?://", page) == []
    assert meaning(1)._repr_html_().startswith("<svg")


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(ShoalError, match="E_USAGE"):
        meaning(1).to_html(tmp_path / "nowhere" / "page.html")
    with pytest.raises(ShoalError, match="E_USAGE"):
        meaning(1).plot(tmp_path / "chart.nonsense")


def test_the_chart_is_written(tmp_path):
    meaning(1).plot(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000
