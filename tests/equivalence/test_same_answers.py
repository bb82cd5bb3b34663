"""At ε = 10⁵ the noise is small: private answers agree with the same definition in plain SQL when bounds do not bind.

Per-owner mean first for AVG; one row per owner where rows are sampled; quantiles within one leaf width. Tolerances are at least 30
times the scale of the noise, so that a false alarm has a chance below e⁻²⁵ in each cell, and below 10⁻⁶ in all of them together.
"""

from __future__ import annotations

import math

import pytest
from shop_data import CATALOG, plain_database, tables

import shoal

EPSILON = 100_000
LEAF = 2 * 2000 / 16**4
"""Bounds of rows here are (-2000, 2000), in 16⁴ leaves."""


@pytest.fixture(scope="module")
def shop():
    data = tables(owners=300, visits=1500)
    with shoal.connect(data, catalog=CATALOG) as session, plain_database(data) as plain:
        plain.execute(
            "CREATE VIEW one_visit AS SELECT * FROM visits QUALIFY row_number() OVER (PARTITION BY uid ORDER BY day) = 1"
        )
        yield session, plain


def private(items: str, rows: str, key: str = "", options: str = "max_groups_contributed = 10") -> str:
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {EPSILON}, delta = 0.01, {options})"
    keys = f"{key} AS k, " if key else ""
    return f"{head} {keys}{items} {rows}" + (" GROUP BY k" if key else "")


def plain_sql(items: str, rows: str, key: str = "") -> str:
    return f"SELECT {key + ' AS k, ' if key else ''}{items} {rows}" + (" GROUP BY k" if key else "")


def rows_of(shop, sql: str) -> dict:
    """Key → values of a private answer; without a key the only row."""
    return {
        row[0] if len(row) > 1 else None: row[-1] for row in (tuple(d.values()) for d in shop[0].query(sql).to_dicts())
    }


def plain_rows_of(shop, sql: str) -> dict:
    return {row[0] if len(row) > 1 else None: row[-1] for row in shop[1].sql(sql).fetchall()}


def assert_close(found: dict, wanted: dict, tolerance: float) -> None:
    assert found.keys() <= wanted.keys()
    for key, value in wanted.items():
        if key in found and value is not None:
            assert math.isclose(found[key], value, abs_tol=tolerance), key


BOUNDS = "contribution_bounds_per_group => (-1000, 1000)"
ROW_BOUNDS = "contribution_bounds_per_row => (-2000, 2000)"

EXACT = {
    "COUNT(*)": ("COUNT(*, contribution_bounds_per_group => (0, 20))", "COUNT(*)"),
    "COUNT(x)": ("COUNT(items, contribution_bounds_per_group => (0, 20))", "COUNT(items)"),
    "COUNT(*) with bounds to be found": ("COUNT(*)", "COUNT(*)"),
    "COUNT(DISTINCT owner)": ("COUNT(DISTINCT uid)", "COUNT(DISTINCT uid)"),
    "COUNT(DISTINCT x)": ("COUNT(DISTINCT items, max_contributions_per_group => 20)", "COUNT(DISTINCT items)"),
    "APPROX_COUNT_DISTINCT(x)": (
        "APPROX_COUNT_DISTINCT(day, max_contributions_per_group => 20)",
        "COUNT(DISTINCT day)",
    ),
    "COUNTIF": ("COUNTIF(items > 10, contribution_bounds_per_group => (0, 20))", "COUNT(*) FILTER (WHERE items > 10)"),
    "FILTER": (
        "COUNT(*, contribution_bounds_per_group => (0, 20)) FILTER (WHERE spend > 5)",
        "COUNT(*) FILTER (WHERE spend > 5)",
    ),
    "SUM of integers": (f"SUM(items, {BOUNDS})", "SUM(items)"),
}


@pytest.mark.parametrize("key", ["", "site"])
@pytest.mark.parametrize("name", EXACT)
def test_counts_and_integer_sums_are_those_of_plain_sql(shop, name, key):
    ours, theirs = EXACT[name]
    found = rows_of(shop, private(ours, "FROM visits", key))
    wanted = plain_rows_of(shop, plain_sql(theirs, "FROM visits", key))
    assert len(found) >= 5 or not key
    tolerance = 0 if "SUM" not in name else 10
    assert_close(found, wanted, tolerance)


REAL = {
    "SUM": (f"SUM(spend, {BOUNDS})", "SUM(spend)", "visits", 10.0),
    "SUM with bounds to be found": ("SUM(spend)", "SUM(spend)", "visits", 20.0),
    "AVG": (
        f"AVG(spend, {BOUNDS})",
        "AVG(a)",
        "(SELECT site, uid, AVG(spend) AS a FROM visits GROUP BY site, uid)",
        1.0,
    ),
    "AVG with bounds to be found": (
        "AVG(spend)",
        "AVG(a)",
        "(SELECT site, uid, AVG(spend) AS a FROM visits GROUP BY site, uid)",
        1.0,
    ),
}


@pytest.mark.parametrize("key", ["", "site"])
@pytest.mark.parametrize("name", REAL)
def test_real_sums_and_averages_of_owners_are_those_of_plain_sql(shop, name, key):
    ours, theirs, rows, tolerance = REAL[name]
    if not key:
        rows = rows.replace("site, ", "").replace("GROUP BY site, uid", "GROUP BY uid")
    found = rows_of(shop, private(ours, "FROM visits", key))
    wanted = plain_rows_of(shop, plain_sql(theirs, f"FROM {rows}", key))
    assert found
    assert_close(found, wanted, tolerance)


ONE = "max_groups_contributed = 1"
SPREAD = {
    "VAR_POP": ("VAR_POP(income, {})", "var_pop(income)", 200.0),
    "VAR_SAMP": ("VAR_SAMP(income, {})", "var_samp(income)", 200.0),
    "VARIANCE": ("VARIANCE(income, {})", "var_samp(income)", 200.0),
    "STDDEV_POP": ("STDDEV_POP(income, {})", "stddev_pop(income)", 0.5),
    "STDDEV_SAMP": ("STDDEV_SAMP(income, {})", "stddev_samp(income)", 0.5),
    "STDDEV": ("STDDEV(income, {})", "stddev_samp(income)", 0.5),
    "MIN": ("MIN(income, {})", "min(income)", LEAF),
    "MAX": ("MAX(income, {})", "max(income)", LEAF),
}


@pytest.mark.parametrize("key", ["", "region"])
@pytest.mark.parametrize("name", SPREAD)
def test_variances_and_extremes_over_one_row_per_owner_are_those_of_plain_sql(shop, name, key):
    ours, theirs, tolerance = SPREAD[name]
    found = rows_of(shop, private(ours.format(ROW_BOUNDS), "FROM customers", key, ONE))
    wanted = plain_rows_of(shop, plain_sql(theirs, "FROM customers", key))
    assert len(found) == (5 if key else 1)
    assert_close(found, wanted, tolerance)


@pytest.mark.parametrize("key", ["", "region"])
@pytest.mark.parametrize(
    ("call", "fraction"),
    [
        ("MEDIAN(income, {})", 0.5),
        ("PERCENTILE_CONT(income, 0.5, {})", 0.5),
        ("PERCENTILE_DISC(income, 0.25, {})", 0.25),
        ("PERCENTILE_CONT(income, 0.9, {})", 0.9),
        ("PERCENTILE_CONT(income, 0, {})", 0.0),
        ("PERCENTILE_DISC(income, 1, {})", 1.0),
    ],
)
def test_quantiles_are_within_one_leaf_of_the_rows_at_their_rank(shop, call, fraction, key):
    found = rows_of(shop, private(call.format(ROW_BOUNDS), "FROM customers", key, ONE))
    values = plain_rows_of(shop, plain_sql("list_sort(list(income))", "FROM customers WHERE income IS NOT NULL", key))
    assert len(found) == (5 if key else 1)
    for group, place in found.items():
        below, above = _rows_at(values[group], fraction)
        assert below - LEAF <= place <= above + LEAF, group


def _rows_at(values: list[float], fraction: float) -> list[float]:
    """The rows on both sides of the rank n·p: where they differ, everything between them is a quantile."""
    rank = fraction * len(values)
    return [values[max(0, min(len(values) - 1, place))] for place in (math.ceil(rank) - 1, math.floor(rank))]


def test_cut_points_are_in_order_and_read_off_the_same_tree_as_other_quantiles(shop):
    sql = private(
        f"APPROX_QUANTILES(income, 4, {ROW_BOUNDS}), PERCENTILE_CONT(income, 0.5, {ROW_BOUNDS})", "FROM customers"
    )
    cuts, median = shop[0].query(sql).to_arrow().to_pylist()[0].values()
    values = plain_rows_of(shop, plain_sql("list_sort(list(income))", "FROM customers WHERE income IS NOT NULL"))[None]
    for cut, fraction in zip(cuts, (0.0, 0.25, 0.5, 0.75, 1.0), strict=True):
        assert any(abs(cut - row) <= LEAF for row in _rows_at(values, fraction))
    assert cuts == sorted(cuts)
    assert median == cuts[2]


JOINS = {
    "inner, USING": "FROM customers c JOIN visits v USING (uid)",
    "inner, ON with more": "FROM customers c JOIN visits v ON v.uid = c.uid AND v.items > c.age - 30",
    "natural": "FROM customers c NATURAL JOIN visits v",
    "comma": "FROM customers c, visits v WHERE c.uid = v.uid",
    "left": "FROM customers c LEFT JOIN visits v ON v.uid = c.uid",
    "right": "FROM customers c RIGHT JOIN visits v ON v.uid = c.uid",
    "full, ON": "FROM customers c FULL JOIN visits v ON v.uid = c.uid",
    "full, USING": "FROM customers c FULL JOIN visits v USING (uid)",
    "self": "FROM visits v JOIN visits w USING (uid)",
    "three": "FROM customers c JOIN visits v USING (uid) LEFT JOIN visits w ON w.uid = v.uid AND w.day = v.day",
    "semi": "FROM customers c SEMI JOIN visits v USING (uid)",
    "anti": "FROM customers c ANTI JOIN visits v USING (uid)",
    "EXISTS": "FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND v.spend > 10)",
    "NOT EXISTS": "FROM customers c WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid)",
    "IN": "FROM customers c WHERE uid IN (SELECT uid FROM visits)",
    "NOT IN": "FROM customers c WHERE uid NOT IN (SELECT uid FROM visits)",
    "public, inner": "FROM customers c JOIN regions r ON c.region = r.region",
    "public, left": "FROM customers c LEFT JOIN regions r ON c.region = r.region",
    "public, right": "FROM regions r RIGHT JOIN customers c ON c.region = r.region",
    "public, cross": "FROM customers c CROSS JOIN regions r",
    "public, inequality": "FROM customers c JOIN regions r ON c.age > 10 * r.rate",
    "public, semi": "FROM customers c SEMI JOIN regions r ON c.region = r.region",
    "released rows": "FROM customers c JOIN (SELECT DISTINCT region FROM regions) r USING (region)",
}


@pytest.mark.parametrize("name", JOINS)
def test_every_join_has_the_rows_of_plain_sql(shop, name):
    rows = JOINS[name]
    found = rows_of(shop, private("COUNT(*, contribution_bounds_per_group => (0, 400))", rows))
    assert found == plain_rows_of(shop, plain_sql("COUNT(*)", rows))


def test_sampled_rows_count_once_for_each_owner(shop):
    found = rows_of(shop, private(f"VAR_POP(1, {ROW_BOUNDS})", "FROM visits"))
    assert_close(found, {None: 0.0}, 300.0)
    owners = shop[1].sql("SELECT COUNT(DISTINCT uid) FROM visits WHERE spend IS NOT NULL").fetchall()[0][0]
    plan = shop[0].plan(private(f"MEDIAN(spend, {ROW_BOUNDS})", "FROM visits"))
    from shoal.release.execute import fresh_sampling_key, measure

    leaves = measure(plan.selects[0], shop[0]._engine, fresh_sampling_key()).measurement.totals[0]
    assert int(leaves.counts.sum()) == owners


def test_rows_bounded_per_owner_are_all_there_when_the_bound_is_wide(shop):
    options = "max_rows_contributed = 500"
    for ours, theirs, tolerance in (
        ("COUNT(*)", "COUNT(*)", 10),
        (f"SUM(items, {BOUNDS})", "SUM(items)", 500),
        (f"AVG(items, {BOUNDS})", "AVG(items)", 3.0),
    ):
        found = rows_of(shop, private(ours, "FROM visits", "", options))
        assert_close(found, plain_rows_of(shop, plain_sql(theirs, "FROM visits")), tolerance)


def test_all_three_spellings_answer_alike(shop):
    older = (
        f"SELECT WITH ANONYMIZATION OPTIONS(epsilon = {EPSILON}, delta = 0.01, kappa = 10) site AS k, ANON_COUNT(*, 20) AS n "
        "FROM visits GROUP BY k"
    )
    defaults = {"epsilon": EPSILON, "delta": 0.01, "max_groups_per_owner": 10}
    wanted = plain_rows_of(shop, plain_sql("COUNT(*)", "FROM visits", "site"))
    with shoal.connect(tables(owners=300, visits=1500), catalog=CATALOG | {"defaults": defaults}) as session:
        third = {
            r["k"]: r["n"]
            for r in session.query("SELECT site AS k, COUNT(*) AS n FROM visits GROUP BY site").to_dicts()
        }
    for found in (rows_of(shop, older), third, rows_of(shop, private("COUNT(*)", "FROM visits", "site"))):
        assert len(found) >= 5
        assert_close(found, wanted, 0)


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        (
            "WITH n AS ({}) SELECT k, n, rank() OVER (ORDER BY n DESC) AS place FROM n WHERE n > 20 ORDER BY n DESC, k LIMIT 3",
            "WITH n AS ({}) SELECT k, n, rank() OVER (ORDER BY n DESC) AS place FROM n WHERE n > 20 ORDER BY n DESC, k LIMIT 3",
        ),
        (
            "SELECT continent, SUM(n) AS n FROM ({}) AS q JOIN regions ON q.k = regions.region GROUP BY continent ORDER BY 1",
            "SELECT continent, SUM(n) AS n FROM ({}) AS q JOIN regions ON q.k = regions.region GROUP BY continent ORDER BY 1",
        ),
    ],
)
def test_outer_queries_over_private_ones_are_those_of_plain_sql(shop, sql, plain):
    ours = private("COUNT(*, contribution_bounds_per_group => (0, 3)) AS n", "FROM customers", "region")
    theirs = plain_sql("COUNT(*) AS n", "FROM customers", "region")
    found = [tuple(row.values()) for row in shop[0].query(sql.format(ours)).to_dicts()]
    assert found == shop[1].sql(plain.format(theirs)).fetchall()
