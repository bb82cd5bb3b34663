"""Size is an attack too: whatever a text stands for, it is refused in well under a second, or answered in a few.

Seconds are seconds of this process on a processor, so that a busy machine changes no verdict.
"""

from __future__ import annotations

import nasty_data
import pytest
from corpus import PRIVATE, written_out
from oracles import refusal_of

import shoal
from shoal.engines.deadline import Deadline

LONGEST_ANSWER = 30.0


@pytest.fixture(scope="module")
def session():
    with shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG) as opened:
        opened.query(PRIVATE + "COUNT(*) FROM customers")
        yield opened


def doubled(levels, join):
    """A WITH table that uses the one before it twice, and so on: 2^levels scans in a few lines."""
    tables = ["a0 AS (SELECT uid FROM customers)"]
    tables += [f"a{i} AS ({join.replace('@', f'a{i - 1}')})" for i in range(1, levels)]
    return written_out(f"WITH {', '.join(tables)} PRIVATE COUNT(*) FROM a{levels - 1}")


def nested(levels, inner, form):
    for _ in range(levels):
        inner = form.replace("@", inner)
    return inner


def named(first, levels=40):
    """Names for each other's values: 2^levels of them in a few lines."""
    return ", ".join([f"{first} AS a0", *(f"a{i - 1} + a{i - 1} AS a{i}" for i in range(1, levels))])


TOO_LARGE = {
    "10,000 parentheses": PRIVATE + f"COUNT(*) FROM customers WHERE {'(' * 10_000}1=1{')' * 10_000}",
    "10,000 NOTs": PRIVATE + f"COUNT(*) FROM customers WHERE {'NOT ' * 10_000}TRUE",
    "10,000 minus signs": PRIVATE + f"COUNT(*) FROM customers WHERE {'- ' * 10_000}age > 1",
    "10,000 CASEs": PRIVATE + f"COUNT(*) FROM customers WHERE {'CASE WHEN ' * 10_000}",
    "10,000 subqueries": PRIVATE + f"COUNT(*) FROM {'(SELECT * FROM ' * 10_000}customers{')' * 10_000}",
    "10,000 calls": PRIVATE + f"COUNT(*) FROM customers WHERE {'abs(' * 10_000}age{')' * 10_000} > 1",
    "10 MB of text": PRIVATE + f"COUNT(*) FROM customers WHERE region = '{'x' * 10_000_000}'",
    "10 MB of spaces": PRIVATE + " " * 10_000_000 + "COUNT(*) FROM customers",
    "10 MB of one word": "S" * 10_000_000,
    "10 MB of letters of two bytes": "é" * 5_000_000,
    "100,000 columns": PRIVATE + ", ".join(["COUNT(*)"] * 100_000) + " FROM customers",
    "100,000 ORs": PRIVATE + "COUNT(*) FROM customers WHERE " + " OR ".join(["age > 1"] * 100_000),
    "100,000 values": PRIVATE + f"COUNT(*) FROM customers WHERE age IN ({', '.join(['1'] * 100_000)})",
    "1,001 columns": PRIVATE + ", ".join(["COUNT(*)"] * 1_001) + " FROM customers",
    "a number of 5,000 digits": PRIVATE + f"COUNT(*) FROM customers WHERE age < {'9' * 5_000}",
    "a long sum": PRIVATE + f"SUM({' + '.join(['age'] * 3_000)}) FROM customers",
    "a joined WITH table doubled": doubled(30, "SELECT x.uid FROM @ x JOIN @ y USING (uid)"),
    "a union doubled": doubled(30, "SELECT uid FROM @ UNION ALL SELECT uid FROM @"),
    "an EXISTS doubled": doubled(30, "SELECT x.uid FROM @ x WHERE EXISTS (SELECT 1 FROM @ y WHERE y.uid = x.uid)"),
    "a public WITH table doubled": "WITH a0 AS (SELECT region FROM regions), "
    + ", ".join(f"a{i} AS (SELECT x.region FROM a{i - 1} x, a{i - 1} y)" for i in range(1, 30))
    + " SELECT COUNT(*) FROM a29",
    "a long chain of WITH tables": "WITH a0 AS (SELECT uid FROM customers), "
    + ", ".join(f"a{i} AS (SELECT uid FROM a{i - 1} WHERE uid > 1)" for i in range(1, 400))
    + f" {PRIVATE} COUNT(*) FROM a399",
    "an alias written out again and again": PRIVATE
    + f"region, {' + '.join(['COUNT(*)'] * 100)} AS a FROM customers GROUP BY region HAVING {' AND '.join(['a > 1'] * 100)}",
    "a CASE over a long sum": PRIVATE
    + f"COUNT(*) FROM customers WHERE CASE {' + '.join(['age'] * 100)} {' '.join(f'WHEN {i} THEN TRUE' for i in range(100))} END",
    "subqueries bound twice at every level": nested(
        40, "SELECT COUNT(*) FROM regions", "SELECT COUNT(*) + (1 + (@)) FROM regions"
    ),
    "names in a subquery": PRIVATE + f"SUM(a39) FROM (SELECT uid, {named('age')} FROM customers)",
    "names of keys": PRIVATE + f"{named('age')}, COUNT(*) FROM customers GROUP BY ALL",
    "names in WHERE": PRIVATE + f"{named('age')}, COUNT(*) FROM customers WHERE a39 > 1 GROUP BY a0",
    "names of aggregates": PRIVATE + f"{named('COUNT(*)')} FROM customers ORDER BY a39",
    "names of public values": f"SELECT {named('LENGTH(region)')} FROM regions QUALIFY ROW_NUMBER() OVER (ORDER BY a39) = 1",
    "400 joins": "SELECT COUNT(*) FROM regions r0 "
    + " ".join(f"JOIN regions r{i} USING (region)" for i in range(1, 400)),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_too_large_is_refused_within_a_second(name, session, quickest):
    code, text = refusal_of(session, TOO_LARGE[name])
    assert code == "E_LIMITS"
    assert quickest(lambda: refusal_of(session, TOO_LARGE[name]), below=1) < 1
    assert len(text) < 2_000


STILL_FINE = {
    "800 conditions": PRIVATE + "COUNT(*) FROM customers WHERE " + " AND ".join(["age > 1"] * 800),
    "800 alternatives": PRIVATE + "COUNT(*) FROM customers WHERE " + " OR ".join(["age > 1"] * 800),
    "2,000 values": PRIVATE + f"COUNT(*) FROM customers WHERE age IN ({', '.join(map(str, range(2_000)))})",
    "300 aggregates": PRIVATE
    + ", ".join(f"SUM(age + {i}, contribution_bounds_per_group => (0, 9))" for i in range(300))
    + " FROM customers",
    "30 WITH tables in a row": "WITH a0 AS (SELECT uid, age FROM customers), "
    + ", ".join(f"a{i} AS (SELECT uid, age FROM a{i - 1} WHERE age > {i})" for i in range(1, 30))
    + f" {PRIVATE} COUNT(*) FROM a29",
    "40 parts of a union": PRIVATE + f"COUNT(*) FROM ({' UNION ALL '.join(['SELECT uid FROM customers'] * 40)})",
    "two unions joined": PRIVATE
    + "COUNT(*) FROM ({0}) a JOIN ({0}) b USING (uid)".format(" UNION ALL ".join(["SELECT uid FROM customers"] * 8)),
    "40 joins by key": PRIVATE
    + "COUNT(*) FROM customers c "
    + " ".join(f"JOIN regions r{i} ON r{i}.region = c.region" for i in range(40)),
    "40 calls in each other": PRIVATE + f"COUNT(*) FROM customers WHERE {'abs(' * 40}age{')' * 40} > 1",
    "30 subqueries in each other": PRIVATE
    + "COUNT(*) FROM "
    + nested(30, "customers", "(SELECT uid, age FROM @ AS t WHERE age > 1)"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "300 aggregates" else []) for name in STILL_FINE]
)
def test_what_is_long_but_honest_is_answered(name, session, quickest):
    assert quickest(lambda: len(session.query(STILL_FINE[name])), LONGEST_ANSWER) < LONGEST_ANSWER
    assert len(session.query(STILL_FINE[name])) == 1


def test_how_deep_the_caller_stands_changes_no_verdict(session):
    sql = STILL_FINE["30 WITH tables in a row"]

    def deep(levels):
        return session.plan(sql) if levels == 0 else deep(levels - 1)

    assert deep(700) == session.plan(sql)


@pytest.mark.parametrize("sql", [None, 7, b"SELECT 1", ["SELECT 1"], object(), 1.5, True, {"sql": "SELECT 1"}])
def test_a_query_that_is_no_text_is_refused(sql, session):
    with pytest.raises(shoal.ShoalError, match="A query must be a string"):
        session.query(sql)


@pytest.mark.parametrize(
    "sql", ["", " ", ";", "\x00", "\ud800", "SELECT '\udfff'", "\ufeffSELECT 1", "--", "/*", "'", '"', "SELECT", "\n\n"]
)
def test_scraps_of_text_are_refused(sql, session):
    code, _ = refusal_of(session, sql)
    assert code == "E_PARSE"


def test_post_processing_that_never_ends_is_stopped(session, monkeypatch):
    monkeypatch.setattr("shoal.release.execute.Deadline", lambda _: Deadline(0.5))
    tables = ", ".join(f"regions r{i}" for i in range(40))
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(f"SELECT COUNT(*) FROM {tables} WHERE r1.region || r39.region || r20.region = 'a'")
    assert refused.value.code == "E_EXECUTION"
    assert refused.value.__context__ is None
