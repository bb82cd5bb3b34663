"""Relations: stored, inverse, or by transitivity; never a guess, never a contradiction."""

from __future__ import annotations

import itertools

import pytest

from shoal import definitions as d
from shoal import guarantees
from shoal.definitions.relations import INVERSE, neighbours
from shoal.errors import ShoalError

IDS = [one.id for one in d.all()]


def test_the_named_relations():
    assert d.relation("dp", "approximate-dp").kind == "stronger"
    assert d.relation("node-dp", "edge-dp").kind == "stronger"
    assert d.relation("approximate-dp", "probabilistic-dp").kind == "equivalent"
    assert d.relation("divergence-dp", "renyi-dp").kind == "extends"
    assert d.path("dp", "kl-privacy")


def test_both_directions_of_a_relation_agree():
    stored = [(one, other) for one in IDS for other in neighbours(one)]
    for first, second in (*stored, *itertools.islice(itertools.combinations(IDS, 2), 0, None, 7)):
        there, back = d.relation(first, second), d.relation(second, first)
        assert (there is None) == (back is None)
        if there is not None:
            assert back.kind == INVERSE[there.kind], (first, second)


def test_every_step_is_stored_and_the_steps_meet():
    for first, second in itertools.islice(itertools.permutations(IDS, 2), 0, None, 11):
        found = d.relation(first, second)
        if found is None:
            continue
        assert (found.steps[0].source, found.steps[-1].target) == (first, second)
        for step in found.steps:
            assert step.kind in neighbours(step.source)[step.target]
        for step, following in itertools.pairwise(found.steps):
            assert step.target == following.source


def reached(start, *, kinds):
    seen, queue = {start}, [start]
    while queue:
        for target, how in neighbours(queue.pop()).items():
            if target not in seen and set(how) & kinds:
                seen.add(target)
                queue.append(target)
    return seen


def test_no_cycle_holds_a_strict_step():
    for one in IDS:
        for target, how in neighbours(one).items():
            if "stronger" in how:
                assert one not in reached(target, kinds={"stronger", "equivalent"}), (one, target)
            if "extends" in how:
                assert one not in reached(target, kinds={"extends"}), (one, target)


def test_an_implication_and_a_path_are_the_same_thing():
    for first, second in itertools.islice(itertools.permutations(IDS, 2), 0, None, 13):
        found = d.relation(first, second)
        implied = found is not None and found.implies
        chain = d.path(first, second)
        assert implied <= (chain is not None), (first, second)


def test_to_be_a_special_case_implies_nothing():
    special = d.relation("pixel-dp", "generic-dp-227")
    assert (special.kind, special.implies) == ("special case", False)
    assert d.path("pixel-dp", "generic-dp-227") is None


def test_a_path_names_conversions_that_can_be_executed():
    steps = d.path("gaussian-dp", "probabilistic-dp")
    assert [step.target for step in steps] == ["approximate-dp", "probabilistic-dp"]
    assert all(step.conversion for step in steps)
    claim = steps[1].convert(steps[0].convert(guarantees.Gaussian(1), delta=1e-6), gamma=0.1)
    assert isinstance(claim, guarantees.Probabilistic)
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        d.path("dp", "bounded-dp")[0].convert(guarantees.Pure(1))


def test_claims_of_the_catalogue_are_classes():
    for one in d.all():
        if one.claim is not None:
            assert issubclass(getattr(guarantees, one.claim), guarantees.Claim)


def test_an_entry_is_equivalent_to_itself_and_unknown_ones_are_refused():
    assert d.relation("dp", "dp").kind == "equivalent"
    assert d.path("dp", "dp") == []
    with pytest.raises(ShoalError, match="E_USAGE"):
        d.relation("dp", "nothing")
    with pytest.raises(ShoalError, match="E_USAGE"):
        d.path("nothing", "dp")
