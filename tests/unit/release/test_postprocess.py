"""Post-processing: expressions, HAVING, ORDER BY, LIMIT and outer queries touch released rows and public tables only."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.engines.deadline import Deadline
from shoal.errors import InternalError
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.release.postprocess import finish, is_ordered, public_rows, schema_of

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
SURE = "epsilon = 100000, delta = 0.01, max_groups_contributed = 4"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"
SITES = f"{CLAUSE}({SURE}) site, {COUNT} FROM visits GROUP BY site"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"{SITES} HAVING n > 1000", []),
        (f"{SITES} HAVING n > 100 ORDER BY site LIMIT 2", [("s0", 500), ("s1", 500)]),
        (f"{SITES} ORDER BY site DESC LIMIT 1 OFFSET 1", [("s2", 500)]),
        (
            f"SELECT site, n * 2 AS m FROM ({SITES}) WHERE site <> 's0' ORDER BY 1",
            [("s1", 1000), ("s2", 1000), ("s3", 1000)],
        ),
        (f"SELECT COUNT(*) AS c, SUM(n) AS t, AVG(n) AS a FROM ({SITES})", [(4, 2000, 500.0)]),
        (
            f"SELECT site FROM ({SITES}) UNION ALL SELECT region FROM regions ORDER BY 1 LIMIT 3",
            [("north",), ("nowhere",), ("s0",)],
        ),
        (
            f"SELECT site FROM ({SITES}) WHERE EXISTS (SELECT 1 FROM regions WHERE continent = 'EU') ORDER BY 1 LIMIT 1",
            [("s0",)],
        ),
        (
            f"SELECT site, ROW_NUMBER() OVER (ORDER BY site) AS r FROM ({SITES}) ORDER BY r LIMIT 2",
            [("s0", 1), ("s1", 2)],
        ),
        (f"SELECT site, RANK() OVER (ORDER BY n) AS r FROM ({SITES}) ORDER BY site LIMIT 2", [("s0", 1), ("s1", 1)]),
        (
            f"WITH a AS ({SITES}) SELECT x.site, y.n FROM a x LEFT JOIN a y ON x.site = y.site AND y.site >'s0' ORDER BY 1",
            [("s0", None), ("s1", 500), ("s2", 500), ("s3", 500)],
        ),
        (f"SELECT DISTINCT n FROM ({SITES})", [(500,)]),
        (f"SELECT site FROM ({SITES}) EXCEPT SELECT 's0' ORDER BY 1 LIMIT 1", [("s1",)]),
        (
            f"SELECT CASE WHEN n > 9 THEN 'many' END AS size, site || '!' AS s FROM ({SITES}) ORDER BY s LIMIT 1",
            [("many", "s0!")],
        ),
    ],
)
def test_outer_queries_are_ordinary_sql_over_released_rows(shop, sql, rows):
    answer = shop.query(sql)
    assert [tuple(row.values()) for row in answer.to_dicts()] == rows
    assert schema_of(shop.plan(sql).root.fields) == answer.to_arrow().schema


def test_an_aggregate_in_having_or_order_by_alone_is_a_mechanism_of_its_own_and_pays(shop):
    sites = f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, {COUNT} FROM visits GROUP BY site"
    mean = "AVG(spend, contribution_bounds_per_group => (0, 9))"
    plain, having, order = (
        shop.plan(sites + more).selects[0] for more in ("", f" HAVING {mean} > 3", f" ORDER BY {mean}")
    )
    assert len(plain.columns) == 1
    assert len(having.columns) == len(order.columns) == 2
    assert having.releases[0].noise != plain.releases[0].noise
    assert shop.query(f"{SITES} ORDER BY {mean}").columns == ["site", "n"]


def sites(session, sql):
    return tuple(row["site"] for row in session.query(sql).to_dicts())


def differs(session, sql, times):
    """Whether one of `times` more answers shows other sites than the first. It stops at the first that does."""
    first = sites(session, sql)
    return any(sites(session, sql) != first for _ in range(times))


def test_rows_come_in_random_order_unless_one_is_asked_for(shop):
    """Four groups come in 24 orders; that 30 answers all have the same one has a chance of 24⁻²⁹."""
    assert differs(shop, SITES, 29)
    assert {sites(shop, f"{SITES} ORDER BY site") for _ in range(5)} == {("s0", "s1", "s2", "s3")}


def test_ties_of_an_order_are_broken_at_random(shop):
    """All four counts are 500; that 30 answers break the tie alike has a chance of 24⁻²⁹."""
    assert differs(shop, f"{SITES} ORDER BY n", 29)


def test_an_order_counts_where_it_is_the_last_word(shop):
    assert is_ordered(shop.plan(f"{SITES} ORDER BY n").root)
    assert is_ordered(shop.plan(f"{SITES} ORDER BY AVG(spend)").root)
    assert not is_ordered(shop.plan(SITES).root)
    assert not is_ordered(shop.plan(f"{SITES} LIMIT 2").root)
    assert not is_ordered(shop.plan(f"SELECT site, MAX(n) FROM ({SITES} ORDER BY n) GROUP BY site").root)


def test_limit_without_order_chooses_at_random(shop):
    """That 40 answers show the same one of four groups has a chance of 4⁻³⁹."""
    assert differs(shop, f"{SITES} LIMIT 1", 39)


def test_a_private_table_never_reaches_the_post_processing(shop):
    plan = shop.plan("SELECT * FROM regions")
    private = next(n for n in all_nodes(shop.plan(SITES).selects[0].select.input) if isinstance(n, nodes.Scan))
    from dataclasses import replace

    with pytest.raises(InternalError):
        finish(replace(plan, root=private), {}, {"visits": pa.table({})}, Deadline(60))


def test_public_tables_are_fetched_once_each_and_by_name(shop):
    plan = shop.plan("SELECT a.region, b.continent FROM regions a JOIN regions b ON a.region = b.region")
    fetched = public_rows(plan.root, shop._engine)
    assert list(fetched) == ["regions"]
    assert len(finish(plan, {}, fetched, Deadline(60)).table) == 3


def test_division_and_other_partial_functions_over_noisy_numbers_do_not_fail(shop):
    sql = f"SELECT site, n / (n - n) AS a, SQRT(0 - n) AS b, CAST(site AS BIGINT) AS c, LN(n - n) AS d FROM ({SITES})"
    for row in shop.query(sql).to_dicts():
        assert (row["a"], row["b"], row["c"], row["d"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        (f"SELECT site AS s, n FROM ({SITES}) ORDER BY s || '!' DESC", "s3"),
        (f"SELECT site, n FROM ({SITES}) ORDER BY n * 2 DESC, site DESC", "s3"),
        (f"SELECT site FROM ({SITES}) ORDER BY n - n, 1", "s0"),
        (f"SELECT DISTINCT site FROM ({SITES}) ORDER BY UPPER(site) DESC", "s3"),
        (f"SELECT site FROM ({SITES}) UNION ALL SELECT 'a' ORDER BY LENGTH(site), site", "a"),
        (f"{SITES} ORDER BY LENGTH(site) + n - n, site DESC", "s3"),
        (
            f"SELECT site, RANK() OVER (ORDER BY site) AS r FROM ({SITES}) ORDER BY RANK() OVER (ORDER BY site DESC)",
            "s3",
        ),
    ],
)
def test_an_order_may_be_any_expression_over_columns_and_outputs(shop, sql, first):
    assert shop.query(sql).to_dicts()[0]["site" if "AS s," not in sql else "s"] == first


@pytest.mark.parametrize(
    "window",
    [
        "ROW_NUMBER() OVER (ORDER BY COUNT(DISTINCT uid))",
        "RANK() OVER (ORDER BY COUNT(DISTINCT uid) DESC)",
        "NTILE(2) OVER (ORDER BY COUNT(DISTINCT uid))",
        "LAG(COUNT(DISTINCT uid)) OVER (ORDER BY site)",
        "FIRST_VALUE(site) OVER (ORDER BY COUNT(DISTINCT uid))",
        "SUM(COUNT(DISTINCT uid)) OVER (ORDER BY site ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_windows_beside_aggregates_look_at_the_released_groups(shop, window):
    private = f"{CLAUSE}({SURE}) site, COUNT(DISTINCT uid) AS n, {window} AS w FROM visits GROUP BY site"
    rows = {row["site"]: row for row in shop.query(private).to_dicts()}
    outer = window.replace("COUNT(DISTINCT uid)", "n")
    counted = f"{CLAUSE}({SURE}) site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"
    again = {row["site"]: row for row in shop.query(f"SELECT site, n, {outer} AS w FROM ({counted})").to_dicts()}
    assert rows == again


def test_constants_of_any_type_may_stand_in_the_answer(shop):
    items = "NULL AS a, 'text' AS b, DATE '2026-01-02' AS c, TRUE AS d, COUNT(DISTINCT uid) AS n"
    (row,) = shop.query(f"{CLAUSE}(epsilon = 1) {items} FROM visits").to_dicts()
    assert (row["a"], row["b"], row["c"].isoformat(), row["d"]) == (None, "text", "2026-01-02", True)


@pytest.mark.parametrize(
    "sql",
    [f"{CLAUSE}(epsilon = 1) INTERVAL 2 DAY AS i, {COUNT} FROM visits", "SELECT INTERVAL 2 DAY AS i FROM regions"],
)
def test_intervals_are_no_columns_and_are_refused_before_anything_is_spent(quiet_shop, refusal, sql):
    assert refusal(quiet_shop, sql).code == "E_UNSUPPORTED"


PER_ROW = "contribution_bounds_per_row => (0, 9)"
CUTS = f"{CLAUSE}({SURE}, noise = LAPLACE) site, APPROX_QUANTILES(spend, 2, {PER_ROW}) AS q FROM visits GROUP BY 1"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM ({CUTS})",
        f"WITH c AS ({CUTS}) SELECT q AS cuts, site FROM c ORDER BY site",
        f"WITH c AS ({CUTS}) SELECT DISTINCT c.q FROM c",
        f"WITH c AS ({CUTS}) SELECT a.q FROM c AS a JOIN c AS b USING (site)",
        f"{CUTS} UNION ALL {CUTS}",
    ],
)
def test_outer_queries_carry_lists_along(shop, sql):
    rows = shop.query(sql).to_dicts()
    lists = [value for row in rows for value in row.values() if isinstance(value, list)]
    assert len(lists) == len(rows) > 1
    assert all(len(cuts) == 3 and cuts == sorted(cuts) for cuts in lists)


@pytest.mark.parametrize(
    "use", ["q IS NULL", "COALESCE(q, q)", "q = q", "MAX(q)", "FIRST_VALUE(q) OVER (ORDER BY site)"]
)
def test_nothing_is_computed_from_lists(quiet_shop, refusal, use):
    error = refusal(quiet_shop, f"SELECT {use} AS x FROM ({CUTS})")
    assert error.code == "E_UNSUPPORTED"
    assert "released list" in str(error)


def test_different_lists_are_different_rows_beside_private_rows(shop):
    sql = (
        f"WITH c AS ({CUTS}), d AS (SELECT DISTINCT q FROM c) {CLAUSE}({SURE}) "
        "COUNT(*, contribution_bounds_per_group => (0, 100)) AS n FROM visits JOIN d ON TRUE"
    )
    times, rest = divmod(shop.query(sql)["n"][0], 2000)
    assert (times > 1, rest) == (True, 0)


def test_lists_of_cut_points_do_not_stand_in_the_way_of_a_later_private_select(shop):
    cut = "APPROX_QUANTILES(spend, 2, contribution_bounds_per_row => (0, 9)) AS q"
    cuts = f"{CLAUSE}({SURE}) {cut}, COUNT(DISTINCT uid) AS u FROM visits"
    sql = f"WITH c AS ({cuts}) {CLAUSE}({SURE}) {COUNT} FROM visits JOIN c ON visits.spend >= 0 AND c.u = 400"
    assert shop.query(sql).to_dicts() == [{"n": 2000}]
