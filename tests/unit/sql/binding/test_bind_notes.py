"""Options and arguments that are understood and change nothing: the explanation says so."""

from __future__ import annotations

import pytest

DISTINCT = "COUNT(DISTINCT uid, max_contributions_per_group => 9)"
SAMPLED = "COUNT(DISTINCT uid, max_contributions_per_group => 9, contribution_bounding_strategy => SAMPLING)"

NOTED = [
    ("epsilon = 1, kappa = 3", "COUNT(*) FROM visits", "kappa changes nothing"),
    (
        "epsilon = 1, max_groups_contributed = 3, group_selection_epsilon = 0.1",
        "COUNT(*) FROM visits",
        "max_groups_contributed and group_selection_epsilon change nothing",
    ),
    ("epsilon = 1, min_privacy_units_per_group = 3", "COUNT(*) FROM visits", "min_privacy_units_per_group changes"),
    ("epsilon = 1, group_selection_strategy = OPTIMAL", "COUNT(*) FROM visits", "group_selection_strategy changes"),
    ("epsilon = 1", f"{DISTINCT} FROM visits", "each owner counts once; max_contributions_per_group changes nothing"),
    ("epsilon = 1", f"{SAMPLED} FROM visits", "contribution_bounding_strategy change nothing"),
]
EFFECTIVE = [
    ("epsilon = 1, delta = 1e-6, kappa = 3", "site, COUNT(*) FROM visits GROUP BY site"),
    ("epsilon = 1, noise = LAPLACE", "COUNT(*) FROM visits"),
    ("epsilon = 1", f"{DISTINCT.replace('uid', 'site')} FROM visits"),
    ("epsilon = 1", "COUNT(DISTINCT uid) FROM visits"),
]


def notes(session, options: str, rest: str) -> str:
    plan = session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {rest}")
    return " ".join(plan.selects[0].notes)


@pytest.mark.parametrize(("options", "rest", "words"), NOTED)
def test_what_changes_nothing_is_noted(quiet_shop, options, rest, words):
    assert words in notes(quiet_shop, options, rest)


@pytest.mark.parametrize(("options", "rest"), EFFECTIVE)
def test_what_changes_something_is_not(quiet_shop, options, rest):
    assert "nothing" not in notes(quiet_shop, options, rest)


def test_a_note_about_a_call_that_stands_twice_is_made_once(quiet_shop):
    assert notes(quiet_shop, "epsilon = 1", f"{DISTINCT} AS a, {DISTINCT} AS b FROM visits").count("counts once") == 1
