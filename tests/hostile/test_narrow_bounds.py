"""Bounds that no engine can compute with are refused when planning: with a row or without one, the verdict is the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.engines.statements.integers import LARGEST_WIDE, integer
from shoal.errors import InternalError

CATALOG = {"tables": {"v": {"owner": "uid", "columns": {"age": {"bounds": [18, 80]}}}}}
PEOPLE = pa.table({"uid": [7, 8], "age": [55, 20], "income": [1.5, 2.0], "steps": [3, 2**63 - 1]})
PAIRS = [
    ("1e20", "100000000000000000000.0000000000000000000000001"),
    ("-100000000000000000000.0000000000000000000000001", "-1e20"),
    ("1e10", "10000000000.000000000000000000000000000001"),
    ("1e-5", "0.0000100000000000000000000000000001"),
    ("999999999999999999999999999999", "1e30"),
    ("0.3", "0.30000000000000000000001"),
    ("1e20", "1e20"),
    ("0", "1e30"),
    ("-1e30", "1e30"),
    ("0", "1e-30"),
]
AGGREGATES = [
    "AVG({}, contribution_bounds_per_group => ({}, {}))",
    "VAR_POP({}, contribution_bounds_per_row => ({}, {}))",
    "STDDEV({}, contribution_bounds_per_row => ({}, {}), max_contributions_per_group => 3)",
    "SUM({}, contribution_bounds_per_group => ({}, {}))",
    "MEDIAN({}, contribution_bounds_per_row => ({}, {}))",
]
ASKED = [("1e-10", "income"), ("1", "income"), ("1", "steps"), ("1e6", "steps")]


@pytest.fixture(scope="module")
def worlds():
    """With owner 7 and without; nobody at all."""
    with (
        shoal.connect({"v": PEOPLE}, catalog=CATALOG) as everybody,
        shoal.connect({"v": PEOPLE.slice(1)}, catalog=CATALOG) as without,
        shoal.connect({"v": PEOPLE.slice(2)}, catalog=CATALOG) as nobody,
    ):
        yield everybody, without, nobody


def verdict(session, sql):
    before = session.ledger.spent[0]
    try:
        session.query(sql)
    except shoal.ShoalError as error:
        return error.code, session.ledger.spent[0] == before
    return "answered", session.ledger.spent[0] == before


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=lambda text: text.split("(")[0])
@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_nobodys_row_decides_whether_bounds_can_be_used(worlds, aggregate, pair):
    for epsilon, column in ASKED:
        value = aggregate.format(column, *pair)
        sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}) {value} AS x FROM v WHERE uid = 7"
        codes = {verdict(session, sql) for session in worlds}
        assert codes in ({("answered", False)}, {("E_BOUNDS_INVALID", True)}), (sql, codes)


def test_narrow_bounds_far_from_zero_are_refused_with_a_way_out(worlds):
    low, high = PAIRS[0]
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) AVG(income, contribution_bounds_per_group => ({}, {})) AS x FROM v"
    with pytest.raises(shoal.ShoalError, match="too large, or too close together") as caught:
        worlds[0].query(sql.format(low, high))
    assert "Subtract the common part" in caught.value.hint
    assert len(worlds[0].query(sql.format("1000000", "1000000.001"))) == 1


def test_bounds_that_follow_from_an_expression_are_no_way_around(worlds):
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e5) AVG(age + 1e29) AS x FROM v WHERE uid = 7"
    assert {verdict(session, sql) for session in worlds} == {("E_BOUNDS_INVALID", True)}


def test_a_number_that_no_engine_reads_is_never_written():
    assert integer(1 - LARGEST_WIDE).sql("duckdb")
    with pytest.raises(InternalError):
        integer(LARGEST_WIDE)
