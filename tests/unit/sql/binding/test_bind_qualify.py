"""QUALIFY: windows are computed beside the columns of FROM, and rows filtered by them; nothing is dropped in silence."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect

PLACE = "ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day)"


@pytest.fixture(scope="module")
def session():
    visits = pa.table({"uid": [1, 1, 1, 2, 2, 3], "day": [3, 1, 2, 9, 8, 5], "site": list("abcdef")})
    places = pa.table({"name": list("wxyz"), "height": [4, 3, 2, 1]})
    tables = {"visits": {"owner": "uid"}, "places": {"public": True}}
    return connect({"visits": visits, "places": places}, catalog={"tables": tables})


@pytest.mark.parametrize(
    "rows",
    [
        f"SELECT uid, site FROM visits QUALIFY {PLACE} = 1",
        f"SELECT uid, {PLACE} AS place FROM visits QUALIFY place = 1",
        f"SELECT uid, {PLACE} + 1 AS place FROM visits QUALIFY place < 3 AND day > 0",
    ],
)
def test_rows_are_kept_by_a_window_over_their_owner(session, rows):
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e6) COUNT(*) AS n FROM ({rows})"
    assert session.query(sql).to_dicts() == [{"n": 3}]


def test_columns_that_are_not_shown_can_still_be_sorted_by(session):
    sql = "SELECT name FROM places QUALIFY RANK() OVER (ORDER BY name) <= 3 ORDER BY height"
    assert [row["name"] for row in session.query(sql).to_dicts()] == ["y", "x", "w"]


def test_a_column_of_from_comes_before_an_alias_of_the_same_name(session):
    sql = "SELECT name, RANK() OVER (ORDER BY name) AS height FROM places QUALIFY height = 4"
    assert session.query(sql).to_dicts() == [{"name": "w", "height": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT name FROM places QUALIFY RANK() OVER (ORDER BY name) = 1",
        "SELECT name, COUNT(*) FROM places GROUP BY name QUALIFY RANK() OVER (ORDER BY name) = 1",
        "SELECT COUNT(*) FROM places QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1",
    ],
)
def test_beside_distinct_or_groups_it_is_refused_and_not_dropped(session, sql):
    with pytest.raises(ShoalError) as refusal:
        session.query(sql)
    assert refusal.value.code == "E_UNSUPPORTED"


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_column_that_nobody_can_name_breaks_ties_as_well(join):
    """The owner of a line is found through its order, in a column of its own, which is NULL where an order has no line."""
    orders = pa.table({"uid": [1, 1, 1, 2], "order_id": [1, 2, 3, 4], "total": [5.0, 5.0, 7.0, 5.0]})
    lines = pa.table({"order_id": [1, 1, 2], "label": ["a", "a", None]})
    tables = {"orders": {"owner": "uid"}, "lines": {"owner": {"through": "order_id", "to": "orders"}}}
    session = connect({"orders": orders, "lines": lines}, catalog={"tables": tables})
    place = "ROW_NUMBER() OVER (PARTITION BY o.uid ORDER BY total)"
    second = "NTH_VALUE(total, 2) OVER (PARTITION BY o.uid ORDER BY total)"
    rows = f"SELECT o.uid, label, {second} AS w FROM orders o {join} lines l ON o.order_id = l.order_id QUALIFY {place} <= 2"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e6) COUNT(*) AS n FROM ({rows})"
    assert session.query(sql).to_dicts() == [{"n": 2 if join == "JOIN" else 3}]
