"""Plain SQL in a session with defaults: which SELECT is private, what it means, and what it costs."""

from __future__ import annotations

import pytest

from shoal.errors import ShoalError

CATALOG = {
    "tables": {
        "customers": {"owner": "uid", "owner_kind": "customer"},
        "visits": {"owner": "uid", "owner_kind": "customer"},
        "regions": {"public": True},
    },
    "defaults": {"epsilon": 0.5, "delta": 1e-6, "max_groups_per_owner": 3},
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, measure_cut = 0.05)"
BY_SITE = "site, COUNT(*) AS n FROM visits GROUP BY site"


@pytest.fixture
def plain(open_shop):
    return open_shop(CATALOG)


# Plain SQL, in which PRIVATE marks the SELECTs that get the clause.
SAME = {
    "a WITH table": f"WITH a AS (PRIVATE {BY_SITE}) SELECT site, n FROM a ORDER BY n",
    "a WITH table that is read twice": (
        f"WITH a AS (PRIVATE {BY_SITE}) SELECT site, 100.0 * n / (SELECT SUM(n) FROM a) AS share FROM a"
    ),
    "a WITH table over another": (
        "WITH v AS (SELECT uid, site, spend FROM visits WHERE spend > 1), "
        "a AS (PRIVATE site, AVG(spend) AS m FROM v GROUP BY site) SELECT MAX(m) AS m FROM a"
    ),
    "a subquery of FROM": f"SELECT MAX(n) AS most FROM (PRIVATE {BY_SITE})",
    "one total": "SELECT n / 2 AS half FROM (PRIVATE COUNT(*) AS n FROM visits)",
    "HAVING alone": "SELECT n FROM (PRIVATE COUNT(*) AS n FROM visits HAVING COUNT(*) > 5)",
    "two sides of a union": (
        f"SELECT site, n FROM (PRIVATE {BY_SITE} UNION ALL PRIVATE region, COUNT(*) FROM customers GROUP BY region)"
    ),
    "one inside of another": (
        "PRIVATE COUNT(*) AS n FROM visits v CROSS JOIN (PRIVATE AVG(spend) AS m FROM visits) a WHERE v.spend > a.m"
    ),
    "rows of each owner in between": (
        "SELECT n + 1 AS n FROM (PRIVATE AVG(n) AS n FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid))"
    ),
    "rows of each owner alone": "PRIVATE AVG(n) AS n FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid)",
    "rows of each owner by another name": (
        "PRIVATE AVG(n) AS n FROM (SELECT who, COUNT(*) AS n FROM (SELECT uid AS who FROM visits) GROUP BY 1)"
    ),
    "rows of each owner of two tables": (
        "PRIVATE AVG(n) AS n FROM (SELECT uid, COUNT(*) AS n FROM "
        "(SELECT uid, site FROM visits UNION ALL SELECT uid, region FROM customers) GROUP BY uid)"
    ),
    "rows of each owner of a full join": (
        "PRIVATE AVG(n) AS n FROM (SELECT uid, COUNT(*) AS n FROM visits FULL JOIN customers USING (uid) GROUP BY uid)"
    ),
    "a WITH table that nothing reads": f"WITH a AS (SELECT {BY_SITE}) PRIVATE COUNT(*) AS n FROM customers",
    "a WITH table that only such a table reads": (
        f"WITH a AS (SELECT {BY_SITE}), b AS (SELECT MAX(n) AS n FROM a) PRIVATE COUNT(*) AS n FROM customers"
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_select_that_mixes_owners_is_private_as_if_its_clause_stood_there(plain, name):
    sql = SAME[name]
    found, written = (plain.plan(sql.replace("PRIVATE", word)) for word in ("SELECT", CLAUSE))
    assert found.selects == written.selects
    assert found.root == written.root
    assert found.epsilon == written.epsilon


def test_every_such_select_pays_and_the_ledger_is_asked_for_all_of_them(plain):
    before = plain.spent
    plain.query(SAME["two sides of a union"].replace("PRIVATE", "SELECT"))
    assert plain.spent[0] - before[0] == pytest.approx(1.0)


REFUSED = {
    "a value of single rows": ("SELECT COUNT(*) FROM visits WHERE spend > (SELECT spend FROM visits)", "E_EXPR_SUBQUERY"),
    "one inside an expression": (
        f"SELECT COUNT(*) FROM visits WHERE site IN (SELECT site FROM (SELECT {BY_SITE}) WHERE n > 9)", "E_EXPR_SUBQUERY",
    ),
    "one inside of EXISTS": (
        f"SELECT region FROM regions r WHERE EXISTS (SELECT 1 FROM (SELECT {BY_SITE}) s WHERE site = region)", "E_EXPR_SUBQUERY",
    ),
    "a clause around it": (f"{CLAUSE} SUM(n) FROM (SELECT {BY_SITE})", "E_UID_LOST"),
    "a clause beside it": (
        f"WITH a AS (SELECT {BY_SITE}), b AS ({CLAUSE} COUNT(*) AS n FROM visits) SELECT SUM(a.n) FROM a, b", "E_UID_LOST",
    ),
    "a forged owner": ("SELECT MAX(n) FROM (SELECT MAX(uid) AS uid, COUNT(*) AS n FROM visits GROUP BY site)", "E_UID_FORGED"),
    "the owner as a text": ("SELECT MAX(n) FROM (SELECT uid::VARCHAR AS k, COUNT(*) AS n FROM visits GROUP BY k)", "E_UID_EXPOSED"),
    "raw rows": ("SELECT MAX(n) FROM (SELECT site, spend, COUNT(*) AS n FROM visits GROUP BY site)", "E_RAW_OUTPUT"),
    "an aggregate without a private form": (
        "SELECT * FROM (SELECT site, STRING_AGG(site, ',') AS s FROM visits GROUP BY site)", "E_AGG_NOT_DP",
    ),
    "DISTINCT in FROM": ("SELECT COUNT(*) FROM (SELECT DISTINCT site FROM visits)", "E_UID_LOST"),
    "all columns": ("SELECT DISTINCT * FROM visits", "E_RAW_OUTPUT"),
    "the owner": ("SELECT DISTINCT uid FROM visits", "E_UID_EXPOSED"),
    "the owner beside a column": ("SELECT DISTINCT site, uid FROM visits", "E_UID_EXPOSED"),
    "DISTINCT ON": ("SELECT DISTINCT ON (site) site FROM visits", "E_UNSUPPORTED"),
    "DISTINCT beside GROUP BY": ("SELECT DISTINCT site, COUNT(*) FROM visits GROUP BY site", "E_UNSUPPORTED"),
    "an order by what is not shown": ("SELECT DISTINCT site FROM visits ORDER BY spend", "E_RAW_OUTPUT"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_plain_sql_cannot_mean_is_refused_and_free(plain, name):
    sql, code = REFUSED[name]
    with pytest.raises(ShoalError) as refusal:
        plain.query(sql)
    assert refusal.value.code == code, str(refusal.value)
    assert plain.spent == (0.0, 0.0)


DISTINCT = [
    ("SELECT DISTINCT site FROM visits", "site FROM visits GROUP BY site"),
    ("SELECT DISTINCT site FROM visits ORDER BY site DESC LIMIT 2", "site FROM visits GROUP BY site ORDER BY site DESC LIMIT 2"),
    ("SELECT DISTINCT site AS s, items > 2 AS many FROM visits", "site AS s, items > 2 AS many FROM visits GROUP BY s, many"),
    ("SELECT DISTINCT uid % 10 AS d FROM visits WHERE spend > 3", "uid % 10 AS d FROM visits WHERE spend > 3 GROUP BY d"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "grouped"), DISTINCT)
def test_select_distinct_is_group_by(plain, written, grouped):
    found, expected = plain.plan(written), plain.plan(f"{CLAUSE} {grouped}")
    assert found.selects == expected.selects
    assert found.root == expected.root


def test_distinct_shows_groups_of_many_owners(plain):
    assert sorted(plain.query("SELECT DISTINCT site FROM visits")["site"]) == ["s0", "s1", "s2", "s3"]


WITHOUT_CLAUSE = [
    "SELECT DISTINCT site FROM visits",
    f"WITH a AS (SELECT {BY_SITE}) SELECT * FROM a",
    "SELECT site, QUANTILE_CONT(spend, 0.5) FROM visits GROUP BY site",
    "SELECT QUANTILE_CONT(spend, [0.25, 0.75]), COUNT(*) FROM visits",
    "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY spend) FROM visits",
    "SELECT ROUND(MEDIAN(spend), 2) FROM visits HAVING MEDIAN(spend) > 3",
    "SELECT AVG(spend, contribution_bounds_per_group => (0, 10)) FROM visits",
]


@pytest.mark.parametrize("sql", WITHOUT_CLAUSE)
def test_without_defaults_plain_sql_is_refused(quiet_shop, refusal, sql):
    assert refusal(quiet_shop, sql).code == "E_NO_DP_CLAUSE"


OTHERWISE_WRONG = [
    ("SELECT MEDIAN(spent) FROM visits", "E_UNKNOWN_COLUMN"),
    ("SELECT MEDIAN(spend), nowhere FROM visits", "E_UNKNOWN_COLUMN"),
    ("SELECT STRING_AGG(site, ',') FROM visits", "E_FUNCTION_NOT_ALLOWED"),
]


@pytest.mark.parametrize(("sql", "code"), OTHERWISE_WRONG)
def test_without_defaults_what_else_is_wrong_is_said_first(quiet_shop, refusal, sql, code):
    assert refusal(quiet_shop, sql).code == code
