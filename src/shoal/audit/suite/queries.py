"""The queries of the audit, and the small databases they are asked on.

Owners of the databases: a *few* with ordinary rows; a *high* one, at and beyond the upper bounds, in groups that nobody else has;
a *low* one. Neighbours differ by all rows of one of them.
"""

from __future__ import annotations

import pyarrow as pa

from shoal.frozen import dataclass

FEW = [(1, "a", 2.0, 1), (1, "a", 3.0, 2), (2, "a", 4.0, 3), (2, "b", 1.0, 3)]
HIGH = [(3, "a", 10.0, 8), (3, "a", 10.0, 9), (3, "b", 99.0, 9), (3, "c", 10.0, 7)]
LOW = [(4, "a", -5.0, 3), (4, "b", -70.0, 4)]
CATALOG = {
    "tables": {"visits": {"owner": "uid"}, "people": {"owner": "uid"}, "sites": {"public": True}},
}


def _database(rows: list[tuple[int, str, float, int]]) -> dict[str, pa.Table]:
    uid, site, x, kind = ([row[i] for row in rows] for i in range(4))
    owners = sorted(set(uid))
    return {
        "visits": pa.table(
            {
                "uid": pa.array(uid, pa.int64()),
                "site": pa.array(site, pa.string()),
                "x": pa.array(x, pa.float64()),
                "kind": pa.array(kind, pa.int64()),
            }
        ),
        "people": pa.table(
            {
                "uid": pa.array(owners, pa.int64()),
                "region": pa.array(["north" if owner % 2 else "south" for owner in owners], pa.string()),
            }
        ),
        "sites": pa.table({"site": ["a", "b", "d"]}),
    }


DATABASES = {
    "few": _database(FEW),
    "few and high": _database(FEW + HIGH),
    "few and low": _database(FEW + LOW),
    "high": _database(HIGH),
    "nobody": _database([]),
}
NEIGHBOURS = [("few and high", "few"), ("few and low", "few"), ("high", "nobody")]


@dataclass(frozen=True, slots=True)
class PrivateQuery:
    """A query at any ε; `delta` is one that samples can tell. One that is `slower` is asked for fewer samples."""

    family: str
    name: str
    text: str
    options: str = ""
    delta: float = 0.0
    slower: int = 1

    def sql(self, epsilon: float) -> str:
        """The query at this ε, written so that it is not above it."""
        delta = f", delta={self.delta}" if self.delta else ""
        # Without a limit by name, limits would be found first, and this is one release; of AUTO it is step two.
        limited = "kappa" in self.options or "contributed" in self.options
        more = "".join(f", {option}" for option in (self.options, "" if limited else "kappa=1") if option)
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={epsilon!r}{delta}{more}) {self.text}"


def _aggregate(name: str, expression: str, slower: int = 1) -> PrivateQuery:
    return PrivateQuery("aggregates", name, f"{expression} AS answer FROM visits", slower=slower)


def _selection(
    name: str, options: str, text: str = "site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"
) -> PrivateQuery:
    return PrivateQuery("selection", name, text, f"max_groups_contributed=2, {options}", delta=0.01)


_IN_GROUP = "contribution_bounds_per_group"
_IN_ROW = "contribution_bounds_per_row"
_SUM_BY_SITE = f"site, SUM(x, {_IN_GROUP} => (0, 10)) AS total FROM visits GROUP BY site"
_FOUND = 25
"""Bounds are found anew for every sample, one after another."""

QUERIES: tuple[PrivateQuery, ...] = (
    _aggregate("COUNT(*)", f"COUNT(*, {_IN_GROUP} => (0, 3))"),
    _aggregate("COUNT(x)", f"COUNT(x, {_IN_GROUP} => (0, 1))"),
    _aggregate("COUNT(DISTINCT owner)", "COUNT(DISTINCT uid)"),
    _aggregate("COUNT(DISTINCT x)", "COUNT(DISTINCT kind, max_contributions_per_group => 2)"),
    _aggregate("SUM of reals", f"SUM(x, {_IN_GROUP} => (-5, 10))"),
    _aggregate("SUM, bounds [5, 6]", f"SUM(kind, {_IN_GROUP} => (5, 6))"),
    _aggregate("AVG", f"AVG(x, {_IN_GROUP} => (0, 10))"),
    _aggregate("AVG_ROWS", f"AVG_ROWS(x, {_IN_ROW} => (0, 10), max_contributions_per_group => 2)"),
    _aggregate("VAR_POP", f"VAR_POP(x, {_IN_ROW} => (0, 10), max_contributions_per_group => 2)"),
    _aggregate("STDDEV", f"STDDEV(x, {_IN_ROW} => (0, 10))"),
    _aggregate("MEDIAN", f"MEDIAN(x, {_IN_ROW} => (0, 10))", 2),
    _aggregate(
        "PERCENTILE_CONT", f"PERCENTILE_CONT(x, 0.9, {_IN_ROW} => (0, 10), max_contributions_per_group => 2)", 2
    ),
    _aggregate(
        "quartiles by recursion",
        ", ".join(
            f"PERCENTILE_CONT(x, {share}, {_IN_ROW} => (0, 10), max_contributions_per_group => 2) AS {name}"
            for name, share in (("low", 0.25), ("middle", 0.5))
        )
        + f", PERCENTILE_CONT(x, 0.75, {_IN_ROW} => (0, 10), max_contributions_per_group => 2)",
        8,
    ),
    _aggregate("MIN", f"MIN(x, {_IN_ROW} => (0, 10))", 2),
    _aggregate("MAX", f"MAX(x, {_IN_ROW} => (0, 10))", 2),
    PrivateQuery(
        "aggregates",
        "MEDIAN off a tree",
        f"MEDIAN(x, {_IN_ROW} => (0, 10)) AS answer FROM visits",
        "noise=LAPLACE",
        slower=2,
    ),
    PrivateQuery(
        "aggregates", "MAX off a tree", f"MAX(x, {_IN_ROW} => (0, 10)) AS answer FROM visits", "noise=LAPLACE", slower=2
    ),
    _selection("optimal", "group_selection_strategy=OPTIMAL, noise=LAPLACE", _SUM_BY_SITE),
    _selection("Laplace threshold", "group_selection_strategy=LAPLACE_THRESHOLD, noise=LAPLACE", _SUM_BY_SITE),
    _selection("Laplace threshold, count shown", "group_selection_strategy=LAPLACE_THRESHOLD, noise=LAPLACE"),
    _selection("Gaussian threshold", "group_selection_strategy=GAUSSIAN_THRESHOLD, noise=GAUSSIAN"),
    _selection(
        "AVG, by its own two sums",
        "group_selection_strategy=LAPLACE_THRESHOLD, noise=LAPLACE",
        f"site, AVG(x, {_IN_GROUP} => (0, 10)) AS mean FROM visits GROUP BY site",
    ),
    _selection("weights", "group_selection_strategy=WEIGHTED", _SUM_BY_SITE),
    _selection(
        "weights, at least 2 owners", "group_selection_strategy=WEIGHTED, min_privacy_units_per_group=2", _SUM_BY_SITE
    ),
    _selection("at least 2 owners", "min_privacy_units_per_group=2, noise=LAPLACE"),
    PrivateQuery(
        "selection",
        "public groups",
        "s.site, COUNT(DISTINCT uid) AS n FROM visits RIGHT JOIN (SELECT DISTINCT site FROM sites) AS s "
        "ON visits.site = s.site GROUP BY s.site",
        "max_groups_contributed=2, group_selection_strategy=PUBLIC_GROUPS",
    ),
    PrivateQuery("automatic bounds", "SUM", "SUM(x) AS total FROM visits", "kappa=1", slower=_FOUND),
    PrivateQuery("automatic bounds", "COUNT(*)", "COUNT(*) AS n FROM visits", "kappa=1", slower=_FOUND),
    PrivateQuery(
        "automatic bounds",
        "AVG that selects groups",
        "site, AVG(x) AS mean FROM visits GROUP BY site",
        "max_groups_contributed=2, group_selection_strategy=LAPLACE_THRESHOLD, noise=LAPLACE",
        0.01,
        slower=_FOUND,
    ),
    PrivateQuery(
        "limits that are found",
        "a bin for each owner",
        "bin, COUNT(DISTINCT uid) AS n FROM (SELECT uid, LEAST(COUNT(DISTINCT site), 2) AS bin FROM visits GROUP BY uid) AS each "
        "GROUP BY bin",
        "kappa=1, noise=LAPLACE",
        0.01,
    ),
    PrivateQuery(
        "limits that are found",
        "a bin for the average of each owner's values",
        "bin, COUNT(DISTINCT uid) AS n FROM (SELECT uid, CASE WHEN SUM(x) <= 5 * COUNT(x) THEN 0 ELSE 1 END AS bin FROM visits "
        "GROUP BY uid) AS each GROUP BY bin",
        "kappa=1, noise=LAPLACE",
        0.01,
    ),
    PrivateQuery(
        "automatic bounds",
        "of each group",
        "site, SUM(x) AS total, APPROX_BOUNDS(x) AS ends FROM visits GROUP BY site",
        "max_groups_contributed=2, noise=LAPLACE, inferred_bounds=PER_GROUP",
        0.01,
        slower=_FOUND,
    ),
    PrivateQuery(
        "whole queries",
        "join, unknown groups, several aggregates",
        f"region, SUM(x, {_IN_GROUP} => (0, 10)) AS total, COUNT(*, {_IN_GROUP} => (0, 3)) AS n "
        "FROM visits JOIN people USING (uid) GROUP BY region",
        "max_groups_contributed=1, noise=LAPLACE",
        0.01,
    ),
    PrivateQuery(
        "whole queries",
        "owners' own aggregates, then groups",
        f"most, COUNT(DISTINCT uid) AS n, AVG(visits, {_IN_GROUP} => (0, 4)) AS mean FROM "
        "(SELECT uid, MAX(kind) > 5 AS most, COUNT(*) AS visits FROM visits GROUP BY uid) AS each GROUP BY most",
        "max_groups_contributed=1",
        0.01,
    ),
    PrivateQuery(
        "whole queries",
        "join with a public table, at most 3 rows of an owner",
        f"SUM(x, {_IN_GROUP} => (0, 10)) AS total, COUNT(*) AS n FROM visits JOIN sites USING (site)",
        "max_rows_contributed=3",
    ),
    PrivateQuery(
        "whole queries",
        "limits for all groups of an owner together",
        "s.site, COUNT(visits.kind) AS n, SUM(x) AS total FROM visits RIGHT JOIN (SELECT DISTINCT site FROM sites) AS s "
        "ON visits.site = s.site GROUP BY s.site",
        "max_groups_contributed=AUTO, group_selection_strategy=PUBLIC_GROUPS",
    ),
    PrivateQuery(
        "whole queries",
        "all mechanisms in one answer",
        f"site, COUNT(DISTINCT uid) AS n, AVG(x, {_IN_GROUP} => (0, 10)) AS mean, MAX(x, {_IN_ROW} => (0, 10)) AS most "
        "FROM visits WHERE kind > 0 GROUP BY site",
        "max_groups_contributed=2, noise=LAPLACE",
        0.01,
        2,
    ),
)
