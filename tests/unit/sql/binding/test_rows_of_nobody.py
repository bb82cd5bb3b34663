"""Joins as tutorials write them: public rows without a match, and texts of public tables cut into parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect

OWNERS = 400
TABLES = {
    "ratings": pa.table(
        {"uid": [n for n in range(OWNERS) for _ in range(2)], "film": [f for _ in range(OWNERS) for f in (1, 2)]}
    ),
    "films": pa.table({"film": [1, 2, 3], "title": ["A", "B", "C"], "genres": ["x|y", "y", "z"]}),
}
CATALOG = {
    "tables": {"ratings": {"owner": "uid", "max_rows_per_owner_and_group": 2}, "films": {"public": True}},
    "defaults": {"epsilon": 1.0, "delta": 1e-6, "max_groups_per_owner": 3},
}


@pytest.fixture(scope="module")
def session():
    return connect(TABLES, catalog=CATALOG)


def counts(session, sql):
    answer = session.query(sql, epsilon=100)
    return {row["k"]: round(row["n"] / 10) * 10 for row in answer.to_dicts()}, " ".join(map(str, answer.notes))


@pytest.mark.parametrize(
    "joined",
    ["films f LEFT JOIN ratings r ON f.film = r.film", "ratings r RIGHT JOIN films f ON f.film = r.film"],
)
def test_public_rows_without_a_match_are_left_out_and_that_is_said(session, joined):
    found, notes = counts(session, f"SELECT f.title AS k, COUNT(r.uid) AS n FROM {joined} GROUP BY f.title")
    assert found == {"A": 400, "B": 400, "C": 0}
    assert "Rows of films without a match belong to nobody" in notes


def test_a_full_join_keeps_private_rows(session):
    joined = "ratings r FULL JOIN films f ON f.film = r.film AND f.title = 'A'"
    found, _ = counts(session, f"SELECT r.film AS k, COUNT(*) AS n FROM {joined} GROUP BY 1")
    assert found == {1: 400, 2: 400}


@pytest.mark.parametrize(
    "condition", ["r.uid IS NULL", "COALESCE(r.film, 0) = 0", "CASE WHEN r.film > 0 THEN FALSE ELSE TRUE END"]
)
def test_who_asks_for_rows_without_a_match_is_refused(session, condition):
    with pytest.raises(ShoalError) as refused:
        session.query(f"SELECT COUNT(*) FROM films f LEFT JOIN ratings r ON f.film = r.film WHERE {condition}")
    assert refused.value.code == "E_UID_LOST"


def test_with_the_clause_nothing_changes(session):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
    with pytest.raises(ShoalError) as refused:
        session.plan(f"{clause} COUNT(*) FROM films f LEFT JOIN ratings r ON f.film = r.film")
    assert refused.value.code == "E_UID_LOST"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(*) AS n FROM (SELECT uid, UNNEST(SPLIT(genres, '|')) AS k FROM {joined}) GROUP BY 1",
        "SELECT UNNEST(STRING_TO_ARRAY(genres, '|')) AS k, COUNT(*) AS n FROM {joined} GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM ratings r JOIN films f ON r.film = f.film, UNNEST(SPLIT(f.genres, '|')) AS k GROUP BY k",
        "SELECT g.k, COUNT(*) AS n FROM {joined} CROSS JOIN UNNEST(SPLIT(genres, '|')) AS g(k) GROUP BY 1",
        "SELECT k, COUNT(*) AS n FROM {joined} JOIN LATERAL UNNEST(SPLIT(genres, '|')) AS g(k) ON TRUE GROUP BY 1",
    ],
)
def test_parts_of_a_public_text_are_groups_of_private_rows(session, sql):
    found, _ = counts(session, sql.format(joined="ratings JOIN films USING (film)"))
    assert found == {"x": 400, "y": 800}


def test_a_private_text_is_not_cut_up():
    rows = pa.table({"uid": [1, 2], "tags": ["a|b", "c"]})
    session = connect({"t": rows}, catalog={"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1.0}})
    with pytest.raises(ShoalError) as refused:
        session.query("SELECT tag, COUNT(*) FROM t, UNNEST(SPLIT(tags, '|')) AS tag GROUP BY tag")
    assert refused.value.code == "E_UNSUPPORTED"
    assert "public" in refused.value.message


def test_a_private_list_of_other_people_is_named_where_it_is_joined():
    tables = {
        "orders": pa.table({"customer": [1], "employee": [7]}),
        "employees": pa.table({"employee": [7], "name": ["x"]}),
    }
    catalog = {
        "tables": {
            "orders": {"owner": "customer"},
            "employees": {"owner": "employee", "one_row_per_owner": True},
        },
        "defaults": {"epsilon": 1.0, "delta": 1e-6},
    }
    session = connect(tables, catalog=catalog)
    with pytest.raises(ShoalError) as refused:
        session.query("SELECT name, COUNT(*) FROM employees e JOIN orders o ON e.employee = o.employee GROUP BY 1")
    assert "If employees needs no protection" in (refused.value.hint or "")
