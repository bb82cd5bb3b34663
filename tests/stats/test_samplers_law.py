"""Samplers against their closed form and against each other.

False alarms: each test rejects at 10⁻⁷ per comparison and makes at most ten; the own sampler is also run from fixed
seeds.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from shoal.mechanisms.entropy import SYSTEM, seeded_entropy
from shoal.mechanisms.sampling import opendp_samplers, rejection, samplers, vectorised

pytestmark = pytest.mark.slow

SAMPLES = 1_000_000
VETTED_SAMPLES = 100_000
ALARM = 1e-7
SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(3 * 2**20 + 1, 7), Fraction(2**45)]


def laplace_cdf(points, scale):
    """P[X ≤ k] for integers k."""
    ratio = np.exp(-1 / scale)
    below = np.exp(-np.maximum(-points, 0) / scale) / (1 + ratio)
    return np.where(points < 0, below, 1 - np.exp(-(np.maximum(points, 0) + 1) / scale) / (1 + ratio))


def gaussian_cdf(points, sigma):
    """P[X ≤ k] for integers k: a sum, or for large σ the normal law at k + ½, which is closer than 10⁻⁶ deviations."""
    if sigma > 1000:
        return stats.norm.cdf((points + 0.5) / sigma)
    reach = int(45 * sigma) + 3
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    cumulated = np.cumsum(weights) / weights.sum()
    return cumulated[np.clip(points.astype(int) + reach, 0, 2 * reach)]


def chi_square_p_value(drawn, cdf, cells=60):
    """The first draws say where to cut, at integers; the others are counted. Rare cells are joined."""
    pilot, drawn = drawn[:2000], drawn[2000:]
    cuts = np.unique(np.quantile(pilot, np.linspace(0, 1, cells + 1)[1:-1], method="lower")).astype(np.float64)
    chances = np.diff(np.concatenate([[0.0], cdf(cuts), [1.0]]))
    counts = np.bincount(np.searchsorted(cuts, drawn, side="left"), minlength=len(chances))
    keep = chances * len(drawn) >= 20
    chances, counts = np.append(chances[keep], chances[~keep].sum()), np.append(counts[keep], counts[~keep].sum())
    if chances[-1] * len(drawn) < 20:
        chances, counts = chances[:-1] / chances[:-1].sum(), counts[:-1]
    return stats.chisquare(counts, chances * counts.sum()).pvalue


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("entropy", [SYSTEM, seeded_entropy(11)], ids=["system", "seeded"])
def test_a_million_laplace_draws_follow_the_closed_form(scale, entropy):
    drawn = vectorised.discrete_laplace(scale, SAMPLES, entropy)
    assert chi_square_p_value(drawn, lambda k: laplace_cdf(k, float(scale))) > ALARM


@pytest.mark.parametrize("sigma", SCALES)
@pytest.mark.parametrize("entropy", [SYSTEM, seeded_entropy(12)], ids=["system", "seeded"])
def test_a_million_gaussian_draws_follow_the_closed_form(sigma, entropy):
    drawn = vectorised.discrete_gaussian(sigma, SAMPLES, entropy)
    assert chi_square_p_value(drawn, lambda k: gaussian_cdf(k, float(sigma))) > ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100)])
def test_a_million_geometric_draws_follow_the_closed_form(scale):
    drawn = samplers.geometric(scale, SAMPLES)
    assert chi_square_p_value(drawn, lambda k: 1 - np.exp(-(k + 1) / float(scale))) > ALARM


@pytest.mark.parametrize("bits", [10, 20])
def test_the_low_places_of_fine_noise_are_filled_evenly(bits):
    drawn = vectorised.discrete_gaussian(Fraction(2**40), SAMPLES, SYSTEM)
    counts = np.bincount((drawn >> (bits - 10)) % 1024, minlength=1024)
    assert stats.chisquare(counts).pvalue > ALARM


def test_neighbouring_draws_are_not_correlated():
    drawn = vectorised.discrete_laplace(Fraction(50), SAMPLES, SYSTEM).astype(float)
    correlation = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(correlation) < 5.6 / np.sqrt(SAMPLES)  # normal tail: 2·10⁻⁸


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(37, 4), Fraction(2**20)])
@pytest.mark.parametrize(
    ("own", "trusted", "cdf"),
    [
        (vectorised.discrete_laplace, opendp_samplers.discrete_laplace, laplace_cdf),
        (vectorised.discrete_gaussian, opendp_samplers.discrete_gaussian, gaussian_cdf),
    ],
    ids=["laplace", "gaussian"],
)
def test_the_vetted_sampler_and_ours_draw_the_same_law(own, trusted, cdf, scale):
    theirs = trusted(scale, VETTED_SAMPLES)
    ours = own(scale, VETTED_SAMPLES, SYSTEM)
    cuts = np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0.02, 0.98, 40), method="lower"))
    table = [np.bincount(np.searchsorted(cuts, drawn), minlength=len(cuts) + 1) for drawn in (ours, theirs)]
    table = np.array(table)[:, np.sum(table, axis=0) > 40]
    assert stats.chi2_contingency(table).pvalue > ALARM
    assert chi_square_p_value(theirs, lambda k: cdf(k, float(scale))) > ALARM


def test_gaussian_draws_decided_by_exact_arithmetic_follow_the_closed_form(monkeypatch):
    monkeypatch.setattr(rejection, "TOLERANCE", 0.3)
    keep = rejection.keep_as_gaussian
    monkeypatch.setattr(vectorised, "keep_as_gaussian", lambda *arguments: keep(*arguments, tolerance=0.3))
    drawn = vectorised.discrete_gaussian(Fraction(5, 2), 20_000, seeded_entropy(3))
    assert chi_square_p_value(drawn, lambda k: gaussian_cdf(k, 2.5)) > ALARM


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize(
    ("draw", "cdf"), [(vectorised.discrete_laplace, laplace_cdf), (vectorised.discrete_gaussian, gaussian_cdf)]
)
def test_noise_of_a_scale_five_percent_off_is_caught(draw, cdf, factor):
    drawn = draw(Fraction(7) * Fraction(factor), SAMPLES, SYSTEM)
    assert chi_square_p_value(drawn, lambda k: cdf(k, 7.0)) < ALARM


@pytest.mark.parametrize(
    "chance", [Fraction(1, 3), Fraction(1, 10**4), Fraction(999_999, 10**6), Fraction(3**120, 5**90)]
)
def test_coins_fall_as_often_as_they_should(chance):
    chance = min(chance, 1 / chance)
    heads = int(samplers.bernoulli([chance], np.zeros(SAMPLES, dtype=np.int64)).sum())
    assert stats.binomtest(heads, SAMPLES, float(chance)).pvalue > ALARM
