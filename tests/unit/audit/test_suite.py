"""The audit of shoal by itself, at small depth: what it looks at, that it passes, and that it would not pass a broken one."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from shoal.audit.suite import exact_checks, queries
from shoal.audit.suite import run as suite
from shoal.audit.suite.page import page
from shoal.audit.suite.sampled_query import SampledQuery
from shoal.mechanisms import calibrate, noise

COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM visits"


@pytest.fixture(scope="module")
def sampled_count():
    with SampledQuery(COUNT, queries.CATALOG, queries.DATABASES) as query:
        yield query


def test_every_family_is_checked_at_every_epsilon():
    checks = suite.checks()
    assert {check.family for check in checks} == set(suite.families())
    for family in suite.families():
        own = [check for check in checks if check.family == family]
        # integers that are replayed are the same at any ε
        if any(check.method != "replayed" for check in own):
            assert {check.epsilon for check in own} == set(suite.EPSILONS)
    names = " ".join(check.name for check in checks)
    for wanted in ("COUNT(DISTINCT owner)", "COUNT(DISTINCT x)", "SUM", "AVG", "VAR_POP", "MEDIAN", "MIN", "MAX"):
        assert wanted in names
    for wanted in ("optimal", "Laplace threshold", "Gaussian threshold", "public groups", "at least 2 owners", "join"):
        assert wanted in names


def test_samples_of_a_query_are_independent_noisy_answers(sampled_count):
    """20,000 discrete Laplace draws at scale 1: the mean within 6 standard errors (chance of less: 2e-9)."""
    answers = sampled_count("few and high", 20_000)[:, 0]
    assert abs(answers.mean() - 3) < 6 * 1.36 / math.sqrt(20_000)
    assert abs(np.corrcoef(answers[:-1], answers[1:])[0, 1]) < 0.05


def test_a_hidden_group_is_not_a_number():
    sql = next(query for query in queries.QUERIES if query.name == "optimal").sql(1.0)
    with SampledQuery(sql, queries.CATALOG, queries.DATABASES) as query:
        answers = query("few", 2000).reshape(2000, -1, 2)
    shown, values = answers[:, :, 0], answers[:, :, 1]
    assert set(np.unique(shown)) <= {0.0, 1.0}
    assert np.array_equal(np.isnan(values), shown == 0)
    assert shown[:, 2].sum() == 0  # nobody of these owners has been to c


def test_bounds_are_found_anew_for_each_answer():
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=40, kappa=1) COUNT(*) AS n FROM visits"
    with SampledQuery(sql, queries.CATALOG, queries.DATABASES) as query:
        answers = query("few", 200)
    assert answers.shape == (200, 3)
    assert len(np.unique(answers[:, 1])) >= 1
    assert (answers[:, 0] == 0)[~np.isnan(answers[:, 0])].all()


@pytest.mark.system_noise  # OpenDP's samplers are among those that are checked
@pytest.mark.parametrize("family", ["samplers", "calibration at δ = 10⁻⁶"])
def test_a_small_run_passes(family):
    report = suite.run(2000, [family])
    assert report.passed, [row for row in report.rows if not row.passed]
    assert [row.family for row in report.rows] == [family] * len(report.rows)
    assert json.loads(json.dumps(report.to_dict()))["passed"]


def test_a_sampled_and_a_replayed_query_pass():
    checks = suite.checks()
    for method in ("sampled", "replayed"):
        number = next(i for i, c in enumerate(checks) if c.method == method and c.name == "AVG")
        row = suite.run_one(number, 2000)
        assert row.passed, row
        assert (row.power is None) == (method == "replayed")


def test_noise_too_small_is_seen_and_named(monkeypatch):
    honest = noise.wide_discrete_laplace
    monkeypatch.setattr(noise, "wide_discrete_laplace", lambda b, size, e: honest(b * Fraction(1, 2), size, e))
    report = suite.run(10_000, ["samplers"])
    failed = [row for row in report.rows if not row.passed]
    assert "discrete Laplace" in {row.name for row in failed}
    assert all("output" in row.note for row in failed)
    assert "FAILED" in page(report)


@pytest.mark.parametrize("epsilon", suite.EPSILONS)
def test_an_exact_check_sees_a_gaussian_three_percent_too_small(epsilon, monkeypatch):
    honest = calibrate.joint_gaussian_sigmas
    monkeypatch.setattr(
        calibrate, "joint_gaussian_sigmas", lambda *known: tuple(s * Fraction(97, 100) for s in honest(*known))
    )
    assert not exact_checks.gaussian_count(epsilon).holds


@pytest.mark.parametrize("epsilon", suite.EPSILONS)
def test_an_exact_check_sees_a_threshold_one_too_low(epsilon, monkeypatch):
    honest = calibrate.threshold_for
    monkeypatch.setattr(calibrate, "threshold_for", lambda *known: honest(*known) - 1)
    assert not exact_checks.laplace_threshold(epsilon).holds


def test_the_page_needs_nothing_from_elsewhere():
    text = page(suite.run(1000, ["calibration at δ = 10⁻⁶"]))
    assert "prefers-color-scheme: dark" in text
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
