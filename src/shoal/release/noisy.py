"""From exact integers to noisy numbers: which groups are kept, bounds read from histograms, noise on every measure.

Noise is added here and nowhere else, for every engine.
"""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.accounting.events import QuantileChoice
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms import calibrate, group_selection, quantiles
from shoal.mechanisms.noise import add_noise
from shoal.mechanisms.quantile_choice import ChosenQuantiles
from shoal.mechanisms.ranks.whole_numbers import LEAVES_EACH, WholeQuantiles
from shoal.params import Bounds, many
from shoal.plan.aggregates import NoisyMeasure
from shoal.plan.aggregates.quantiles import MOST_QUANTILES
from shoal.plan.totals import ExactTotals, LeafCounts
from shoal.plan.types import Kind
from shoal.release.computed.draws import LEVELS
from shoal.release.cuts.clamped import what_is_clamped
from shoal.release.cuts.quotients import is_quotient
from shoal.release.postprocess import AnswerTooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from shoal.accounting.events import Randomised, Selection
    from shoal.mechanisms.entropy import Entropy
    from shoal.plan.aggregates.noisy_measure import Forest
    from shoal.plan.measures import Measure
    from shoal.plan.nodes import Node
    from shoal.plan.releases import HistogramRelease, SelectPlan
    from shoal.plan.totals import GridMeasure
    from shoal.release.cuts.clamped import Clamped
    from shoal.release.resolve_bounds import ResolvedTotals

MANY_INTERVALS = 10_000
"""For more quantiles than this, over all groups, intervals are kept only at the requested level."""

NEXT_TO_ZERO = Fraction(1, 2**24)
"""Reals no larger than this are zeros with a bin of noise beside them."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one noisy histogram says: bounds, the share of values outside them, and what they cut; nothing, or all three."""

    bounds: Bounds | None
    outside: float | None
    clamped: Clamped | None


@dataclass(frozen=True, slots=True)
class Decided:
    """Noise of released numbers that was already drawn because it decided which groups appear: for all groups, by release."""

    counts: Mapping[int, NDArray[Any] | None] = field(default_factory=dict)
    """Noisy counts."""
    noises: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    """Noise to be added."""


def selected(
    plan: SelectPlan,
    owners: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
    entropy: Entropy,
    selection: Selection | None,
) -> tuple[NDArray[np.int64], Decided]:
    """The groups to show; with a threshold on released numbers, also the noise that decided."""
    if selection is None:
        _refuse_many_quantiles(plan, len(owners))
        return np.arange(len(owners), dtype=np.int64), Decided()
    draw = group_selection.select(selection, owners, entropy, weights)
    kept = np.flatnonzero(draw.kept).astype(np.int64)
    _refuse_many_quantiles(plan, len(kept))
    if draw.noises is not None:
        return kept, Decided(noises=dict(zip(plan.parts_that_select(), draw.noises, strict=True)))
    return kept, Decided(counts={} if plan.shared_count is None else {plan.shared_count: draw.noisy_owners})


def _refuse_many_quantiles(plan: SelectPlan, groups: int) -> None:
    """What is released decides about it: groups that are shown, and quantiles that are asked for."""
    if groups * sum(len(column.call.aggregate.ranks) for column in plan.columns) > MOST_QUANTILES:
        raise AnswerTooLargeError


def owners_that_select(plan: SelectPlan, measured: ResolvedTotals) -> NDArray[np.int64]:
    """The owners of every group; where the two sums of an average select, those with a value: the sums differ by K for each."""
    parts = plan.parts_that_select()
    if len(parts) != 2 or plan.releases[parts[0]].measure.counts_from_bounds:
        return measured.measurement.owners
    lower, upper = (np.asarray(measured.measurement.totals[part], dtype=object) for part in parts)
    task = measured.tasks[parts[0]]
    if task is None or task.steps is None:
        raise InternalError("sums that select groups are clamped")
    return np.asarray((lower - upper) // (task.steps.upper - task.steps.lower), dtype=np.int64)


def weights_among(measurement: ExactTotals, selecting: tuple[GridMeasure, ...]) -> NDArray[np.int64] | None:
    """The last of the totals, if they include what a selection reads."""
    return np.asarray(measurement.totals[-1], dtype=np.int64) if selecting else None


def read_bounds(
    release: HistogramRelease, counts: NDArray[np.int64], entropy: Entropy, source: Node | None = None
) -> list[Read]:
    """Bounds read from noisy histograms, (groups, bins), roughly what share of the values lies outside them, and what they cut.

    Bounds are the outer edges of the outermost filled bins, None if no bin stands out. Everything after the noise is
    post-processing. `source`: what the values are computed from, which tells quotients apart.
    """
    noisy, outer = noisy_bins(release, counts, entropy)
    quotients = source is not None and is_quotient(release.histogram.serves.argument, source)
    return [
        _bounds_of(release, row, ends, quotients=quotients) for row, ends in zip(noisy, outer.tolist(), strict=True)
    ]


def noisy_bins(
    release: HistogramRelease, counts: NDArray[np.int64], entropy: Entropy
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The noisy histograms, and the numbers of the first and the last filled bin of each, −1 if no bin stands out."""
    noisy = add_noise(release.noise, counts.reshape(-1), entropy).reshape(counts.shape)
    bins = release.histogram.bins
    return noisy, quantiles.bounds_from_histograms(noisy, release.noise, zero=bins.index(0) if 0 in bins else None)


def bounds_between(release: HistogramRelease, first: int, last: int) -> Bounds | None:
    """The outer edges of two bins, None if there are none."""
    if first < 0:
        return None
    histogram, bins = release.histogram, release.histogram.bins
    low, high = histogram.edges(bins[first]), histogram.edges(bins[last])
    lower = Fraction(0) if histogram.serves.never_negative else low[0]
    return Bounds(lower, max(high[1], lower))


def owners_needed(release: HistogramRelease) -> str:
    """Roughly how many owners a bin needs to stand out; known before data is read."""
    fewest = calibrate.approx_bounds_threshold(release.noise, len(release.histogram.bins), quantiles.NO_FALSE_BIN[-1])
    return many(math.ceil(fewest) + 1, "owner")


def _bounds_of(release: HistogramRelease, noisy: NDArray[Any], ends: tuple[int, int], *, quotients: bool) -> Read:
    first, last = ends
    bounds = bounds_between(release, first, last)
    if bounds is None or max(-bounds.lower, bounds.upper) <= (NEXT_TO_ZERO if release.histogram.ends_at_powers else 0):
        # Only zeros stand out, or noise beside them: the size of other values is unknown, and 0 ± 0 would say that there are none.
        return Read(None, None, None)
    inside, everything = float(sum(noisy[first : last + 1])), float(sum(noisy))
    share = min(1.0, max(0.0, 1 - inside / everything)) if everything > 0 else None
    cut = what_is_clamped(release.histogram, release.noise, noisy, (first, last), bounds, quotients=quotients)
    return Read(bounds, share, cut)


def reading(
    plan: SelectPlan,
    measured: ResolvedTotals,
    index: int,
    order: NDArray[np.int64],
    decided: Decided,
    entropy: Entropy,
) -> NoisyMeasure:
    """One measure of the groups in `order`, with noise; a number that decided which groups appear already has its noise."""
    release_, task = plan.releases[index], measured.tasks[index]
    noise, bounds = measured.noises[index], measured.bounds[index]
    total = measured.measurement.totals[index]
    empty = np.zeros(len(order), dtype=object)
    grid = task.grid if task is not None else noise.grid
    steps = task.steps if task is not None else None
    if task is None:
        return NoisyMeasure(release_.measure, noise, grid, None, None, empty)
    if isinstance(total, LeafCounts):
        if not release_.measure.is_tree:
            raise InternalError("only leaves have a tree")
        forest = _forest(release_.measure, total, order, noise, entropy, bounds)
        # What the answer carries along is where its own numbers are.
        numbered = np.arange(len(order), dtype=np.float64)
        bands = forest.bands(
            *_ranks_and_levels(plan, index, len(order)), sampled=_reads_a_sample(plan, release_.measure)
        )
        return NoisyMeasure(release_.measure, noise, grid, bounds, steps, numbered, forest, bands)
    if isinstance(noise, QuantileChoice):
        raise InternalError("only leaves are chosen among")
    if (count := decided.counts.get(index)) is not None:
        values: NDArray[Any] = np.asarray(count)[order]
    elif index in decided.noises:
        values = np.asarray(total, dtype=object)[order] + decided.noises[index][order]
    else:
        values = add_noise(noise, np.asarray(total)[order], entropy)
    return NoisyMeasure(release_.measure, noise, grid, bounds, steps, values)


def _reads_a_sample(plan: SelectPlan, measure_: Measure) -> bool:
    """Whether owners may have more rows than are read; extremes read all of them."""
    return measure_.extreme is None and not (plan.one_row or plan.select.one_row_per_owner)


def whole_width(measure_: Measure, bounds: Bounds | None) -> int | None:
    """U − L, if all values between these bounds are whole numbers and each has its own leaves; None otherwise."""
    if measure_.argument is None or measure_.argument.type.kind is not Kind.INTEGER or bounds is None:
        return None
    width = bounds.upper - bounds.lower
    whole = bounds.lower.denominator == 1 and width.denominator == 1
    return int(width) if whole and 0 < width * LEAVES_EACH <= measure_.leaf_count else None


def _ranks_and_levels(plan: SelectPlan, index: int, groups: int) -> tuple[list[Fraction], list[float]]:
    """Which quantiles are read from a release, and the levels of their intervals."""
    ranks = sorted({r for column in plan.columns if index in column.releases for r in column.call.aggregate.ranks})
    asked = float(plan.select.options.confidence_level)
    return ranks, sorted({asked, *LEVELS}) if len(ranks) * groups <= MANY_INTERVALS else [asked]


def _forest(
    measure_: Measure,
    counts: LeafCounts,
    order: NDArray[np.int64],
    noise: Randomised,
    entropy: Entropy,
    bounds: Bounds | None,
) -> Forest:
    """Noisy trees, or chosen quantiles, of the groups that are shown and no others."""
    shown = np.full(max(int(counts.groups.max(initial=-1)), int(order.max(initial=-1))) + 1, -1, dtype=np.int64)
    shown[order] = np.arange(len(order))
    group = shown[counts.groups]
    kept = group >= 0
    shown_counts = len(order), group[kept], counts.leaves[kept], counts.counts[kept]
    if isinstance(noise, QuantileChoice):
        width = whole_width(measure_, bounds)
        if width is not None:
            return WholeQuantiles.of(*shown_counts, noise, measure_.leaf_count, entropy, width)
        return ChosenQuantiles(*shown_counts, noise, measure_.leaf_count, entropy)
    return quantiles.NoisyForest(
        *shown_counts,
        noise,
        branching=measure_.branching,
        height=measure_.height,
        entropy=entropy,
    )
