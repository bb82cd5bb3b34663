"""Owners that stand in another table, and rows that are their own owners: neighbours differ by one owner, and by nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.catalog import CARRIED_OWNER
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 9)"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 1000))"
SHOP = {
    "tables": {
        "customers": {"owner": "customer_id"},
        "orders": {"owner": "customer_id"},
        "lines": {"owner": {"through": "order_id", "to": "orders"}},
        "returns": {"owner": {"through": "line", "to": "lines", "key": "line_id"}},
        "payments": {"owner": "customer_id", "references": {"order_id": "orders"}},
    }
}
CUSTOMERS = [{"customer_id": c, "country": "DE" if c < 3 else "FR"} for c in range(1, 6)]
ORDERS = [{"order_id": 10 * c + i, "customer_id": c} for c in range(1, 6) for i in range(3)]
LINES = [{"line_id": 10 * o["order_id"] + i, "order_id": o["order_id"], "units": i} for o in ORDERS for i in range(4)]
RETURNS = [{"line": line["line_id"], "why": "late"} for line in LINES if line["units"] == 2]
PAYMENTS = [{"order_id": o["order_id"], "customer_id": o["customer_id"]} for o in ORDERS]


def shop(*, without=None, **changed):
    """A session over the shop, with tables changed or one customer left out everywhere."""
    rows = {
        "customers": CUSTOMERS,
        "orders": ORDERS,
        "lines": LINES,
        "returns": RETURNS,
        "payments": PAYMENTS,
    } | changed
    if without is not None:
        gone = {o["order_id"] for o in ORDERS if o["customer_id"] == without}
        rows = {
            "customers": [r for r in rows["customers"] if r["customer_id"] != without],
            "orders": [r for r in rows["orders"] if r["customer_id"] != without],
            "lines": [r for r in rows["lines"] if r["order_id"] not in gone],
            "returns": [r for r in rows["returns"] if r["line"] // 10 not in gone],
            "payments": [r for r in rows["payments"] if r["customer_id"] != without],
        }
    return shoal.connect({name: pa.Table.from_pylist(part) for name, part in rows.items()}, catalog=SHOP)


def exact(session, sql):
    """(owners, first total) of a query without groups, before noise."""
    select = session.plan(sql).selects[0]
    with session._engine.snapshot(Deadline(60)) as taken:
        found = measure(select, taken, fresh_sampling_key()).measurement
    return int(found.owners.sum()), int(sum(found.totals[0]))


ASKED = {
    "through": (f"{CLAUSE} {COUNT} FROM lines", (5, 60)),
    "a chain": (f"{CLAUSE} {COUNT} FROM returns", (5, 15)),
    "join": (f"{CLAUSE} {COUNT} FROM orders o JOIN lines l ON o.order_id = l.order_id", (5, 60)),
    "comma join": (f"{CLAUSE} {COUNT} FROM orders o, lines l WHERE l.order_id = o.order_id", (5, 60)),
    "using": (f"{CLAUSE} {COUNT} FROM orders JOIN lines USING (order_id)", (5, 60)),
    "siblings": (f"{CLAUSE} {COUNT} FROM lines l JOIN payments p ON l.order_id = p.order_id", (5, 60)),
    "subqueries": (
        f"{CLAUSE} {COUNT} FROM (SELECT order_id AS o FROM orders) a JOIN (SELECT order_id AS l FROM lines) b ON a.o = b.l",
        (5, 60),
    ),
    "semi join": (
        f"{CLAUSE} {COUNT} FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.order_id AND units = 3)",
        (5, 15),
    ),
    "three tables": (
        f"{CLAUSE} {COUNT} FROM customers c JOIN orders o USING (customer_id) JOIN lines l USING (order_id) WHERE country = 'DE'",
        (2, 24),
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_owner_takes_its_own_rows_along_and_no_others(name):
    sql, (owners, rows) = ASKED[name]
    assert exact(shop(), sql) == (owners, rows)
    assert exact(shop(without=1), sql) == (owners - 1, rows - rows // owners)


def test_rows_that_lead_nowhere_belong_to_nobody():
    lost = [*LINES, {"line_id": 1, "order_id": 999, "units": 7}, {"line_id": 2, "order_id": None, "units": 7}]
    with shop(lines=lost) as session:
        assert exact(session, ASKED["through"][0]) == (5, 60)
        outer = f"{CLAUSE} {COUNT} FROM lines l LEFT JOIN orders o ON l.order_id = o.order_id"
        assert exact(session, outer) == (5, 60)


def test_orders_of_nobody_give_nobody_lines():
    nobody = [
        {"order_id": o["order_id"], "customer_id": o["customer_id"] if o["order_id"] != 11 else None} for o in ORDERS
    ]
    with shop(orders=nobody) as session:
        assert exact(session, ASKED["through"][0]) == (5, 56)


def test_a_payment_that_names_another_owner_than_its_order_matches_nothing():
    wrong = [{**p, "customer_id": 5} if p["order_id"] == 10 else p for p in PAYMENTS]
    with shop(payments=wrong) as session:
        assert exact(session, ASKED["siblings"][0]) == (5, 56)


def test_an_outer_join_keeps_its_rows_although_owners_are_compared():
    one_less = [line for line in LINES if line["order_id"] != 10]
    with shop(lines=one_less) as session:
        outer = f"{CLAUSE} {COUNT} FROM orders o LEFT JOIN lines l ON o.order_id = l.order_id"
        assert exact(session, outer) == (5, 57)


def test_a_reference_to_what_is_no_key_is_refused_when_a_session_opens():
    with pytest.raises(shoal.ShoalError) as refused:
        shop(orders=[*ORDERS, {"order_id": 10, "customer_id": 5}])
    assert refused.value.code == "E_CATALOG"
    assert "not a key" in str(refused.value)


def test_tables_are_joined_along_references_and_not_otherwise():
    with shop() as session:
        for condition in ("o.order_id = l.units", "o.customer_id = l.order_id", "o.order_id < l.order_id", "TRUE"):
            with pytest.raises(shoal.ShoalError) as refused:
                session.plan(f"{CLAUSE} {COUNT} FROM orders o JOIN lines l ON {condition}")
            assert refused.value.code == "E_JOIN_NOT_ON_UID"
        with pytest.raises(shoal.ShoalError):
            session.plan(f"{CLAUSE} {COUNT} FROM orders o JOIN lines l ON o.order_id = l.order_id OR l.units = 1")


def test_groups_of_orders_are_those_of_their_owners_even_where_the_catalog_is_wrong():
    # One owner fewer takes that owner's groups away, and nothing else. A payment's reference says nothing about its owner.
    sql = f"{CLAUSE} {COUNT} FROM (SELECT order_id, SUM(units) AS n FROM lines GROUP BY order_id) AS t"
    joined = (
        f"{CLAUSE} {COUNT} FROM (SELECT l.order_id, COUNT(*) AS n FROM lines l JOIN payments p ON l.order_id = p.order_id "
        "GROUP BY l.order_id) AS t"
    )
    for asked in (sql, joined):
        with shop() as session, shop(without=1) as fewer:
            assert exact(session, asked) == (5, 15)
            assert exact(fewer, asked) == (4, 12)
    shared = [{"order_id": 10, "customer_id": c} for c in (1, 2)]
    with shop(payments=[*PAYMENTS, shared[1]]) as session:
        per_order = f"{CLAUSE} {COUNT} FROM (SELECT order_id, COUNT(*) AS n FROM payments GROUP BY order_id) AS t"
        with pytest.raises(shoal.ShoalError):
            exact(session, per_order)


def test_a_join_along_a_reference_that_forgets_the_owners_is_found(monkeypatch):
    monkeypatch.setattr("shoal.rewrite.check_ownership._comparing_owners", lambda node, *_: node)
    with shop() as session, pytest.raises(shoal.InternalError):
        session.plan(ASKED["join"][0])


def test_no_query_speaks_of_an_owner_that_is_carried():
    with shop() as session:
        for sql in (f'SELECT "{CARRIED_OWNER}" FROM lines', f'{CLAUSE} COUNT(DISTINCT "{CARRIED_OWNER}") FROM lines'):
            with pytest.raises(shoal.ShoalError) as refused:
                session.plan(sql)
            assert refused.value.code in {"E_UNKNOWN_COLUMN", "E_NO_DP_CLAUSE"}
        assert CARRIED_OWNER not in session.tables()["lines"]["columns"]


# ---- each row ------------------------------------------------------------------------------------------------------

ROWS = [
    {"age": 30, "name": "a"},
    {"age": 30, "name": "a"},
    {"age": 30, "name": "a"},
    {"age": None, "name": "3:a"},
    {"age": None, "name": None},
    {"age": 1, "name": "1:a"},
    {"age": 11, "name": ":a"},
]


def names_of(rows):
    with shoal.connect(
        {"people": pa.Table.from_pylist(rows)}, catalog={"tables": {"people": {"owner": "each row"}}}
    ) as session:
        return [
            row for batch in session._engine.columns("people", [CARRIED_OWNER]) for row in batch.column(0).to_pylist()
        ]


def test_every_row_has_a_name_of_its_own():
    assert len(set(names_of(ROWS))) == len(ROWS)


@pytest.mark.parametrize("gone", range(len(ROWS)))
def test_without_one_row_all_others_keep_their_names(gone):
    before, after = set(names_of(ROWS)), set(names_of(ROWS[:gone] + ROWS[gone + 1 :]))
    assert after < before
    assert len(before - after) == 1


def test_names_do_not_depend_on_the_order_of_rows():
    assert set(names_of(ROWS)) == set(names_of(ROWS[::-1]))


def test_a_row_is_in_one_group_and_joined_with_public_tables_only():
    tables = {"people": {"owner": "each row"}, "visits": {"owner": "uid"}, "ages": {"public": True}}
    source = {
        "people": pa.Table.from_pylist(ROWS),
        "visits": pa.table({"uid": [1], "age": [30]}),
        "ages": pa.table({"age": [1, 11, 30], "old": [False, False, True]}),
    }
    with shoal.connect(source, catalog={"tables": tables}) as session:
        plan = session.plan(f"{CLAUSE} old, COUNT(*) FROM people JOIN ages USING (age) GROUP BY old").selects[0]
        assert plan.contribution.max_groups == 1
        assert not plan.histograms
        for other in ("visits", "people"):
            with pytest.raises(shoal.ShoalError) as refused:
                session.plan(f"{CLAUSE} COUNT(*) FROM people a JOIN {other} b ON a.age = b.age")
            assert refused.value.code == "E_JOIN_NOT_ON_UID"


@pytest.mark.parametrize(
    "table",
    [
        {"owner": {"through": "order_id", "to": "nowhere"}},
        {"owner": {"through": "order_id", "to": "lookup"}},
        {"owner": {"through": "order_id"}},
        {"owner": {"through": "x", "to": "self"}},
        {"owner": {"through": "order_id", "to": "orders", "other": 1}},
        {"owner": {"through": "order_id", "to": "orders"}, "owner_kind": "person"},
        {"owner": "each row", "owner_kind": "person"},
        {"owner": "each row", "max_rows_per_owner_and_group": 3},
        {"public": True, "references": {"order_id": "orders"}},
        {"owner": "uid", "references": ["order_id"]},
    ],
)
def test_a_catalog_that_leads_nowhere_is_refused(table):
    tables = {"orders": {"owner": "customer_id"}, "lookup": {"public": True}, "self": table}
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.Catalog.from_dict({"tables": tables})
    assert refused.value.code == "E_CATALOG"
