from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ShoalError
from shoal.local import weights


@given(st.fractions(Fraction(1, 10**10), Fraction(40), max_denominator=10**12))
def test_the_realised_loss_is_never_above_the_one_asked_for_and_close_to_it(epsilon):
    found = weights.weights_for(epsilon)
    context = Context(prec=120)
    power = Fraction(context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))))
    assert found.inside <= power * found.outside < found.inside + 1
    assert found.inside > found.outside
    assert Fraction(found.realised_epsilon) <= epsilon
    assert found.realised_epsilon >= float(epsilon) * (1 - 1e-2)


def test_tiny_epsilons_have_more_places():
    assert weights.weights_for(Fraction(1, 10**10)).outside == 1 << 80
    assert weights.weights_for(Fraction(1)).outside == 1 << 40


@given(st.fractions(Fraction(1, 10**13), Fraction(40), max_denominator=10**15))
def test_the_ratio_of_the_geometric_mechanism_is_rounded_up(step):
    ratio, one = weights.ratio_above(step)
    context = Context(prec=120)
    power = Fraction(context.exp(context.divide(Decimal(-step.numerator), Decimal(step.denominator))))
    assert ratio - 1 < power * one <= ratio < one


@pytest.mark.parametrize("wrong", [0, -1, 1e-11, 40.1, 1000, math.nan, math.inf, "1", None, True])
def test_an_epsilon_out_of_range_is_refused(wrong):
    with pytest.raises(ShoalError) as error:
        weights.checked_epsilon(wrong)
    assert error.value.code == "E_OPTION_INVALID"


def test_randomized_response_as_the_notes_write_it():
    assert weights.from_keep_probability(0.75) == pytest.approx(math.log(3), abs=1e-12)
    # Answering at random 75% of the time: the truth is told with 0.25 + 0.75 / 2.
    assert weights.from_keep_probability(Fraction(5, 8)) == pytest.approx(math.log(5 / 3), abs=1e-12)
    assert weights.from_keep_probability(0.75) >= math.log(3)


@pytest.mark.parametrize("wrong", [0.5, 1, 0.2, "x", math.nan, True])
def test_a_chance_that_is_none_is_refused(wrong):
    with pytest.raises(ShoalError, match="E_USAGE"):
        weights.from_keep_probability(wrong)


def test_large_epsilons_are_spoken_of():
    assert weights.warnings_about(5) is None
    assert "suspicion" in weights.warnings_about(6)
    assert "protects nobody" in weights.warnings_about(10)
    assert "protects nobody" in weights.warnings_about(Fraction(40))
