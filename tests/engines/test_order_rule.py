"""The order rule: removing one owner never moves another owner's contribution by one bit.

A key that tells owners apart (uid + 0) makes every group one owner's own contribution. It must be the same integers with and
without one other owner, in any order of rows, on two threads, with float columns.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.params import bounds
from shoal.plan.totals import LeafCounts
from shoal.release.execute import fresh_sampling_key, measure

OWNERS, ROWS, REMOVED = 300, 150_000, 17
"""More rows than one row group of the engine (122,880), so that both threads get some."""
CATALOG = {"tables": {"visits": {"owner": "uid"}}}
ROWS_KEPT = "max_contributions_per_group"
ROW_BOUNDS = "contribution_bounds_per_row => (0, 1000)"
GROUP_BOUNDS = "contribution_bounds_per_group => (-100000, 100000)"


def visits() -> pa.Table:
    """Days with many ties, floats of very different sizes, both zeros, one owner with a large share of all rows."""
    draw = np.random.default_rng(5)
    uid = np.where(draw.random(ROWS) < 0.1, REMOVED, draw.integers(1, OWNERS + 1, ROWS))
    spend = draw.lognormal(0, 3, ROWS) * draw.choice([1.0, -1.0, 0.0], ROWS, p=[0.8, 0.15, 0.05])
    return pa.table(
        {
            "uid": uid,
            "site": np.array([f"s{i}" for i in range(6)])[draw.integers(0, 6, ROWS)],
            "day": draw.integers(0, 30, ROWS),
            "spend": spend,
        }
    )


def connection(table: pa.Table) -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect(config={"threads": "2"})
    opened.register("incoming", table)
    opened.execute("CREATE TABLE visits AS SELECT * FROM incoming")
    return opened


@pytest.fixture(scope="module")
def sessions():
    """All owners; and, in another order of rows, all but one."""
    table = visits()
    others = table.filter(pa.compute.not_equal(table["uid"], REMOVED))
    shuffled = others.take(np.random.default_rng(6).permutation(others.num_rows))
    with connection(table) as everyone, connection(shuffled) as without:
        yield shoal.connect(everyone, catalog=CATALOG), shoal.connect(without, catalog=CATALOG), everyone, without


COUNT_BOUNDS = "contribution_bounds_per_group => (0, 5000)"
PLACED = "LAG(spend) OVER o AS l, FIRST_VALUE(spend) OVER o AS f, ROW_NUMBER() OVER o AS n"
RUNNING = "SUM(spend) OVER (PARTITION BY uid ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"

QUERIES = {
    "sums, means and counts": (
        f"SUM(spend, {GROUP_BOUNDS}), AVG(spend, {GROUP_BOUNDS}), COUNT(*, contribution_bounds_per_group => (0, 5000))",
        "FROM visits",
    ),
    "rows one by one": (f"SUM(spend, {GROUP_BOUNDS}), AVG(spend, {GROUP_BOUNDS}), COUNT(*)", "FROM visits"),
    "bounds found before": ("SUM(spend), AVG(spend), COUNT(spend)", "FROM visits"),
    "sampled rows": (
        f"VAR_POP(spend, {ROW_BOUNDS}, {ROWS_KEPT} => 5), MEDIAN(spend, {ROW_BOUNDS}, {ROWS_KEPT} => 7)",
        "FROM visits",
    ),
    "sampled values, extremes": (
        f"COUNT(DISTINCT day, max_contributions_per_group => 4), MIN(spend, {ROW_BOUNDS}), MAX(spend, {ROW_BOUNDS})",
        "FROM visits",
    ),
    "an aggregate of each owner": (
        f"SUM(s, {GROUP_BOUNDS}), SUM(a, {GROUP_BOUNDS}), SUM(d, {GROUP_BOUNDS}), SUM(m, {GROUP_BOUNDS})",
        "FROM (SELECT uid, site, SUM(spend) s, AVG(spend) a, STDDEV(spend) d, MEDIAN(spend) m FROM visits GROUP BY uid, site)",
    ),
    "windows with ties": (
        f"SUM(l, {GROUP_BOUNDS}), SUM(f, {GROUP_BOUNDS}), SUM(w, {GROUP_BOUNDS}), COUNTIF(n < 5, {COUNT_BOUNDS})",
        f"FROM (SELECT uid, site, {PLACED}, {RUNNING} AS w FROM visits WINDOW o AS (PARTITION BY uid ORDER BY day))",
    ),
    "frames of ranges and of groups, with ties": (
        f"SUM(a, {GROUP_BOUNDS}), SUM(b, {GROUP_BOUNDS}), SUM(c, {GROUP_BOUNDS}), SUM(d, {GROUP_BOUNDS})",
        (
            "FROM (SELECT uid, site, SUM(spend) OVER o AS a, COUNT(*) OVER (PARTITION BY uid) AS b, "
            "MAX(spend) OVER (PARTITION BY uid ORDER BY day RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS c, "
            "COUNT(*) OVER (PARTITION BY uid ORDER BY day GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS d "
            "FROM visits WINDOW o AS (PARTITION BY uid ORDER BY day))"
        ),
    ),
    "frames that keep rows, with ties": (
        f"SUM(spend, {GROUP_BOUNDS})",
        (
            "FROM (SELECT uid, site, spend FROM visits QUALIFY "
            "COUNT(*) OVER (PARTITION BY uid ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) <= 3)"
        ),
    ),
    "frames over groups of each owner": (
        f"SUM(r, {GROUP_BOUNDS})",
        (
            "FROM (SELECT uid, site, SUM(SUM(spend)) OVER (PARTITION BY uid ORDER BY COUNT(*) % 2 "
            "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM visits GROUP BY uid, site)"
        ),
    ),
    "an early row by an order with ties": (
        f"SUM(spend, {GROUP_BOUNDS})",
        "FROM (SELECT uid, site, spend, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day) AS n FROM visits) WHERE n = 1",
    ),
    "different rows, both zeros": (
        "COUNT(*, contribution_bounds_per_group => (0, 5000)), COUNT(DISTINCT t, max_contributions_per_group => 3)",
        "FROM (SELECT DISTINCT uid, site, CAST(spend * 0 AS VARCHAR) AS t FROM visits)",
    ),
    "a self join": (
        f"SUM(a.spend * b.spend, {GROUP_BOUNDS})",
        "FROM visits a JOIN visits b ON a.uid = b.uid AND a.day = b.day AND a.site = b.site WHERE a.day < 2",
    ),
}
LIMITS = {
    "all groups": ("max_groups_contributed = 100", "uid + 0 AS u", "u"),
    "two groups": ("max_groups_contributed = 2", "uid + 0 AS u, site", "u, site"),
    "ten rows": ("max_rows_contributed = 10", "uid + 0 AS u", "u"),
}


def contributions(session: shoal.Session, sql: str, path: str, key) -> dict:
    """(owner, …) → the integers that the owner adds."""
    plan = session.plan(sql).selects[0]
    found = tuple(bounds(-2, 1024) for _ in plan.histograms)
    measured = measure(plan, Path(session._engine, path), key, found=found).measurement
    keys = [tuple(row.values()) for row in measured.keys.to_pylist()]
    groups: dict = {key: [owners] for key, owners in zip(keys, measured.owners.tolist(), strict=True)}
    for total in measured.totals:
        if isinstance(total, LeafCounts):
            for group, leaf, count in zip(
                total.groups.tolist(), total.leaves.tolist(), total.counts.tolist(), strict=True
            ):
                groups[keys[group]].append((leaf, count))
        else:
            for key_of, value in zip(keys, total, strict=True):
                groups[key_of].append(int(value))
    return {key: sorted(map(str, value)) for key, value in groups.items()}


class Path:
    """An engine that answers by one of its ways."""

    def __init__(self, engine, path: str) -> None:
        self.totals = getattr(engine, path)


CASES = [
    *((name, "two groups", "measure_by_sql") for name in QUERIES),
    *((name, "all groups", "totals") for name in QUERIES),
    *((name, "ten rows", "measure_by_sql") for name in ("rows one by one", "sampled rows")),
]


@pytest.mark.parametrize(("name", "limit", "path"), CASES)
def test_removing_one_owner_moves_nobody_else(sessions, name, limit, path, monkeypatch):
    # The one who is removed has this many rows that joins would leave them out: here they take part.
    monkeypatch.setattr("shoal.engines.duckdb.engine.MAX_JOINED_ROWS", 10**12)
    monkeypatch.setattr("shoal.rewrite.checks.extents.MAX_NANOSECONDS", 10**15)
    monkeypatch.setattr("shoal.rewrite.checks.extents.MAX_OWNER_BYTES", 10**12)
    monkeypatch.setattr("shoal.engines.statements.crowded_owners.MAX_OWNER_BYTES", 10**12)
    items, rows = QUERIES[name]
    option, keys, grouped = LIMITS[limit]
    sql = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, noise = LAPLACE, {option}) {keys}, {items} {rows} "
        f"GROUP BY {grouped}"
    ).replace("uid + 0", "a.uid + 0" if " b ON " in rows else "uid + 0")
    sql = (
        sql.replace(", site,", ", a.site,").replace("GROUP BY u, site", "GROUP BY u, a.site")
        if " b ON " in rows
        else sql
    )
    key = fresh_sampling_key()
    everyone, without = (contributions(session, sql, path, key) for session in sessions[:2])
    assert any(group[0] == REMOVED for group in everyone)
    assert {group: value for group, value in everyone.items() if group[0] != REMOVED} == without


def test_float_sums_of_the_engine_itself_do_depend_on_other_owners(sessions):
    """What the rule is for: with the engine's own SUM the sensitivity of every owner would be that of all owners."""
    sql = "SELECT uid, sum(spend) FROM visits GROUP BY uid"
    everyone, without = (dict(opened.sql(sql).fetchall()) for opened in sessions[2:])
    assert sum(everyone[uid] != value for uid, value in without.items()) > OWNERS // 10
