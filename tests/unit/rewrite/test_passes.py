"""Single passes at their edges: contributions, bounds, selection, sizes, mechanisms."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import GaussianNoise, JointGaussian, LaplaceNoise, OptimalSelection, ThresholdSelection
from shoal.exact import power_of_two_below
from shoal.params import Bounds
from shoal.plan.expressions import Column
from shoal.plan.measures import (
    DistinctValues,
    Histogram,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
)
from shoal.plan.releases import Contribution, Inferred
from shoal.plan.totals import grid_measure_of
from shoal.plan.types import DOUBLE
from shoal.rewrite.assigning.sizing import reach, sized
from shoal.rewrite.draft import Part

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
X = Column("c1", DOUBLE)


def planned(session, options: str, items: str, group: str = "site"):
    grouped = f" GROUP BY {group}" if group else ""
    return session.plan(f"{CLAUSE}({options}) {items} FROM visits{grouped}").selects[0]


# ---- bounds --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_one_row():
    """Sessions over a table with one row of each owner, or several."""
    with ExitStack() as stack:

        def opened(*, one_row: bool):
            number = np.arange(500)
            table = pa.table({"uid": number, "x": 1.0 + number % 7, "n": number % 9})
            catalog = {"tables": {"t": {"owner": "uid", "one_row_per_owner": one_row}}}
            return stack.enter_context(shoal.connect({"t": table}, catalog=catalog))

        yield opened


def bounds_found(session, items: str):
    return session.plan(f"{CLAUSE}(epsilon = 1, noise = LAPLACE) {items} FROM t").selects[0]


def test_of_an_owner_with_one_row_all_aggregates_of_a_column_find_bounds_once(of_one_row):
    items = "SUM(x), AVG(x), STDDEV(x)"
    shared, apart = (bounds_found(of_one_row(one_row=one), items) for one in (True, False))
    assert len(shared.histograms) == 1 < len(apart.histograms)
    # As much as each of the three aggregates that read it, and everything together is what was asked for.
    assert shared.histograms[0].price == Fraction(1, 4)
    assert {column.histogram for column in shared.columns} == {0}
    assert Fraction(999, 1000) < plan_loss(shared.events).epsilon <= 1
    mean, other = (plan.releases[plan.columns[1].releases[0]].noise for plan in (shared, apart))
    assert mean.scale / mean.shift.l1 < Fraction(7, 10) * other.scale / other.shift.l1


def test_a_column_apart_or_in_other_bins_is_searched_apart(of_one_row):
    session = of_one_row(one_row=True)
    assert len(bounds_found(session, "SUM(x), SUM(n)").histograms) == 2
    assert len(bounds_found(session, "AVG(x), AVG(x + 1)").histograms) == 2
    assert len(bounds_found(session, "AVG(n), MEDIAN(n), MAX(n)").histograms) == 1
    assert len(bounds_found(session, "SUM(n), AVG(n)").histograms) == 2  # whole numbers have other bins


def test_a_number_of_rows_is_no_value_of_a_row():
    counted, summed = Histogram(RowCount(X)), Histogram(OwnerSum(X, is_integer=True))
    assert not counted.sees_the_same_row(summed)
    assert not summed.sees_the_same_row(counted)
    assert Histogram(OwnerMean(X)).sees_the_same_row(Histogram(Leaves(X, 1)))
    assert not Histogram(OwnerMean(X)).sees_the_same_row(Histogram(OwnerMean(X), per_group=True))


# ---- contributions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "by_groups", "by_rows"),
    [
        (OwnerCount(), (5, None), (8, None)),
        (RowCount(), (5, None), (8, None)),
        (OwnerSum(X, is_integer=False), (5, None), (8, None)),
        (RowMoment(X, 1, 3), (5, None), (1, 8)),
        (DistinctValues(X, 3), (5, None), (1, 8)),
        (Leaves(X, 1), (20, None), (4, 32)),
        (Leaves(X, 3), (20, 60), (4, 32)),
        (Leaves(X, 1, extreme="max"), (20, None), (32, 32)),
    ],
    ids=repr,
)
def test_an_owner_moves_as_many_numbers_as_its_groups_or_rows_allow(measure, by_groups, by_rows):
    groups, rows = Contribution(grouped=True, max_groups=5), Contribution(grouped=True, max_rows=8)
    assert (measure.coordinates(groups), measure.entries(groups)) == by_groups
    assert (measure.coordinates(rows), measure.entries(rows)) == by_rows


def test_without_keys_an_owner_is_seen_once_whatever_is_asked(quiet_shop):
    plan = planned(
        quiet_shop, "epsilon = 1, max_groups_contributed = 100", "COUNT(*, contribution_bounds_per_group => (0, 3))", ""
    )
    assert plan.releases[0].noise.shift.l1 == 3


# ---- sizes ---------------------------------------------------------------------------------------------------------


@given(
    lower=st.fractions(-1000, 1000, max_denominator=50),
    width=st.fractions(0, 1000, max_denominator=50),
    scale=st.fractions(Fraction(1, 10**6), 10**9),
    kind=st.sampled_from(["sum", "whole", "mean", "first", "second", "rows", "count"]),
)
@settings(max_examples=300)
def test_a_size_is_on_a_public_grid_and_covers_what_one_owner_adds_on_it(lower, width, scale, kind):
    measure = {
        "sum": OwnerSum(X, is_integer=False),
        "whole": OwnerSum(X, is_integer=True),
        "mean": OwnerMean(X),
        "first": RowMoment(X, 1, 3),
        "second": RowMoment(X, 2, 3),
        "rows": RowMoment(X, 1, 3, centred=False),
        "count": RowCount(),
    }[kind]
    if Fraction(0) < abs(lower) < Fraction(1, 10**9):
        return
    part = Part(measure, Bounds(lower, lower + width), 2)
    found = sized(part, scale)
    assert found.grid == power_of_two_below(found.grid)
    assert grid_measure_of(measure, part.bounds, found.grid).delta <= found.shift.per_coordinate
    if not measure.is_integer and reach(part):
        assert found.grid <= scale / 2**20


@given(scale=st.fractions(Fraction(1, 10**6), 10**9), rows=st.integers(1, 50))
def test_bounds_to_be_found_are_sized_as_one_unit(scale, rows):
    for measure in (OwnerSum(X, is_integer=True), OwnerMean(X), RowCount(), RowMoment(X, 2, rows)):
        found = sized(Part(measure, Inferred(0), 1), scale)
        assert found.shift.per_coordinate * found.grid >= reach(Part(measure, Inferred(0), 1))


# ---- mechanisms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["OPTIMAL", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD"])
@pytest.mark.parametrize("noise", ["LAPLACE", "GAUSSIAN", "AUTO"])
def test_every_rule_goes_with_every_noise_on_request(quiet_shop, strategy, noise):
    options = (
        f"epsilon = 1, delta = 1e-6, max_groups_contributed = 4, group_selection_strategy = {strategy}, noise = {noise}"
    )
    for items in ("site, COUNT(items)", "site, COUNT(DISTINCT uid), AVG(spend)"):
        plan = planned(quiet_shop, options, items)
        if strategy == "OPTIMAL":
            assert isinstance(plan.selection, OptimalSelection)
        else:
            assert isinstance(plan.selection, ThresholdSelection)
            assert isinstance(plan.selection.noise, LaplaceNoise if strategy == "LAPLACE_THRESHOLD" else GaussianNoise)
        if noise != "AUTO":
            wanted = LaplaceNoise if noise == "LAPLACE" else GaussianNoise
            assert all(isinstance(r.noise, wanted) for r in plan.releases)


def test_few_groups_get_laplace_noise_and_many_get_gaussian(quiet_shop):
    few = planned(
        quiet_shop, "epsilon = 1, delta = 1e-6, kappa = 1", "site, COUNT(*, contribution_bounds_per_group => (0, 5))"
    )
    many = planned(
        quiet_shop,
        "epsilon = 1, delta = 1e-6, max_groups_contributed = 100",
        "site, COUNT(*, contribution_bounds_per_group => (0, 5))",
    )
    assert isinstance(few.releases[0].noise, LaplaceNoise)
    assert isinstance(many.releases[0].noise, GaussianNoise)


def test_noise_grows_with_groups_per_owner_and_falls_with_epsilon(quiet_shop):
    def scale(epsilon: float, kappa: int) -> Fraction:
        options = f"epsilon = {epsilon}, delta = 1e-6, max_groups_contributed = {kappa}, noise = LAPLACE"
        return (
            planned(quiet_shop, options, "site, COUNT(*, contribution_bounds_per_group => (0, 5))")
            .releases[0]
            .noise.scale
        )

    assert 3 * scale(1, 1) < scale(1, 4) <= 4 * scale(1, 1)  # weights leave more of epsilon to the numbers
    assert scale(2, 1) < scale(1, 1)


def test_gaussian_noise_is_one_joint_release_charged_once(quiet_shop):
    plan = planned(
        quiet_shop, "epsilon = 1, delta = 1e-6, kappa = 1, noise = GAUSSIAN", "COUNT(items), SUM(spend), AVG(spend)", ""
    )
    (joint,) = plan.events
    assert isinstance(joint, JointGaussian)
    assert (joint.epsilon, joint.delta) == (1, Fraction(1, 10**6))
    assert len(joint.parts) == len(plan.releases) + len(plan.histograms)


def test_an_aggregates_own_epsilon_is_what_it_gets(quiet_shop):
    items = "SUM(items, contribution_bounds_per_group => (0, 8), epsilon => 0.75), COUNT(DISTINCT uid)"
    plan = planned(quiet_shop, "epsilon = 1, noise = LAPLACE", items, "")
    assert [float(r.noise.epsilon) for r in plan.releases] == pytest.approx([0.75, 0.25], abs=1e-6)


def test_a_constant_is_answered_without_noise(open_shop):
    session = open_shop()
    items = "SUM(spend, contribution_bounds_per_group => (0, 0)) AS s, AVG(spend, contribution_bounds_per_group => (2.5, 2.5)) AS a"
    result = session.query(f"{CLAUSE}(epsilon = 0.001) {items} FROM visits")
    assert result.to_dicts() == [{"s": 0.0, "a": 2.5}]
    (ends,) = result.intervals().to_dicts()
    assert (ends["s_low"], ends["s_high"], ends["a_low"], ends["a_high"]) == (0.0, 0.0, 2.5, 2.5)


@pytest.mark.parametrize("epsilon", ["1e-10", "1e-3", "1", "50", "1e6"])
@pytest.mark.parametrize(
    "items",
    [
        "COUNT(*, contribution_bounds_per_group => (0, 5))",
        "SUM(spend)",
        "AVG(spend)",
        "VAR_POP(spend)",
        "MEDIAN(spend)",
    ],
)
def test_every_epsilon_that_is_allowed_can_be_planned(quiet_shop, epsilon, items):
    for group in ("", "site"):
        plan = planned(quiet_shop, f"epsilon = {epsilon}, delta = 1e-9", f"{'site, ' if group else ''}{items}", group)
        assert plan.events
