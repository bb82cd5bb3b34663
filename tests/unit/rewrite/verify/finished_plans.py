"""Plans of every shape that a statement can take, to be changed by hostile tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shoal
from shoal import aggregates as agg

if TYPE_CHECKING:
    from shoal.plan.releases import StatementPlan

CATALOG = {
    "tables": {
        "customers": {
            "owner": "uid",
            "owner_kind": "customer",
            "columns": {"vip": {"values": [True, False]}, "age": {"bounds": [0, 120]}},
        },
        "visits": {"owner": "uid", "owner_kind": "customer"},
        "regions": {"public": True},
    },
    "defaults": {"epsilon": 1, "delta": 1e-6, "max_groups_per_owner": 3},
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
BASE = "epsilon = 1, delta = 1e-6, max_groups_contributed = 3"
LAPLACE, GAUSSIAN = f"{BASE}, noise = LAPLACE", f"{BASE}, noise = GAUSSIAN"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 4))"
TOTAL = "SUM(spend, contribution_bounds_per_group => (-2, 9))"
WHOLE = "SUM(items, contribution_bounds_per_group => (0, 9))"
VALUES = "COUNT(DISTINCT items, max_contributions_per_group => 2)"
PER_ROW = "contribution_bounds_per_row => (0, 9), max_contributions_per_group => 3"
BY_SITE = "FROM visits GROUP BY site"
SQL = {
    "one sum": f"{CLAUSE}(epsilon = 1) {TOTAL} FROM visits",
    "optimal": f"{CLAUSE}({LAPLACE}, group_selection_strategy = OPTIMAL) site, {COUNT}, {WHOLE} {BY_SITE}",
    "own threshold": f"{CLAUSE}({LAPLACE}, group_selection_strategy = LAPLACE_THRESHOLD) site, {VALUES} {BY_SITE}",
    "shared threshold": f"{CLAUSE}({LAPLACE}) site, COUNT(DISTINCT uid), {VALUES} {BY_SITE}",
    "a whole that selects": f"{CLAUSE}({LAPLACE}) site, COUNT(DISTINCT uid), {TOTAL} {BY_SITE}",
    "an average that selects": f"{CLAUSE}({LAPLACE}, min_privacy_units_per_group = 2) site, "
    f"AVG(spend, contribution_bounds_per_group => (0, 9)) {BY_SITE}",
    "an average that selects, bounds found": f"{CLAUSE}({LAPLACE}) site, AVG(spend), STDDEV(spend) {BY_SITE}",
    "rows that select": f"{CLAUSE}({LAPLACE}, min_privacy_units_per_group = 2) site, {COUNT}, {VALUES} {BY_SITE}",
    "owners of a whole": f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid), {WHOLE} FROM visits",
    "min owners": f"{CLAUSE}({LAPLACE}, min_privacy_units_per_group = 5) site, {TOTAL} {BY_SITE}",
    "joint Gaussian": f"{CLAUSE}({GAUSSIAN}) site, AVG(spend, contribution_bounds_per_group => (0, 9)), {COUNT} {BY_SITE}",
    "shared Gaussian": f"{CLAUSE}({GAUSSIAN}) site, COUNT(DISTINCT uid), {TOTAL} {BY_SITE}",
    "a Gaussian whole that selects": f"{CLAUSE}({GAUSSIAN}, group_selection_strategy = GAUSSIAN_THRESHOLD) site, {TOTAL} {BY_SITE}",
    "Gaussian beside optimal": f"{CLAUSE}({GAUSSIAN}, group_selection_strategy = OPTIMAL) site, {COUNT}, {TOTAL} {BY_SITE}",
    "weights": f"{CLAUSE}({GAUSSIAN}, group_selection_strategy = WEIGHTED, min_privacy_units_per_group = 4) "
    f"site, {TOTAL} {BY_SITE}",
    "listed groups": f"{CLAUSE}({BASE}, group_selection_strategy = PUBLIC_GROUPS) vip, COUNT(*), AVG(age) "
    "FROM customers GROUP BY vip",
    "outer-joined groups": f"{CLAUSE}({BASE}, group_selection_strategy = PUBLIC_GROUPS) r.region, {COUNT} FROM regions r "
    "LEFT JOIN customers c ON c.region = r.region GROUP BY r.region",
    "inferred": f"{CLAUSE}({LAPLACE}) site, COUNT(*), SUM(spend), AVG(items) {BY_SITE}",
    "inferred Gaussian": f"{CLAUSE}({GAUSSIAN}) site, SUM(spend), VAR_POP(spend), MEDIAN(items) {BY_SITE}",
    "shared bounds": f"{CLAUSE}(epsilon = 1) SUM(t), AVG(t), STDDEV(t), MEDIAN(t) "
    "FROM (SELECT uid, SUM(spend) AS t FROM visits GROUP BY uid) AS totals",
    "bounds of each group": f"{CLAUSE}({BASE}, inferred_bounds = PER_GROUP) site, SUM(spend) {BY_SITE}",
    "approximate bounds": f"{CLAUSE}({BASE}) APPROX_BOUNDS(spend) FROM visits",
    "rows": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_rows_contributed = 5) site, COUNT(*), "
    f"AVG(spend, contribution_bounds_per_group => (0, 9)), COUNT(DISTINCT items), {WHOLE} {BY_SITE}",
    "quantiles": f"{CLAUSE}({LAPLACE}) site, MEDIAN(spend, {PER_ROW}), APPROX_QUANTILES(items, 4, {PER_ROW}), "
    f"MAX(spend, contribution_bounds_per_row => (0, 9)), COUNT(DISTINCT items, max_contributions_per_group => 2) {BY_SITE}",
    "chosen quantiles": f"{CLAUSE}({BASE}) site, MEDIAN(spend, {PER_ROW}), PERCENTILE_CONT(spend, 0.9, {PER_ROW}), "
    f"MIN(items, contribution_bounds_per_row => (0, 9)) {BY_SITE}",
    "chosen among few rows": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_rows_contributed = 4) site, "
    f"MEDIAN(spend, contribution_bounds_per_row => (0, 9)) {BY_SITE}",
    "parts of a whole": f"{CLAUSE}({LAPLACE}) site, AVG(spend, contribution_bounds_per_group => (0, 9)), {COUNT} {BY_SITE}",
    "variance": f"{CLAUSE}({LAPLACE}) site, STDDEV(spend, {PER_ROW}), {COUNT} {BY_SITE}",
    "report": f"{CLAUSE}({BASE}) SUM(spend, contribution_bounds_per_group => (0, 9), report_format => 'JSON') FROM visits",
    "numerical": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = 10, noise = LAPLACE) "
    f"site, {COUNT}, {WHOLE} {BY_SITE}",
    "union": f"{CLAUSE}({LAPLACE}) place, {COUNT} FROM (SELECT uid, site AS place FROM visits UNION ALL "
    "SELECT uid, region FROM customers) u GROUP BY place",
    "joins": f"{CLAUSE}({LAPLACE}) c.region, {COUNT} FROM visits v JOIN customers c ON c.uid = v.uid AND c.age > 20 "
    "LEFT JOIN regions r ON r.region = c.region WHERE v.items IN (SELECT 2 FROM regions) AND EXISTS (SELECT 1 FROM regions) "
    "AND EXISTS (SELECT 1 FROM visits w WHERE w.uid = c.uid AND w.items > 2) GROUP BY c.region",
    "comma join": f"{CLAUSE}({LAPLACE}) c.region, {COUNT} FROM visits v, customers c "
    "WHERE c.uid = v.uid AND v.items > 1 GROUP BY c.region",
    "full join": f"{CLAUSE}({LAPLACE}) region, {COUNT} FROM visits FULL JOIN customers USING (uid) GROUP BY region",
    "per owner": f"{CLAUSE}({LAPLACE}) n, {COUNT} FROM (SELECT DISTINCT uid, n FROM (SELECT uid, COUNT(DISTINCT site) FILTER "
    "(WHERE items > 1) AS n FROM visits GROUP BY uid) a) b GROUP BY n",
    "window": f"{CLAUSE}({LAPLACE}) site, {COUNT} FROM (SELECT uid, site, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY spend DESC) "
    "AS r, SUM(items) OVER (PARTITION BY uid ORDER BY spend ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM visits) w "
    "WHERE r < 3 AND s > 0 GROUP BY site",
    "with": f"WITH g AS ({CLAUSE}({LAPLACE}) site, {COUNT} AS n {BY_SITE}), h AS ({CLAUSE}({LAPLACE}) {TOTAL} AS t FROM visits "
    "WHERE site IN (SELECT site FROM g)) SELECT site, CASE WHEN n > 2 THEN CAST(n AS DOUBLE) ELSE (SELECT t FROM h) END AS x "
    "FROM g UNION SELECT region, 1.0 FROM regions ORDER BY x DESC LIMIT 3",
    "after the release": f"SELECT k, SUM(n) AS m FROM ({CLAUSE}({LAPLACE}) site AS k, {COUNT} AS n {BY_SITE} HAVING n > 1) g "
    "WHERE k IN (VALUES ('s1'), ('s2')) GROUP BY k ORDER BY m",
    "limits that are found": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = AUTO) vip AS v, COUNT(*), "
    "COUNT(DISTINCT age) FROM customers GROUP BY vip",
    "limits on sums that are found": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = AUTO) vip, SUM(score), "
    "MEDIAN(age) FROM customers GROUP BY vip",
    "rows over listed groups": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = AUTO, "
    "group_selection_strategy = PUBLIC_GROUPS) vip, COUNT(*) FROM customers GROUP BY vip",
    "limits for all groups together": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = AUTO, "
    "group_selection_strategy = PUBLIC_GROUPS) vip, COUNT(age), SUM(score), AVG(age) FROM customers GROUP BY vip",
    "average of rows": f"{CLAUSE}({LAPLACE}) site, AVG_ROWS(spend, {PER_ROW}), {COUNT} {BY_SITE}",
    "rollup": f"{CLAUSE}({BASE}) site, {TOTAL} FROM visits GROUP BY ROLLUP (site)",
    "split texts": f"{CLAUSE}({LAPLACE}) part, {COUNT} FROM customers c JOIN (SELECT region, "
    "UNNEST(STRING_SPLIT(region, 'o')) AS part FROM regions) r ON r.region = c.region GROUP BY part",
    "value of the owner": f"{CLAUSE}({LAPLACE}) region, SUM(n, contribution_bounds_per_group => (0, 9)) FROM (SELECT c.uid, "
    "c.region, (SELECT COUNT(*) FROM visits v WHERE v.uid = c.uid) AS n FROM customers c) x GROUP BY region",
    "limits that are measured": f"{CLAUSE}({LAPLACE}, measure_cut = 0.05) site, {COUNT}, {TOTAL} {BY_SITE}",
    "plain": "SELECT region, COUNT(*), AVG(age) FROM customers GROUP BY region",
    "a share of a total": f"WITH g AS ({CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = AUTO) site, COUNT(*) AS n "
    f"{BY_SITE}), w AS ({CLAUSE}(epsilon = 1, max_groups_contributed = AUTO) COUNT(*) AS n FROM visits) "
    "SELECT g.site, 1.0 * g.n / w.n AS share FROM g CROSS JOIN w",
}
COMPOSITION = {"numerical": "pld"}
COLLECTION = "collection"


def planned_collection(session: shoal.Session) -> StatementPlan:
    """A filter, SQL that forgets to name the owner, and a function of all records of an owner."""
    kept = session.collection("visits").filter(lambda v: v.items > 1)
    several = kept.select("site", "items").per_owner(lambda records: [{"place": records[0].site}], {"place": "text"})
    return several.group_by("place", max_groups_per_owner=2).planned(n=agg.count(upper=4), epsilon=1, delta=1e-6)


def finished_plans(tables, names) -> tuple[dict[str, StatementPlan], shoal.Catalog]:
    """Some statements, planned, and the catalog that they were planned with."""
    catalog = shoal.Catalog.from_dict(CATALOG)
    with shoal.connect(tables, catalog=catalog) as session:
        plans = {
            name: planned_collection(session)
            if name == COLLECTION
            else session.plan(SQL[name], composition=COMPOSITION.get(name, "basic"))
            for name in names
        }
    return plans, catalog
