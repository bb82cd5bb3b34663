"""No number of an answer stands there without an interval or a reason: aggregates, expressions over them, set operations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.release.postprocess import schema_of

OWNERS = 300
AGGREGATES = {
    "owners": "COUNT(DISTINCT uid)",
    "n": "COUNT(*)",
    "items": "COUNT(DISTINCT item)",
    "total": "SUM(spend)",
    "mean": "AVG(spend)",
    "spread": "STDDEV(spend)",
    "middle": "MEDIAN(spend)",
    "most": "MAX(spend)",
}
LIST = ", ".join(f"{sql} AS {name}" for name, sql in AGGREGATES.items())
BY_SITE = f"SELECT site, {LIST} FROM visits GROUP BY site"
ALL = f"SELECT {LIST} FROM visits"
FEW = "SELECT site, COUNT(*) AS n, SUM(spend) AS total FROM visits"
QUESTIONS = [
    ALL,
    BY_SITE,
    f"{BY_SITE} HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 3",
    "SELECT COUNT(*) * 2 AS twice, ROUND(AVG(spend), 1) AS mean, SUM(spend) / COUNT(*) AS each, -SUM(spend) AS owed FROM visits",
    "SELECT site, SUM(spend) / COUNT(DISTINCT uid) AS each, COUNT(*) - COUNT(item) AS missing FROM visits GROUP BY site",
    "SELECT site, CASE WHEN COUNT(*) > 50 THEN AVG(spend) ELSE 0 END AS a, COALESCE(SUM(spend), 0) AS b FROM visits GROUP BY 1",
    "SELECT COUNT(*) FILTER (WHERE item = 1) AS ones, COUNT(*) AS n FROM visits",
    "SELECT MAX(n) AS largest, SUM(n) AS n FROM (SELECT site, COUNT(*) AS n FROM visits GROUP BY site) AS s",
    f"SELECT site, n, SUM(n) OVER () AS everything, RANK() OVER (ORDER BY n) AS place FROM ({FEW} GROUP BY site) AS s",
    f"SELECT DISTINCT n, total FROM ({FEW} GROUP BY site) AS s",
    *(f"{FEW} WHERE item = 1 GROUP BY site {word} {FEW} GROUP BY site" for word in ("UNION ALL", "UNION", "INTERSECT", "EXCEPT")),
    f"SELECT n + 1 AS more, total FROM ({FEW} WHERE item = 1 GROUP BY site UNION {FEW} GROUP BY site) AS s",
    f"SELECT a.site, a.n, b.n AS m, a.n - b.n AS gap FROM ({FEW} GROUP BY site) AS a JOIN ({FEW} GROUP BY site) AS b USING (site)",
    "SELECT site, item, COUNT(*) AS n FROM visits GROUP BY ROLLUP (site, item)",
    "SELECT site, CAST(AVG(spend) AS DECIMAL(9, 2)) AS mean, COUNT(*) * 2 AS n FROM visits GROUP BY CUBE (site)",
]  # fmt: skip
KEYS = {"site", "item"}
MEANS = "SELECT 1 AS site, AVG(spend) AS mean FROM visits"
ROUNDED = "SELECT site, ROUND(AVG(spend)) FROM visits GROUP BY site"


@pytest.fixture(scope="module")
def session():
    uid = np.repeat(np.arange(OWNERS), 4)
    table = pa.table({"uid": uid, "site": uid % 3 + 1, "item": np.arange(4 * OWNERS) % 2, "spend": 5.0 + uid % 11})
    columns = {"site": {"values": [1, 2, 3]}, "item": {"values": [0, 1]}}
    catalog = {
        "tables": {"visits": {"owner": "uid", "columns": columns}},
        "defaults": {"epsilon": 4, "delta": 1e-6, "max_groups_per_owner": 6},
    }
    return shoal.connect({"visits": table}, catalog=catalog)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_every_number_has_an_interval_or_a_reason(session, sql):
    result = session.query(sql)
    assert schema_of(session.plan(sql).root.fields) == result.to_arrow().schema  # known before anything is read
    rows, notes = result.intervals().to_dicts(), result.notes
    assert rows or any("appears" in note or "no row is left" in note for note in notes)
    for name in result.columns:
        if name in KEYS:
            continue
        for row in rows:
            low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
            said = any(note.startswith((f"{name} ", f"{name}:")) for note in notes)
            if row[name] is None:
                assert notes
            elif low is None or high is None:
                assert said, f"{name} of {sql}"
            else:
                assert low <= row[name] <= high


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT site, ROUND(AVG(spend), 1) AS mean, SUM(spend) / COUNT(*) AS ratio FROM visits GROUP BY ROLLUP (site)",
        "SELECT item, site, 100.0 * COUNT(item) / COUNT(*) AS mean FROM visits GROUP BY GROUPING SETS ((item), (site), ())",
        "SELECT 1 AS site, ROUND(AVG(spend)) AS mean FROM visits WHERE site = 1 UNION ALL SELECT 2, AVG(spend) FROM visits",
        f"SELECT site, mean + 1 AS mean FROM ({MEANS} UNION ALL {MEANS} UNION ALL {ROUNDED}) AS u WHERE mean > 0 ORDER BY mean",
    ],
)
def test_what_is_computed_in_the_parts_of_a_union_has_intervals_that_hold(session, sql):
    result = session.query(sql, epsilon=200)
    rows = result.intervals().to_dicts()
    assert len(rows) > 1
    assert not any("no interval" in note for note in result.notes)
    for row in rows:
        for name in result.columns:
            if name not in KEYS:
                # ε = 200: what is released is nearly exact, and the ends stay on its two sides.
                assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"] < row[name] + 5


def test_a_part_that_cannot_be_drawn_leaves_its_reason(session):
    parts = "SELECT ROUND(AVG(spend)) AS mean FROM visits UNION ALL SELECT MAX(n) FROM ({}) AS s"
    result = session.query(parts.format("SELECT site, COUNT(*) AS n FROM visits GROUP BY site"))
    assert "mean is computed from noisy numbers, and has no interval of its own." in result.notes


def test_decimals_are_shown_with_their_intervals(session):
    text = repr(session.query("SELECT CAST(AVG(spend) AS DECIMAL(9, 2)) AS mean FROM visits", epsilon=200))
    assert any(bar in text.splitlines()[2] for bar in (" ± ", " ["))


@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT"])
def test_rows_of_a_set_operation_keep_the_intervals_of_the_rows_they_come_from(session, word):
    counted = "SELECT site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"
    some = "SELECT site, n FROM a WHERE n < 0" if word == "EXCEPT" else "SELECT site, n FROM a WHERE n >= 0"
    found = session.query(f"WITH a AS ({counted}) SELECT site, n FROM a {word} {some}").intervals().to_dicts()
    assert len(found) == 3
    for row in found:
        assert row["n_low"] < row["n"] < row["n_high"]
