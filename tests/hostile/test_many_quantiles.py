"""More quantiles than fit memory: refused for nothing where groups are listed, else ended by what was released."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.release import noisy
from shoal.rewrite import check_fanout

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6, max_groups_contributed = 1)"
LISTS = f"{CLAUSE} site, APPROX_QUANTILES(x, 10) AS q FROM visits GROUP BY site"


def opened(people, *, listed):
    """Four sites of a hundred owners, and one owner more or less."""
    visits = pa.table(
        {"uid": range(people), "site": [i % 4 for i in range(people)], "x": [i % 50 for i in range(people)]}
    )
    columns = {"x": {"bounds": [0, 50]}} | ({"site": {"values": [0, 1, 2, 3]}} if listed else {})
    catalog = {"tables": {"visits": {"owner": "uid", "columns": columns}}}
    return shoal.connect({"visits": visits}, catalog, budget=(100, 1e-3))


def faces(monkeypatch, most, *, listed, sql=LISTS):
    monkeypatch.setattr(check_fanout, "MOST_QUANTILES", most)
    monkeypatch.setattr(noisy, "MOST_QUANTILES", most)
    seen = []
    for people in (401, 400):
        with opened(people, listed=listed) as session:
            try:
                answer = session.query(sql).to_arrow()
                seen.append((answer.schema.names, answer.num_rows, session.spent))
            except shoal.ShoalError as error:
                seen.append((error.to_dict(), session.spent))
                # nobody is suspended
                assert len(session.query(f"{CLAUSE} COUNT(*) AS n FROM visits")) == 1
    assert seen[0] == seen[1]
    return seen[0]


def test_listed_groups_with_too_many_quantiles_are_refused_for_nothing(monkeypatch):
    told, spent = faces(monkeypatch, 43, listed=True)
    assert told["code"] == "E_LIMITS"
    assert "4 listed groups with 11 quantiles each" in told["message"]
    assert spent == (0.0, 0.0)


def test_groups_that_were_released_end_the_query_charged_and_suspend_nobody(monkeypatch):
    told, spent = faces(monkeypatch, 43, listed=False)
    assert told["code"] == "E_LIMITS"
    assert spent[0] == 10.0


@pytest.mark.parametrize("listed", [True, False])
def test_as_many_as_allowed_are_answered(monkeypatch, listed):
    assert faces(monkeypatch, 44, listed=listed)[1] == 4


def test_several_lists_count_together(monkeypatch):
    both = LISTS.replace("AS q", "AS q, APPROX_QUANTILES(x, 4) AS r")
    assert faces(monkeypatch, 63, listed=True, sql=both)[0]["code"] == "E_LIMITS"
    assert faces(monkeypatch, 64, listed=True, sql=both)[1] == 4
