"""The plan that a chosen assignment makes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import (
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.plan.releases import Column, HistogramRelease, Release, SelectPlan
from shoal.rewrite.assigning.complements import with_complement
from shoal.rewrite.assigning.means import with_selecting_mean
from shoal.rewrite.assigning.sizing import partitioned

if TYPE_CHECKING:
    from shoal.accounting.events import Event
    from shoal.rewrite.assigning.candidate import Candidate
    from shoal.rewrite.draft import Draft


NEARLY_ALL = Fraction(99, 100)


def finished(draft: Draft, chosen: Candidate, composition: str = "basic") -> SelectPlan:
    """The plan that a chosen assignment makes."""
    releases = tuple(
        Release(part.measure, noise, part.bounds) for part, noise in zip(draft.parts, chosen.parts, strict=True)
    )
    columns = tuple(
        Column(call, draft.units[unit].parts, draft.units[unit].histogram)
        for call, unit in zip(draft.select.aggregates, draft.unit_of_call, strict=True)
    )
    histograms = tuple(HistogramRelease(h, noise) for h, noise in zip(draft.histograms, chosen.histograms, strict=True))
    shared = shared_part(draft) if chosen.shared else None
    if chosen.complement is not None and chosen.selection is not None:
        shared = chosen.complement.carrier
    if chosen.mean is not None:
        shared = chosen.mean.carrier
    plan = SelectPlan(
        draft.select,
        draft.contribution,
        histograms,
        releases,
        columns,
        chosen.selection,
        shared,
        chosen.events,
        (*draft.notes, *([f"{chosen.why}."] if releases else []), *_unused(draft, chosen)),
        composition,
    )
    if chosen.complement is not None:
        plan = with_complement(plan, chosen.complement)
    if chosen.mean is not None:
        plan = with_selecting_mean(plan, chosen.mean)
    return partitioned(plan)


def shared_part(draft: Draft) -> int | None:
    """The number of the part that is shown and also selects groups."""
    return draft.units[draft.shared_unit].parts[0] if draft.shared_unit is not None else None


def _unused(draft: Draft, chosen: Candidate) -> list[str]:
    """What is charged but not used, and why: an ε fixed in the query stays with its aggregate."""
    asked = draft.select.options.epsilon
    used = sum((epsilon_of(event) for event in chosen.events), Fraction(0))
    if used >= asked * NEARLY_ALL or not chosen.events:
        return []
    told = f"Only epsilon = {float(used):.3g} of the {float(asked):.3g} that is charged is used"
    return [f"{told}: the epsilons fixed in the query leave the rest over."]


def epsilon_of(event: Event) -> Fraction:
    """The ε charged for an event; a threshold reads noise that is charged separately."""
    free = ThresholdSelection | WeightedSelection | WholeSelection
    return Fraction(0) if isinstance(event, free) else event.epsilon
