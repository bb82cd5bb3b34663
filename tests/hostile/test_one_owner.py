"""One owner moves an answer by the owner's bound and no more, whatever the owner brings. Noise is negligible at large ε."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal

EXACT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1000000, delta=1e-6, max_groups_contributed={kappa}) "
"""Noise of at most κ·Δ·10⁻⁶ a number: an integer is off with a chance below e^(−10⁴)."""

HEAVY = 10_000
GROUPS = [f"g{i}" for i in range(10_000)]


def crowd(rows=4_000, owners=500):
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "uid": rng.integers(0, owners, rows),
            "g": np.array(GROUPS)[rng.integers(0, 40, rows)],
            "x": np.round(rng.uniform(0, 20, rows), 3),
        }
    )


def of_one(groups, value):
    return pa.table({"uid": np.full(len(groups), HEAVY), "g": groups, "x": np.full(len(groups), value)})


def opened(table, listed=()):
    column = {"columns": {"g": {"values": list(listed)}}} if listed else {}
    return shoal.connect({"t": table}, catalog={"tables": {"t": {"owner": "uid", **column}}})


MANY_ROWS_IN_ONE_GROUP = of_one(["g0"] * 100_000, 1e6)
ONE_ROW_IN_MANY_GROUPS = of_one(GROUPS, 1e6)

TOTALS = {
    "COUNT(*, contribution_bounds_per_group => (0, 7))": 7,
    "COUNT(DISTINCT uid)": 1,
    "SUM(x, contribution_bounds_per_group => (0, 30))": 30,
    "SUM(x, contribution_bounds_per_group => (-5, 3))": 3,
    "SUM(-x, contribution_bounds_per_group => (-5, 3))": -5,
}


@pytest.mark.parametrize("aggregate", TOTALS)
def test_a_hundred_thousand_rows_of_one_owner_count_for_the_bound(aggregate):
    sql = EXACT.format(kappa=1) + f"{aggregate} AS n FROM t"
    before, after = (
        opened(table).query(sql).to_dicts()[0]["n"]
        for table in (crowd(), pa.concat_tables([crowd(), MANY_ROWS_IN_ONE_GROUP]))
    )
    assert after - before == pytest.approx(TOTALS[aggregate], abs=1e-3)


def test_an_average_moves_like_that_of_one_more_owner():
    sql = (
        EXACT.format(kappa=1)
        + "AVG(x, contribution_bounds_per_group => (0, 20)) AS mean, COUNT(DISTINCT uid) AS n FROM t"
    )
    before, after = (
        opened(table).query(sql).to_dicts()[0]
        for table in (crowd(), pa.concat_tables([crowd(), MANY_ROWS_IN_ONE_GROUP]))
    )
    assert after["n"] == before["n"] + 1
    assert after["mean"] == pytest.approx((before["mean"] * before["n"] + 20) / after["n"], abs=1e-3)


@pytest.mark.parametrize(
    ("kappa", "listed"), [pytest.param(3, GROUPS, marks=pytest.mark.slow), (1, GROUPS[:500]), (50, GROUPS[:500])]
)
def test_one_row_in_each_of_ten_thousand_groups_touches_as_many_groups_as_allowed(kappa, listed):
    sql = EXACT.format(kappa=kappa) + (
        "g, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n, SUM(x, contribution_bounds_per_group => (0, 30)) AS s "
        "FROM t GROUP BY g"
    )
    # A crowd whose owners have one group each, so that sampling leaves them alone.
    still = pa.table({"uid": np.arange(200), "g": [listed[i % 20] for i in range(200)], "x": np.full(200, 2.0)})
    before, after = (
        {row["g"]: row for row in opened(table, listed).query(sql).to_dicts()}
        for table in (still, pa.concat_tables([still, ONE_ROW_IN_MANY_GROUPS.slice(0, len(listed))]))
    )
    assert set(before) == set(after) == set(listed)
    moved = [g for g in listed if before[g]["n"] != after[g]["n"]]
    assert len(moved) == kappa
    assert all(after[g]["n"] - before[g]["n"] == 1 for g in moved)
    assert all(after[g]["s"] - before[g]["s"] == pytest.approx(30, abs=0.2) for g in moved)
    assert all(after[g]["s"] == pytest.approx(before[g]["s"], abs=0.2) for g in set(listed) - set(moved))


def test_the_groups_an_owner_is_kept_in_are_drawn_anew_and_evenly():
    # 20 draws of 5 of 200 groups. That two of them agree has a chance of 190 / C(200, 5) < 1e-7.
    sql = EXACT.format(kappa=5) + "g, COUNT(DISTINCT uid) AS n FROM t GROUP BY g"
    session = opened(ONE_ROW_IN_MANY_GROUPS, GROUPS[:200])
    draws = {frozenset(row["g"] for row in session.query(sql).to_dicts() if row["n"]) for _ in range(20)}
    assert len(draws) == 20
    assert all(len(draw) == 5 for draw in draws)


def test_groups_that_only_one_owner_has_do_not_appear():
    # 10,000 groups of one owner, of which 3 are kept: shown with a chance of at most delta = 1e-6 in all.
    sql = EXACT.format(kappa=3).replace("1000000", "1") + "g, COUNT(DISTINCT uid) AS n FROM t GROUP BY g"
    assert len(opened(ONE_ROW_IN_MANY_GROUPS).query(sql)) == 0


def test_quantiles_and_extremes_feel_one_owner_as_one_value():
    # 500 owners spread over [0, 20]; one owner with 100,000 rows at the far end moves the median by about one rank.
    sql = EXACT.format(kappa=1) + (
        "MEDIAN(x, contribution_bounds_per_row => (0, 20)) AS middle, "
        "PERCENTILE_CONT(x, 0.9, contribution_bounds_per_row => (0, 20), max_contributions_per_group => 2) AS high FROM t"
    )
    before, after = (
        opened(table).query(sql).to_dicts()[0]
        for table in (crowd(500, 500), pa.concat_tables([crowd(500, 500), MANY_ROWS_IN_ONE_GROUP]))
    )
    assert abs(after["middle"] - before["middle"]) < 1.0
    assert abs(after["high"] - before["high"]) < 1.0


def test_different_values_of_one_owner_count_for_the_bound():
    flood = of_one(["g0"] * 5_000, 0.0).set_column(2, "x", pa.array(np.arange(5_000) + 0.5))
    sql = EXACT.format(kappa=1) + "COUNT(DISTINCT x, max_contributions_per_group => 4) AS n FROM t"
    before, after = (
        opened(table).query(sql).to_dicts()[0]["n"]
        for table in (crowd().slice(0, 0), pa.concat_tables([crowd().slice(0, 0), flood]))
    )
    assert (before, after) == (0, 4)


def test_rows_bounded_per_owner_are_bounded_over_all_groups():
    sql = EXACT.format(kappa=5).replace("max_groups", "max_rows") + "g, COUNT(*) AS n FROM t GROUP BY g"
    for rows in (ONE_ROW_IN_MANY_GROUPS, MANY_ROWS_IN_ONE_GROUP):
        counts = [row["n"] for row in opened(rows, GROUPS[:200]).query(sql).to_dicts()]
        assert sum(counts) == 5
        assert min(counts) == 0
