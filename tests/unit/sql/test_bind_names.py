"""Names, stars, keys and outputs: what a query's words stand for."""

from __future__ import annotations

import pytest

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"

UNION = "COUNT(*) FROM (SELECT uid, age FROM customers UNION ALL"
REFUSED = {
    "an unknown column": ("SUM(incom) FROM customers", "E_UNKNOWN_COLUMN", "Did you mean 'income'"),
    "an unknown table": ("COUNT(*) FROM custumers", "E_UNKNOWN_TABLE", "Did you mean 'customers'"),
    "an unknown qualifier": ("SUM(x.age) FROM customers c", "E_UNKNOWN_TABLE", "In sight: c"),
    "the table's own name behind an alias": ("SUM(customers.age) FROM customers c", "E_UNKNOWN_TABLE", "In sight: c"),
    "an ambiguous column": ("COUNT(uid) FROM customers c JOIN visits v ON c.uid = v.uid", "E_UNKNOWN_COLUMN", "c.uid, v.uid"),
    "two relations of one name": ("COUNT(*) FROM visits JOIN visits USING (uid)", "E_UNKNOWN_TABLE", "another name"),
    "USING of a column of one side": ("COUNT(*) FROM customers JOIN visits USING (site)", "E_UNKNOWN_COLUMN", "Columns in sight"),
    "a schema before the column": ("SUM(main.customers.age) FROM customers", "E_UNKNOWN_TABLE", "schema"),
    "rowid": ("SUM(rowid) FROM customers", "E_UNKNOWN_COLUMN", "Columns in sight"),
    "a column of the outer query in FROM": (
        "COUNT(*) FROM customers c JOIN (SELECT uid FROM visits WHERE spend > c.age) v USING (uid)", "E_UNKNOWN_TABLE", "In sight",
    ),
    "an ordinal of GROUP BY beyond the list": ("region, COUNT(*) FROM customers GROUP BY 3", "E_GROUPING", None),
    "an ordinal of ORDER BY beyond the list": ("region, COUNT(*) FROM customers GROUP BY 1 ORDER BY 3", "E_PARSE", None),
    "an aggregate as a key": ("COUNT(*) AS n FROM customers GROUP BY n", "E_GROUPING", None),
    "a star beside keys": ("* FROM customers GROUP BY region", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column": ("age, COUNT(*) FROM customers GROUP BY region", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column in HAVING": ("COUNT(*) FROM customers GROUP BY region HAVING age > 3", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column in ORDER BY": ("COUNT(*) FROM customers GROUP BY region ORDER BY age", "E_RAW_OUTPUT", "GROUP BY"),
    "GROUP BY ALL": ("region, COUNT(*) FROM customers GROUP BY ALL", "E_GROUPING", "List the keys"),
    "ROLLUP": ("region, COUNT(*) FROM customers GROUP BY ROLLUP (region)", "E_GROUPING", None),
    "a name with two meanings": ("UPPER(region) AS region, COUNT(*) FROM customers GROUP BY region", "E_GROUPING", "another name"),
    "too few column names": ("COUNT(*) FROM (SELECT uid, age FROM customers) AS c(u)", "E_PARSE", None),
    "too many columns": (", ".join(["COUNT(*)"] * 1001) + " FROM customers", "E_LIMITS", None),
    "too many keys": (
        f"COUNT(*) FROM customers GROUP BY {', '.join(f'age % {i}' for i in range(2, 110))}", "E_LIMITS", None,
    ),
    "an aggregate in WHERE": ("COUNT(*) FROM customers WHERE SUM(age) > 3", "E_AGG_NOT_DP", "HAVING"),
    "an aggregate in an aggregate": ("SUM(COUNT(*)) FROM customers", "E_AGG_NOT_DP", None),
    "a sum of texts": ("SUM(region) FROM customers", "E_UNSUPPORTED", "Cast"),
    "a comparison of texts and numbers": ("COUNT(*) FROM customers WHERE region > 7", "E_UNSUPPORTED", None),
    "a number as a condition": ("COUNT(*) FROM customers WHERE age", "E_UNSUPPORTED", "Compare"),
    "INTERSECT ALL": ("COUNT(*) FROM (SELECT uid FROM customers INTERSECT ALL SELECT uid FROM visits)", "E_UNSUPPORTED", "ALL"),
    "sides of different length": (f"{UNION} SELECT uid, site, items FROM visits)", "E_PARSE", None),
    "sides of different types": (f"{UNION} SELECT uid, site FROM visits)", "E_UNSUPPORTED", "Cast"),
    "DISTINCT ON": ("COUNT(*) FROM (SELECT DISTINCT ON (uid) uid, age FROM customers)", "E_UNSUPPORTED", None),
    "an aggregate of the other clause": ("ANON_COUNT(*) FROM customers", "E_AGG_NOT_DP", "COUNT, SUM"),
    "an aggregate without a private form": ("STRING_AGG(region) FROM customers", "E_AGG_NOT_DP", "Private aggregates"),
    "a fraction beyond 1": ("PERCENTILE_CONT(age, 1.5) FROM customers", "E_UNSUPPORTED", "0.5"),
    "a fraction that is a column": ("PERCENTILE_CONT(age, age) FROM customers", "E_UNSUPPORTED", None),
    "no parts": ("APPROX_QUANTILES(age, 0) FROM customers", "E_UNSUPPORTED", None),
    "QUALIFY": ("region, COUNT(*) AS n FROM customers GROUP BY 1 QUALIFY RANK() OVER (ORDER BY n) = 1", "E_UNSUPPORTED", "outer"),
    "WITH RECURSIVE": (None, "E_RECURSION", None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_query_cannot_mean_is_refused_with_a_code_a_place_and_a_hint(quiet_shop, refusal, name):
    text, code, hint = REFUSED[name]
    sql = f"{CLAUSE} {text}" if text else f"WITH RECURSIVE r AS (SELECT 1 AS n) {CLAUSE} COUNT(*) FROM customers"
    error = refusal(quiet_shop, sql)
    assert error.code == code, str(error)
    if hint is not None:
        assert hint in error.hint


SAME = [
    (
        "SELECT c.region, COUNT(*) AS n FROM customers c GROUP BY c.region",
        "SELECT region, COUNT(*) AS n FROM customers GROUP BY 1",
    ),
    (
        'SELECT "REGION" AS region, COUNT(*) AS n FROM Customers GROUP BY `region`',
        "SELECT region, COUNT(*) AS n FROM customers GROUP BY region",
    ),
    (
        "SELECT age % 10 AS d, COUNT(*) AS n FROM customers GROUP BY d",
        "SELECT age % 10 AS d, COUNT(*) AS n FROM customers GROUP BY age % 10",
    ),
    ("SELECT COUNT(1) AS n FROM customers", "SELECT COUNT(*) AS n FROM customers"),
    (
        "SELECT COUNT(*) AS n FROM (customers c JOIN visits v USING (uid))",
        "SELECT COUNT(*) AS n FROM customers c JOIN visits v USING (uid)",
    ),
    (
        "SELECT COUNT(*) AS n FROM customers WHERE (age > 3) AND TRUE",
        "SELECT COUNT(*) AS n FROM customers WHERE age > 3 AND TRUE",
    ),
    ("SELECT MEDIAN(age) AS n FROM customers", "SELECT PERCENTILE_CONT(age, 0.5) AS n FROM customers"),
    ("SELECT VARIANCE(age) AS n FROM customers", "SELECT VAR_SAMP(age) AS n FROM customers"),
    ("SELECT MEAN(age) AS n FROM customers", "SELECT AVG(age) AS n FROM customers"),
    (
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) AS n FROM customers",
        "SELECT PERCENTILE_CONT(age, 0.5) AS n FROM customers",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_of_one_query_are_one_plan(quiet_shop, one, other):
    first, second = (quiet_shop.plan(sql.replace("SELECT", CLAUSE, 1)) for sql in (one, other))
    assert first.selects == second.selects
    assert first.root == second.root


@pytest.mark.parametrize(
    ("clause", "older"),
    [
        ("COUNT(*, contribution_bounds_per_group => (0, 3))", "ANON_COUNT(*, 3)"),
        ("COUNT(DISTINCT uid)", "ANON_COUNT(DISTINCT uid)"),
        ("SUM(age, contribution_bounds_per_group => (1, 3))", "ANON_SUM(age, 1, 3)"),
        ("SUM(age, contribution_bounds_per_group => (1, 3))", "ANON_SUM(age CLAMPED BETWEEN 1 AND 3)"),
        ("AVG(age)", "ANON_AVG(age)"),
        ("VAR_POP(age, contribution_bounds_per_row => (1, 3))", "ANON_VAR(age, 1, 3)"),
        ("VAR_SAMP(age, contribution_bounds_per_row => (1, 3))", "ANON_VAR_SAMP(age, 1, 3)"),
        ("STDDEV_POP(age)", "ANON_STDDEV(age)"),
        ("PERCENTILE_CONT(age, 0.9, contribution_bounds_per_row => (0, 9))", "ANON_NTILE(age, 0.9, 0, 9)"),
        ("PERCENTILE_CONT(age, 0.9)", "ANON_PERCENTILE_CONT(age, 0.9)"),
        ("APPROX_QUANTILES(age, 4)", "ANON_QUANTILES(age, 4)"),
        ("MEDIAN(age)", "ANON_MEDIAN(age)"),
        ("MIN(age)", "ANON_MIN(age)"),
        ("MAX(age)", "ANON_MAX(age)"),
    ],
)
def test_the_older_clause_means_the_same(quiet_shop, clause, older):
    new = quiet_shop.plan(f"{CLAUSE} {clause} AS n FROM customers").selects[0]
    old = quiet_shop.plan(
        f"SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, delta = 1e-6) {older} AS n FROM customers"
    ).selects[0]
    assert (new.releases, new.events, [c.call.aggregate for c in new.columns]) == (
        old.releases,
        old.events,
        [c.call.aggregate for c in old.columns],
    )


def test_a_star_in_a_subquery_stands_for_what_is_in_sight_once(quiet_shop):
    plan = quiet_shop.plan(f"{CLAUSE} COUNT(*) FROM (SELECT * FROM customers c JOIN visits v USING (uid))")
    names = [f.name for f in plan.selects[0].select.input.fields if f.name]
    assert names.count("uid") == 1
    assert {"region", "site", "spend"} <= set(names)


def test_the_moment_of_planning_is_the_same_in_a_whole_statement(quiet_shop):
    plan = quiet_shop.plan(f"{CLAUSE} COUNT(*) FROM customers WHERE born < CURRENT_DATE AND born < CURRENT_DATE()")
    assert "CURRENT" not in str(plan.selects[0].select.input).upper()
