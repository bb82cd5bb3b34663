"""Tails, bounds and the joint test, against scipy and against plain enumeration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shoal.audit.tester import statistics
from shoal.audit.tester.statistics import Counts


@pytest.mark.parametrize(
    ("k", "n", "p"),
    [
        (9, 10, 0.5),
        (1, 1, 0.25),
        (3, 1000, 0.001),
        (250_500, 500_000, 0.5),
        (253_000, 500_000, 0.5),
        (10, 500_000, 1e-5),
    ],
)
def test_a_binomial_tail_is_never_below_the_exact_one_and_close_to_it(k, n, p):
    exact = stats.binom.sf(k - 1, n, p)
    ours = statistics.tail_at_least(k, n, p)
    assert exact <= ours <= exact * (1 + 3e-6) + 1e-25


def test_log_factorials_agree_with_the_gamma_function():
    k = np.array([0.0, 1, 5, 63, 64, 65, 1000, 1e6])
    expected = [math.lgamma(x + 1) for x in k]
    assert np.allclose(statistics.log_factorial(k), expected, rtol=1e-14, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 5000), share=st.floats(0, 1), log_alpha=st.floats(-30, -1))
def test_clopper_pearson_bounds_lie_just_outside_the_exact_ones(n, share, log_alpha):
    k, alpha = round(n * share), math.exp(log_alpha)
    low, high = statistics.lower_bound(k, n, alpha), statistics.upper_bound(k, n, alpha)
    exact_low = stats.beta.ppf(alpha, k, n - k + 1) if k else 0.0
    exact_high = stats.beta.isf(alpha, k + 1, n - k) if k < n else 1.0
    assert exact_low * (1 - 1e-5) <= low <= exact_low * (1 + 1e-10)
    assert exact_high * (1 - 1e-10) <= high <= min(1.0, exact_high * (1 + 1e-5) + 1e-9)


def test_the_certificate_is_the_log_ratio_of_the_two_bounds():
    counts = Counts(800, 1000, 100, 1000)
    p = stats.beta.ppf(5e-4, 800, 201)
    q = stats.beta.isf(5e-4, 101, 900)
    assert statistics.certified_epsilon(counts, 0.05, 1e-3) == pytest.approx(math.log((p - 0.05) / q), abs=1e-6)


def test_a_certificate_is_zero_when_delta_explains_everything():
    assert statistics.certified_epsilon(Counts(50, 1000, 0, 1000), 0.1, 1e-3) == 0.0


def _rejections(n, m, epsilon, delta, alpha):
    return np.array(
        [
            [statistics.joint_test_rejects(Counts(a, n, b, m), epsilon, delta, alpha) for b in range(m + 1)]
            for a in range(n + 1)
        ]
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.0), (0.5, 0.1)])
def test_the_joint_test_keeps_its_level_for_every_pair_on_the_boundary(epsilon, delta):
    """Enumerates all outcomes of two samples of 12 and 9: no randomness, no false alarm rate."""
    n, m, alpha = 12, 9, 0.05
    rejected = _rejections(n, m, epsilon, delta, alpha)
    for q in np.linspace(0, 1, 41):
        p = min(1.0, math.exp(epsilon) * q + delta)
        chance = stats.binom.pmf(np.arange(n + 1), n, p) @ rejected @ stats.binom.pmf(np.arange(m + 1), m, q)
        assert chance <= alpha
    assert rejected[n, 0]


def test_the_joint_test_sees_what_two_separate_intervals_miss():
    n = 500_000
    counts = Counts(250_000, n, round(n * 0.5 * math.exp(-0.117)), n)
    assert statistics.certified_epsilon(counts, 0.0, 1e-10) < 0.1
    assert statistics.joint_test_rejects(counts, 0.1, 0.0, 1e-10)
    assert 0.1 < statistics.joint_lower_bound(counts, 0.1, 0.0, 1e-10) < 0.117


def test_the_joint_lower_bound_is_zero_where_the_claim_stands():
    assert statistics.joint_lower_bound(Counts(500, 1000, 500, 1000), 0.1, 0.0, 1e-6) == 0.0


def test_a_larger_sample_detects_a_smaller_violation():
    seen = [
        statistics.detectable_epsilon(Counts(n // 2, n, round(n * 0.5 * math.exp(-1)), n), 1.0, 0.0, 1e-10)
        for n in (10_000, 100_000, 1_000_000)
    ]
    assert seen[0] > seen[1] > seen[2] > 1.0
    assert seen[2] < 1.03


def test_nothing_is_detectable_where_no_probability_could_break_the_bound():
    assert statistics.detectable_epsilon(Counts(100, 100, 100, 100), 1.0, 0.0, 1e-6) == math.inf
    assert statistics.detectable_epsilon(Counts(0, 100, 0, 100), 1.0, 0.0, 1e-6) == math.inf


@pytest.mark.slow
def test_the_stated_power_is_reached():
    """200 draws at the stated ε′; at 99% power, fewer than 185 rejections have a chance below 1e-9."""
    n, alpha = 50_000, 1e-9
    rng = np.random.default_rng(3)
    q = 0.5 * math.exp(-1)
    stated = statistics.detectable_epsilon(Counts(0, n, round(n * q), n), 1.0, 0.0, alpha)
    found = sum(
        statistics.joint_test_rejects(
            Counts(rng.binomial(n, math.exp(stated) * q), n, rng.binomial(n, q), n), 1.0, 0.0, alpha
        )
        for _ in range(200)
    )
    assert found >= 185
