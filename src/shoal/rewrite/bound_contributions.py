"""How much one owner may add: κ groups (or R rows) of bounded measures. Equal measures become one release."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import RankTarget, Shift
from shoal.mechanisms.quantile_choice import planned_fraction
from shoal.plan.releases import AggregateCall, Contribution, PrivateSelect
from shoal.rewrite.draft import Draft, Part, Unit

if TYPE_CHECKING:
    from shoal.plan.measures import Histogram


def bound_contributions(select: PrivateSelect) -> Draft:
    """The measures of all aggregates, without duplicates, with the number of coordinates one owner moves."""
    contribution = _contribution(select)
    parts: list[Part] = []
    units: list[Unit] = []
    unit_of_call: list[int] = []
    for call in select.aggregates:
        positions = tuple(_position(parts, part) for part in _parts_of(call, contribution))
        feed = call.aggregate.feed
        unit = Unit(positions, call.aggregate.shares, epsilon=call.epsilon, feed=feed)
        known = next((i for i, u in enumerate(units) if u.parts == positions and u.feed == feed), None)
        if known is None:
            units.append(unit)
            known = len(units) - 1
        elif call.epsilon is not None:
            units[known] = replace(unit, epsilon=max(call.epsilon, units[known].epsilon or Fraction(0)))
        unit_of_call.append(known)
    return Draft(
        select, contribution, tuple(parts), tuple(units), tuple(unit_of_call), notes=_notes(select, contribution)
    )


def _contribution(select: PrivateSelect) -> Contribution:
    """κ from the query, or else the catalog, or else 1; without GROUP BY there is one public group."""
    options = select.options
    return Contribution(bool(select.keys), options.max_groups_per_owner or 1, options.max_rows_per_owner)


def _parts_of(call: AggregateCall, contribution: Contribution) -> list[Part]:
    return [
        Part(
            measure,
            call.bounds if measure.needs_bounds else None,
            measure.coordinates(contribution),
            measure.entries(contribution),
        )
        for measure in call.aggregate.measures_within(call.bounds)
    ]


def choose_quantiles(draft: Draft) -> Draft | None:
    """The draft with quantiles chosen among leaves, not counted in a tree; None without quantiles, or if the query names the noise.

    A tree pays for every level and answers any number of quantiles of a column; a choice pays for every quantile, and one owner
    adds rows to its groups, whatever the levels. Which of the two is more accurate is left to `assign_mechanisms`.
    """
    if draft.select.options.noise != "AUTO" or not any(part.measure.is_tree for part in draft.parts):
        return None
    return replace(draft, parts=tuple(_chosen(draft, index) for index in range(len(draft.parts))))


def _chosen(draft: Draft, index: int) -> Part:
    part = draft.parts[index]
    if not part.measure.is_tree:
        return part
    return replace(
        part,
        targets=tuple(RankTarget(rank) for rank in _ranks(draft, index)),
        coordinates=part.coordinates // part.measure.levels,
        entries=None if part.entries is None else part.entries // part.measure.levels,
    )


def _ranks(draft: Draft, index: int) -> list[Fraction]:
    """All ranks that any aggregate reads from these leaves."""
    reading = [u for u, unit in enumerate(draft.units) if index in unit.parts]
    calls = [c.aggregate for c, u in zip(draft.select.aggregates, draft.unit_of_call, strict=True) if u in reading]
    asked = [rank for aggregate in calls for rank in aggregate.ranks]
    return sorted({planned_fraction(rank) for rank in asked})


def bins_shift(histogram: Histogram, contribution: Contribution) -> Shift:
    """How one owner moves a histogram: by one value, or by one in each of its groups where every group has its own."""
    return Shift(1, contribution.groups if histogram.per_group else 1)


def _position(parts: list[Part], part: Part) -> int:
    if part not in parts:
        parts.append(part)
    return parts.index(part)


def _notes(select: PrivateSelect, contribution: Contribution) -> tuple[str, ...]:
    if contribution.grouped and select.options.max_groups_per_owner is None and contribution.max_rows is None:
        return (*select.notes, "Each owner counts in one group only (max_groups_contributed was not given).")
    return select.notes
