"""Ways out that no single query shows: files and pickles of an answer, errors and their context, settings of a connection."""

from __future__ import annotations

import io
import pickle
from decimal import Decimal

import duckdb
import nasty_data
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus import PRIVATE, written_out

import shoal
from shoal.audit.suite.replay import Neighbours

EXACT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1000000, delta=1e-9, max_groups_contributed=9) "
ROWS = "COUNT(*, contribution_bounds_per_group => (0, 5))"
HIDDEN = "Zanzibar-hidden-key"
CATALOG = {"tables": {"t": {"owner": "uid"}}}


def crowded(extra=()):
    rows = [(uid, f"g{uid % 3}", float(uid % 10)) for uid in range(900)] + list(extra)
    columns = list(zip(*rows, strict=True))
    return pa.table({"uid": list(columns[0]), "g": list(columns[1]), "x": list(columns[2])})


def opened(table, catalog=None):
    return shoal.connect({"t": table}, catalog=catalog or CATALOG)


# ---- what an answer carries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_no_trace_of_a_group_that_was_not_released_leaves_in_any_form(encoded):
    table = crowded([(7, HIDDEN, 31337.25)])
    if encoded:
        table = table.set_column(1, "g", table.column("g").dictionary_encode())
    sql = PRIVATE + "g, COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m, COUNT(DISTINCT x) AS d FROM t GROUP BY g"
    result = opened(table).query(sql)
    answer = result.to_arrow()
    assert answer.schema.field("g").type == pa.string()
    stream, file = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(stream, answer.schema) as writer:
        writer.write_table(answer)
    pq.write_table(answer, file)
    everything = [
        stream.getvalue(),
        file.getvalue(),
        pickle.dumps(result),
        repr(result).encode(),
        result._repr_html_().encode(),
    ]
    everything += [
        b.to_pybytes() for c in answer.columns for chunk in c.chunks for b in chunk.buffers() if b is not None
    ]
    assert all(HIDDEN.encode() not in form for form in everything)
    assert all(np.float64(31337.25).tobytes() not in form for form in everything)


def test_exact_trees_are_gone_once_they_have_answered():
    result = opened(crowded()).query(PRIVATE + "MEDIAN(x, contribution_bounds_per_row => (0, 10)) AS m FROM t")
    (copied,) = result._kept.bars.columns[0]
    assert all(reading.forest is None for reading in copied.classes[0])


def test_an_explanation_knows_no_data():
    sql = PRIVATE + "g, COUNT(*) AS n, AVG(x) AS a, MEDIAN(x) AS m FROM t GROUP BY g"
    texts = set()
    for table in (crowded(), crowded([(7, HIDDEN, 1e9)] * 1000), crowded().slice(0, 0)):
        session = opened(table)
        texts.add(
            (str(session.explain(sql)), str(session.query(f"EXPLAIN PRIVACY {sql}").to_dicts()), str(session.tables()))
        )
        assert session.spent == (0.0, 0.0)
    assert len(texts) == 1


# ---- what an error carries ----------------------------------------------------------------------------------------


def test_a_failure_after_data_was_read_is_charged_and_says_nothing():
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE raw AS SELECT 1 AS uid, 'Zanzibar-hidden-key' AS g, 2.0 AS x")
    fragile = {"owner": "uid", "view": "SELECT uid, CAST(g AS INTEGER) AS g FROM raw", "trusted_view": True}
    session = shoal.connect(connection, catalog={"tables": {"t": fragile}})
    with pytest.raises(shoal.ShoalError) as failed:
        session.query(PRIVATE + "COUNT(g) FROM t")
    error = failed.value
    assert error.code == "E_EXECUTION"
    assert session.spent[0] == 1.0
    assert error.__context__ is None
    assert error.__cause__ is None
    assert not any(word in str(error) for word in ("duckdb", "Catalog", "Table", "t does not exist", HIDDEN))


def test_a_frame_in_the_callers_scope_is_no_table():
    secret_df = crowded()
    assert secret_df.num_rows
    with pytest.raises(shoal.ShoalError, match="E_UNKNOWN_TABLE"):
        opened(crowded()).query(PRIVATE + "COUNT(*) FROM secret_df")


# ---- what a source carries ----------------------------------------------------------------------------------------


def test_text_that_is_no_text_is_refused_when_the_source_is_opened():
    offsets = np.array([0, 1, 3], dtype=np.int32).tobytes()
    broken = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff\xfe")])
    with pytest.raises(shoal.ShoalError, match="E_SOURCE"):
        opened(pa.table({"uid": [1, 2], "g": broken, "x": [1.0, 2.0]}))


def test_an_index_out_of_its_dictionary_is_refused_when_the_source_is_opened():
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(shoal.ShoalError, match="E_SOURCE"):
        opened(pa.table({"uid": [1, 2], "g": broken, "x": [1.0, 2.0]}))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(10) ** 47, Decimal(-(10**47))], pa.decimal256(50, 2)),
        pa.array([Decimal(10) ** 35, None], pa.decimal256(38, 2)),
        pa.array(np.array([np.nan, np.inf], np.float16)),
    ],
    ids=["more digits than the engine has", "decimal256", "half"],
)
def test_numbers_that_the_engine_does_not_know_are_read_as_some_that_it_does(column):
    """The largest ones fail no query."""
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(g, contribution_bounds_per_group => (0, 1)) AS s FROM t"
    with opened(pa.table({"uid": [1, 2], "g": column, "x": [1.0, 2.0]})) as session:
        assert len(session.query(sql + " WHERE g > 1 OR g IS NULL")) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a"] * 50),
        pa.array([[1]] * 50),
        pa.array([{"a": 1}] * 50),
        pa.nulls(50),
        pa.array([1] * 50, pa.duration("us")),
        pa.array([(1, 2, 3)] * 50, pa.month_day_nano_interval()),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_that_no_query_can_use_spoils_no_other(column):
    session = opened(pa.table({"uid": range(50), "g": column, "x": [1.0] * 50}))
    exact = EXACT + "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT * FROM t)"
    assert session.query(exact).to_dicts() == [{"n": 50}]
    with pytest.raises(shoal.ShoalError, match="E_UNSUPPORTED"):
        session.query(PRIVATE + "COUNT(g) FROM t")


def test_a_default_collation_is_refused():
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t AS SELECT 1 AS uid, 'a' AS g, 2.0 AS x")
    connection.execute("SET default_collation = 'NOCASE'")
    with pytest.raises(shoal.ShoalError, match="E_SOURCE"):
        shoal.connect(connection, catalog=CATALOG)


STRANGE_SETTINGS = (
    "SET default_order = 'DESC'",
    "SET default_null_order = 'NULLS_FIRST'",
    "SET integer_division = true",
    "SET TimeZone = 'Asia/Tokyo'",
    "SET preserve_insertion_order = false",
    "SET old_implicit_casting = true",
    "CREATE MACRO sum(x) AS 42",
    "CREATE MACRO count(x) AS 42",
    "CREATE MACRO least(a, b) AS 42",
    "CREATE MACRO row_number() AS 1",
    'CREATE MACRO "+"(a, b) AS 7',
    'CREATE MACRO "||"(a, b) AS 7',
    "CREATE MACRO abs(x) AS 42",
    "CREATE MACRO isnan(x) AS true",
)


@pytest.mark.parametrize("setting", STRANGE_SETTINGS)
def test_settings_and_macros_of_a_connection_change_no_answer(setting):
    queries = [
        EXACT + f"g || 'x' AS k, {ROWS} AS n FROM t GROUP BY k ORDER BY k",
        EXACT + "SUM(abs(uid) + 1, contribution_bounds_per_group => (0, 1000)) AS s FROM t",
        EXACT + f"{ROWS} AS n FROM (SELECT uid, sum(x) AS s, count(*) AS c FROM t GROUP BY uid) WHERE s / c > 4",
        EXACT
        + f"{ROWS} AS n FROM (SELECT uid, row_number() OVER (PARTITION BY uid ORDER BY x) AS r FROM t) WHERE r = 1",
    ]
    answers = []
    for strange in (False, True):
        connection = duckdb.connect(":memory:")
        connection.register("frame", crowded([(7, None, None), (7, "g1", float("nan")), (8, "g1", 3.5)]))
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        session = shoal.connect(connection, catalog=CATALOG)
        if strange:
            connection.execute(setting)
        answers.append([session.query(sql).to_dicts() for sql in queries])
    for plain, shadowed in zip(*answers, strict=True):
        for one, other in zip(plain, shadowed, strict=True):
            assert {k: pytest.approx(v, abs=0.05) if isinstance(v, float) else v for k, v in one.items()} == other


def test_names_are_names_whatever_is_in_them():
    connection = duckdb.connect(":memory:")
    table, owner, key = 'we"ird; DROP TABLE x; --', 'u"id', "a b.c'--"
    quoted = ['"' + name.replace('"', '""') + '"' for name in (table, owner, key)]
    connection.execute(f"CREATE TABLE {quoted[0]} AS SELECT range AS {quoted[1]}, 'k' AS {quoted[2]} FROM range(50)")
    session = shoal.connect(connection, catalog={"tables": {table: {"owner": owner}}})
    sql = (
        EXACT
        + f'{quoted[2]}, {ROWS} AS "<script>" FROM {quoted[0]} AS "rows_" WHERE "rows_".{quoted[1]} >= 10 GROUP BY 1'
    )
    result = session.query(sql)
    assert result.to_dicts() == [{key: "k", "<script>": 40}]
    assert "<script>" not in result._repr_html_()


# ---- what queries inside queries carry ----------------------------------------------------------------------------


def test_every_private_subquery_pays_once():
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    count = "(PRIVATE COUNT(*) FROM visits)"
    for sql, epsilon in (
        (f"PRIVATE region, COUNT(*) + (1 + {count}) AS n FROM customers GROUP BY region", 2),
        (f"PRIVATE region, COUNT(*) AS n FROM customers GROUP BY region HAVING COUNT(*) > {count} - 9000", 2),
        (f"PRIVATE COUNT(*) FROM customers WHERE age > {count} AND age > {count}", 3),
        (f"PRIVATE SUM(age - {count}, contribution_bounds_per_group => (0, 9)) AS s FROM customers", 2),
        ("WITH p AS (PRIVATE COUNT(*) AS n FROM visits) SELECT a.n - b.n AS zero FROM p a CROSS JOIN p b", 1),
        (f"SELECT {count} + {count} AS n", 2),
    ):
        before = session.spent[0]
        session.query(written_out(sql))
        assert session.spent[0] - before == pytest.approx(epsilon)


def test_a_table_that_is_used_twice_is_drawn_once():
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    sql = "WITH p AS (PRIVATE COUNT(*) AS n FROM visits) SELECT a.n - b.n AS zero FROM p a CROSS JOIN p b"
    assert [session.query(written_out(sql)).to_dicts() for _ in range(5)] == [[{"zero": 0}]] * 5


def test_answers_inside_a_query_reach_the_right_place():
    """Each private SELECT reads its own released rows, whatever stands around it."""
    rows = [(uid, "north", 40, 100.0) for uid in range(500)]
    trips = [(uid, "s1", nasty_data.FIRST_DAY, 5.0) for uid in range(100)]
    session = shoal.connect(nasty_data.built(rows, trips), catalog=nasty_data.CATALOG)
    exact = EXACT.replace("max_groups_contributed=9", "max_groups_contributed=1")
    one = "COUNT(*, contribution_bounds_per_group => (0, 1))"
    visitors = f"({exact} {one} FROM visits)"
    items = f"region, {one} AS n, {one} - {visitors} AS more, {visitors} AS v"
    sql = f"{exact} {items} FROM customers GROUP BY region HAVING {one} > {visitors}"
    assert session.query(sql).to_dicts() == [{"region": "north", "n": 500, "more": 400, "v": 100}]


def test_not_in_keeps_its_third_truth_value():
    """A missing value among the others makes NOT IN unknown, as in plain SQL: the row is not counted."""
    people = [(1, "a", 1, 1.0), (2, "a", 1, 1.0), (3, "a", 1, 1.0)]
    trips = [(1, None, None, 1.0), (2, "b", None, 1.0)]
    session = shoal.connect(nasty_data.built(people, trips), catalog=nasty_data.CATALOG)
    sql = EXACT + (
        "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM customers c "
        "WHERE region NOT IN (SELECT site FROM visits v WHERE v.uid = c.uid)"
    )
    assert session.query(sql).to_dicts() == [{"n": 2}]


def test_owners_from_the_missing_side_of_a_join_are_not_counted():
    people = [(uid, "a", 1, 1.0) for uid in range(50)]
    trips = [(uid, "b", None, 1.0) for uid in range(20)]
    session = shoal.connect(nasty_data.built(people, trips), catalog=nasty_data.CATALOG)
    sql = (
        EXACT
        + "COUNT(DISTINCT v.uid) AS n, COUNT(DISTINCT c.uid) AS m FROM customers c LEFT JOIN visits v ON c.uid = v.uid"
    )
    assert session.query(sql).to_dicts() == [{"n": 20, "m": 50}]


def test_windows_with_ties_are_the_same_on_shuffled_rows():
    """Ties are broken by the rows themselves: physical order decides nothing, with or without owner 7."""
    trips = [(uid, f"s{i % 3}", nasty_data.FIRST_DAY, float(i % 2)) for uid in range(1, 30) for i in range(6)]
    tables = nasty_data.built([], trips)
    others = nasty_data.shuffled(nasty_data.without(tables))
    for function in ("ROW_NUMBER()", "LAG(site)", "FIRST_VALUE(site)", "SUM(spend)", "NTILE(2)", "LEAD(spend, 2)"):
        sql = written_out(
            f"PRIVATE w, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM "
            f"(SELECT uid, {function} OVER (PARTITION BY uid ORDER BY day) AS w FROM visits) GROUP BY w"
        )
        with Neighbours(tables, others, nasty_data.CATALOG) as pair:
            found = pair.replay(sql)
        assert found.passed, found.problems


def test_names_of_columns_send_nothing_to_a_terminal():
    """Whoever writes the first line of a file would write to the screens of those who mistype a name."""
    with (
        opened(pa.table({"uid": [1, 2], "\x1b[31m\u202ered": [1, 2]})) as session,
        pytest.raises(shoal.ShoalError) as refused,
    ):
        session.query(EXACT + "COUNT(nothing) FROM t")
    assert "\\x1b[31m\\u202ered" in str(refused.value)
    assert str(refused.value).replace("\n", "").isprintable()
