"""Pairs for the tester are neighbours of the policy, and the tester can be held to them."""

import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import audit, policy
from shoal.errors import ShoalError
from shoal.mechanisms.noise import draw_noise
from shoal.policies import planning

sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
from brute_force import edge, policies, with_known

AGES = policy.Domain({"age": range(101)})
NEAR = policy.Policy(AGES, policy.distance(age=5), name="nearby_age")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_pairs_are_neighbours(data):
    rule = data.draw(policies(largest_domain=24))
    if data.draw(st.booleans()):
        rule = with_known(rule, data.draw(st.sampled_from(list(rule.domain.names))))
    found = policy.pairs(rule, records=3, limit=20)
    assert 0 < len(found) <= 20
    for first, second in found:
        assert len(first) == len(second) >= 3
        moved = [
            tuple(rule.domain.positions(side) for side in sides)
            for sides in zip(first, second, strict=True)
            if sides[0] != sides[1]
        ]
        assert 1 <= len(moved) <= rule.moves
        assert all(edge(rule, x, y) for x, y in moved)
        if rule.cells is not None:
            axes = [rule.domain.axis(name) for name in rule.cells.names]
            counts = [Counter(tuple(x[a] for a in axes) for x in side) for side in zip(*moved, strict=True)]
            assert counts[0] == counts[1]


def test_extremes_and_cycles_of_known_counts_come_first():
    first, second = policy.pairs(NEAR)[0]
    assert (first[0], second[0]) in {(0, 5), (95, 100)}
    domain = policy.Domain({"ward": ["A", "B", "C"], "sex": ["f", "m"]})
    rule = policy.Policy(domain, policy.full(), [policy.counts_by("ward")])
    first, second = policy.pairs(rule)[0]
    assert sum(x != y for x, y in zip(first, second, strict=True)) == 3


def mechanism(query, rule, epsilon=1):
    """A release as the tester calls it, on lists of plain numbers."""
    plan = planning.plan_release(query, rule, Fraction(epsilon))

    class Records:
        def __init__(self, data):
            self.data = data

        def counts(self, _):
            return np.bincount(np.array(self.data, dtype=int), minlength=rule.domain.size)

    def run(data, samples):
        columns = []
        for each in plan.measured:
            totals = np.array(each.totals(Records(data)), dtype=np.int64)
            columns.append(totals + draw_noise(each.event, samples * len(totals)).reshape(samples, len(totals)))
        return np.concatenate(columns, axis=1).astype(float)

    return run


SMALL = policy.Policy(policy.Domain({"x": range(8)}), policy.distance(x=2))


@pytest.mark.parametrize("query", [policy.histogram("x"), policy.sum("x"), policy.cumulative("x")])
def test_releases_pass_the_tester_on_neighbours_of_the_policy(query):
    inputs = policy.pairs(SMALL, records=2, limit=3)
    assert audit.check(mechanism(query, SMALL), epsilon=1, inputs=inputs, search=False, samples=20_000).passed


def test_without_search_only_given_pairs_are_tried():
    def count(data, samples):
        return np.full(samples, len(data))

    same_length = [([1.0], [2.0])]
    assert audit.check(count, epsilon=0.1, inputs=same_length, search=False, samples=1000).passed
    assert not audit.check(count, epsilon=0.1, inputs=same_length, samples=1000).passed
    with pytest.raises(ShoalError, match="E_USAGE"):
        audit.check(count, epsilon=0.1, search=False)
