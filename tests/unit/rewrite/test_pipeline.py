"""The road of a plan, and its last act: a plan that is tampered with anywhere is an internal error, never a release."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

import shoal
from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    OptimalSelection,
    SelectedGaussian,
    Shift,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.errors import InternalError
from shoal.plan.measures import OwnerCount
from shoal.plan.public_facts import PublicFacts
from shoal.rewrite import pipeline
from shoal.rewrite.assign_mechanisms import assign_mechanisms
from shoal.rewrite.verify.statement import verify

if TYPE_CHECKING:
    from shoal.plan.releases import SelectPlan

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
BASE = "epsilon = 1, delta = 1e-6, max_groups_contributed = 2"
LAPLACE = f"{BASE}, noise = LAPLACE"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 4))"
DIFFERENT = "COUNT(DISTINCT items, max_contributions_per_group => 2)"
TOTAL = "SUM(spend, contribution_bounds_per_group => (0, 9))"
MEDIAN = "MEDIAN(spend, contribution_bounds_per_row => (0, 9), max_contributions_per_group => 3)"
BY_SITE = "FROM visits GROUP BY site"
QUERIES = {
    "one sum": f"{CLAUSE}(epsilon = 1) {TOTAL} FROM visits",
    "two equal counts": f"{CLAUSE}(epsilon = 1, kappa = 1) COUNT(DISTINCT site), COUNT(DISTINCT items) FROM visits",
    "optimal": f"{CLAUSE}({LAPLACE}, group_selection_strategy = OPTIMAL) site, {COUNT} {BY_SITE}",
    "threshold of its own": f"{CLAUSE}({LAPLACE}, group_selection_strategy = LAPLACE_THRESHOLD) site, {DIFFERENT} {BY_SITE}",
    "threshold on a whole": f"{CLAUSE}({LAPLACE}) site, {COUNT}, {TOTAL} {BY_SITE}",
    "shared threshold": f"{CLAUSE}({LAPLACE}) site, COUNT(DISTINCT uid) {BY_SITE}",
    "Gaussian": f"{CLAUSE}({BASE}, noise = GAUSSIAN) site, SUM(spend), AVG(items) {BY_SITE}",
    "quantiles": f"{CLAUSE}(epsilon = 1) {MEDIAN} FROM visits",
    "rows": f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_rows_contributed = 5) site, COUNT(*), {TOTAL} {BY_SITE}",
}


def tampered(quiet_shop, monkeypatch, name: str, change) -> None:
    """Plans a query with a last pass that does something else; it must not come out."""

    def last(draft) -> SelectPlan:
        return change(assign_mechanisms(draft))

    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES[:-1], last))
    with pytest.raises(InternalError):
        quiet_shop.plan(QUERIES[name])


@pytest.mark.parametrize("name", QUERIES)
def test_plans_as_they_are_pass(quiet_shop, name):
    plan = quiet_shop.plan(QUERIES[name])
    assert verify(plan, quiet_shop._catalog) is plan
    assert plan.loss.epsilon <= plan.epsilon
    assert plan.loss.delta <= plan.delta


def smaller(noise):
    """The same noise at nine tenths of its scale."""
    if not isinstance(noise, GaussianNoise):
        return replace(noise, scale=noise.scale * Fraction(9, 10))
    return replace(noise, sigma=noise.sigma * Fraction(9, 10))


def changed_noise(plan: SelectPlan, change) -> SelectPlan:
    """A plan in which some noise is another, consistently: in releases, in events and in the selection."""

    def event(e):
        match e:
            case LaplaceNoise():
                return change(e)
            case JointGaussian():
                return replace(e, parts=tuple(change(p) for p in e.parts))
            case SelectedGaussian():
                return replace(e, parts=tuple(change(p) for p in e.parts), selection=event(e.selection))
            case ThresholdSelection() | WeightedSelection():
                return replace(e, noise=change(e.noise))
        return e

    return replace(
        plan,
        releases=tuple(replace(r, noise=change(r.noise)) for r in plan.releases),
        histograms=tuple(replace(h, noise=change(h.noise)) for h in plan.histograms),
        selection=event(plan.selection) if plan.selection is not None else None,
        events=tuple(map(event, plan.events)),
    )


@pytest.mark.parametrize("name", QUERIES)
def test_a_pass_that_gives_too_small_a_scale_is_found_out(quiet_shop, monkeypatch, name):
    tampered(quiet_shop, monkeypatch, name, lambda plan: changed_noise(plan, smaller))


@pytest.mark.parametrize("name", QUERIES)
def test_a_smaller_scale_in_the_release_alone_is_found_out(quiet_shop, monkeypatch, name):
    tampered(
        quiet_shop,
        monkeypatch,
        name,
        lambda plan: replace(plan, releases=tuple(replace(r, noise=smaller(r.noise)) for r in plan.releases)),
    )


@pytest.mark.parametrize("name", QUERIES)
def test_a_release_that_is_not_charged_is_found_out(quiet_shop, monkeypatch, name):
    tampered(quiet_shop, monkeypatch, name, lambda plan: replace(plan, events=plan.events[1:]))


def test_two_equal_draws_that_are_charged_once_are_found_out(quiet_shop, monkeypatch):
    def once(plan: SelectPlan) -> SelectPlan:
        first, second = plan.events
        assert first == second
        return replace(plan, events=(first,))

    tampered(quiet_shop, monkeypatch, "two equal counts", once)


@pytest.mark.parametrize(
    "name", ["optimal", "threshold of its own", "threshold on a whole", "shared threshold", "Gaussian"]
)
def test_a_selection_that_is_not_charged_is_found_out(quiet_shop, monkeypatch, name):
    def uncharged(plan: SelectPlan) -> SelectPlan:
        return replace(
            plan,
            events=tuple(
                JointGaussian(e.parts, e.epsilon, e.delta) if isinstance(e, SelectedGaussian) else e
                for e in plan.events
                if not isinstance(e, (OptimalSelection, ThresholdSelection, WeightedSelection, WholeSelection))
            ),
        )

    tampered(quiet_shop, monkeypatch, name, uncharged)


def test_the_noise_of_a_threshold_that_is_not_charged_is_found_out(quiet_shop, monkeypatch):
    def uncharged(plan: SelectPlan) -> SelectPlan:
        return replace(plan, events=tuple(e for e in plan.events if e != plan.selection.noise))

    tampered(quiet_shop, monkeypatch, "threshold of its own", uncharged)


@pytest.mark.parametrize("name", ["threshold of its own", "threshold on a whole", "shared threshold", "Gaussian"])
def test_a_threshold_that_is_too_low_is_found_out(quiet_shop, monkeypatch, name):
    def lower(plan: SelectPlan) -> SelectPlan:
        low = replace(plan.selection, threshold=plan.selection.threshold - 1)
        return replace(plan, selection=low, events=tuple(low if e == plan.selection else e for e in plan.events))

    tampered(quiet_shop, monkeypatch, name, lower)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in {"two equal counts", "Gaussian"}])
def test_a_shift_that_is_declared_too_small_is_found_out_though_the_ratio_is_kept(quiet_shop, monkeypatch, name):
    """Half the shift with half the scale claims the same ε; what one owner really moves is measured again.

    (A count of one in one group cannot be halved; bounds that are found are measured against the shift when they are found.)
    """

    def halved(noise):
        shift = (
            replace(noise.shift, per_coordinate=max(1, noise.shift.per_coordinate // 2))
            if noise.shift.per_coordinate > 1
            else None
        )
        if shift is None:
            shift = Shift(noise.shift.per_coordinate, max(1, noise.shift.coordinates // 2), None)
        ratio = Fraction(shift.l1, noise.shift.l1) if noise.shift.l1 else Fraction(1)
        if isinstance(noise, GaussianNoise):
            return replace(noise, shift=shift)
        return replace(noise, shift=shift, scale=noise.scale * ratio)

    tampered(quiet_shop, monkeypatch, name, lambda plan: changed_noise(plan, halved))


def test_a_count_that_selects_must_be_the_count_that_is_shown(quiet_shop, monkeypatch):
    tampered(quiet_shop, monkeypatch, "shared threshold", lambda plan: replace(plan, shared_count=None))
    tampered(
        quiet_shop,
        monkeypatch,
        "shared threshold",
        lambda plan: replace(
            plan, releases=tuple(replace(r, measure=OwnerCount(plan.select.keys[0][1])) for r in plan.releases)
        ),
    )


def test_an_answer_of_a_tampered_plan_is_never_given_and_nothing_is_spent(open_shop, monkeypatch):
    session = open_shop(budget=(5, 1e-5))
    monkeypatch.setattr(
        pipeline, "PASSES", (*pipeline.PASSES[:-1], lambda draft: changed_noise(assign_mechanisms(draft), smaller))
    )
    with pytest.raises(shoal.InternalError):
        session.query(QUERIES["one sum"])
    assert session.spent == (0.0, 0.0)


def test_passes_that_do_not_end_in_a_plan_are_a_bug(quiet_shop, monkeypatch):
    monkeypatch.setattr(pipeline, "PASSES", pipeline.PASSES[:-1])
    with pytest.raises(InternalError):
        quiet_shop.plan(QUERIES["one sum"])


# ---- bounds that are found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["LAPLACE", "GAUSSIAN"])
def test_an_aggregate_whose_measures_belong_to_one_before_it_reads_the_same_histogram(open_shop, noise):
    """A mean of rows is made of what their variance is made of: two of its three sums."""
    session = open_shop()
    for listed in ("VAR_POP(spend), AVG_ROWS(spend)", "AVG_ROWS(spend), VAR_POP(spend)"):
        sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6, noise = {noise}) {listed} FROM visits"
        (plan,) = session.plan(sql).selects
        assert len(plan.histograms) == 1
        assert [column.histogram for column in plan.columns] == [0, 0]
        assert session.query(sql).to_arrow().num_rows == 1


# ---- limits --------------------------------------------------------------------------------------------------------


def test_joins_with_large_public_tables_are_refused_before_anything_is_read(open_shop, shop_tables, monkeypatch):
    session = open_shop()
    session._facts = PublicFacts({"regions": 10_000})
    sql = f"{CLAUSE}(epsilon = 1) COUNT(*) FROM customers CROSS JOIN regions a CROSS JOIN regions b"
    with pytest.raises(shoal.ShoalError) as refused:
        session.plan(sql)
    assert refused.value.code == "E_LIMITS"
    session.plan(f"{CLAUSE}(epsilon = 1) COUNT(*) FROM customers CROSS JOIN regions a")
    session.plan(
        f"{CLAUSE}(epsilon = 1) COUNT(*) FROM customers WHERE EXISTS (SELECT 1 FROM regions a CROSS JOIN regions b)"
    )
