"""Seeded mutations of sample queries: a query or a ShoalError, quickly, and never a node outside the grammar."""

from __future__ import annotations

import random

import pytest
from sqlglot import exp

from shoal.errors import ShoalError
from shoal.sql.parse import function_call, parse, position_of, privacy_clause

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3)"
OLDER = "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, delta=1e-6, kappa=3)"

SAMPLES = [
    f"{CLAUSE} region, COUNT(*) FROM customers GROUP BY region",
    f"{CLAUSE} COUNT(*) FROM customers WHERE (((1=1)))",
    f"{CLAUSE} region, AVG(age, contribution_bounds_per_group => (0, 100)) AS a FROM customers GROUP BY 1 ORDER BY a",
    f"{CLAUSE} c.region, COUNT(*) FROM customers c JOIN visits v ON c.uid = v.uid GROUP BY c.region",
    f"{CLAUSE} COUNT(*) FROM customers c FULL OUTER JOIN visits v USING (uid)",
    f"{CLAUSE} COUNT(*) FROM visits v, LATERAL (SELECT income FROM customers c WHERE c.uid = v.uid) x",
    f"{CLAUSE} COUNT(*) FROM customers SEMI JOIN visits ON customers.region = visits.site",
    f"{CLAUSE} COUNT(*) FROM customers NATURAL JOIN regions",
    f"{CLAUSE} COUNT(*) FROM (SELECT uid, rank() OVER (ORDER BY income DESC NULLS LAST) AS r FROM t) WHERE r = 1",
    f"{CLAUSE} COUNT(*) FROM (SELECT uid FROM customers QUALIFY row_number() OVER (ORDER BY income DESC) <= 3)",
    f"{CLAUSE} COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND v.spend > 20)",
    f"{CLAUSE} COUNT(*) FROM customers WHERE region IN (SELECT region FROM regions WHERE continent = 'EU')",
    f"{CLAUSE} COUNT(*) FROM (SELECT uid FROM customers EXCEPT SELECT uid FROM visits)",
    f"{CLAUSE} CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'mid' ELSE '' END AS g, COUNT(*) FROM t GROUP BY g",
    f"{CLAUSE} site, COUNT(*) FROM visits WHERE day < DATE '2026-01-01' + INTERVAL 30 DAY GROUP BY site",
    f"{CLAUSE} SUM(spend, contribution_bounds_per_group => (0, 10)) FILTER (WHERE spend > 3) FROM visits",
    f"{CLAUSE} SUM(spend ORDER BY spend DESC) FROM visits",
    f"{CLAUSE} PERCENTILE_CONT(income, 0.5), MEDIAN(age), APPROX_QUANTILES(age, 4) FROM customers",
    f"{CLAUSE} PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY income) FROM customers",
    f"{CLAUSE} COUNT(DISTINCT site, max_contributions_per_group => 3) FROM visits",
    f"{CLAUSE} region, COUNT(*) FROM customers GROUP BY ROLLUP (region)",
    f"{CLAUSE} region, COUNT(*) FROM customers GROUP BY GROUPING SETS ((region), ())",
    f"{CLAUSE} region, COUNT(*) AS n FROM customers GROUP BY region HAVING n > 100 ORDER BY n DESC LIMIT 3 OFFSET 1",
    f"SELECT region, n FROM ({CLAUSE} region, COUNT(*) AS n FROM customers GROUP BY region) WHERE n > 400",
    f"{CLAUSE} region, COUNT(*) FROM customers GROUP BY region UNION ALL SELECT region, income FROM customers",
    f"WITH x AS (SELECT * FROM customers ORDER BY income DESC LIMIT 5) {CLAUSE} COUNT(*) FROM x",
    f"WITH raw AS MATERIALIZED (SELECT AVG(income) AS m FROM t) {CLAUSE} COUNT(*) FROM t, raw WHERE income > m",
    f"WITH RECURSIVE r(uid, n) AS (SELECT uid, 1 FROM c UNION ALL SELECT uid, n + 1 FROM r) {CLAUSE} COUNT(*) FROM r",
    f"{OLDER} region, ANON_AVG(total CLAMPED BETWEEN 0 AND 500) FROM (SELECT uid, region FROM visits) GROUP BY region",
    f"{OLDER} ANON_COUNT(*), ANON_COUNT(*, 10), ANON_COUNT(DISTINCT uid), ANON_SUM(x, 0, -5) FROM customers",
    f"{OLDER} ANON_PERCENTILE_CONT(income, 0.5 CLAMPED BETWEEN 0 AND 1e5) FROM customers",
    f"{OLDER} ANON_SUM(income CLAMPED BETWEEN CAST('nan' AS DOUBLE) AND 100) FROM customers",
    "SELECT region, COUNT(*), AVG(income) FROM customers GROUP BY region",
    "SELECT a.b, a.*, t.c::DECIMAL(12, 2), TRY_CAST(d AS INT64) FROM a, t",
    "SELECT x IS NOT NULL, y IS DISTINCT FROM z, NOT w, -v, +u FROM t",
    "SELECT a LIKE 'x%' ESCAPE '!', b ILIKE 'y', c NOT BETWEEN 1 AND 2 FROM t",
    "SELECT EXTRACT(YEAR FROM d), DATE_TRUNC('month', d), d AT TIME ZONE 'UTC' FROM t",
    "SELECT SUBSTRING(s FROM 2 FOR 3), TRIM(BOTH 'x' FROM s), POSITION('a' IN s) FROM t",
    "SELECT INTERVAL '3 days', TIMESTAMP '2026-01-01 00:00:00', NUMERIC '1.5'",
    "SELECT SUM(a) OVER w, LAG(a IGNORE NULLS) OVER (PARTITION BY b ORDER BY c) FROM t WINDOW w AS (PARTITION BY d)",
    "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)",
    "SELECT * FROM (a JOIN (b LEFT JOIN c ON b.x = c.x) ON a.x = b.x) CROSS JOIN d",
    "SELECT * FROM read_csv('/etc/passwd') AS f",
    "SELECT list_transform([1, 2], x -> x + 1), arr[1], ARRAY[1]",
    "(SELECT 1 LIMIT 5) UNION (SELECT 2) INTERSECT SELECT 3 ORDER BY 1 FETCH FIRST 2 ROWS ONLY",
    'SELECT "Größe", `order` FROM "my table" AS "my alias"',
    "SELECT a FROM t WHERE a = ANY (SELECT b FROM u) AND c >= ALL (SELECT d FROM v)",
    "SELECT max(COLUMNS(*)) FROM customers",
    "TABLE customers",
    "VALUES (1), (2)",
    f"EXPLAIN PRIVACY {CLAUSE} COUNT(*) FROM customers",
    f"{CLAUSE} COUNT(*) FROM customers -- ; DROP\n",
    "SELECT /* hidden */ COUNT(*) FROM customers;",
    "SELECT CURRENT_DATE, CURRENT_TIMESTAMP, LEFT(a, 2), IF(a, b, c), safe.substr(a, 1) FROM t",
    "CREATE TABLE stolen AS SELECT * FROM customers",
    "COPY customers TO 'x'",
    "FROM customers |> WHERE age > 3",
    "WITH d AS (DELETE FROM customers RETURNING *) SELECT COUNT(*) FROM d",
]
FRAGMENT_TEXT = """
( ) [ ] { } , . ; : :: + - * / % = <> < > => -> || | |> ^ & ~ ! ? @ # $ $$ \\ ' " ` /* */ -- 0 1 1e9 .5 'x' "x"
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET UNION ALL INTERSECT EXCEPT WITH RECURSIVE AS ON USING JOIN LEFT
NATURAL CROSS LATERAL CASE WHEN THEN ELSE END NOT AND OR IS NULL IN LIKE BETWEEN EXISTS DISTINCT OVER PARTITION FILTER
WITHIN CAST INTERVAL DATE VALUES TABLE WINDOW QUALIFY OPTIONS DIFFERENTIAL_PRIVACY ANONYMIZATION CLAMPED TABLESAMPLE
PIVOT FOR INTO DELETE INSERT ROLLUP GROUPING SETS EXTRACT TRIM SUBSTRING POSITION COUNT epsilon é \u200b \x00
"""
FRAGMENTS = [*FRAGMENT_TEXT.split(), "\n"]

EXPRESSIONS = {
    "Identifier": {"this", "quoted"},
    "Literal": {"this", "is_string"},
    "Column": {"this", "table", "db", "catalog"},
    "Star": set(),
    "Null": set(),
    "Boolean": {"this"},
    "Var": {"this"},
    "Anonymous": {"this", "expressions"},
    "Kwarg": {"this", "expression"},
    "Distinct": {"expressions", "on"},
    "Order": {"this", "expressions"},
    "Ordered": {"this", "desc", "nulls_first"},
    "Window": {"this", "partition_by", "order", "spec", "alias"},
    "WindowSpec": {"kind", "start", "start_side", "end", "end_side"},
    "Filter": {"this", "expression"},
    "WithinGroup": {"this", "expression"},
    "IgnoreNulls": {"this"},
    "RespectNulls": {"this"},
    "Lambda": {"this", "expressions"},
    "Case": {"this", "ifs", "default"},
    "If": {"this", "true"},
    "Cast": {"this", "to"},
    "TryCast": {"this", "to"},
    "DataType": {"this", "expressions"},
    "DataTypeParam": {"this"},
    "Extract": {"this", "expression"},
    "Interval": {"this", "unit"},
    "AtTimeZone": {"this", "zone"},
    "Bracket": {"this", "expressions"},
    "Array": {"expressions"},
    "Tuple": {"expressions"},
    "Between": {"this", "low", "high"},
    "In": {"this", "expressions", "query"},
    "Exists": {"this"},
    "Not": {"this"},
    "Neg": {"this"},
    "Any": {"this"},
    "All": {"this"},
    **{
        name: {"this", "expression"}
        for name in ("And", "Or", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "Is", "Like", "ILike")
    },
    **{
        name: {"this", "expression"}
        for name in ("Escape", "NullSafeEQ", "NullSafeNEQ", "DPipe", "Add", "Sub", "Mul", "Div", "Mod")
    },
}
QUERIES = {
    "Select": {
        *("with_", "hint", "distinct", "expressions", "from_", "joins", "where", "group", "having", "qualify"),
        *("order", "limit", "offset"),
    },
    **{
        name: {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
        for name in ("Union", "Intersect", "Except")
    },
    "Hint": {"expressions"},
    "With": {"expressions", "recursive"},
    "CTE": {"this", "alias", "materialized"},
    "TableAlias": {"this", "columns"},
    "Alias": {"this", "alias"},
    "From": {"this", "joins"},
    "Join": {"this", "method", "side", "kind", "on", "using"},
    "Table": {"this", "db", "catalog", "alias"},
    "Subquery": {"this", "alias"},
    "Values": {"expressions", "alias"},
    "Lateral": {"this", "alias"},
    "Paren": {"this"},
    "Where": {"this"},
    "Having": {"this"},
    "Qualify": {"this"},
    "Group": {"expressions", "all"},
    "Rollup": {"expressions"},
    "Cube": {"expressions"},
    "GroupingSets": {"expressions"},
    "Limit": {"expression"},
    "Offset": {"expression"},
}
GRAMMAR = {**EXPRESSIONS, **QUERIES}


def check(sql: str) -> bool:
    """Whether the text is a query; fails on anything but a query or a ShoalError."""
    try:
        tree = parse(sql).tree
    except ShoalError as error:
        tree = None
        message = str(error)
    else:
        message = ""
    if tree is None:
        assert message.startswith("E_")
        return False
    for node in tree.walk():
        present = {key for key, content in node.args.items() if content not in (None, [], False)}
        assert present <= GRAMMAR[type(node).__name__], f"{type(node).__name__} has {present}"
        assert position_of(node) is not None or not list(node.iter_expressions())
        function_call(node)
        if isinstance(node, exp.Select):
            privacy_clause(node)
        if isinstance(node, exp.Table):
            assert isinstance(node.this, (exp.Identifier, exp.Anonymous))
        if isinstance(node, exp.Window):
            assert node.args.get("alias") is None
    return True


def mutated(rng: random.Random, sql: str) -> str:
    """The text with a few pieces lost, doubled, swapped or put in."""
    pieces = sql.split(" ") if rng.random() < 0.7 else list(sql)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(pieces) + 1)
        match rng.randrange(5):
            case 0:
                pieces[place:place] = [rng.choice(FRAGMENTS)]
            case 1:
                del pieces[place : place + rng.randint(1, 3)]
            case 2:
                pieces[place:place] = pieces[place : place + rng.randint(1, 8)] * rng.choice((1, 1, 2, 60))
            case 3:
                other = rng.choice(SAMPLES).split(" ")
                start = rng.randrange(len(other))
                pieces[place:place] = other[start : start + rng.randint(1, 12)]
            case _:
                rng.shuffle(pieces) if rng.random() < 0.1 else pieces.reverse() if rng.random() < 0.05 else None
    return (" " if " " in sql and len(pieces) < len(sql) / 2 else "").join(pieces) or sql


def test_every_sample_is_judged_without_mutation():
    assert sum(check(sql) for sql in SAMPLES) == len(SAMPLES) - 4


def test_two_thousand_mutations_give_a_query_or_a_shoal_error():
    rng = random.Random(20_260_101)
    answered = sum(check(mutated(rng, rng.choice(SAMPLES))) for _ in range(2_000))
    assert 100 < answered < 1_900, "the mutations should leave some texts whole and break others"


@pytest.mark.nightly
def test_a_hundred_thousand_mutations_give_a_query_or_a_shoal_error():
    rng = random.Random(1)
    for _ in range(100_000):
        check(mutated(rng, mutated(rng, rng.choice(SAMPLES))))


def test_any_text_at_all_is_judged():
    rng = random.Random(7)
    alphabet = "SELECT FROM()*,'\"`;-/\\\n\x00éſ\u2028\U0001f600\ud8001.e[]{}$"
    for _ in range(500):
        check("".join(rng.choice(alphabet) for _ in range(rng.randint(0, 60))))
        check("SELECT " + "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 60))))
