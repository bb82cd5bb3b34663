"""Intervals end where the exact number can no longer lie: at 0, at the size of a public list, at bounds that are facts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import shoal
from shoal.params import Bounds
from shoal.plan.aggregates import Average, CountRows, Sum, Variance
from shoal.plan.expressions import Column
from shoal.plan.types import DOUBLE
from shoal.release.cuts.widening import Widening

X = Column("x", DOUBLE)
OWNERS = 60
DEFAULTS = {"epsilon": 1.0, "delta": 1e-6}


def test_ends_are_cut_to_what_is_possible():
    cut = Widening(high_factor=Fraction(3), least=Fraction(0), most=Fraction(50))
    low, high = cut.of(np.array([-4.0, 10.0]), np.array([6.0, 20.0]))
    assert (low.tolist(), high.tolist()) == ([0.0, 10.0], [18.0, 50.0])
    low, high = cut.of(np.array([-4.0, 10.0]), np.array([6.0, 20.0]), whole=False)
    assert (low.tolist(), high.tolist()) == ([0.0, 10.0], [6.0, 20.0])


def test_an_interval_that_is_impossible_as_a_whole_stays():
    low, high = Widening(least=Fraction(0), most=Fraction(9)).of(np.array([-8.0, 12.0]), np.array([-2.0, 14.0]))
    assert (low.tolist(), high.tolist()) == ([-8.0, 12.0], [-2.0, 14.0])


def test_what_noise_carried_past_the_possible_goes_no_further():
    ends = np.array([12.0], dtype=object), np.array([26.0], dtype=object)
    low, high = Widening(high_factor=Fraction(8), most=Fraction(12)).of(*ends)
    assert (low[0], high[0]) == (12.0, 26.0)
    low, high = Widening(low_shift=Fraction(100), high_factor=Fraction(8), least=Fraction(0)).of(-ends[1], -ends[0])
    assert (low[0], high[0]) == (-26.0, -12.0)


def test_each_aggregate_knows_what_it_can_be():
    bounds = Bounds(Fraction(0), Fraction(4))
    assert CountRows(None).possible(None) == (0, None)
    assert Sum(X).possible(bounds) == (0, None)
    assert Sum(X).possible(Bounds(Fraction(-4), Fraction(-1))) == (None, 0)
    assert Sum(X).possible(None) == (None, None)
    assert Average(X).possible(bounds) == (0, 4)
    assert Variance(X, 1, sample=False, root=False).possible(bounds) == (0, 4)
    assert Variance(X, 1, sample=False, root=True).possible(bounds) == (0, 2)
    least, most = Variance(X, 1, sample=True, root=True).possible(bounds)
    assert least == 0
    assert 2 * 2**0.5 <= most < 2.83


@pytest.fixture(scope="module")
def few():
    """Several rows of few owners, all of whom have y = 1: every interval reaches for its end."""
    rows = {"uid": [i % OWNERS for i in range(4 * OWNERS)], "y": [1] * (4 * OWNERS), "z": [1.0] * (4 * OWNERS)}
    catalog = {"tables": {"t": {"owner": "uid", "columns": {"z": {"bounds": [0, 1]}}}}, "defaults": DEFAULTS}
    with shoal.connect({"t": rows}, catalog=catalog) as session:
        yield session


@pytest.mark.parametrize(
    "share", ["AVG(CASE WHEN y > 0 THEN 1 ELSE 0 END)", "AVG_ROWS(CASE WHEN y > 0 THEN 1 ELSE 0 END)"]
)
def test_a_share_is_at_most_one(few, share):
    (row,) = few.query(f"SELECT {share} AS s, 100 * {share} AS percent FROM t").intervals().to_dicts()
    assert 0 <= row["s_low"] <= row["s"] <= row["s_high"] <= 1
    assert row["percent_high"] <= 100


def test_bounds_of_the_catalog_are_facts_until_something_is_measured_beyond_them(few):
    (row,) = few.query("SELECT AVG(z) AS m FROM t").intervals().to_dicts()
    assert row["m_high"] <= max(1, row["m"])
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, measure_cut = 0)"
    (row,) = few.query(f"{clause} AVG(z) AS m FROM t").intervals().to_dicts()
    assert row["m_high"] <= max(1, row["m"])


def test_the_number_that_is_shown_is_in_its_interval(few):
    """Noise makes a count negative now and then; its interval goes from there to what is possible."""
    for _ in range(20):
        (row,) = few.query("SELECT COUNT(DISTINCT uid) AS n FROM t WHERE y > 1").intervals().to_dicts()
        assert row["n_low"] <= row["n"] <= row["n_high"]
        assert row["n_low"] >= min(0, row["n"]) or row["n_high"] <= 0


def test_a_list_of_values_in_the_catalog_bounds_what_is_averaged():
    catalog = {"tables": {"t": {"owner": "uid", "columns": {"saved": {"values": [0, 1]}}}}, "defaults": DEFAULTS}
    with shoal.connect({"t": {"uid": list(range(OWNERS)), "saved": [1] * OWNERS}}, catalog=catalog) as session:
        assert session.plan("SELECT AVG(saved) FROM t").selects[0].histograms == ()


# ---- shares ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passengers():
    """Everybody of one sex survived, nobody of the other: averages lie at both ends."""
    rows = {"uid": range(600), "sex": ["f", "m"] * 300, "survived": [1, 0] * 300}
    columns = {"sex": {"values": ["f", "m", "x"]}, "uid": {}, "survived": {"type": "BIGINT"}}
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": columns}},
        "defaults": {"epsilon": 1.0},
    }
    with shoal.connect({"t": rows}, catalog=catalog) as session:
        yield session


def test_an_average_of_what_looks_like_zeros_and_ones_is_a_share(passengers):
    """Noise alone stands out beyond 1 in about one answer of fifty, which are then not cut: eight in a row once in 10¹³ runs."""
    sql = "SELECT sex, AVG(survived) AS rate, 100 * AVG(survived) AS percent FROM t GROUP BY sex"
    answers = [passengers.query(sql).intervals().to_dicts() for _ in range(8)]
    assert any(
        all(r["rate_low"] >= 0 and r["rate_high"] == 1 and r["percent_high"] == 100 for r in a[:1]) for a in answers
    )


def test_whole_numbers_that_are_seen_beyond_one_are_no_shares():
    """A tenth of all owners has 3: nobody takes the others for shares, whatever bounds are found."""
    rows = {"uid": range(4000), "x": [0] * 1800 + [1] * 1800 + [3] * 400, "g": ["a"] * 3600 + ["b"] * 400}
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": {"g": {"values": ["a", "b"]}}}},
        "defaults": {"epsilon": 4.0},
    }
    with shoal.connect({"t": rows}, catalog=catalog) as session:
        answer = session.query("SELECT g, AVG(x) AS m FROM t GROUP BY g").intervals().to_dicts()
    assert {row["g"]: row["m_high"] >= 3 for row in answer}["b"]


@pytest.mark.parametrize("total", ["SUM(COUNT(*)) OVER ()", "NULLIF(SUM(COUNT(*)) OVER (), 0)"])
def test_a_part_of_a_total_is_between_none_and_all_of_it(passengers, total):
    """A group without rows has a noisy count: its share is near 0, and the interval goes no further below than the number."""
    answer = passengers.query(
        f"SELECT sex, ROUND(100.0 * COUNT(*) / {total}, 1) AS pct FROM t WHERE sex <> 'm' GROUP BY sex"
    )
    for row in answer.intervals().to_dicts():
        assert min(0, row["pct"]) <= row["pct_low"] <= row["pct_high"] <= max(100, row["pct"])
