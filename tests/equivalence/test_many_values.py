"""Quantiles of a million values, through the whole engine: near in rank, and nine for the price of one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal

MILLION = 1_000_000
LOWER, UPPER = 0, 1000
LEAF = (UPPER - LOWER) / 16**4
BOUNDED = f"contribution_bounds_per_row => ({LOWER}, {UPPER})"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 1)"


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(11).lognormal(2, 1, MILLION).clip(LOWER, UPPER)


@pytest.fixture(scope="module")
def session(values):
    table = pa.table({"uid": np.arange(MILLION), "x": values})
    with shoal.connect({"t": table}, catalog={"tables": {"t": {"owner": "uid"}}}) as opened:
        yield opened


@pytest.mark.slow
def test_quantiles_of_a_million_values_are_within_one_percent_of_rank_or_a_leaf(session, values):
    """Fifty answers: the rank error is about 0.001 at the median, so a false alarm would be ten times as far."""
    ordered = np.sort(values)
    for _ in range(50):
        (row,) = session.query(f"{CLAUSE} {_deciles(9)} FROM t").to_dicts()
        for i in range(1, 10):
            found = row[f"q{i}"]
            rank = np.searchsorted(ordered, found) / MILLION
            assert abs(rank - i / 10) <= 0.01 or abs(found - ordered[i * MILLION // 10]) <= LEAF


def test_nine_quantiles_cost_what_one_does(session):
    one, four, nine = (session.plan(f"{CLAUSE} {_deciles(number)} FROM t") for number in (1, 4, 9))
    assert one.epsilon == four.epsilon == nine.epsilon == 1
    for plan in (one, four, nine):
        assert len(plan.selects[0].releases) == 1
        assert 0.999 < plan.loss.epsilon <= 1


def _deciles(number: int) -> str:
    return ", ".join(f"PERCENTILE_CONT(x, {i / 10}, {BOUNDED}) AS q{i}" for i in range(1, number + 1))
