"""Jointly calibrated Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    Shift,
    ThresholdSelection,
)
from shoal.mechanisms import calibrate, group_selection
from shoal.rewrite.assigning.budget import Budget, part_moves
from shoal.rewrite.assigning.candidate import GAUSSIAN_95, Candidate, Errors, spare_of
from shoal.rewrite.assigning.finish import shared_part
from shoal.rewrite.assigning.laplace import laplace_noise, laplace_shares
from shoal.rewrite.assigning.reasons import reason_for
from shoal.rewrite.assigning.rules import joins_gaussian, selection_beside
from shoal.rewrite.assigning.sizing import Sized, reach, sized
from shoal.rewrite.assigning.weights import joint_weights, weights_by_epsilon
from shoal.rewrite.bound_contributions import bins_shift

if TYPE_CHECKING:
    from shoal.accounting.events import Event, Selection
    from shoal.mechanisms.selection.rule import JointRule, Rule
    from shoal.rewrite.draft import Draft, Part


def with_gaussian(draft: Draft, budget: Budget, rule: Rule | None) -> Candidate:
    """All noisy numbers of the SELECT as one jointly calibrated release."""
    own_count = joins_gaussian(rule) and draft.shared_unit is None
    apart = rule is not None and not joins_gaussian(rule) and draft.shared_unit is None
    beside = selection_beside(draft, budget, rule) if rule is not None and apart else None
    epsilon = budget.epsilon - beside.epsilon if beside is not None else budget.epsilon
    delta = budget.delta / 2 if apart else budget.delta
    weights = _weights(draft, budget, rule, epsilon, delta, own_count=own_count)
    shifts_of, grids = _gaussian_sizes(draft, weights, epsilon, delta)
    bins = [bins_shift(histogram, draft.contribution) for histogram in draft.histograms]
    kappa, k = draft.contribution.groups, draft.select.options.min_owners
    joint = cast("JointRule | None", rule if draft.needs_selection and not apart else None)
    shifts = [*shifts_of, *bins, *([joint.shift(kappa)] if joint is not None and own_count else [])]
    count = len(shifts) - 1 if own_count else shared_part(draft)
    # An owner moves a histogram that finds bounds whether or not its groups are new, so its δ is not shared. Neither is that of
    # rows and weights: an owner of two groups, one of them new, may have all rows but one in the other.
    weighs = joint is not None and joint.shift(kappa).length is not None and draft.contribution.max_rows is not None
    by_groups = not bins and not (weighs and shifts_of)
    scales = calibrate.joint_scales(shifts, weights, kappa, epsilon, delta, by_groups=by_groups) if joint else None
    sigmas = scales.sigmas if scales else calibrate.joint_gaussian_sigmas(shifts, weights, epsilon, delta)
    noises = tuple(
        GaussianNoise(shift, sigma, grid)
        for shift, sigma, grid in zip(
            shifts, sigmas, [*grids, *[Fraction(1)] * (len(shifts) - len(grids))], strict=True
        )
    )
    charged = tuple(n for n in noises if n.shift.l1)
    events: tuple[Event, ...] = (JointGaussian(charged, epsilon, delta),) if charged and not scales else ()
    selection: Selection | None = None
    if beside is not None:
        selection, events = beside.selection, (*events, *beside.events)
    elif joint is not None and scales is not None:
        selected = joint.joined(noises[count or 0], kappa, k, scales.delta_threshold, released=not own_count)
        selection, events = selected, scales.events(charged, epsilon, selected)
    size = len(draft.parts)
    shared = isinstance(selection, ThresholdSelection) and selection.released
    why = reason_for(draft, budget, "GAUSSIAN")
    return Candidate(noises[:size], noises[size : size + len(draft.histograms)], selection, shared, events, why)


def gaussian_beside(draft: Draft, budget: Budget, rule: Rule | None) -> list[Candidate]:
    """Quantiles that are chosen, and Laplace noise of limits for all groups together, keep their shares of ε.

    All other numbers are one jointly calibrated release. Gaussian noise gains where an owner moves many numbers a little, and what
    is limited for all groups may be in one of them.
    """
    rest = [index for index, part in enumerate(draft.parts) if not _is_apart(part)]
    choices = any(part.targets for part in draft.parts)
    if (choices and draft.histograms) or not any(part_moves(draft.parts[index]) for index in rest):
        return []  # found bounds are charged together with what they stretch
    epsilons = laplace_shares(draft, budget)[0]
    chosen = {i: laplace_noise(part, epsilons[i]) for i, part in enumerate(draft.parts) if _is_apart(part)}
    units = [unit for unit in draft.units if chosen.keys().isdisjoint(unit.parts)]
    shared = None if draft.shared_unit is None else units.index(draft.units[draft.shared_unit])
    left = budget.epsilon - sum((c.epsilon for c in chosen.values()), Fraction(0))
    options = replace(draft.select.options, epsilon=left)
    others = replace(
        draft,
        select=replace(draft.select, options=options),
        parts=tuple(draft.parts[index] for index in rest),
        units=tuple(replace(unit, parts=tuple(rest.index(i) for i in unit.parts)) for unit in units),
        shared_unit=shared,
    )
    joint = with_gaussian(others, Budget(others), rule)
    parts = dict(zip(rest, joint.parts, strict=True)) | chosen
    noises = tuple(parts[index] for index in range(len(draft.parts)))
    why = reason_for(draft, budget, "GAUSSIAN")
    return [replace(joint, parts=noises, events=(*chosen.values(), *joint.events), why=why)]


def _is_apart(part: Part) -> bool:
    return bool(part.targets) or part.measure.limited_in_all


def _weights(
    draft: Draft, budget: Budget, rule: Rule | None, epsilon: Fraction, delta: Fraction, *, own_count: bool
) -> list[Fraction]:
    """Shares of the squared norm: by the aggregates' own ε squared, or leaning towards what an even split would give."""
    if not budget.is_even:
        return weights_by_epsilon(draft, budget.units, budget.selection if own_count else None)
    parted = joins_gaussian(rule) and draft.histograms
    split = calibrate.best_delta_split(draft.contribution.groups, epsilon, delta) if parted else 1
    norm = calibrate.approximate_norm(float(epsilon), float(delta * split))
    return joint_weights(draft, norm, spare_of(draft), own_count=own_count)


def _gaussian_sizes(
    draft: Draft, weights: list[Fraction], epsilon: Fraction, delta: Fraction
) -> tuple[list[Shift], list[Fraction]]:
    """Grids from the unrounded scale: the analytic σ of each part for its share of the norm."""
    total = sum(weights, Fraction(0))
    unit_sigma = Fraction(1 / calibrate.approximate_norm(float(epsilon), float(delta)))
    shifts, grids = [], []
    for part, weight in zip(draft.parts, weights, strict=False):
        spread = Fraction(math.sqrt(part.coordinates * total / weight)).limit_denominator(10**6)
        scale = unit_sigma * reach(part) * spread
        on_grid = sized(part, scale) if scale else Sized(Shift(0, part.coordinates), Fraction(1))
        shifts.append(on_grid.shift)
        grids.append(on_grid.grid)
    return shifts, grids


def least_beside(draft: Draft, budget: Budget, rule: Rule | None) -> Errors | None:
    """Approximate errors of joint noise with a separate selection, rounded down."""
    if rule is None or joins_gaussian(rule):
        return None
    delta = budget.delta / 2
    beside = selection_beside(draft, budget, rule)
    epsilon = budget.epsilon - beside.epsilon
    weights = _weights(draft, budget, rule, epsilon, delta, own_count=False)
    norm = calibrate.approximate_norm(float(epsilon), float(delta))
    total = float(sum(weights))
    widths = tuple(
        0.999 * GAUSSIAN_95 * float(reach(part)) * math.sqrt(part.coordinates * total / float(weight)) / norm
        for part, weight in zip(draft.parts, weights, strict=False)
        if part_moves(part)
    )
    return Errors(widths, float(group_selection.half_point(beside.selection)))
