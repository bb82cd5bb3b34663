"""Views that would fail only when the right row is reached: refused when a session opens, whoever has rows."""

from __future__ import annotations

import itertools

import duckdb
import pandas as pd
import pytest

import shoal
from shoal.engines.duckdb.checking.known_calls import FUNCTIONS_OF_VIEWS, OF_VIEWS
from shoal.engines.duckdb.checking.reading import Reader
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.errors import InternalError

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
PEOPLE = {"tables": {"people": {"owner": "uid"}}}
STRINGS = "SELECT i AS uid, CASE WHEN i = 7 THEN 'many' ELSE i::VARCHAR END AS amount FROM range(50) t(i)"
NUMBERS = "SELECT i AS uid, i::INTEGER AS amount FROM range(50) t(i)"


def asked(connection, catalog, column="salary"):
    """What an analyst sees who asks about owner 7 alone."""
    try:
        with shoal.connect(connection, catalog=catalog) as session:
            session.query(f"{CLAUSE} COUNT({column}) AS n FROM people WHERE uid = 7")
    except shoal.ShoalError as error:
        return error.code
    return "answered"


def on_neighbours(*statements, catalog=PEOPLE):
    """The same with and without owner 7."""
    seen = set()
    for kept in ("TRUE", "i <> 7"):
        connection = duckdb.connect()
        for statement in statements:
            connection.execute(statement.replace("FROM range(50) t(i)", f"FROM range(50) t(i) WHERE {kept}"))
        seen.add(asked(connection, catalog))
    return seen


@pytest.mark.parametrize(
    "query",
    [
        "SELECT uid, list_transform([amount], lambda x: CAST(x AS INTEGER))[1] AS salary FROM raw",
        "SELECT uid, [CAST(x AS INTEGER) FOR x IN [amount]][1] AS salary FROM raw",
        "SELECT uid, whole(amount) AS salary FROM raw",
        "SELECT * FROM wholes()",
        "SELECT * FROM query('SELECT uid, CAST(amount AS INTEGER) AS salary FROM raw')",
        "SELECT uid, TRY(CAST(amount AS INTEGER) + 1) AS salary, TRY(CAST(amount AS INTEGER) + 2) AS more FROM raw",
    ],
)
def test_a_stored_view_is_read_as_the_engine_reads_it(query):
    """Views that a parser of ours does not understand were taken for tables; the optimiser takes the inside of TRY out of it."""
    macros = (
        "CREATE MACRO whole(x) AS CAST(x AS INTEGER)",
        "CREATE MACRO wholes() AS TABLE SELECT uid, CAST(amount AS INTEGER) AS salary FROM raw",
    )
    assert on_neighbours(f"CREATE TABLE raw AS {STRINGS}", *macros, f"CREATE VIEW people AS {query}") == {"E_CATALOG"}


@pytest.mark.parametrize("place", ["s.raw", "other.raw"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_view_is_read_over_the_tables_that_it_names(place, is_stored):
    """A table of the same name in the session's own schema was looked at instead, whose values cannot fail."""
    query = f"SELECT uid, CAST(amount AS INTEGER) AS salary FROM {place}"
    tables = (
        f"CREATE TABLE raw AS {NUMBERS}",
        "CREATE SCHEMA s",
        "ATTACH ':memory:' AS other",
        f"CREATE TABLE {place} AS {STRINGS}",
    )
    if is_stored:
        assert on_neighbours(*tables, f"CREATE VIEW people AS {query}") == {"E_CATALOG"}
    else:
        written = {"tables": {"people": {"owner": "uid", "view": query}}}
        assert on_neighbours(*tables, catalog=written) == {"E_CATALOG"}


def test_a_view_under_a_view_is_the_one_that_is_named():
    statements = (
        "CREATE TABLE below AS SELECT i AS uid, i::INTEGER AS salary FROM range(50) t(i)",
        "CREATE SCHEMA s",
        f"CREATE TABLE s.raw AS {STRINGS}",
        "CREATE VIEW s.below AS SELECT uid, CAST(amount AS INTEGER) AS salary FROM s.raw",
        "CREATE VIEW people AS SELECT uid, salary FROM s.below",
    )
    assert on_neighbours(*statements) == {"E_CATALOG"}


def test_a_view_over_a_registered_frame_goes_by_names_that_mean_one_table():
    """The engine cannot write down how it reads a frame, so such a view is bound over a copy of the tables that it names."""
    view = "SELECT f.uid, CAST(r.amount AS INTEGER) AS salary FROM frame f JOIN s.raw r ON r.uid = f.uid"
    for query, seen in ((view, "E_CATALOG"), ("SELECT uid, amount AS salary FROM frame", "answered")):
        connection = duckdb.connect()
        connection.register("frame", pd.DataFrame({"uid": range(50), "amount": range(50)}))
        connection.execute(f"CREATE TABLE raw AS {NUMBERS}")
        connection.execute("CREATE SCHEMA s")
        connection.execute(f"CREATE TABLE s.raw AS {STRINGS}")
        assert asked(connection, {"tables": {"people": {"owner": "uid", "view": query}}}) == seen
        connection.execute(f"CREATE TEMP VIEW people AS {query}")
        assert asked(connection, PEOPLE) == seen


@pytest.mark.parametrize("source", ["raw", "frame"])
def test_a_macro_is_what_its_database_says(source):
    """`lower` of a database that has a macro of that name is that macro."""
    query = f"SELECT uid, lower(amount) AS salary FROM {source}"
    connection = duckdb.connect()
    connection.register("frame", pd.DataFrame({"uid": range(50), "amount": ["1"] * 49 + ["many"]}))
    connection.execute(f"CREATE TABLE raw AS {STRINGS}")
    catalog = {"tables": {"people": {"owner": "uid", "view": query}}}
    assert asked(connection, catalog) == "answered"
    connection.execute("CREATE MACRO lower(x) AS CAST(x AS INTEGER)")
    assert asked(connection, catalog) == "E_CATALOG"


def test_plain_columns_of_any_type_and_comparison_are_read():
    connection = duckdb.connect()
    connection.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
    connection.execute(
        "CREATE TABLE stored AS SELECT i AS uid, 'a'::mood AS m, {'x': i} AS s, [i] AS l, i::DECIMAL(18, 3) AS salary, "
        "TIMESTAMPTZ '2024-01-01' AS z, i::UHUGEINT AS u, '\\x00'::BLOB AS b FROM range(50) t(i)"
    )
    connection.execute("ALTER TABLE stored ADD COLUMN name VARCHAR COLLATE NOCASE DEFAULT 'Ann'")
    connection.execute("CREATE VIEW people AS SELECT * FROM stored")
    assert asked(connection, PEOPLE) == "answered"
    assert asked(connection, PEOPLE, "name") == "answered"


NASTY = {
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "1e308", "-1e308", "0", "'-0.0'", "-1", "5e-324", "1e19"],
    "INTEGER": ["2147483647", "-2147483648", "0", "-1", "400"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "0", "-1", "4294967296"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"],
    "UBIGINT": ["18446744073709551615", "0", "64"],
    "UHUGEINT": ["340282366920938463463374607431768211455"],
    "TINYINT": ["-128"],
    "SMALLINT": ["-32768"],
    "DECIMAL": ["99999999999999999999999999999999999999"],
    "VARCHAR": ["''", "'a'", "'('", "'\\'", "'%'", "'zz'", "'day'", "'sum'", "'\\9'", "'%-'", "'é'", "'2024-01-01'"],
    "DATE": ["'2024-01-01'", "'infinity'", "'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "'0001-01-01'"],
    "TIMESTAMP": ["'2024-01-01'", "'infinity'", "'-infinity'", "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC)'"],
    "TIMESTAMP WITH TIME ZONE": ["'2024-01-01'", "'infinity'", "'-infinity'"],
    "TIME": ["'00:00'", "'24:00:00'"],
    "LIST": ["[1.0]", "[]", "NULL", "['nan', 'inf']"],
    "INTERVAL": ["INTERVAL 1000000000 DAYS", "INTERVAL 100000000 MONTHS"],
}
STORED = {"LIST": "DOUBLE[]", "DECIMAL": "DECIMAL(38, 0)"}
CONSTANTS = ["'day'", "'week'", "'isoyear'", "'microseconds'", "'millennium'", "'%Y'", "'a'", "'sum'", "'('", "'\\9'"]
OPERATORS = frozenset(["+", "-", "*", "/", "%", "//", "&", "|", "||", "~~", "~~*", "<<", ">>"])


def written(name, values):
    if name in OPERATORS and len(values) == 2:
        return f"({values[0]} {name} {values[1]})"
    return f"(- {values[0]})" if name == "-" else f'"{name}"({", ".join(values)})'


@pytest.mark.parametrize(("name", "types"), sorted(FUNCTIONS_OF_VIEWS))
def test_no_function_that_a_view_may_call_fails_on_any_value(name, types):
    """Columns of nasty values in every combination, and constants in the place of strings and of numbers."""
    stored = [STORED.get(type_, type_) for type_ in types]
    columns = [f"c{position}" for position in range(len(types))]
    constants = {"VARCHAR": CONSTANTS, "BIGINT": ["0", "3", "-2", "9223372036854775807"]}
    choices = [[column, *constants.get(type_, [])] for column, type_ in zip(columns, types, strict=True)]
    calls = [written(name, values) for values in itertools.product(*choices)]
    reader = Reader(LOCKDOWN)
    reader.copy({"t": list(zip(columns, stored, strict=True))})
    connection = duckdb.connect()
    listed = ", ".join(f"{column} {type_}" for column, type_ in zip(columns, stored, strict=True))
    connection.execute(f"CREATE TABLE t ({listed})")
    rows = itertools.product(*(NASTY[type_] for type_ in types))
    connection.execute("INSERT INTO t VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))
    for call in calls:
        try:
            reader.check(f"SELECT {call} AS v FROM t", OF_VIEWS)
        except InternalError:
            continue
        connection.execute(f"SELECT max(hash(v)) FROM (SELECT {call} AS v FROM t)").fetchall()


@pytest.mark.parametrize(
    ("value", "far"),
    [
        ("date_trunc('month', d)", "DATE '5881580-07-10', 'a', 1"),
        ("date_diff('microseconds', TIMESTAMP '2024-01-01', d::TIMESTAMP)", "DATE '294246-12-31', 'a', 1"),
        ("last_day(d)", "DATE '5881580-07-10', 'a', 1"),
        ("week(d)", "DATE '5877642-06-25 (BC)', 'a', 1"),
        ("left(t, n)", "NULL, 'a', 9223372036854775807"),
        ("substring(t, 1, n)", "NULL, 'a', 9223372036854775807"),
        ("left(t, 9223372036854775807)", "NULL, 'a', 1"),
        ("ntile(n) OVER (ORDER BY uid)", "NULL, 'a', -1"),
        ("ntile(0) OVER (ORDER BY uid)", "NULL, 'a', 1"),
        ("count(t) OVER (PARTITION BY uid ORDER BY t ROWS BETWEEN n PRECEDING AND CURRENT ROW)", "NULL, 'a', -1"),
        ("count(t) OVER (PARTITION BY uid ORDER BY t ROWS BETWEEN CURRENT ROW AND n FOLLOWING)", "NULL, 'a', NULL"),
        ("count(t) OVER (PARTITION BY uid ORDER BY t GROUPS BETWEEN n PRECEDING AND CURRENT ROW)", "NULL, 'a', -1"),
        ("sum(n::HUGEINT << 64) OVER (PARTITION BY uid)", "NULL, 'a', 9223372036854775807"),
        ("regexp_replace(t, 'a', t, 'g')", "NULL, 'a\\9', 1"),
        ("regexp_replace(t, 'a', '\\9', 'g')", "NULL, 'a', 1"),
        ("regexp_replace(t, '(', 'b', 'g')", "NULL, 'a', 1"),
        ("regexp_extract(t, '(', 0)", "NULL, 'a', 1"),
    ],
)
def test_values_beyond_what_a_function_takes_say_nothing_about_their_owner(value, far):
    statements = (
        "CREATE TABLE raw AS SELECT i AS uid, DATE '2024-01-01' AS d, 'abc' AS t, 2::BIGINT AS n FROM range(50) t(i)",
        f"UPDATE raw SET (d, t, n) = ({far}) WHERE uid = 7",
    )
    catalog = {"tables": {"people": {"owner": "uid", "view": f"SELECT uid, {value} AS salary FROM raw"}}}
    assert on_neighbours(*statements, catalog=catalog) == {"E_CATALOG"}


@pytest.mark.parametrize(
    "value",
    [
        "left(t, 2)",
        "substring(t, 1, 3)",
        "right(t, -1)",
        "ntile(4) OVER (ORDER BY uid)",
        "count(t) OVER (PARTITION BY uid ORDER BY t ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
        "month(d)",
        "regexp_extract(t, '(b)', 1)",
    ],
)
def test_everyday_views_are_taken(value):
    table = "CREATE TABLE raw AS SELECT i AS uid, DATE '2024-01-01' AS d, 'abc' AS t FROM range(50) t(i)"
    catalog = {"tables": {"people": {"owner": "uid", "view": f"SELECT uid, {value} AS salary FROM raw"}}}
    assert on_neighbours(table, catalog=catalog) == {"answered"}


WIDE = "170141183460469231731687303715884105727::HUGEINT"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT uid, sum(h) AS salary FROM raw GROUP BY uid",
        "SELECT uid, sum(h) OVER (PARTITION BY uid) AS salary FROM raw",
        "SELECT uid, h AS salary FROM raw LIMIT 100 OFFSET (SELECT min(n) FROM raw)",
    ],
)
def test_sums_of_wide_integers_and_limits_from_rows_are_refused(query):
    statements = (
        "CREATE TABLE raw AS SELECT i % 25 AS uid, 1::HUGEINT AS h, 0::BIGINT AS n FROM range(50) t(i)",
        f"UPDATE raw SET h = {WIDE}, n = -1 WHERE uid = 7",
    )
    catalog = {"tables": {"people": {"owner": "uid", "view": query}}}
    assert on_neighbours(*statements, catalog=catalog) == {"E_CATALOG"}


def test_a_macro_that_is_redefined_under_a_session_costs_nothing():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE raw AS SELECT i AS uid, 'a' AS t FROM range(50) t(i)")
    connection.execute("CREATE MACRO long(x) AS length(x)")
    connection.execute("CREATE VIEW people AS SELECT uid, long(t) AS salary FROM raw")
    with shoal.connect(connection, {"tables": {"people": {"owner": "uid"}}}) as session:
        session.query(f"{CLAUSE} COUNT(salary) AS n FROM people")
        before = session.spent
        connection.execute("CREATE OR REPLACE MACRO long(x) AS CAST(x AS INTEGER)")
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(f"{CLAUSE} COUNT(salary) AS n FROM people")
        assert (refused.value.code, session.spent) == ("E_SOURCE", before)
