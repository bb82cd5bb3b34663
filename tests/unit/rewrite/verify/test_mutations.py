"""Every plan with anything changed that matters is refused, and every field of a plan is known to matter or not to."""

from __future__ import annotations

from inspect import isabstract
from typing import get_args

import pytest
from finished_plans import COLLECTION, SQL, finished_plans
from plan_mutations import CHANGES, HARMLESS, mutants
from plan_parts import everything, fields_of, name_of

from shoal.accounting import events
from shoal.errors import InternalError
from shoal.plan import aggregates, expressions, measures, nodes
from shoal.rewrite.verify.statement import verify

QUICK = [*(name for name in SQL if name != "numerical"), COLLECTION]
FEWEST_WAYS = 250
ELSEWHERE = {events.PolicyLaplace, measures.OwnerWeight, aggregates.NoisyMeasure}
"""What no plan holds: a policy keeps another promise (test_statement shows that `verify` refuses it); weights are read by a
selection, which holds them itself; noisy measures are what aggregates read afterwards."""


@pytest.fixture(scope="module")
def finished(shop_tables):
    return finished_plans(shop_tables, QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_a_changed_plan_is_refused(finished, name):
    plans, catalog = finished
    assert verify(plans[name], catalog) is plans[name]
    passed = []
    for mutant in mutants(plans[name]):
        try:
            verify(mutant.plan, catalog)
            passed.append(mutant.what)
        except InternalError:
            pass
    assert passed == []


@pytest.mark.slow
def test_a_changed_plan_is_refused_that_is_composed_numerically(shop_tables):
    plans, catalog = finished_plans(shop_tables, ["numerical"])
    test_a_changed_plan_is_refused((plans, catalog), "numerical")


def test_there_are_many_ways_to_change_a_plan(finished):
    ways = {mutant.what for plan in finished[0].values() for mutant in mutants(plan, most=1)}
    assert len(ways) >= FEWEST_WAYS
    assert {(kind, field) for kind, field, _, _ in ways} == set(CHANGES)


def test_every_field_of_a_plan_is_changed_or_known_to_be_harmless(finished):
    held = {(name_of(part), f) for plan in finished[0].values() for part in everything(plan) for f in fields_of(part)}
    assert held == set(CHANGES) | set(HARMLESS)
    assert set(CHANGES) & set(HARMLESS) == set()


AGGREGATES = [each for name in aggregates.__all__ if not isabstract(each := getattr(aggregates, name))]


@pytest.mark.parametrize(
    "kinds",
    [
        get_args(nodes.Node),
        get_args(expressions.Expression),
        get_args(measures.Measure),
        AGGREGATES,
        get_args(events.Event),
        get_args(events.AdditiveNoise),
    ],
    ids=["nodes", "expressions", "measures", "aggregates", "events", "noises"],
)
def test_the_plans_hold_everything_that_a_plan_can_hold(finished, kinds):
    met = {type(part) for plan in finished[0].values() for part in everything(plan)}
    assert len(kinds) > 1
    assert set(kinds) - ELSEWHERE <= met
