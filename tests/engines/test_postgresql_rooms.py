"""What a server may hold, allow and be set to: every kind of table and type, roles without rights, settings of roles."""

from __future__ import annotations

import re

import pytest

import shoal
from shoal.cli.init import looked_at

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 50) "
EXACT = "COUNT(*, contribution_bounds_per_group => (0, 1000)) AS n"
PASSWORD = "hunter2-never-shown"  # noqa: S105 - it must never be shown
ROLES = ("clerk", "stranger", "visitor", "half", "pencil", "settled")


@pytest.fixture(scope="module")
def house(postgres_database):
    """One database with everything: (URL, connection of the administrator)."""
    url, connection = postgres_database
    for role in ROLES:
        connection.execute(f"DROP ROLE IF EXISTS {role}")
        connection.execute(f"CREATE ROLE {role} LOGIN")
    connection.execute(
        "CREATE SCHEMA rooms; CREATE TABLE rooms.guests AS SELECT g % 20 AS uid, g AS x, g AS secret, "
        "date '2024-02-03' AS day, timestamptz '2024-02-03 00:30+00' AS moment, CAST(0.1 AS float8) + 0.2 AS ratio "
        "FROM generate_series(1, 100) g; "
        "CREATE TABLE rooms.keys AS SELECT g AS uid FROM generate_series(1, 20) g; "
        "GRANT USAGE ON SCHEMA rooms TO clerk, visitor, half, pencil, settled; "
        "GRANT SELECT ON rooms.guests TO clerk, stranger, visitor, pencil, settled; "
        "GRANT SELECT ON rooms.keys TO clerk, stranger; "
        "GRANT SELECT (uid, x) ON rooms.guests TO half; GRANT UPDATE (x) ON rooms.guests TO pencil"
    )
    yield url, connection
    for role in ROLES:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def as_role(url, role):
    return re.sub(r"//[^@]*@", f"//{role}:{PASSWORD}@", url)


GUESTS = {"tables": {"guests": {"owner": "uid", "source": "rooms.guests"}}}
BOTH = {"tables": {**GUESTS["tables"], "keys": {"owner": "uid", "source": "rooms.keys"}}}


def counted(url, catalog, what):
    with shoal.connect(url, catalog) as session:
        return session.query(PRIVATE + f"{EXACT} FROM {what}").to_dicts()[0]["n"]


# ---- roles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "table"), [("stranger", "guests"), ("visitor", "keys"), ("half", "keys")])
def test_a_role_that_lacks_a_right_is_told_the_table_and_the_lines_that_give_it(house, role, table):
    with pytest.raises(shoal.ShoalError, match=rf"may not read the table '{table}'") as caught:
        shoal.connect(as_role(house[0], role), BOTH)
    assert caught.value.code == "E_SOURCE"
    assert f'GRANT USAGE ON SCHEMA "rooms" TO "{role}"; GRANT SELECT ON "rooms"."{table}" TO "{role}";' in str(
        caught.value
    )
    assert PASSWORD not in str(caught.value)


def test_columns_that_a_role_may_not_read_are_not_there(house):
    url = as_role(house[0], "half")
    assert counted(url, GUESTS, "guests WHERE x > 50") == 50
    with shoal.connect(url, GUESTS) as session, pytest.raises(shoal.ShoalError, match="Available columns: uid, x"):
        session.query(PRIVATE + f"{EXACT} FROM guests WHERE secret > 50")


def test_a_right_to_write_one_column_is_warned_about(house):
    with shoal.connect(as_role(house[0], "pencil"), GUESTS) as session:
        (warning,) = session.warnings
    assert "may write to rooms.guests" in warning


def test_a_role_or_a_database_that_is_not_there_is_told_alike(house):
    told = set()
    for address in (as_role(house[0], "nobody_of_this_name"), re.sub(r"/d[0-9a-f]+\?", "/nowhere?", house[0])):
        with pytest.raises(shoal.ShoalError, match="cannot be reached, or does not let this role in") as caught:
            shoal.connect(address, GUESTS)
        assert caught.value.code == "E_SOURCE"
        assert caught.value.__context__ is None
        told.add(re.sub(r"database '\w+'", "", str(caught.value)))
    assert len(told) == 1


def test_rules_about_rows_narrow_a_table_even_where_a_role_turned_them_off(house):
    url, connection = house
    connection.execute(
        "ALTER TABLE rooms.keys ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON rooms.keys USING (uid > 15)"
    )
    connection.execute("ALTER ROLE clerk SET row_security = off")
    try:
        assert counted(as_role(url, "clerk"), BOTH, "keys") == 5
        connection.execute("CREATE POLICY fragile ON rooms.keys USING (100 / uid > 0)")
        with pytest.raises(shoal.ShoalError, match="can fail on single rows") as caught:
            shoal.connect(as_role(url, "clerk"), BOTH)
        assert caught.value.code == "E_CATALOG"
    finally:
        connection.execute("DROP POLICY IF EXISTS fragile ON rooms.keys; DROP POLICY few ON rooms.keys")
        connection.execute("ALTER TABLE rooms.keys DISABLE ROW LEVEL SECURITY; ALTER ROLE clerk RESET row_security")


def test_a_server_that_is_too_old_or_keeps_texts_otherwise_is_named(house, monkeypatch):
    url, connection = house
    connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(shoal.ShoalError, match="encoding other than UTF8") as caught:
            shoal.connect(re.sub(r"/d[0-9a-f]+\?", "/latin?", url), GUESTS)
        assert caught.value.code == "E_SOURCE"
    finally:
        connection.execute("DROP DATABASE latin WITH (FORCE)")
    monkeypatch.setattr("shoal.engines.postgresql.relations.OLDEST", 990000)
    with pytest.raises(shoal.ShoalError, match="older than version 99") as caught:
        shoal.connect(url, GUESTS)
    assert caught.value.code == "E_SOURCE"


# ---- settings --------------------------------------------------------------------------------------------------------

SET_BY_A_ROLE = (
    *(
        "DateStyle = 'SQL, DMY'",
        "TimeZone = 'Asia/Kathmandu'",
        "IntervalStyle = 'sql_standard'",
        "extra_float_digits = -15",
    ),
    *("bytea_output = 'escape'", "statement_timeout = '500ms'", "lock_timeout = '1ms'", "search_path = 'rooms'"),
    *("idle_in_transaction_session_timeout = '1ms'", "default_transaction_isolation = 'serializable'"),
    *("default_transaction_read_only = off", "transform_null_equals = on", "standard_conforming_strings = off"),
    *("client_encoding = 'LATIN1'", "client_min_messages = 'notice'", "role = 'settled'", "array_nulls = off"),
)


def test_what_a_role_or_a_database_sets_changes_no_value(house):
    url, connection = house
    name = connection.info.dbname
    for setting in SET_BY_A_ROLE:
        connection.execute(f"ALTER ROLE settled SET {setting}")
    connection.execute(f"ALTER DATABASE {name} SET DateStyle = 'German'")
    found = []
    try:
        for role in ("visitor", "settled"):
            with shoal.connect(as_role(url, role), GUESTS) as session:
                asked = (
                    PRIVATE + f"day, moment, ratio, {EXACT} FROM guests WHERE day = DATE '2024-02-03' GROUP BY 1, 2, 3"
                )
                found.append(session.query(asked).to_dicts())
    finally:
        connection.execute(f"ALTER ROLE settled RESET ALL; ALTER DATABASE {name} RESET DateStyle")
    assert found[0] == found[1]
    (row,) = found[0]
    assert [str(row[key]) for key in ("day", "moment", "n")] == ["2024-02-03", "2024-02-03 00:30:00", "100"]
    assert row["ratio"] == 0.1 + 0.2


def test_a_setting_that_blinds_the_driver_is_named(house):
    url, connection = house
    connection.execute("ALTER ROLE settled SET quote_all_identifiers = on")
    try:
        with pytest.raises(shoal.ShoalError, match='ALTER ROLE "settled" SET quote_all_identifiers = off') as caught:
            shoal.connect(as_role(url, "settled"), GUESTS)
        assert caught.value.code == "E_SOURCE"
    finally:
        connection.execute("ALTER ROLE settled RESET ALL")


def test_what_the_server_says_about_rows_is_not_printed(house, capfd):
    url, connection = house
    connection.execute(
        "CREATE FUNCTION rooms.chatty(int) RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE WARNING 'the guest is %', $1; RETURN $1; END $$"
    )
    view = "SELECT rooms.chatty(uid) AS uid, x FROM rooms.guests"
    catalog = {"tables": {"heard": {"owner": "uid", "view": view, "trusted_view": True}}}
    try:
        assert counted(url, catalog, "heard") == 100
    finally:
        connection.execute("DROP FUNCTION rooms.chatty")
    assert "guest" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("secret", ["12/never", "1#never", "1?never", "never"])
def test_a_password_is_shown_nowhere_even_where_it_is_written_wrongly(secret):
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.connect(f"postgresql://me:{secret}@localhost:1/shop?connect_timeout=2", GUESTS)
    assert caught.value.code == "E_SOURCE"
    told = f"{caught.value} {caught.value!r} {caught.value.__context__!r}"
    assert not re.search(r"never|\b12\b|me:1\b", told)


# ---- tables and types ------------------------------------------------------------------------------------------------


def test_every_kind_of_relation_is_a_table(house):
    url, connection = house
    file = connection.execute("SHOW data_directory").fetchone()[0] + "/rows.csv"
    connection.execute(f"COPY (VALUES (1, 'a'), (2, 'b')) TO '{file}' CSV")
    connection.execute(
        "CREATE SCHEMA kinds; CREATE TABLE kinds.parted (uid int, day date, x int) PARTITION BY RANGE (day); "
        "CREATE TABLE kinds.first PARTITION OF kinds.parted FOR VALUES FROM ('2020-01-01') TO ('2021-01-01'); "
        "CREATE TABLE kinds.rest PARTITION OF kinds.parted DEFAULT; "
        "INSERT INTO kinds.parted SELECT g % 5, date '2020-01-01' + 20 * g, g FROM generate_series(1, 40) g; "
        "CREATE MATERIALIZED VIEW kinds.kept AS SELECT uid, x, 100 / x AS y FROM kinds.parted; "
        "CREATE VIEW kinds.seen AS SELECT uid, x FROM kinds.parted WHERE x > 3; "
        "CREATE TABLE kinds.parent (uid int, x int); CREATE TABLE kinds.child (more text) INHERITS (kinds.parent); "
        "INSERT INTO kinds.parent VALUES (1, 1); INSERT INTO kinds.child VALUES (2, 2, 'x'); "
        "CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw"
    )
    connection.execute(
        f"CREATE FOREIGN TABLE kinds.far (uid int, word text) SERVER files OPTIONS (filename '{file}', format 'csv')"
    )
    expected = {
        "parted WHERE day >= DATE '2020-06-01' AND x IN (10, 20, 30, 39)": 4,
        "kept WHERE x > 20": 20,
        "seen WHERE x > 20": 20,
        "parent": 2,
        "far WHERE word = 'b'": 1,
    }
    tables = {what.split()[0]: {"owner": "uid", "source": f"kinds.{what.split()[0]}"} for what in expected}
    tables["far"]["trusted_view"] = True
    try:
        for what, number in expected.items():
            assert counted(url, {"tables": tables}, what) == number, what
        connection.execute(
            "CREATE TABLE kinds.mixed (uid int, word text) PARTITION BY LIST (word); CREATE FOREIGN TABLE kinds.piece "
            f"PARTITION OF kinds.mixed DEFAULT SERVER files OPTIONS (filename '{file}', format 'csv')"
        )
        for name in ("far", "mixed"):
            untrusted = {"tables": {name: {"owner": "uid", "source": f"kinds.{name}"}}}
            with pytest.raises(shoal.ShoalError, match="foreign table") as caught:
                shoal.connect(url, untrusted)
            assert caught.value.code == "E_CATALOG"
        trusted = {"tables": {"mixed": {"owner": "uid", "source": "kinds.mixed", "trusted_view": True}}}
        assert counted(url, trusted, "mixed WHERE word = 'a'") == 1
        connection.execute(f"COPY (VALUES (1, 'a'), (NULL, 'oops')) TO '{file}' CSV NULL 'nobody'")
        for condition in ("word = 'a'", "word = 'none'"):  # the row that fails is met, whatever is asked
            with pytest.raises(shoal.ShoalError, match="E_EXECUTION"):
                counted(url, trusted, f"mixed WHERE {condition}")
    finally:
        connection.execute("DROP SCHEMA kinds CASCADE; DROP EXTENSION file_fdw CASCADE")


TYPES = {
    "numeric(5, 2)": "decimal(5, 2)",
    "numeric(38, 0)": "decimal(38, 0)",
    "varchar": "text",
    "char(4)": "text",
    "uuid": "text",
    "json": "text",
    "mood": "text",
    "feeling": "text",
    "weight": "decimal(6, 3)",
    "time(3)": "time",
    "timestamp(2)": "timestamp",
    "timestamptz(0)": "timestamp",
    **dict.fromkeys(
        (
            *("numeric", "numeric(39, 0)", "numeric(5, -2)", "numeric(3, 5)", "citext", "nickname", "int[]", "numbers"),
            *(
                "int4range",
                "bytea",
                "jsonb",
                "money",
                "timetz",
                "inet",
                "cidr",
                "macaddr",
                "interval",
                "bit(3)",
                "point",
            ),
            *("xml", "tsvector", "oid", "name", '"char"', "regclass", "pg_lsn"),
        ),
        "unsupported",
    ),
}


def test_every_type_is_read_as_the_page_says_or_cannot_be_named(house):
    url, connection = house
    if connection.info.server_version < 150000:
        pytest.skip("older servers have no numeric with a negative scale")
    connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
    connection.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'bad'); CREATE DOMAIN feeling AS mood; CREATE DOMAIN plain AS numeric(6, 3); "
        "CREATE DOMAIN weight AS plain CHECK (value > 0); CREATE DOMAIN nickname AS citext; CREATE DOMAIN numbers AS int[]"
    )
    listed = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(TYPES))
    connection.execute(f"CREATE TABLE typed (uid int, {listed})")
    try:
        with shoal.connect(url, {"tables": {"typed": {"owner": "uid"}}}) as session:
            columns = session.tables()["typed"]["columns"]
        assert {type_: columns[f"c{number}"]["type"] for number, type_ in enumerate(TYPES)} == TYPES
        number = list(TYPES).index("citext")
        with pytest.raises(shoal.ShoalError, match="cannot tell owners apart"):
            shoal.connect(url, {"tables": {"typed": {"owner": f"c{number}"}}})
    finally:
        connection.execute("DROP TABLE typed; DROP DOMAIN feeling, weight, plain, nickname, numbers; DROP TYPE mood")


def test_names_of_any_kind_are_found_and_columns_that_differ_in_case_cannot_be_named(house):
    url, connection = house
    connection.execute(
        'CREATE SCHEMA "o.d ""d"; CREATE TABLE "o.d ""d"."ta.ble" ("u id" int, "select" int, "A" int, a int); '
        'INSERT INTO "o.d ""d"."ta.ble" VALUES (1, 2, 3, 4)'
    )
    catalog = {"tables": {"odd": {"owner": "u id", "source": 'o.d "d.ta.ble'}}}
    try:
        assert counted(url, catalog, 'odd WHERE "select" = 2') == 1
        with shoal.connect(url, catalog) as session:
            assert any("'A', 'a'" in warning for warning in session.warnings)
            with pytest.raises(shoal.ShoalError, match="E_UNKNOWN_COLUMN"):
                session.query(PRIVATE + f"{EXACT} FROM odd WHERE a = 4")
        twice = {"tables": {"odd": {"owner": "uid", "view": "SELECT uid, x, uid FROM rooms.guests"}}}
        with pytest.raises(shoal.ShoalError, match="several columns called 'uid'") as caught:
            shoal.connect(url, twice)
        assert caught.value.code == "E_CATALOG"
    finally:
        connection.execute('DROP SCHEMA "o.d ""d" CASCADE')


def test_a_text_that_no_calendar_has_is_no_date(house):
    assert counted(house[0], GUESTS, "guests WHERE CAST('infinity' AS DATE) IS NOT NULL") == 0
    assert counted(house[0], GUESTS, "guests WHERE CAST('2024-02-29' AS DATE) IS NOT NULL") == 100


def test_a_first_catalog_names_the_view_that_cannot_be_read(house):
    url, connection = house
    connection.execute("CREATE VIEW rooms.risky AS SELECT uid, 100 / (x - 7) AS y FROM rooms.guests")
    try:
        with pytest.raises(shoal.ShoalError, match="'risky' cannot be read to its end") as caught:
            looked_at(url, [], [])
        assert caught.value.code == "E_SOURCE"
    finally:
        connection.execute("DROP VIEW rooms.risky")
    assert set(looked_at(url, [], []).schemas) == {"guests", "keys"}
