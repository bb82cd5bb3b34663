"""The hostile corpus, neighbours and a planted failure, asked of a PostgreSQL server: the same verdicts, the same charge."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from postgres_tables import write
from questions import suspends_after_one_failure

import shoal
from shoal.engines.postgresql import engine

sys.path.append(str(Path(__file__).parent.parent / "hostile"))
import nasty_data
from corpus import ANSWERED, REFUSED
from oracles import face_of
from test_corpus import HIDDEN, opened, tables_with_a_secret

SCHEMAS = ("everybody", "without", "nothing")


@pytest.fixture(scope="module")
def servers(postgres_database):
    """Sessions over the data, the data without owner 7, and no data at all."""
    url, connection = postgres_database
    tables = tables_with_a_secret()
    sessions = {}
    for schema, data in zip(SCHEMAS, (tables, nasty_data.without(tables), nasty_data.nothing_at_all()), strict=True):
        connection.execute(f"CREATE SCHEMA {schema}")
        for name, table in data.items():
            write(connection, f"{schema}.{name}", table)
        listed = {name: {**entry, "source": f"{schema}.{name}"} for name, entry in nasty_data.CATALOG["tables"].items()}
        sessions[schema] = shoal.connect(url, catalog={**nasty_data.CATALOG, "tables": listed})
    yield sessions
    for session in sessions.values():
        session.close()


@pytest.mark.slow
def test_all_hostile_queries_are_refused_as_by_the_embedded_engine_whatever_the_data(servers):
    with opened(tables_with_a_secret()) as here:
        for case in REFUSED:
            assert {face_of(session, case.sql) for session in servers.values()} == {face_of(here, case.sql)}, case.name


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_the_others_are_answered_with_the_same_face_on_neighbours(servers, part):
    """The embedded engine shows one face on both (`test_corpus`), so one of them is asked here; both in the first part."""
    with opened(tables_with_a_secret()) as here:
        for number, case in enumerate(ANSWERED[part::5]):
            asked = SCHEMAS[:2] if part == 0 else [SCHEMAS[number % 2]]
            assert {face_of(servers[schema], case.sql) for schema in asked} == {face_of(here, case.sql)}, case.name


def test_some_of_the_corpus_gets_the_verdicts_of_the_embedded_engine(servers):
    with opened(tables_with_a_secret()) as here:
        for case in (*REFUSED[::23], *ANSWERED[::15]):
            expected = face_of(here, case.sql)
            faces = {face_of(servers[schema], case.sql) for schema in SCHEMAS[:2]}
            assert faces == {expected}, case.name
            assert HIDDEN not in expected[0]
            assert not re.search(r"31337|postgres|libpq|adbc|Error:|Traceback", expected[0].replace(case.sql, ""))


def test_a_failure_on_the_server_is_told_once_and_then_the_user_is_suspended(postgres_database):
    url, connection = postgres_database
    connection.execute("CREATE TABLE people AS SELECT g AS uid, g * 100 AS income FROM generate_series(0, 49) g")
    sql = "SELECT uid, income, 1 / (income - 1200) AS y FROM public.people"
    catalog = {"tables": {"people": {"owner": "uid", "view": sql, "trusted_view": True}}}
    with shoal.connect(url, catalog, budget=(3, 1e-6)) as session:
        suspends_after_one_failure(session, "people")


def test_a_server_that_dies_under_a_query_leaves_it_charged_with_one_sentence(postgres_database, monkeypatch):
    url, connection = postgres_database
    connection.execute("CREATE TABLE walkers AS SELECT g AS uid FROM generate_series(0, 49) g")
    count = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM walkers"
    with shoal.connect(url, {"tables": {"walkers": {"owner": "uid"}}}, budget=(3, 1e-6)) as session:
        kind = type(session._engine)
        load = kind._load

        def killed(self, needs):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shoal'"
            )
            return load(self, needs)

        monkeypatch.setattr(kind, "_load", killed)
        with pytest.raises(shoal.ShoalError) as caught:
            session.query(count)
        assert caught.value.code == "E_EXECUTION"
        assert "terminat" not in str(caught.value)
        assert session.spent[0] == pytest.approx(1)


LONG_ROWS = """
CREATE SCHEMA {0};
CREATE TABLE {0}.writers AS SELECT g AS uid, g * 100 AS income, 'a' AS first, 'b' AS second FROM generate_series(0, 49) g
WHERE g <> 7 OR '{0}' = 'long_there';
UPDATE {0}.writers SET first = repeat('x', 2000000), second = repeat('y', 65537) WHERE uid = 7;
"""


def test_strings_that_no_query_reads_stay_on_the_server(postgres_database, monkeypatch):
    """Two strings of 600 MB in one row cannot be sent: the query failed exactly if its condition held for their owner."""
    url, connection = postgres_database
    arrived, faces = [], []
    insert = engine._insert

    def seen(database, statement, batch):
        arrived.append(batch.nbytes)
        insert(database, statement, batch)

    monkeypatch.setattr(engine, "_insert", seen)
    for schema in ("long_there", "long_gone"):
        connection.execute(LONG_ROWS.format(schema))
        catalog = {"tables": {"writers": {"owner": "uid", "source": f"{schema}.writers"}}}
        with shoal.connect(url, catalog) as session:
            faces.append(
                face_of(
                    session,
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM writers "
                    "WHERE income > 600 AND income <= 700 AND first || second <> 'c'",
                )
            )
    assert faces[0] == faces[1]
    assert faces[0][0] == "answered"
    assert arrived
    assert max(arrived) < 1000


def test_a_server_that_went_away_costs_nothing_and_one_that_came_back_is_asked(postgres_server, postgres_database):
    """The last test of this server's module: stopping it ends everybody's connections."""
    _, control, start, stop = postgres_server
    url, connection = postgres_database
    connection.execute("CREATE TABLE sleepers AS SELECT g AS uid FROM generate_series(0, 49) g")
    count = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM sleepers"
    catalog = {"tables": {"sleepers": {"owner": "uid"}}}
    with shoal.connect(url, catalog, budget=(3, 1e-6)) as session:
        control(*stop)
        try:
            with pytest.raises(shoal.ShoalError, match="Nothing was charged") as caught:
                session.query(count)
            assert caught.value.code == "E_SOURCE"
            assert caught.value.__context__ is None
            assert not session._engine.is_alive()
            with pytest.raises(shoal.ShoalError, match="cannot be reached"):
                shoal.connect(url, catalog)
            assert session.spent == (0.0, 0.0)
        finally:
            control(*start)
        assert len(session.query(count)) == 1
        assert session.spent[0] == pytest.approx(1)
