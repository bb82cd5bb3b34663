"""A count of some rows, divided by the count of all: one limit above and below the line."""

from __future__ import annotations

import pytest

import shoal
from shoal.plan.aggregates import CountRows, RowAverage

OWNERS, ROWS = 300, 8
P = "y > 0"
SHARES = (
    f"100.0 * SUM(CASE WHEN {P} THEN 1 ELSE 0 END) / COUNT(*)",
    f"SUM(CASE WHEN {P} THEN 1 ELSE 0 END) * 100.0 / NULLIF(COUNT(*), 0)",
    f"100 * COUNT(CASE WHEN {P} THEN 1 END) / COUNT(*)",
    f"100.0 * COUNT(*) FILTER (WHERE {P}) / COUNT(*)",
    f"100.0 * CAST(COUNT_IF({P}) AS DOUBLE) / COUNT(*)",
    f"ROUND(100.0 * SUM(({P})::INT) / COUNT(*), 2)",
    f"100.0 * (COUNT(CASE WHEN {P} THEN y END) / COUNT(*))",
)


@pytest.fixture(scope="module")
def session():
    """Every owner has y = 1 in three rows of four; every hundredth has fifty times as many rows, and y = 1 in none."""
    rows = [(i, int(j % 4 != 0)) for i in range(OWNERS) for j in range(ROWS)]
    rows += [(i, 0) for i in range(0, OWNERS, 100) for _ in range(50 * ROWS)]
    table = {"uid": [i for i, _ in rows], "y": [y for _, y in rows], "k": [i % 2 for i, _ in rows]}
    defaults = {"epsilon": 1.0, "delta": 1e-6, "population": 2 * OWNERS}
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": defaults}
    with shoal.connect({"t": table}, catalog=catalog) as opened:
        yield opened


def aggregates(session, sql):
    (select,) = session.plan(sql).selects
    return [call.aggregate for call in select.select.aggregates]


@pytest.mark.parametrize("share", SHARES)
def test_a_share_is_one_average_of_rows(session, share):
    for sql in (f"SELECT {share} AS s FROM t", f"SELECT k, {share} AS s FROM t GROUP BY k ORDER BY s"):
        (found,) = aggregates(session, sql)
        assert isinstance(found, RowAverage)
        assert found.is_share


def test_the_whole_may_stand_beside_it_but_not_the_part(session):
    part = f"SUM(CASE WHEN {P} THEN 1 ELSE 0 END)"
    beside = aggregates(session, f"SELECT COUNT(*) AS n, 1.0 * {part} / COUNT(*) AS s FROM t")
    assert sorted(type(each).__name__ for each in beside) == ["CountRows", "RowAverage"]
    for sql in (
        f"SELECT {part} AS yes, 1.0 * {part} / COUNT(*) AS s FROM t",
        f"SELECT k, 1.0 * {part} / COUNT(*) AS s FROM t GROUP BY k HAVING {part} > 3",
    ):
        assert all(isinstance(each, CountRows) for each in aggregates(session, sql))


def test_with_few_owners_a_count_beside_a_share_stays_one_of_two(session):
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": 60}}
    share = f"1.0 * SUM(CASE WHEN {P} THEN 1 ELSE 0 END) / COUNT(*) AS s"
    sql = f"SELECT k, COUNT(*) AS n, {share} FROM t GROUP BY k"
    with shoal.connect({"t": {"uid": [1, 1], "y": [0, 1], "k": [1, 2]}}, catalog=catalog) as opened:
        assert all(isinstance(each, CountRows) for each in aggregates(opened, sql))
        assert len(aggregates(opened, f"SELECT k, {share} FROM t GROUP BY k")) == 1
    assert not all(
        isinstance(each, CountRows) for each in aggregates(session, sql.replace("FROM t", "FROM t WHERE k < 5"))
    )


@pytest.mark.parametrize(
    "quotient",
    [
        f"COUNT(*) / COUNT(CASE WHEN {P} THEN 1 END)",
        f"COUNT(CASE WHEN {P} THEN 1 END) / (2 * COUNT(*))",
        f"COUNT(CASE WHEN {P} THEN 1 END) / COUNT(k)",
        f"COUNT(CASE WHEN {P} THEN 1 END) // COUNT(*)",
    ],
)
def test_other_quotients_stay_counts(session, quotient):
    assert all(isinstance(each, CountRows) for each in aggregates(session, f"SELECT {quotient} AS s FROM t"))


def test_one_row_of_each_owner_needs_no_limit():
    catalog = {"tables": {"t": {"owner": "each row"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    with shoal.connect({"t": {"y": [0, 1, 1]}}, catalog=catalog) as opened:
        found = aggregates(opened, f"SELECT COUNT(CASE WHEN {P} THEN 1 END) / COUNT(*) AS s FROM t")
    assert all(isinstance(each, CountRows) for each in found)


@pytest.mark.parametrize("share", SHARES)
def test_its_number_and_interval_lie_between_0_and_100(session, share):
    result = session.query(f"SELECT {share} AS s FROM t")
    (ends,) = result.intervals().to_dicts()
    assert 0 <= ends["s_low"] <= result["s"][0] <= ends["s_high"] <= 100


def test_the_interval_counts_rows_that_were_left_out(session):
    """Three owners have two thirds of all rows, which no noise shows: the low end goes below what was read of the others."""
    result = session.query(f"SELECT {SHARES[0]} AS s FROM t")
    parts = result.intervals().to_dicts()[0]
    assert parts["s_low"] < parts.get("s_noise_low", result["s"][0])
