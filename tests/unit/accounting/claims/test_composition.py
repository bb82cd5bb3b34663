"""Composition against brute force: every combination of losses, in 60 digits."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.claims.composition import (
    Optimal,
    RenyiCurve,
    _log_factorials,
    advanced_delta,
    advanced_epsilon,
    chance_of_any,
)
from shoal.accounting.claims.profiles import Gaussian, Laplace, Response
from shoal.accounting.zcdp import zcdp_epsilon

TINY = Fraction(1, 10**6)


def by_brute_force(epsilons, epsilon):
    """E[(1 − e^{ε−L})₊] over all 2^k combinations of ±εᵢ."""
    with localcontext() as context:
        context.prec = 60
        total = Decimal(0)
        exact = [Decimal(e.numerator) / Decimal(e.denominator) for e in epsilons]
        threshold = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        odds = {(sign, e): 1 / (1 + (-sign * e).exp()) for e in exact for sign in (1, -1)}
        for signs in itertools.product((1, -1), repeat=len(exact)):
            loss = sum(sign * e for sign, e in zip(signs, exact, strict=True))
            if loss > threshold:
                chance = math.prod((odds[sign, e] for sign, e in zip(signs, exact, strict=True)), start=Decimal(1))
                total += chance * (1 - (threshold - loss).exp())
        return total


@settings(deadline=None, max_examples=20)
@given(
    st.dictionaries(st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(5, 2)]),
                    st.integers(1, 3), min_size=1, max_size=3),
    st.fractions(min_value=0, max_value=4, max_denominator=1000),
)  # fmt: skip
def test_the_optimal_rule_is_the_sum_over_all_losses_rounded_up(counts, epsilon):
    listed = [e for e, times in counts.items() for _ in range(times)]
    truth = by_brute_force(listed, epsilon)
    ours = Optimal(counts, Fraction(0)).delta_at(epsilon)
    assert truth <= Decimal(ours) <= truth * (1 + Decimal("1e-9")) + Decimal("1e-14")


@pytest.mark.parametrize("times", [1, 2, 7, 30])
def test_the_points_of_kairouz_oh_and_viswanath_are_special_values(times):
    one = 0.4
    for i in range(times // 2 + 1):
        point = (times - 2 * i) * one
        printed = (
            sum(
                math.comb(times, j) * (math.exp((times - j) * one) - math.exp((times - 2 * i + j) * one))
                for j in range(i)
            )
            / (1 + math.exp(one)) ** times
        )
        ours = Optimal({Fraction(2, 5): times}, Fraction(0)).delta_at(Fraction(2 * (times - 2 * i), 5))
        assert ours == pytest.approx(printed, rel=1e-9, abs=1e-13), point


def test_epsilon_and_delta_of_the_optimal_rule_are_inverse():
    together = Optimal({Fraction(1, 10): 20, Fraction(1, 2): 4}, chance_of_any({Fraction(1, 10**9): 24}))
    epsilon = together.epsilon_at(TINY)
    assert together.delta_at(Fraction(epsilon)) <= 1e-6 * (1 + 1e-12)
    assert together.delta_at(Fraction(epsilon * (1 - 1e-9))) > 1e-6
    assert epsilon * (1 - 1e-9) < together.epsilon_at_least(TINY) <= epsilon


def test_a_delta_of_the_claims_that_is_larger_than_asked_has_no_epsilon():
    assert Optimal({Fraction(1): 2}, Fraction(1, 1000)).epsilon_at(TINY) is None
    assert Optimal({Fraction(1): 2}, Fraction(0)).epsilon_at(Fraction(0)) == 2.0


def test_log_factorials_agree_with_the_library_to_a_few_last_places():
    ours = _log_factorials(3000)
    for n in (0, 1, 2, 31, 32, 33, 100, 2999, 3000):
        assert ours[n] == pytest.approx(math.lgamma(n + 1), rel=2e-15, abs=1e-15)


def test_chances_add_up_below_their_sum():
    assert chance_of_any({Fraction(1, 2): 2}) == pytest.approx(0.75)
    assert 1 - (1 - TINY) ** 50 <= chance_of_any({TINY: 50}) <= 50 * TINY
    assert chance_of_any({Fraction(0): 5}) == 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10), Fraction(1)])
@pytest.mark.parametrize("times", [1, 10, 300])
def test_the_advanced_rule_is_above_the_optimum_and_inverse_to_itself(epsilon, times):
    claimed = advanced_epsilon(epsilon, times, TINY)
    assert claimed <= epsilon * times
    assert claimed >= Optimal({epsilon: times}, Fraction(0)).epsilon_at(TINY) * (1 - 1e-12)
    if claimed < epsilon * times:
        assert float(advanced_delta(epsilon, times, claimed)) == pytest.approx(1e-6, rel=1e-9)
    assert advanced_delta(epsilon, times, epsilon * times) == 0


def test_the_advanced_rule_says_nothing_below_the_mean_loss():
    assert advanced_delta(Fraction(1), 1000, Fraction(400)) is None


@pytest.mark.parametrize("mu", [Fraction(1, 10), Fraction(1)])
def test_the_renyi_rule_of_gaussian_noise_is_the_conversion_of_zcdp(mu):
    ours = RenyiCurve([(Gaussian(mu).renyi_at, 1)]).epsilon_at(TINY)
    assert float(ours) == pytest.approx(float(zcdp_epsilon(mu**2 / 2, TINY)), rel=1e-6)
    assert ours > Gaussian(mu).epsilon_at(TINY)


def test_a_largest_order_is_kept():
    free = RenyiCurve([(Laplace(Fraction(1, 10)).renyi_at, 50)])
    bound = RenyiCurve([(Laplace(Fraction(1, 10)).renyi_at, 50)], largest_order=Fraction(3))
    assert bound.epsilon_at(TINY) > free.epsilon_at(TINY)
    assert free.delta_at(free.epsilon_at(TINY)) == pytest.approx(1e-6, rel=1e-6)


def test_the_renyi_rule_of_randomised_response_is_above_the_truth():
    for times in (1, 5, 100):
        ours = RenyiCurve([(Response(Fraction(1, 10)).renyi_at, times)]).epsilon_at(TINY)
        assert ours >= Optimal({Fraction(1, 10): times}, Fraction(0)).epsilon_at(TINY)


def test_the_optimal_rule_agrees_with_loss_distributions_of_the_library():
    from dp_accounting.pld import common, privacy_loss_distribution

    one = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.01, 0.0))
    theirs = one.self_compose(1000).get_epsilon_for_delta(1e-6)
    assert Optimal({Fraction(1, 100): 1000}, Fraction(0)).epsilon_at(TINY) == pytest.approx(theirs, rel=1e-8)
