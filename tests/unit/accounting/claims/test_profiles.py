"""Profiles and Rényi curves against brute force: sums, integrals, and error functions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.claims.profiles import (
    Gaussian,
    Geometric,
    Laplace,
    Response,
    Sampled,
    above,
    amplified,
    is_bounded,
)
from shoal.errors import InternalError
from shoal.mechanisms.certified import arithmetic

EPSILONS = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2)]


def hockey_stick(first, second, epsilon):
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(first, second, strict=True))


def renyi(first, second, order):
    return math.log(sum(p**order * q ** (1 - order) for p, q in zip(first, second, strict=True))) / (order - 1)


def curve(loss, order):
    with arithmetic():
        return float(loss.renyi_at(Decimal(order)))


def response(epsilon):
    likely = 1 / (1 + math.exp(-epsilon))
    return (likely, 1 - likely), (1 - likely, likely)


def geometric(scale, shift, reach=400):
    step = math.exp(-1 / scale)
    law = [(1 - step) / (1 + step) * step ** abs(x) for x in range(-reach, reach + 1)]
    return law, [0.0] * shift + law[: len(law) - shift]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomised_response_by_its_two_outputs(epsilon):
    pair = response(1.5)
    assert float(Response(Fraction(3, 2)).delta_at(epsilon)) == pytest.approx(
        hockey_stick(*pair, float(epsilon)), abs=1e-15
    )


@pytest.mark.parametrize(("scale", "shift"), [(1, 1), (3, 4), (5, 7), (2, 10)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_geometric_noise_by_summing_its_outputs(scale, shift, epsilon):
    first, second = geometric(scale, shift)
    ours = Geometric(Fraction(scale), shift).delta_at(epsilon)
    assert float(ours) == pytest.approx(hockey_stick(first, second, float(epsilon)), abs=1e-12)


@pytest.mark.parametrize("order", [1.5, 2, 3.7, 6])
def test_renyi_curves_by_summing_outputs(order):
    assert curve(Response(Fraction(3, 2)), order) == pytest.approx(renyi(*response(1.5), order))
    first, second = geometric(3, 4, reach=200)
    sums = renyi(first[4:], second[4:], order)
    assert curve(Geometric(Fraction(3), 4), order) == pytest.approx(sums)


@pytest.mark.parametrize("order", [1.5, 2, 7])
def test_the_renyi_curve_of_laplace_noise_by_an_integral(order):
    step, reach = 1e-3, 0.8
    points = [(i + 0.5) * step - 30 for i in range(60_000)]
    integral = sum(math.exp(-order * abs(x) - (1 - order) * abs(x - reach)) / 2 * step for x in points)
    assert curve(Laplace(Fraction(4, 5)), order) == pytest.approx(math.log(integral) / (order - 1), rel=1e-4)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_noise_is_the_limit_of_geometric_noise(epsilon):
    fine = Geometric(Fraction(5000), 4000).delta_at(epsilon)
    assert float(Laplace(Fraction(4, 5)).delta_at(epsilon)) == pytest.approx(float(fine), abs=1e-3)


@pytest.mark.parametrize("mu", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_noise_by_error_functions(mu, epsilon):
    def below(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    m, e = float(mu), float(epsilon)
    direct = below(-e / m + m / 2) - math.exp(e) * below(-e / m - m / 2)
    assert float(Gaussian(mu).delta_at(epsilon)) == pytest.approx(direct, abs=1e-14)


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 20), Fraction(1, 2)])
def test_a_sample_of_gaussian_noise_is_the_worse_of_both_directions(rate, epsilon):
    step = 2e-3
    points = [(i + 0.5) * step - 12 for i in range(12_500)]
    second = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * step for x in points]
    moved = [math.exp(-((x - 1) ** 2) / 2) / math.sqrt(2 * math.pi) * step for x in points]
    first = [(1 - rate) * q + rate * p for p, q in zip(moved, second, strict=True)]
    worse = max(hockey_stick(first, second, float(epsilon)), hockey_stick(second, first, float(epsilon)))
    assert float(Sampled(Gaussian(Fraction(1)), rate).delta_at(epsilon)) == pytest.approx(worse, abs=1e-5)
    for order in (2, 5):
        assert curve(Sampled(Gaussian(Fraction(1)), rate), order) == pytest.approx(
            renyi(first, second, order), rel=1e-3
        )


@pytest.mark.parametrize("loss", [Response(Fraction(1)), Laplace(Fraction(1)), Geometric(Fraction(5), 5), Gaussian(Fraction(1)),
                                  Sampled(Gaussian(Fraction(1)), Fraction(1, 10))])  # fmt: skip
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**100)])
def test_epsilon_and_delta_are_inverse_and_rounded_up(loss, delta):
    epsilon = loss.epsilon_at(delta)
    assert loss.delta_at(epsilon) <= delta * (1 + Fraction(1, 10**20))
    if epsilon:
        assert loss.delta_at(epsilon * (1 - Fraction(1, 10**12))) > delta * (1 - Fraction(1, 10**9))


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=50), st.fractions(min_value=Fraction(11, 10), max_value=500)
)
def test_the_renyi_curve_of_pure_privacy_is_below_its_concentrated_line(epsilon, order):
    with arithmetic():
        divergence = Response(epsilon).renyi_at(Decimal(order.numerator) / Decimal(order.denominator))
        assert divergence <= Decimal(float(order * epsilon**2 / 2)) * (1 + Decimal("1e-12"))


def test_numbers_are_rounded_up_and_never_lost():
    with arithmetic():
        third = Decimal(1) / 3
        assert Fraction(1, 3) < above(third) < Fraction(1, 3) * (1 + Fraction(1, 10**28))
        assert above(Decimal("1e-1000")) == Fraction(1, 10**400)
        assert above(Decimal(0)) == 0


def test_huge_gaussian_losses_stay_above_their_mean():
    huge = Gaussian(Fraction(10**9))
    assert huge.epsilon_at(Fraction(1, 10**6)) > 10**18 / 2
    assert huge.delta_at(Fraction(10**6)) == 1
    near = Gaussian(Fraction(10**6 + 1)), Gaussian(Fraction(10**6))
    assert float(near[0].epsilon_at(Fraction(1, 10**6))) == pytest.approx(
        float(near[1].epsilon_at(Fraction(1, 10**6))), rel=1e-5
    )


def test_an_unbounded_loss_has_no_epsilon_at_delta_zero():
    assert not is_bounded(Gaussian(Fraction(1)))
    assert not is_bounded(Sampled(Gaussian(Fraction(1)), Fraction(1, 2)))
    assert is_bounded(Sampled(Laplace(Fraction(1)), Fraction(1, 2)))
    with pytest.raises(InternalError):
        Gaussian(Fraction(1)).epsilon_at(Fraction(0))


def test_sampling_shrinks_epsilon_and_a_whole_sample_does_not():
    assert amplified(Fraction(1), Fraction(1)) == 1
    assert float(amplified(Fraction(10**6), Fraction(1, 100))) == pytest.approx(10**6 - math.log(100))
