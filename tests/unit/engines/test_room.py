"""What is known of the size of rows before they are read, and that both ways of reading them are taken."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.room import size_of_rows
from shoal.release.resolve_bounds import resolve, totals_query

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 9) "
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
CATALOG = {"tables": {name: {"owner": "uid"} for name in ("t", "v", "w")}}


@pytest.fixture
def session():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT range % 10 AS uid, range % 3 AS k, 'x' AS word FROM range(100)")
        connection.execute("CREATE TABLE w AS SELECT * FROM t")
        connection.execute("CREATE VIEW v AS SELECT * FROM t")
        with shoal.connect(connection, CATALOG) as opened:
            yield opened


def query_of(session, rest):
    select = session.plan(PRIVATE + rest).selects[0]
    return totals_query(select, tuple(task for task, *_ in (resolve(release, ()) for release in select.releases)))


def size_of(session, rest):
    engine = session._engine
    return size_of_rows(query_of(session, rest), engine._sources, engine._frames, engine._connection)


@pytest.mark.parametrize(
    ("rest", "size"),
    [
        (f"{COUNT} FROM t", 900),
        (f"k, {COUNT} FROM t WHERE k > 1 GROUP BY k", 1800),
        (f"k, SUM(k, contribution_bounds_per_group => (0, 9)), {COUNT} FROM t GROUP BY k", 2700),
        (f"word, {COUNT} FROM t GROUP BY word", None),
        (f"{COUNT} FROM v", None),
        (f"t.k, {COUNT} FROM t JOIN w ON t.uid = w.uid GROUP BY t.k", None),
        (f"k, {COUNT} FROM (SELECT uid, k, COUNT(*) AS m FROM t GROUP BY uid, k) GROUP BY k", None),
    ],
)
def test_the_size_is_known_for_numbers_of_one_stored_table(session, rest, size):
    assert size_of(session, rest) == size


def test_frames_know_how_many_rows_they_have():
    with shoal.connect({"t": pa.table({"uid": [1, 2, 3]})}, {"tables": {"t": {"owner": "uid"}}}) as session:
        assert size_of(session, f"{COUNT} FROM t") == 27


@pytest.mark.parametrize(
    ("rest", "at_once", "rows"), [(f"k, {COUNT} FROM t GROUP BY k", True, 100), (f"{COUNT} FROM v", False, 90)]
)
def test_rows_that_fit_are_read_at_once_and_others_as_they_come(session, rest, at_once, rows, monkeypatch):
    streamed, stream = [], DuckDBEngine._rows
    monkeypatch.setattr(DuckDBEngine, "_rows", lambda *all_: streamed.append(1) or stream(*all_))
    assert sum(row["n"] for row in session.query(PRIVATE + rest).to_dicts()) == rows
    assert bool(streamed) is not at_once
