"""What one private row may cost: bytes that reach other rows in roundabout ways, and time that expressions take for all of them.

Each of these was planned once, and ended after its charge, or would have passed its deadline, if one owner was there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal import aggregates as agg
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "
CATALOG = {
    "tables": {
        "people": {"owner": "uid"},
        "visits": {"owner": "uid"},
        "names": {"public": True},
        "moments": {"public": True},
    }
}
PEOPLE = pa.table({"uid": np.arange(40), "age": np.arange(40), "name": ["ab"] * 40})
NAMES = pa.table({"k": np.arange(40), "name": [f"n{n}" for n in range(40)]})
SOME, MANY, FEW = 60_000, 1_000_000, 40
"""With some public rows a stored text may be a group key, and with few everything can be planned."""
VICTIM = 7


def tables(moments, *, there):
    uid = np.asarray(PEOPLE["uid"])
    people = PEOPLE if there else PEOPLE.filter(pa.array(uid != VICTIM))
    return {
        "people": people,
        "visits": people.select(["uid"]),
        "names": NAMES,
        "moments": pa.table({"id": np.arange(moments)}),
    }


BIG = "REPEAT(REPEAT(name, 500), 50)"
SHORT = "||".join(["name"] * 12)
ROUNDABOUT = {
    "an aggregate of an owner": "m, id, COUNT(*) FROM (SELECT uid, MAX({big}) AS m FROM people GROUP BY uid), moments "
    "WHERE uid = 7 GROUP BY m, id",
    "a window": "m, id, COUNT(*) FROM (SELECT uid, FIRST_VALUE({big}) OVER (PARTITION BY uid ORDER BY age) AS m FROM people), "
    "moments WHERE uid = 7 GROUP BY m, id",
    "a union": "COUNT(DISTINCT m) FROM (SELECT uid, MAX({big}) AS m FROM people GROUP BY uid UNION ALL "
    "SELECT uid, name FROM people), moments WHERE uid = 7",
    "public rows": "m, id, COUNT(*) FROM people JOIN (SELECT k, MAX({big}) AS m FROM names GROUP BY k) AS n ON k = uid, moments "
    "WHERE uid = 7 GROUP BY m, id",
    "a subquery for one value": "m, id, COUNT(*) FROM (SELECT uid, (SELECT MAX({big}) FROM names) AS m FROM people), moments "
    "WHERE uid = 7 GROUP BY m, id",
    "different values": "COUNT(DISTINCT {short} || id) FROM people, moments WHERE uid = 7",
    "different values of an owner": "COUNT(*) FROM (SELECT uid, COUNT(DISTINCT {short} || id) AS n FROM people, moments "
    "GROUP BY uid) WHERE uid = 7 AND n > 3",
    "the order of a window": "COUNT(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY {short} || id) AS n "
    "FROM people, moments) WHERE uid = 7 AND n < 3",
    "the parts of a window": "COUNT(*) FROM (SELECT uid, COUNT(*) OVER (PARTITION BY uid, {short} || id) AS n "
    "FROM people, moments) WHERE uid = 7 AND n < 3",
    "what private rows are joined by": "COUNT(*) FROM (SELECT uid, id, age FROM people, moments WHERE uid = 7) AS p "
    "JOIN (SELECT MAX(name) AS name FROM names) AS n ON REPEAT(CAST(p.id AS TEXT), 10) = n.name",
}
MUCH = " + ".join(f"ABS(id - {n})" for n in range(12))
SLOW = {
    "a regular expression": "COUNT(*) FROM people, moments WHERE uid = 7 AND REGEXP_MATCHES(name || id, 'a[ab]{{40}}c')",
    "many functions": "COUNT(*) FROM people, moments WHERE uid = 7 AND "
    + " AND ".join(f"CONTAINS(UPPER(name), CAST(id + {n} AS TEXT))" for n in range(30)),
    "many casts": "COUNT(*) FROM (SELECT uid, CAST(id AS TEXT) AS x FROM people, moments) WHERE uid = 7 AND "
    + " AND ".join(f"SAFE_CAST(x AS DECIMAL(38, {n % 38})) < {n}" for n in range(300)),
    "many windows": "COUNT(*) FROM (SELECT uid, "
    + ", ".join(f"COUNT(*) OVER (PARTITION BY uid ORDER BY id % {n + 2}) AS c{n}" for n in range(40))
    + " FROM people, moments) WHERE uid = 7 AND c0 > 3",
    "medians of frames": "COUNT(*) FROM (SELECT uid, "
    + ", ".join(
        f"MEDIAN(id) OVER (PARTITION BY uid ORDER BY id ROWS BETWEEN {n} PRECEDING AND CURRENT ROW) AS m{n}"
        for n in (500_000, 400_000, 300_000)
    )
    + " FROM people, moments WHERE uid = 7) WHERE m500000 > 3",
    "public rows that only one owner asks for": "COUNT(*) FROM people WHERE uid = 7 AND age IN "
    "(SELECT k + id FROM names, moments WHERE REGEXP_MATCHES(name || id, 'a[ab]{{40}}c'))",
    "many public relations": "COUNT(*) FROM people WHERE uid = 7 AND "
    + " AND ".join(f"age IN (SELECT k + id FROM names, moments WHERE {MUCH} < {n})" for n in range(30)),
}


def refusal(sql, moments, *, there):
    with shoal.connect(tables(moments, there=there), catalog=CATALOG) as session:
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(PRIVATE + sql.format(big=BIG, short=SHORT))
        assert session.spent == (0.0, 0.0)
        return refused.value.code, str(refused.value)


def check_refused(sql, moments):
    code, words = refusal(sql, moments, there=True)
    assert code == "E_LIMITS"
    assert (code, words) == refusal(sql, moments, there=False)
    with shoal.connect(tables(FEW, there=True), catalog=CATALOG) as session:
        assert session.plan(PRIVATE + sql.format(big=BIG, short=SHORT))


@pytest.mark.parametrize("sql", ROUNDABOUT.values(), ids=ROUNDABOUT.keys())
def test_computed_texts_are_bounded_wherever_they_come_from(sql):
    check_refused(sql, SOME)


@pytest.mark.parametrize("sql", SLOW.values(), ids=SLOW.keys())
def test_what_expressions_take_for_one_row_is_bounded(sql):
    check_refused(sql, MANY)


def test_released_keys_are_as_long_as_they_were_computed():
    """A thousand released groups, each with a text of 50 KB, and sixty public rows were 3 GB for one private row."""
    grouped = f"WITH g AS ({PRIVATE} {BIG} AS t, COUNT(*) AS n FROM people GROUP BY t) "
    joined = f"{PRIVATE} t, COUNT(*) FROM people, g, (SELECT k FROM names LIMIT {{0}}) WHERE uid = 7 GROUP BY t"
    with shoal.connect(tables(FEW, there=True), catalog=CATALOG) as session:
        with pytest.raises(shoal.ShoalError) as refused:
            session.plan(grouped + joined.format(30))
        assert refused.value.code == "E_LIMITS"
        assert session.plan(grouped.replace(BIG, "name") + joined.format(30))


USUAL = {
    "a text in lower case": "COUNT(*) FROM people JOIN moments ON LOWER(people.name) = CAST(moments.id AS TEXT)",
    "functions of numbers": "COUNT(*) FROM people, moments WHERE SQRT(age + id) > LN(id + 2) AND ABS(age - id) < 7",
    "a pattern": "COUNT(*) FROM people, names WHERE REGEXP_MATCHES(names.name, '^[a-z]+[0-9]{{1,3}}$')",
    "a window": "COUNT(*) FROM (SELECT uid, LAG(id) OVER (PARTITION BY uid ORDER BY id) AS n FROM people, moments) WHERE n > 3",
    "a list of names": f"COUNT(*) FROM people, moments WHERE name IN ({', '.join(repr(f'name {n}') for n in range(300))})",
}


@pytest.mark.parametrize("sql", USUAL.values(), ids=USUAL.keys())
def test_what_people_write_is_planned(sql):
    with shoal.connect(tables(MANY, there=True), catalog=CATALOG) as session:
        assert session.plan(PRIVATE + sql.format())


# ---- owners whose rows multiply inside a relation that gives few rows ----------------------------------------------------

PAIRS = "visits a JOIN visits b ON a.uid = b.uid"
INSIDE = {
    "an aggregate of an owner": f"(SELECT a.uid AS uid, COUNT(*) AS n FROM {PAIRS} GROUP BY a.uid) AS v",
    "an aggregate that is joined": f"people JOIN (SELECT a.uid AS uid, COUNT(*) AS n FROM {PAIRS} GROUP BY a.uid) AS v USING (uid)",
    "EXISTS": f"people WHERE EXISTS (SELECT 1 FROM {PAIRS} WHERE a.uid = people.uid)",
    "IN": f"people WHERE uid IN (SELECT a.uid FROM {PAIRS})",
    "all at once": "people WHERE uid IN "
    f"(SELECT uid FROM (SELECT a.uid AS uid, COUNT(*) AS n FROM {PAIRS} GROUP BY a.uid) WHERE n > 0)",
}


@pytest.mark.parametrize("source", INSIDE.values(), ids=INSIDE.keys())
def test_an_owner_with_too_many_joined_rows_takes_no_part_inside_a_relation_either(source):
    """With four copies of one table, n⁴ rows of one owner were aggregated or looked for: a query that never ends."""
    sql = PRIVATE + f"COUNT(DISTINCT uid) FROM {source}"
    counts = {}
    for rows in (3, 10_001):
        visits = np.concatenate([np.full(rows, VICTIM), np.delete(np.arange(40), VICTIM)])
        data = {**tables(FEW, there=True), "visits": pa.table({"uid": visits})}
        with shoal.connect(data, catalog=CATALOG) as session:
            select = session.plan(sql).selects[0]
            with session._engine.snapshot(Deadline(300)) as taken:
                counts[rows] = int(measure(select, taken, fresh_sampling_key()).measurement.owners.sum())
    assert counts == {3: 40, 10_001: 39}


@pytest.mark.parametrize(("copies", "owners"), [(10, 40), (4_000, 0)])
def test_texts_that_functions_make_are_as_short_as_their_copies_are_many(copies, owners):
    """What comes out of a function of a collection was read up to 64 KiB, however often a join repeated it."""
    data = {"people": PEOPLE, "repeated": pa.table({"k": np.ones(copies, dtype=np.int64)})}
    catalog = {"tables": {"people": {"owner": "uid"}, "repeated": {"public": True}}}
    with shoal.connect(data, catalog=catalog) as session:
        made = session.collection("people").map(lambda _: {"k": 1, "t": "x" * 60_000}, {"k": "integer", "t": "text"})
        found = made.join_public("repeated", on="k").where("t LIKE 'x%'").release(n=agg.count_owners(), epsilon=10_000)
    assert found.to_dicts() == [{"n": owners}]
