"""Bugs planted in the search for limits are found by `verify`, before anything is read or charged."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

import shoal
from shoal.errors import InternalError
from shoal.plan.aggregates import CountRows
from shoal.plan.limits.sought import Search
from shoal.plan.measures import LimitedInAll
from shoal.rewrite import pipeline
from shoal.rewrite.assigning import laplace
from shoal.rewrite.assigning.laplace import laplace_noise
from shoal.rewrite.limits import open_limits, search
from shoal.rewrite.limits.cuts import cut_select
from shoal.rewrite.limits.histograms import histogram_select
from shoal.rewrite.limits.open_limits import with_limits
from shoal.rewrite.limits.search import as_given

SQL = "SELECT place, COUNT(*) FROM visits GROUP BY place"


@pytest.fixture
def session():
    catalog = {"tables": {"visits": {"owner": "uid"}}, "defaults": {"epsilon": 1, "delta": 1e-6}}
    return shoal.connect({"visits": pa.table({"uid": [1, 2], "place": [1, 1]})}, catalog=catalog)


def in_three_bins(*arguments):
    asked = histogram_select(*arguments)
    return replace(asked, options=replace(asked.options, max_groups_per_owner=3))


def dearer_histograms(select, sought, prefix, epsilon):
    return histogram_select(select, sought, prefix, 3 * epsilon)


def all_of_epsilon(select, limits, _epsilon):
    return with_limits(select, limits, select.options.epsilon)


def other_rows(select, limits, epsilon):
    return replace(with_limits(select, limits, epsilon), keys=select.keys[:0])


def more_owners_than_asked(select, limits, epsilon):
    asked = with_limits(select, limits, epsilon)
    return replace(asked, options=replace(asked.options, delta=Fraction(1, 10)))


def more_rows_than_noise_is_for(select, limits, epsilon):
    asked = with_limits(select, limits, epsilon)
    counted = (replace(call, aggregate=replace(call.aggregate, rows=7)) for call in asked.aggregates)
    return replace(asked, aggregates=tuple(counted))


def groups_instead_of_rows(select, limits, epsilon):
    asked = with_limits(select, limits, epsilon)
    return replace(asked, options=replace(asked.options, max_rows_per_owner=None, max_groups_per_owner=1))


def measured_in_three_bins(*arguments):
    asked = cut_select(*arguments)
    return replace(asked, options=replace(asked.options, max_groups_per_owner=3))


def measured_for_more(select, cut, prefix, epsilon):
    return cut_select(select, cut, prefix, 2 * epsilon)


def measured_for_less(select, cut, prefix, epsilon):
    return cut_select(select, cut, prefix, epsilon / 2)


def measured_by_rows(*arguments):
    asked = cut_select(*arguments)
    return replace(asked, aggregates=tuple(replace(call, aggregate=CountRows(None)) for call in asked.aggregates))


def answered_with_all(select, _epsilon):
    return as_given(select, select.options.epsilon)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("cut_select", measured_in_three_bins),
        ("cut_select", measured_for_more),
        ("cut_select", measured_for_less),
        ("cut_select", measured_by_rows),
        ("as_given", answered_with_all),
    ],
    ids=["three bins", "dearer", "cheaper", "rows, not owners", "ε twice"],
)
@pytest.mark.parametrize(
    "cuts", ["COUNT(*, contribution_bounds_per_group => (0, 3))", "AVG(uid, contribution_bounds_per_group => (0, 9))"]
)
def test_a_bug_in_measuring_what_limits_cut_is_found(session, monkeypatch, name, bug, cuts):
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2, measure_cut = 0.1) "
        f"place, {cuts} FROM visits GROUP BY place"
    )
    session.plan(sql)
    monkeypatch.setattr(search, name, bug)
    with pytest.raises(InternalError):
        session.plan(sql)
    assert session.spent == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("histogram_select", in_three_bins),
        ("histogram_select", dearer_histograms),
        ("with_limits", all_of_epsilon),
        ("with_limits", other_rows),
        ("with_limits", more_owners_than_asked),
        ("MARGIN", Fraction(1, 2)),
        ("Search", lambda sought, histograms, choices, epsilon: Search(sought, histograms, choices[:1], epsilon)),
    ],
    ids=[
        "three bins",
        "dearer histograms",
        "ε twice",
        "another question",
        "another δ",
        "ρ too small",
        "one choice charged",
    ],
)
def test_a_bug_in_the_search_is_found(session, monkeypatch, name, bug):
    session.plan(SQL)
    monkeypatch.setattr(search, name, bug)
    with pytest.raises(InternalError):
        session.plan(SQL)
    assert session.spent == (0.0, 0.0)


@pytest.mark.parametrize("bug", [more_rows_than_noise_is_for, groups_instead_of_rows], ids=["more rows", "no limit"])
def test_a_bug_in_limiting_rows_in_all_groups_is_found(monkeypatch, bug):
    catalog = {
        "tables": {"visits": {"owner": "uid", "columns": {"place": {"values": [1, 2]}}}},
        "defaults": {"epsilon": 1, "delta": 1e-6},
    }
    session = shoal.connect({"visits": pa.table({"uid": [1, 2], "place": [1, 1]})}, catalog=catalog)
    session.plan(SQL)
    monkeypatch.setattr(search, "with_limits", bug)
    with pytest.raises(InternalError):
        session.plan(SQL)


def limited_in_all(select, limits, epsilon):
    return with_limits(select, replace(limits, in_all=tuple(range(len(limits.of_call)))), epsilon)


@pytest.mark.parametrize("found", ["nobody sought", "groups are selected"])
def test_a_limit_for_all_groups_that_nobody_sought_is_found(session, monkeypatch, found):
    session.plan(SQL)
    monkeypatch.setattr(search, "with_limits", limited_in_all)
    if found == "groups are selected":
        monkeypatch.setattr(open_limits, "limits_in_all", lambda *_: True)
    with pytest.raises(InternalError, match=found):
        session.plan(SQL)


@pytest.fixture
def listed():
    columns = {"place": {"values": [1, 2, 3]}}
    catalog = {"tables": {"visits": {"owner": "uid", "columns": columns}}, "defaults": {"epsilon": 1, "delta": 1e-6}}
    return shoal.connect({"visits": pa.table({"uid": [1, 2], "place": [1, 1]})}, catalog=catalog)


def noise_for_half(part, epsilon):
    """As if the limit were half as large: what is cut to T is hidden as if it were cut to T/2."""
    honest = laplace_noise(part, epsilon)
    if not part.measure.limited_in_all:
        return honest
    return replace(honest, shift=replace(honest.shift, per_coordinate=honest.shift.per_coordinate // 2))


def noise_for_one_group(measure, contribution):
    """As if all of it were in one group: an owner touches κ."""
    return 1 if measure.limited_in_all else contribution.groups


BESIDE = "SELECT place, COUNT(*), SUM(uid) FROM visits GROUP BY place"


def test_noise_for_half_of_a_limit_for_all_groups_is_found(listed, monkeypatch):
    listed.plan(BESIDE)
    monkeypatch.setattr(laplace, "laplace_noise", noise_for_half)
    pipeline._remembered.cache_clear()
    with pytest.raises(InternalError, match="further than its noise covers"):
        listed.plan(BESIDE)
    pipeline._remembered.cache_clear()


def test_fewer_groups_than_a_limit_is_spread_over_are_found(listed, monkeypatch):
    listed.plan(BESIDE)
    monkeypatch.setattr(LimitedInAll, "entries", noise_for_one_group)
    pipeline._remembered.cache_clear()
    with pytest.raises(InternalError, match="further than its noise covers"):
        listed.plan(BESIDE)
    pipeline._remembered.cache_clear()
