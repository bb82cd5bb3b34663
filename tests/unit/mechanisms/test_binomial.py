from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.mechanisms import binomial


@given(st.integers(1, 60), st.data())
def test_chances_and_tails_are_the_exact_sums(n, data):
    k = data.draw(st.integers(0, n + 1))
    p = data.draw(st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=1000))
    terms = [comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)]
    assert float(binomial.at_least(k, n, float(p))) == pytest.approx(float(sum(terms[k:])), rel=1e-9, abs=1e-300)
    if k <= n:
        assert float(binomial.chance_of(k, n, float(p))) == pytest.approx(float(terms[k]), rel=1e-9)


@pytest.mark.parametrize("n", [1000, 10**6, 10**8])
def test_large_counts_agree_with_a_reference(n):
    for p in (0.001, 0.3, 0.9):
        k = np.unique(np.clip(np.round(n * p + np.linspace(-8, 8, 60) * (n * p * (1 - p)) ** 0.5), 0, n))
        reference = stats.binom.pmf(k, n, p)
        assert binomial.chance_of(k, n, p) == pytest.approx(reference, rel=1e-7)
        assert binomial.at_least(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-7)


@pytest.mark.parametrize("n", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_intervals_are_those_of_the_beta_distribution_and_never_narrower(n, alpha):
    k = np.unique(np.round(np.linspace(0, n, 101)).astype(np.int64))
    low, high = binomial.clopper_pearson(k, n, alpha)
    exact_low = np.where(k == 0, 0, stats.beta.ppf(alpha / 2, np.maximum(k, 1), n - k + 1))
    exact_high = np.where(k == n, 1, stats.beta.isf(alpha / 2, k + 1, np.maximum(n - k, 1)))
    assert low == pytest.approx(exact_low, rel=1e-7)
    assert 1 - high == pytest.approx(1 - exact_high, rel=1e-6, abs=1e-12)
    assert (low <= exact_low * (1 + 1e-11)).all()
    assert (high >= exact_high - 1e-11 * exact_high).all()
