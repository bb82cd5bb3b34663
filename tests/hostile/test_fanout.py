"""Rows that multiply: whatever one person's row could become is bounded before anything is read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracles import face_of

import shoal
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure

PEOPLE = pa.table(
    {"uid": np.arange(300), "age": np.arange(300) % 80, "income": np.arange(300) * 100.0, "region": np.arange(300) % 30}
)
VISITS = pa.table({"uid": np.repeat(np.arange(300), 3), "site": np.arange(900) % 40, "region": np.arange(900) % 30})
REGIONS = pa.table({"rank": np.arange(30), "zone": np.arange(30) % 3, "name": [f"r{n}" for n in range(30)]})
CATALOG = {
    "tables": {
        "people": {"owner": "uid"},
        "visits": {"owner": "uid", "columns": {"site": {"values": list(range(40))}}},
        "regions": {"public": True},
    }
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2)"
MANY = ", ".join(f"regions r{n}" for n in range(24))
SUM = " + ".join(f"r{n}.rank" for n in range(24))
LONG = "repeat(repeat(r.name, 1000), 100)"


def without(table, uid):
    return table.filter(pa.array(np.asarray(table["uid"]) != uid))


@pytest.fixture(scope="module")
def session():
    with shoal.connect({"people": PEOPLE, "visits": VISITS, "regions": REGIONS}, catalog=CATALOG) as opened:
        yield opened


@pytest.fixture(scope="module")
def neighbour():
    tables = {"people": without(PEOPLE, 7), "visits": without(VISITS, 7), "regions": REGIONS}
    with shoal.connect(tables, catalog=CATALOG) as opened:
        yield opened


REFUSED = {
    "a correlated EXISTS over many public tables": (
        f"{CLAUSE} COUNT(DISTINCT uid) FROM people c WHERE EXISTS "
        f"(SELECT 1 FROM {MANY} WHERE c.uid = 7 AND c.income > 1000 AND {SUM} < c.age - 1000)"
    ),
    "the same with NOT EXISTS": (
        f"{CLAUSE} COUNT(DISTINCT uid) FROM people c WHERE NOT EXISTS "
        f"(SELECT 1 FROM {MANY} WHERE c.uid = 7 AND c.income > 1000 AND {SUM} < c.age - 1000)"
    ),
    "a product inside IN": (f"{CLAUSE} COUNT(DISTINCT uid) FROM people WHERE age IN (SELECT {SUM} FROM {MANY})"),
    "a product inside a scalar subquery": (
        f"{CLAUSE} COUNT(DISTINCT uid) FROM people WHERE age < (SELECT max({SUM}) FROM {MANY})"
    ),
    "six public tables without a condition": (
        f"{CLAUSE} COUNT(*) FROM people, regions a, regions b, regions c, regions d, regions e"
    ),
    "released groups three times": (
        f"WITH g AS ({CLAUSE} region, COUNT(*) AS n FROM visits GROUP BY region) "
        f"{CLAUSE} COUNT(*) FROM people, g a, g b, g c WHERE a.n + b.n + c.n < people.age"
    ),
    "long texts for every pair": (
        f"{CLAUSE} t, COUNT(*) FROM (SELECT uid, {LONG} AS t FROM people CROSS JOIN regions r CROSS JOIN regions q) GROUP BY t"
    ),
    "long texts as a key": (
        f"{CLAUSE} repeat(repeat(q.name, 1000), 100), COUNT(*) FROM people CROSS JOIN regions r CROSS JOIN regions q GROUP BY 1"
    ),
    "texts that double": (
        f"{CLAUSE} t, COUNT(*) FROM (SELECT uid, a || a || a || a AS t FROM (SELECT uid, a || a || a || a AS a FROM "
        "(SELECT uid, a || a || a || a AS a FROM (SELECT uid, repeat(q.name, 100) AS a "
        "FROM people JOIN regions r ON region < r.rank CROSS JOIN regions q)))) "
        "GROUP BY t"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_multiplies_without_bound_is_refused_and_free_whoever_is_there(session, neighbour, name):
    words = []
    for asked in (session, neighbour):
        with pytest.raises(shoal.ShoalError) as refused:
            asked.query(REFUSED[name])
        assert refused.value.code == "E_LIMITS"
        assert asked.spent == (0.0, 0.0)
        words.append(str(refused.value))
    assert words[0] == words[1]


ANSWERED = {
    "a key of a public table, many times": (
        "SELECT COUNT(*) FROM people " + " ".join(f"JOIN regions r{n} ON people.region = r{n}.rank" for n in range(12))
    ),
    "a column of a public table with repeats": "SELECT COUNT(*) FROM people JOIN regions ON people.region = regions.zone",
    "IN over a public table": "SELECT COUNT(*) FROM people WHERE region IN (SELECT rank FROM regions WHERE zone = 1)",
    "EXISTS on a key": (
        "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM regions r WHERE r.rank = p.region AND r.zone < p.age)"
    ),
    "a cross join that stays small": "SELECT COUNT(*) FROM people CROSS JOIN regions a CROSS JOIN regions b",
    "long texts of one row each": "SELECT COUNT(*) FROM people WHERE length(repeat(CAST(uid AS TEXT), 1000)) > 3000",
}


@pytest.mark.parametrize("name", ANSWERED)
def test_joins_that_people_write_are_planned(session, name):
    session.plan(ANSWERED[name].replace("SELECT", CLAUSE, 1))


def test_released_rows_joined_on_their_key_multiply_nothing(session):
    grouped = f"WITH g AS ({CLAUSE} site, COUNT(*) AS n FROM visits GROUP BY site)"
    joined = " ".join(f"JOIN g g{n} ON visits.site = g{n}.site" for n in range(6))
    session.plan(f"{grouped} {CLAUSE} COUNT(*) FROM visits {joined}")


def crowd(owners, rows):
    """A table of visits in which owner 0 has many rows and everybody else has one."""
    return pa.table({"uid": np.concatenate([np.zeros(rows, dtype=np.int64), np.arange(1, owners)])})


@pytest.mark.parametrize("tables", [2, 4])
def test_an_owner_with_too_many_joined_rows_takes_no_part(tables, monkeypatch):
    """n⁴ rows of one owner would keep the engine busy for longer than anybody waits; the others' answer stays."""
    joined = "visits v0 " + " ".join(f"JOIN visits v{n} ON v0.uid = v{n}.uid" for n in range(1, tables))
    sql = f"{CLAUSE} COUNT(DISTINCT v0.uid) AS n FROM {joined}"
    counts = {}
    for rows in (3, 50_000):
        session = shoal.connect({"visits": crowd(500, rows)}, catalog={"tables": {"visits": {"owner": "uid"}}})
        counts[rows] = exact_owners(session, sql)
    assert counts == {3: 500, 50_000: 499}


def exact_owners(session, sql):
    select = session.plan(sql).selects[0]
    with session._engine.snapshot(Deadline(300)) as taken:
        return int(measure(select, taken, fresh_sampling_key()).measurement.owners.sum())


def test_nobody_is_left_out_below_the_limit_or_without_a_product():
    session = shoal.connect({"visits": crowd(500, 5_000)}, catalog={"tables": {"visits": {"owner": "uid"}}})
    for sql in (
        f"{CLAUSE} COUNT(DISTINCT a.uid) FROM visits a JOIN visits b ON a.uid = b.uid",
        f"{CLAUSE} COUNT(DISTINCT uid) FROM visits WHERE uid IN (SELECT uid FROM visits)",
        f"{CLAUSE} COUNT(DISTINCT uid) FROM visits JOIN (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) USING (uid)",
    ):
        assert exact_owners(session, sql) == 500


# ---- windows whose work is the square of an owner's rows ------------------------------------------------------------

MANY_MOMENTS = pa.table({"id": np.arange(20_000), "y": np.arange(20_000) % 997 / 7.0})
WINDOW = (
    "SUM(r, contribution_bounds_per_group => (0, 1)) FROM "
    "(SELECT uid, {0} OVER (PARTITION BY uid {1}) AS r FROM people, moments WHERE uid = 7)"
)


@pytest.mark.parametrize("order", ["", "ORDER BY id", "ORDER BY id ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW"])
@pytest.mark.parametrize("aggregate", ["STDDEV(y)", "VAR_POP(y)", "MEDIAN(y)", "MAX(y)", "AVG(y)"])
def test_a_window_over_many_copies_of_one_row_has_the_face_of_no_row(aggregate, order):
    """Deviations listed all values for each of the rows: 20,000 copies of one row ended the query after its charge."""
    catalog = {"tables": {"people": {"owner": "uid"}, "moments": {"public": True}}}
    faces = []
    for people in (PEOPLE, without(PEOPLE, 7)):
        with shoal.connect({"people": people, "moments": MANY_MOMENTS}, catalog=catalog) as opened:
            faces.append(face_of(opened, f"{CLAUSE} {WINDOW.format(aggregate, order)}"))
    assert faces[0] == faces[1]


def test_a_deviation_is_a_window_over_released_rows():
    catalog = {"tables": {"people": {"owner": "uid"}}}
    with shoal.connect({"people": PEOPLE}, catalog=catalog) as opened:
        assert opened.plan(f"{CLAUSE} region, COUNT(*) AS n, STDDEV(COUNT(*)) OVER () AS s FROM people GROUP BY region")


# ---- long texts that are computed on the way and kept nowhere ---------------------------------------------------------

SLOW = "REVERSE(STRIP_ACCENTS(REPEAT(REPEAT(CONCAT(name, uid), 1000), 10)))"
ON_THE_WAY = {
    "WHERE": "COUNT(*) FROM people, moments WHERE uid = 7 AND {0} = 'a'",
    "ON": "COUNT(*) FROM people JOIN moments ON uid = 7 AND {0} = 'a'",
    "a number": "COUNT(*) FROM (SELECT uid, LENGTH({0}) AS n FROM people, moments WHERE uid = 7) WHERE n > 3",
    "an aggregate of an owner": "COUNT(*) FROM (SELECT uid, MAX(LENGTH({0})) AS n FROM people, moments GROUP BY uid) WHERE n > 3",
    "an aggregate": "SUM(LENGTH({0}), contribution_bounds_per_group => (0, 1)) FROM people, moments WHERE uid = 7",
    "a group key": "LENGTH({0}) AS k, COUNT(*) FROM people, moments WHERE uid = 7 GROUP BY k",
    "EXISTS": "COUNT(*) FROM people p WHERE uid = 7 AND EXISTS (SELECT 1 FROM moments WHERE {0} = 'a')",
    "public rows": "COUNT(*) FROM people JOIN (SELECT id FROM moments WHERE "
    "REVERSE(REPEAT(REPEAT(name, 1000), 100)) = 'a') ON uid = id AND uid = 7",
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("sql", ON_THE_WAY.values(), ids=ON_THE_WAY.keys())
def test_long_texts_that_are_computed_for_one_row_alone_are_refused(sql, there):
    """A million of them passed the deadline if the one owner was there, and were never computed if not."""
    catalog = {"tables": {"people": {"owner": "uid"}, "moments": {"public": True}}}
    moments = pa.table({"id": np.arange(40_000), "name": [f"é{n}" for n in range(40_000)]})
    with shoal.connect(
        {"people": PEOPLE if there else without(PEOPLE, 7), "moments": moments}, catalog=catalog
    ) as opened:
        with pytest.raises(shoal.ShoalError) as refused:
            opened.query(f"{CLAUSE} {sql.format(SLOW)}")
        assert refused.value.code == "E_LIMITS"
        few = sql.format(SLOW).replace("moments", "(SELECT * FROM moments LIMIT 100)")
        assert opened.plan(f"{CLAUSE} {few}")
