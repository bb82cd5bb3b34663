"""Every kind of private rows × every kind of aggregate × every kind of grouping, on neighbours: what enters a mechanism moves by
no more than declared, nobody else's part moves, and an analyst sees the same face.

The rows are those that neither the corpus nor the grid of types has: owners that stand in another table, references, rows that
are owners, split texts of public tables, numbers of other SELECTs, set operations, QUALIFY.
"""

from __future__ import annotations

import pytest
import referring_data
from oracles import face_of

from shoal.accounting.ledger import Ledger
from shoal.audit.suite.replay import Neighbours
from shoal.catalog import Catalog
from shoal.engines.sources import open_source
from shoal.session import Session

SOURCES = {
    "an owner in another table": ("lines AS s", "s.units", "s.label"),
    "a chain of references": ("returns AS s", "s.line", "s.why"),
    "a reference": ("payments AS s", "s.paid", "CAST(s.order_id AS VARCHAR)"),
    "a join along a reference": (
        "orders AS o JOIN lines AS s ON o.order_id = s.order_id", "s.units", "o.place"),
    "USING a reference": ("orders JOIN lines USING (order_id)", "units", "label"),
    "a comma join along a reference": ("orders AS o, lines AS s WHERE s.order_id = o.order_id", "o.total", "s.label"),
    "a left join along a reference": (
        "lines AS l LEFT JOIN returns AS s ON s.line = l.line_id", "l.units", "s.why"),
    "a full join along a reference": (
        "orders AS o FULL JOIN payments AS s ON o.order_id = s.order_id", "s.paid", "o.place"),
    "siblings": ("payments AS p JOIN lines AS s ON p.order_id = s.order_id", "p.paid", "s.label"),
    "EXISTS along a reference": (
        "orders AS s WHERE EXISTS (SELECT 1 FROM lines AS l WHERE l.order_id = s.order_id AND l.units > 0)",
        "s.total", "s.place"),
    "an anti join along a reference": (
        "orders AS s ANTI JOIN lines AS l ON l.order_id = s.order_id AND l.units < 0", "s.total", "s.place"),
    "rows that are owners": ("answers AS s", "s.score", "s.choice"),
    "rows that are owners beside a public table": (
        "answers AS s JOIN regions AS g ON s.choice < g.region", "s.weight", "g.region"),
    "parts of a public text": (
        ("customers AS c JOIN (SELECT region, UNNEST(STRING_SPLIT(continent, 'U')) AS part FROM regions) AS s"
        " ON c.region = s.region"), "c.income", "s.part"),
    "a number of a public table": (
        "customers AS s WHERE s.age > (SELECT MAX(LENGTH(region)) FROM regions)", "s.income", "s.region"),
    "a number of another SELECT": (
        "customers AS s WHERE s.age > (SELECT AVG(age) FROM customers)", "s.age", "s.region"),
    "UNION ALL": (
        "(SELECT uid, age AS n, region AS t FROM customers UNION ALL SELECT uid, spend, site FROM visits) AS s",
        "s.n", "s.t"),
    "UNION": (
        "(SELECT uid, order_id AS n, place AS t FROM orders UNION SELECT uid, order_id, 'north' FROM payments) AS s",
        "s.n", "s.t"),
    "INTERSECT": (
        "(SELECT uid, order_id AS n FROM orders INTERSECT SELECT uid, order_id FROM payments) AS s",
        "s.n", "CAST(s.n AS VARCHAR)"),
    "EXCEPT": (
        "(SELECT uid, region AS t FROM customers EXCEPT SELECT uid, site FROM visits) AS s", "s.uid % 5", "s.t"),
    "QUALIFY": (
        ("(SELECT uid, spend AS n, site AS t FROM visits"
        " QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY spend DESC) <= 2) AS s"), "s.n", "s.t"),
}  # fmt: skip
PLAIN = {"a number of another SELECT"}
"""Allowed without a clause alone: each SELECT then pays the default ε."""
AGGREGATES = {
    "rows": "COUNT(*, contribution_bounds_per_group => (0, 3))",
    "rows to a limit that is found": "COUNT(*)",
    "a sum": "SUM({n}, contribution_bounds_per_group => (-10, 100))",
    "a sum to bounds that are found": "SUM({n})",
    "an average": "AVG({n}, contribution_bounds_per_group => (0, 50))",
    "a variance": "VAR_POP({n}, contribution_bounds_per_row => (-5, 50), max_contributions_per_group => 2)",
    "a median": "MEDIAN({n}, contribution_bounds_per_row => (-5, 50), max_contributions_per_group => 2)",
    "different values": "COUNT(DISTINCT {t}, max_contributions_per_group => 2)",
    "a filter": "COUNT(*, contribution_bounds_per_group => (0, 2)) FILTER (WHERE {n} > 1)",
}
GROUPINGS = {
    "no groups": ("", "max_groups_contributed = 3"),
    "groups": ("{t} AS k", "max_groups_contributed = 2"),
    "groups to a limit that is found": ("{t} AS k", "max_groups_contributed = AUTO"),
    "rows of an owner": ("{t} AS k", "max_rows_contributed = 3"),
    "ROLLUP": ("{t} AS k", "max_groups_contributed = 2"),
}


def statement(source, aggregate, grouping):
    rows, number, text = SOURCES[source]
    key, limit = GROUPINGS[grouping]
    group = "" if not key else " GROUP BY ROLLUP (1)" if grouping == "ROLLUP" else " GROUP BY ALL"
    listed = ", ".join(part for part in (key, f"{AGGREGATES[aggregate]} AS v") if part).format(n=number, t=text)
    clause = "" if source in PLAIN else f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, {limit}) "
    return f"SELECT {clause}{listed} FROM {rows}{group}"


@pytest.fixture(scope="module")
def pair():
    tables, neighbour, alone = referring_data.tables(), referring_data.neighbour(), referring_data.alone()
    with Neighbours(tables, neighbour, referring_data.PLAIN_CATALOG, alone) as opened:
        yield opened


@pytest.fixture(scope="module")
def sessions():
    catalog = Catalog.load(referring_data.PLAIN_CATALOG)
    engines = [open_source(tables) for tables in (referring_data.tables(), referring_data.neighbour())]
    yield [Session(engine, catalog, Ledger.in_memory(None)) for engine in engines]
    for engine in engines:
        engine.close()


def replayed(pair, source, cells):
    """How many numbers entered mechanisms; none of them moved too far."""
    entries = 0
    for aggregate, grouping in cells:
        found = pair.replay(statement(source, aggregate, grouping), seed=len(aggregate), ask=False)
        assert found.passed, (aggregate, grouping, found.problems)
        entries += len(found.entries)
    return entries


def a_row_of(source):
    """Every aggregate once, with groupings that differ from source to source."""
    places = list(GROUPINGS)
    return [(aggregate, places[(n + len(source)) % len(places)]) for n, aggregate in enumerate(AGGREGATES)]


@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=pytest.mark.slow if name in PLAIN else []) for name in SOURCES]
)
def test_what_enters_a_mechanism_moves_by_no_more_than_declared(pair, source):
    assert replayed(pair, source, a_row_of(source)) > 2, "hardly anything was planned: the grid has drifted"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", SOURCES)
def test_nothing_moves_too_far_anywhere_in_the_grid(pair, source):
    replayed(pair, source, [(aggregate, grouping) for aggregate in AGGREGATES for grouping in GROUPINGS])


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_neighbours_have_the_same_face(sessions, source):
    answered = 0
    for aggregate, grouping in a_row_of(source)[::2]:
        sql = statement(source, aggregate, grouping)
        first, second = (face_of(session, sql) for session in sessions)
        assert first == second, sql
        assert not first[0].startswith("E_INTERNAL"), first[0]
        answered += first[0] == "answered"
    assert answered > 2, "hardly anything is answered: the grid has drifted"
