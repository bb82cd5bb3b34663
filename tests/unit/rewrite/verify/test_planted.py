"""Bugs planted in the passes themselves: every later pass, the charge and the events agree with them, and `verify` does not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from shoal.accounting.events import Shift
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection import thresholds
from shoal.plan.measures import MeasureDefaults, OwnerMean, OwnerSum, RowCount, RowMoment
from shoal.plan.releases import Contribution
from shoal.rewrite import assign_mechanisms, bound_contributions, pipeline
from shoal.rewrite.assigning import gaussian

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
BASE = "epsilon = 1, delta = 1e-6, max_groups_contributed = 4"
BY_SITE = "FROM visits GROUP BY site"
SUMS = f"{CLAUSE}({BASE}) site, SUM(spend, contribution_bounds_per_group => (5, 9)), AVG(items, contribution_bounds_per_group => (0, 9)) {BY_SITE}"  # noqa: E501
ROWS = f"{CLAUSE}({BASE}, noise = LAPLACE) site, VAR_POP(spend, contribution_bounds_per_row => (0, 9), max_contributions_per_group => 3) {BY_SITE}"  # noqa: E501
COUNT = f"{CLAUSE}({BASE}) site, COUNT(*, contribution_bounds_per_group => (0, 4)) {BY_SITE}"
THRESHOLD = COUNT.replace("= 4)", "= 4, noise = LAPLACE, group_selection_strategy = LAPLACE_THRESHOLD)")
QUANTILE = f"{CLAUSE}({BASE}, noise = GAUSSIAN) site, MEDIAN(spend, contribution_bounds_per_row => (0, 9), max_contributions_per_group => 3) {BY_SITE}"  # noqa: E501
PER_GROUP = f"{CLAUSE}({BASE}, noise = GAUSSIAN, inferred_bounds = PER_GROUP) site, SUM(spend) {BY_SITE}"
OWNERS = COUNT.replace("site", "n", 1).replace(BY_SITE, "FROM (SELECT site AS n FROM visits) v GROUP BY n")


def one_group(_select) -> Contribution:
    return Contribution(grouped=True, max_groups=1)


PLANTED = {
    "κ forgotten in the moves": (SUMS, MeasureDefaults, "coordinates", lambda *_: 1),
    "rows in one leaf only": (QUANTILE, MeasureDefaults, "entries", lambda *_: None),
    "κ forgotten in the histogram": (PER_GROUP, gaussian, "bins_shift", lambda *_: Shift(1)),
    "κ forgotten in the count": (THRESHOLD, thresholds, "count_shift", lambda _: Shift(1)),
    "κ = 1 whatever is asked": (COUNT, bound_contributions, "_contribution", one_group),
    "U − L for a sum": (SUMS, OwnerSum, "delta", lambda _, steps: steps.upper - steps.lower),
    "half of the half for a mean": (SUMS, OwnerMean, "delta", lambda _, steps: steps.radius // 2),
    "a count moves by one": (COUNT, RowCount, "delta", lambda *_: 1),
    "rows forgotten": (ROWS, RowMoment, "delta", lambda self, steps: steps.radius**self.power if steps else 1),
    "squares forgotten": (ROWS, RowMoment, "delta", lambda self, steps: self.rows * (steps.radius if steps else 1)),
    "half the scale": (COUNT, calibrate, "laplace_scale", lambda shift, epsilon: shift.l1 / epsilon / 2),
    "τ one too low": (THRESHOLD, calibrate, "threshold_for", lambda *_: 1),
    "ε not charged": (COUNT, pipeline, "_asked_epsilon", lambda _: Fraction(0)),
    "δ not charged": (COUNT, pipeline, "_asked_delta", lambda _: Fraction(0)),
    "ownership not carried": (OWNERS, pipeline, "check_ownership", lambda select, _: select),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_bug_planted_in_the_passes_is_found(quiet_shop, monkeypatch, name):
    sql, place, attribute, bug = PLANTED[name]
    quiet_shop.plan(sql)
    monkeypatch.setattr(place, attribute, bug)
    with pytest.raises(InternalError):
        quiet_shop.plan(sql)


def test_unknown_groups_that_nobody_selects_are_found(quiet_shop, monkeypatch):
    def unselected(draft):
        return replace(draft, needs_selection=False, shared_unit=None)

    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES[:2], unselected, *pipeline.PASSES[3:]))
    with pytest.raises(InternalError):
        quiet_shop.plan(COUNT)


def test_a_minimum_of_owners_that_is_forgotten_is_found(quiet_shop, monkeypatch):
    def forgetful(draft):
        plan = assign_mechanisms.assign_mechanisms(
            replace(draft, select=replace(draft.select, options=replace(draft.select.options, min_owners=1)))
        )
        return replace(plan, select=draft.select)

    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES[:-1], forgetful))
    with pytest.raises(InternalError):
        quiet_shop.plan(COUNT.replace("= 4)", "= 4, min_privacy_units_per_group = 20)"))
