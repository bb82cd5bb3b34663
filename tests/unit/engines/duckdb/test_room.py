"""How many rows are read at most, where that is known before they are read."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.engines.deadline import Deadline
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.room import rows_at_most
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


def rows_of(session, rest):
    engine = session._engine
    return rows_at_most(query_of(session, rest).input, engine._sources, engine._frames, engine._connection)


@pytest.mark.parametrize(
    ("rest", "rows"),
    [
        (f"{COUNT} FROM t", 100),
        (f"k, {COUNT} FROM t WHERE k > 1 GROUP BY k", 100),
        (f"word, {COUNT} FROM t GROUP BY word", 100),
        (f"{COUNT} FROM v", 0),
        (f"t.k, {COUNT} FROM t JOIN w ON t.uid = w.uid GROUP BY t.k", 0),
        (f"k, {COUNT} FROM (SELECT uid, k, COUNT(*) AS m FROM t GROUP BY uid, k) GROUP BY k", 0),
    ],
)
def test_the_number_of_rows_is_known_for_one_stored_table(session, rest, rows):
    assert rows_of(session, rest) == rows


def test_frames_know_how_many_rows_they_have():
    with shoal.connect({"t": pa.table({"uid": [1, 2, 3]})}, {"tables": {"t": {"owner": "uid"}}}) as session:
        assert rows_of(session, f"{COUNT} FROM t") == 3


def limits_seen(session, monkeypatch):
    """The memory limit before and after somebody sets another one, and how often it was asked for."""
    engine, asked = session._engine, []
    run = type(engine)._table
    monkeypatch.setattr(type(engine), "_table", lambda self, tree: asked.append(tree) or run(self, tree))
    return engine._memory_limit(), engine, asked


def test_the_memory_limit_of_a_connection_that_was_handed_in_is_asked_for_every_time(session, monkeypatch):
    before, engine, asked = limits_seen(session, monkeypatch)
    engine._connection.execute("SET memory_limit = '300 MiB'")
    assert engine._memory_limit() == 300 * 2**20 != before
    assert len(asked) == 2


def test_the_memory_limit_of_our_own_database_is_locked_and_asked_for_once(monkeypatch):
    with shoal.connect({"t": pa.table({"uid": [1]})}, catalog={"tables": {"t": {"owner": "uid"}}}) as session:
        before, engine, asked = limits_seen(session, monkeypatch)
        with pytest.raises(duckdb.Error, match="locked"):
            engine._connection.execute("SET memory_limit = '300 MiB'")
        with engine.snapshot(Deadline(60)) as taken:
            assert taken._memory_limit() == engine._memory_limit() == before
    assert len(asked) == 1


def test_an_engine_that_is_told_its_tables_knows_what_one_finds_out_that_looks():
    columns = 'uid BIGINT, "A b""c" DECIMAL(12, 2), t TIMESTAMP, day DATE, word VARCHAR, x FLOAT'
    with duckdb.connect() as connection:
        connection.execute(f'CREATE TABLE "T" ({columns})')
        connection.execute("CREATE TABLE p AS SELECT range AS uid FROM range(7)")
        found = DuckDBEngine(connection, ours=False)
        told = DuckDBEngine(connection, ours=False, tables=["T", "p"])
        assert told.tables() == found.tables()
        assert told._sources == found._sources
        assert told._places == found._places


def test_tables_that_were_filled_are_counted(session):
    engine = session._engine
    for rest, rows in ((f"{COUNT} FROM t", 100), (f"t.k, {COUNT} FROM t JOIN w ON t.uid = w.uid GROUP BY t.k", 0)):
        asked = query_of(session, rest)
        assert rows_at_most(asked.input, engine._sources, engine._frames, engine._connection, is_filled=True) == rows


def test_a_table_of_ours_is_counted_once_and_one_of_others_every_time(session, tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(
        "shoal.engines.duckdb.engine.rows_at_most",
        lambda *about, **more: counted.append(1) or rows_at_most(*about, **more),
    )
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS uid FROM range(70)")
    with shoal.connect(tmp_path / "t.duckdb", {"tables": {"t": {"owner": "uid"}}}) as ours:
        for _ in range(3):
            with ours._engine.snapshot(Deadline(60)) as engine:
                assert engine._rows_at_most(query_of(ours, f"{COUNT} FROM t").input) == 70
    assert len(counted) == 1
    asked = query_of(session, f"{COUNT} FROM t").input
    assert session._engine._rows_at_most(asked) == 100
    session._engine._handed.execute("INSERT INTO t SELECT * FROM t")
    assert session._engine._rows_at_most(asked) == 200
    assert len(counted) == 3


def test_joins_are_not_taken_for_a_table_that_was_counted(session):
    joined = query_of(session, f"t.k, {COUNT} FROM t JOIN w ON t.uid = w.uid GROUP BY t.k").input
    for asked, rows in ((f"{COUNT} FROM t", 100), (f"{COUNT} FROM v", 0)):
        assert session._engine._rows_at_most(query_of(session, asked).input) == rows
        assert session._engine._rows_at_most(joined) == 0
