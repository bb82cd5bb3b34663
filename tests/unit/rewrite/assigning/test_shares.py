"""A plan uses what it charges: shares of ε add up, whatever parts the aggregates of a query have in common."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from shoal.accounting.accountants import plan_loss
from shoal.rewrite.assigning.finish import NEARLY_ALL

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
GROUP, ROW = "contribution_bounds_per_group => (0, 9)", "contribution_bounds_per_row => (-2, 9)"
AGGREGATES = (
    "COUNT(DISTINCT uid)",
    f"COUNT(*, {GROUP})",
    f"COUNT(spend, {GROUP})",
    "COUNT(spend)",
    f"SUM(spend, {GROUP})",
    "SUM(spend)",
    "SUM(spend, contribution_bounds_per_group => (0, 0))",
    f"AVG(spend, {GROUP})",
    "AVG(spend)",
    f"VAR_POP(spend, {ROW})",
    f"STDDEV(spend, {ROW})",
    "VAR_POP(spend)",
    f"MEDIAN(spend, {ROW})",
    f"MAX(spend, {ROW})",
    "COUNT(DISTINCT items)",
    "APPROX_BOUNDS(spend)",
    f"AVG_ROWS(spend, {ROW}, max_contributions_per_group => 3)",
    "AVG_ROWS(spend)",
    f"APPROX_QUANTILES(spend, 4, {ROW})",
    f"PERCENTILE_CONT(spend, 0.9, {ROW})",
    f"MIN(items, {ROW})",
)
LIMITS = (
    "max_rows_contributed = 5",
    "max_groups_contributed = 4",
    "max_groups_contributed = 1",
    "max_groups_contributed = 60",
    "max_groups_contributed = AUTO",
    "max_groups_contributed = 3, measure_cut = 0.05",
)


KEYS = (("site, ", " GROUP BY site"), ("site, vip, ", " JOIN customers USING (uid) GROUP BY ROLLUP (site, vip)"))


def statement(draw: random.Random) -> str:
    """A few aggregates, more often than not with parts in common, under some limit and some noise."""
    limit = draw.choice(LIMITS)
    known = [a for a in AGGREGATES if "rows" not in limit or not a.startswith("COUNT") or "=>" not in a]
    items = draw.sample(known, draw.randint(1, 4))
    if draw.random() < 0.2:
        items[0] = f"COUNT(DISTINCT uid, epsilon => {draw.choice(['0.1', '0.3'])})"
    options = ["epsilon = 1", "delta = 1e-6", limit, f"noise = {draw.choice(['LAPLACE', 'AUTO'])}"]
    grouped = draw.random() < 0.6 or "groups" in limit
    keys, by = draw.choice(KEYS) if grouped else ("", "")
    return f"{CLAUSE}({', '.join(options)}) {keys}{', '.join(dict.fromkeys(items))} FROM visits{by}"


@pytest.mark.parametrize("seed", range(80))
def test_a_plan_uses_what_it_charges_or_says_why_not(quiet_shop, seed):
    sql = statement(random.Random(seed))
    selects = quiet_shop.plan(sql).selects  # a rollup is one for each grouping
    used = sum((plan_loss(plan.events).epsilon for plan in selects), Fraction(0))
    left_over = any("is charged is used" in note for plan in selects for note in plan.notes)
    nothing_moves = not any(plan.events for plan in selects)
    assert used <= 1
    assert left_over == (used < NEARLY_ALL and not nothing_moves), sql


@pytest.mark.parametrize(
    "items",
    [
        ("COUNT(spend)", f"AVG(spend, {GROUP})"),
        (f"AVG(spend, {GROUP})", f"VAR_POP(spend, {ROW})"),
        ("APPROX_BOUNDS(spend)", "VAR_POP(spend)"),
    ],
)
def test_parts_that_aggregates_share_get_the_shares_of_all(quiet_shop, items):
    options = "epsilon = 1, max_rows_contributed = 3, noise = LAPLACE"
    for order in (items, items[::-1]):
        plan = quiet_shop.plan(f"{CLAUSE}({options}) {', '.join(order)} FROM visits").selects[0]
        assert plan_loss(plan.events).epsilon >= NEARLY_ALL


def test_a_number_that_nobody_can_move_takes_nothing_from_the_others(quiet_shop):
    still = "SUM(spend, contribution_bounds_per_group => (0, 0))"
    plan = quiet_shop.plan(f"{CLAUSE}(epsilon = 1) COUNT(*, {GROUP}), {still} FROM visits").selects[0]
    assert plan.releases[0].noise.epsilon == pytest.approx(1, rel=1e-9)


def test_an_epsilon_that_is_left_over_is_told(quiet_shop):
    plan = quiet_shop.plan(f"{CLAUSE}(epsilon = 1) COUNT(*, {GROUP}, epsilon => 0.25) FROM visits").selects[0]
    assert plan_loss(plan.events).epsilon <= Fraction(1, 4)
    assert any("Only epsilon = 0.25 of the 1 that is charged is used" in note for note in plan.notes)
