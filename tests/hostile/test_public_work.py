"""What public and released rows make of one private row is counted by what they are, not by what is usual.

Released rows counted as a thousand and public strings as 256 bytes. Four thousand public groups joined twice, or one public
string of 60 KB, then took seconds to hours if the victim was there, and nothing if not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracles import face_of

import shoal
from shoal.rewrite import check_fanout
from shoal.rewrite.checks.extents import Assumed

CATALOG = {
    "tables": {
        "people": {"owner": "uid"},
        "keys": {"public": True},
        "long": {"public": True},
    }
}
VICTIM = 7
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) "
LISTED = (
    "WITH g AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) "
    "k, COUNT(uid) AS n FROM people RIGHT JOIN keys ON people.age = keys.k GROUP BY k) "
)
SELECTED = (
    "WITH g AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 50, delta = 1e-2) "
    "age AS k, COUNT(*) AS n FROM people GROUP BY age) "
)


@pytest.fixture(scope="module")
def neighbours():
    pair = []
    for there in (True, False):
        uid = np.array([n for n in range(600) if there or n != VICTIM])
        tables = {
            "people": pa.table({"uid": uid, "age": uid % 20, "note": ["ab"] * len(uid)}),
            "keys": pa.table({"k": np.arange(4_000)}),
            "long": pa.table({"t": ["short", "b" * 60_000]}),
        }
        pair.append(shoal.connect(tables, catalog=CATALOG))
    yield pair
    for session in pair:
        session.close()


REFUSED = {
    "public groups, twice": f"{LISTED} {PRIVATE} COUNT(*) FROM people p, g a, g b WHERE p.uid = 7 AND a.n + b.n < p.age",
    "public groups of which each pair is compared": (
        f"{LISTED} {PRIVATE} COUNT(*) FROM people p WHERE p.uid = 7 AND EXISTS "
        "(SELECT 1 FROM g a, g b WHERE a.n + b.n < p.age - 1000)"
    ),
    "a long public string as a different value": (
        f"{PRIVATE} COUNT(DISTINCT (SELECT MAX(t) FROM long) || k) FROM people, keys WHERE uid = 7"
    ),
    "a long public string in a condition": (
        f"{PRIVATE} COUNT(*) FROM people, keys, long WHERE uid = 7 AND REGEXP_MATCHES(t || k, 'a[ab]{{40}}c')"
    ),
    "a long public string that was released": (
        "WITH g AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) "
        "t, COUNT(uid) AS n FROM people RIGHT JOIN long ON people.note = long.t GROUP BY t) "
        f"{PRIVATE} COUNT(*) FROM people, keys, g WHERE uid = 7 AND REVERSE(g.t || keys.k) = 'a'"
    ),
}


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED.keys())
def test_what_public_rows_multiply_without_bound_is_refused_and_free_whoever_is_there(neighbours, sql):
    first, second = (face_of(session, sql) for session in neighbours)
    assert first == second
    assert first[0].startswith("E_LIMITS")
    assert first[2] == (0.0, 0.0)


ANSWERED = {
    "public groups on their key": f"{LISTED} {PRIVATE} COUNT(*) FROM people p JOIN g ON p.age = g.k WHERE g.n > 5",
    "public groups, once": f"{LISTED} {PRIVATE} COUNT(*) FROM people p, (SELECT * FROM g WHERE k < 3) AS g WHERE g.n > p.age",
    "released groups, twice": f"{SELECTED} {PRIVATE} COUNT(*) FROM people p, g a, g b WHERE a.n + b.n < p.age",
    "a long public string, a few times": f"{PRIVATE} COUNT(*) FROM people, long WHERE REVERSE(t) <> note",
}


@pytest.mark.parametrize("sql", ANSWERED.values(), ids=ANSWERED.keys())
def test_what_people_write_is_answered(neighbours, sql):
    first, second = (face_of(session, sql) for session in neighbours)
    assert first == second
    assert first[0] == "answered"


@pytest.mark.parametrize("assumed", [Assumed(19, 256), Assumed(1_000, 1)], ids=["rows", "strings"])
def test_more_released_rows_than_were_allowed_for_end_the_query_and_suspend_nobody(monkeypatch, neighbours, assumed):
    """Released rows decide about it, which are paid for; nobody's presence does."""
    monkeypatch.setattr(check_fanout, "ASSUMED", (assumed,))
    key = "age" if assumed.text > 1 else "CASE WHEN age < 9 THEN 'ab' ELSE 'b' END"
    released = SELECTED.replace("age AS k", f"{key} AS k").replace("BY age", "BY 1")
    sql = f"{released} {PRIVATE} COUNT(*) FROM people p, g WHERE g.n < p.age"
    faces = []
    for session in neighbours:
        before = session.spent[0]
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(sql)
        faces.append((str(refused.value), session.spent[0] - before))
        assert face_of(session, f"{PRIVATE} COUNT(*) FROM people")[0] == "answered"
    assert faces[0] == faces[1]
    assert faces[0][0].startswith("E_LIMITS")
    assert faces[0][1] == 51
