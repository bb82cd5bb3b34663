"""An average over the numbers of events: grouped by owner too where the catalog knows the number, else refused with a hint."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.errors import ShoalError

ORDERS, LINES = 120, 360
TABLES = {
    "orders": pa.table(
        {
            "order_id": list(range(ORDERS)),
            "customer_id": [n // 3 for n in range(ORDERS)],
            "trip_id": [n // 2 for n in range(ORDERS)],
            "freight": [2.0] * ORDERS,
        }
    ),
    "lines": pa.table(
        {
            "order_id": [n // 3 for n in range(LINES)],
            "invoice_no": [n // 9 for n in range(LINES)],
            "price": [5.0] * LINES,
        }
    ),
}
CATALOG = {
    "tables": {"orders": {"owner": "customer_id"}, "lines": {"owner": {"through": "order_id", "to": "orders"}}},
    "defaults": {"epsilon": 1, "delta": 1e-6},
}
TOTALS = "SELECT order_id, SUM(price) AS s FROM lines GROUP BY order_id"
JOINED = "SELECT o.order_id, SUM(price) AS s FROM orders o JOIN lines l ON o.order_id = l.order_id GROUP BY 1"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"


@pytest.fixture(scope="module")
def session():
    return shoal.connect(TABLES, catalog=CATALOG)


@pytest.mark.parametrize(
    ("inner", "hint", "followed"),
    [
        (
            "trip_id, SUM(freight) AS s FROM orders GROUP BY trip_id",
            "Add customer_id to",
            "customer_id, trip_id, SUM(freight) AS s FROM orders GROUP BY trip_id, customer_id",
        ),
        (
            "invoice_no, SUM(price) AS s FROM lines GROUP BY invoice_no",
            "Join orders, and add customer_id to",
            "invoice_no, customer_id, SUM(price) AS s FROM lines JOIN orders USING (order_id) GROUP BY invoice_no, customer_id",
        ),
    ],
)
def test_the_hint_names_the_owner_and_can_be_followed(session, inner, hint, followed):
    with pytest.raises(ShoalError) as refused:
        session.plan(f"SELECT AVG(s) FROM (SELECT {inner}) AS t")
    assert refused.value.code == "E_UID_LOST"
    assert refused.value.hint.startswith(hint)
    assert session.plan(f"SELECT AVG(s) FROM (SELECT {followed}) AS t").selects


@pytest.mark.parametrize(
    ("sql", "exact"),
    [
        (f"SELECT AVG(s) AS v FROM ({TOTALS}) AS t", 15.0),
        (f"WITH t AS ({TOTALS}) SELECT AVG(s) AS v FROM t", 15.0),
        (f"SELECT AVG(s) AS v FROM ({JOINED}) AS t", 15.0),
        ("SELECT AVG(s) AS v FROM (SELECT order_id, trip_id, SUM(freight) AS s FROM orders GROUP BY order_id, trip_id) AS t", 2.0),
        (f"SELECT COUNT(*) AS v FROM orders WHERE order_id IN (SELECT order_id FROM ({TOTALS}) AS t WHERE s > 14)", 120.0),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100, delta = 1e-6) AVG(s) AS v FROM ({TOTALS}) AS t", 15.0),
    ],
)  # fmt: skip
def test_groups_of_a_key_that_the_catalog_knows_are_grouped_by_owner_too(session, sql, exact):
    given = {} if "OPTIONS" in sql else {"epsilon": 100}
    answer = session.query(sql, **given)
    assert answer["v"][0] == pytest.approx(exact, rel=0.15)
    assert any("grouped by the owner, too" in note for note in answer.notes)


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT place, SUM(x) AS s FROM replies GROUP BY place",  # a reference that is not where the owner is
        "SELECT o.order_id, COUNT(*) AS s FROM people p LEFT JOIN orders o ON o.uid = p.uid GROUP BY o.order_id",
    ],
)
def test_other_references_and_missing_keys_have_several_owners(inner):
    tables = {
        "people": pa.table({"uid": [1, 2, 3]}),
        "orders": pa.table({"order_id": [1, 2], "uid": [1, 2]}),
        "replies": pa.table({"uid": [1, 2, 3], "place": [1, 1, 2], "x": [1.0, 2.0, 3.0]}),
    }
    owned = {name: {"owner": "uid"} for name in tables}
    owned["replies"]["references"] = {"place": {"to": "orders", "key": "order_id"}}
    session = shoal.connect(tables, catalog={"tables": owned, "defaults": {"epsilon": 1, "delta": 1e-6}})
    with pytest.raises(ShoalError) as refused:
        session.plan(f"{CLAUSE} COUNT(*) FROM ({inner}) AS t")
    assert refused.value.code == "E_UID_LOST"
