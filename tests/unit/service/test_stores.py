"""Both stores of a service: versions, clocks, roles, lost connections, and that nothing secret is written down."""

from __future__ import annotations

import errno
import gc
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from service_calls import refused
from service_shop import counting, new_service

import shoal
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores.files import FileStore
from shoal.accounting.stores.postgresql_server import connect
from shoal.params import budget
from shoal.service import log
from shoal.service import store as stores
from shoal.service.acts.copying import restore
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.questions import Question
from shoal.service.service import OPERATOR, Limits, Service
from shoal.service.stores import postgresql, sqlite
from shoal.service.stores.opening import exists, migrate, open_store, shown
from shoal.service.stores.postgresql import migrate_database, without_password
from shoal.service.stores.tables import APPEND_ONLY, FORMAT

ONLY_POSTGRESQL = pytest.mark.parametrize("place", ["postgresql"], indirect=True)
ONLY_FILE = pytest.mark.parametrize("place", ["file"], indirect=True)


def test_a_transaction_is_kept_whole_or_not_at_all(place):
    store = open_store(place, "x")

    def fail() -> None:
        with store.writing() as rows:
            rows.run("INSERT INTO late VALUES (?, ?)", "ann", rows.now())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.reading() as rows:
        assert rows.all("SELECT * FROM late") == []
    store.close()


def reader(store):
    """Who there is, as the store knows it; and how often it was read."""
    read = []

    def found(rows):
        read.append(1)
        return [row["name"] for row in rows.all("SELECT name FROM people ORDER BY name")]

    return lambda: store.known(("people",), found), read


def added(rows, name):
    rows.run("INSERT INTO people VALUES (?, '[]', '[]', ?, '')", name, rows.now())


def add(store, name):
    with store.writing(at_once=name != "bob") as rows:
        added(rows, name)


def late(store, name):
    with store.writing(at_once=name != "bob") as rows:
        rows.run("INSERT INTO late VALUES (?, ?)", name, rows.now())


def in_another_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_is_known_is_what_was_written_last_by_whomever(place):
    """By this connection, by another thread of this process, and by a store that another process would have open."""
    store, other = open_store(place, "x"), open_store(place, "x")
    known, _ = reader(store)
    assert known() == known() == []
    add(store, "ann")
    assert known() == ["ann"]
    in_another_thread(lambda: add(store, "bob"))
    assert known() == ["ann", "bob"]
    add(other, "carla")
    assert known() == known() == ["ann", "bob", "carla"]
    with store.writing() as rows:
        rows.run("UPDATE people SET name = 'dora' WHERE name <> 'ann' AND name <> 'bob'")
    assert known() == ["ann", "bob", "dora"]
    other.close()
    store.close()


def test_a_change_that_was_undone_is_not_known(place):
    store = open_store(place, "x")
    known, _ = reader(store)
    assert known() == []

    def fail() -> None:
        with store.writing() as rows:
            added(rows, "ann")
            assert known() == (["ann"] if isinstance(store, sqlite.SqliteStore) else [])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    other = open_store(place, "x")
    add(other, "bob")  # as many changes as there were when it was undone
    assert known() == ["bob"]
    other.close()
    store.close()


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("people", ("ann", "[]", "[]", "", "")),
        ("tokens", ("t_1", "ann", "digest", "[]", "null", "", "2999", "")),
        ("datasets", ("visits", "data", "", "", "visits", "person", 1, "", "")),
        ("allowances", ("visits", "ann", "ever", "1", "0", "", "", "")),
    ],
)
def test_each_change_of_what_people_may_makes_known_things_be_read_again_and_no_other_change_does(
    place, table, columns
):
    """Also a removal: whoever may change these rows, and however, is heard of."""
    store, other = open_store(place, "x"), open_store(place, "x")
    read = []

    def look():
        store.known(("anything",), lambda _: read.append(1))
        return len(read)

    before = look()
    for change in (
        f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
        f"UPDATE {table} SET created = 'x'",
        f"DELETE FROM {table}",
    ):
        with other.writing() as rows:
            rows.run(change, *(columns if change.startswith("INSERT") else ()))
        assert (look(), look()) == (before + 1, before + 1), change
        before += 1
    late(other, "ann")
    with other.writing() as rows:
        log.write(rows, "ann", "test", "query")
    assert look() == before
    other.close()
    store.close()


@ONLY_FILE
def test_what_is_known_is_read_again_only_after_it_changed_and_each_thread_reads_for_itself(place, monkeypatch):
    store = open_store(place, "x")
    known, read = reader(store)
    assert [known() for _ in range(5)] == [[]] * 5
    assert len(read) == 1
    in_another_thread(known)
    assert len(read) == 2
    add(store, "ann")
    assert known() == known() == ["ann"]
    assert len(read) == 3
    late(store, "ann")
    assert (known(), len(read)) == (["ann"], 3)
    monkeypatch.setattr(stores, "MOST_KNOWN", 3)
    for number in range(50):
        store.known(("other", str(number)), lambda _: None)
    assert len(store._mine.known[1]) <= 4
    assert known() == ["ann"]
    store.close()


def test_time_goes_on_where_nothing_is_written_and_never_backwards(place, monkeypatch):
    store = open_store(place, "x")

    def nothing(_):
        return None

    _, first = store.known_now(("nothing",), nothing)
    if isinstance(store, sqlite.SqliteStore):
        monkeypatch.setattr(sqlite, "moment", lambda: "2999-01-01T00:00:00Z")
        assert store.known_now(("nothing",), nothing)[1] == "2999-01-01T00:00:00Z"
        with store.writing() as rows:
            rows.tick()
        monkeypatch.undo()
        assert store.known_now(("nothing",), nothing)[1] == "2999-01-01T00:00:00Z"
    assert store.known_now(("nothing",), nothing)[1] >= first
    store.close()


def test_what_was_not_waited_for_is_kept_once_and_a_failure_is_not_forgotten(place, monkeypatch):
    store = open_store(place, "x")
    with store.writing(at_once=False) as rows:
        rows.tick()
    assert store.is_behind
    kept = []

    def fails() -> None:
        store.is_behind = False
        raise ZeroDivisionError

    monkeypatch.setattr(store, "keep_all", fails)
    with pytest.raises(ZeroDivisionError):
        store.keep()
    assert store.is_behind
    monkeypatch.undo()
    keep_all = store.keep_all
    monkeypatch.setattr(store, "keep_all", lambda: (kept.append(1), keep_all()))
    threads = [threading.Thread(target=store.keep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(kept), store.is_behind) == (1, False)
    store.close()


def test_a_job_is_on_the_disk_before_it_is_charged(service, monkeypatch):
    """Asked of the jobs themselves: a heartbeat, which nobody waits for, may be written at any moment."""
    reserve, keep_all, on_disk, missing = Ledger.reserve, service.store.keep_all, set(), []

    def jobs():
        with service.store.reading() as rows:
            return {row["id"] for row in rows.all("SELECT id FROM jobs")}

    def keeping():
        written = jobs()
        keep_all()
        on_disk.update(written)

    def looking(*args, **options):
        missing.append(jobs() - on_disk)
        return reserve(*args, **options)

    monkeypatch.setattr(service.store, "keep_all", keeping)
    monkeypatch.setattr(Ledger, "reserve", looking)
    ann = service.people.trusted("ann", "test")
    for number in range(3):
        asked = service.ask(ann, "visits", Question(counting(0.1, f"disk{number}")), at_once=False)
        assert service.wait(asked.id, 30).state == "answered"
    assert missing == [set()] * 3
    assert len(on_disk) == 3


@ONLY_FILE
def test_what_is_kept_is_flushed_where_it_was_written_wherever_a_link_leads(place, tmp_path, monkeypatch):
    """A link to the file: its log is beside the file. Nothing was flushed, and nobody was told."""
    real = tmp_path / "elsewhere"
    open_store(real, "x").close()
    place.mkdir(exist_ok=True)
    (place / "service.db").symlink_to(real / "service.db")
    store, flushed = open_store(place, "x"), []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: flushed.append(str(Path(f"/proc/self/fd/{number}").readlink())) or fsync(number)
    )
    for name in ("ann", "bob"):
        with store.writing(at_once=False) as rows:
            added(rows, name)
        assert store.is_behind
        store.keep()
        assert not store.is_behind
    store.keep()
    assert flushed == [str(real.resolve() / "service.db-wal")] * 2
    store.close()


@ONLY_FILE
def test_what_cannot_be_flushed_is_not_said_to_be_kept(place, monkeypatch):
    store = open_store(place, "x")
    with store.writing(at_once=False) as rows:
        added(rows, "ann")

    def fail(_):
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as broken, refused("E_LEDGER"):
        broken.setattr(os, "fsync", fail)
        store.keep()
    assert store.is_behind
    store.keep()
    (place / "service.db-wal").rename(place / "lost")
    with store.writing(at_once=False) as rows:
        added(rows, "bob")
    with refused("E_LEDGER"):
        store.keep()
    assert store.is_behind
    (place / "lost").rename(place / "service.db-wal")
    store.keep()
    store.close()


@ONLY_FILE
def test_what_was_written_is_kept_where_no_file_can_be_opened_any_more(place, monkeypatch):
    store = open_store(place, "x")
    with store.writing(at_once=False) as rows:
        added(rows, "ann")
    store.keep()
    with store.writing(at_once=False) as rows:
        added(rows, "bob")

    def fail(*_):
        raise OSError(errno.EMFILE, "too many")

    with monkeypatch.context() as full:
        full.setattr(os, "open", fail)
        store.keep()
    assert not store.is_behind
    store.close()


@ONLY_FILE
def test_threads_that_write_wait_for_each_other_and_not_by_chance(place, monkeypatch):
    store, order = open_store(place, "x"), []
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    with store.writing() as rows:
        added(rows, "ann")

        def other():
            try:
                add(store, "bob")
            except shoal.ShoalError as error:
                order.append(error.code)

        in_another_thread(other)
    assert order == ["E_LEDGER"]  # that is how long it waits
    monkeypatch.undo()
    threads = [threading.Thread(target=add, args=(store, f"p{number}")) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    add(store, "carla")
    assert len(reader(store)[0]()) == 22
    assert store._connection().execute("PRAGMA busy_timeout").fetchone()[0] == 30_000
    store.close()


def test_a_number_of_changes_never_comes_again(place):
    """A database that goes back in time, as after a failover, would come to the number that a process remembers."""
    store, seen = open_store(place, "x"), set()
    for number in range(50):
        add(store, f"p{number}")
        seen.add(store._changes()[0])
    assert len(seen) == 50
    assert max(seen) > 2**40
    store.close()


@ONLY_POSTGRESQL
def test_a_service_goes_on_while_its_database_is_migrated(place):
    """Triggers that were there were made again: that waited for readers, and they for it."""
    store, stop, failed = open_store(place, "x"), threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                with store.reading() as rows:
                    for table in ("log", "people", "answers", "tokens", "allowances", "datasets"):
                        rows.all(f"SELECT count(*) FROM {table}")
            except shoal.ShoalError as error:
                failed.append(error.code)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        assert [migrate(place, "x") for _ in range(20)] == [0] * 20
    finally:
        stop.set()
        for thread in readers:
            thread.join()
    assert failed == []
    store.close()


@ONLY_FILE
def test_an_explanation_looks_at_its_ledger_once_at_most(service, monkeypatch):
    ann, looks = service.people.trusted("ann", "test"), []
    service.explain(ann, "visits", counting(0.1, "first"))
    reading = FileStore.reading
    monkeypatch.setattr(FileStore, "reading", lambda store: (looks.append(store), reading(store))[1])
    assert service.explain(ann, "visits", counting(0.1, "second"))["affordable"]
    assert len(looks) <= 1


def test_the_clock_never_goes_back(place):
    store = open_store(place, "x")
    with store.writing() as rows:
        rows.run("UPDATE identity SET clock = '2999-01-01T00:00:00Z'")
        assert rows.now() == rows.tick() == "2999-01-01T00:00:00Z"
    store.close()


def test_text_that_a_database_cannot_keep_is_kept_without_it(place):
    store = open_store(place, "x")
    with store.writing() as rows:
        rows.run("INSERT INTO late VALUES (?, ?)", "a\x00\ud800b", "now")
        assert rows.all("SELECT person FROM late") == [{"person": "a\ufffd?b"}]
    store.close()


def test_whoever_opens_second_opens_the_same(place):
    first, second = open_store(place, "one"), open_store(place, "two")
    assert first.identity == second.identity == "one"
    assert exists(place)
    first.close()
    second.close()


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_what_was_written_for_good_cannot_be_changed(service, table):
    job = service.ask(service.people.trusted("ann", "test"), "visits", Question(counting()))
    assert service.wait(job.id, 30).state == "answered"
    column = {"answers": "fingerprint", "log": "line", "logged_charges": "anchor"}[table]
    for statement in (f"UPDATE {table} SET {column} = 'x'", f"DELETE FROM {table}"):
        with refused("E_LEDGER"), service.store.writing() as rows:
            rows.run(statement)


@ONLY_FILE
def test_an_older_file_is_refused_until_it_is_migrated(place):
    place.mkdir()
    with closing(sqlite3.connect(place / "service.db", isolation_level=None)) as connection:
        for statement in sqlite.MIGRATIONS[0]:
            connection.execute(sqlite._here(statement))
        connection.execute("INSERT INTO identity VALUES ('old', '')")
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(shoal.ShoalError, match="older") as error:
        open_store(place, "x")
    assert "shoal service migrate" in error.value.hint
    assert (migrate(place, "x"), migrate(place, "x")) == (FORMAT - 1, 0)
    store = open_store(place, "x")
    assert store.identity == "old"
    store.close()


@ONLY_POSTGRESQL
def test_a_store_that_is_dropped_unclosed_leaves_no_connection_open(place):
    """A service whose slots do not end in time is not closed, and may go before its process does."""
    store = open_store(place, "x")
    with store.reading():
        pass
    ((connection,),) = [store._idle.here()]
    del store
    gc.collect()
    assert connection.closed


def test_a_newer_store_is_refused(place):
    open_store(place, "x").close()
    if isinstance(place, str):
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("INSERT INTO shoal.service_migrations VALUES (%s)", (FORMAT + 1,))
    else:
        with closing(sqlite3.connect(place / "service.db")) as connection:
            connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    for act in (open_store, migrate):
        with pytest.raises(shoal.ShoalError, match="newer"):
            act(place, "x")


# ---- PostgreSQL ----------------------------------------------------------------------------------------------------


@ONLY_POSTGRESQL
def test_a_failover_is_refused_until_the_log_is_held_against_an_anchor(opened, place):
    noted = log.anchor(opened().store)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("UPDATE shoal.identity SET timeline = 99; UPDATE shoal.head SET timeline = 99")
    with pytest.raises(shoal.ShoalError, match="failed over"):
        Service.open(place)
    with refused("E_LEDGER"):
        Service.open(place, anchor="999:" + "0" * 64)
    Service.open(place, anchor=noted).close(0)
    Service.open(place).close(0)


@ONLY_POSTGRESQL
def test_a_role_with_no_more_than_it_needs_runs_a_service(place, folder):
    role = f"r{abs(hash(place))}"
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN")
        migrate_database(place, "x", role)
        service = new_service(place.replace("//postgres@", f"//{role}@"), folder, budget((2, 1e-5)))
        service.start()
        job = service.ask(service.people.trusted("ann", "test"), "visits", Question(counting()))
        assert service.wait(job.id, 30).state == "answered"
        with refused("E_LEDGER"):
            service.forget_answers(OPERATOR, 1)
        service.close(5)
        for table in ("entries", "pieces", "answers", "log", "logged_charges", "header"):
            for privilege in ("UPDATE", "DELETE", "TRUNCATE"):
                ((may,),) = connection.execute(
                    "SELECT has_table_privilege(%s, %s, %s)", (role, f"shoal.{table}", privilege)
                ).fetchall()
                assert not may, (table, privilege)
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def two_roles(place):
    """A database of a custodian's, in which another role may make schemas: the addresses of both."""
    with psycopg.connect(place, autocommit=True) as connection:
        ((name,),) = connection.execute("SELECT current_database()").fetchall()
        connection.execute("CREATE ROLE keeper LOGIN; CREATE ROLE sooner LOGIN; GRANT pg_monitor TO keeper, sooner")
        connection.execute(f"ALTER DATABASE {name} OWNER TO keeper; GRANT CREATE ON DATABASE {name} TO sooner")
        user = place.partition("://")[2].partition("@")[0]
        yield [place.replace(f"//{user}@", f"//{role}@") for role in ("keeper", "sooner")]
        connection.execute(f'ALTER DATABASE {name} OWNER TO "{user}"')
        connection.execute("DROP OWNED BY keeper, sooner CASCADE; DROP ROLE keeper, sooner")


@ONLY_POSTGRESQL
def test_a_schema_that_another_role_made_first_holds_no_service(two_roles):
    ours, theirs = two_roles
    with psycopg.connect(theirs, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shoal; GRANT ALL ON SCHEMA shoal TO PUBLIC")
    for act in (open_store, migrate_database):
        with pytest.raises(shoal.ShoalError, match="belongs to another role"):
            act(ours, "x")


@ONLY_POSTGRESQL
def test_tables_that_another_role_made_whole_begin_no_ledger(two_roles):
    ours, theirs = two_roles
    migrate_database(theirs, "theirs")
    with psycopg.connect(theirs, autocommit=True) as connection:
        connection.execute("GRANT ALL ON SCHEMA shoal TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA shoal TO PUBLIC")
    with pytest.raises(shoal.ShoalError, match="belongs to another role"):
        Ledger.create(f"{ours}#mine", budget((1, 1e-6)))


@ONLY_POSTGRESQL
def test_after_a_migration_nobodys_operators_are_found_before_the_servers_own(place):
    with psycopg.connect(place, autocommit=True) as owner:
        ((name,),) = owner.execute("SELECT current_database()").fetchall()
        owner.execute(
            "CREATE SCHEMA evil;"
            "CREATE FUNCTION evil.never(oid, oid) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';"
            "CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.never);"
            f"ALTER DATABASE {name} SET search_path = evil, pg_catalog"
        )
        with connect(place) as connection, connection.transaction():
            postgresql.migrate(connection, "x")
            # With the database's own path nothing would have an owner, and every schema would be a good one.
            ((owners,),) = connection.execute(
                "SELECT count(*) FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'shoal'"
            ).fetchall()
        owner.execute(f"ALTER DATABASE {name} RESET search_path; DROP SCHEMA evil CASCADE")
    assert owners == 1


@ONLY_POSTGRESQL
def test_a_lost_connection_is_one_refusal_and_then_all_goes_on(opened, place):
    service = opened()
    ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(place, autocommit=True) as connection:
        with refused("E_LEDGER"), service.store.writing() as rows:
            connection.execute(ends)
            rows.tick()
        connection.execute(ends)
    assert service.people.all()


def test_a_database_that_cannot_be_reached_is_a_ledger_error():
    with refused("E_LEDGER") as error:
        Service.open("postgresql://nobody:hush@/none?host=/nowhere")
    assert "hush" not in str(error.value)


@ONLY_POSTGRESQL
def test_a_password_is_neither_written_down_nor_shown(place, folder):
    with_password = place.replace("//postgres@", "//postgres:hush@")
    service = new_service(with_password, folder, budget((2, 1e-5)))
    catalog = str(folder.parent / "shoal.toml")
    with pytest.raises(shoal.ShoalError, match="no password"):
        service.add_dataset(OPERATOR, NewDataSet("d", "postgresql://u:hush@h/x", catalog, budget((1, 0))))
    with service.store.reading() as rows:
        for table in ("ledgers", "datasets", "log", "identity"):
            assert "hush" not in str(rows.all(f"SELECT * FROM {table}"))
    assert shown(with_password) == place
    with refused("E_USAGE"):
        without_password("postgresql://u@h/x?password=hush")
    service.close(0)


# ---- copies --------------------------------------------------------------------------------------------------------


def asked(service, number, dataset="visits"):
    job = service.ask(service.people.trusted("ann", "test"), dataset, Question(counting(0.1, f"n{number}")))
    return service.wait(job.id, 30)


@ONLY_FILE
def test_a_copy_is_put_back_and_an_older_one_only_with_its_loss(opened, place, tmp_path):
    service = opened()
    asked(service, 1)
    service.backup(OPERATOR, tmp_path / "copy")
    with pytest.raises(shoal.ShoalError, match="E_USAGE") as error:
        restore(tmp_path / "copy", place, None, None, "")  # it runs, and would go on charging what was put aside
    assert "Stop" in error.value.hint
    service.close(5)
    restore(tmp_path / "copy", place, None, None, "")
    again = Service.open(place, Limits(answer_time=0.0, rates=False))
    again.start()
    asked(again, 3)
    noted = log.anchor(again.store)
    again.close(5)
    with refused("E_LEDGER"):
        restore(tmp_path / "copy", place, None, None, "")
    with refused("E_LEDGER"):
        restore(tmp_path / "copy", tmp_path / "elsewhere", noted, None, "")
    with refused("E_LEDGER"):
        restore(tmp_path / "copy", place, None, budget((0.09, 0)), "less than the ledger has spent since")
    restore(tmp_path / "copy", place, None, budget((0.1, 0)), "a disk")
    back = Service.open(place)
    ledger = back.datasets.ledger("visits")
    assert float(ledger.spent[0]) == 0.2
    assert back.check()[0] == len(log.lines(back.store))
    assert any(line["action"] == "loss booked" for line in log.lines(back.store))
    back.close(0)


def copied_before_a_data_set(opened, folder, tmp_path, *, spends):
    """A copy, then a data set more, and 0.2 spent of the first; of the second one 0.1, where `spends`."""
    service = opened()
    asked(service, 1)
    service.backup(OPERATOR, tmp_path / "copy")
    catalog = str(folder.parent / "shoal.toml")
    service.add_dataset(OPERATOR, NewDataSet("newer", str(folder), catalog, budget((1, 0)), new_people=True))
    asked(service, 2)
    if spends:
        service.allow(OPERATOR, Grant("newer", "ann"))
        asked(service, 3, "newer")
    service.close(5)


@ONLY_FILE
def test_a_ledger_that_the_copy_does_not_know_is_not_forgotten(opened, folder, place, tmp_path):
    """It raised a KeyError with the copy in place, and nothing was booked."""
    copied_before_a_data_set(opened, folder, tmp_path, spends=True)
    for loss in (None, budget((5, 0))):
        with refused("E_LEDGER"):
            restore(tmp_path / "copy", place, None, loss, "a disk")
    back = Service.open(place)
    assert {name: float(ledger.spent[0]) for name, ledger in back.datasets.ledgers().items()} == {
        "visits": 0.2,
        "newer": 0.1,
    }
    back.close(0)


@ONLY_FILE
def test_a_newer_ledger_of_which_nothing_was_spent_is_left_out_and_the_loss_is_booked(opened, folder, place, tmp_path):
    copied_before_a_data_set(opened, folder, tmp_path, spends=False)
    with refused("E_LEDGER"):
        restore(tmp_path / "copy", place, None, None, "")
    restore(tmp_path / "copy", place, None, budget((0.1, 0)), "a disk")
    back = Service.open(place)
    assert {name: float(ledger.spent[0]) for name, ledger in back.datasets.ledgers().items()} == {"visits": 0.2}
    back.close(0)


@ONLY_FILE
def test_a_restore_that_ends_before_its_loss_is_booked_has_changed_nothing(opened, place, tmp_path, monkeypatch):
    service = opened()
    service.backup(OPERATOR, tmp_path / "copy")
    asked(service, 1)
    service.close(5)
    before = {path.name for path in place.parent.iterdir()}

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "book_loss", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(tmp_path / "copy", place, None, budget((0.1, 0)), "a disk")
    assert {path.name for path in place.parent.iterdir()} == before
    back = Service.open(place)
    assert float(back.datasets.ledger("visits").spent[0]) == 0.1
    back.close(0)


@ONLY_POSTGRESQL
def test_a_database_is_copied_with_its_own_tools(opened, tmp_path):
    with pytest.raises(shoal.ShoalError, match="E_USAGE") as error:
        opened(start=False).backup(OPERATOR, tmp_path / "copy")
    assert "pg_dump" in error.value.hint
