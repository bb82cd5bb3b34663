"""What given limits leave out is measured: one bin per owner, a share of ε that is asked for, a charge that data cannot move."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import SYSTEM
from shoal.plan.limits.sought import CUT_EDGES, KEPT_EDGES
from shoal.release.execute import fresh_sampling_key, measure
from shoal.rewrite.verify.searches import loss_of_search

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
GIVEN = "epsilon = 1, delta = 1e-6, max_groups_contributed = 2"
THREE = "epsilon = 1, delta = 1e-6, kappa = 3"
TOTAL, AGAIN = (
    "SUM(spend, contribution_bounds_per_group => (0, 9))",
    "COUNT(*, contribution_bounds_per_group => (1, 3))",
)
ROWS = "COUNT(*, contribution_bounds_per_group => (0, 3))"
MIDDLE = "MEDIAN(item, contribution_bounds_per_row => (0, 7))"
MEAN, SPREAD = (
    "AVG(spend, contribution_bounds_per_group => (0, 3))",
    "STDDEV(spend, contribution_bounds_per_row => (0, 3))",
)


def tables(owners=600):
    """Owner u has 1 + u mod 9 rows in each of 1 + u mod 5 groups."""
    pairs = [(u, g, r) for u in range(owners) for g in range(1 + u % 5) for r in range(1 + u % 9)]
    uid, place, turn = np.array(pairs).T
    return {"visits": pa.table({"uid": uid, "place": place, "item": turn, "spend": np.full(len(uid), 4.0)})}


def connected(defaults=None, data=None, **table):
    tables_ = {"visits": {"owner": "uid"} | table}
    catalog = {"tables": tables_, "defaults": {"epsilon": 1, "delta": 1e-6} | (defaults or {})}
    return shoal.connect(data or tables(9), catalog=catalog)


def measured(plan):
    """The aggregates of which something is measured."""
    search = plan.selects[0].search
    return [] if search is None else [sought.calls for sought in search.sought if sought.measures]


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        (f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, {ROWS} FROM visits GROUP BY place", [(0,)]),
        (f"{CLAUSE}({GIVEN}) place, {ROWS} FROM visits GROUP BY place", []),
        (f"{CLAUSE}({GIVEN}, measure_cut = 0) place, {ROWS} FROM visits GROUP BY place", []),
        ("SELECT place, COUNT(DISTINCT uid), COUNT(*) FROM visits GROUP BY place", [(0,), (1,)]),
        ("SELECT COUNT(DISTINCT uid) FROM visits", []),
        ("SELECT COUNT(*) FROM visits", []),
        (f"{CLAUSE}(epsilon = 1, measure_cut = 0.1) {ROWS}, {TOTAL} FROM visits", [(0,), (1,)]),
        (f"{CLAUSE}(epsilon = 1, measure_cut = 0.1) {ROWS}, {AGAIN} FROM visits", [(0, 1)]),
        (f"{CLAUSE}(epsilon = 1, measure_cut = 0.1) MEDIAN(spend), AVG(spend) FROM visits", []),
        (f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, {MEAN}, {SPREAD} FROM visits GROUP BY place", [(0, 1)]),
        (f"{CLAUSE}(epsilon = 1, measure_cut = 0.1) {MEAN}, {MIDDLE} FROM visits", [(0,), (1,)]),
        (f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place > 3, {ROWS} FROM visits GROUP BY 1", [(0,)]),
        (f"{CLAUSE}({THREE}, measure_cut = 0.1) place > 3, COUNT(DISTINCT uid) FROM visits GROUP BY 1", []),
    ],
)  # fmt: skip
def test_limits_that_were_given_and_may_cut_something_are_measured(sql, calls):
    assert measured(connected({"max_groups_per_owner": 2}).plan(sql)) == calls


def test_limits_that_are_sought_tell_by_themselves_what_they_cut():
    assert measured(connected().plan("SELECT place, COUNT(*) FROM visits GROUP BY place")) == []
    given = connected(max_rows_per_owner_and_group=3).plan("SELECT place, COUNT(*) FROM visits GROUP BY place")
    assert measured(given) == [(0,)]
    assert [sought.kind for sought in given.selects[0].search.sought] == ["groups", "cut"]


def test_an_owner_who_is_one_row_is_never_cut():
    session = connected({"max_groups_per_owner": 2}, owner="each row")
    assert measured(session.plan("SELECT place, COUNT(*) FROM visits GROUP BY place")) == []


@pytest.mark.parametrize(("share", "sql", "paid"), [
    (None, "SELECT place, COUNT(DISTINCT uid) FROM visits GROUP BY place", Fraction(1, 20)),
    (0, "SELECT place, COUNT(DISTINCT uid) FROM visits GROUP BY place", 0),
    (0.2, "SELECT place, COUNT(DISTINCT uid) FROM visits GROUP BY place", Fraction(1, 5)),
    (0.2, f"{CLAUSE}({GIVEN}) place, COUNT(DISTINCT uid) FROM visits GROUP BY place", Fraction(1, 5)),
    (0.2, f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, COUNT(DISTINCT uid) FROM visits GROUP BY place", Fraction(1, 10)),
])  # fmt: skip
def test_the_query_decides_then_the_catalog(share, sql, paid):
    known = {} if share is None else {"measure_cut": share}
    plan = connected({"max_groups_per_owner": 2} | known).plan(sql).selects[0]
    assert (0 if plan.search is None else 1 - plan.search.epsilon) == paid


@pytest.mark.parametrize("share", ["0.6", "-0.1", "'much'"])
def test_a_share_is_at_most_a_half(share):
    with pytest.raises(ShoalError) as refused:
        connected().plan(f"{CLAUSE}({GIVEN}, measure_cut = {share}) place, {ROWS} FROM visits GROUP BY place")
    assert refused.value.code == "E_OPTION_INVALID"
    with pytest.raises(ShoalError):
        connected({"measure_cut": 0.6})


def test_both_steps_add_up_in_both_currencies():
    sql = f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, {ROWS}, COUNT(DISTINCT item) FROM visits GROUP BY place"
    plan = connected().plan(sql)
    search = plan.selects[0].search
    spent = [histogram.select.options.epsilon for histogram in search.histograms]
    assert spent == [Fraction(1, 20)] * 2
    assert sum(spent) + search.epsilon == plan.epsilon == 1
    assert plan.loss.epsilon <= 1
    assert plan.loss == loss_of_search(plan.selects[0])
    parts = [plan_loss(step.events).zcdp for step in (*search.histograms, search.choices[0])]
    assert plan.loss.zcdp[0] >= sum(rho for rho, _ in parts)
    assert plan.loss.zcdp[1] == sum(delta for _, delta in parts)


def test_the_charge_does_not_depend_on_data():
    sql = f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, {ROWS} AS n FROM visits GROUP BY place"
    spent = set()
    for owners in (1, 40, 600):
        session = connected(data=tables(owners))
        session.query(sql)
        spent.add(session.spent)
    assert spent == {(1.0, 1e-6)}


def test_owners_are_in_the_bin_of_what_is_cut_and_kept_of_them():
    """κ = 2, at most 3 rows: counted by hand, and by the engine before any noise."""
    session = connected(data=tables())
    sql = f"{CLAUSE}({GIVEN}, measure_cut = 0.1) place, {ROWS} FROM visits GROUP BY place"
    histogram = session.plan(sql).selects[0].search.histograms[0]
    found = measure(histogram, session._engine, fresh_sampling_key(), SYSTEM).measurement
    wanted = np.zeros((len(CUT_EDGES) + 1) * (len(KEPT_EDGES) + 1), dtype=int)
    for u in range(600):
        groups, rows = 1 + u % 5, 1 + u % 9
        kept = min(1, Fraction(2, groups)) * groups * min(rows, 3)
        row, column = np.searchsorted(CUT_EDGES, groups * rows - kept), np.searchsorted(KEPT_EDGES, kept)
        wanted[row * (len(KEPT_EDGES) + 1) + column] += 1
    bins = found.keys.column(0).to_pylist()
    assert dict(zip(bins, found.totals[0].tolist(), strict=True)) == dict(enumerate(wanted.tolist()))


def test_owners_are_in_the_bin_of_the_average_of_their_values():
    """Eight bins within [0, 8], edges 8, 24 and 56 beyond: owner u has u mod 9 everywhere, some owners have more, or nothing."""
    spend = [float(u % 9) if u < 90 else None if u < 100 else 20.0 if u < 110 else -1.0 for u in range(120)]
    data = {
        "visits": pa.table(
            {"uid": np.repeat(np.arange(120), 2), "spend": np.repeat(np.array(spend, dtype=object), 2).tolist()}
        )
    }
    session = connected({"measure_cut": 0.1}, data=data)
    plan = session.plan(f"{CLAUSE}(epsilon = 1) AVG(spend, contribution_bounds_per_group => (0, 8)) FROM visits")
    found = measure(plan.selects[0].search.histograms[0], session._engine, fresh_sampling_key(), SYSTEM).measurement
    counts = dict(zip(found.keys.column(0).to_pylist(), found.totals[0].tolist(), strict=True))
    within = {4: 20, **dict.fromkeys(range(5, 12), 10)}
    assert counts == dict.fromkeys(range(16), 0) | within | {3: 10, 13: 10}


def test_an_average_beyond_its_bounds_has_an_end_that_counts_it():
    """Half of all owners have 30, the bounds end at 10; the share of ε is large, so that this holds in all but one run in 10⁶."""
    data = {"visits": pa.table({"uid": np.arange(4000), "spend": np.where(np.arange(4000) % 2, 30.0, 5.0)})}
    session = connected({"measure_cut": 0.5}, data=data, one_row_per_owner=True, columns={"spend": {"bounds": [0, 10]}})
    result = session.query("SELECT AVG(spend) AS a, STDDEV(spend) AS s FROM visits")
    row = result.intervals().to_dicts()[0]
    assert row["a_noise_high"] < 8
    assert row["a_high"] > 17.5
    assert row["s_noise_high"] < 4
    assert row["s_high"] > 12.5
    assert "AVG(spend): owners' values beyond the bounds are clamped; about 50%" in " ".join(result.notes)
    assert session.spent[0] == 1.0


def test_bounds_that_hold_everything_move_little():
    data = {"visits": pa.table({"uid": np.arange(4000), "spend": np.arange(4000) % 10 + 40.0})}
    session = connected(
        {"measure_cut": 0.5}, data=data, one_row_per_owner=True, columns={"spend": {"bounds": [0, 100]}}
    )
    row = session.query("SELECT AVG(spend) AS a FROM visits").intervals().to_dicts()[0]
    assert 44.5 - 10 < row["a_low"] <= row["a_high"] < 44.5 + 10


def test_nothing_is_measured_beyond_bounds_of_constants():
    flags = "SELECT AVG(CASE WHEN spend > 3 THEN 1 ELSE 0 END) AS share FROM visits"
    assert measured(connected(one_row_per_owner=True).plan(flags)) == []
    assert measured(connected().plan(flags)) == [(0,)]


def test_too_few_owners_are_not_measured_and_half_is_assumed():
    session = connected({"max_groups_per_owner": 2, "population": 60}, data=tables(60))
    result = session.query("SELECT place, COUNT(DISTINCT uid) AS n FROM visits GROUP BY place")
    assert measured(session.plan("SELECT place, COUNT(DISTINCT uid) AS n FROM visits GROUP BY place")) == []
    assert "assumes that about half was counted" in " ".join(result.notes)


@pytest.mark.slow
def test_intervals_hold_what_is_cut_and_the_note_names_it():
    """Six answers of a count of which κ and U keep a third; at most one in twenty misses by its noise."""
    session = connected(data=tables(3000))
    sql = f"{CLAUSE}({GIVEN}, measure_cut = 0.1) {ROWS} AS n FROM visits"
    exact = sum((1 + u % 5) * (1 + u % 9) for u in range(3000))
    held = 0
    for _ in range(6):
        result = session.query(sql)
        row = result.intervals().to_dicts()[0]
        held += row["n_low"] <= exact <= row["n_high"]
        assert row["n_noise_high"] < exact
        assert "of rows lie beyond the limits; the limits certainly bind" in " ".join(result.notes)
    assert held >= 3


def test_an_explanation_tells_what_measuring_costs():
    text = str(
        connected({"max_groups_per_owner": 2}).explain("SELECT place, COUNT(DISTINCT uid) FROM visits GROUP BY place")
    )
    assert (
        "step one: what the given limits leave out, by a noisy histogram with one bin for each owner, ε = 0.05" in text
    )
    assert "step two: ε = 0.95" in text
