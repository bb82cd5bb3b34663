"""Columns that nobody reads are not written; groups, owners and the one row of an aggregate stay."""

from __future__ import annotations

import pytest

import shoal
from shoal.engines.statements.pruned import pruned, read_input
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.plan.types import INTEGER
from shoal.release.resolve_bounds import totals_query

CATALOG = {
    "tables": {
        "people": {"owner": "uid", "columns": {c: {"type": "BIGINT"} for c in ("uid", "a", "b", "c")}},
        "places": {"public": True, "columns": {c: {"type": "BIGINT"} for c in ("n", "m")}},
    },
    "defaults": {"epsilon": 1, "delta": 1e-6},
}


@pytest.fixture(scope="module")
def session():
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (uid BIGINT, a BIGINT, b BIGINT, c BIGINT)")
    connection.execute("CREATE TABLE places (n BIGINT, m BIGINT)")
    with shoal.connect(connection, CATALOG) as opened:
        yield opened


def columns_of_scans(session, sql):
    """Which stored columns each table is read with."""
    plan = session.plan(f"SELECT COUNT(*, contribution_bounds_per_group => (0, 5)) FROM {sql}").selects[0]
    read = read_input(totals_query(plan, ()))
    return {node.table: set(node.columns) for node in all_nodes(read) if isinstance(node, nodes.Scan)}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("people", {"people": {"uid"}}),
        ("people WHERE a > 1", {"people": {"uid", "a"}}),
        ("(SELECT uid, a + b AS x, c FROM people) WHERE x > 1", {"people": {"uid", "a", "b"}}),
        ("(SELECT uid, a, MAX(b) AS x FROM people GROUP BY uid, a)", {"people": {"uid", "a"}}),
        ("(SELECT DISTINCT uid, a FROM people)", {"people": {"uid", "a"}}),
        ("people JOIN places ON n = a", {"people": {"uid", "a"}, "places": {"n"}}),
        ("people WHERE EXISTS (SELECT m FROM places WHERE n > 1)", {"people": {"uid"}, "places": {"m", "n"}}),
        ("people WHERE a IN (SELECT m FROM places)", {"people": {"uid", "a"}, "places": {"m"}}),
    ],
)
def test_tables_are_read_with_the_columns_that_decide(session, sql, expected):
    assert columns_of_scans(session, sql) == expected


def test_an_aggregate_without_keys_keeps_its_one_row():
    scan = nodes.Scan("t", (nodes.Field("n", "n", INTEGER),), ("n",))
    counted = nodes.Aggregate(
        scan, (), ((nodes.Field("c", "c", INTEGER), nodes.RowAggregate("count_star", (), INTEGER)),)
    )
    assert pruned(counted, ()).aggregates == counted.aggregates
