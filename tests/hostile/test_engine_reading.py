"""What the engine makes of a statement is checked before the charge: a bug of ours costs nothing and tells nothing.

Each planted bug below is a form that can fail on some rows. With the victim's row the engine would fail, without it answer;
here both are refused alike, free, and no row is read.
"""

from __future__ import annotations

import duckdb
import nasty_data
import pyarrow as pa
import pytest
from corpus import PRIVATE
from sqlglot import exp

import shoal
from shoal.engines.duckdb.checking import prepare as preparing
from shoal.engines.duckdb.checking.reading import Reader
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.rendering import generated, render
from shoal.engines.duckdb.writing import write
from shoal.plan.expressions import InRelation
from shoal.release.execute import prepare
from shoal.sql.functions import forms

GROUPED = PRIVATE + "site, SUM(spend) AS s FROM visits GROUP BY site"
RELEASED_TWICE = (
    "WITH big AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) site, COUNT(*) AS n FROM visits GROUP BY site) "
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) COUNT(*) AS c FROM visits JOIN big ON visits.site = big.site"
)


@pytest.fixture
def sessions(monkeypatch):
    """With and without the victim; nothing of what was read before is remembered."""
    monkeypatch.setattr(preparing, "PARTS", preparing.Remembered(200))
    tables = nasty_data.built(*nasty_data.ordinary())
    return [shoal.connect(data, catalog=nasty_data.CATALOG) for data in (tables, nasty_data.without(tables))]


def assert_refused_alike_for_nothing(sessions, sql, monkeypatch):
    def must_not(*_, **__):
        raise AssertionError("private rows were read")

    monkeypatch.setattr(DuckDBEngine, "totals", must_not)
    said = set()
    for session in sessions:
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(sql)
        assert refused.value.code == "E_INTERNAL"
        assert session.spent == (0.0, 0.0)
        assert session.ledger.entries() == []
        said.add(str(refused.value))
    assert len(said) == 1


def test_a_cast_that_fails_on_some_rows_is_found_before_the_charge(sessions, monkeypatch):
    monkeypatch.setattr("shoal.sql.functions.values.try_cast", forms.cast)
    sql = PRIVATE + "COUNT(*) FROM customers WHERE CAST(region AS BIGINT) = 1"
    assert_refused_alike_for_nothing(sessions, sql, monkeypatch)


def test_two_types_that_meet_are_found_before_the_charge(sessions, monkeypatch):
    """The first exact oracle, planted again: neither the binder nor the plan brings both sides of IN to one type."""
    monkeypatch.setattr(InRelation, "__post_init__", lambda _: None)
    monkeypatch.setattr("shoal.sql.functions.unified", lambda arguments, *_: list(arguments))
    victim = "CASE WHEN uid = 7 AND income > 0 THEN 100 ELSE 0 END"
    sql = PRIVATE + f"COUNT(*) FROM customers WHERE {victim} IN (SELECT CAST(0.5 AS DECIMAL(38, 37)))"
    assert_refused_alike_for_nothing(sessions, sql, monkeypatch)


@pytest.mark.parametrize(
    ("form", "sql"),
    [
        ("shoal.sql.functions.canonical.forms.try_cast", GROUPED),
        ("shoal.engines.statements.integers.try_cast", GROUPED),
        (
            "shoal.engines.statements.sum_owners.try_cast",
            PRIVATE + "MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM visits",
        ),
        ("shoal.engines.statements.integers.try_cast", PRIVATE + "SUM(spend) FROM visits"),
    ],
    ids=["sampling", "grids", "leaves", "histograms"],
)
def test_what_bounds_and_sums_is_read_as_well(sessions, monkeypatch, form, sql):
    monkeypatch.setattr(form, forms.cast)
    assert_refused_alike_for_nothing(sessions, sql, monkeypatch)


SEARCHING = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) "


def test_what_finds_limits_is_read_as_well(sessions, monkeypatch):
    """The rows of an owner are added up, and a plain cast of such a sum could fail for one of them."""
    monkeypatch.setattr("shoal.sql.functions.aggregates.try_cast", forms.cast)
    assert_refused_alike_for_nothing(sessions, SEARCHING + "site, COUNT(*) FROM visits GROUP BY site", monkeypatch)


def texts_read(monkeypatch):
    read = []
    original = Reader.check_all
    monkeypatch.setattr(Reader, "check_all", lambda self, texts: (read.extend(texts), original(self, texts))[1])
    return read


def test_what_finds_limits_is_read_once_for_all_queries_that_are_alike(sessions, monkeypatch):
    """The rows hold all that the analyst wrote; they are read with what the search takes of them."""
    session = sessions[0]
    session.query(SEARCHING + "site, COUNT(*) FROM visits WHERE spend > 1 GROUP BY site")
    read = texts_read(monkeypatch)
    session.query(SEARCHING + "region, COUNT(*) FROM customers WHERE age < 40 GROUP BY region")
    assert len(read) == 1
    assert read[0].count(" AS ") >= 4


def test_what_finds_limits_of_values_of_another_type_is_read_whole(sessions, monkeypatch):
    """A constant key is a smaller integer to the engine than to the plan: nothing that was read over NULLs stands for it."""
    session = sessions[0]
    session.query(SEARCHING + "site, age, COUNT(*) FROM visits JOIN customers USING (uid) GROUP BY site, age")
    read = texts_read(monkeypatch)
    session.query(SEARCHING + "site, 5 AS k, COUNT(*) FROM visits WHERE spend > 2 GROUP BY site, k")
    assert sum("visits" in text for text in read) == 3  # the rows, and both of its searches


def test_what_finds_limits_is_read_whole_where_it_leaves_out_other_owners(sessions, monkeypatch):
    """Strings that only the query reads count for its joined rows, and not for those of the search."""
    session = sessions[0]
    read = texts_read(monkeypatch)
    session.query(
        SEARCHING + "a.day, SUM(LENGTH(b.site), contribution_bounds_per_group => (0, 9)) "
        "FROM visits AS a JOIN visits AS b ON a.uid = b.uid AND a.day = b.day GROUP BY a.day"
    )
    assert any("crowded" in text and text.startswith('SELECT "s0h') for text in read)


def test_what_works_on_released_rows_is_read_as_well(sessions, monkeypatch):
    monkeypatch.setattr("shoal.sql.functions.values.try_cast", forms.cast)
    sql = PRIVATE + "site, COUNT(*) AS n FROM visits GROUP BY site HAVING CAST(CAST(COUNT(*) AS VARCHAR) AS BIGINT) > 5"
    assert_refused_alike_for_nothing(sessions, sql, monkeypatch)


def test_a_function_that_the_engine_understands_differently_is_found(sessions, monkeypatch):
    monkeypatch.setattr(
        "shoal.sql.functions.forms.qualified", lambda name: "random" if name == "sqrt" else f'system.main."{name}"'
    )
    assert_refused_alike_for_nothing(sessions, PRIVATE + "COUNT(*) FROM customers WHERE SQRT(income) > 9", monkeypatch)


def test_a_statement_that_cannot_be_written_costs_nothing(sessions, monkeypatch):
    def cannot(*_, **__):
        raise RuntimeError("with a secret in it")

    monkeypatch.setattr("shoal.engines.statements.relations.Compiler._scan", cannot)
    assert_refused_alike_for_nothing(sessions, GROUPED, monkeypatch)


# ---- nothing is refused that works ---------------------------------------------------------------------------------

ANSWERED = {
    "one group": PRIVATE + "COUNT(*) FROM visits",
    "bounds to be found": GROUPED,
    "bounds of each group": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, inferred_bounds=PER_GROUP) "
    "site, SUM(spend) FROM visits GROUP BY site",
    "rows of each owner": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_rows_contributed=3) "
    "site, AVG(spend, contribution_bounds_per_group => (0, 9)) FROM visits GROUP BY site",
    "one private SELECT reads another": RELEASED_TWICE,
    "public groups": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, group_selection_strategy=PUBLIC_GROUPS) "
    "r.region, COUNT(*) FROM regions r LEFT JOIN customers c ON c.region = r.region GROUP BY r.region",
    "a public table around it": f"SELECT * FROM ({PRIVATE} region, COUNT(*) AS n FROM customers GROUP BY region) "
    "JOIN regions USING (region)",
    "owners who may have too much in two joins": PRIVATE
    + "COUNT(*) FROM visits AS a JOIN customers AS b ON a.uid = b.uid "
    "WHERE EXISTS (SELECT 1 FROM visits AS c JOIN visits AS d ON c.uid = d.uid AND c.site = d.site WHERE c.uid = a.uid)",
    "everything else": PRIVATE
    + "site, COUNT(DISTINCT day), STDDEV(spend), MEDIAN(spend), MAX(spend), APPROX_QUANTILES(spend, 4), "
    "COUNT(DISTINCT uid), COUNTIF(spend > 1) FROM visits GROUP BY site HAVING COUNT(*) > 1 ORDER BY site LIMIT 5",
}


@pytest.mark.parametrize("sql", ANSWERED.values(), ids=ANSWERED.keys())
def test_what_can_be_run_is_prepared(sessions, sql, monkeypatch):
    """And every text on the way is the one that sqlglot's generator writes."""

    def compared(tree, *, qualified=False):
        written = write(tree, qualified=qualified)
        assert written == generated(tree.copy(), qualify_operators=qualified)
        return written

    monkeypatch.setattr("shoal.engines.duckdb.rendering.write", compared)
    for session in sessions:
        session.query(sql)


def test_a_query_is_read_once(sessions, monkeypatch):
    read = []
    original = Reader.check_all
    monkeypatch.setattr(Reader, "check_all", lambda self, texts: (read.extend(texts), original(self, texts))[1])
    sessions[0].query(GROUPED)
    assert len(read) >= 2
    first = len(read)
    sessions[0].query(GROUPED)
    assert len(read) == first


def test_what_bounds_and_sums_is_read_once_for_all_queries_that_are_alike(sessions, monkeypatch):
    read = []
    original = Reader.check_all
    monkeypatch.setattr(Reader, "check_all", lambda self, texts: (read.extend(texts), original(self, texts))[1])
    sessions[0].query(
        PRIVATE + "site, SUM(spend, contribution_bounds_per_group => (0, 50)) FROM visits WHERE spend > 1 GROUP BY site"
    )
    first = len(read)
    sessions[1].query(
        PRIVATE
        + "region, SUM(income, contribution_bounds_per_group => (0, 9e5)) FROM customers WHERE age < 40 GROUP BY region"
    )
    assert len(read) - first == 1  # the rows; the statement over released rows only copies them


def test_measures_and_keys_that_were_read_apart_are_not_read_again_together(sessions, monkeypatch):
    for sql in (
        "site, SUM(spend, contribution_bounds_per_group => (0, 50)) FROM visits GROUP BY site",
        "day, MEDIAN(spend, contribution_bounds_per_row => (0, 50)) FROM visits GROUP BY day",
        "site, COUNT(*, contribution_bounds_per_group => (0, 3)) FROM visits GROUP BY site",
    ):
        sessions[0].query(PRIVATE + sql)
    read = []
    original = Reader.check_all
    monkeypatch.setattr(Reader, "check_all", lambda self, texts: (read.extend(texts), original(self, texts))[1])
    sessions[0].query(
        PRIVATE + "day, site, COUNT(*, contribution_bounds_per_group => (0, 9)), "
        "SUM(spend, contribution_bounds_per_group => (1, 5)), "
        "MEDIAN(spend, contribution_bounds_per_row => (0, 7)) FROM visits GROUP BY day, site"
    )
    assert len(read) == 1  # the rows; the statement over released rows only copies them


@pytest.mark.parametrize("sql", ANSWERED.values(), ids=ANSWERED.keys())
def test_the_whole_is_no_surprise_where_its_parts_are_none(sessions, sql):
    """What sums over owners by SQL, as it would be run: all measures, all keys, the query's own rows and numbers."""
    session = sessions[0]
    session.query(sql)
    reader = session._engine._plan_checker._reader
    tables = {name: exp.to_table(f'temp.main."{name}"') for name in nasty_data.CATALOG["tables"]}
    plan = session.plan(sql)
    asked = []
    session._engine._plan_checker.check = lambda plan, asked_of, *_: asked.append(asked_of(plan))
    prepare(plan, session._engine)
    assert asked[0].totals
    for query in asked[0].totals:
        statements = preparing.Summing(query, preparing.PLACEHOLDER_KEY, tables).statements().all()
        reader.check(render(preparing.together(statements)))  # raises at a surprise


def test_names_of_tables_and_columns_are_only_names():
    named = ["rows_", "released_0", "s0_", 'a"b', "select", "v"]
    odd = ["uid", 'x"; DROP TABLE t; --', "owner_", "a0", "n_"]
    tables = {name: pa.table({column: [1, 2, 3] for column in odd}) for name in named}
    session = shoal.connect(tables, catalog={"tables": {name: {"owner": "uid"} for name in named}})
    for name in named:
        quoted = '"' + name.replace('"', '""') + '"'
        session.query(PRIVATE + f'"owner_", SUM("a0"), COUNT(DISTINCT "n_") FROM {quoted} GROUP BY "owner_"')


# ---- a connection that was handed in -------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["ieee_floating_point_ops = false", "legacy_disable_null_type = true"])
def test_a_connection_on_which_statements_mean_something_else_is_not_taken(setting):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS SELECT 7 AS uid, 1000.0 AS x")
    connection.execute(f"SET GLOBAL {setting}")
    with pytest.raises(shoal.ShoalError, match="E_SOURCE"):
        shoal.connect(connection, catalog={"tables": {"visits": {"owner": "uid"}}})


def test_parts_that_were_read_without_qualified_operators_are_read_again_with_them(sessions, monkeypatch):
    """Somebody else's connection runs other texts than ours: what was read of ours says nothing about them."""
    sql = PRIVATE + "site, SUM(spend, contribution_bounds_per_group => (0, 50)) FROM visits GROUP BY site"
    sessions[0].query(sql)
    connection = duckdb.connect()
    visits = nasty_data.built(*nasty_data.ordinary())["visits"]  # noqa: F841 - the engine finds it by its name
    connection.execute("CREATE TABLE copied AS SELECT * FROM visits")
    read = []
    original = Reader.check_all
    monkeypatch.setattr(Reader, "check_all", lambda self, texts: (read.extend(texts), original(self, texts))[1])
    handed_in = shoal.connect(connection, catalog={"tables": {"copied": {"owner": "uid"}}})
    handed_in.query(sql.replace("visits", "copied"))
    assert len(read) > 1
    assert all('system.main."+"' in text for text in read[:-1])
