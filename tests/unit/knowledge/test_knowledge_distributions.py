"""Distributions of counts, against exact arithmetic."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.knowledge.distributions import binomial, binomial_chances, sum_of_answers, tails, without_one


def exact_chance(count, k, chance):
    """C(n, k)·p^k·(1 − p)^(n − k) with fifty digits."""
    context = Context(prec=50, Emin=-(10**9), Emax=10**9)
    p = Fraction(chance)
    log = context.ln(Decimal(math.comb(count, k)))
    for share, times in ((p, k), (1 - p, count - k)):
        ratio = context.divide(Decimal(share.numerator), Decimal(share.denominator))
        log = context.add(log, context.multiply(context.ln(ratio), Decimal(times)))
    return float(context.exp(log))


@pytest.mark.parametrize(
    ("count", "chance", "k"),
    [(10, 0.3, 4), (2000, 0.05, 300), (100_000, 0.2, 22_000), (100_000, 0.5, 48_000), (900, 1e-7, 12), (3, 0.999, 0)],
)
def test_a_chance_is_exact_to_ten_digits(count, chance, k):
    assert binomial(count, chance).at(k) == pytest.approx(exact_chance(count, k, chance), rel=1e-10)


def test_ten_million_people_keep_ten_digits_where_log_gammas_lose_them():
    """P[k]/P[k − 1] is known exactly; log-gammas of ten million are off in the eighth digit."""
    count, chance = 10**7, 0.1
    k = np.arange(990_000, 1_010_000, 97)
    ratios = binomial_chances(k, count, chance) / binomial_chances(k - 1, count, chance)
    exact = (count - k + 1) / k * (chance / (1 - chance))
    assert np.abs(ratios / exact - 1).max() < 1e-10
    assert max(abs(_ratio_by_log_gammas(count, int(i), chance) / e - 1) for i, e in zip(k, exact, strict=True)) > 1e-8
    assert binomial(count, chance).chances.sum() == pytest.approx(1, rel=1e-12)


def _ratio_by_log_gammas(count, k, chance):
    def log(i):
        log_ways = math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1)
        return log_ways + i * math.log(chance) + (count - i) * math.log1p(-chance)

    return math.exp(log(k) - log(k - 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_sums_of_answers_are_enumerated(chances):
    exact = np.ones(1)
    for chance in chances:
        exact = np.convolve(exact, [1 - chance, chance])
    assert np.allclose(sum_of_answers(chances).dense(len(chances)), exact, rtol=1e-9, atol=1e-280)


def test_hundreds_of_different_chances_are_summed_in_batches():
    chances = np.random.default_rng(2).uniform(0, 1, 200)
    exact = np.ones(1)
    for chance in chances:
        exact = np.convolve(exact, [1 - chance, chance])
    assert np.allclose(sum_of_answers(chances).dense(200), exact, rtol=1e-10, atol=1e-280)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.001, 0.999), min_size=2, max_size=40), st.data())
def test_taking_somebody_out_undoes_adding_them(chances, data):
    place = data.draw(st.integers(0, len(chances) - 1))
    rest = chances[:place] + chances[place + 1 :]
    found = without_one(sum_of_answers(chances), chances[place]).dense(len(rest))
    assert np.allclose(found, sum_of_answers(rest).dense(len(rest)), rtol=1e-9, atol=1e-280)


def test_two_people_are_taken_out_of_very_many():
    """Far tails were left out before; what is left of them must not blow up."""
    chances = np.linspace(0.05, 0.95, 5000)
    found = without_one(without_one(sum_of_answers(chances), float(chances[7])), float(chances[4000]))
    exact = sum_of_answers(np.delete(chances, [7, 4000]))
    k = np.arange(exact.first, exact.last + 1)
    large = exact.chances > 1e-270
    assert np.allclose(found.at(k)[large], exact.chances[large], rtol=1e-9)


def test_tails_are_summed_from_their_small_end():
    chances = binomial(3000, 0.01).chances
    last = tails(chances)
    assert last[-1] == 0
    assert last[-2] == chances[-1]
    assert last[0] == pytest.approx(1)
