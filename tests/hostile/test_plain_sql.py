"""Plain SQL in a session with defaults: the same face on neighbours, every private SELECT paid, no row of anybody shown."""

from __future__ import annotations

from fractions import Fraction

import nasty_data
import pytest
from oracles import assert_every_column_is_paid_for, face_of, refusal_of

import shoal

DEFAULTS = {"epsilon": 0.5, "delta": 1e-6, "max_groups_per_owner": 2}
BY_SITE = "SELECT site, COUNT(*) AS n FROM visits GROUP BY site"
JOINED = "FROM visits v JOIN busy b ON v.site = b.site GROUP BY v.site"

# What is asked, and how many SELECTs of it are private.
ANSWERED = {
    "SELECT DISTINCT site FROM visits": 1,
    "SELECT DISTINCT site, day FROM visits WHERE spend > 3": 1,
    "SELECT DISTINCT region FROM customers UNION SELECT DISTINCT site FROM visits": 2,
    f"WITH a AS ({BY_SITE}) SELECT site, n, n * 100.0 / (SELECT SUM(n) FROM a) AS share FROM a": 1,
    f"WITH a AS ({BY_SITE}) SELECT x.site, y.n FROM a x JOIN a y ON x.site = y.site": 1,
    f"WITH a AS ({BY_SITE}) SELECT COUNT(*) AS n FROM customers": 1,
    f"WITH busy AS (SELECT site FROM ({BY_SITE}) WHERE n > 20) SELECT v.site, AVG(v.spend) AS m {JOINED}": 2,
    f"SELECT MAX(n) AS most FROM ({BY_SITE} HAVING COUNT(*) > 10)": 1,
    "SELECT COUNT(*) AS n FROM visits v CROSS JOIN (SELECT AVG(spend) AS m FROM visits) a WHERE v.spend > a.m": 2,
    "SELECT AVG(n) AS m FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid)": 1,
    f"SELECT r.region, s.n FROM regions r LEFT JOIN ({BY_SITE}) s ON s.site = r.region": 1,
    "SELECT region FROM regions WHERE 3 < (SELECT COUNT(*) FROM regions)": 0,
    f"SELECT (SELECT MAX(n) FROM ({BY_SITE})) AS most": 1,
    "SELECT COUNT(*) AS n FROM visits WHERE spend > (SELECT AVG(spend) FROM visits)": 2,
}
REFUSED = {
    "SELECT DISTINCT uid FROM visits": "E_UID_EXPOSED",
    "SELECT DISTINCT CAST(uid AS VARCHAR) AS k FROM visits": "E_UID_EXPOSED",
    "SELECT DISTINCT * FROM visits": "E_RAW_OUTPUT",
    "SELECT DISTINCT site, ROW_NUMBER() OVER (ORDER BY spend) AS r FROM visits": "E_CROSS_USER",
    "SELECT n FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid)": "E_RAW_OUTPUT",
    "SELECT n FROM (SELECT CAST(uid AS VARCHAR) AS k, COUNT(*) AS n FROM visits GROUP BY k)": "E_UID_EXPOSED",
    "SELECT k FROM (SELECT MIN(uid) AS uid, site AS k FROM visits GROUP BY site)": "E_UID_FORGED",
    f"SELECT region FROM regions WHERE region IN (SELECT site FROM ({BY_SITE}))": "E_EXPR_SUBQUERY",
    f"SELECT (SELECT n FROM ({BY_SITE})) AS most": "E_EXPR_SUBQUERY",
    "SELECT (SELECT spend FROM visits LIMIT 1) AS most": "E_EXPR_SUBQUERY",
    f"SELECT s.n, v.spend FROM ({BY_SITE}) s JOIN visits v ON v.site = s.site": "E_RAW_OUTPUT",
    "SELECT a.n FROM (SELECT COUNT(*) AS n FROM visits) a, visits v": "E_RAW_OUTPUT",
    "WITH a AS (SELECT site, spend FROM visits) SELECT * FROM a": "E_RAW_OUTPUT",
}


@pytest.fixture(scope="module")
def sessions():
    """The data, the data without owner 7, and no data at all."""
    tables = nasty_data.built(*nasty_data.ordinary(300, 900))
    worlds = (tables, nasty_data.without(tables), nasty_data.nothing_at_all())
    opened = [shoal.connect(world, catalog={**nasty_data.CATALOG, "defaults": DEFAULTS}) for world in worlds]
    yield opened
    for session in opened:
        session.close()


@pytest.mark.parametrize("sql", ANSWERED)
def test_an_answered_query_shows_the_same_face_on_neighbours_and_pays_for_every_select(sessions, sql):
    plan = sessions[0].plan(sql)
    assert plan.epsilon == Fraction(1, 2) * ANSWERED[sql]
    assert len(plan.selects) == ANSWERED[sql]
    assert_every_column_is_paid_for(plan)
    faces = [face_of(session, sql) for session in sessions]
    assert all(
        (status, columns) == faces[0][:2] and cost == pytest.approx(faces[0][2]) for status, columns, cost in faces
    )


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refused_query_is_refused_alike_whatever_the_data(sessions, sql):
    refusals = [refusal_of(session, sql) for session in sessions]
    assert refusals[0][0] == REFUSED[sql]
    assert len(set(refusals)) == 1
