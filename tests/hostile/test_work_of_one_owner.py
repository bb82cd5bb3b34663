"""What all rows of one owner may cost: a bound for each row is none for somebody with a thousand of them.

A victim with a hundred rows and a public table of a million, sorted by a window, passed the deadline if the victim was there.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from oracles import face_of

import shoal
from shoal.engines.deadline import Deadline
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.release.execute import fresh_sampling_key, measure

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "
CATALOG = {
    "tables": {
        "people": {"owner": "uid"},
        "visits": {"owner": "uid"},
        "moments": {"public": True},
    }
}
VICTIM, OTHERS, MOMENTS = 7, 39, 2_000
SLOW = "REGEXP_MATCHES(note || id, 'a[ab]{40}c')"


def opened(rows, *, note="ab", moments=MOMENTS):
    """The victim has this many rows, everybody else one."""
    uid = np.concatenate([np.full(rows, VICTIM), np.arange(100, 100 + OTHERS)])
    people = pa.table({"uid": np.unique(uid), "age": np.arange(len(np.unique(uid)))})
    visits = pa.table({"uid": uid, "note": [note] * rows + ["ab"] * OTHERS})
    return shoal.connect(
        {"people": people, "visits": visits, "moments": pa.table({"id": np.arange(moments)})}, catalog=CATALOG
    )


def owners(session, sql):
    select = session.plan(PRIVATE + sql).selects[0]
    with session._engine.snapshot(Deadline(300)) as taken:
        return int(measure(select, taken, fresh_sampling_key()).measurement.owners.sum())


def share_of(sql):
    with opened(1) as session:
        found = all_nodes(session.plan(PRIVATE + sql).selects[0].select.input)
        return next(part.owner_share for part in found if isinstance(part, nodes.Scan))


SOURCES = {
    "a cross join": f"visits, moments WHERE NOT {SLOW}",
    "a join": f"visits JOIN moments ON NOT {SLOW}",
    "an aggregate of an owner": f"(SELECT uid, COUNT(*) AS n FROM visits, moments WHERE NOT {SLOW} GROUP BY uid) AS v",
    "an aggregate that is joined": "people JOIN (SELECT uid, COUNT(*) AS n FROM visits, moments "
    f"WHERE NOT {SLOW} GROUP BY uid) AS v USING (uid)",
    "EXISTS": f"people p WHERE EXISTS (SELECT 1 FROM visits, moments WHERE visits.uid = p.uid AND NOT {SLOW})",
    "IN": f"people WHERE uid IN (SELECT uid FROM visits, moments WHERE NOT {SLOW})",
    "a union": f"(SELECT uid, id FROM visits, moments WHERE NOT {SLOW} UNION ALL SELECT uid, age FROM people WHERE uid < 0) AS v",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_an_owner_with_more_rows_than_a_query_has_time_for_takes_no_part(source):
    sql = f"COUNT(DISTINCT uid) FROM {source}"
    share = share_of(sql)
    assert 10 < share.rows < 1_000
    found = {}
    for rows in (share.rows, share.rows + 1):
        with opened(rows) as session:
            found[rows] = owners(session, sql)
    assert found == {share.rows: OTHERS + 1, share.rows + 1: OTHERS}


WIDE = {
    "different rows": "COUNT(*) FROM (SELECT DISTINCT uid, id{} FROM visits, moments) AS v",
    "groups of an owner": "COUNT(*) FROM (SELECT uid, id{}, COUNT(*) AS n FROM visits, moments GROUP BY ALL) AS v",
    "a union": "COUNT(*) FROM (SELECT uid, id{0} FROM visits, moments UNION SELECT uid, id{0} FROM visits, moments) AS v",
    "a window": "SUM(r, contribution_bounds_per_group => (0, 9)) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid "
    "ORDER BY id) AS r FROM (SELECT uid, id{} FROM visits, moments))",
}


@pytest.mark.parametrize("sql", WIDE.values(), ids=WIDE.keys())
def test_wide_rows_that_are_kept_leave_less_room(sql):
    """A hundred numbers in each of 2 * 10^8 rows of one owner are 163 GB on a disk, and 400 seconds: 2,083 rows were let in."""
    more = "".join(f", id + {number} AS c{number}" for number in range(100))
    narrow, wide = share_of(sql.format("")).rows, share_of(sql.format(more)).rows
    assert 5 * wide < narrow
    assert wide * MOMENTS * 100 * 8 <= 1 << 30


def test_rows_of_one_private_row_that_fill_a_disk_are_refused():
    more = "".join(f", id + {number} AS c{number}" for number in range(100))
    sql = PRIVATE + WIDE["different rows"].format(more)
    for rows in (1, 0):
        with opened(rows, moments=700_000) as session, pytest.raises(shoal.ShoalError) as refused:
            session.plan(sql)
        assert refused.value.code == "E_LIMITS"


def test_a_long_list_of_columns_leaves_less_room():
    """One row of the victim beside 300,000 public ones took 37 seconds, and 925 such rows were let in."""
    shares = [
        share_of(f"COUNT(*) FROM visits, moments WHERE id + 9 IN ({', '.join(parts * 2_000)})")
        for parts in (["1", "2"], ["id", "uid"])
    ]
    assert 10 * shares[1].rows < shares[0].rows


def test_a_pattern_that_is_tried_everywhere_leaves_less_room():
    """17 seconds for each row of the victim beside 5,000 public ones; forty rows were let in, which passes the deadline."""
    text = " || ".join(["note"] * 14)
    shares = [
        share_of(f"COUNT(*) FROM visits, moments WHERE {text} || id LIKE '%{part * 498}b%'") for part in ("aa", "a_")
    ]
    assert 10 * shares[1].rows < shares[0].rows


NAMES = {
    "unsigned": (pa.uint64(), 2**64 - 1, int),
    "text": (pa.string(), "é'\"\\\n", str),
    "decimal": (pa.decimal128(38, 10), Decimal("-1234567890123456789.0123456789"), Decimal),
    "date": (pa.date32(), dt.date(1, 1, 1), lambda n: dt.date(2026, 1, 1) + dt.timedelta(n)),
}


@pytest.mark.parametrize(("type_", "victim", "other"), NAMES.values(), ids=NAMES.keys())
def test_owners_who_are_left_out_may_have_any_name(type_, victim, other):
    """A statement that failed only where somebody is left out would tell that they are there."""
    sql = f"note, COUNT(*) FROM {SOURCES['a cross join']} GROUP BY note"
    rows, faces = share_of(sql).rows + 1, []
    for there in (rows, 0):
        uid = pa.array([victim] * there + [other(n) for n in range(OTHERS)], type_)
        visits = pa.table({"uid": uid, "note": ["ab"] * len(uid)})
        tables = {"people": visits, "visits": visits, "moments": pa.table({"id": np.arange(MOMENTS)})}
        with shoal.connect(tables, catalog=CATALOG) as session:
            faces.append((face_of(session, PRIVATE + sql), owners(session, sql)))
    assert faces[0] == faces[1]
    assert faces[0][0][0] == "answered"


def test_a_row_counts_as_often_as_its_texts_are_long():
    """What a row takes was measured with texts of 256 bytes, and 64 KiB may be stored."""
    sql = f"COUNT(DISTINCT uid) FROM {SOURCES['a cross join']}"
    rows = share_of(sql).rows // 2
    found = []
    for note in ("ab", "x" * 300, "x" * 1_000):
        with opened(rows, note=note) as session:
            found.append(owners(session, sql))
    assert found == [OTHERS + 1, OTHERS + 1, OTHERS]


PAIRS = "visits a JOIN visits b ON a.uid = b.uid CROSS JOIN moments WHERE a.note <= b.note"


@pytest.mark.parametrize(("note", "left_out"), [("ab", 0), ("x" * 4_000, 1)])
def test_texts_of_joined_rows_are_bounded_for_all_rows_together(note, left_out):
    """Sixty rows of 4 KB joined with themselves and a hundred public rows are 3 GB; 10,000 in each of two tables were 400 GB."""
    with opened(60, note=note, moments=100) as session:
        assert owners(session, f"COUNT(DISTINCT a.uid) FROM {PAIRS}") == OTHERS + 1 - left_out


def test_texts_that_nobody_reads_do_not_count():
    with opened(60, note="x" * 4_000, moments=100) as session:
        assert owners(session, f"COUNT(DISTINCT a.uid) FROM {PAIRS.split(' WHERE', maxsplit=1)[0]}") == OTHERS + 1


def test_an_owner_who_is_left_out_has_the_face_of_nobody():
    sql = f"{PRIVATE} COUNT(*) FROM {SOURCES['a cross join']}"
    faces = []
    for rows in (share_of(sql.removeprefix(PRIVATE)).rows + 1, 0):
        with opened(rows) as session:
            faces.append((face_of(session, sql), str(session.explain(sql))))
    assert faces[0] == faces[1]
    assert "are left out" in faces[0][1]


USUAL = {
    "no join": "COUNT(*), SUM(LENGTH(note), contribution_bounds_per_group => (0, 9)) FROM visits",
    "texts": "UPPER(note), COUNT(*) FROM visits WHERE note LIKE '%b%' GROUP BY 1",
    "a pattern": "COUNT(*) FROM visits WHERE REGEXP_MATCHES(note, '^[a-z]+$')",
    "a window": "COUNT(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY note) AS n FROM visits) WHERE n = 1",
    "private tables": "COUNT(*) FROM visits JOIN people USING (uid)",
    "a key of a public table": "COUNT(*) FROM people JOIN moments ON people.age = moments.id",
    "a short public table": "COUNT(*) FROM visits JOIN (SELECT id FROM moments LIMIT 100) ON id < uid",
}


@pytest.mark.parametrize("sql", USUAL.values(), ids=USUAL.keys())
def test_what_people_write_leaves_nobody_out(sql):
    assert share_of(sql).rows > 10_000
    with opened(10_000, moments=MOMENTS) as session:
        assert "take no part" not in str(session.explain(PRIVATE + sql))
