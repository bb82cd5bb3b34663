"""A form that is refused: the page again, with what was typed and the error, never in place of a right that is not there."""

from __future__ import annotations

import re

import pytest

PEOPLE = {"name": "dave", "roles": "auditor", "groups": "finance, audit"}
ALLOWANCE = {"dataset": "visits", "to": "group:research", "epsilon": "1", "delta": "", "per": "day", "above": "0.25"}
TOKEN = {"user": "otto", "scope": ["audit"], "days": "9"}
RAISE = {"epsilon": "77", "delta": "1e-3", "because": "the board of March"}


@pytest.mark.parametrize(
    ("path", "typed", "wrong", "status", "field", "kept"),
    [
        ("/people", PEOPLE, {"name": "ann"}, 400, 'name="name"', ['value="finance, audit"', 'value="auditor" checked']),
        ("/people", PEOPLE, {"groups": "Finance"}, 400, 'name="groups"', ['value="Finance"', 'value="dave"']),
        ("/people", PEOPLE, {"roles": "king"}, 400, "<fieldset", ['value="dave"']),
        ("/allowances", ALLOWANCE, {"epsilon": "1,5"}, 400, 'name="epsilon"', ['value="1,5"', 'value="0.25"']),
        (
            "/allowances",
            ALLOWANCE,
            {"above": "0"},
            400,
            'name="above"',
            ["<option selected>group:research", "selected>day"],
        ),
        ("/allowances", ALLOWANCE, {"epsilon": "", "delta": "1e-6"}, 400, 'name="epsilon"', ['value="1e-6"']),
        (
            "/tokens",
            TOKEN,
            {"scope": "query"},
            403,
            "<fieldset",
            ['value="query" checked', 'value="9"', "selected>otto"],
        ),
        ("/tokens", TOKEN, {"days": "0"}, 400, 'name="days"', ['value="0"', 'value="audit" checked']),
        ("/tokens", TOKEN, {"days": "soon"}, 400, 'name="days"', ['value="soon"']),
        ("/tokens", TOKEN, {"user": "eve"}, 404, "<select", ['value="9"']),
        ("/d/visits/raise", RAISE, {"epsilon": "0.1"}, 400, 'name="epsilon"', ['value="0.1"', "the board of March"]),
        ("/d/visits/raise", RAISE, {"delta": "small"}, 400, 'name="delta"', ['value="small"', 'value="77"']),
        ("/d/visits/raise", RAISE, {"because": " "}, 400, 'name="because"', ['value="77"', 'value="1e-3"']),
    ],
)
def test_what_was_typed_stays_beside_the_error(carla, path, typed, wrong, status, field, kept):
    reply = carla.send_form(path, **typed | wrong)
    assert reply.status_code == status
    page = reply.text
    assert page.count('id="refused" role="alert" tabindex="-1" autofocus') == 1
    (described,) = re.findall(r'<[^>]*aria-invalid="true" aria-describedby="refused"[^>]*>', page)
    assert field in described
    for text in kept:
        assert text in page


def test_a_refused_scope_names_those_that_the_person_may_have(carla, ann):
    page = carla.send_form("/tokens", user="otto", scope="query", days="9").text
    assert "otto is auditor: a token of theirs may have audit." in page
    assert re.search(r'<option data-may="audit" selected>otto</option>', page)
    assert 'data-may="explain query read" >ann<' in page
    assert (
        'audit <span class="soft">read the log and the totals<span class="no-script"> (custodian, auditor)</span>'
        in page
    )
    own = ann.get("/tokens").text
    assert 'value="query"' in own
    assert 'value="audit"' not in own
    assert 'id="user"' not in own


def test_a_form_that_is_not_on_ones_page_is_refused_on_a_page_of_its_own(ann, carla):
    for path, fields in (("/d/visits/raise", RAISE), ("/people", PEOPLE), ("/allowances", ALLOWANCE)):
        reply = ann.send_form(path, **fields)
        assert (reply.status_code, "<h1>Not allowed</h1>" in reply.text) == (403, True)
        assert "the board of March" not in reply.text
    assert carla.send_form("/d/visits/lift", user="nobody", because="").status_code == 400


def test_what_was_typed_is_only_text(carla):
    page = carla.send_form("/people", name='"><script>', roles="analyst", groups="x").text
    assert 'value="&#34;&gt;&lt;script&gt;"' in page


@pytest.mark.parametrize(
    ("path", "place"),
    [("/allowances", "/people#allow"), ("/d/visits/raise", "/d/visits/budget"), ("/d/visits/lift", "/d/visits/budget")],
)
def test_the_address_of_a_refused_form_leads_to_its_page(carla, path, place):
    reply = carla.get(path)
    assert (reply.status_code, reply.headers["Location"]) == (303, place)


def test_a_page_that_was_not_refused_marks_nothing(carla):
    for path in ("/people", "/tokens", "/d/visits/budget"):
        assert 'id="refused"' not in carla.get(path).text
