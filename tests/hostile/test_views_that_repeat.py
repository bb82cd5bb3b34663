"""Views that hand a long string of one row to many: refused when a session opens, where strings and rows are as many as that takes.

An owner with one string of 2 MB and 20,000 rows ended queries over such views; without them they were answered.
"""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq
import pytest
from oracles import face_of

import shoal
from shoal.engines.duckdb.checking.string_bounds import Strings, has_any_size

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
ROWS, LETTERS = 20_000, 2_000_000
JOINED = "FROM visits v JOIN people p ON v.uid = p.id"

REPEATS = {
    "a join": f"SELECT p.uid, p.note, v.visit AS n {JOINED}",
    "an outer join": "SELECT p.uid, p.note, v.visit AS n FROM visits v LEFT JOIN people p ON v.uid = p.id",
    "a numbered join": f"SELECT p.uid, p.note, row_number() OVER (PARTITION BY p.uid ORDER BY v.visit) AS n {JOINED}",
    "different rows": f"SELECT DISTINCT p.uid, p.note, v.visit AS n {JOINED}",
    "groups": f"SELECT p.uid, max(p.note) AS note, v.visit AS n {JOINED} GROUP BY p.uid, v.visit",
    "a union": f"SELECT p.uid, p.note, v.visit AS n {JOINED} UNION SELECT uid, note, id FROM people",
    "a list": f"SELECT p.uid, list_extract(p.words, 1) AS note, v.visit AS n {JOINED}",
    "a value for all": "SELECT uid, (SELECT max(note) FROM people) AS note, visit AS n FROM visits",
    "a group for each": "SELECT v.uid, t.note, v.visit AS n FROM visits v JOIN (SELECT id, max(note) AS note FROM people "
    "GROUP BY id) t ON t.id = v.uid",
    "a running maximum": "SELECT uid, max(own) OVER (PARTITION BY uid ORDER BY visit) AS note, visit AS n FROM visits",
    "the first of them": "SELECT uid, first_value(own) OVER (PARTITION BY uid ORDER BY visit) AS note, visit AS n FROM visits",
    "a place of them": "SELECT uid, nth_value(own, 2) OVER (PARTITION BY uid ORDER BY visit) AS note, visit AS n FROM visits",
    "everybody's": "SELECT uid, min(own) OVER () AS note, visit AS n FROM visits",
    "joined afterwards": "SELECT t.uid, t.note, v.visit AS n FROM (SELECT uid, id, max(note) OVER (PARTITION BY id) AS note "
    "FROM people) t JOIN visits v ON v.uid = t.id",
}
CARRIES = {
    "the column left out": f"SELECT p.uid, p.name AS note, v.visit AS n {JOINED}",
    "short strings over a window": f"SELECT uid, first_value(name) OVER (PARTITION BY uid ORDER BY n) AS note, n FROM "
    f"(SELECT p.uid, p.name, v.visit AS n {JOINED})",
    "each string once": "SELECT uid, lag(own) OVER (PARTITION BY uid ORDER BY visit) AS note, visit AS n FROM visits",
    "a key of the string's row": "SELECT p.uid, p.note, q.id AS n FROM people p JOIN people q ON p.id = q.id",
    "no join at all": "SELECT uid, own AS note, visit AS n FROM visits",
    "a group of them": "SELECT uid, max(own) AS note, max(visit) AS n FROM visits GROUP BY uid",
}


def database(*, long=True):
    """Everybody has ten visits; one owner has 20,000 more, and a string of 2 MB in either table."""
    connection = duckdb.connect(config={"memory_limit": "1GB", "threads": "2"})
    connection.execute(
        "CREATE TABLE visits AS SELECT CASE WHEN i < 3000 THEN i % 300 ELSE 7 END AS uid, i AS visit, "
        "CASE WHEN i = 3000 THEN repeat('p', ?) ELSE 'p' || i END AS own FROM range(?) t(i)",
        [LETTERS, 3000 + (ROWS if long else 0)],
    )
    connection.execute(
        "CREATE TABLE people AS SELECT i AS id, i AS uid, 'n' || i AS name, "
        "repeat('p', CASE WHEN i = 7 THEN ? ELSE 9 END) AS note, "
        "[repeat('p', CASE WHEN i = 7 THEN ? ELSE 9 END)] AS words FROM range(300) t(i)",
        [LETTERS if long else 9, LETTERS if long else 9],
    )
    return connection


def opened(source, view=None, **options):
    told = {"owner": "uid"} | ({} if view is None else {"view": view}) | options
    return shoal.connect(source, catalog={"tables": {"seen": told}}, budget=(100, 1e-2))


def refusal(source, view=None):
    with pytest.raises(shoal.ShoalError) as refused:
        opened(source, view)
    assert refused.value.code == "E_CATALOG"
    return str(refused.value)


@pytest.fixture(scope="module")
def crowded():
    return database()


@pytest.mark.parametrize("query", REPEATS.values(), ids=REPEATS)
def test_a_view_that_hands_a_long_string_to_many_rows_is_not_opened(crowded, query):
    assert "may repeat long strings" in refusal(crowded, query)


@pytest.mark.parametrize("query", REPEATS.values(), ids=REPEATS)
def test_short_strings_may_go_wherever_they_like(query):
    with opened(database(long=False), query) as session:
        assert face_of(session, f"{CLAUSE} COUNT(*) AS n FROM seen WHERE n > 5 AND note > 'a'")[0] == "answered"


@pytest.mark.parametrize("query", CARRIES.values(), ids=CARRIES)
def test_a_long_string_that_goes_nowhere_decides_nothing(crowded, query):
    """On neighbours: with the owner who has it, and without."""
    seen = set()
    for source in (crowded, database(long=False)):
        with opened(source, query) as session:
            seen.add(face_of(session, f"{CLAUSE} COUNT(*) AS n FROM seen WHERE n > 5 AND note > 'a'"))
    assert len(seen) == 1
    assert next(iter(seen))[0] == "answered"


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("query", ["a join", "a running maximum"])
def test_stored_views_and_views_under_them_are_read_too(query, above):
    connection = database()
    connection.execute(f"CREATE VIEW v0 AS {REPEATS[query]}")
    connection.execute("CREATE VIEW v1 AS SELECT uid, max(n) AS n FROM v0 WHERE note > 'a' GROUP BY uid")
    connection.execute(f"CREATE VIEW seen AS SELECT uid, n FROM v{above}")
    assert "may repeat long strings" in refusal(connection)


@pytest.mark.parametrize("kind", ["frames", "files", "a registered frame"])
def test_strings_of_frames_and_files_are_measured_there(tmp_path, kind):
    tables = {name: database().sql(f"FROM {name}").to_arrow_table() for name in ("visits", "people")}
    source: object = tables
    if kind == "files":
        for name, table in tables.items():
            pq.write_table(table, tmp_path / f"{name}.parquet")
        source = tmp_path
    if kind == "a registered frame":
        source = duckdb.connect()
        for name, table in tables.items():
            source.register(name, table)
    assert "may repeat long strings" in refusal(source, REPEATS["a join"])
    opened(source, CARRIES["the column left out"]).close()


def test_many_strings_of_some_length_count_together():
    """None of them would take a GiB by itself, and all together would take 200 times what is stored."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS id, 1 AS k, repeat('p', 100_000) AS note FROM range(900) t(i)"
    )
    connection.execute("CREATE TABLE others AS SELECT i AS other, 1 AS k FROM range(900) t(i)")
    query = "SELECT p.id AS uid, p.note, o.other AS n FROM people p JOIN others o USING (k)"
    assert "may repeat long strings" in refusal(connection, query)
    connection.execute("DELETE FROM others WHERE other >= 90")
    opened(connection, query).close()


def test_the_refusal_names_the_join_and_the_ways_out(crowded):
    said = refusal(crowded, REPEATS["a join"])
    assert "visits.uid = people.id" in said
    assert "trusted_view = true" in said
    opened(crowded, REPEATS["a join"], trusted_view=True).close()


def test_a_few_long_rows_say_nothing_of_the_others():
    rows = Strings(longest=10_000, whole=1_000_000, long=30_000, short=1024)
    assert rows.repeated(copies=50, rows=100_000).whole == 50_000_000
    assert rows.repeated(copies=5_000, rows=100_000).whole == 100_000 * 1024 + 30_000 * 5_000
    assert rows.repeated(copies=5_000, rows=10).whole == 100_000


@pytest.mark.parametrize(
    ("type_", "any_size"),
    [
        *(("VARCHAR", True), ("BLOB", True), ("LIST", True), ("BIT", True), ("STRUCT", True), ("MAP", True)),
        *(("BIGNUM", True), ("INTEGER", False), ("TIMESTAMP WITH TIME ZONE", False), ("UUID", False), ("DATE", False)),
    ],
)
def test_values_of_a_fixed_size_are_not_measured(type_, any_size):
    assert has_any_size({"id": type_}) is any_size
