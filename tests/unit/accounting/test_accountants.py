"""The loss of a plan follows from its events; a session's losses add up within limits fixed beforehand."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.accountants import BasicAccountant, Loss, Spent, ZcdpAccountant, accountant, plan_loss
from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    OptimalSelection,
    Shift,
    ThresholdSelection,
)
from shoal.accounting.zcdp import laplace_rho
from shoal.errors import InternalError, ShoalError
from shoal.params import Budget

MILLIONTH = Fraction(1, 10**6)
COUNT_OF_OWNERS = LaplaceNoise(Shift(1, 5), scale=Fraction(10))
WIDE_GAUSSIAN = GaussianNoise(Shift(1), sigma=Fraction(6))
JOINT = JointGaussian((WIDE_GAUSSIAN,), Fraction(1), MILLIONTH)


def laplace_threshold(**changes):
    facts = {"noise": COUNT_OF_OWNERS, "threshold": 200, "delta": MILLIONTH, "max_groups_per_owner": 5}
    return ThresholdSelection(**(facts | changes))


def test_a_plan_without_events_costs_nothing():
    assert plan_loss([]) == Loss(Fraction(0), Fraction(0), Fraction(0), Fraction(0))


def test_laplace_noise_costs_its_epsilon_and_less_than_half_its_square_over_the_coordinates():
    loss = plan_loss([LaplaceNoise(Shift(3, 5), scale=Fraction(30))])
    assert (loss.epsilon, loss.delta) == (Fraction(1, 2), 0)
    assert loss.zcdp == (5 * laplace_rho(3, Fraction(30)), 0)
    assert Fraction(97, 100) * Fraction(1, 40) < loss.zcdp[0] < Fraction(1, 40)


def test_a_shift_of_zero_costs_nothing():
    assert plan_loss([LaplaceNoise(Shift(0), scale=Fraction(0))]).epsilon == 0


def test_optimal_selection_costs_what_it_says_and_composes_over_the_groups_in_zcdp():
    loss = plan_loss([OptimalSelection(Fraction(1), MILLIONTH, max_groups_per_owner=4)])
    assert (loss.epsilon, loss.delta) == (1, MILLIONTH)
    rho, delta = loss.zcdp
    assert (float(rho), delta) == (pytest.approx(math.tanh(1 / 8), rel=1e-12), MILLIONTH)
    assert rho <= Fraction(1, 8)


def test_losses_of_a_plan_add_up_exactly():
    third = LaplaceNoise(Shift(1), scale=Fraction(3))
    assert plan_loss([third, third, third]).epsilon == 1


def test_joint_gaussian_noise_costs_its_claim_or_its_rho_without_delta():
    loss = plan_loss([JOINT])
    assert (loss.epsilon, loss.delta) == (1, MILLIONTH)
    assert loss.zcdp == (Fraction(1, 72), 0)


def test_a_gaussian_claim_that_does_not_hold_is_a_bug_and_not_a_release():
    boast = JointGaussian((GaussianNoise(Shift(1), sigma=Fraction(1)),), Fraction(1), MILLIONTH)
    with pytest.raises(InternalError):
        plan_loss([boast])


def test_a_threshold_adds_its_delta_to_the_noise_that_is_charged_beside_it():
    loss = plan_loss([COUNT_OF_OWNERS, laplace_threshold()])
    assert (loss.epsilon, loss.delta) == (Fraction(1, 2), MILLIONTH)
    shift = COUNT_OF_OWNERS.shift
    assert loss.zcdp == (shift.coordinates * laplace_rho(shift.per_coordinate, COUNT_OF_OWNERS.scale), MILLIONTH)


def test_a_gaussian_threshold_finds_its_noise_inside_a_joint_release():
    gaussian = ThresholdSelection(WIDE_GAUSSIAN, 60, MILLIONTH, 1)
    assert plan_loss([JOINT, gaussian]).delta == 2 * MILLIONTH
    with pytest.raises(InternalError):
        plan_loss([gaussian])


def test_a_threshold_whose_noise_nobody_charged_is_a_bug():
    other = LaplaceNoise(Shift(1, 5), scale=Fraction(11))
    for events in ([laplace_threshold()], [other, laplace_threshold()]):
        with pytest.raises(InternalError):
            plan_loss(events)


def test_two_thresholds_cannot_share_one_charged_draw():
    with pytest.raises(InternalError):
        plan_loss([COUNT_OF_OWNERS, laplace_threshold(), laplace_threshold()])
    assert plan_loss([COUNT_OF_OWNERS, COUNT_OF_OWNERS, laplace_threshold(), laplace_threshold()]).epsilon == 1


def test_a_threshold_that_is_too_low_is_a_bug():
    with pytest.raises(InternalError):
        plan_loss([COUNT_OF_OWNERS, laplace_threshold(threshold=20)])


def test_threshold_noise_must_cover_every_group_of_an_owner():
    with pytest.raises(InternalError):
        plan_loss([COUNT_OF_OWNERS, laplace_threshold(max_groups_per_owner=6)])


@pytest.mark.parametrize("amount", [math.nan, 0.1, -1, "1", None, Fraction(-1, 10), Fraction(1, 10**308)])
def test_amounts_are_exact_fractions_that_neither_vanish_nor_pay_back(amount):
    with pytest.raises(InternalError):
        Loss(amount, Fraction(0))
    with pytest.raises(InternalError):
        Loss(Fraction(0), amount)


def test_basic_composition_fits_ten_tenths_and_not_an_eleventh():
    budget, tenth, spent = Budget(Fraction(1), Fraction(0)), Loss(Fraction(1, 10), Fraction(0)), Spent()
    for _ in range(10):
        assert BasicAccountant().fits(spent, tenth, budget)
        spent = spent.plus(tenth)
    assert not BasicAccountant().fits(spent, tenth, budget)
    assert BasicAccountant().total(spent, budget) == (1, 0)


def test_basic_composition_keeps_delta_too():
    budget, spent = Budget(Fraction(1), MILLIONTH), Spent(delta=MILLIONTH)
    assert not BasicAccountant().fits(spent, Loss(Fraction(1, 10), MILLIONTH / 1000), budget)
    assert BasicAccountant().fits(spent, Loss(Fraction(1, 10), Fraction(0)), budget)


def answers_until_refused(rule, loss, budget):
    spent, count = Spent(), 0
    while rule.fits(spent, loss, budget):
        spent, count = spent.plus(loss), count + 1
    return count, spent


def test_zcdp_answers_many_more_small_gaussian_queries_than_basic_composition():
    budget = Budget(Fraction(1), MILLIONTH)
    small = Loss(Fraction(1, 100), MILLIONTH / 1000, rho=Fraction(1, 200000), rho_delta=Fraction(0))
    basic, _ = answers_until_refused(BasicAccountant(), small, budget)
    zcdp, spent = answers_until_refused(ZcdpAccountant(), small, budget)
    assert basic == 100
    assert zcdp > 4000
    epsilon, delta = ZcdpAccountant().total(spent, budget)
    assert Fraction(99, 100) < epsilon <= 1
    assert delta <= MILLIONTH


def test_zcdp_keeps_half_of_delta_for_selections():
    budget, selection = Budget(Fraction(10), MILLIONTH), Loss(Fraction(1, 1000), MILLIONTH / 8)
    count, spent = answers_until_refused(ZcdpAccountant(), selection, budget)
    assert count == 4
    assert ZcdpAccountant().total(spent, budget)[1] == MILLIONTH
    assert ZcdpAccountant().fits(spent, Loss(Fraction(1, 1000), Fraction(0)), budget)


def test_zcdp_needs_a_delta():
    with pytest.raises(ShoalError) as caught:
        ZcdpAccountant().check(Budget(Fraction(1), Fraction(0)))
    assert caught.value.code == "E_OPTION_INVALID"


def test_an_unknown_accountant_is_refused():
    with pytest.raises(ShoalError) as caught:
        accountant("pld")
    assert caught.value.code == "E_OPTION_INVALID"


fractions = st.fractions(min_value=Fraction(1, 10**6), max_value=2, max_denominator=10**6)


@settings(deadline=None)
@given(st.sampled_from([BasicAccountant(), ZcdpAccountant()]), st.lists(fractions, max_size=12), fractions)
def test_what_is_said_to_fit_does_fit(rule, earlier, asked):
    budget, spent = Budget(Fraction(2), MILLIONTH), Spent()
    for epsilon in earlier:
        loss = Loss(epsilon, Fraction(0))
        spent = spent.plus(loss) if rule.fits(spent, loss, budget) else spent
    fits = rule.largest_epsilon_that_fits(spent, Loss(asked, Fraction(0)), budget)
    assert fits == 0 or rule.fits(spent, Loss(fits, Fraction(0)), budget)


@settings(deadline=None)
@given(st.sampled_from([BasicAccountant(), ZcdpAccountant()]), st.lists(fractions, max_size=30))
def test_no_order_of_charges_exceeds_the_budget(rule, asked):
    budget, spent = Budget(Fraction(2), MILLIONTH), Spent()
    for epsilon in asked:
        loss = Loss(epsilon, epsilon * MILLIONTH / 10)
        spent = spent.plus(loss) if rule.fits(spent, loss, budget) else spent
    epsilon, delta = rule.total(spent, budget)
    assert epsilon <= budget.epsilon
    assert delta <= budget.delta
