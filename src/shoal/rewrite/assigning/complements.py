"""A sum (or a count of rows) and what is missing to its bound: for the ε of the sum alone, both, the owners, and the selection.

With 0 in [L, U], every owner of a group adds s − L and U − s to two numbers: K = U − L together, whatever s is. Laplace noise for
a move of K in each of κ groups serves both (docs/theory/noise.md). Their sum is n·K, so that a column that counts owners reads
it, and groups are selected by it, with nothing more to pay. The count carries the noise of both, so its whole gets more of ε.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import LaplaceNoise
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.params import Bounds
from shoal.plan.measures import OwnerCount
from shoal.plan.releases import Release
from shoal.rewrite.assigning.budget import unit_moves
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
    from shoal.rewrite.draft import Draft

SHARE_OF_WHOLE = Fraction(5, 3)
"""What a whole gets where another number gets 1: the median of the sum of two Laplace noises is 1.65 times that of one."""


def complement_of(draft: Draft) -> Complement | None:
    """The first sum or count of rows whose bounds are known and hold 0, where owners are counted or groups selected."""
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


def noise_of_whole(draft: Draft, found: Complement, epsilon: Fraction) -> LaplaceNoise:
    """One noise for both parts, at this ε."""
    groups = draft.contribution.groups
    lower = draft.parts[found.carrier].measure.from_origin("lower")
    part = Part(lower, found.bounds, groups, 2 * groups)
    on_grid = sized(part, groups * reach(part) / epsilon)
    return LaplaceNoise(on_grid.shift, calibrate.laplace_scale(on_grid.shift, epsilon), on_grid.grid)


def shares_of(draft: Draft, found: Complement, moving: list[bool]) -> list[Fraction]:
    """What of ε each unit gets: the whole a little more than the others, the owners nothing."""
    weights = []
    for unit, moves in zip(draft.units, moving, strict=True):
        if unit.parts == (found.carrier,):
            weights.append(SHARE_OF_WHOLE)
        else:
            weights.append(Fraction(int(moves and unit.parts != (found.counter,))))
    total = sum(weights, Fraction(0))
    return [draft.select.options.epsilon * weight / total for weight in weights]


def with_whole(draft: Draft, budget: Budget) -> list[Candidate]:
    """A sum from both its bounds: the owners, and with them the selection, come at no price of their own."""
    complement = complement_of(draft)
    if complement is None or not budget.is_even or (draft.needs_selection and not _may_select(draft)):
        return []
    apart = copy(budget)
    shares = shares_of(draft, complement, [unit_moves(draft, unit) for unit in draft.units])
    apart.units = [budget.factor * share for share in shares]
    reading = next(number for number, unit in enumerate(draft.units) if complement.carrier in unit.parts)
    whole = noise_of_whole(draft, complement, apart.units[reading])
    of_parts, of_histograms = laplace_shares(draft, apart)
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
    return [Candidate(noises, binned, selection, draft.needs_selection, events, why, complement)]


def _may_select(draft: Draft) -> bool:
    """Unless another rule was named, or its ε."""
    options = draft.select.options
    return options.selection_epsilon is None and options.strategy in {"AUTO", "LAPLACE_THRESHOLD"}


def with_complement(plan: SelectPlan, found: Complement) -> SelectPlan:
    """The plan with both parts released: columns of the number read (lower, upper), those of the owners (upper, lower)."""
    releases = list(plan.releases)
    first = releases[found.carrier]
    upper = Release(first.measure.from_origin("upper"), first.noise, found.bounds)
    releases[found.carrier] = replace(first, measure=first.measure.from_origin("lower"))
    place = len(releases) if found.counter is None else found.counter
    releases[place:] = [upper, *releases[place + 1 :]]
    read: dict[tuple[int, ...], tuple[int, ...]] = {}
    read[found.carrier,] = (found.carrier, place)
    if found.counter is not None:
        read[found.counter,] = (place, found.carrier)
    columns = tuple(replace(column, releases=read.get(column.releases, column.releases)) for column in plan.columns)
    return replace(plan, releases=tuple(releases), columns=columns, notes=(*plan.notes, _note(plan, found)))


def _note(plan: SelectPlan, found: Complement) -> str:
    """What the two numbers are good for."""
    call = next(column.call for column in plan.columns if column.releases == (found.carrier,))
    uses = [] if found.counter is None else ["the owners are read off both"]
    uses += [] if plan.selection is None else ["groups are selected by the owners that both tell"]
    name = call.field.name or call.aggregate.name
    return f"{name} and what is missing to its bound share one noise: {' and '.join(uses)}."
