"""Certified reals: the truth lies between the bounds, and the bounds are close."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.mechanisms import certified
from shoal.mechanisms.certified import decimal_below, exp_of_minus, normal_tail, round_scale_up

POINTS = ["-38", "-9", "-6", "-0.3", "0", "0.001", "1", "3.7", "5.999", "6", "6.001", "9", "20", "37"]


@pytest.mark.parametrize("point", POINTS)
def test_normal_tails_agree_with_an_independent_implementation(point):
    lower, upper = normal_tail(Decimal(point))
    assert lower <= upper
    assert float(lower) == pytest.approx(stats.norm.sf(float(point)), rel=1e-12)
    assert upper - lower <= upper * Decimal("1e-45")


@pytest.mark.parametrize("point", ["6", "7", "8.5"])
def test_series_and_continued_fraction_bound_the_same_number(point, monkeypatch):
    by_fraction = normal_tail(Decimal(point) + Decimal("1e-60"))
    monkeypatch.setattr(certified, "SERIES_UP_TO", 9)
    by_series = normal_tail(Decimal(point))
    assert abs(by_series.lower - by_fraction.upper) <= by_series.upper * Decimal("1e-45")


def test_normal_tails_far_out_do_not_vanish():
    lower, upper = normal_tail(Decimal(10**6))
    assert 0 < lower <= upper
    assert float(upper.ln()) == pytest.approx(-(10**12) / 2 - math.log(10**6 * math.sqrt(2 * math.pi)), rel=1e-15)


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**9))
def test_a_scale_rounded_up_is_not_smaller_exact_as_a_float_and_close(value):
    rounded = round_scale_up(value)
    assert value <= rounded <= value * (1 + Fraction(1, 2**38))
    assert Fraction(float(rounded)) == rounded
    assert round_scale_up(rounded) == rounded


def test_no_scale_stays_no_scale():
    assert round_scale_up(Fraction(0)) == 0


@given(st.fractions(min_value=0, max_value=1))
def test_a_decimal_below_is_below(value):
    assert Fraction(decimal_below(value)) <= value


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(700), Fraction(10**16), Fraction(10**30)])
def test_the_exponential_is_positive_and_ordered_however_small(exponent):
    lower, upper = exp_of_minus(exponent)
    assert 0 <= lower <= upper
    assert upper > 0
    if exponent < 700:
        assert float(upper) == pytest.approx(math.exp(-exponent), rel=1e-12)
