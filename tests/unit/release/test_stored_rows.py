"""What a private SELECT without GROUP BY gives: always exactly one row, and sums over those who have something to add."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.session import connect

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100)"


@pytest.fixture(scope="module")
def session():
    visits = pa.table({"uid": list(range(1000)), "spend": [float(i % 7) for i in range(1000)]})
    return connect({"visits": visits}, catalog={"tables": {"visits": {"owner": "uid"}}})


@pytest.mark.parametrize("items", ["APPROX_BOUNDS(spend)", "APPROX_BOUNDS(spend), COUNT(DISTINCT uid)", "1"])
def test_a_select_without_groups_has_one_row(session, items):
    assert len(session.query(f"{CLAUSE} {items} FROM visits")) == 1


def test_bounds_are_the_outer_edges_of_filled_bins(session):
    (row,) = session.query(f"{CLAUSE} APPROX_BOUNDS(spend) AS b FROM visits").to_dicts()
    assert row["b"] == [0.0, 8.0]


@pytest.mark.parametrize("bounds", ["(100, 200)", "(-200, -100)"])
def test_an_owner_without_a_value_adds_nothing_to_a_sum(session, bounds):
    """Also where the bounds leave out 0, so that clamping nothing would make something of it."""
    total = f"SUM(spend, contribution_bounds_per_group => {bounds}) FILTER (WHERE uid < 10) AS total"
    (row,) = session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e6) {total} FROM visits").to_dicts()
    assert abs(row["total"]) == pytest.approx(10 * 100, abs=0.1)
