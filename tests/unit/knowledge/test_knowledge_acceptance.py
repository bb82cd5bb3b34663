"""Numbers that were computed independently; relative tolerance 10⁻⁶ unless said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shoal import knowledge

DELTAS = [
    (lambda: knowledge.count(1000, uncertainty=0.05), 1, 8.728849e-9),
    (lambda: knowledge.count(1000, uncertainty=0.05), 0.5, 9.358229e-5),
    (lambda: knowledge.count(1000, uncertainty=0.1, known=900), 1, 2.811066e-3),
    (lambda: knowledge.count(600, uncertainty=0.2, related=2), 1, 4.402606e-7),
    (lambda: knowledge.count(200, probabilities=np.linspace(0.05, 0.95, 200)), 0.5, 8.526334e-5),
    (lambda: knowledge.count(200, probabilities=np.linspace(0.05, 0.95, 200)), 1, 1.072478e-10),
    (lambda: knowledge.histogram(1000, uncertainty=0.05), 1, 1.616577e-7),
    (lambda: knowledge.threshold(1000, 20, at_most=0.005), 1, 1.134012e-7),
    (lambda: knowledge.threshold(1000, 20, at_most=0.005), 0.1, 2.271372e-7),
    (lambda: knowledge.threshold(1000, 20, at_most=0.005, known=100), 1, 1.134015e-7),
    (lambda: knowledge.threshold(1000, 20, at_most=0.005, known=100, attacker="active"), 1, 1.0),
    (lambda: knowledge.threshold(1000, 100, at_most=1e-7, known=100, attacker="active"), 7, 1.0),
    (lambda: knowledge.threshold(1000, 20, at_most=0.05), 1, 1.117729e-5),
    (lambda: knowledge.k_anonymity(2000, 60, boundary=0.01), 2, 1.183779e-3),
    (lambda: knowledge.k_anonymity(2000, 60, boundary=0.01), 4, 2.421379e-6),
    (lambda: knowledge.repeated(1000, 2, uncertainty=0.2, answers="dependent"), 1, 1.834643e-6),
]


@pytest.mark.parametrize(("release", "epsilon", "expected"), DELTAS)
def test_delta_at_is_the_independent_number(release, epsilon, expected):
    assert release().delta_at(epsilon) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("uncertainty", "expected"), [(0.1, 0.762863), (0.25, 0.449244), (0.5, 0.355229)])
def test_epsilon_at_is_the_independent_number(uncertainty, expected):
    assert knowledge.count(500, uncertainty=uncertainty).epsilon_at(1e-6) == pytest.approx(expected, abs=1e-5)


def test_few_unknown_people_have_no_epsilon():
    kept = knowledge.count(1000, uncertainty=0.1, known=900)
    assert math.isinf(kept.epsilon_at(1e-6))
    assert kept.smallest_delta == pytest.approx(0.9**99)


def test_noise_bounds_the_damage_and_saves_little_noise():
    one = knowledge.count(500, uncertainty=0.1, noise_scale=1.0)
    assert one.epsilon_at(1e-6) == pytest.approx(0.703815, abs=1e-5)
    assert one.against_everybody == (1.0, 0.0)
    assert one.smallest_delta == 0.0
    two = knowledge.count(500, uncertainty=0.1, noise_scale=2.0)
    assert two.epsilon_at(1e-6) == pytest.approx(0.483, abs=5e-4)
    assert two.delta_at(0.5) == 0.0


def test_histogram_of_a_thousand_and_of_ten_million():
    assert knowledge.histogram(1000, uncertainty=0.05).epsilon_at(1e-6) == pytest.approx(0.900352, abs=1e-6)
    large = knowledge.histogram(10**7, uncertainty=0.1, known=9_900_000)
    assert large.delta_at(0.1) == pytest.approx(1.6316e-15, rel=0.01)
    assert large.epsilon_at(1e-10) == pytest.approx(0.07601, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0, 1, 5])
def test_a_rare_answer_is_hidden_from_a_passive_attacker_and_open_to_an_active_one(epsilon):
    passive = knowledge.threshold(1000, 100, at_most=1e-7, known=100)
    active = knowledge.threshold(1000, 100, at_most=1e-7, known=100, attacker="active")
    assert passive.delta_at(epsilon) < 1e-200
    assert active.delta_at(epsilon) == 1.0


def test_small_tables_leak_more():
    assert knowledge.k_anonymity(2000, 10, boundary=0.01).delta_at(4) == pytest.approx(5.7929e-3, rel=1e-4)


def test_two_independent_releases_compose_on_a_grid_that_never_understates():
    found = knowledge.repeated(200, 2, probabilities=[0.2] * 200, answers="independent").delta_at(1)
    assert 2.009012e-5 * (1 - 1e-6) <= found <= 2.009012e-5 * 1.01


def test_people_and_noise_that_a_promise_needs():
    assert knowledge.people_for(1, 1e-6, uncertainty=0.1) == 346
    assert knowledge.noise_for(500, 1, 1e-6, uncertainty=0.1) == 0.0
    scale = knowledge.noise_for(500, 0.5, 1e-6, uncertainty=0.1)
    assert 1.9 < scale <= 2.0
    assert knowledge.count(500, uncertainty=0.1, noise_scale=scale).keeps(0.5, 1e-6)
    assert not knowledge.count(500, uncertainty=0.1, noise_scale=scale - 2e-3).keeps(0.5, 1e-6)


def test_one_person_more_is_never_worse_at_the_change_of_method():
    exact, bound = (knowledge.count(people, uncertainty=0.2) for people in (2001, 2002))
    assert (exact.method, bound.method) == ("worst case", "blanket")
    assert bound.delta_at(0.3) <= exact.delta_at(0.3)
    assert bound.smallest_delta == pytest.approx(0.8**2001, rel=1e-6)
