"""`shoal help` and `shoal functions`: the reference for people who have the package alone."""

from __future__ import annotations

import json

import pytest

from shoal.cli.lookup import refusals
from shoal.errors import OTHER_CODES, QUERY_CODES


@pytest.mark.parametrize("code", sorted(QUERY_CODES | OTHER_CODES))
def test_every_code_is_explained_in_plain_text(code):
    told = refusals.explained(code)
    assert told.startswith(f"{code} — ")
    assert len(told) > len(code) + 20
    assert "<!--" not in told
    assert "](" not in told


def test_a_code_may_be_written_short_and_small(shoal):
    assert shoal("help", "uid_exposed").out == shoal("help", "E_UID_EXPOSED").out


def test_without_a_code_all_of_them_are_listed(shoal):
    assert set(shoal("help").out.split()) >= QUERY_CODES


def test_an_unknown_code_is_refused_with_its_neighbours(shoal):
    done = shoal("help", "E_UID_EXPOSD")
    assert done.status == 2
    assert "E_UID_EXPOSED" in done.err


def test_functions_are_found_by_name_and_by_meaning(shoal):
    assert "DATE_TRUNC" in shoal("functions", "date").out
    listed = json.loads(shoal("functions", "upper", "--json").out)
    assert any(f["written"].upper().startswith("UPPER") for f in listed)


def test_a_function_that_does_not_exist_is_refused(shoal):
    assert shoal("functions", "frobnicate").status == 2
