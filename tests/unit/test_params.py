"""Parameters are checked once at the door: exact, finite, in range, or refused with a sentence that helps."""

import math
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import params
from shoal.errors import ShoalError

NOT_NUMBERS = ["1", b"1", True, False, None, [1], (1,), {}, 1j, object()]
NOT_FINITE = [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), np.float64("nan")]
HUGE = pytest.param(10**5000, id="huge")
MINUS_HUGE = pytest.param(-(10**5000), id="minus-huge")
ABSURD = [HUGE, MINUS_HUGE, Decimal("1e99999"), Decimal("1e-99999"), pytest.param(Fraction(1, 3**5000), id="tiny")]


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("given_number", [0.1, Decimal("0.1"), Fraction(1, 10), np.float64(0.1)])
def test_one_tenth_is_one_tenth_however_it_is_written(given_number):
    assert params.epsilon(given_number) == Fraction(1, 10)
    assert params.delta(given_number) == Fraction(1, 10)


def test_epsilon_takes_both_ends_of_its_range_and_numpy_integers():
    assert params.epsilon(1e-10) == Fraction(1, 10**10)
    assert params.epsilon(10**6) == params.epsilon(1e6) == params.epsilon(np.int64(10**6)) == 10**6


@pytest.mark.parametrize(
    "bad", [0, 0.0, -0.0, -1, 9.9e-11, 1e-320, 5e-324, 1000000.1, *NOT_NUMBERS, *NOT_FINITE, *ABSURD]
)
def test_a_wrong_epsilon_is_refused_by_name(bad):
    error = refusal(params.epsilon, bad)
    assert error.code == "E_OPTION_INVALID"
    assert "epsilon" in error.message
    assert len(error.message) < 200


@pytest.mark.parametrize("bad", [1, 1.5, 2, -1e-6, -1, 1e-320, 1e-301, *NOT_NUMBERS, *NOT_FINITE, *ABSURD])
def test_a_wrong_delta_is_refused_by_name(bad):
    error = refusal(params.delta, bad)
    assert error.code == "E_OPTION_INVALID"
    assert "delta" in error.message
    assert len(error.message) < 200


def test_delta_may_be_zero_and_almost_one():
    assert params.delta(0) == params.delta(-0.0) == 0
    assert params.delta(0.999999) == Fraction(999999, 10**6)


@pytest.mark.parametrize(
    "bad", [0, -3, 2.7, 2.0, Decimal(2), Fraction(2), 10**6 + 1, 2**63 - 1, "3", *NOT_NUMBERS, *NOT_FINITE]
)
def test_groups_per_owner_is_a_whole_number_and_nothing_is_rounded_to_one(bad):
    error = refusal(params.max_groups_per_owner, bad)
    assert error.code == "E_OPTION_INVALID"
    assert "max_groups_per_owner" in error.message


def test_groups_per_owner_takes_its_whole_range():
    assert params.max_groups_per_owner(1) == 1
    assert params.max_groups_per_owner(10**6) == 10**6
    assert type(params.max_groups_per_owner(np.int32(7))) is int


def test_the_error_names_the_option_as_the_analyst_spelled_it():
    assert (
        "max_groups_contributed" in refusal(params.max_groups_per_owner, 2.7, option="max_groups_contributed").message
    )


@pytest.mark.parametrize("bad", [0, 1, -0.5, 1.5, "0.95", True, math.nan])
def test_a_confidence_level_lies_between_zero_and_one(bad):
    assert refusal(params.confidence_level, bad).code == "E_OPTION_INVALID"
    assert params.confidence_level(0.95) == Fraction(19, 20)


@pytest.mark.parametrize("bad", [*NOT_NUMBERS, *NOT_FINITE, *ABSURD, 1e31, -1e31, 1e-320])
def test_bounds_of_wrong_kind_or_size_are_refused_on_either_side(bad):
    assert refusal(params.bounds, bad, 1).code == "E_BOUNDS_INVALID"
    assert refusal(params.bounds, 0, bad).code == "E_BOUNDS_INVALID"


def test_bounds_keep_their_order_and_may_touch():
    assert refusal(params.bounds, 5, 0).code == "E_BOUNDS_INVALID"
    assert params.bounds(3, 3).lower == params.bounds(3, 3).upper == 3
    assert params.bounds(-7, 5).magnitude == 7


def test_bounds_and_budgets_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        params.bounds(0, 1).upper = Fraction(9)
    with pytest.raises(FrozenInstanceError):
        params.budget((1, 0)).epsilon = Fraction(9)


@pytest.mark.parametrize(
    "bad", [1, "1,1e-6", (1,), (1, 0, 0), (0, 0), (-1, 0), (math.nan, 0), (1, 1), (1, -1), ("1", 0), (1e10, 0)]
)
def test_a_wrong_budget_is_refused(bad):
    error = refusal(params.budget, bad)
    assert error.code == "E_OPTION_INVALID"
    assert "budget" in error.message


def test_a_budget_is_taken_as_it_is():
    budget = params.budget([2, 1e-6])
    assert budget == params.Budget(Fraction(2), Fraction(1, 10**6))
    assert params.budget(budget) is budget


def test_the_default_delta_shrinks_with_the_population():
    assert params.default_delta(10) == Fraction(1, 10**6)
    assert params.default_delta(10**8) == Fraction(1, 10**10)
    assert refusal(params.default_delta, 0).code == "E_OPTION_INVALID"


@given(st.floats(min_value=1e-10, max_value=1e6))
def test_every_float_in_range_stands_for_its_shortest_decimal_form(value):
    assert params.epsilon(value) == Fraction(Decimal(repr(value)))


@pytest.mark.parametrize(
    ("given_number", "shown"),
    [
        (Fraction(10**20), "1e+20"),
        (Fraction(1, 10**15), "1e-15"),
        (Fraction(-3, 2), "-1.5"),
        (Fraction(10**400), "1e+400"),
    ],
)
def test_numbers_of_a_query_are_shown_as_numbers(given_number, shown):
    assert refusal(params.epsilon, given_number).message.endswith(f"got {shown}.")


def test_hints_are_written_as_the_option_is():
    assert "Write epsilon = 1," in refusal(params.epsilon, 0).hint
    assert "Write --level 0.95 " in refusal(params.confidence_level, 2, option="--level").hint
    assert "Write budget=(1.0, 1e-6):" in refusal(params.budget, (0, 0)).hint
    assert "Write --create 1,1e-6:" in refusal(params.budget, (1, 2), option="--create").hint


def test_a_large_epsilon_has_a_warning_from_ten_on():
    assert params.warning_about(Fraction(10)) is None
    assert "ε = 10.5 protects nobody" in params.warning_about(10.5)


def test_a_level_is_never_rounded_to_certainty():
    assert [params.percent(level) for level in (0.5, 0.95, 0.29, 0.9999999)] == ["50%", "95%", "29%", "99.99999%"]
