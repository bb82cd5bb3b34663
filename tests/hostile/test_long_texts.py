"""A stored text is as long as whoever wrote it liked: what it may become is bounded all the same, and its length tells nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracles import face_of

import shoal
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "
CATALOG = {"tables": {"t": {"owner": "uid"}, "notes": {"owner": "each row"}, "pub": {"public": True}}}
VICTIM = 7
LONG = "x" * 1_200_000
PUBLIC_ROWS = 4_000


def tables(text, *, with_victim=True):
    """Forty owners with short texts, one with this text; a public table that joins repeat them by, and that has it as well."""
    uid = [*range(1, 41)]
    texts = [text if owner == VICTIM else "a" for owner in uid]
    kept = [owner != VICTIM or with_victim for owner in uid]
    rows = pa.table({"uid": uid, "s": texts}).filter(pa.array(kept))
    named = ["b"] * PUBLIC_ROWS
    named[VICTIM] = text
    return {"t": rows, "notes": rows, "pub": pa.table({"id": range(PUBLIC_ROWS), "name": named})}


REPEATED = {
    "group keys": "s, id, COUNT(*) FROM t, pub GROUP BY s, id",
    "different values": "COUNT(DISTINCT s) FROM t, pub",
    "values of an owner": "COUNT(*) FROM (SELECT uid, id, MAX(s) AS s FROM t, pub GROUP BY uid, id) WHERE s > 'a'",
    "a window": "COUNT(*) FROM (SELECT uid, LAG(s) OVER (PARTITION BY uid ORDER BY id) AS r FROM t, pub) WHERE r > 'a'",
    "parts of a text": "COUNT(*) FROM t, pub WHERE SPLIT_PART(s, 'x', id) = 'y'",
    "rows that are owners": "s, id, COUNT(*) FROM notes, pub GROUP BY s, id",
    "a public text for the victim alone": f"p.name, q.id, COUNT(*) FROM t JOIN pub p ON p.id = t.uid CROSS JOIN pub q "
    f"WHERE t.uid = {VICTIM} GROUP BY p.name, q.id",
}


@pytest.mark.parametrize("sql", REPEATED.values(), ids=REPEATED.keys())
def test_a_long_text_that_joins_repeat_has_the_face_of_no_text(sql):
    faces = [
        face_of(shoal.connect(tables(LONG, with_victim=there), catalog=CATALOG), PRIVATE + sql)
        for there in (True, False)
    ]
    assert faces[0] == faces[1]
    assert faces[0][0] == "answered"


def test_owners_with_long_names_are_nobody():
    names = [*map(str, range(40)), LONG]
    catalog = {"tables": {"t": {"owner": "uid"}, "pub": {"public": True}}}
    pub = pa.table({"id": range(PUBLIC_ROWS)})
    faces = [
        face_of(
            shoal.connect({"t": pa.table({"uid": owners}), "pub": pub}, catalog=catalog),
            PRIVATE + "id, COUNT(*) FROM t, pub GROUP BY id",
        )
        for owners in (names, names[:-1])
    ]
    assert faces[0] == faces[1]


def counted(session, where):
    """The exact number of owners that a condition holds for."""
    select = session.plan(PRIVATE + f"COUNT(DISTINCT uid) FROM {where}").selects[0]
    with session._engine.snapshot(Deadline(60)) as taken:
        return int(measure(select, taken, fresh_sampling_key()).measurement.owners.sum())


@pytest.mark.parametrize(
    ("length", "source", "found"),
    [
        (65_536, "t", 1),
        (65_537, "t", 0),
        (65_536, "t, (SELECT id FROM pub LIMIT 256)", 1),
        (65_536, "t, (SELECT id FROM pub LIMIT 257)", 0),
        ((1 << 24) // PUBLIC_ROWS, "t, pub", 1),
        ((1 << 24) // PUBLIC_ROWS + 1, "t, pub", 0),
        (4_096, "t JOIN t AS again USING (uid)", 1),
        (4_097, "t JOIN t AS again USING (uid)", 0),
    ],
)
def test_a_text_is_read_as_long_as_all_of_its_copies_fit(length, source, found):
    with shoal.connect(tables("x" * length), catalog=CATALOG) as session:
        column = "again.s" if "again" in source else "s"
        assert counted(session, f"{source} WHERE {column} LIKE 'x%'") == found
        assert counted(session, f"{source} WHERE {column} IS NULL") == 1 - found


def test_public_texts_of_any_length_are_answered_where_nothing_is_private():
    with shoal.connect(tables(LONG), catalog=CATALOG) as session:
        (row,) = session.query(f"SELECT name FROM pub WHERE id = {VICTIM}").to_dicts()
    assert row["name"] == LONG


def test_public_groups_keep_their_names():
    names = ["a", "b" * 70_000]
    data = {"t": pa.table({"uid": np.arange(100), "s": [names[0]] * 100}), "pub": pa.table({"name": names})}
    catalog = {"tables": {"t": {"owner": "uid"}, "pub": {"public": True}}}
    with shoal.connect(data, catalog=catalog) as session:
        rows = session.query(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=100000, group_selection_strategy=PUBLIC_GROUPS) "
            "p.name, COUNT(DISTINCT uid) AS n FROM t RIGHT JOIN pub p ON p.name = t.s GROUP BY p.name"
        ).to_dicts()
    assert {row["name"]: row["n"] for row in rows} == {names[0]: 100, names[1]: 0}
