"""Names, stars, keys and outputs: what a query's words stand for."""

from __future__ import annotations

import pytest

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"

UNION = "COUNT(*) FROM (SELECT uid, age FROM customers UNION ALL"
REFUSED = {
    "an unknown column": ("SUM(incom) FROM customers", "E_UNKNOWN_COLUMN", "Did you mean 'income'"),
    "an unknown table": ("COUNT(*) FROM custumers", "E_UNKNOWN_TABLE", "Did you mean 'customers'"),
    "an unknown qualifier": ("SUM(x.age) FROM customers c", "E_UNKNOWN_TABLE", "Available: c"),
    "the table's own name behind an alias": ("SUM(customers.age) FROM customers c", "E_UNKNOWN_TABLE", "Available: c"),
    "an ambiguous column": ("COUNT(uid) FROM customers c JOIN visits v ON c.uid = v.uid", "E_UNKNOWN_COLUMN", "c.uid, v.uid"),
    "two relations of one name": ("COUNT(*) FROM visits JOIN visits USING (uid)", "E_UNKNOWN_TABLE", "another name"),
    "USING of a column of one side": ("COUNT(*) FROM customers JOIN visits USING (site)", "E_UNKNOWN_COLUMN", "Available columns"),
    "a schema before the column": ("SUM(main.customers.age) FROM customers", "E_UNKNOWN_TABLE", "schema"),
    "rowid": ("SUM(rowid) FROM customers", "E_UNKNOWN_COLUMN", "Available columns"),
    "a column of the outer query in FROM": (
        "COUNT(*) FROM customers c JOIN (SELECT uid FROM visits WHERE spend > c.age) v USING (uid)", "E_UNKNOWN_TABLE", "Available",
    ),
    "an ordinal of GROUP BY beyond the list": ("region, COUNT(*) FROM customers GROUP BY 3", "E_GROUPING", None),
    "an ordinal of ORDER BY beyond the list": ("region, COUNT(*) FROM customers GROUP BY 1 ORDER BY 3", "E_PARSE", None),
    "an aggregate as a key": ("COUNT(*) AS n FROM customers GROUP BY n", "E_GROUPING", None),
    "a star beside keys": ("* FROM customers GROUP BY region", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column": ("age, COUNT(*) FROM customers GROUP BY region", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column in HAVING": ("COUNT(*) FROM customers GROUP BY region HAVING age > 3", "E_RAW_OUTPUT", "GROUP BY"),
    "a raw column in ORDER BY": ("COUNT(*) FROM customers GROUP BY region ORDER BY age", "E_RAW_OUTPUT", "GROUP BY"),
    "GROUP BY ALL of a star": ("* FROM customers GROUP BY ALL", "E_GROUPING", "Name the columns"),
    "ROLLUP without aggregates": ("region FROM customers GROUP BY ROLLUP (region)", "E_GROUPING", "COUNT"),
    "a name with two meanings": ("UPPER(region) AS region, COUNT(*) FROM customers GROUP BY region", "E_GROUPING", "another name"),
    "too few column names": ("COUNT(*) FROM (SELECT uid, age FROM customers) AS c(u)", "E_PARSE", None),
    "too many columns": (", ".join(["COUNT(*)"] * 1001) + " FROM customers", "E_LIMITS", None),
    "too many keys": (
        f"COUNT(*) FROM customers GROUP BY {', '.join(f'age % {i}' for i in range(2, 110))}", "E_LIMITS", None,
    ),
    "an aggregate in WHERE": ("COUNT(*) FROM customers WHERE SUM(age) > 3", "E_AGG_NOT_DP", "HAVING"),
    "an aggregate in an aggregate": ("SUM(COUNT(*)) FROM customers", "E_AGG_NOT_DP", None),
    "a sum of texts": ("SUM(region) FROM customers", "E_UNSUPPORTED", "CAST(region AS DOUBLE)"),
    "a comparison of texts and numbers": ("COUNT(*) FROM customers WHERE region > 7", "E_UNSUPPORTED", None),
    "a number as a condition": ("COUNT(*) FROM customers WHERE age", "E_UNSUPPORTED", "Compare"),
    "INTERSECT ALL": ("COUNT(*) FROM (SELECT uid FROM customers INTERSECT ALL SELECT uid FROM visits)", "E_UNSUPPORTED", "ALL"),
    "sides of different length": (f"{UNION} SELECT uid, site, items FROM visits)", "E_PARSE", None),
    "sides of different types": (f"{UNION} SELECT uid, site FROM visits)", "E_UNSUPPORTED", "Cast"),
    "DISTINCT ON": ("COUNT(*) FROM (SELECT DISTINCT ON (uid) uid, age FROM customers)", "E_UNSUPPORTED", None),
    "an aggregate of the other clause": ("ANON_COUNT(*) FROM customers", "E_AGG_NOT_DP", "COUNT, SUM"),
    "an aggregate without a private form": ("STRING_AGG(region) FROM customers", "E_AGG_NOT_DP", "GROUP BY region"),
    "a fraction beyond 1": ("PERCENTILE_CONT(age, 1.5) FROM customers", "E_UNSUPPORTED", "0.5"),
    "a fraction that is a column": ("PERCENTILE_CONT(age, age) FROM customers", "E_UNSUPPORTED", None),
    "no parts": ("APPROX_QUANTILES(age, 0) FROM customers", "E_UNSUPPORTED", None),
    "QUALIFY by a raw column": ("region, COUNT(*) AS n FROM customers GROUP BY 1 QUALIFY age = 1", "E_RAW_OUTPUT", "GROUP BY"),
    "an unknown function of a raw column": ("FOO_BAR(age) FROM customers", "E_FUNCTION_NOT_ALLOWED", "shoal functions"),
    "the beginning of a function's name": ("UNIX(age) FROM customers", "E_FUNCTION_NOT_ALLOWED", "UNIX_SECONDS"),
    "an unknown function behind a raw column": ("age, FOO(age) FROM customers", "E_FUNCTION_NOT_ALLOWED", None),
    "an unknown column in an unknown function": ("FOO(aeg) FROM customers", "E_UNKNOWN_COLUMN", "'age'"),
    "an unknown column behind a raw one": ("age, aeg FROM customers", "E_UNKNOWN_COLUMN", "'age'"),
    "a raw column behind OVER": ("SUM(age) OVER (PARTITION BY uid) FROM customers", "E_UNSUPPORTED", "Leave out OVER"),
    "the owner behind OVER": ("MAX(uid) OVER () FROM customers", "E_UNSUPPORTED", "Leave out OVER"),
    "a raw column in ROW_NUMBER": ("ROW_NUMBER() OVER (ORDER BY age) FROM customers", "E_RAW_OUTPUT", None),
    "an unknown strategy": (
        "COUNT(DISTINCT age, contribution_bounding_strategy => FOO) FROM customers", "E_OPTION_INVALID", None,
    ),
    "a strategy that is not offered": (
        "COUNT(DISTINCT age, contribution_bounding_strategy => GREEDY) FROM customers", "E_UNSUPPORTED", "SAMPLING",
    ),
    "owners at different places of a set operation": (
        "COUNT(*) FROM (SELECT region, uid FROM customers UNION ALL SELECT uid, site FROM visits)", "E_SETOP_UID", "UNION ALL",
    ),
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
        ("COUNT(*, contribution_bounds_per_group => (1, 3))", "ANON_COUNT(* CLAMPED BETWEEN 1 AND 3)"),
        ("COUNT(DISTINCT uid)", "ANON_COUNT(DISTINCT uid)"),
        ("COUNT(DISTINCT uid)", "ANON_COUNT(DISTINCT uid, 1)"),
        ("COUNT(DISTINCT uid)", "ANON_COUNT(DISTINCT uid, 7)"),
        ("COUNT(DISTINCT uid)", "ANON_COUNT(DISTINCT uid CLAMPED BETWEEN 0 AND 3)"),
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


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("ANON_COUNT(DISTINCT uid, 0)", "leave out 1"),
        ("ANON_COUNT(DISTINCT uid CLAMPED BETWEEN 2 AND 3)", "leave out 1"),
        ("ANON_COUNT(DISTINCT uid CLAMPED BETWEEN 1 AND 0)", "lower"),
        ("ANON_COUNT(DISTINCT uid, 'one')", "finite numbers"),
        ("ANON_COUNT(DISTINCT uid, age)", "finite numbers"),
        ("ANON_COUNT(DISTINCT uid, 1 CLAMPED BETWEEN 0 AND 1)", "twice"),
        ("ANON_COUNT(DISTINCT age, 3)", "owner column only"),
        ("ANON_COUNT(DISTINCT uid + 0, 3)", "owner column only"),
    ],
)
def test_bounds_of_a_count_of_owners_let_each_owner_count_once(quiet_shop, refusal, call, words):
    error = refusal(quiet_shop, f"SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1) {call} FROM customers")
    assert error.code == "E_BOUNDS_INVALID"
    assert words in error.message


@pytest.mark.parametrize(
    ("clause", "option", "other"),
    [
        ("ANONYMIZATION", "min_privacy_units_per_group", "k_threshold"),
        ("DIFFERENTIAL_PRIVACY", "k_threshold", "min_privacy_units_per_group"),
    ],
)
def test_an_option_of_the_other_clause_is_named_as_this_one_calls_it(quiet_shop, refusal, clause, option, other):
    error = refusal(quiet_shop, f"SELECT WITH {clause} OPTIONS(epsilon = 1, {option} = 3) COUNT(*) FROM customers")
    assert error.code == "E_OPTION_UNKNOWN"
    assert f"Did you mean {other}?" in error.hint


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("STRING_AGG(region, ',' ORDER BY region)", "E_FUNCTION_NOT_ALLOWED", "do not depend on the order"),
        ("QUANTILE_CONT(LENGTH(region), 0.5)", "E_FUNCTION_NOT_ALLOWED", "MEDIAN"),
        ("SUM(LENGTH(region) ORDER BY region)", "E_UNSUPPORTED", "does not depend on the order"),
        ("MEDIAN(0.5) WITHIN GROUP (ORDER BY region)", "E_UNSUPPORTED", "does not depend on the order"),
        ("SUM(LENGTH(region), contribution_bounds_per_group => (0, 1))", "E_UNSUPPORTED", "private SELECT"),
        ("COUNT(* CLAMPED BETWEEN 0 AND 1)", "E_UNSUPPORTED", "private SELECT"),
        ("COUNT(region) IGNORE NULLS", "E_UNSUPPORTED", "skip NULL"),
    ],
)
def test_what_exact_aggregates_do_not_take_is_said_without_owners(quiet_shop, refusal, call, code, words):
    error = refusal(quiet_shop, f"SELECT {call} FROM regions")
    assert error.code == code
    assert words in error.hint
    assert "owner" not in f"{error.message} {error.hint}"


def test_whole_division_is_an_operator_beside_the_others(quiet_shop):
    (row,) = quiet_shop.query("SELECT 7 // 2, -7 // 2, 2 * 7 // 4 * 2, 1 + 7 // 2, 7 // 0").to_dicts()
    assert list(row.values()) == [3, -3, 6, 4, None]
