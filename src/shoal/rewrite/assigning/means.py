"""An average whose two sums also select groups, so that no part of ε goes to a selection of its own.

Every owner with a value in a group adds x − L and U − x to two sums: K = U − L together, whatever x is. Their sum is therefore K
times the number of owners with a value, and a threshold on it selects groups (docs/theory/group-selection.md). It is a count
in units of K: bounds that are found on the way stretch K, the noise and the threshold alike.

An owner without a value adds to neither sum. So this is done only where groups without values have nothing to show.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import LaplaceNoise
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.plan.measures import OwnerCount, OwnerMean
from shoal.rewrite.assigning.budget import unit_moves
from shoal.rewrite.assigning.candidate import Candidate
from shoal.rewrite.assigning.complements import SHARE_OF_WHOLE, may_select
from shoal.rewrite.assigning.laplace import laplace_bins, laplace_noise, laplace_shares
from shoal.rewrite.assigning.reasons import reason_for
from shoal.rewrite.assigning.sizing import planned_bounds, reach, sized
from shoal.rewrite.assigning.spread import SelectingMean
from shoal.rewrite.draft import Part

if TYPE_CHECKING:
    from shoal.accounting.events import Event
    from shoal.plan.releases import SelectPlan
    from shoal.rewrite.assigning.budget import Budget
    from shoal.rewrite.draft import Draft

OF_HISTOGRAM = Fraction(1, 3)
"""What finding bounds gets where the two sums get 1: a quarter of ε, as much as it has where a selection takes half."""


def selecting_mean(draft: Draft) -> SelectingMean | None:
    """The first average of owners' means, if everything else in the SELECT is about the same values."""
    per_group = draft.select.options.inferred_bounds == "PER_GROUP" and bool(draft.histograms)
    if not draft.needs_selection or draft.shared_unit is not None or per_group:
        return None
    for unit in draft.units:
        measures = [draft.parts[index].measure for index in unit.parts]
        bounds = planned_bounds(draft.parts[unit.parts[0]]) if unit.parts else None
        if not measures or bounds is None or bounds.lower == bounds.upper or not _reads_alone(draft, unit.parts):
            continue
        argument = measures[0].argument
        same = all(part.measure.argument == argument for part in draft.parts)
        if argument is not None and same and measures == [OwnerMean(argument), OwnerCount(argument)]:
            return SelectingMean(unit.parts[0], unit.parts[1], bounds)
    return None


def _reads_alone(draft: Draft, parts: tuple[int, ...]) -> bool:
    return sum(1 for unit in draft.units if set(unit.parts) & set(parts)) == 1


def with_mean(draft: Draft, budget: Budget) -> list[Candidate]:
    """Both sums of an average with the ε of the average and of the selection."""
    found = selecting_mean(draft)
    if found is None or not budget.is_even or not may_select(draft):
        return []
    apart = copy(budget)
    weights = [
        SHARE_OF_WHOLE if found.carrier in unit.parts else Fraction(int(unit_moves(draft, unit)))
        for unit in draft.units
    ]
    epsilon = budget.factor * draft.select.options.epsilon
    apart.units = [epsilon * weight / sum(weights) for weight in weights]
    of_parts, of_histograms = laplace_shares(draft, apart, OF_HISTOGRAM)
    whole = _noise_of_both(draft, found, of_parts[found.carrier] + of_parts[found.counter])
    together = {found.carrier, found.counter}
    noises = tuple(
        whole if index in together else laplace_noise(part, share)
        for index, (part, share) in enumerate(zip(draft.parts, of_parts, strict=True))
    )
    binned = laplace_bins(draft, of_histograms)
    own = [noise for index, noise in enumerate(noises) if index not in together and noise.shift.l1]
    options = draft.select.options
    selection = on_released_whole(whole, draft.contribution.groups, options.min_owners, budget.delta)
    events: tuple[Event, ...] = (*binned, whole, *own, selection)
    return [Candidate(noises, binned, selection, True, events, reason_for(draft, budget, "LAPLACE"), mean=found)]


def _noise_of_both(draft: Draft, found: SelectingMean, epsilon: Fraction) -> LaplaceNoise:
    """One noise for both sums, in two entries for each of an owner's groups."""
    part, groups = draft.parts[found.carrier], draft.contribution.groups
    lower = Part(OwnerMean(part.measure.argument, "lower"), part.bounds, groups, 2 * groups)  # type: ignore[arg-type]
    on_grid = sized(lower, groups * reach(lower) / epsilon)
    return LaplaceNoise(on_grid.shift, calibrate.laplace_scale(on_grid.shift, epsilon), on_grid.grid)


def with_selecting_mean(plan: SelectPlan, found: SelectingMean) -> SelectPlan:
    """The plan in which the average reads both sums."""
    releases = list(plan.releases)
    first = releases[found.carrier]
    argument = first.measure.argument
    if argument is None:
        raise InternalError("an average of nothing")
    for position, origin in ((found.carrier, "lower"), (found.counter, "upper")):
        releases[position] = replace(first, measure=OwnerMean(argument, origin))
    call = next(column.call for column in plan.columns if found.carrier in column.releases)
    name = call.field.name or call.aggregate.name
    sums = f"{name} is computed from two sums that are released at the price of one"
    note = f"{sums}: groups are selected by the number of owners with a value, which follows from the two."
    return replace(plan, releases=tuple(releases), notes=(*plan.notes, note))
