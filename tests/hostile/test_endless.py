"""Queries that would not end, and connections that are busy: stopped, told apart from answers once, and nobody waits."""

from __future__ import annotations

import threading
import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import CLOCK_FACTOR, Deadline

PEOPLE = pa.table({"uid": np.arange(2_000), "age": np.arange(2_000) % 80})
CATALOG = {"tables": {"people": {"owner": "uid"}}}
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM people"
ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range < 0"


def test_a_statement_that_never_ends_is_interrupted():
    connection = duckdb.connect()
    deadline = Deadline(0.3)
    with deadline.stops(connection.interrupt), pytest.raises(duckdb.InterruptException):
        connection.sql(ENDLESS).fetchall()
    with pytest.raises(EngineFailure):
        deadline.check()


def test_waiting_on_the_clock_has_four_times_as_long():
    deadline = Deadline(0.2)
    stopped = threading.Event()
    before = time.monotonic()
    with deadline.stops(stopped.set):
        assert stopped.wait(300)
    assert time.monotonic() - before >= CLOCK_FACTOR * 0.2
    assert deadline.passed


def test_processor_time_is_shared_by_the_queries_that_run():
    one, other = Deadline(100), Deadline(100)
    one.spend(60)
    other.spend(10)
    assert not one.passed
    one.spend(60)
    assert (one.passed, other.passed) == (True, False)


def test_two_queries_of_two_threads_do_not_wait_for_each_other():
    """One query holds its snapshot open until the other one has been answered."""
    session = shoal.connect({"people": PEOPLE}, catalog=CATALOG)
    answered = []
    with session._engine.snapshot(Deadline(60)):
        asking = threading.Thread(target=lambda: answered.append(session.query(COUNT).to_dicts()))
        asking.start()
        asking.join(300)
    assert len(answered) == 1


@pytest.mark.parametrize("leave_unread", [False, True])
def test_a_connection_with_an_unread_result_is_no_trouble(leave_unread):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS uid, range % 80 AS age FROM range(2000)")
    if leave_unread:
        connection.execute("SELECT * FROM range(10000000)")
    session = shoal.connect(connection, catalog=CATALOG)
    connection.execute("SELECT * FROM range(10000000)")
    assert session.query(COUNT).to_dicts()[0]["n"] == pytest.approx(2_000, abs=60)
    assert connection.fetchone() == (0,)


def test_temporary_tables_are_read_on_the_connection_that_has_them():
    connection = duckdb.connect()
    connection.execute("CREATE TEMP TABLE people AS SELECT range AS uid, range % 80 AS age FROM range(2000)")
    session = shoal.connect(connection, catalog=CATALOG, budget=(3, 1e-6))
    assert session.query(COUNT).to_dicts()[0]["n"] == pytest.approx(2_000, abs=60)
    connection.execute("SELECT * FROM range(10000000)")
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(COUNT)
    assert refused.value.code == "E_SOURCE"
    assert session.spent[0] == 1
    connection.fetchall()
    assert session.query(COUNT).to_dicts()


def test_all_statements_of_a_query_see_one_state_of_the_data(tmp_path):
    connection = duckdb.connect(str(tmp_path / "shop.duckdb"))
    connection.execute("CREATE TABLE people AS SELECT range AS uid, range % 80 AS age FROM range(2000)")
    session = shoal.connect(connection, catalog=CATALOG)
    plan = session.plan(COUNT)
    with session._engine.snapshot(Deadline(60)) as taken:
        before = taken._connection.sql("SELECT count(*) FROM people").fetchall()
        connection.execute("DELETE FROM people WHERE uid < 1000")
        assert taken._connection.sql("SELECT count(*) FROM people").fetchall() == before == [(2_000,)]
    assert plan.selects


def test_a_session_answers_again_after_a_query_was_stopped(monkeypatch):
    session = shoal.connect({"people": PEOPLE}, catalog={**CATALOG, "defaults": {"max_seconds_per_query": 5}})
    engine = session._engine
    with engine.snapshot(Deadline(0.3)) as taken, pytest.raises(duckdb.InterruptException):
        taken._connection.sql(ENDLESS).fetchall()
    assert session.query(COUNT).to_dicts()


def test_a_session_that_ran_out_of_memory_answers_again_once_it_may():
    """No failure is planted: 180 MB of texts that are to be told apart do not fit into 60."""
    connection = duckdb.connect(config={"memory_limit": "60MB", "temp_directory": ""})
    connection.execute("CREATE TABLE people AS SELECT range AS uid, range % 80 AS age FROM range(20000)")
    session = shoal.connect(connection, catalog=CATALOG, budget=(10, 1e-5), user="ann")
    text = "REPEAT(REPEAT('x', 100), 90) || CAST(uid AS VARCHAR)"
    with pytest.raises(shoal.ShoalError, match="E_EXECUTION"):
        session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT {text}) AS n FROM people")
    session.ledger.lift("ann", because="the text was too long")
    for _ in range(3):
        assert session.query(COUNT).to_dicts()[0]["n"] == pytest.approx(20_000, abs=30)
