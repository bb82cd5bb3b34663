"""Uneven weights: no number and no group fares worse than under the even Laplace split ε/(N + 1)."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    OptimalSelection,
    QuantileChoice,
    Shift,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.mechanisms.calibrate import laplace_scale, threshold_for
from shoal.mechanisms.group_selection import half_point, typical_owners
from shoal.mechanisms.regret import expected_groups
from shoal.rewrite import assign_mechanisms
from shoal.rewrite.assigning import candidate
from shoal.rewrite.assigning.budget import Budget
from shoal.rewrite.assigning.laplace import laplace_noise, laplace_shares
from shoal.rewrite.assigning.weights import leaning_shares
from shoal.session import connect

VALUES = "COUNT(DISTINCT spend, max_contributions_per_group => 2)"
AGGREGATES = (
    "COUNT(*, contribution_bounds_per_group => (0, 4))",
    "SUM(spend, contribution_bounds_per_group => (0, 64))",
    "SUM(spend + 1, contribution_bounds_per_group => (-16, 64))",
    "COUNT(spend, contribution_bounds_per_group => (0, 2))",
    *(f"SUM(spend + {number}, contribution_bounds_per_group => (0, 100))" for number in range(2, 8)),
)


@pytest.fixture(scope="module")
def session():
    rows = pa.table({"uid": [1], "site": ["a"], "spend": [1.0]})
    with connect({"visits": rows}, {"tables": {"visits": {"owner": "uid"}}}) as opened:
        yield opened


def planned(session, count, epsilon, delta, kappa, strategy="AUTO"):
    options = f"epsilon = {epsilon}, delta = {delta}, max_groups_contributed = {kappa}"
    options += f", group_selection_strategy = {strategy}"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, {', '.join(AGGREGATES[:count])} FROM visits GROUP BY 1"
    return session.plan(sql).selects[0]


def median(noise):
    scale = math.log(2) * noise.scale if isinstance(noise, LaplaceNoise) else 0.67448975 * float(noise.sigma)
    return float(scale) * float(noise.grid)


def half_width(noise):
    scale = math.log(20) * noise.scale if isinstance(noise, LaplaceNoise) else 1.96 * float(noise.sigma)
    return float(scale) * float(noise.grid)


def numbers(plan):
    """The release that each column shows; what is missing to its bound is read besides."""
    return [plan.releases[column.releases[0]] for column in plan.columns]


def even_scales(plan, epsilon):
    """The Laplace scales of the even split, in the analyst's units."""
    share = Fraction(epsilon) / (len(plan.columns) + 1)
    return [float(r.noise.shift.l1 * r.noise.grid / share) for r in numbers(plan)]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("kappa", [1, 2, 5, 50])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-9"), ("8", "1e-5")])
def test_no_number_and_no_group_fares_worse_than_under_the_even_split(session, count, kappa, epsilon, delta):
    plan = planned(session, count, epsilon, delta, kappa)
    assert len(plan.columns) == count
    for release, scale in zip(numbers(plan), even_scales(plan, epsilon), strict=True):
        assert half_width(release.noise) <= math.log(20) * scale * 1.0001
        assert median(release.noise) <= math.log(2) * scale * 1.0001
    share = Fraction(epsilon) / (count + 1)
    optimal = OptimalSelection(share, Fraction(delta), kappa)
    noise = LaplaceNoise(Shift(1, kappa), laplace_scale(Shift(1, kappa), share))
    threshold = ThresholdSelection(noise, threshold_for(noise, kappa, Fraction(delta)), Fraction(delta), kappa)
    assert half_point(plan.selection) <= min(half_point(optimal), half_point(threshold))


@pytest.mark.parametrize("strategy", ["OPTIMAL", "LAPLACE_THRESHOLD"])
@pytest.mark.parametrize(("count", "kappa", "gain"), [(1, 1, 1), (1, 50, 2.4), (3, 5, 1), (4, 50, 4.9)])
def test_a_rule_that_was_named_leaves_the_noise_to_the_planner(session, strategy, count, kappa, gain):
    plan = planned(session, count, "1", "1e-6", kappa, strategy)
    if isinstance(plan.selection, WholeSelection):
        gain = 1  # a threshold that reads what is released: less exact numbers than Gaussian noise has, and more groups
    for release, scale in zip(numbers(plan), even_scales(plan, "1"), strict=True):
        assert half_width(release.noise) * gain <= math.log(20) * scale * 1.0001
    share, delta = Fraction(1, count + 1), Fraction(1, 10**6)
    rule = OptimalSelection(share, delta, kappa)
    if strategy == "LAPLACE_THRESHOLD":
        noise = LaplaceNoise(Shift(1, kappa), laplace_scale(Shift(1, kappa), share))
        rule = ThresholdSelection(noise, threshold_for(noise, kappa, delta), delta, kappa)
    assert half_point(plan.selection) <= half_point(rule)


def test_with_room_to_spare_the_typical_error_is_smaller_too_and_groups_need_far_fewer_owners(session):
    plan = planned(session, 2, "1", "1e-6", 5)
    for release, scale in zip(numbers(plan), even_scales(plan, "1"), strict=True):
        assert median(release.noise) <= 0.985 * math.log(2) * scale
    noise = LaplaceNoise(Shift(1, 5), Fraction(15))
    assert 1.6 * half_point(plan.selection) < threshold_for(noise, 5, Fraction(1, 10**6))


def test_a_selection_that_needs_less_leaves_more_to_the_numbers(session):
    options = "epsilon = 1, delta = 1e-6, max_groups_contributed = 5"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, {VALUES} FROM visits GROUP BY site"
    (plan,) = session.plan(sql).selects
    ((release,), (scale,)) = plan.releases, even_scales(plan, "1")
    assert isinstance(plan.selection, WeightedSelection)
    assert 1.2 * median(release.noise) < math.log(2) * scale
    assert half_point(plan.selection) <= half_point(OptimalSelection(Fraction(1, 2), Fraction(1, 10**6), 5))


@pytest.mark.parametrize(("delta", "kind"), [("1e-6", GaussianNoise), ("1e-9", LaplaceNoise)])
def test_a_count_that_also_selects_goes_by_how_large_groups_may_be(session, delta, kind):
    options = f"epsilon = 1, delta = {delta}, max_groups_contributed = 10"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, COUNT(DISTINCT uid) FROM visits GROUP BY site"
    (plan,) = session.plan(sql).selects
    assert isinstance(plan.releases[0].noise, kind)
    other = "LAPLACE" if kind is GaussianNoise else "GAUSSIAN"
    assert f"noise = {other} would give typical errors" in str(session.explain(sql))


@pytest.mark.parametrize(
    ("kappa", "count", "rule"),
    [(2, 1, WholeSelection), (5, 1, WholeSelection), (10, 1, WeightedSelection), (5, 2, WeightedSelection)],
)
def test_weights_select_where_they_are_expected_to_show_clearly_more_groups(session, kappa, count, rule):
    """Next to a sum and what is missing to its bound, whose errors are up to half as large."""
    plan = planned(session, count, "1", "1e-6", kappa)
    weighed, whole = (planned(session, count, "1", "1e-6", kappa, s) for s in ("WEIGHTED", "LAPLACE_THRESHOLD"))
    shown = [expected_groups(typical_owners(each.selection), 1e4) for each in (weighed, whole)]
    assert isinstance(plan.selection, rule)
    assert (shown[0] >= 1.1 * shown[1]) == (rule is WeightedSelection)
    assert any("Weights are expected to show" in note for note in plan.notes) == (rule is WeightedSelection)


def test_quantiles_are_not_read_off_a_tree_for_more_groups(session):
    median = "PERCENTILE_CONT(spend, 0.5, contribution_bounds_per_row => (0, 64), max_contributions_per_group => 1)"
    options = "epsilon = 1, delta = 1e-6, max_groups_contributed = 5"
    sql = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, {median}, {AGGREGATES[1]} FROM visits GROUP BY site"
    )
    assert any(isinstance(release.noise, QuantileChoice) for release in session.plan(sql).selects[0].releases)


ROW = "contribution_bounds_per_row => (0, 64)"
MIXED = {
    "AVG": "AVG(spend, contribution_bounds_per_group => (0, 64))",
    "VAR": f"VAR_POP(spend, {ROW}, max_contributions_per_group => 2)",
    "p50": f"PERCENTILE_CONT(spend, 0.5, {ROW}, max_contributions_per_group => 1)",
    "p95": f"PERCENTILE_CONT(spend, 0.95, {ROW}, max_contributions_per_group => 1)",
    "MIN": f"MIN(spend, {ROW})",
    "SUM": AGGREGATES[1],
    "owners": "COUNT(DISTINCT uid)",
}


@pytest.mark.parametrize("kappa", [1, 5, 50])
@pytest.mark.parametrize(
    "names",
    ["AVG", "VAR", "p50", "p95", "MIN", "AVG SUM", "VAR SUM", "p50 SUM", "p95 p50 SUM", "owners AVG", "owners VAR p50"],
)
def test_no_other_aggregate_fares_worse_than_under_the_even_split(session, monkeypatch, names, kappa):
    """The even split has Laplace noise on the same parts, and on a tree, with ε/(N + 1) for each aggregate."""
    kept = []
    honest = assign_mechanisms.best_assignment
    monkeypatch.setattr(assign_mechanisms, "best_assignment", lambda draft: kept.append(draft) or honest(draft))
    options = f"epsilon = 1, delta = 1e-6, max_groups_contributed = {kappa}"
    items = ", ".join(MIXED[name] for name in names.split())
    session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, {items} FROM visits GROUP BY site")
    draft = kept[0]
    best = honest(draft)
    share = Fraction(1, len(names.split()) + 1)
    budget = Budget(draft)
    budget.units = [share for _ in draft.units]
    parts, _ = laplace_shares(draft, budget)
    even = [laplace_noise(part, epsilon) for part, epsilon in zip(draft.parts, parts, strict=True)]
    pairs = list(zip(best.medians(), [median(noise) for noise in even if noise.shift.l1], strict=True))
    assert all(ours <= theirs * 1.0001 for ours, theirs in pairs)
    assert best.half_point() <= half_point(OptimalSelection(share, Fraction(1, 10**6), kappa)) + (names[:6] == "owners")


@settings(deadline=None)
@given(
    needed=st.lists(st.floats(0, 2), min_size=1, max_size=6),
    selecting=st.sampled_from([0.0, 1.0]),
)
def test_shares_add_up_and_lean_no_further_than_allowed(needed, selecting):
    reaches = [(1.0, 2.0)] * len(needed)
    shares = leaning_shares(needed, reaches, selecting)
    rest = 1 - sum(shares)
    assert rest > -1e-9
    if selecting:
        assert all(rest * 0.999 <= share <= rest * 2.001 for share in shares)
    else:
        assert rest < 1e-9
        assert max(shares) <= 2.001 * min(shares)


@pytest.mark.parametrize("noise", ["AUTO", "LAPLACE", "GAUSSIAN"])
@pytest.mark.parametrize("kappa", [1, 10, 10**6])
@pytest.mark.parametrize("items", ["COUNT(*)", "COUNT(DISTINCT uid)", "SUM(spend), AVG(spend)"])
def test_the_smallest_delta_can_be_planned_with(session, noise, kappa, items):
    options = f"epsilon = 1, delta = 1e-300, noise = {noise}, max_groups_contributed = {kappa}"
    assert session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site, {items} FROM visits GROUP BY site")


@pytest.mark.parametrize("noise", ["AUTO", "LAPLACE", "GAUSSIAN"])
@pytest.mark.parametrize("strategy", ["AUTO", "OPTIMAL", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD", "WEIGHTED"])
@pytest.mark.parametrize(
    "parameters", ["epsilon = 3, delta = 0.01", "epsilon = 1e-10, delta = 1e-15", "epsilon = 1e6, delta = 0.1"]
)
def test_groups_without_any_aggregate_are_planned_in_every_way(session, noise, strategy, parameters):
    options = f"{parameters}, noise = {noise}, group_selection_strategy = {strategy}, max_groups_contributed = 2"
    (plan,) = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) site FROM visits GROUP BY site"
    ).selects
    assert plan.selection is not None
    assert not plan.releases


def test_how_far_the_numbers_of_a_candidate_stray_is_found_once(monkeypatch):
    asked = []
    monkeypatch.setattr(candidate, "_width", lambda noise, width=candidate._width: asked.append(noise) or width(noise))
    noises = tuple(LaplaceNoise(Shift(1), Fraction(scale)) for scale in (2, 3))
    made = candidate.Candidate(noises, (), None, shared=False, events=noises, why="")
    assert made.widths() == made.widths()
    assert made.medians() == tuple(made.errors())
    assert asked == list(noises)
