"""A sum (or a count of rows) and its distance from its bound: the ε of the sum alone buys both, the owners, and the selection.

With 0 in [L, U], every owner of a group adds s − L and U − s to two numbers: K = U − L together, whatever s is. Laplace noise for
a move of K in each of κ groups serves both (docs/theory/noise.md). Their sum is n·K, so a column that counts owners can read
it, and it can select groups, at no extra cost. The count carries the noise of both, so its whole gets more of ε.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import GaussianNoise, JointGaussian, LaplaceNoise, Shift
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.params import Bounds
from shoal.plan.measures import OwnerCount
from shoal.plan.releases import Release
from shoal.rewrite.assigning.budget import part_moves, unit_moves
from shoal.rewrite.assigning.candidate import Candidate
from shoal.rewrite.assigning.laplace import laplace_bins, laplace_noise, laplace_shares
from shoal.rewrite.assigning.reasons import reason_for
from shoal.rewrite.assigning.sizing import reach, sized
from shoal.rewrite.assigning.spread import Complement
from shoal.rewrite.draft import Part

if TYPE_CHECKING:
    from shoal.accounting.events import Event
    from shoal.plan.releases import SelectPlan
    from shoal.rewrite.assigning.budget import Budget
    from shoal.rewrite.assigning.sizing import Sized
    from shoal.rewrite.draft import Draft

SHARE_OF_WHOLE = Fraction(5, 3)
"""What a whole gets where another number gets 1: the median of the sum of two Laplace noises is 1.65 times that of one."""
SHARES_BESIDE = (SHARE_OF_WHOLE, Fraction(1))
"""The same where its owners are not shown: they only select groups."""
HISTOGRAM_BESIDE = Fraction(1, 2)
"""What finding the bounds of an average gets where its numbers get 1: there is no selection that needs half of ε."""

WEIGHTS_OF_WHOLE = (Fraction(1), Fraction(2))
"""The same for Gaussian noise, in parts of the squared norm: as much as another number, or as the two that are read from it."""


def complement_of(draft: Draft) -> Complement | None:
    """The first sum or count of rows whose bounds are known and include 0, where owners are counted or groups selected."""
    counter = next((i for i, part in enumerate(draft.parts) if part.measure == OwnerCount()), None)
    if counter is not None and not _alone(draft, counter):
        return None
    per_group = draft.select.options.inferred_bounds == "PER_GROUP" and bool(draft.histograms)
    if per_group or (counter is None and not draft.needs_selection):
        return None
    for index, part in enumerate(draft.parts):
        known = part.bounds if isinstance(part.bounds, Bounds) else None
        if known is None or not part.measure.counts_from_bounds or not _alone(draft, index):
            continue
        if known.lower <= 0 <= known.upper and known.lower < known.upper:
            return Complement(index, counter, known)
    return None


def _alone(draft: Draft, index: int) -> bool:
    """Whether one unit reads a part, and nothing else."""
    reading = [unit for unit in draft.units if index in unit.parts]
    return len(reading) == 1 and reading[0].parts == (index,) and reading[0].histogram is None


def _size_of_whole(draft: Draft, found: Complement, scale: Fraction) -> Sized:
    """Grid and shift of both parts, for noise of about this many reaches."""
    groups = draft.contribution.groups
    lower = draft.parts[found.carrier].measure.from_origin("lower")
    part = Part(lower, found.bounds, groups, 2 * groups)
    return sized(part, scale * reach(part))


def noise_of_whole(draft: Draft, found: Complement, epsilon: Fraction) -> LaplaceNoise:
    """One noise for both parts, at this ε."""
    on_grid = _size_of_whole(draft, found, draft.contribution.groups / epsilon)
    return LaplaceNoise(on_grid.shift, calibrate.laplace_scale(on_grid.shift, epsilon), on_grid.grid)


def shares_of(draft: Draft, found: Complement, of_whole: Fraction) -> list[Fraction]:
    """Each unit's share of ε: the whole gets this many times as much as the others, the owners get none."""
    weights = []
    for unit in draft.units:
        moves = unit_moves(draft, unit)
        if unit.parts == (found.carrier,):
            weights.append(of_whole)
        else:
            weights.append(Fraction(int(moves and unit.parts != (found.counter,))))
    total = sum(weights, Fraction(0))
    return [draft.select.options.epsilon * weight / total for weight in weights]


def with_whole(draft: Draft, budget: Budget) -> list[Candidate]:
    """A sum from both its bounds: the owners, and with them the selection, cost nothing extra."""
    complement = complement_of(draft)
    if complement is None or not budget.is_even or (draft.needs_selection and not may_select(draft)):
        return []
    only_selects = complement.counter is None and len(draft.units) > 1
    shares = SHARES_BESIDE if only_selects else SHARES_BESIDE[:1]
    return [_laplace_whole(draft, budget, complement, share) for share in shares]


def _laplace_whole(draft: Draft, budget: Budget, complement: Complement, of_whole: Fraction) -> Candidate:
    apart = copy(budget)
    apart.units = [budget.factor * share for share in shares_of(draft, complement, of_whole)]
    reading = next(number for number, unit in enumerate(draft.units) if complement.carrier in unit.parts)
    whole = noise_of_whole(draft, complement, apart.units[reading])
    of_parts, of_histograms = laplace_shares(draft, apart, HISTOGRAM_BESIDE)
    together = {complement.carrier, complement.counter}
    noises = tuple(
        whole if index in together else laplace_noise(part, epsilon)
        for index, (part, epsilon) in enumerate(zip(draft.parts, of_parts, strict=True))
    )
    binned = laplace_bins(draft, of_histograms)
    own = [noise for index, noise in enumerate(noises) if index not in together and noise.shift.l1]
    events: tuple[Event, ...] = (*binned, whole, *own)
    selection = None
    if draft.needs_selection:
        selection = on_released_whole(whole, draft.contribution.groups, draft.select.options.min_owners, budget.delta)
        events = (*events, selection)
    why = reason_for(draft, budget, "LAPLACE")
    return Candidate(noises, binned, selection, draft.needs_selection, events, why, complement)


def with_gaussian_whole(draft: Draft, budget: Budget) -> list[Candidate]:
    """The same as a part of one jointly calibrated release: a move of K over two entries is no longer than K in L2 either."""
    complement = complement_of(draft)
    fits = (
        budget.is_even and not draft.histograms and budget.delta > 0 and not any(part.targets for part in draft.parts)
    )
    if complement is None or not fits or (draft.needs_selection and not may_select(draft, "GAUSSIAN_THRESHOLD")):
        return []
    alone = all(unit.parts in {(complement.carrier,), (complement.counter,)} for unit in draft.units)
    weights = WEIGHTS_OF_WHOLE[:1] if alone else WEIGHTS_OF_WHOLE
    return [_joint_with_whole(draft, budget, complement, weight) for weight in weights]


def _joint_with_whole(draft: Draft, budget: Budget, complement: Complement, weight_of_whole: Fraction) -> Candidate:
    kappa, epsilon, delta = draft.contribution.groups, budget.epsilon, budget.delta
    unit = Fraction(1 / calibrate.approximate_norm(float(epsilon), float(delta)))
    together = {complement.carrier, complement.counter}
    others = [i for i, part in enumerate(draft.parts) if i not in together and part_moves(part)]
    weights = [weight_of_whole, *(_weight_of(draft, index) for index in others)]
    spread = [Fraction(math.sqrt(float(kappa * sum(weights) / weight))).limit_denominator(10**6) for weight in weights]
    sizes = [_size_of_whole(draft, complement, unit * spread[0])]
    sizes += [
        sized(draft.parts[i], unit * wide * reach(draft.parts[i])) for i, wide in zip(others, spread[1:], strict=True)
    ]
    shifts = [size.shift for size in sizes]
    scales = calibrate.joint_scales(shifts, weights, kappa, epsilon, delta) if draft.needs_selection else None
    sigmas = scales.sigmas if scales else calibrate.joint_gaussian_sigmas(shifts, weights, epsilon, delta)
    drawn = tuple(GaussianNoise(size.shift, sigma, size.grid) for size, sigma in zip(sizes, sigmas, strict=True))
    noise_of = dict(zip(others, drawn[1:], strict=True)) | {i: drawn[0] for i in together if i is not None}
    still = GaussianNoise(Shift(0), Fraction(0))
    noises = tuple(noise_of.get(index, still) for index in range(len(draft.parts)))
    why = reason_for(draft, budget, "GAUSSIAN")
    if scales is None:
        return Candidate(noises, (), None, False, (JointGaussian(drawn, epsilon, delta),), why, complement)
    selection = on_released_whole(drawn[0], kappa, draft.select.options.min_owners, scales.delta_threshold)
    return Candidate(noises, (), selection, True, scales.events(drawn, epsilon, selection), why, complement)


def _weight_of(draft: Draft, index: int) -> Fraction:
    """What the units that read a part give it."""
    shares = (share for unit in draft.units for i, share in zip(unit.parts, unit.shares, strict=True) if i == index)
    return sum(shares, Fraction(0))


def may_select(draft: Draft, rule: str = "LAPLACE_THRESHOLD") -> bool:
    """Unless the query names another rule, or its ε."""
    options = draft.select.options
    return options.selection_epsilon is None and options.strategy in {"AUTO", rule}


def with_complement(plan: SelectPlan, found: Complement) -> SelectPlan:
    """The plan with both parts released: columns of the number read (lower, upper), those of the owners (upper, lower)."""
    releases = list(plan.releases)
    first = releases[found.carrier]
    upper = Release(first.measure.from_origin("upper"), first.noise, found.bounds)
    releases[found.carrier] = replace(first, measure=first.measure.from_origin("lower"))
    position = len(releases) if found.counter is None else found.counter
    releases[position:] = [upper, *releases[position + 1 :]]
    read: dict[tuple[int, ...], tuple[int, ...]] = {}
    read[found.carrier,] = (found.carrier, position)
    if found.counter is not None:
        read[found.counter,] = (position, found.carrier)
    columns = tuple(replace(column, releases=read.get(column.releases, column.releases)) for column in plan.columns)
    return replace(plan, releases=tuple(releases), columns=columns, notes=(*plan.notes, _note(plan, found)))


def _note(plan: SelectPlan, found: Complement) -> str:
    """What the two numbers are good for."""
    call = next(column.call for column in plan.columns if column.releases == (found.carrier,))
    uses = [] if found.counter is None else ["owners are counted from the two"]
    uses += [] if plan.selection is None else ["groups are selected by the number of owners that follows from the two"]
    name = call.field.name or call.aggregate.name
    return f"{name} and what it lacks to its bound are released at the price of one: {', and '.join(uses)}."
