"""`shoal help` and `shoal functions`: the reference for people who have the package alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import shoal as package
from shoal.cli.lookup import pages, refusals
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


def test_a_page_is_shown_by_its_name(shoal):
    assert shoal("help", "risk-check").out.startswith("# ")
    assert json.loads(shoal("help", "theory/promise", "--json").out)["page"] == "theory/promise"


def test_two_pages_of_one_name_name_each_other(shoal):
    assert "See also: shoal help theory/anonymity" in shoal("help", "anonymity").out


def test_a_page_may_be_written_as_a_path(shoal):
    assert shoal("help", "docs/howto/risk-check.md").out == shoal("help", "risk-check").out


def test_all_codes_and_pages_are_listed_with_titles(shoal):
    listed = shoal("help").out
    assert all(name in listed for name in pages.names())
    assert "Your first private queries" in listed
    assert json.loads(shoal("help", "--json").out)["pages"] == pages.names()


def test_an_unknown_page_is_refused_with_its_neighbours(shoal):
    done = shoal("help", "first-querys")
    assert done.status == 2
    assert "first-queries" in done.err


@pytest.mark.parametrize("name", pages.names())
def test_links_of_a_printed_page_name_pages_that_exist(name):
    named = re.findall(r"\((?:tutorial|howto|reference|theory)/[a-z0-9/-]+\)", pages.text(name))
    assert all(pages.called(one.strip("()")) for one in named)


def test_what_messages_refer_to_can_be_shown():
    sources = {path: path.read_text(encoding="utf-8") for path in Path(package.__file__).parent.rglob("*.py")}
    referred = {
        name for text in sources.values() for name in re.findall(r"shoal help ([a-z][a-z0-9/-]*[a-z0-9])", text)
    }
    assert len(referred) > 3
    assert [name for name in referred if not pages.called(name)] == []
    hints = {path.name: re.findall(r'hint=f?"[^"\n]*docs/[^"\n]*"', text) for path, text in sources.items()}
    assert {name: found for name, found in hints.items() if found} == {}


def test_functions_are_found_by_name_and_by_meaning(shoal):
    assert "DATE_TRUNC" in shoal("functions", "date").out
    listed = json.loads(shoal("functions", "upper", "--json").out)
    assert any(f["written"].upper().startswith("UPPER") for f in listed)


def test_a_function_that_does_not_exist_is_refused(shoal):
    assert shoal("functions", "frobnicate").status == 2
