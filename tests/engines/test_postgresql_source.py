"""The same questions get the same integers from a PostgreSQL server, and the server decides nothing about privacy."""

from __future__ import annotations

import re
import signal
import threading
import time

import pyarrow as pa
import pytest
from postgres_tables import write
from questions import QUESTIONS, by_keys, measured_with, nasty_tables, session_for
from typer.testing import CliRunner

import shoal
from shoal.cli.verbs import app
from shoal.engines.deadline import Deadline
from shoal.engines.postgresql.server import Server
from shoal.mechanisms.entropy import SeededEntropy
from shoal.params import bounds
from shoal.release.execute import fresh_sampling_key, measure
from shoal.risk.scanning.sources import open_tables

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 50) "
EXACT = "COUNT(*, contribution_bounds_per_group => (0, 1000)) AS n"
PASSWORD = "hunter2-never-shown"  # noqa: S105 - it must never be shown


class Recorded:
    """An engine whose answers are kept."""

    def __init__(self, engine):
        self._engine, self.answers = engine, []

    def totals(self, query, key):
        self.answers.append(self._engine.totals(query, key))
        return self.answers[-1]


@pytest.fixture(scope="module")
def server(postgres_database):
    """The tables of all questions."""
    url, connection = postgres_database
    for rows in dict.fromkeys(question.rows for question in QUESTIONS):
        question = next(q for q in QUESTIONS if q.rows == rows and q.owner == "uid")
        schema = f'"rows: {rows}"'
        connection.execute(f"CREATE SCHEMA {schema}")
        for name, table in nasty_tables(question).items():
            write(connection, f"{schema}.{name}", table)
    return url


def catalog_of(question):
    tables = {
        name: entry | {"source": f"rows: {question.rows}.{name}"} for name, entry in question.catalog["tables"].items()
    }
    return {"tables": tables}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_server_answers_with_the_integers_of_the_embedded_engine(question, server, kept):
    here = kept(question.about, lambda: session_for(question))
    there = kept((*question.about, "there"), lambda: shoal.connect(server, catalog_of(question)))
    embedded = Recorded(here._engine)
    measured_with(here, question, embedded)
    with there._engine.snapshot(Deadline(300)) as taken:
        remote = Recorded(taken)
        measured_with(there, question, remote)
    assert len(remote.answers) == len(embedded.answers) > 0
    for one, other in zip(remote.answers, embedded.answers, strict=True):
        assert by_keys(one) == by_keys(other)
        assert one.keys.schema.types == other.keys.schema.types


# ---- values and types ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd(postgres_database):
    """Every type, with values that other engines refuse or read differently."""
    url, connection = postgres_database
    connection.execute("CREATE TYPE mood AS ENUM ('ok', 'bad')")
    connection.execute("CREATE DOMAIN short AS varchar(3)")
    connection.execute("CREATE DOMAIN cents AS numeric(8, 2)")
    connection.execute(
        "CREATE TABLE odd (uid int8, small int2, f4 float4, f8 float8, amount cents, loose numeric, padded char(6), "
        "word short, id uuid, doc json, m mood, flag bool, day date, at timestamp, moment timestamptz, hour time, "
        "list int4[], blob bytea, tree jsonb, price money)"
    )
    rows = (
        "(1, 3, 1.5, '1e300', 1.25, 7.125, 'ab', 'x', '00000000-0000-0000-0000-00000000000A', '{}', 'ok', true, '2026-03-08', "
        "'2026-03-08 02:30', '2026-03-08 01:59:59-05', '24:00'), "
        "(2, NULL, 'NaN', '-inf', 'NaN', 'NaN', '', '', NULL, NULL, NULL, NULL, 'infinity', '-infinity', 'infinity', '23:59:59'), "
        "(3, -3, '-0', '-0', -0.05, 1e30, NULL, 'ß日本', NULL, '[1]', 'bad', false, '0044-03-15 BC', '0001-01-01 BC', "
        "'2026-11-01 01:30-04', '00:00'), "
        "(NULL, 9, 9, 9, 9, 9, 'zz', 'zz', NULL, NULL, 'ok', true, '2026-01-01', '2026-01-01', '2026-01-01', '00:00')"
    )
    columns = "uid, small, f4, f8, amount, loose, padded, word, id, doc, m, flag, day, at, moment, hour"
    connection.execute(f"INSERT INTO odd ({columns}) VALUES {rows}")
    return url


def groups(session, key):
    """The keys of all groups, as they enter the mechanisms."""
    plan = session.plan(PRIVATE + f"{key} AS k, {EXACT} FROM odd GROUP BY 1")
    with session._engine.snapshot(Deadline(60)) as taken:
        measured = measure(plan.selects[0], taken, fresh_sampling_key())
    return sorted(str(key) for key in measured.measurement.keys.column(0).to_pylist())


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("small", ["-3", "3", "None"]),
        ("f4", ["0.0", "1.5", "None"]),
        ("f8", ["-inf", "0.0", "1e+300"]),
        ("amount", ["-0.05", "1.25", "None"]),
        ("padded", ["", "None", "ab"]),
        ("word", ["", "x", "ß日本"]),
        ("id", ["00000000-0000-0000-0000-00000000000a", "None"]),
        ("doc", ["None", "[1]", "{}"]),
        ("m", ["None", "bad", "ok"]),
        ("flag", ["False", "None", "True"]),
        ("day", ["2026-03-08", "None"]),
        ("at", ["2026-03-08 02:30:00", "None"]),
        ("moment", ["2026-03-08 06:59:59", "2026-11-01 05:30:00", "None"]),
        ("hour", ["00:00:00", "23:59:59", "None"]),
    ],
)
def test_values_arrive_as_they_mean(odd, key, values):
    with shoal.connect(odd, {"tables": {"odd": {"owner": "uid"}}}) as session:
        assert groups(session, key) == values


def test_types_that_no_query_can_name_are_refused_before_anything_is_read(odd):
    with shoal.connect(odd, {"tables": {"odd": {"owner": "uid"}}}) as session:
        for column in ("list", "blob", "tree", "price", "loose"):
            with pytest.raises(shoal.ShoalError, match="E_UNSUPPORTED") as refused:
                session.query(PRIVATE + f"{column}, {EXACT} FROM odd GROUP BY 1")
            assert 'type = "DECIMAL(12, 2)"' in str(refused.value)


def test_a_numeric_without_precision_is_read_with_the_precision_of_the_catalog(odd):
    typed = {"tables": {"odd": {"owner": "uid", "columns": {"loose": {"type": "DECIMAL(12, 2)"}}}}}
    with shoal.connect(odd, typed) as session:
        assert groups(session, "loose") == ["7.13", "None"]


def test_conditions_that_are_handed_on_change_no_answer(odd):
    conditions = {
        "day IS NULL": 2,
        "day IS NOT NULL": 1,
        "day > DATE '2020-01-01'": 1,
        "small BETWEEN -5 AND 2": 1,
        "small IN (3, 4)": 1,
        "3 = small": 1,
        "padded = 'ab'": 1,
        "padded = 'ab    '": 0,
        "word = 'ß日本'": 1,
        "m = 'ok'": 1,
        "m = 'nonsense'": 0,
        "id = 'nonsense'": 0,
        "doc IN ('{}', 'nonsense')": 1,
        "flag": 1,
        "flag = FALSE": 1,
        "word = 'O''Brien'": 0,
        "uid = 3": 1,
    }
    with shoal.connect(odd, {"tables": {"odd": {"owner": "uid"}}}) as session:
        for condition, expected in conditions.items():
            found = session.query(PRIVATE + f"{EXACT} FROM odd WHERE {condition}").to_dicts()
            assert found == [{"n": expected}], condition


# ---- who may do what -----------------------------------------------------------------------------------------------


def as_role(url, role):
    return re.sub(r"//[^@]*@", f"//{role}:{PASSWORD}@", url)


@pytest.fixture(scope="module")
def roles(postgres_database):
    url, connection = postgres_database
    connection.execute("CREATE SCHEMA shop")
    connection.execute(
        "CREATE TABLE shop.visits AS SELECT g % 50 AS uid, 's' || g % 3 AS site, g AS x FROM generate_series(1, 500) g"
    )
    connection.execute("CREATE TABLE shop.secrets (uid int4)")
    for role in ("reader", "writer", "nobody"):
        connection.execute(f"DROP ROLE IF EXISTS {role}")
        connection.execute(f"CREATE ROLE {role} LOGIN")
    connection.execute("GRANT USAGE ON SCHEMA shop TO reader, writer")
    connection.execute("GRANT SELECT ON shop.visits TO reader, writer")
    connection.execute("GRANT INSERT ON shop.visits TO writer")
    yield url, connection
    connection.execute("DROP OWNED BY reader, writer, nobody")
    connection.execute("DROP ROLE reader, writer, nobody")


VISITS = {"tables": {"visits": {"owner": "uid", "source": "shop.visits"}}}
BY_SITE = PRIVATE + f"site, {EXACT} FROM visits GROUP BY site"


def test_a_reader_is_enough_and_gives_no_warning(roles):
    with shoal.connect(as_role(roles[0], "reader"), VISITS) as session:
        assert session.warnings == ()
        assert {row["site"]: row["n"] for row in session.query(BY_SITE).to_dicts()} == {"s0": 166, "s1": 167, "s2": 167}


def test_roles_that_may_write_are_warned_about_with_the_lines_that_make_a_reader(roles):
    url = roles[0]
    for address, word in ((url, "superuser"), (as_role(url, "writer"), "may write")):
        with shoal.connect(address, VISITS) as session:
            (warning,) = session.warnings
            assert word in warning
            assert 'GRANT SELECT ON "shop"."visits"' in warning
            assert warning in str(session.explain(BY_SITE))


def test_a_role_without_rights_is_told_which_table_and_what_to_grant(roles):
    for role, source in (("reader", "shop.secrets"), ("nobody", "shop.visits")):
        with pytest.raises(
            shoal.ShoalError, match=r"may not read the table 'visits'.*\n.*GRANT USAGE.*GRANT SELECT"
        ) as caught:
            shoal.connect(as_role(roles[0], role), {"tables": {"visits": {"owner": "uid", "source": source}}})
        assert caught.value.code == "E_SOURCE"


def test_a_table_in_two_schemas_must_be_named_in_full(roles):
    url, connection = roles
    connection.execute("CREATE SCHEMA old")
    connection.execute("CREATE TABLE old.visits (uid int4)")
    try:
        for address, first in ((url, "old"), (as_role(url, "reader"), "shop")):  # the one that can be read
            with pytest.raises(shoal.ShoalError, match=rf'old\.visits.*\n.*source = "{first}\.visits"') as caught:
                shoal.connect(address, {"tables": {"visits": {"owner": "uid"}}})
            assert caught.value.code == "E_SOURCE"
        with shoal.connect(url, VISITS) as session:
            assert session.query(BY_SITE).to_dicts()
    finally:
        connection.execute("DROP SCHEMA old CASCADE")


def test_a_first_catalog_names_the_schema_where_another_one_has_the_table_too_and_shows_no_password(roles, tmp_path):
    url, connection = roles
    connection.execute("CREATE SCHEMA old")
    connection.execute("CREATE TABLE old.visits (uid int4)")
    reader, output = as_role(url, "reader"), tmp_path / "first.toml"
    try:
        told = CliRunner().invoke(app, ["init", reader, "-o", str(output)])
        assert told.exit_code == 0
        assert PASSWORD not in told.output
        assert reader.replace(f":{PASSWORD}", "") in told.output
        with shoal.connect(reader, output) as session:
            assert session.query(BY_SITE.replace("visits", '"shop.visits"')).to_dicts()
    finally:
        connection.execute("DROP SCHEMA old CASCADE")


def test_an_owner_under_a_loose_collation_is_refused(roles):
    url, connection = roles
    connection.execute(
        "CREATE COLLATION shop.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    connection.execute("CREATE TABLE shop.named (uid text COLLATE shop.loose)")
    try:
        with pytest.raises(shoal.ShoalError, match="different strings are equal") as caught:
            shoal.connect(url, {"tables": {"named": {"owner": "uid"}}})
        assert caught.value.code == "E_SOURCE"
    finally:
        connection.execute("DROP TABLE shop.named; DROP COLLATION shop.loose")


def test_nothing_of_a_users_schema_is_ever_called(roles):
    url, connection = roles
    connection.execute("CREATE FUNCTION shop.wrong(int8, int8) RETURNS bool LANGUAGE sql AS 'SELECT true'")
    connection.execute("CREATE OPERATOR shop.> (FUNCTION = shop.wrong, LEFTARG = int8, RIGHTARG = int8)")
    connection.execute("CREATE FUNCTION shop.count(int4) RETURNS int8 LANGUAGE sql AS 'SELECT 7::int8'")
    connection.execute("ALTER ROLE reader SET search_path = shop, pg_catalog")
    try:
        with shoal.connect(as_role(url, "reader"), VISITS) as session:
            assert session.query(PRIVATE + f"{EXACT} FROM visits WHERE x > 490").to_dicts() == [{"n": 10}]
    finally:
        connection.execute("ALTER ROLE reader RESET search_path; DROP OPERATOR shop.> (int8, int8)")
        connection.execute("DROP FUNCTION shop.wrong, shop.count")


# ---- views ---------------------------------------------------------------------------------------------------------


def test_views_that_cannot_fail_are_tables_and_others_must_be_trusted(roles):
    url, connection = roles
    connection.execute(
        "CREATE VIEW shop.late AS SELECT uid, upper(site) AS site FROM shop.visits WHERE x > 250 AND site <> ''"
    )
    connection.execute("CREATE VIEW shop.risky AS SELECT uid, site, 100 / (x - 7) AS y FROM shop.visits")
    connection.execute("CREATE VIEW shop.hidden AS SELECT uid, site FROM shop.risky")
    try:
        with shoal.connect(url, {"tables": {"late": {"owner": "uid"}}}) as session:
            found = session.query(PRIVATE + f"{EXACT} FROM late WHERE site = 'S1'").to_dicts()
            assert found == [{"n": 83}]
        for name in ("risky", "hidden"):
            with pytest.raises(shoal.ShoalError, match="trusted_view") as caught:
                shoal.connect(url, {"tables": {name: {"owner": "uid"}}})
            assert caught.value.code == "E_CATALOG"
    finally:
        connection.execute("DROP VIEW shop.hidden, shop.risky, shop.late")


VIEWS_OF_ONE_ROW = {
    "a list of columns that is cast": "SELECT uid, x FROM shop.visits WHERE 1 = ANY (ARRAY[site]::bigint[])",
    "bytes that may be no text": "SELECT uid, length(b, 'UTF8') AS x FROM (SELECT uid, 'b'::bytea AS b FROM shop.visits) v",
    "a value that may have two rows": "SELECT v.uid, (SELECT o.x FROM shop.visits o WHERE o.uid = v.uid) AS x FROM shop.visits v",
    "a value in a condition": "SELECT v.uid FROM shop.visits v WHERE v.x = (SELECT o.x FROM shop.visits o WHERE o.uid = v.uid)",
    "a value in a list": "SELECT v.uid FROM shop.visits v WHERE v.x IN (1, (SELECT o.x FROM shop.visits o WHERE o.uid = v.uid))",
    "recursion": "WITH RECURSIVE r(uid, x) AS (SELECT uid, x FROM shop.visits UNION ALL SELECT r.uid, v.x FROM r "
    "JOIN shop.visits v ON v.uid = r.x) SELECT * FROM r",
}


@pytest.mark.parametrize("sql", VIEWS_OF_ONE_ROW.values(), ids=VIEWS_OF_ONE_ROW.keys())
def test_a_view_that_a_second_row_of_one_owner_would_end_must_be_trusted(roles, sql):
    """A second row ends every query over a view with a subquery for one value; a cycle makes a recursive one endless."""
    url, connection = roles
    connection.execute(f"CREATE VIEW shop.single AS {sql}")
    try:
        for entry in ({"owner": "uid", "source": "shop.single"}, {"owner": "uid", "view": sql}):
            with pytest.raises(shoal.ShoalError, match="trusted_view") as caught:
                shoal.connect(url, {"tables": {"single": entry}})
            assert caught.value.code == "E_CATALOG"
    finally:
        connection.execute("DROP VIEW shop.single")


def test_subqueries_that_are_relations_need_no_trust(roles):
    url, connection = roles
    sql = (
        "SELECT v.uid, v.x FROM (SELECT uid, x FROM shop.visits) v WHERE v.uid IN (SELECT uid FROM shop.visits) "
        "AND EXISTS (SELECT 1 FROM shop.visits) AND v.x = ANY (SELECT x FROM shop.visits)"
    )
    connection.execute(f"CREATE VIEW shop.related AS {sql}")
    try:
        for entry in ({"owner": "uid", "source": "shop.related"}, {"owner": "uid", "view": sql}):
            with shoal.connect(url, {"tables": {"related": entry}}) as session:
                assert session.query(PRIVATE + "COUNT(*) AS n FROM related").to_dicts()
    finally:
        connection.execute("DROP VIEW shop.related")


def test_no_filter_steers_a_trusted_view_around_the_row_it_fails_on(roles):
    url, connection = roles
    connection.execute("CREATE VIEW shop.risky AS SELECT uid, site, 100 / (x - 7) AS y FROM shop.visits")
    catalog = {"tables": {"risky": {"owner": "uid", "trusted_view": True}}}
    try:
        told = set()
        for condition in ("uid = 7", "uid <> 7", "site = 's1'", "y > 0"):
            with shoal.connect(url, catalog) as session, pytest.raises(shoal.ShoalError) as caught:
                session.query(PRIVATE + f"{EXACT} FROM risky WHERE {condition}")
            told.add(str(caught.value))
            assert caught.value.__context__ is None
        (only,) = told
        assert only.startswith("E_EXECUTION")
        assert "zero" not in only
    finally:
        connection.execute("DROP VIEW shop.risky")


def test_views_of_the_catalog_are_sql_of_the_server(roles):
    sql = "SELECT uid, site FROM shop.visits WHERE site = ANY (ARRAY['s1', 's2'])"
    catalog = {"tables": {"several": {"owner": "uid", "view": sql, "trusted_view": True}}}
    with shoal.connect(roles[0], catalog) as session:
        found = session.query(PRIVATE + f"site, {EXACT} FROM several GROUP BY site").to_dicts()
        assert {row["site"]: row["n"] for row in found} == {"s1": 167, "s2": 167}
    with pytest.raises(shoal.ShoalError, match="not a query this database can run"):
        shoal.connect(
            roles[0], {"tables": {"several": {"owner": "uid", "view": "SELECT nonsense", "trusted_view": True}}}
        )


def test_public_tables_join_and_public_queries_are_answered(roles):
    url, connection = roles
    connection.execute("CREATE TABLE shop.sites AS SELECT 's' || g AS site, g AS size FROM generate_series(0, 2) g")
    try:
        catalog = {"tables": {**VISITS["tables"], "sites": {"public": True}}}
        with shoal.connect(url, catalog) as session:
            found = session.query(
                PRIVATE + f"size, {EXACT} FROM visits JOIN sites USING (site) GROUP BY size"
            ).to_dicts()
            assert {row["size"]: row["n"] for row in found} == {0: 166, 1: 167, 2: 167}
            assert session.query("SELECT SUM(size) AS s FROM sites").to_dicts() == [{"s": 3}]
    finally:
        connection.execute("DROP TABLE shop.sites")


# ---- when things go wrong ------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_told_without_the_password():
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.connect(f"postgresql://me:{PASSWORD}@localhost:1/shop?connect_timeout=2", VISITS)
    assert caught.value.code == "E_SOURCE"
    assert "localhost:1, database 'shop'" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__context__ is None
    assert PASSWORD not in repr(Server(f"postgresql://me:{PASSWORD}@h/d"))


def test_tables_and_rights_that_change_under_a_session_are_refused_before_the_charge(roles):
    url, connection = roles
    with shoal.connect(as_role(url, "reader"), VISITS, budget=(10**7, 1e-5)) as session:
        connection.execute("REVOKE SELECT ON shop.visits FROM reader")
        try:
            with pytest.raises(shoal.ShoalError, match="Nothing was charged") as caught:
                session.query(BY_SITE)
        finally:
            connection.execute("GRANT SELECT ON shop.visits TO reader")
        assert caught.value.code == "E_SOURCE"
        assert session.spent == (0.0, 0.0)
        assert session.query(BY_SITE).to_dicts()


def test_a_session_survives_a_server_that_ended_its_connections(roles):
    url, connection = roles
    with shoal.connect(as_role(url, "reader"), VISITS) as session:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
        assert session.query(BY_SITE).to_dicts()
        assert session._engine.is_alive()


def test_rows_of_one_query_come_from_one_snapshot(roles):
    url, connection = roles
    with shoal.connect(url, VISITS) as session, session._engine.snapshot(Deadline(60)) as taken:
        before = sum(batch.num_rows for batch in taken.columns("visits", ["uid"]))
        connection.execute("INSERT INTO shop.visits SELECT 1, 's1', 1 FROM generate_series(1, 10)")
        try:
            taken._loaded.clear()
            assert sum(batch.num_rows for batch in taken.columns("visits", ["uid"])) == before
        finally:
            connection.execute(
                "DELETE FROM shop.visits WHERE ctid IN (SELECT ctid FROM shop.visits ORDER BY ctid DESC LIMIT 10)"
            )


def test_a_lock_that_is_held_ends_in_one_sentence_and_ctrl_c_is_heard_on_the_server(roles):
    url, connection = roles
    sql = "SELECT uid, pg_sleep(30) IS NOT NULL AS slow FROM shop.visits"
    catalog = {"tables": {"slow": {"owner": "uid", "view": sql, "trusted_view": True}}}
    with shoal.connect(url, catalog) as session:
        main = threading.main_thread().ident
        stop = threading.Timer(1.5, lambda: signal.pthread_kill(main, signal.SIGINT))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        stop.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                session.query(PRIVATE + f"{EXACT} FROM slow")
        finally:
            signal.signal(signal.SIGINT, before)
        for _ in range(100):
            running = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(30)%' "
                "AND pid <> pg_backend_pid()"
            ).fetchone()[0]
            if not running:
                break
            time.sleep(0.1)
        assert running == 0


def test_a_missing_driver_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql", None)
    with pytest.raises(shoal.ShoalError, match=r"shoal\[postgresql\]") as caught:
        shoal.connect("postgresql://localhost/x", VISITS)
    assert caught.value.code == "E_MISSING_EXTRA"


def test_rows_are_counted_without_naming_a_column(roles):
    with shoal.connect(roles[0], VISITS) as session:
        assert session.query(PRIVATE + f"{EXACT} FROM visits").to_dicts() == [{"n": 500}]


def test_owners_in_another_table_and_rows_that_are_owners_are_the_same_as_in_the_embedded_engine(roles):
    url, connection = roles
    connection.execute("CREATE TABLE shop.orders AS SELECT g AS order_id, g % 40 AS uid FROM generate_series(1, 200) g")
    connection.execute(
        "CREATE TABLE shop.lines AS SELECT g % 220 AS order_id, g % 7 AS item FROM generate_series(1, 900) g"
    )
    catalog = {
        "tables": {
            "orders": {"owner": "uid"},
            "lines": {"owner": {"through": "order_id", "to": "orders"}},
            "visits": {"owner": "each row", "source": "shop.visits"},
        }
    }
    questions = (
        "item, COUNT(*) FROM lines WHERE item > 2 GROUP BY item",
        "site, COUNT(*) FROM visits WHERE x > 250 GROUP BY site",
    )
    names = ("orders", "lines", "visits")
    try:
        with shoal.connect(url, catalog) as there:
            frames = {name: pa.Table.from_batches(there._engine.columns(name, columns(there, name))) for name in names}
            frames = {name: frame.rename_columns(columns(there, name)) for name, frame in frames.items()}
            plain = {
                "tables": {name: {k: v for k, v in e.items() if k != "source"} for name, e in catalog["tables"].items()}
            }
            with shoal.connect(frames, plain) as here:
                for question in questions:
                    key, answers = fresh_sampling_key(), []
                    for session in (here, there):
                        select = session.plan(PRIVATE.replace("1000000", "1") + question).selects[0]
                        with session._engine.snapshot(Deadline(60)) as taken:
                            measured = measure(select, taken, key, SeededEntropy(1), found=(bounds(0, 3),))
                        answers.append(by_keys(measured.measurement))
                    assert answers[0] == answers[1]
    finally:
        connection.execute("DROP TABLE shop.orders, shop.lines")


def columns(session, name):
    return [column for column in session.tables()[name]["columns"] if column[0] != "("]


def test_a_risk_scan_reads_the_same_rows(roles):
    (visits,) = open_tables(as_role(roles[0], "reader"), ["visits"])
    assert visits.schema.names == ["uid", "site", "x"]
    assert sum(batch.num_rows for batch in visits.source.batches(["site", "uid"])) == visits.rows == 500


# ---- owners with more than their share of rows -------------------------------------------------------------------------


def test_an_owner_with_more_than_their_share_takes_no_part_whatever_the_server_could_leave_out(postgres_database):
    """The share is of all rows: one that counted rows that a server had narrowed down would let others take part."""
    url, connection = postgres_database
    uid = [7] * 3_000 + list(range(100, 140))
    rows = pa.table({"uid": uid, "note": ["ab"] * len(uid), "day": [number % 1_000 for number in range(len(uid))]})
    moments = pa.table({"id": list(range(2_000))})
    connection.execute("CREATE SCHEMA crowded")
    write(connection, "crowded.visits", rows)
    write(connection, "crowded.moments", moments)
    there = {
        "visits": {"owner": "uid", "source": "crowded.visits"},
        "moments": {"public": True, "source": "crowded.moments"},
    }
    here = {"visits": {"owner": "uid"}, "moments": {"public": True}}
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(DISTINCT uid) FROM visits, moments "
    )
    found = []
    for tables, catalog in ((url, there), ({"visits": rows, "moments": moments}, here)):
        with shoal.connect(tables, catalog={"tables": catalog}) as session:
            for where in ("", "AND day = 3", "AND day < 40"):
                plan = session.plan(sql + f"WHERE NOT REGEXP_MATCHES(note || id, 'a[ab]{{40}}c') {where}").selects[0]
                with session._engine.snapshot(Deadline(300)) as taken:
                    found.append(int(measure(plan, taken, fresh_sampling_key()).measurement.owners.sum()))
    assert found[:3] == found[3:] == [40, 1, 40]
