"""Independent Laplace noise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import (
    LaplaceNoise,
    QuantileChoice,
    Shift,
    ThresholdSelection,
)
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection import thresholds
from shoal.rewrite.assigning.budget import part_moves
from shoal.rewrite.assigning.candidate import Candidate
from shoal.rewrite.assigning.reasons import reason_for
from shoal.rewrite.assigning.rules import selection_apart
from shoal.rewrite.assigning.sizing import choice_of, reach, sized
from shoal.rewrite.bound_contributions import bins_shift

if TYPE_CHECKING:
    from shoal.accounting.events import Event, Randomised, Selection
    from shoal.mechanisms.selection.rule import Rule
    from shoal.rewrite.assigning.budget import Budget
    from shoal.rewrite.draft import Draft, Part


def with_laplace(draft: Draft, budget: Budget, rule: Rule | None) -> Candidate:
    """Independent Laplace noise, each aggregate with its share of ε."""
    of_parts, of_histograms = laplace_shares(draft, budget)
    noises = tuple(laplace_noise(part, epsilon) for part, epsilon in zip(draft.parts, of_parts, strict=True))
    binned = laplace_bins(draft, of_histograms)
    charged: tuple[Event, ...] = tuple(n for n in (*binned, *noises) if n.shift.l1)
    selection, extra = _laplace_selection(draft, budget, rule, noises)
    shared = draft.shared_unit is not None and isinstance(selection, ThresholdSelection) and selection.released
    return Candidate(noises, binned, selection, shared, (*charged, *extra), reason_for(draft, budget, "LAPLACE"))


def laplace_noise(part: Part, epsilon: Fraction) -> LaplaceNoise | QuantileChoice:
    """The noise of one part, or the choice among its leaves."""
    if part.targets:
        return choice_of(part, epsilon)
    if not part_moves(part):
        return LaplaceNoise(Shift(0, part.coordinates), Fraction(0))
    on_grid = sized(part, part.coordinates * reach(part) / epsilon)
    return LaplaceNoise(on_grid.shift, calibrate.laplace_scale(on_grid.shift, epsilon), on_grid.grid)


def laplace_bins(draft: Draft, epsilons: list[Fraction]) -> tuple[LaplaceNoise, ...]:
    """The noise of every histogram."""
    bins = [bins_shift(histogram, draft.contribution) for histogram in draft.histograms]
    return tuple(
        LaplaceNoise(shift, calibrate.laplace_scale(shift, epsilon))
        for shift, epsilon in zip(bins, epsilons, strict=True)
    )


def laplace_shares(
    draft: Draft, budget: Budget, of_means: Fraction = Fraction(1)
) -> tuple[list[Fraction], list[Fraction]]:
    """ε of every part and of every histogram: aggregates that read the same thing all pay for it.

    `of_means`: how many times as much a histogram gets as each average that reads it.
    """
    parts, histograms = [Fraction(0)] * len(draft.parts), [Fraction(0)] * len(draft.histograms)
    for unit, epsilon in zip(draft.units, budget.units, strict=True):
        live = [s if part_moves(draft.parts[i]) else Fraction(0) for i, s in zip(unit.parts, unit.shares, strict=True)]
        rest = epsilon
        if unit.histogram is not None:
            rest = epsilon * draft.left_by_histogram(unit, of_means) if any(live) else Fraction(0)
            histograms[unit.histogram] += epsilon - rest
        for index, share in zip(unit.parts, live, strict=True):
            parts[index] += rest * share / (sum(live) or 1)
    return parts, histograms


def _laplace_selection(
    draft: Draft, budget: Budget, rule: Rule | None, noises: tuple[Randomised, ...]
) -> tuple[Selection | None, tuple[Event, ...]]:
    if rule is None:
        return None, ()
    if draft.shared_unit is None:
        apart = selection_apart(draft, rule, budget.selection, budget.delta)
        return apart.selection, apart.events
    noise = noises[draft.units[draft.shared_unit].parts[0]]
    assert isinstance(noise, LaplaceNoise)  # noqa: S101 - owners are counted
    selected = thresholds.on_released_count(
        noise, draft.contribution.groups, draft.select.options.min_owners, budget.delta
    )
    return selected, (selected,)
