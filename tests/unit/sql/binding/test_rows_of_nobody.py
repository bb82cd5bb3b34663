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


@pytest.mark.parametrize("owner", ["uid", "each row"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tag, COUNT(*) AS n FROM t, UNNEST(SPLIT(tags, '; ')) AS tag GROUP BY tag",
        "SELECT UNNEST(STRING_SPLIT(tags, '; ')) AS tag, COUNT(*) AS n FROM t GROUP BY tag",
        "SELECT tag, COUNT(*) AS n FROM (SELECT UNNEST(STRING_SPLIT(tags, '; ')) AS tag FROM t) GROUP BY tag",
        "SELECT p.tag, COUNT(*) AS n FROM t JOIN kinds USING (kind), UNNEST(SPLIT(tags, '; ')) AS p(tag) GROUP BY 1",
    ],
)
def test_a_private_text_is_cut_up(owner, sql):
    rows = pa.table(
        {"uid": range(300), "kind": [1] * 300, "tags": ["a; b", "b", "a; b; c"] * 100},
    )
    session = connect(
        {"t": rows, "kinds": pa.table({"kind": [1]})},
        catalog={
            "tables": {"t": {"owner": owner}, "kinds": {"public": True}},
            "defaults": {"epsilon": 10**6, "delta": 1e-3, "max_groups_per_owner": 3},
        },
    )
    assert {row["tag"]: row["n"] for row in session.query(sql).to_dicts()} == {"a": 200, "b": 300, "c": 100}


def test_the_parts_of_one_owner_count_in_as_many_groups_as_others():
    """Somebody with a long list of her own adds one to as many groups as the limit says, and no more."""
    others = ["a", "b", "c", "d"]
    rows = pa.table({"uid": range(101), "tags": ["|".join(others)] + [others[n % 4] for n in range(100)]})
    session = connect(
        {"t": rows},
        catalog={
            "tables": {"t": {"owner": "uid"}},
            "defaults": {"epsilon": 10**6, "delta": 1e-3, "max_groups_per_owner": 2},
        },
    )
    answer = session.query("SELECT UNNEST(SPLIT(tags, '|')) AS tag, COUNT(*) AS n FROM t GROUP BY tag").to_dicts()
    assert sorted(row["n"] for row in answer) == [25, 25, 26, 26]


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
