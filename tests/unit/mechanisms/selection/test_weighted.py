"""Selection by weights: lengths of moves, thresholds over all degrees, closed-form chances, what AUTO takes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import GaussianNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms.calibrate import delta_per_group, noise_tail, smallest_tail_point
from shoal.mechanisms.certified import decimal_below
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.group_selection import RULES, half_point, keep_probability, select, typical_owners
from shoal.mechanisms.selection import weighted
from shoal.mechanisms.selection.weighted import (
    WHOLE,
    approximate_weighted_owners,
    weighted_threshold,
    weighted_threshold_holds,
    weights_for,
    weights_shift,
)

DELTA = Fraction(1, 10**6)


def made(groups, epsilon=Fraction(1), delta=DELTA, min_owners=1):
    return RULES["WEIGHTED"].apart(groups, min_owners, epsilon, delta)


@pytest.mark.parametrize("groups", [1, 2, 16, 17, 100, 12_345])
def test_no_owner_of_any_degree_moves_further_than_the_whole(groups):
    weights = weights_for(groups)
    assert weights[-1][0] == groups
    assert all(degree * weight**2 <= WHOLE**2 for degree, weight in weights)
    assert all(weight > 0.99 * WHOLE / math.sqrt(degree) for degree, weight in weights)
    assert weights_shift(groups).l2_squared <= WHOLE**2


def test_a_degree_between_two_loses_little_of_its_weight():
    degrees = [degree for degree, _ in weights_for(5000)]
    assert max(after / before for before, after in itertools.pairwise(degrees[16:])) < 1.12
    assert len(degrees) < 100


@pytest.mark.parametrize("groups", [1, 3, 40])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(6)])
def test_the_threshold_is_the_lowest_that_holds_for_every_degree(groups, epsilon):
    selection = made(groups, epsilon).selection
    facts = selection.noise, selection.weights
    assert weighted_threshold_holds(*facts, selection.threshold, selection.delta)
    assert not weighted_threshold_holds(*facts, selection.threshold - 1, selection.delta)
    for degree, weight in selection.weights:
        above = 1 - NormalDist(0, float(selection.noise.sigma)).cdf(selection.threshold - 0.5 - weight)
        assert -math.expm1(degree * math.log1p(-above)) <= float(selection.delta) * (1 + 1e-6)


def test_the_loss_is_what_was_asked_for_and_a_lower_threshold_is_refused():
    apart = made(7)
    loss = plan_loss(apart.events)
    assert (loss.epsilon, loss.delta) == (1, DELTA)
    low = replace(apart.selection, threshold=apart.selection.threshold - 1)
    with pytest.raises(InternalError, match="too low"):
        plan_loss((replace(apart.events[0], selection=low),))


def test_noise_that_covers_less_than_an_owner_is_refused():
    apart = made(7)
    short = GaussianNoise(Shift(WHOLE - 1, 7, length=WHOLE - 1), apart.selection.noise.sigma)
    with pytest.raises(InternalError, match="does not cover"):
        RULES["WEIGHTED"].loss(replace(apart.selection, noise=short))
    few = GaussianNoise(Shift(WHOLE, 6, length=WHOLE), apart.selection.noise.sigma)
    with pytest.raises(InternalError, match="fewer groups"):
        RULES["WEIGHTED"].loss(replace(apart.selection, noise=few))


@pytest.mark.parametrize(
    "weights", [(), ((2, 5),), ((1, 5), (1, 4)), ((1, 5), (3, 6)), ((1, 5), (3, 0)), ((1, 5), (4, 3), (2, 2))]
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(InternalError):
        replace(made(3).selection, weights=weights)


@pytest.mark.parametrize("groups", [2, 10, 100, 1000])
def test_owners_who_use_the_limit_up_are_needed_in_the_numbers_of_a_gaussian_threshold(groups):
    counted = RULES["GAUSSIAN_THRESHOLD"].apart(groups, 1, Fraction(1), DELTA).selection
    weighed = made(groups).selection
    assert half_point(weighed) <= half_point(counted)
    assert typical_owners(weighed) < 0.85 * typical_owners(counted)
    assert typical_owners(weighed) == pytest.approx(
        approximate_weighted_owners(groups, 1, Fraction(1), DELTA), rel=0.02
    )


@pytest.mark.parametrize("min_owners", [1, 5])
def test_groups_are_kept_with_the_chances_that_the_closed_form_says(min_owners):
    """20,000 draws for each of five sums; a false alarm of 5σ has a chance below 1e-6 each."""
    selection = made(5, min_owners=min_owners).selection
    half = half_point(selection)
    for owners in (min_owners, half // 2 + min_owners, half - 4, half, 2 * half):
        sums = np.full(20_000, owners * selection.weights[-1][1])
        kept = select(selection, np.full(20_000, owners), seeded_entropy(owners), sums).kept.mean()
        chance = keep_probability(selection, owners)
        assert abs(kept - chance) <= 5 * math.sqrt(chance * (1 - chance) / 20_000) + 1e-9
    assert keep_probability(selection, half) >= 0.5 > keep_probability(selection, half - 1)
    assert keep_probability(selection, min_owners - 1) == 0.0


def test_groups_below_the_minimum_never_appear_and_weights_must_be_there():
    selection = made(2, min_owners=3).selection
    owners, heavy = np.array([2, 3]), np.array([10**12, 10**12])
    assert select(selection, owners, seeded_entropy(1), heavy).kept.tolist() == [False, True]
    with pytest.raises(InternalError, match="there are none"):
        select(selection, owners, seeded_entropy(1))
    with pytest.raises(InternalError, match="not shown"):
        RULES["WEIGHTED"].joined(selection.noise, 2, 1, DELTA, released=True)


def test_floats_may_begin_with_another_degree_and_the_threshold_is_the_same(monkeypatch):
    noise = GaussianNoise(weights_shift(12), Fraction(4 * WHOLE))
    honest = weighted_threshold(noise, weights_for(12), DELTA)
    weighted_threshold.cache_clear()
    monkeypatch.setattr("shoal.mechanisms.calibrate.normal_point", lambda _: 0.0)
    assert weighted_threshold(noise, weights_for(12), DELTA) == honest
    weighted_threshold.cache_clear()


@pytest.mark.parametrize("groups", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(2**18), Fraction(2**23)])
def test_a_threshold_found_by_halves_is_the_one_found_degree_by_degree(groups, sigma):
    noise, weights = GaussianNoise(weights_shift(groups), sigma), weights_for(groups)

    def holds(threshold, degree, weight):
        return noise_tail(noise, threshold - weight).upper <= decimal_below(delta_per_group(DELTA, degree))

    threshold = max(weight + smallest_tail_point(noise, delta_per_group(DELTA, degree)) for degree, weight in weights)
    assert weighted_threshold(noise, weights, DELTA) == threshold
    for tried in (threshold - 1, threshold, threshold + 1):
        every = all(holds(tried, degree, weight) for degree, weight in weights)
        assert weighted_threshold_holds(noise, weights, tried, DELTA) == every == (tried >= threshold)


def test_most_degrees_are_decided_together(monkeypatch):
    asked = []
    monkeypatch.setattr(weighted, "_holds", lambda *facts, holds=weighted._holds: asked.append(facts) or holds(*facts))
    noise, weights = GaussianNoise(weights_shift(300), Fraction(2**21 + 1)), weights_for(300)
    threshold = weighted_threshold(noise, weights, DELTA)
    assert weighted_threshold_holds(noise, weights, threshold + 1, DELTA)
    assert 0 < len(asked) < len(weights)
