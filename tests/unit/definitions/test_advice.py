"""The guide: rules in order, reasons, and what it never says."""

from __future__ import annotations

import itertools

import pytest

from shoal import definitions as d
from shoal.definitions.advice import ATTACKERS, NEEDS, OFFERS, PROTECTS, REPEATS
from shoal.errors import ShoalError

SITUATIONS = [
    (protects, attacker, repeats, needs)
    for protects, attacker, repeats in itertools.product(PROTECTS, ATTACKERS, REPEATS)
    for size in range(len(NEEDS) + 1)
    for needs in itertools.combinations(NEEDS, size)
]


def test_every_situation_has_an_advice_with_reasons_that_ends_with_what_is_offered():
    for situation in SITUATIONS:
        advice = d.guide(*situation)
        assert advice.reasons
        assert advice.parameters_to_choose
        assert advice.offered_by in OFFERS
        assert str(advice).splitlines()[-1] == f"  offered here by: {OFFERS[advice.offered_by]}"


def test_several_answers_are_never_given_a_definition_of_dimension_b():
    for situation in SITUATIONS:
        if situation[2] != "once":
            advice = d.guide(*situation)
            assert "B" not in d.get(advice.definition).dimensions, situation
            assert "B" not in d.get(advice.combine_with).dimensions, situation


def test_losses_are_never_counted_as_probabilistic_privacy():
    assert all(d.guide(*situation).combine_with != "probabilistic-dp" for situation in SITUATIONS)


def test_single_events_are_protected_only_where_that_is_asked():
    for situation in SITUATIONS:
        if situation[0] != "event":
            assert d.guide(*situation).definition != "event-dp"


@pytest.mark.parametrize(
    ("situation", "definition"),
    [
        ({}, "participant-dp"),
        ({"protects": "event"}, "event-dp"),
        ({"protects": "place"}, "geo-indistinguishability"),
        ({"protects": "text"}, "d-privacy"),
        ({"protects": "some values"}, "one-sided-dp"),
        ({"protects": "some values", "needs": ["constraints"]}, "blowfish"),
        ({"protects": "group"}, "group-dp"),
        ({"needs": ["personal levels"]}, "personalized-dp"),
        ({"attacker": "polynomial"}, "ind-computational-dp"),
        ({"protects": "graph"}, "node-dp"),
        ({"protects": "stream"}, "participant-dp"),
        ({"protects": "stream", "needs": ["no trusted collector"]}, "pan-privacy-user"),
        ({"needs": ["no trusted collector"]}, "local-dp"),
        ({"attacker": "partial", "repeats": "once", "needs": ["exact output"]}, "active-pk-dp"),
        ({"attacker": "partial", "repeats": "many"}, "participant-dp"),
    ],
)
def test_the_rules_are_tried_in_order(situation, definition):
    assert d.guide(**situation).definition == definition


@pytest.mark.parametrize(
    ("needs", "counted"),
    [([], "approximate-dp"), (["many gaussians"], "zero-concentrated-dp"), (["never fails", "many gaussians"], "dp")],
)
def test_how_losses_are_counted(needs, counted):
    assert d.guide(needs=needs).combine_with == counted


def test_brittleness_is_said_first():
    advice = d.guide(attacker="partial", repeats="once", needs=["exact output"])
    assert advice.reasons[0].startswith("brittle")
    assert "passive-pk-dp" in advice.watch_out[0]


@pytest.mark.parametrize(
    "words", [{"protects": "cats"}, {"attacker": "god"}, {"repeats": "never"}, {"needs": ["money"]}, {"needs": "money"}]
)
def test_other_words_are_refused_with_the_list(words):
    with pytest.raises(ShoalError) as caught:
        d.guide(**words)
    assert caught.value.code == "E_USAGE"
    assert caught.value.hint.startswith("Words: ")
