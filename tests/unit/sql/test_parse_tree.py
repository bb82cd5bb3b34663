"""What the tree says: precedence, shapes, calls, constants, places."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sqlglot import exp

from shoal.sql.parse import (
    ConstantKind,
    clamped,
    constant,
    function_call,
    named_arguments,
    parse,
    position_of,
    privacy_clause,
)


def select(sql: str) -> exp.Select:
    tree = parse(sql).tree
    assert isinstance(tree, exp.Select)
    return tree


def value(text: str) -> exp.Expression:
    return select(f"SELECT {text}").expressions[0]


def call(text: str):
    found = function_call(value(text))
    assert found is not None
    return found


PRECEDENCE = {
    "a OR b AND c": "Or(a, And(b, c))",
    "NOT a = b AND c": "And(Not(EQ(a, b)), c)",
    "NOT a IS NULL": "Not(Is(a, Null()))",
    "a = b IS NOT NULL": "Not(Is(EQ(a, b), Null()))",
    "a + b * c": "Add(a, Mul(b, c))",
    "a - b - c": "Sub(Sub(a, b), c)",
    "a / b * c": "Mul(Div(a, b), c)",
    "a || b + c": "DPipe(a, Add(b, c))",
    "a || b = c": "EQ(DPipe(a, b), c)",
    "- a * b": "Mul(Neg(a), b)",
    "- a::INT": "Neg(Cast(a, INT))",
    "+ a": "a",
    "- - a": "Neg(Neg(a))",
    "a < b + 1": "LT(a, Add(b, 1))",
    "a BETWEEN b AND c AND d": "And(Between(a, b, c), d)",
    "a NOT BETWEEN b AND c": "Not(Between(a, b, c))",
    "a NOT IN (b, c)": "Not(In(a, b, c))",
    "a NOT LIKE b ESCAPE c": "Not(Escape(Like(a, b), c))",
    "a IS DISTINCT FROM b": "NullSafeNEQ(a, b)",
    "a IS NOT DISTINCT FROM b": "NullSafeEQ(a, b)",
    "a IS TRUE": "Is(a, Boolean())",
    "a IS UNKNOWN": "Is(a, Null())",
    "(a + b) * c": "Mul(Add(a, b), c)",
    "((a))": "a",
    "(a OR b) AND c": "And(Or(a, b), c)",
    "a AND b AND c AND d": "And(And(a, b), And(c, d))",
    "a % b + c": "Add(Mod(a, b), c)",
    "(a, b)": "Tuple(a, b)",
    "CASE a WHEN b THEN c ELSE d END": "Case(a, If(b, c), d)",
    "CASE WHEN a THEN b END": "Case(If(a, b))",
    "a::DATE + b": "Add(Cast(a, DATE), b)",
    "a AT TIME ZONE b": "AtTimeZone(a, b)",
    "EXTRACT(year FROM a)": "Extract(Var(YEAR), a)",
    "a[1]": "Bracket(a, 1)",
    "[a, b]": "Array(a, b)",
    "DATE '2026-01-01'": "Cast('2026-01-01', DATE)",
    "INTERVAL 30 DAY": "Interval(30, Var(DAY))",
    "INTERVAL '30' DAYS": "Interval(30, Var(DAY))",
    "INTERVAL '-2 months'": "Interval(Neg(2), Var(MONTH))",
    "INTERVAL -2 MONTH": "Interval(Neg(2), Var(MONTH))",
    "INTERVAL a HOUR": "Interval(a, Var(HOUR))",
    "a = ANY (SELECT b)": "In(a, Subquery(Select(b)))",
    "a = SOME (SELECT b)": "In(a, Subquery(Select(b)))",
    "a <> ALL (SELECT b)": "Not(In(a, Subquery(Select(b))))",
    "a = ALL (SELECT b)": "EQ(a, All(Subquery(Select(b))))",
    "a > ANY (SELECT b)": "GT(a, Any(Subquery(Select(b))))",
    "(a, b) IN ((1, 2))": "In(Tuple(a, b), Tuple(1, 2))",
    "(a, b) IN ((1, 2), (c, 4))": "In(Tuple(a, b), Tuple(1, 2), Tuple(c, 4))",
    "(a, b) IN (1, 2)": "In(Tuple(a, b), 1, 2)",
    "(a, b) IN (SELECT a, b)": "In(Tuple(a, b), Subquery(Select(a, b)))",
    "EXISTS (SELECT a)": "Exists(Select(a))",
    "NOT EXISTS (SELECT a)": "Not(Exists(Select(a)))",
    "(SELECT a)": "Subquery(Select(a))",
    "((SELECT a))": "Subquery(Select(a))",
    "((SELECT a) UNION ALL (SELECT b))": "Subquery(Union(Select(a), Select(b)))",
    "(SELECT a) + 1": "Add(Subquery(Select(a)), 1)",
    "a IN (SELECT b)": "In(a, Subquery(Select(b)))",
    "a IN ((SELECT b))": "In(a, Subquery(Select(b)))",
    "SUBSTRING(a FROM 2 FOR 3)": "SUBSTRING(a, 2, 3)",
    "TRIM(BOTH 'x' FROM a)": "TRIM(a, 'x')",
    "TRIM(LEADING FROM a)": "LTRIM(a)",
    "TRIM(TRAILING 'x' FROM a)": "RTRIM(a, 'x')",
    "TRIM(a)": "TRIM(a)",
    "POSITION(a IN b)": "POSITION(a, b)",
    "POSITION(a, b)": "POSITION(a, b)",
    "LEFT(a, 2)": "LEFT(a, 2)",
    "DATE(a)": "DATE(a)",
    "IF(a, b, c)": "IF(a, b, c)",
    "safe.substr(a, 1)": "safe.substr(a, 1)",
    "CURRENT_DATE": "CURRENT_DATE()",
    "current_date()": "current_date()",
    "f(x -> x + 1)": "f(Lambda(Add(x, 1), x))",
}


def shown(node: object) -> str:
    """A node in one line: operators by class, columns and literals by their text, calls by their name."""
    if not isinstance(node, exp.Expression):
        return str(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Literal):
        return f"'{node.name}'" if node.is_string else node.name
    if isinstance(node, exp.DataType):
        return node.this.name
    if isinstance(node, exp.Var):
        return f"Var({node.name})"
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return f"{name}({', '.join(shown(child) for child in node.iter_expressions())})"


@pytest.mark.parametrize("text", PRECEDENCE)
def test_an_expression_groups_as_the_grammar_says(text):
    assert shown(value(text)) == PRECEDENCE[text]


def test_set_operations_group_from_the_left_and_intersect_first():
    tree = parse("SELECT a UNION SELECT b INTERSECT SELECT c EXCEPT ALL SELECT d ORDER BY 1 LIMIT 2").tree
    assert isinstance(tree, exp.Except)
    assert not tree.args["distinct"]
    assert isinstance(tree.this, exp.Union)
    assert tree.this.args["distinct"]
    assert isinstance(tree.this.expression, exp.Intersect)
    assert tree.args["limit"].expression.name == "2"


def test_parentheses_around_a_query_vanish_unless_their_clauses_collide():
    assert parse("((SELECT a FROM t LIMIT 3))").tree == parse("SELECT a FROM t LIMIT 3").tree
    assert parse("(SELECT a FROM t) LIMIT 3").tree == parse("SELECT a FROM t LIMIT 3").tree
    collided = select("(SELECT a FROM t LIMIT 5) ORDER BY a LIMIT 3")
    assert collided.args["limit"].expression.name == "3"
    inner = collided.args["from_"].this.this
    assert inner.args["limit"].expression.name == "5"
    assert "order" not in inner.args


def test_a_query_is_always_a_select_or_a_set_operation():
    for sql in ("VALUES (1), (2)", "TABLE t", "(SELECT 1)", "WITH a AS (SELECT 1) (SELECT * FROM a)"):
        assert isinstance(parse(sql).tree, exp.Select)


JOINS = {
    "a JOIN b ON x": {"kind": "INNER"},
    "a INNER JOIN b USING (x)": {"kind": "INNER"},
    "a LEFT OUTER JOIN b ON x": {"side": "LEFT"},
    "a RIGHT JOIN b ON x": {"side": "RIGHT"},
    "a FULL OUTER JOIN b ON x": {"side": "FULL"},
    "a CROSS JOIN b": {"kind": "CROSS"},
    "a, b": {"kind": "CROSS"},
    "a NATURAL JOIN b": {"method": "NATURAL", "kind": "INNER"},
    "a NATURAL LEFT JOIN b": {"method": "NATURAL", "side": "LEFT"},
    "a SEMI JOIN b ON x": {"kind": "SEMI"},
    "a LEFT ANTI JOIN b ON x": {"kind": "ANTI"},
    "a ASOF JOIN b ON x": {"method": "ASOF", "kind": "INNER"},
    "a POSITIONAL JOIN b": {"method": "POSITIONAL", "kind": "INNER"},
}


@pytest.mark.parametrize("text", JOINS)
def test_a_join_has_method_side_and_kind(text):
    (join,) = select(f"SELECT 1 FROM {text}").args["joins"]
    assert {key: join.args[key] for key in ("method", "side", "kind") if join.args.get(key)} == JOINS[text]


RELATIONS = {
    "t": exp.Table,
    "s.t AS u": exp.Table,
    "f(1) AS u(x)": exp.Table,
    "(SELECT 1) u": exp.Subquery,
    "(VALUES (1, 2)) AS u(x, y)": exp.Values,
    "(VALUES (1) UNION ALL SELECT 2) u": exp.Subquery,
    "((SELECT 1) UNION ALL (SELECT 2)) u": exp.Subquery,
    "((SELECT 1) ORDER BY 1 LIMIT 2) u": exp.Subquery,
    "(t) u": exp.Table,
    "(t JOIN u ON t.a = u.a)": exp.Paren,
    "((SELECT 1) x JOIN u ON x.a = u.a)": exp.Paren,
    "LATERAL (SELECT 1) u": exp.Lateral,
}


@pytest.mark.parametrize("text", RELATIONS)
def test_what_stands_in_from_is_of_few_kinds(text):
    assert isinstance(select(f"SELECT 1 FROM {text}").args["from_"].this, RELATIONS[text])


def test_joins_in_parentheses_keep_their_own_list():
    inner = select("SELECT 1 FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x").args["joins"][0].this
    assert isinstance(inner, exp.Paren)
    assert isinstance(inner.this, exp.From)
    assert inner.this.this.name == "b"
    assert [join.this.name for join in inner.this.args["joins"]] == ["c"]


def test_names_keep_their_quotes_and_their_letters():
    column = value('"Größe".`order`')
    assert (column.table, column.name) == ("Größe", "order")
    assert column.this.args["quoted"]
    table = select("SELECT 1 FROM csv.`/etc/passwd`").args["from_"].this
    assert (table.db, table.name) == ("csv", "/etc/passwd")


def test_common_words_are_names():
    sql = "SELECT date, time, year, count, values, first, rank, filter, type FROM day AS month WHERE position > 1"
    assert [item.name for item in select(sql).expressions][:3] == ["date", "time", "year"]


def test_with_keeps_names_columns_and_materialization():
    clause = parse(
        "WITH RECURSIVE a(x, y) AS NOT MATERIALIZED (SELECT 1, 2), b AS (SELECT 3) SELECT * FROM a"
    ).tree.args["with_"]
    first, second = clause.expressions
    assert clause.args["recursive"]
    assert (first.alias, [c.name for c in first.args["alias"].args["columns"]]) == ("a", ["x", "y"])
    assert first.args["materialized"] is False
    assert second.args.get("materialized") is None


def test_grouping_forms_stay_visible():
    group = select("SELECT 1 FROM t GROUP BY a, (b, c), ROLLUP (d), CUBE (e), GROUPING SETS ((f, g), ())").args["group"]
    assert [type(item).__name__ for item in group.expressions] == [
        "Column",
        "Column",
        "Column",
        "Rollup",
        "Cube",
        "GroupingSets",
    ]
    assert select("SELECT a FROM t GROUP BY ALL").args["group"].args["all"]


def test_order_by_says_what_was_said_about_nulls():
    order = select("SELECT a FROM t ORDER BY a, b DESC, c NULLS FIRST, d ASC NULLS LAST").args["order"]
    assert [(bool(o.args["desc"]), o.args["nulls_first"]) for o in order.expressions] == [
        (False, None),
        (True, None),
        (False, True),
        (False, False),
    ]


def test_a_named_window_is_put_where_it_is_used():
    named = select("SELECT SUM(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY c)")
    assert named == select("SELECT SUM(a) OVER (PARTITION BY b ORDER BY c) FROM t")


def test_a_frame_has_both_ends():
    spec = value("SUM(a) OVER (ORDER BY b ROWS 2 PRECEDING)").args["spec"]
    assert (spec.args["kind"], spec.args["start"].name, spec.args["start_side"]) == ("ROWS", "2", "PRECEDING")
    assert (spec.args["end"], spec.args["end_side"]) == ("CURRENT ROW", None)
    spec = value("SUM(a) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)").args["spec"]
    assert (spec.args["start"], spec.args["end"].name, spec.args["end_side"]) == ("UNBOUNDED", "1", "FOLLOWING")


def test_the_privacy_clause_keeps_options_in_order_with_repetitions():
    clause = privacy_clause(
        select(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, EPSILON = 0.1, a.delta=1e-6, noise=GAUSSIAN, "
            "x='1', y=-2, z=NULL, w=TRUE, v=(SELECT 1), u=1+1) COUNT(*) FROM t"
        )
    )
    assert clause is not None
    assert clause.kind == "DIFFERENTIAL_PRIVACY"
    assert clause.position == (1, 8)
    assert [(name, option.kind.name, option.value) for name, option, _ in clause.options] == [
        ("epsilon", "INTEGER", 1),
        ("epsilon", "NUMBER", Fraction(1, 10)),
        ("a.delta", "NUMBER", Fraction(1, 1_000_000)),
        ("noise", "WORD", "GAUSSIAN"),
        ("x", "STRING", "1"),
        ("y", "INTEGER", -2),
        ("z", "NULL", None),
        ("w", "BOOLEAN", True),
        ("v", "OTHER", None),
        ("u", "OTHER", None),
    ]
    assert clause.options[1][2] == (1, 53)


def test_the_clause_may_stand_without_options():
    clause = privacy_clause(select("SELECT WITH ANONYMIZATION ANON_COUNT(*) FROM t"))
    assert clause is not None
    assert (clause.kind, clause.options) == ("ANONYMIZATION", ())
    assert privacy_clause(select("SELECT COUNT(*) FROM t")) is None


@pytest.mark.parametrize(
    "name", ["SUM", "MIN", "MAX", "COUNT", "PERCENTILE_CONT", "my_udf", "COALESCE", "CONCAT", "ROW_NUMBER", "IF"]
)
def test_no_function_loses_a_named_argument(name):
    found = call(
        f"{name}(x, contribution_bounds_per_group => (0, 100), Epsilon => 0.5, report_format => 'JSON', z => y + 1)"
    )
    assert found.name == name.upper()
    assert len(found.arguments) == 1
    assert [argument for argument, _, _ in found.named] == [
        "contribution_bounds_per_group",
        "epsilon",
        "report_format",
        "z",
    ]
    bounds = found.named[0][1]
    assert [bound.value for bound in bounds.value] == [0, 100]
    assert found.named[1][1].value == Fraction(1, 2)
    assert found.named[2][1].is_string
    assert isinstance(found.named[3][1], exp.Add)
    assert found.named[1][2] is not None


def test_a_named_argument_survives_distinct_filter_and_over():
    found = call("COUNT(DISTINCT x, max_contributions_per_group => 3) FILTER (WHERE y) OVER (PARTITION BY z)")
    assert (found.name, found.distinct, found.named[0][1].value) == ("COUNT", True, 3)
    assert found.filter is not None
    assert found.over is not None
    assert [argument.name for argument in found.arguments] == ["x"]


def test_clamped_bounds_are_constants_of_their_kind():
    low, high = call("ANON_PERCENTILE_CONT(income, 0.5 CLAMPED BETWEEN -5 AND 1e308)").clamped
    assert (low.value, high.value) == (-5, Fraction(10) ** 308)
    low, high = call("ANON_SUM(x CLAMPED BETWEEN CAST('nan' AS DOUBLE) AND 1e999999)").clamped
    assert low.kind is ConstantKind.TYPED
    assert (low.value[0].value, low.type_name) == ("nan", "DOUBLE")
    assert not low.is_number
    assert high.kind is ConstantKind.OTHER
    assert not high.is_number
    assert clamped(value("SUM(x BETWEEN 0 AND 1)")) is None


def test_clamped_is_no_name_an_analyst_can_pass():
    found = call('SUM(x, clamped => (0, 1), "CLAMPED BETWEEN" => (0, 2))')
    assert found.clamped is None
    assert [argument for argument, _, _ in found.named] == ["clamped", "clamped between"]


@pytest.mark.parametrize(
    ("text", "name", "arguments", "star", "distinct"),
    [
        ("ANON_COUNT(*)", "ANON_COUNT", 1, True, False),
        ("anon_count(*, 10)", "ANON_COUNT", 2, True, False),
        ("ANON_COUNT(DISTINCT uid)", "ANON_COUNT", 1, False, True),
        ("ANON_SUM(x, 0, -5)", "ANON_SUM", 3, False, False),
        ("COUNT(ALL x)", "COUNT", 1, False, False),
        ("IFNULL(x, 0)", "IFNULL", 2, False, False),
        ("DATE_TRUNC('month', d)", "DATE_TRUNC", 2, False, False),
        ("DATE_TRUNC(d, MONTH)", "DATE_TRUNC", 2, False, False),
        ("LOG(10, x)", "LOG", 2, False, False),
        ("APPROX_QUANTILES(x, 10)", "APPROX_QUANTILES", 2, False, False),
        ("main.sum(x)", "MAIN.SUM", 1, False, False),
        ("now()", "NOW", 0, False, False),
    ],
)
def test_a_call_is_what_the_analyst_wrote(text, name, arguments, star, distinct):
    found = call(text)
    assert (found.name, len(found.arguments), found.star, found.distinct) == (name, arguments, star, distinct)
    assert found.position == (1, 8)


def test_order_within_group_and_nulls_are_told_apart():
    ordered = call("STRING_AGG(x, ',' ORDER BY y DESC)")
    assert len(ordered.arguments) == 2
    assert ordered.order_by is not None
    within = call("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
    assert within.within_group is not None
    assert within.order_by is None
    assert call("LAST_VALUE(x IGNORE NULLS) OVER (ORDER BY y)").nulls == "IGNORE"
    assert call("LAST_VALUE(x) RESPECT NULLS OVER (ORDER BY y)").nulls == "RESPECT"


def test_what_is_no_call_is_none():
    assert function_call(value("a + 1")) is None
    assert function_call(value("CAST(a AS INT)")) is None
    assert named_arguments(value("f(a)")) == ()


def test_constants_are_exact():
    assert constant(value("0.1")).value * 10 == 1
    assert constant(value("1e-320")).value == Fraction(1, 10**320)
    assert constant(value("9223372036854775807")).value == 2**63 - 1
    assert constant(value("2.7")).kind is ConstantKind.NUMBER
    assert constant(value("3.0")).kind is ConstantKind.NUMBER
    assert constant(value("(1)")).value == 1
    assert constant(value("- - 1")).value == 1
    assert constant(value("(0, (1, 2))")).text == "(0, (1, 2))"


def test_every_node_has_a_place():
    tree = parse(
        "SELECT a,\n  SUM(b + 1) AS c\nFROM t\nLEFT JOIN u ON t.x = u.x\nWHERE a IN (1, 2)\nGROUP BY a\nORDER BY c"
    ).tree
    assert all(position_of(node) is not None for node in tree.walk())
    assert position_of(tree.expressions[1]) == (2, 3)
    assert position_of(tree.args["joins"][0]) == (4, 1)
    assert position_of(tree.args["where"].this) == (5, 7)
