"""Views that would look at all pairs of an owner's rows: refused when a session opens, where rows are as many as that takes.

40,000 rows of one owner, joined with themselves inside a view, passed a deadline of 20 seconds; without them a query took 0.4.
"""

from __future__ import annotations

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

import shoal

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
MANY = 40_000
PEOPLE = "SELECT i AS id, i % 300 AS uid, 'p' || i AS name FROM range(300) t(i)"
VISITS = (
    f"SELECT CASE WHEN i < 3000 THEN i % 300 ELSE 7 END AS uid, i AS visit, i % 10 AS site, i * 0.5 AS x "
    f"FROM range(3000 + {MANY}) t(i)"
)
PRICES = "SELECT i % 1000 AS item, i // 1000 AS since, i * 0.25 AS price FROM range(50_000) t(i)"

MULTIPLIES = {
    "owners": "SELECT a.uid, b.x FROM visits a JOIN visits b ON a.uid = b.uid",
    "a comma": "SELECT a.uid, b.x FROM visits a, visits b WHERE a.uid = b.uid",
    "using": "SELECT uid, b.x FROM visits a JOIN visits b USING (uid)",
    "natural": "SELECT uid, x FROM visits NATURAL JOIN (SELECT uid, name, x AS y FROM visits JOIN people USING (uid))",
    "outer": "SELECT a.uid, b.x FROM visits a LEFT JOIN visits b ON a.uid = b.uid AND b.x < a.x",
    "full": "SELECT a.uid, b.x FROM visits a FULL JOIN visits b ON a.uid = b.uid",
    "right": "SELECT b.uid, b.x FROM visits a RIGHT JOIN visits b ON a.uid = b.uid",
    "all pairs": "SELECT a.uid, b.x FROM visits a CROSS JOIN visits b",
    "an inequality": "SELECT a.uid, b.x FROM visits a JOIN visits b ON a.visit < b.visit",
    "either": "SELECT a.uid, b.x FROM visits a JOIN visits b ON a.visit = b.visit OR a.uid = b.uid",
    "exists": "SELECT a.uid, a.x FROM visits a WHERE EXISTS (SELECT 1 FROM visits b WHERE b.uid = a.uid AND b.x > a.x)",
    "not exists": "SELECT uid, x FROM visits a WHERE NOT EXISTS (SELECT 1 FROM visits b WHERE b.visit < a.visit AND "
    "b.site <> a.site)",
    "a semi join": "SELECT a.uid, a.x FROM visits a SEMI JOIN visits b ON a.uid = b.uid AND b.x > a.x",
    "lateral": "SELECT a.uid, t.x FROM visits a, LATERAL (SELECT b.x FROM visits b WHERE b.uid = a.uid) t",
    "counted again": "SELECT uid, COUNT(*) AS x FROM (SELECT a.uid FROM visits a JOIN visits b ON a.uid = b.uid) GROUP BY uid",
    "a value": "SELECT a.uid, (SELECT MAX(b.x) FROM visits b WHERE b.visit <= a.visit) AS x FROM visits a",
    "through a third": "SELECT p.uid, a.x FROM people p JOIN visits a ON a.uid = p.uid JOIN visits b ON b.uid = p.uid",
    "computed": "SELECT a.uid, b.x FROM visits a JOIN visits b ON CAST(a.uid AS VARCHAR) = CAST(b.uid AS VARCHAR)",
    "one side computed": "SELECT a.uid, b.x FROM visits a JOIN visits b ON lower(CAST(a.uid AS VARCHAR)) = CAST(b.uid "
    "AS VARCHAR)",
    "a name for both": "WITH v AS (SELECT uid, x FROM visits) SELECT a.uid, b.x FROM v a JOIN v b ON a.uid = b.uid",
    "kept": "WITH v AS MATERIALIZED (SELECT uid, x FROM visits) SELECT a.uid, b.x FROM v a JOIN v b ON a.uid = b.uid",
    "a union": "SELECT a.uid, b.x FROM visits a JOIN (SELECT uid, x FROM visits UNION ALL SELECT uid, 0 FROM people) "
    "b USING (uid)",
    "half a key": "SELECT a.uid, b.n FROM visits a JOIN (SELECT uid, visit, COUNT(*) AS n FROM visits GROUP BY uid, visit) b "
    "ON a.uid = b.uid",
    "different rows": "SELECT a.uid, b.x FROM visits a JOIN (SELECT DISTINCT uid, x FROM visits) b ON a.uid = b.uid",
    "a window": "SELECT a.uid, b.n FROM visits a JOIN (SELECT uid, COUNT(x) OVER (PARTITION BY uid) AS n FROM visits) "
    "b USING (uid)",
    "the most of them": "SELECT a.uid, b.x FROM visits a JOIN (FROM visits LIMIT 40000) b ON a.uid = b.uid",
    "grouping sets": "SELECT a.uid, a.x FROM visits a JOIN (SELECT uid, visit FROM visits GROUP BY GROUPING SETS "
    "((uid, visit), (visit))) b "
    "ON a.uid IS NOT DISTINCT FROM b.uid",
    "nothing found": "SELECT p.uid, v.x FROM (SELECT p.id, v.uid, p.uid AS o FROM visits v LEFT JOIN people p ON p.id "
    "= v.visit) p "
    "JOIN (SELECT v.uid, p.id, v.x FROM visits v LEFT JOIN people p ON p.id = v.visit) v ON p.id IS NOT DISTINCT FROM v.id",
    "keys of two tables": "SELECT a.uid, c.x FROM visits a JOIN people p ON a.uid = p.uid JOIN visits c ON c.site = "
    "a.site AND c.uid = p.id",
}
CARRIES = {
    "an owner": "SELECT p.uid, v.visit, v.x FROM visits v JOIN people p ON v.uid = p.id",
    "an owner, the other way": "SELECT p.uid, v.x FROM people p JOIN visits v ON v.uid = p.id",
    "a comma": "SELECT p.uid, v.x FROM people p, visits v WHERE v.uid = p.id AND v.x >= 0",
    "a comma, late": "SELECT p.uid, v.x FROM people p, sites s, visits v WHERE v.uid = p.id AND s.site = v.site",
    "outer": "SELECT v.uid, p.name, v.x FROM visits v LEFT JOIN people p ON v.uid = p.id",
    "eight of them": "SELECT v.uid, v.x FROM visits v "
    + " ".join(f"LEFT JOIN people p{i} ON v.uid = p{i}.id" for i in range(8)),
    "of another type": "SELECT p.uid, v.x FROM visits v JOIN people p ON CAST(v.uid AS HUGEINT) = p.id",
    "computed on one side": "SELECT p.uid, v.x FROM visits v JOIN people p ON 'p' || CAST(v.uid AS VARCHAR) = p.name",
    "a group for each": "SELECT a.uid, b.n, a.x FROM visits a JOIN (SELECT uid, COUNT(*) AS n FROM visits GROUP BY "
    "uid) b ON a.uid = b.uid",
    "a value for each": "SELECT a.uid, (SELECT MAX(b.x) FROM visits b WHERE b.uid = a.uid) AS x FROM visits a",
    "membership": "SELECT uid, x FROM visits WHERE uid IN (SELECT uid FROM visits WHERE x > 5)",
    "exists": "SELECT uid, x FROM visits a WHERE EXISTS (SELECT 1 FROM visits b WHERE b.uid = a.uid)",
    "not exists": "SELECT uid, x FROM visits a WHERE NOT EXISTS (SELECT 1 FROM visits b WHERE b.uid = a.uid AND b.x > 1e9)",
    "windows": "SELECT uid, x, COUNT(x) OVER (PARTITION BY uid) AS n, LAG(x) OVER (PARTITION BY uid ORDER BY visit) "
    "AS before FROM visits",
    "a key of two columns": "SELECT v.uid, p.price AS x FROM visits v JOIN prices p ON v.uid = p.item AND v.site = p.since",
    "a history": "SELECT v.uid, p.price AS x FROM visits v JOIN prices p ON v.uid = p.item AND p.since < v.site",
    "a listed value": "SELECT p.uid, v.x FROM people p, visits v WHERE v.uid = p.id AND v.site IN (SELECT site FROM sites)",
    "few rows for each": "SELECT v.uid, v.x FROM visits v CROSS JOIN sites s",
    "a union": "SELECT uid, x FROM visits UNION ALL SELECT p.uid, 0 FROM people p JOIN sites s ON p.id < s.site",
    "three tables": "SELECT p.uid, v.x FROM visits v JOIN people p ON v.uid = p.id JOIN sites s ON s.site = v.site "
    "WHERE s.name <> ''",
    "except": "SELECT v.uid, v.x FROM visits v JOIN people p ON v.uid = p.id EXCEPT SELECT uid, x FROM visits WHERE x < 3",
    "first ones": "SELECT v.uid, v.x FROM visits v JOIN (SELECT DISTINCT ON (uid) uid, name FROM people ORDER BY id) "
    "p USING (uid)",
}


def database(*, many=True, keys=False):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE visits AS {VISITS}")
    if not many:
        connection.execute("DELETE FROM visits WHERE visit >= 3000")
    if keys:
        connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, uid BIGINT, name VARCHAR)")
        connection.execute(f"INSERT INTO people {PEOPLE}")
    else:
        connection.execute(f"CREATE TABLE people AS {PEOPLE}")
    connection.execute(f"CREATE TABLE prices AS {PRICES}")
    connection.execute("CREATE TABLE sites AS SELECT i AS site, 's' || i AS name FROM range(10) t(i)")
    return connection


def opened(source, view=None, **options):
    told = {"owner": "uid"} | ({} if view is None else {"view": view}) | options
    return shoal.connect(source, catalog={"tables": {"seen": told}})


def refusal(source, view=None):
    with pytest.raises(shoal.ShoalError) as refused:
        opened(source, view)
    assert refused.value.code == "E_CATALOG"
    return str(refused.value)


@pytest.fixture(scope="module")
def crowded():
    return database()


@pytest.mark.parametrize("query", MULTIPLIES.values(), ids=MULTIPLIES)
def test_a_view_that_looks_at_pairs_of_rows_is_not_opened(crowded, query):
    assert "may make more than 100 rows of one" in refusal(crowded, query) or "can fail on single rows" in refusal(
        crowded, query
    )


@pytest.mark.parametrize("query", CARRIES.values(), ids=CARRIES)
def test_a_view_that_follows_keys_is_opened_and_answers_whoever_is_there(query):
    """On neighbours: with the owner of 40,000 rows and without."""
    seen = set()
    for many in (True, False):
        with opened(database(many=many), query) as session:
            result = session.query(f"{CLAUSE} COUNT(DISTINCT uid) AS n FROM seen")
            seen.add((tuple(result.to_arrow().column_names), 250 < result.to_arrow()["n"][0].as_py() < 350))
    assert len(seen) == 1
    assert next(iter(seen))[1]


@pytest.mark.parametrize("query", [MULTIPLIES["owners"], MULTIPLIES["exists"], MULTIPLIES["counted again"]])
def test_few_rows_of_everybody_may_meet(query):
    """Ten rows of each owner make a hundred pairs: that is bounded, as the data are."""
    with opened(database(many=False), query) as session:
        session.query(f"{CLAUSE} COUNT(DISTINCT uid) AS n FROM seen")


@pytest.mark.parametrize("above", [0, 1, 2])
@pytest.mark.parametrize("query", ["owners", "exists", "through a third"])
def test_views_that_are_stored_and_views_under_views_are_read_too(query, above):
    connection = database()
    connection.execute(f"CREATE VIEW v0 AS {MULTIPLIES[query]}")
    connection.execute("CREATE VIEW v1 AS SELECT uid, COUNT(x) AS x FROM v0 GROUP BY uid")
    connection.execute("CREATE VIEW v2 AS SELECT p.uid, v1.x FROM people p JOIN v1 ON v1.uid = p.id")
    connection.execute(f"CREATE VIEW seen AS SELECT uid, x FROM v{above} WHERE x >= 0")
    assert "more than 100 rows of one" in refusal(connection)


def test_a_join_of_two_harmless_views_may_multiply():
    connection = database()
    connection.execute("CREATE VIEW a AS SELECT p.uid, v.x FROM visits v JOIN people p ON v.uid = p.id")
    connection.execute("CREATE VIEW seen AS SELECT a.uid, b.x FROM a JOIN a AS b ON a.uid = b.uid")
    assert "more than 100 rows of one" in refusal(connection)


def test_the_refusal_names_the_join_and_the_ways_out(crowded):
    said = refusal(crowded, MULTIPLIES["owners"])
    assert "visits.uid = visits.uid" in said
    assert "trusted_view = true" in said
    assert "declare the tables" in said


@pytest.mark.parametrize("kind", ["frames", "files", "a registered frame"])
def test_views_over_frames_and_files_are_counted_there(tmp_path, kind):
    tables = {name: database().sql(f"FROM {name}").arrow() for name in ("visits", "people")}
    tables = {name: table.read_all() if hasattr(table, "read_all") else table for name, table in tables.items()}
    source: object = tables
    if kind == "files":
        for name, table in tables.items():
            pq.write_table(table, tmp_path / f"{name}.parquet")
        source = tmp_path
    if kind == "a registered frame":
        source = duckdb.connect()
        for name, table in tables.items():
            source.register(name, table.to_pandas() if name == "visits" else table)
    assert "visits.uid = visits.uid" in refusal(source, MULTIPLIES["owners"])
    with opened(source, CARRIES["an owner"]) as session:
        session.query(f"{CLAUSE} COUNT(*) AS n FROM seen")


def test_a_stored_view_over_a_registered_frame_is_counted_from_below():
    connection = database()
    connection.register("frame", pd.DataFrame({"uid": [7] * 2000 + list(range(200)), "k": 1}))
    connection.execute("CREATE VIEW below AS SELECT a.uid, b.k FROM frame a JOIN frame b ON a.uid = b.uid")
    connection.execute("CREATE VIEW seen AS SELECT p.uid FROM below JOIN people p ON p.id = below.uid")
    assert "more than 100 rows of one" in refusal(connection)


def test_who_vouches_for_a_view_is_believed_and_the_explanation_says_so(crowded):
    with opened(crowded, MULTIPLIES["owners"], trusted_view=True) as session:
        assert "trusted by the catalog" in str(session.explain(f"{CLAUSE} COUNT(DISTINCT uid) AS n FROM seen"))


def test_a_declared_key_is_not_counted(monkeypatch):
    """It holds whatever is stored later."""
    from shoal.engines.duckdb.tables import KnownTables

    counted = []
    rows_alike = KnownTables._rows_alike

    def noted(self, source, columns, *, nulls):
        counted.append((source.name, columns))
        return rows_alike(self, source, columns, nulls=nulls)

    monkeypatch.setattr(KnownTables, "_rows_alike", noted)
    opened(database(keys=True), CARRIES["an owner"]).close()
    assert ("people", ("id",)) not in counted
    opened(database(), CARRIES["an owner"]).close()
    assert ("people", ("id",)) in counted


def test_a_view_without_a_join_counts_nothing(monkeypatch, crowded):
    from shoal.engines.duckdb.tables import KnownTables

    monkeypatch.setattr(KnownTables, "_rows_alike", None)
    opened(crowded, "SELECT uid, x FROM visits WHERE x > 3").close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT uid, list(x) AS x FROM visits GROUP BY uid",
        "SELECT uid, list(x) OVER (PARTITION BY uid) AS x FROM visits",
        (
            "SELECT a.uid, list_aggregate(b.l, 'max') AS x FROM visits a JOIN (SELECT uid, list(x) AS l FROM visits GROUP "
            "BY uid) b USING (uid)"
        ),
        "SELECT uid, string_agg(CAST(visit AS VARCHAR)) OVER (PARTITION BY uid) AS x FROM visits",
        "SELECT uid, unnest(range(visit)) AS x FROM visits",
        "SELECT uid, replace(name, 'p', name) AS x FROM people",
        "SELECT uid, replace(name, name, 'longer') AS x FROM people",
        "SELECT a.uid, b.x FROM visits a ASOF JOIN visits b ON a.uid = b.uid AND a.visit >= b.visit",
        "SELECT a.uid, b.x FROM visits a POSITIONAL JOIN visits b",
        (
            "WITH RECURSIVE r AS (SELECT uid, visit AS x FROM visits UNION ALL SELECT uid, x - 1 FROM r WHERE x > 0) "
            "SELECT uid, x FROM r"
        ),
    ],
)
def test_other_ways_to_grow_are_not_opened_either(crowded, query):
    refusal(crowded, query)


def test_a_string_that_grows_by_itself_decides_nothing():
    """400,000 letters, each replaced by all of them, ended queries where their owner was there. On neighbours."""
    seen = set()
    for letters in (400_000, 0):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE raw AS SELECT i AS uid, 'aa' AS t FROM range(100) t(i)")
        connection.execute("INSERT INTO raw SELECT 777, repeat('a', ?) WHERE ? > 0", [letters, letters])
        seen.add(refusal(connection, "SELECT uid, replace(t, 'a', t) AS x FROM raw"))
        with opened(connection, "SELECT uid, replace(t, 'a', 'bb') AS x FROM raw") as session:
            session.query(f"{CLAUSE} COUNT(x) AS n FROM seen")
    assert len(seen) == 1
