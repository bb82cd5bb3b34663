"""What we write ourselves is what sqlglot's generator writes, to the letter."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

import shoal
from shoal.engines.duckdb.rendering import generated, render
from shoal.engines.duckdb.writing import Unknown, write
from shoal.engines.statements.relations import _frame
from shoal.plan.expressions import Frame
from shoal.sql.functions import forms

STATEMENTS = [
    'SELECT "a" AS "b", CAST(a AS BIGINT), \'it\'\'s\' FROM "temp"."main"."t" AS "x" WHERE NOT a IS NULL',
    'SELECT DISTINCT "a""b" FROM (VALUES (1, NULL), (2, TRUE)) AS "v"("a""b", c) GROUP BY 1 HAVING a = 1 LIMIT 3',
    "WITH r AS (SELECT 1), s AS (SELECT 2) SELECT * FROM r CROSS JOIN s INNER JOIN t ON r.a = t.a LEFT JOIN u ON u.b = t.b",
    "SELECT CASE WHEN a <= 1 THEN b WHEN a > 2 OR c THEN d ELSE e END, COALESCE(a, b), a IN (1, 2), a BETWEEN 1 AND 2",
    "SELECT (a + b) * -c - (- -d), a // 2 % 3, (a & 1) | 2, (1 << a) + (2 << b), a <> b, a >= b AND b < c AND c",
    "SELECT a IS NOT DISTINCT FROM b, a IS DISTINCT FROM b, CAST(a AS DECIMAL(10, 2)), CAST(a AS TIMESTAMP)",
    'SELECT EXISTS(SELECT 1 FROM t), (SELECT 2), a COLLATE "binary" FROM t ORDER BY a ASC NULLS FIRST, b DESC NULLS LAST',
    "SELECT a FROM (SELECT a + 1 AS a FROM t WHERE a UNION ALL SELECT DISTINCT b FROM u GROUP BY b) AS x",
    "SELECT 1 UNION SELECT 2",
    "SELECT * FROM (SELECT a FROM t INTERSECT SELECT b FROM u) AS x CROSS JOIN (SELECT a EXCEPT ALL SELECT b) AS y",
    "SELECT (a + 1) IN (SELECT b FROM t), NOT a IN (SELECT b UNION ALL SELECT c) FROM u",
]


@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.parametrize("qualified", [False, True])
def test_the_text_is_the_generators(sql, qualified):
    tree = parse_one(sql, dialect="duckdb")
    assert write(tree, qualified=qualified) == generated(tree.copy(), qualify_operators=qualified)


def test_forms_are_written_as_the_generator_writes_them():
    value = forms.canonical_double(forms.try_cast(forms.text("it's"), "DOUBLE"))
    tree = exp.select(value, exp.DPipe(this=forms.text("a"), expression=forms.number(-1.5)), forms.null("HUGEINT"))
    assert write(tree) == generated(tree.copy(), qualify_operators=False)


@pytest.mark.parametrize("unit", ["ROWS", "RANGE"])
@pytest.mark.parametrize("start", [(None, "PRECEDING"), (3, "PRECEDING"), (0, "CURRENT ROW")])
@pytest.mark.parametrize("end", [(None, "FOLLOWING"), (2, "FOLLOWING"), (0, "CURRENT ROW")])
def test_frames_are_written_as_the_generator_writes_them(unit, start, end):
    call = exp.Anonymous(this="sum", expressions=[exp.column("a")])
    window = exp.Window(this=call, partition_by=[exp.column("b")], spec=_frame(Frame(unit, start, end)))
    tree = exp.select(window)
    assert write(tree) == generated(tree.copy(), qualify_operators=False)
    assert write(tree).count(f"{unit} BETWEEN") == 1


def test_a_frame_that_leaves_rows_out_is_left_to_the_generator():
    spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW", exclude="TIES")
    with pytest.raises(Unknown):
        write(spec)


@pytest.mark.parametrize("name", [*forms._COMMON_TYPES, "DECIMAL(38, 2)", "BIT"])
def test_a_type_by_its_name_is_what_the_dialect_reads(name):
    assert forms.data_type(name) == exp.DataType.build(name, dialect="duckdb")


def test_a_tree_with_an_unknown_node_or_argument_is_left_to_the_generator():
    for sql in (
        "SELECT a[1]",
        "SELECT * EXCLUDE (a) FROM t",
        "SELECT a FROM t, u",
        "SELECT 1 UNION BY NAME SELECT 2",
        "(SELECT 1 LIMIT 1) UNION SELECT 2",
        "SELECT 1 UNION SELECT 2 UNION SELECT 3",
        "SELECT 1 UNION SELECT 2 LIMIT 1",
        "WITH t AS (SELECT 1 AS a) SELECT a FROM t UNION SELECT 2",
    ):
        tree = parse_one(sql, dialect="duckdb")
        with pytest.raises(Unknown):
            write(tree)
        assert render(tree) == generated(tree, qualify_operators=False)


@pytest.mark.parametrize(
    "wrap", [lambda tree: tree, lambda tree: exp.union(tree, "SELECT 1")], ids=["ours", "generator"]
)
def test_operators_inside_operators_are_qualified_too(wrap):
    tree = wrap(parse_one("SELECT a + (b * (-c)) ORDER BY a + (b - c)", dialect="duckdb"))
    found = render(tree, qualify_operators=True)
    assert 'system.main."+"(a, (system.main."*"(b, (system.main."-"(c)))))' in found
    assert 'system.main."+"(a, (system.main."-"(b, c))) ASC NULLS LAST' in found


def test_nobodys_macro_takes_part_in_a_query():
    """A connection that was handed in may hold macros with the names of operators."""
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"uid": range(2_000), "x": [3] * 2_000}))
        connection.execute("CREATE TABLE t AS FROM rows")
        for operator in ("+", "*", "-"):
            connection.execute(f'CREATE MACRO "{operator}"(a, b) AS 0')
        with shoal.connect(connection, {"tables": {"t": {"owner": "uid"}}}) as session:
            sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000) COUNT(*) AS n FROM t WHERE x * (x + (x - 1)) = 15"
            assert abs(session.query(sql).to_arrow().column("n")[0].as_py() - 2_000) < 100
