"""Answers that would take all memory: a table of two rows, joined with itself often enough, over public and released rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.release import postprocess

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM visits"
MANY = ", ".join(f"sites s{number}" for number in range(30))  # a thousand million rows
CATALOG = {"tables": {"visits": {"owner": "uid"}, "sites": {"public": True}}}


def opened(people):
    visits = pa.table({"uid": list(range(people)), "site": ["a"] * people})
    sites = pa.table({"site": ["a", "b"], "town": ["here", "there"]})
    return shoal.connect({"visits": visits, "sites": sites}, CATALOG, budget=(10, 1e-5))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(postprocess, "LARGEST_ANSWER", 2**20)


def refusal(session, sql):
    with pytest.raises(shoal.ShoalError) as found:
        session.query(sql)
    return found.value


def test_a_public_answer_is_refused_before_it_takes_all_memory():
    with opened(100) as session:
        assert refusal(session, f"SELECT s0.town FROM {MANY}").code == "E_LIMITS"
        assert session.spent == (0.0, 0.0)
        assert len(session.query("SELECT town FROM sites")) == 2


def test_released_rows_that_become_too_many_stay_charged_suspend_nobody_and_look_alike_on_neighbours():
    faces = []
    for people in (100, 99):
        with opened(people) as session:
            error = refusal(session, f"WITH g AS ({PRIVATE}) SELECT g.n FROM g, {MANY}")
            faces.append((error.to_dict(), session.spent, session.ledger.entries()[0].why))
            assert len(session.query(PRIVATE)) == 1
    assert faces[0] == faces[1]
    assert (faces[0][0]["code"], faces[0][1], faces[0][2]) == ("E_LIMITS", (1.0, 0.0), "too large")
