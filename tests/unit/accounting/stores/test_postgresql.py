"""A ledger in PostgreSQL: what only a server can do to it. What every store must do is tested with the others."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from fractions import Fraction

import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import Loss
from shoal.accounting.allowances import Allowance
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores.postgresql_server import with_safe_transport
from shoal.accounting.stores.postgresql_tables import grants
from shoal.errors import ShoalError
from shoal.params import Budget

psycopg = pytest.importorskip("psycopg", reason="the extra 'postgresql' is not installed")

TENTH = Loss(Fraction(1, 10), Fraction(0))
ONE = Budget(Fraction(1), Fraction(1, 10**6))


@pytest.fixture
def url(postgres_ledger):
    """A ledger with an answered, a failed and an open charge."""
    ledger = Ledger.create(postgres_ledger, ONE)
    ledger.reserve(TENTH, user="ann", description="SELECT 1", fingerprint="k").commit(b"rows")
    ledger.reserve(TENTH, user="bob").fail()
    ledger.reserve(TENTH, user="cy")
    return postgres_ledger


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "psycopg" not in str(caught.value)
    return caught.value


def name_of(url):
    return url.partition("#")[2]


@contextmanager
def server_of(url):
    with psycopg.connect(url.partition("#")[0], autocommit=True) as connection:
        yield connection


def edit(url, statement):
    """Change tables as the server's administrator can, the triggers out of the way."""
    with server_of(url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(f"{statement} {'AND' if 'WHERE' in statement else 'WHERE'} ledger = '{name_of(url)}'")


TAMPERING = [
    "UPDATE shoal.entries SET epsilon = '0/1' WHERE sequence = 1",
    "UPDATE shoal.entries SET details = '{}x' WHERE sequence = 1",
    "UPDATE shoal.entries SET request = 'r' WHERE sequence = 1",
    "DELETE FROM shoal.entries WHERE sequence = 2",
    "DELETE FROM shoal.entries WHERE sequence = 5",
    "UPDATE shoal.head SET epsilon = '0/1'",
    "UPDATE shoal.head SET budget_epsilon = '9/1'",
    "UPDATE shoal.header SET epsilon = '9/1'",
    'UPDATE shoal.header SET promise = \'{"kind":"local"}\'',
    "DELETE FROM shoal.suspensions",
    "DELETE FROM shoal.running",
    "DELETE FROM shoal.head",
]


@pytest.mark.parametrize("statement", TAMPERING)
def test_tampering_is_found_out(url, statement):
    edit(url, statement)
    assert refusal(Ledger.open, url).code == "E_LEDGER"


def test_tampering_under_a_running_session_is_found_out_by_its_next_spend(url):
    ledger = Ledger.open(url)
    edit(url, "UPDATE shoal.head SET epsilon = '0/1'")
    assert refusal(ledger.reserve, TENTH).code == "E_LEDGER"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shoal.entries SET epsilon = '0/1'",
        "DELETE FROM shoal.entries",
        "TRUNCATE shoal.entries",
        "UPDATE shoal.header SET epsilon = '9/1'",
        "TRUNCATE shoal.header CASCADE",
        "UPDATE shoal.pieces SET body = ''",
        "DELETE FROM shoal.pieces",
        "DELETE FROM shoal.head",
    ],
)
def test_rows_cannot_be_changed_not_even_by_the_administrator_in_passing(url, statement):
    with server_of(url) as connection, pytest.raises(psycopg.errors.RaiseException):
        connection.execute(statement)
    Ledger.open(url)


def test_ledgers_of_one_database_do_not_know_each_other(url, postgres_server):
    other = Ledger.create(f"{postgres_server[0]}#other-{os.getpid()}", ONE)
    assert other.spent == (0, 0)
    assert not other.is_suspended("bob")
    assert Ledger.open(url).spent[0] == Fraction(3, 10)


def test_an_existing_ledger_is_never_replaced_and_a_missing_one_not_made(url, postgres_server):
    assert "already exists" in refusal(Ledger.create, url, ONE).message
    assert "no ledger of this name" in refusal(Ledger.open, f"{postgres_server[0]}#missing").message
    assert refusal(Ledger.open, f"{postgres_server[0]}#mis sing").code == "E_USAGE"
    assert refusal(Ledger.open(url).backup, "copy.db").code == "E_USAGE"


def test_clients_that_make_one_ledger_at_the_same_time_share_it(postgres_ledger):
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(Ledger.create_or_open(postgres_ledger, ONE))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ledger.anchor for ledger in made}) == 1
    assert len(made) == 8


def test_a_session_takes_a_ledger_of_the_database(postgres_ledger):
    catalog = {"tables": {"t": {"owner": "uid"}}}
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25) COUNT(DISTINCT uid) AS n FROM t"
    for _ in range(2):
        table = {"t": pa.table({"uid": [1, 2, 3]})}
        with shoal.connect(table, catalog, budget=(1, 0), ledger=postgres_ledger) as session:
            session.query(sql)
    assert Ledger.open(postgres_ledger).spent[0] == Fraction(1, 2)


def test_a_newer_database_is_said_to_be_that(url):
    with server_of(url) as connection:
        connection.execute("INSERT INTO shoal.migrations VALUES (99)")
        try:
            error = refusal(Ledger.open, url)
            assert "made by a newer shoal" in error.message
            assert "made by a newer shoal" in refusal(Ledger.create, f"{url}x", ONE).message
        finally:
            connection.execute("DELETE FROM shoal.migrations WHERE number = 99")


def test_after_a_failover_the_ledger_is_opened_with_an_anchor_first(url):
    anchor = Ledger.open(url).anchor
    edit(url, "UPDATE shoal.head SET timeline = timeline + 1")
    assert "failed over" in refusal(Ledger.open, url).message
    assert refusal(Ledger.open, url, anchor=(anchor[0], "0" * 64)).code == "E_LEDGER"
    assert "failed over" in refusal(Ledger.open, url).message, "a wrong anchor must not be believed"
    Ledger.open(url, anchor=anchor)
    Ledger.open(url).reserve(TENTH)


def test_a_role_of_a_service_needs_no_more_than_its_grants(url):
    with server_of(url) as connection:
        connection.execute("DROP ROLE IF EXISTS bookkeeper")
        connection.execute("CREATE ROLE bookkeeper LOGIN")
        for statement in grants("bookkeeper"):
            connection.execute(statement)
    as_bookkeeper = f"postgresql://bookkeeper@{url.partition('@')[2]}"
    ledger = Ledger.open(as_bookkeeper)
    ledger.reserve(TENTH, user="dan").commit(b"rows")
    with psycopg.connect(as_bookkeeper.partition("#")[0], autocommit=True) as connection:
        for wrong in (
            "DROP TABLE shoal.entries",
            "DELETE FROM shoal.entries",
            "ALTER TABLE shoal.head DISABLE TRIGGER ALL",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(wrong)


def end_connections(url):
    """As a server does that is started again."""
    ours = "FROM pg_stat_activity WHERE application_name = 'shoal'"
    with server_of(url) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) {ours}")
        while connection.execute(f"SELECT 1 {ours}").fetchall():
            time.sleep(0.01)


def test_a_connection_that_ended_while_nobody_used_it_is_made_anew(url):
    """The first question after every restart of a server was refused."""
    ledger = Ledger.open(url)
    end_connections(url)
    ledger.reserve(TENTH)


def test_a_lost_connection_is_an_error_in_plain_words_and_the_next_call_connects_again(url):
    ledger = Ledger.open(url)

    def lose_it():
        with ledger._store.writing() as transaction:
            end_connections(url)
            transaction.clock()

    before = refusal(lose_it)
    assert (before.code, "cannot be reached" in before.message) == ("E_LEDGER", True)
    ledger.reserve(TENTH)


def test_a_locked_ledger_is_reported(url, monkeypatch):
    monkeypatch.setattr("shoal.accounting.stores.postgresql.LOCK_SECONDS", "0.1")
    ledger = Ledger.open(url)
    with psycopg.connect(url.partition("#")[0]) as other:
        other.execute("SELECT 1 FROM shoal.head WHERE ledger = %s FOR UPDATE", (name_of(url),))
        assert "locked" in refusal(ledger.reserve, TENTH).message
    ledger.reserve(TENTH)


@pytest.mark.slow
def test_a_server_that_does_not_keep_what_it_confirms_is_refused_and_one_that_was_killed_lost_nothing(
    url, postgres_server
):
    _, control, start, stop = postgres_server
    ledger = Ledger.open(url)
    anchor = ledger.anchor
    control(*stop)  # at once, as a crash would
    assert "cannot be reached" in refusal(ledger.reserve, TENTH).message
    careless = [word.replace("listen_addresses=''", "listen_addresses='' -c fsync=off") for word in start]
    try:
        control(*careless)
        assert "fsync" in refusal(Ledger.open, url).message
        control(*stop)
    finally:
        with suppress(subprocess.CalledProcessError):
            control(*start)
    assert Ledger.open(url, anchor=anchor).anchor == anchor
    ledger.reserve(TENTH)


def test_beyond_this_machine_certificates_are_checked():
    assert with_safe_transport("postgresql://u@db.example/x") == "postgresql://u@db.example/x?sslmode=verify-full"
    assert with_safe_transport("postgresql://u@h/x?a=b").endswith("a=b&sslmode=verify-full")
    for local in (
        "postgresql:///x",
        "postgresql://localhost/x",
        "postgresql:///x?host=/run",
        "postgresql://h/x?sslmode=require",
    ):
        assert with_safe_transport(local) == local


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr("shoal.accounting.stores.postgresql_server.find_spec", lambda _: None)
    assert "shoal[postgresql]" in refusal(Ledger.open, "postgresql:///x").hint


def test_operators_that_somebody_put_before_the_servers_own_change_nothing(url):
    """A role whose search path begins with a schema that others write to would compare names as they like."""
    with server_of(url) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS evil")
        connection.execute(
            "CREATE OR REPLACE FUNCTION evil.never(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false'"
        )
        connection.execute("CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.never)")
        role = connection.execute("SELECT current_user").fetchone()[0]
        connection.execute(f'ALTER ROLE "{role}" SET search_path = evil, pg_catalog')
    try:
        ledger = Ledger.open(url)
        assert [entry.state for entry in ledger.entries()] == ["answered", "failed", "reserved"]
        ledger.reserve(TENTH, user="ann").commit()
        assert ledger.spent[0] == Fraction(4, 10)
    finally:
        with server_of(url) as connection:
            connection.execute(f'ALTER ROLE "{role}" RESET search_path')
            connection.execute("DROP SCHEMA evil CASCADE")


@pytest.fixture
def second_role(url):
    """A role that can read the ledgers' tables and add to them, and nothing more."""
    with server_of(url) as connection:
        connection.execute("CREATE ROLE second LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA shoal TO second")
        connection.execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA shoal TO second")
    user = url.partition("://")[2].partition("@")[0]
    yield url.replace(f"//{user}@", "//second@")
    with server_of(url) as connection:
        connection.execute("DROP OWNED BY second; DROP ROLE second")


def test_a_role_that_may_not_spend_is_told_so_and_not_that_the_ledger_is_damaged(url, second_role):
    ledger = Ledger.open(second_role)
    error = refusal(ledger.reserve, TENTH, user="ann")
    assert "role may not" in error.message
    assert "damaged" not in str(error)
    assert Ledger.open(url).spent[0] == Fraction(3, 10)


@pytest.mark.parametrize(
    "forged",
    [
        "accounts VALUES ('{0}', 'ever user:ann', '-100/1', '0/1', '0/1', '0/1')",
        "suspensions VALUES ('{0}', 'ann', 1)",
        (
            "entries SELECT ledger, sequence + 1000, reservation + 1000, kind, epsilon, delta, rho, rho_delta, "
            '"user", description, key, noted_at, answer_sha256, about, request, details, hash '
            "FROM shoal.entries WHERE ledger = '{0}' LIMIT 1"
        ),
    ],
    ids=["credit", "suspension", "row"],
)
def test_what_a_role_slips_in_gives_nobody_anything(url, second_role, forged):
    open_before = Ledger.open(url)
    with server_of(second_role) as connection:
        connection.execute(f"INSERT INTO shoal.{forged.format(name_of(url))}")
    allowance = Allowance("user:ann", "ever", Budget(Fraction(1, 10), Fraction(1, 10**6)))
    with pytest.raises(ShoalError, match="E_LEDGER"):
        open_before.reserve(Loss(Fraction(1, 2), Fraction(0)), user="ann", accounts=(allowance,))
    refusal(Ledger.open, url)


def test_a_schema_that_another_role_made_first_is_not_trusted(postgres_server):
    server = postgres_server[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE custodian LOGIN; CREATE ROLE early LOGIN")
        connection.execute("CREATE DATABASE taken OWNER custodian")
        connection.execute("GRANT CREATE ON DATABASE taken TO early; GRANT pg_read_all_settings TO custodian")
    place = server.replace("/postgres?", "/taken?")
    user = server.partition("://")[2].partition("@")[0]
    with psycopg.connect(place.replace(f"//{user}@", "//early@"), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shoal; GRANT ALL ON SCHEMA shoal TO custodian")
    ours = f"{place.replace(f'//{user}@', '//custodian@')}#a"
    assert "belongs to another role" in refusal(Ledger.create, ours, ONE).message
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("ALTER SCHEMA shoal OWNER TO custodian")
    Ledger.create(ours, ONE).reserve(TENTH, user="ann").commit()
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("ALTER TABLE shoal.accounts OWNER TO early")
    assert "belongs to another role" in refusal(Ledger.open, ours).message
