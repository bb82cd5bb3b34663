"""A number that is part of another: the interval of their quotient ends at 1."""

from __future__ import annotations

import pytest

import shoal
from shoal.release.computed.carried import Source
from shoal.release.computed.parts import parts_of

OWNERS = 40
PARTS = (
    "SELECT COUNT(CASE WHEN y > 1 THEN 1 END) AS a, COUNT(*) AS b FROM t",
    "SELECT COUNT(DISTINCT CASE WHEN y > 1 THEN z END) AS a, COUNT(DISTINCT z) AS b FROM t",
    "SELECT SUM(CASE WHEN y > 1 THEN y ELSE 0 END) AS a, SUM(y) AS b FROM t",
    "SELECT COUNT(*) AS a, (SELECT COUNT(*) FROM t) AS b FROM t WHERE y > 1",
    "SELECT COUNT(DISTINCT z) AS a, (SELECT COUNT(DISTINCT z) FROM t) AS b FROM t WHERE y > 1",
    "SELECT SUM(y) AS a, (SELECT SUM(y) FROM t WHERE z > 0) AS b FROM t WHERE z > 0 AND y > 1",
)
NOT_PARTS = (
    "SELECT COUNT(DISTINCT CASE WHEN y > 1 THEN y END) AS a, COUNT(DISTINCT z) AS b FROM t",
    "SELECT SUM(CASE WHEN y > 1 THEN y ELSE 1 END) AS a, SUM(y) AS b FROM t",
    "SELECT SUM(CASE WHEN y > 1 THEN y ELSE 0 END) AS a, COUNT(*) AS b FROM t",
    "SELECT COUNT(*) AS a, (SELECT COUNT(*) FROM t WHERE y > 1) AS b FROM t",
    "SELECT COUNT(*) AS a, (SELECT COUNT(*) FROM other) AS b FROM t WHERE y > 1",
    "SELECT COUNT(DISTINCT y) AS a, (SELECT COUNT(DISTINCT z) FROM t) AS b FROM t WHERE y > 1",
)


@pytest.fixture(scope="module")
def session():
    rows = {"uid": [i % OWNERS for i in range(3 * OWNERS)], "y": [2] * (3 * OWNERS), "z": list(range(3 * OWNERS))}
    tables = {"t": {"owner": "uid"}, "other": {"owner": "uid"}}
    catalog = {"tables": tables, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    with shoal.connect({"t": rows, "other": rows}, catalog=catalog) as opened:
        yield opened


def found(session, sql):
    """Whether a is part of b; scalar subqueries are planned before the SELECT around them."""
    plan = session.plan(sql)
    last = len(plan.selects) - 1
    whole = Source(last, 1, ()) if last == 0 else Source(0, 0, ())
    return parts_of(plan, {"a": Source(last, 0, ()), "b": whole})


@pytest.mark.parametrize("sql", PARTS)
def test_parts_are_found(session, sql):
    assert ("a", "b") in found(session, sql)


@pytest.mark.parametrize("sql", NOT_PARTS)
def test_other_numbers_are_no_parts(session, sql):
    assert ("a", "b") not in found(session, sql)


@pytest.mark.parametrize("sql", [PARTS[1], PARTS[3], PARTS[4]])
def test_the_interval_of_a_share_ends_at_100(session, sql):
    """All rows are in the part, so that noise carries every second share past 100."""
    first, rest = sql.removeprefix("SELECT ").split(" AS a, ")
    second, source = rest.split(" AS b ")
    for _ in range(5):
        result = session.query(f"SELECT 100.0 * {first} / {second} AS s {source}")
        (ends,) = result.intervals().to_dicts()
        assert ends["s_high"] <= max(100.0, result["s"][0])
