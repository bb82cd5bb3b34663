"""Statements of the literature that do not hold: each test fails when the old statement is put in place of ours."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from shoal import knowledge
from shoal.knowledge.distributions import binomial


def test_the_condition_on_two_independent_binomials_understates():
    """δ ≥ P[X/Y ≥ e^ε], X and Y independent Bin(n − 1, 2λ): 6.8·10⁻⁷ where the truth is 1.5·10⁻⁴."""
    x = binomial(199, 0.1).dense(199)
    ratio = math.exp(2)
    formula = sum(x[i] * x[j] for i, j in product(range(200), range(200)) if i >= ratio * j and i > 0)
    truth = knowledge.count(200, uncertainty=0.05).delta_at(2)
    assert formula == pytest.approx(6.8e-7, rel=0.02)
    assert truth == pytest.approx(1.5e-4, rel=0.02)
    assert formula < truth / 100


@pytest.mark.parametrize(("epsilon", "uncertainty"), [(1.0, 0.1), (0.4, 0.25)])
def test_the_blanket_has_one_pool_of_coins_and_the_target_on_top(epsilon, uncertainty):
    """δ = E[(1 − e^ε·Y/(1 + X))₊] with X, Y the halves of one Bin(m, 2λ); without the 1 +, or with ε for e^ε, it is not."""
    unknown, ratio = 25, math.exp(epsilon)
    coins = binomial(unknown, 2 * uncertainty).dense(unknown)

    def mean(threshold, extra):
        total = 0.0
        for number, weight in enumerate(coins):
            for heads, chance in enumerate(binomial(number, 0.5).dense(number)):
                tails = number - heads
                if heads + extra > 0:
                    total += weight * chance * max(0.0, 1 - threshold * tails / (heads + extra))
        return total

    told = knowledge.histogram(unknown + 1, uncertainty=uncertainty).delta_at(epsilon)
    assert mean(ratio, 1) == pytest.approx(told, rel=1e-8)
    assert mean(ratio, 0) < 0.9 * told
    assert mean(1 + epsilon, 1) > 1.01 * told


def test_the_closed_form_is_more_than_twice_too_large():
    closed = math.sqrt(14 * math.log(1e10) / (0.1 * (10**5 - 1)))
    exact = knowledge.histogram(10**5, uncertainty=0.1).epsilon_at(1e-10)
    assert closed == pytest.approx(0.180, abs=5e-4)
    assert closed / exact == pytest.approx(2.4, abs=0.05)


def test_everybody_at_the_largest_chance_is_not_the_worst_case_of_a_threshold():
    all_at_p = binomial(999, 0.05)
    counts = all_at_p.dense(999)
    upwards = counts[20] - (math.e - 1) * counts[21:].sum()
    downwards = counts[20] - (math.e - 1) * counts[:20].sum()
    k = np.arange(21, 1000)
    above = np.maximum(all_at_p.at(k - 1) - math.e * all_at_p.at(k), 0).sum()
    below = np.maximum(all_at_p.at(k) - math.e * all_at_p.at(k - 1), 0).sum() + max(0.0, downwards)
    assert max(upwards, above, below) < 1e-8
    worst = knowledge.threshold(1000, 20, at_most=0.05).delta_at(1)
    at_159 = binomial(159, 0.05).dense(159)
    assert worst == pytest.approx(at_159[20] - (math.e - 1) * at_159[21:].sum(), rel=1e-6)
    assert worst == pytest.approx(1.118e-5, rel=1e-3)


def test_the_exact_delta_of_a_threshold_is_a_thousandth_of_the_published_bound():
    published = 2.3e-4  # its smallest value at any ε
    assert knowledge.threshold(1000, 20, at_most=0.005, known=100).delta_at(0.1) == pytest.approx(
        published / 1000, rel=0.02
    )


def test_two_legs_of_epsilon_delta_are_more_than_twice_the_delta():
    """Chances of one event in three worlds, each leg exactly (ε, δ): the ends break (2ε, 2δ) and keep (2ε, (1 + e^ε)δ)."""
    epsilon, delta, third = 1.0, 0.01, 0.001
    second = delta + math.exp(epsilon) * third
    first = delta + math.exp(epsilon) * second
    gap = first - math.exp(2 * epsilon) * third
    assert gap > 2 * delta * 1.5
    assert gap == pytest.approx((1 + math.exp(epsilon)) * delta)
    table = knowledge.k_anonymity(2000, 60, boundary=0.01)
    assert table.delta_at(2) == pytest.approx((1 + math.e) * table.loss.leg(1.0), rel=1e-8)


def two_days(stay):
    """P[S₁ = i, S₂ = j] of 12 others with p = ½ who give the same answer on the second day with this chance."""
    one = np.zeros((2, 2))
    one[0, 0] = one[1, 1] = stay / 2
    one[0, 1] = one[1, 0] = (1 - stay) / 2
    joint = np.ones((1, 1))
    for _ in range(12):
        grown = np.zeros((len(joint) + 1, len(joint) + 1))
        for i, j in product(range(2), range(2)):
            grown[i : i + len(joint), j : j + len(joint)] += one[i, j] * joint
        joint = grown
    return joint


def test_close_days_are_not_boundedly_dependent():
    """Days that are c-close need not have a dependency within 2c: c = 0.223, and 0.764 occurs (one answer up, one down)."""
    joint = two_days(0.6)
    dependence = np.log(joint) - np.log(joint.sum(axis=1))[:, None] - np.log(joint.sum(axis=0))[None, :]
    dep = dependence[:-1, 1:] - dependence[1:, :-1]
    closeness = max(abs(math.log(0.6 / 0.5)), abs(math.log(0.4 / 0.5)))
    assert closeness == pytest.approx(0.223, abs=1e-3)
    assert np.abs(dep).max() == pytest.approx(0.764, abs=1e-3)
    assert np.abs(dep).max() > 2 * closeness


def test_the_loss_of_two_days_is_both_losses_and_the_dependence_once():
    joint = two_days(0.6)
    first, second = joint.sum(axis=1), joint.sum(axis=0)
    dependence = np.log(joint) - np.log(first)[:, None] - np.log(second)[None, :]
    dep = dependence[:-1, :-1] - dependence[1:, 1:]
    alone = np.log(first[:-1] / first[1:])[:, None] + np.log(second[:-1] / second[1:])[None, :]
    together = np.log(joint[:-1, :-1] / joint[1:, 1:])
    assert np.allclose(together, alone + dep)
    assert not np.allclose(together, alone + 2 * dep)


def test_pairs_that_vote_together_reveal_a_single_target():
    """Why `related` asks everybody outside the group to answer independently: the parity of the total is the target's answer."""
    others = 2 * np.arange(11)
    with_yes, with_no = set((others + 1).tolist()), set(others.tolist())
    assert with_yes & with_no == set()
    assert any("parity" in sentence for sentence in knowledge.count(21, uncertainty=0.2, related=2).assumptions)
