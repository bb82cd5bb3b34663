"""Queries drawn from a seed: relations, joins, filters, keys and aggregates that mean the same in both dialects.

A query is told twice from one description: as a private SELECT whose bounds do not bind, and as plain SQL whose integers must be
exactly those that enter the mechanisms.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

MANY = 1000
"""More groups, rows and values than any owner has: nothing is sampled."""


@dataclass(frozen=True)
class Source:
    """What is in FROM, the owner of its rows, and its columns by kind."""

    text: str
    owner: str
    integers: tuple[str, ...] = ()
    reals: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()


CUSTOMER = {
    "integers": ("age",),
    "reals": ("income",),
    "texts": ("region",),
    "conditions": ("vip", "age > 40", "region IS NULL"),
}
VISIT = {
    "integers": ("items",),
    "reals": ("spend",),
    "texts": ("site",),
    "dates": ("day",),
    "conditions": ("spend > 5", "items BETWEEN 0 AND 20", "site <> 's1'", "day >= DATE '2026-02-01'"),
}
BOTH = {key: CUSTOMER.get(key, ()) + VISIT.get(key, ()) for key in VISIT}

SOURCES = (
    Source("customers", "uid", **CUSTOMER),
    Source("visits", "uid", **VISIT),
    Source("customers c JOIN visits v USING (uid)", "uid", **BOTH),
    Source("customers c JOIN visits v ON c.uid = v.uid AND v.spend > c.age / 4", "c.uid", **BOTH),
    Source("customers c LEFT JOIN visits v ON v.uid = c.uid AND v.items > 10", "c.uid", **BOTH),
    Source("customers c RIGHT JOIN visits v ON v.uid = c.uid", "v.uid", **BOTH),
    Source("customers c FULL JOIN visits v USING (uid)", "uid", **BOTH),
    Source("customers c NATURAL JOIN visits v", "uid", **BOTH),
    Source("customers c, visits v WHERE c.uid = v.uid AND c.age > 30", "c.uid", **BOTH),
    Source(
        "visits a JOIN visits b ON a.uid = b.uid AND a.day = b.day",
        "a.uid",
        ("a.items",),
        ("b.spend",),
        ("a.site", "b.site"),
        ("a.day",),
    ),
    Source(
        "customers c JOIN regions r ON c.region = r.region",
        "c.uid",
        ("age", "rate"),
        ("income",),
        ("continent", "c.region"),
    ),
    Source(
        "customers c LEFT JOIN regions r ON c.region = r.region AND rate > 1",
        "c.uid",
        ("age", "rate"),
        ("income",),
        ("continent",),
    ),
    Source("customers c JOIN regions r ON c.age % 5 >= r.rate", "c.uid", ("age", "rate"), ("income",), ("continent",)),
    Source("customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND v.spend > 20)", "uid", **CUSTOMER),
    Source(
        "customers c WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND v.items > c.age)",
        "uid",
        **CUSTOMER,
    ),
    Source("customers WHERE uid IN (SELECT uid FROM visits GROUP BY uid HAVING COUNT(*) > 5)", "uid", **CUSTOMER),
    Source("customers WHERE uid NOT IN (SELECT uid FROM visits WHERE spend > 30)", "uid", **CUSTOMER),
    Source("customers WHERE region IN (SELECT region FROM regions WHERE continent = 'EU')", "uid", **CUSTOMER),
    Source("customers WHERE age > (SELECT 10 * MAX(rate) FROM regions)", "uid", **CUSTOMER),
    Source("customers SEMI JOIN visits USING (uid)", "uid", **CUSTOMER),
    Source("customers c ANTI JOIN visits v ON c.uid = v.uid AND v.spend > 10", "uid", **CUSTOMER),
    Source(
        "(SELECT uid, site, COUNT(*) AS n, SUM(items) AS s, MAX(day) AS d, COUNT(DISTINCT day) AS days "
        "FROM visits GROUP BY uid, site HAVING COUNT(*) > 1)",
        "uid",
        ("n", "s", "days"),
        (),
        ("site",),
        ("d",),
        ("n > 2", "s > 10"),
    ),
    Source(
        "(SELECT uid, items, site, day, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day, site, spend, items) AS rn, "
        "SUM(items) OVER (PARTITION BY uid ORDER BY day) AS running, RANK() OVER (PARTITION BY uid ORDER BY site) AS place, "
        "COUNT(*) OVER (PARTITION BY uid) AS total FROM visits)",
        "uid",
        ("items", "rn", "running", "place", "total"),
        (),
        ("site",),
        ("day",),
        ("rn <= 3", "total > 4"),
    ),
    Source(
        "(SELECT uid, LAG(items) OVER (PARTITION BY uid ORDER BY day, site, spend, items) AS before, items, site FROM visits)",
        "uid",
        ("before", "items"),
        (),
        ("site",),
        (),
        ("before < items", "before IS NULL"),
    ),
    Source(
        "(SELECT uid, region AS k, age AS x FROM customers UNION ALL SELECT uid, site, items FROM visits)",
        "uid",
        ("x",),
        (),
        ("k",),
    ),
    Source("(SELECT uid, site AS k FROM visits UNION SELECT uid, region FROM customers)", "uid", (), (), ("k",)),
    Source(
        "(SELECT uid, site FROM visits WHERE spend > 5 INTERSECT SELECT uid, site FROM visits WHERE items > 10)",
        "uid",
        (),
        (),
        ("site",),
    ),
    Source(
        "(SELECT uid, site FROM visits EXCEPT SELECT uid, site FROM visits WHERE items > 20)", "uid", (), (), ("site",)
    ),
    Source("(SELECT DISTINCT uid, site, items > 10 AS big FROM visits)", "uid", (), (), ("site",), (), ("big",)),
    Source(
        "(WITH w AS (SELECT uid, SUM(items) AS s FROM visits GROUP BY uid) "
        "SELECT c.uid, c.region, w.s, c.age FROM customers c JOIN w ON w.uid = c.uid)",
        "uid",
        ("s", "age"),
        (),
        ("region",),
        (),
        ("s > 20",),
    ),
    Source(
        "(SELECT uid, age + 1 AS a, UPPER(region) AS r FROM (SELECT * FROM customers WHERE age IS NOT NULL))",
        "uid",
        ("a",),
        (),
        ("r",),
    ),
)


@dataclass(frozen=True)
class Aggregate:
    """An aggregate in both dialects; `kind` says how its integers are told in plain SQL."""

    private: str
    kind: str
    argument: str = ""


@dataclass(frozen=True)
class Query:
    """A drawn query."""

    source: Source
    filters: tuple[str, ...]
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    by_rows: bool

    @property
    def rows(self) -> str:
        """FROM and WHERE, the same text in both dialects."""
        joiner = "AND" if " WHERE " in self.source.text and not self.source.text.startswith("(") else "WHERE"
        return f"FROM {self.source.text}" + (f" {joiner} {' AND '.join(self.filters)}" if self.filters else "")

    @property
    def private(self) -> str:
        limit = f"max_rows_contributed = {MANY}" if self.by_rows else f"max_groups_contributed = {MANY}"
        options = f"epsilon = 1, delta = 1e-6, noise = LAPLACE, group_selection_strategy = LAPLACE_THRESHOLD, {limit}"
        items = ", ".join([*self.keys, *(f"{a.private} AS a{i}" for i, a in enumerate(self.aggregates))])
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {items} {self.rows}{grouped}"


def draw_query(seed: int) -> Query:
    """The query of a seed."""
    chance = random.Random(seed)
    source = chance.choice(SOURCES)
    by_rows = chance.random() < 0.15
    keys = tuple(dict.fromkeys(_key(source, chance) for _ in range(chance.choice((0, 1, 1, 1, 2)))))
    filters = tuple(dict.fromkeys(_condition(source, chance) for _ in range(chance.choice((0, 0, 1, 2)))))
    kinds = [_aggregate(source, chance, by_rows=by_rows) for _ in range(chance.choice((1, 2, 3)))]
    different = {(a.kind, a.argument): a for a in kinds}
    return Query(source, filters, keys, tuple(different.values()), by_rows)


def _key(source: Source, chance: random.Random) -> str:
    options = [
        *source.texts,
        *(f"{i} % 4" for i in source.integers),
        *(f"EXTRACT(MONTH FROM {d})" for d in source.dates),
    ]
    options += [f"CASE WHEN {i} > 20 THEN 'many' WHEN {i} > 5 THEN 'some' END" for i in source.integers]
    options += [f"CAST(DATE_TRUNC('month', {d}) AS DATE)" for d in source.dates] + [f"{t} || '!'" for t in source.texts]
    options += [f"({c})" for c in source.conditions] + [f"COALESCE({t}, 'none')" for t in source.texts]
    options += [f"({r} > 10)" for r in source.reals]
    return chance.choice(options)


def _condition(source: Source, chance: random.Random) -> str:
    options = [*source.conditions, *(f"{i} % 3 <> 1" for i in source.integers), *(f"{r} < 50" for r in source.reals)]
    options += [f"{t} IN ('north', 's1', 's2', 'west')" for t in source.texts] + [
        f"{t} LIKE '%s%'" for t in source.texts
    ]
    options += [f"NOT ({c})" for c in source.conditions] + [f"{i} IS NOT NULL" for i in source.integers]
    options += [f"COALESCE({i}, 0) + 1 > 3" for i in source.integers] + [
        f"{d} < DATE '2026-03-01'" for d in source.dates
    ]
    return chance.choice(options)


def _aggregate(source: Source, chance: random.Random, *, by_rows: bool) -> Aggregate:
    wide = "(-1000000, 1000000)"
    group = "" if by_rows else f", contribution_bounds_per_group => {wide}"
    count = "" if by_rows else ", contribution_bounds_per_group => (0, 1000000)"
    values = "" if by_rows else f", max_contributions_per_group => {MANY}"
    options = [Aggregate(f"COUNT(*{count})", "count"), Aggregate(f"COUNT(DISTINCT {source.owner})", "owners")]
    for number in source.integers:
        options.append(Aggregate(f"SUM({number}, contribution_bounds_per_group => {wide})", "sum", number))
        options.append(Aggregate(f"COUNT({number}{count})", "count", number))
        options.append(
            Aggregate(f"SUM({number} * 2 - 1, contribution_bounds_per_group => {wide})", "sum", f"{number} * 2 - 1")
        )
        options.append(Aggregate(f"COUNT(DISTINCT {number}{values})", "distinct", number))
    for number in (*source.reals, *source.integers):
        if not by_rows:
            options.append(Aggregate(f"AVG({number}{group})", "mean", number))
        options.append(
            Aggregate(f"VAR_POP({number}, contribution_bounds_per_row => {wide}{values})", "moments", number)
        )
        options.append(
            Aggregate(f"MEDIAN({number}, contribution_bounds_per_row => (-200, 200){values})", "leaves", number)
        )
    options += [
        Aggregate(f"SUM({number}, contribution_bounds_per_group => {wide})", "real sum", number)
        for number in source.reals
    ]
    options += [Aggregate(f"COUNT(DISTINCT {text}{values})", "distinct", text) for text in source.texts]
    options += [Aggregate(f"COUNTIF({c}{count})", "count", f"CASE WHEN {c} THEN 1 END") for c in source.conditions]
    options += [
        Aggregate(f"COUNT(*{count}) FILTER (WHERE {c})", "count", f"CASE WHEN {c} THEN 1 END")
        for c in source.conditions
    ]
    return chance.choice(options)
