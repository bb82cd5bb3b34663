"""The client and the vectorised randomiser draw the law of the matrix; estimates err as the formulas say.

Chi-square tests of 20,000 or 60,000 draws, 1e-8 false alarms each, fewer than a hundred of them: below 1e-6 together.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from shoal import local
from shoal.local.client import HALF_RANGE, Client, bucket_of
from shoal.local.estimate import project
from shoal.mechanisms.entropy import SYSTEM, seeded_entropy
from shoal.mechanisms.sampling.samplers import below, coins

pytestmark = pytest.mark.slow

ALPHA = 1e-8
SMALL = {
    "subset": local.choice(range(5), epsilon=0.5, oracle="subset"),
    "k-ary": local.choice(range(5), epsilon=3, oracle="subset"),
    "projective over F_2": local.choice(range(6), epsilon=0.3, oracle="projective"),
    "projective over F_3": local.choice(range(10), epsilon=1, oracle="projective"),
    "unary": local.choice(range(4), epsilon=1, oracle="unary"),
    "longitudinal": local.choice(range(3), longitudinal=(1, 4)),
    "count": local.count(6, epsilon=3),
    "count, small": local.count(3, epsilon=0.1),
}


def number_of(question, answer):
    """The place of an answer among all reports, as the matrix orders them."""
    design = question.design
    if question.spec["kind"] == "count" or design.name == "projective":
        return answer
    if design.name == "unary":
        return int(answer, 16)
    return list(itertools.combinations(range(design.values), design.size)).index(tuple(answer))


def fits(counts, chances):
    """A chi-square test; cells of fewer than five expected draws are put together."""
    expected = np.array([float(chance) for chance in chances]) * sum(counts)
    large = expected >= 5
    seen = np.append(np.array(counts)[large], np.array(counts)[~large].sum())
    wanted = np.append(expected[large], expected[~large].sum())
    if wanted[-1] < 5:
        seen, wanted = np.append(seen[:-2], seen[-2:].sum()), np.append(wanted[:-2], wanted[-2:].sum())
    return stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1) > ALPHA


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("place", [0, -1])
def test_both_randomisers_have_the_law_of_the_matrix(name, place):
    question = SMALL[name]
    rows = question.matrix()
    value = list(range(len(rows)))[place]
    many = question.randomize_many([value] * 60_000)
    vectorised = [number_of(question, answer) for answer in question.design.write(many.columns)]
    singly = [number_of(question, question.randomize(value)["r"]) for _ in range(20_000)]
    for drawn in (vectorised, singly):
        assert fits(np.bincount(drawn, minlength=len(rows[0])), rows[place])


@pytest.mark.parametrize("epsilon", [0.5, 2, 12])
def test_hashed_reports_name_their_own_bucket_as_often_as_they_should(epsilon):
    question = local.text(epsilon=epsilon)
    buckets = question.parameters["buckets"]
    many = question.randomize_many(["tea"] * 60_000)
    pairs = list(zip(many.columns["seed"].tolist(), many.columns["bucket"].tolist(), strict=True))
    singly = [tuple(question.randomize("tea")["r"]) for _ in range(20_000)]
    for drawn in (pairs, singly):
        steps = [(bucket - bucket_of("tea", seed, buckets)) % buckets for seed, bucket in drawn]
        own = sum(step == 0 for step in steps)
        others = np.array([step for step in steps if step])
        assert fits([own, len(steps) - own], [question.p, 1 - question.p])
        if len(others) > 100:
            halves = np.bincount((others - 1) * 4 // (buckets - 1), minlength=4)
            chances = np.bincount(np.arange(buckets - 1) * 4 // (buckets - 1), minlength=4) / (buckets - 1)
            kept = chances > 0
            assert fits(halves[kept], chances[kept]) or kept.sum() == 1


@pytest.mark.parametrize("position", [0, 0.2, 1])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
def test_numbers_fall_into_their_window_as_often_as_they_should(position, epsilon):
    question = local.number(0, 1, epsilon=epsilon)
    design, inside = question.design, question.design.weights.inside
    many = question.randomize_many([position] * 60_000)
    drawn = list(question.design.write(many.columns))
    device = Client(question.to_json())
    for answers in (drawn, [device.draw(position) for _ in range(20_000)]):
        points = np.array([y for branch, y in answers if branch == 1])
        signs = np.array([y for branch, y in answers if branch == 0])
        assert design.mix == 0 or fits([len(points), len(signs)], [design.mix, 1 - design.mix])
        keep = Fraction(inside, inside + design.weights.outside)
        right = keep * Fraction(str(position)) + (1 - keep) * (1 - Fraction(str(position)))
        assert fits([(signs > 0).sum(), (signs < 0).sum()], [right, 1 - right])
        if len(points):
            target = round((2 * position - 1) * HALF_RANGE)
            near = np.abs(points - target) <= design.reach
            window = Fraction((2 * design.reach + 1) * inside, design.total)
            # The rounding of the position moves the window by one of two million at most.
            assert fits([near.sum(), (~near).sum()], [window, 1 - window])
            upper = points[near] > target
            assert fits([upper.sum(), (~upper).sum()], [Fraction(1, 2), Fraction(1, 2)])


def test_coins_and_uniform_integers_have_their_law():
    for chance in (Fraction(0), Fraction(1, 3), Fraction(1, 65_536), Fraction(65_535, 65_536), Fraction(1, 10**9)):
        seen = int(coins(chance, 1_000_000, SYSTEM).sum())
        assert stats.binomtest(seen, 1_000_000, float(chance)).pvalue > ALPHA if chance else seen == 0
    assert not below(1, 1000, SYSTEM).any()
    for bound in (2, 5, 1000):
        assert fits(np.bincount(below(bound, 200_000, SYSTEM), minlength=bound), [Fraction(1, bound)] * bound)
    large = below(3 << 30, 200_000, SYSTEM) >> 30
    assert fits(np.bincount(large, minlength=3), [Fraction(1, 3)] * 3)


def zipf(values, n, seed=1):
    weights = 1 / np.arange(1, values + 1)
    return np.random.default_rng(seed).choice(values, size=n, p=weights / weights.sum())


@pytest.mark.parametrize("oracle", ["subset", "projective", "unary", "hashing"])
@pytest.mark.parametrize("epsilon", [0.5, 4])
def test_squared_errors_are_those_of_the_formula(oracle, epsilon):
    """20,000 reports of 1024 values: the mean of 1024 squared errors is within 0.3 of its expectation (over 6 deviations)."""
    question, answers = local.choice(range(1024), epsilon=epsilon, oracle=oracle), zipf(1024, 20_000)
    truth = np.bincount(answers, minlength=1024) / len(answers)
    found = question.estimate(question.randomize_many(answers), consistent=False)
    p, q = float(question.p), float(question.q)
    expected = (truth * p * (1 - p) + (1 - truth) * q * (1 - q)) / (len(answers) * (p - q) ** 2)
    assert 0.7 < ((found.raw - truth) ** 2).mean() / expected.mean() < 1.3


def test_consistency_makes_errors_smaller_and_most_where_noise_is_large():
    """Squared error of consistent shares over that of raw ones, Zipf data; the published ratios within a third."""
    for values, epsilon, published in (
        (1024, 0.5, 0.066),
        (1024, 1, 0.12),
        (1024, 2, 0.23),
        (1024, 4, 0.42),
        (128, 1, 0.57),
    ):
        question, answers = local.choice(range(values), epsilon=epsilon), zipf(values, 100_000)
        truth = np.bincount(answers, minlength=values) / len(answers)
        # of one draw the first ratio has a standard error of a tenth
        raws = [question.estimate(question.randomize_many(answers), consistent=False).raw for _ in range(4)]
        ratio = sum(((project(raw) - truth) ** 2).sum() for raw in raws) / sum(
            ((raw - truth) ** 2).sum() for raw in raws
        )
        assert published * 2 / 3 < ratio < published * 4 / 3, (values, epsilon, ratio)


def test_means_are_unbiased_in_both_branches():
    """200,000 reports each: within six standard errors."""
    for epsilon in (0.5, 2, 6):
        question = local.number(-1, 1, epsilon=epsilon)
        for value in (-1, 0.3, 1):
            found = question.estimate(question.randomize_many([value] * 200_000), consistent=False)
            assert abs(found.raw - value) < 6 * math.sqrt(question.design.variance(value) / 200_000)


def test_counts_come_back():
    question = local.count(10, epsilon=5)
    values = np.minimum(np.random.default_rng(3).poisson(2, 200_000), 10)
    found = question.estimate(question.randomize_many(values, seeded_entropy(99)), consistent=False)
    truth = np.bincount(values, minlength=11) / len(values)
    assert (np.abs(found.raw - truth) < 7 * found.standard_error).all()
    assert found.about_mean.raw == pytest.approx(values.mean(), abs=7 * found.about_mean.standard_error)


def test_decoding_is_counting():
    """Every space that is small enough to count directly."""
    rng = np.random.default_rng(2)
    for count, epsilon in ((5, 0.1), (10, 1), (100, 1), (40, 2), (200, 3), (60, 4), (700, 0.7)):
        question = local.choice(range(count), epsilon=epsilon, oracle="projective")
        design = question.design
        points = rng.integers(0, design.points, 3000)
        vectors = np.array([local.client.point(int(i), design.field, design.length) for i in range(design.points)])
        direct = ((vectors[points] @ vectors[:count].T) % design.field == 0).sum(axis=0)
        assert (design.support({"point": points.astype("<i4")}) == direct).all()
