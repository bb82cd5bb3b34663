"""Rows of a private SELECT without GROUP BY: always exactly one, whatever it asks for."""

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
