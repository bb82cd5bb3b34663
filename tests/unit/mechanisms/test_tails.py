"""Tails of the discrete noise against term-by-term sums, for coarse and fine grids and deep into the tail."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.mechanisms import tails
from shoal.mechanisms.certified import arithmetic
from shoal.mechanisms.tails import gaussian_tail, gaussian_total, laplace_tail, noise_tail


def summed(weight, least, reach):
    """P[X ≥ least] by summing exp of the log-weights in floats."""
    everything = math.fsum(math.exp(weight(k)) for k in range(-reach, reach + 1))
    return math.fsum(math.exp(weight(k)) for k in range(least, reach + 1)) / everything


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 3), Fraction(20)])
@pytest.mark.parametrize("least", [-9, -1, 0, 1, 2, 5, 30])
def test_laplace_tails_are_the_sums_of_their_terms(scale, least):
    lower, upper = laplace_tail(scale, least)
    assert lower <= upper
    assert float(upper) == pytest.approx(summed(lambda k: -abs(k) / float(scale), least, 2000), rel=1e-12)


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(15), Fraction(40), Fraction(70)]
)
@pytest.mark.parametrize("least", [-9, 0, 1, 2, 5, 30, 300])
def test_gaussian_tails_are_the_sums_of_their_terms(sigma, least):
    lower, upper = gaussian_tail(sigma, least)
    assert lower <= upper
    expected = summed(lambda k: -(k**2) / (2 * float(sigma) ** 2), least, 4000)
    assert float(upper) == pytest.approx(expected, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("sigma", [Fraction(33, 2), Fraction(40), Fraction(64), Fraction(200)])
@pytest.mark.parametrize("deviations", [0, 1, 3, 8, 20, 37])
def test_the_expansion_and_the_sum_bound_the_same_tail(sigma, deviations):
    least = int(sigma * deviations) + 1
    summed_tail, expanded = tails._summed_tail(sigma, least), tails._expanded_tail(sigma, least)
    assert summed_tail.lower <= expanded.upper
    assert expanded.lower <= summed_tail.upper
    if 2 * least <= sigma**2:
        assert expanded.upper - expanded.lower <= expanded.upper * Decimal("1e-25")


@pytest.mark.parametrize("sigma", [Fraction(1, 10**7), Fraction(1), Fraction(2**20), Fraction(2**60)])
@pytest.mark.parametrize("tail", [laplace_tail, gaussian_tail])
def test_the_two_tails_of_a_point_add_up_to_one(tail, sigma):
    for least in (1, 2, int(3 * sigma) + 1):
        above, mirrored = tail(sigma, least), tail(sigma, 1 - least)
        with arithmetic():
            assert above.lower + mirrored.lower <= 1 <= above.upper + mirrored.upper


@pytest.mark.parametrize("tail", [laplace_tail, gaussian_tail])
def test_tails_are_accurate_where_floats_have_long_vanished(tail):
    lower, upper = tail(Fraction(3), 1000)
    assert lower > 0
    assert upper - lower < upper * Decimal("1e-40")
    exponent = 1000 / 3 if tail is laplace_tail else 1000**2 / 18
    assert float(upper.ln()) == pytest.approx(-exponent, rel=1e-2)


def test_the_total_by_poisson_summation_is_the_total_by_summing():
    for sigma in (Fraction(1), Fraction(3, 2), Fraction(9)):
        above, total = tails._summed_tail(sigma, 1), gaussian_total(sigma)
        with arithmetic():
            assert total.lower <= 1 + 2 * above.upper
            assert 1 + 2 * above.lower <= total.upper


def test_noise_that_is_not_drawn_has_no_tail():
    for noise in (LaplaceNoise(Shift(0), Fraction(0)), GaussianNoise(Shift(0), Fraction(0))):
        assert noise_tail(noise, 0).lower == 1
        assert noise_tail(noise, 1).upper == 0


def test_a_tail_taken_with_the_wrong_inequality_is_a_different_number():
    scale = Fraction(1)
    at_least, more_than = laplace_tail(scale, 11), laplace_tail(scale, 12)
    assert at_least.lower > 2 * more_than.upper
