"""Single passes at their edges: contributions, bounds, selection, sizes, mechanisms."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.events import GaussianNoise, JointGaussian, LaplaceNoise, OptimalSelection, ThresholdSelection
from shoal.exact import power_of_two_below
from shoal.params import Bounds
from shoal.plan.expressions import Column
from shoal.plan.measures import (
    DistinctValues,
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
