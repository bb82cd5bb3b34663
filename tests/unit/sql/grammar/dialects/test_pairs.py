"""Correlation, covariance and the line through pairs mean what they mean in DuckDB, on public rows and privately at a large ε."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect
from shoal.sql.grammar.dialects.pairs import NAMES

PAIRS = pa.table(
    {
        "uid": list(range(400)),
        "x": [None if n % 7 == 0 else n % 10 for n in range(400)],
        "y": [None if n % 11 == 0 else (n * 3) % 10 + n % 10 / 2 for n in range(400)],
        "k": [n % 2 for n in range(400)],
    }
)
BOUNDS = {"x": {"bounds": [0, 9]}, "y": {"bounds": [0, 14]}, "k": {"values": [0, 1]}}
CATALOG = {
    "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": BOUNDS}, "p": {"public": True}},
    "defaults": {"epsilon": 1e6, "delta": 1e-6},
}


@pytest.fixture(scope="module")
def session():
    return connect({"t": PAIRS, "p": PAIRS}, catalog=CATALOG)


def exactly(sql):
    connection = duckdb.connect()
    connection.register("t", PAIRS)
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("suffix", ["", " FILTER (WHERE k = 1)"])
@pytest.mark.parametrize("name", sorted(NAMES))
def test_pairs_are_measured_as_by_the_engine(session, name, suffix):
    sql = f"SELECT {name}(y, x){suffix} AS found FROM t"
    ((expected,),) = exactly(sql)
    assert session.query(sql.replace("FROM t", "FROM p")).to_dicts()[0]["found"] == pytest.approx(expected)
    # At ε = 10⁶ and 400 owners noise moves none of them by a thousandth.
    assert session.query(sql).to_dicts()[0]["found"] == pytest.approx(expected, abs=1e-3)


def test_a_column_beside_itself_is_perfectly_correlated(session):
    answer = session.query("SELECT k, CORR(x, x) FROM t GROUP BY k ORDER BY k").intervals().to_dicts()
    assert [row["corr"] for row in answer] == pytest.approx([1, 1], abs=1e-3)
    assert all(-1 <= row["corr_low"] <= row["corr_high"] <= 1 for row in answer)


def test_what_cannot_be_computed_is_null(session):
    nobody = "SELECT CORR(y, x) AS r, REGR_R2(y, x) AS r2, REGR_SLOPE(y, x) AS slope FROM p WHERE x > 100"
    assert session.query(nobody).to_dicts() == [{"r": None, "r2": None, "slope": None}]


def test_of_one_owner_the_correlation_is_a_value_of_that_owner():
    rows = PAIRS.set_column(0, "uid", [[n // 20 for n in range(400)]])
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1e6, "delta": 1e-6}}
    inner = "SELECT uid, CORR(y, x) AS r FROM t GROUP BY uid"
    connection = duckdb.connect()
    connection.register("t", rows)
    ((expected,),) = connection.execute(f"SELECT AVG(r) FROM ({inner})").fetchall()
    sql = f"SELECT AVG(r, contribution_bounds_per_group => (-1, 1)) AS r FROM ({inner})"
    assert connect({"t": rows}, catalog=catalog).query(sql).to_dicts()[0]["r"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    "asked",
    [
        "CORR(DISTINCT x, y)",
        "CORR(x)",
        "CORR(x, y, x)",
        "CORR(x, y) OVER ()",
        "CORR(CORR(x, y), y)",
        "CORR(x, (SELECT 1))",
    ],
)
def test_what_is_no_plain_pair_is_refused(session, asked):
    with pytest.raises(ShoalError) as refused:
        session.query(f"SELECT {asked} FROM t")
    assert refused.value.code != "E_INTERNAL"
