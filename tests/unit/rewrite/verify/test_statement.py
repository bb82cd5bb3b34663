"""The finished plans that once passed, and that `verify` owes nothing to what it verifies."""

from __future__ import annotations

import ast
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import shoal
from shoal.accounting.accountants import Loss, plan_loss
from shoal.accounting.events import (
    JointGaussian,
    OptimalSelection,
    PolicyLaplace,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.accounting.neighbours import Neighbours
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.calibrate import joint_gaussian_sigmas, threshold_for
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.rewrite.verify.statement import verify

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
FIFTY = "epsilon = 1, delta = 1e-6, max_groups_contributed = 50, noise = LAPLACE"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 4))"
ROOM = Path(shoal.__file__).parent / "rewrite" / "verify"
MAY_IMPORT = (
    "shoal.accounting.",
    "shoal.catalog.",
    "shoal.errors.",
    "shoal.exact.",
    "shoal.frozen.dataclass",
    "shoal.mechanisms.gaussian_certificate.SHRINKS_FROM",
    "shoal.params.",
    "shoal.plan.aggregates",
    "shoal.plan.expressions",
    "shoal.plan.limits.",
    "shoal.plan.measures.",
    "shoal.plan.nodes",
    "shoal.plan.releases.",
    "shoal.plan.totals.grid_measure_of",
    "shoal.plan.types.",
    "shoal.rewrite.verify.",
)
"""Data, exact arithmetic, the accountants, and the clamp that the engine is given: no pass, no binder, no shared walk."""


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.stem)
def test_nothing_is_imported_that_has_made_the_plan(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        assert [name for name in names if name.startswith("shoal") and not name.startswith(MAY_IMPORT)] == []


# ---- what passed before --------------------------------------------------------------------------------------------


def changed(plan, **changes):
    """The plan of one SELECT with other contents, its loss computed anew as a pass would."""
    select = replace(plan.selects[0], **changes)
    return replace(plan, selects=(select,), loss=plan_loss(select.events))


def with_selection(plan, selection):
    old = plan.selects[0].selection
    events = tuple(selection if event == old else event for event in plan.selects[0].events)
    return changed(plan, selection=selection, events=events)


def for_one_group(plan):
    """An owner is in fifty groups, and is taken to be in one."""
    selection = plan.selects[0].selection
    if isinstance(selection, WholeSelection):
        return with_selection(plan, on_released_whole(selection.noise, 1, selection.min_owners, selection.delta))
    if isinstance(selection, ThresholdSelection):
        threshold = threshold_for(selection.noise, 1, selection.delta)
        return with_selection(plan, replace(selection, max_groups_per_owner=1, threshold=threshold))
    return with_selection(plan, replace(selection, max_groups_per_owner=1))


def without_selection(plan):
    select = plan.selects[0]
    rules = OptimalSelection | ThresholdSelection | WholeSelection
    events = tuple(e for e in select.events if not isinstance(e, rules))
    return changed(plan, selection=None, shared_count=None, events=events)


def under_a_policy(plan):
    """The same scale, for the neighbours of a policy instead of owners."""
    releases, noise = plan.selects[0].releases, plan.selects[0].releases[0].noise
    weaker = PolicyLaplace(replace(noise.shift, neighbours=Neighbours("policy", "a graph")), noise.scale, noise.grid)
    events = tuple(weaker if event == noise else event for event in plan.selects[0].events)
    select = replace(plan.selects[0], releases=tuple(replace(r, noise=weaker) for r in releases), events=events)
    return replace(plan, selects=(select,))


TAMPERED = {
    "noise of a policy": under_a_policy,
    "selection for one group": for_one_group,
    "no selection": without_selection,
    "minimum ignored": lambda plan: with_selection(plan, replace(plan.selects[0].selection, min_owners=1)),
    "no loss": lambda plan: replace(plan, loss=Loss(Fraction(0), Fraction(0), Fraction(0), Fraction(0))),
    "less in zCDP": lambda plan: replace(plan, loss=replace(plan.loss, rho=plan.loss.rho / 2)),
    "less ε is charged": lambda plan: replace(plan, epsilon=Fraction(1, 10**9)),
    "less δ is charged": lambda plan: replace(plan, delta=Fraction(0)),
}


@pytest.mark.parametrize("rule", ["OPTIMAL", "LAPLACE_THRESHOLD"])
@pytest.mark.parametrize("name", TAMPERED)
def test_a_plan_that_once_passed_is_refused(quiet_shop, name, rule):
    options = f"{FIFTY}, group_selection_strategy = {rule}, min_privacy_units_per_group = 5"
    plan = quiet_shop.plan(f"{CLAUSE}({options}) site, {COUNT} FROM visits GROUP BY site")
    assert verify(plan, quiet_shop._catalog) is plan
    with pytest.raises(InternalError):
        verify(TAMPERED[name](plan), quiet_shop._catalog)


class NewSelection(OptimalSelection):
    """A rule that somebody added, with its own idea of what it costs."""


def test_a_rule_that_is_not_known_here_is_refused_whatever_it_says_of_itself(quiet_shop):
    options = f"{FIFTY}, group_selection_strategy = OPTIMAL"
    plan = quiet_shop.plan(f"{CLAUSE}({options}) site, {COUNT} FROM visits GROUP BY site")
    old = plan.selects[0].selection
    new = NewSelection(old.epsilon, old.delta, old.max_groups_per_owner, old.min_owners)
    with pytest.raises(InternalError, match="rule of an unknown kind"):
        verify(with_selection(plan, new), quiet_shop._catalog)
    asked = replace(plan.selects[0].select, options=replace(plan.selects[0].select.options, strategy="NEW"))
    with pytest.raises(InternalError, match="rule of an unknown name"):
        verify(changed(plan, select=asked), quiet_shop._catalog)


def test_gaussian_noise_for_found_bounds_is_charged_with_what_finds_them(quiet_shop):
    """Charged alone it could be certified as a single part, for a shift and a scale that it will not have."""
    options = "epsilon = 1, delta = 1e-6, kappa = 1, noise = GAUSSIAN"
    plan = quiet_shop.plan(f"{CLAUSE}({options}) SUM(spend) FROM visits")
    (joint,) = plan.events
    split = tuple(JointGaussian((part,), joint.epsilon / 2, joint.delta / 2) for part in joint.parts)
    parts = tuple(
        replace(part, sigma=joint_gaussian_sigmas([part.shift], [1], event.epsilon, event.delta)[0])
        for part, event in zip(joint.parts, split, strict=True)
    )
    events = tuple(replace(event, parts=(part,)) for event, part in zip(split, parts, strict=True))
    drawn = dict(zip(joint.parts, parts, strict=True))
    select = plan.selects[0]
    apart = changed(
        plan,
        events=events,
        releases=tuple(replace(r, noise=drawn[r.noise]) for r in select.releases),
        histograms=tuple(replace(h, noise=drawn[h.noise]) for h in select.histograms),
    )
    assert apart.loss.epsilon <= plan.epsilon
    with pytest.raises(InternalError, match="charged apart"):
        verify(apart, quiet_shop._catalog)


ROWS_BY_WEIGHT = (
    f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_rows_contributed = 9, noise = GAUSSIAN, "
    "group_selection_strategy = WEIGHTED) site, COUNT(*) FROM visits GROUP BY site"
)


def test_rows_and_weights_share_no_delta(quiet_shop, monkeypatch):
    """An owner of two groups, one of them new, may have eight of nine rows in the other: more than half of the squared norm."""
    first, second = quiet_shop.plan(ROWS_BY_WEIGHT).events
    assert isinstance(first, JointGaussian)
    assert isinstance(second, WeightedSelection)
    assert first.delta + second.delta <= Fraction(1, 10**6)
    as_by_groups = calibrate.joint_scales
    monkeypatch.setattr(calibrate, "joint_scales", lambda *given, **_: as_by_groups(*given))
    with pytest.raises(InternalError, match="more than its part"):
        quiet_shop.plan(ROWS_BY_WEIGHT)
