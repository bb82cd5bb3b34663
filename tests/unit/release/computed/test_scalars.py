"""A total that a subquery asks for: shares of it are computed from two released numbers, and have intervals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal

SIZES = {"a": 4000, "b": 3000, "c": 2000, "d": 1000}
ALL = "(SELECT COUNT(*) FROM t)"
HALF = 0.5


@pytest.fixture(scope="module")
def session():
    kind = np.repeat(list(SIZES), list(SIZES.values()))
    table = pa.table({"uid": np.arange(len(kind)), "kind": kind, "spend": np.full(len(kind), 2.0)})
    listed = {"kind": {"values": list(SIZES)}, "spend": {"bounds": [0, 4]}}
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": listed}},
        "defaults": {"epsilon": 1, "delta": 1e-6},
    }
    return shoal.connect({"t": table}, catalog=catalog)


@pytest.mark.parametrize(
    "share",
    [
        f"100.0 * COUNT(*) / {ALL}",
        f"ROUND(COUNT(*) * 100.0 / {ALL}, 3)",
        "100 * SUM(spend) / (SELECT SUM(spend) FROM t)",
        "100 * SUM(spend) / (SELECT 2 * COUNT(*) AS twice FROM t)",
        f"50.0 * COUNT(*) / {ALL} + 50.0 * COUNT(*) / {ALL}",
    ],
)
def test_a_share_of_a_total_apart_has_an_interval(session, share):
    result = session.query(f"SELECT kind, {share} AS pct FROM t GROUP BY kind")
    rows = result.intervals().to_dicts()
    assert len(rows) == len(SIZES)
    for row in rows:
        assert row["pct_low"] <= row["pct"] <= row["pct_high"]
        assert row["pct_low"] < row["pct_high"]
        assert abs(row["pct"] - SIZES[row["kind"]] / 100) < HALF
        assert row["pct_high"] - row["pct_low"] < HALF
    assert not any("no interval" in note for note in result.notes)


def test_the_answer_is_the_number_over_the_total_in_the_order_that_was_asked(session):
    result = session.query(
        f"SELECT kind, n, n * 1.0 / total AS share, total FROM (SELECT kind, COUNT(*) AS n, {ALL} AS total FROM t GROUP BY kind) "
        "AS s WHERE n > 1500 ORDER BY n DESC LIMIT 2"
    )
    rows = result.intervals().to_dicts()
    assert [row["kind"] for row in rows] == ["a", "b"]
    for row in rows:
        assert row["share"] == row["n"] / row["total"]
        assert row["share_low"] < row["share"] < row["share_high"]
    assert len({row["total"] for row in rows}) == 1


def test_without_groups_one_number_is_compared_with_another(session):
    result = session.query(f"SELECT COUNT(*) * 1.0 / {ALL} AS share FROM t WHERE kind = 'a'")
    (row,) = result.intervals().to_dicts()
    assert row["share_low"] < row["share"] < row["share_high"]
    assert abs(row["share"] - 0.4) < 0.01


def test_a_total_that_may_be_missing_has_a_reason_and_no_interval(session):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)"
    missing = f"(SELECT n FROM ({clause} COUNT(*) AS n FROM t) AS s WHERE n > 10)"
    result = session.query(f"SELECT kind, COUNT(*) * 1.0 / {missing} AS share FROM t GROUP BY kind")
    assert "share_low" not in result.intervals().columns
    assert any(note.startswith("share is computed from noisy numbers") for note in result.notes)
