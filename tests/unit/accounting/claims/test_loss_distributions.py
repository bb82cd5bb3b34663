"""Numerical composition brackets what is known exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shoal.accounting.claims.composition import Optimal
from shoal.accounting.claims.loss_distributions import Numerical, why_not
from shoal.accounting.claims.profiles import Gaussian, Geometric, Laplace, Response, Sampled, above, decimal_of
from shoal.mechanisms.certified import arithmetic

TINY = Fraction(1, 10**6)


def test_gaussian_noise_lies_between_both_bounds():
    with arithmetic():
        together = Gaussian(above(decimal_of(Fraction(50, 400)).sqrt()))
    truth = float(together.epsilon_at(TINY))
    numerical = Numerical({Gaussian(Fraction(1, 20)): 50}, Fraction(0))
    assert numerical.epsilon_at_least(TINY) <= truth <= numerical.epsilon_at(TINY) <= truth + 0.001


def test_randomised_response_lies_between_both_bounds():
    truth = Optimal({Fraction(1, 10): 50, Fraction(3, 10): 3}, Fraction(0)).epsilon_at(TINY)
    numerical = Numerical({Response(Fraction(1, 10)): 50, Response(Fraction(3, 10)): 3}, Fraction(0))
    assert numerical.epsilon_at_least(TINY) <= truth <= numerical.epsilon_at(TINY) <= truth + 0.002


def test_geometric_noise_of_one_step_is_randomised_response():
    geometric = Numerical({Geometric(Fraction(10), 1): 50}, Fraction(0)).epsilon_at(TINY)
    assert geometric >= Optimal({Fraction(1, 10): 50}, Fraction(0)).epsilon_at(TINY)
    assert geometric == pytest.approx(3.1729, abs=0.002)


@pytest.mark.parametrize(
    "loss",
    [
        Laplace(Fraction(1, 2)),
        Sampled(Laplace(Fraction(1)), Fraction(1, 10)),
        Sampled(Gaussian(Fraction(1)), Fraction(1, 10)),
    ],
)
def test_a_single_loss_has_its_own_profile(loss):
    numerical = Numerical({loss: 1}, Fraction(0))
    epsilon = Fraction(1, 20)
    assert float(loss.delta_at(epsilon)) <= numerical.delta_at(epsilon) <= float(loss.delta_at(epsilon)) + 1e-4


def test_the_chance_that_everything_is_revealed_is_added():
    with_chance = Numerical({Laplace(Fraction(1, 2)): 3}, Fraction(1, 1000))
    without = Numerical({Laplace(Fraction(1, 2)): 3}, Fraction(0))
    assert with_chance.delta_at(Fraction(1)) == pytest.approx(0.001 + 0.999 * without.delta_at(Fraction(1)))
    assert with_chance.epsilon_at(TINY) is None
    assert Numerical({}, Fraction(0)).epsilon_at(TINY) == 0


def test_a_delta_that_floating_point_cannot_see_has_no_answer():
    assert Numerical({Laplace(Fraction(1, 2)): 3}, Fraction(0)).epsilon_at(Fraction(1, 10**15)) is None


@pytest.mark.parametrize("loss", [Response(Fraction(1000)), Geometric(Fraction(10**6), 20_000)])
def test_what_is_of_no_use_numerically_is_told(loss):
    assert why_not({loss: 1})
    assert why_not({Laplace(Fraction(1, 1000)): 1_000_000})
    assert why_not({Laplace(Fraction(1, 1000)): 1000}) is None
