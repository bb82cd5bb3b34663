"""What enters the mechanisms of one SELECT, and how bounds found on the way stretch grids and noise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    QuantileChoice,
    Shift,
    WeightedSelection,
    WholeSelection,
)
from shoal.errors import InternalError
from shoal.exact import power_of_two_below
from shoal.frozen import dataclass
from shoal.mechanisms.gaussian_certificate import MOST_SHRUNK, SHRINKS_FROM
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.params import Bounds
from shoal.plan.measures import OwnerWeight
from shoal.plan.releases import Inferred
from shoal.plan.totals import ExactTotals, GridMeasure, TotalsQuery, grid_measure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.accounting.events import AdditiveNoise, Randomised, Selection
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.releases import Release, SelectPlan
    from shoal.release.cuts.clamped import Clamped

ONE_UNIT = Bounds(Fraction(-1), Fraction(1))
"""What noise is planned for where bounds are still to be found."""


@dataclass(frozen=True, slots=True)
class ResolvedTotals:
    """Exact integers of one SELECT, the tasks they answer, and the bounds found on the way."""

    measurement: ExactTotals
    tasks: tuple[GridMeasure | None, ...]
    noises: tuple[Randomised, ...]
    bounds: tuple[Bounds | None, ...]
    found: tuple[Bounds | None, ...]
    outside: tuple[float | None, ...] = ()
    clamped: tuple[Clamped | None, ...] = ()
    """What the found bounds cut off, by histogram."""
    weights: NDArray[np.int64] | None = None
    """Sums of owners' weights, if the selection uses them."""


def histogram_query(plan: SelectPlan) -> TotalsQuery:
    """The question whose noisy answer gives the bounds; groups with their own bounds are also selected by it."""
    asked = tuple(release.histogram for release in plan.histograms)
    tasks = selecting_tasks(plan) if plan.finds_bounds_per_group else ()
    return _question(plan, tasks, asked)


def selecting_tasks(plan: SelectPlan) -> tuple[GridMeasure, ...]:
    """What the selection reads besides the numbers of owners."""
    if not isinstance(plan.selection, WeightedSelection):
        return ()
    return (grid_measure_of(OwnerWeight(plan.selection.weights), None, Fraction(1)),)


def as_asked(task: GridMeasure) -> GridMeasure:
    """What the engine computes: distances from a bound are derived from the plain total and the number of owners."""
    if not task.measure.counts_from_bounds or task.measure.origin == "middle":
        return task
    return grid_measure_of(task.measure.from_origin("middle"), task.bounds, task.grid)


def from_bound(task: GridMeasure, total: Any, owners: NDArray[np.int64]) -> Any:
    """Σ(s − L) or Σ(s − U) over the owners of every group, from Σs: whole numbers of any size."""
    if as_asked(task) is task or task.steps is None:
        return total
    return np.asarray(total, dtype=object) - task.steps.middle * owners.astype(object)


def totals_query(plan: SelectPlan, tasks: tuple[GridMeasure, ...]) -> TotalsQuery:
    """The question whose noisy answers are released."""
    return _question(plan, tasks, ())


def _question(plan: SelectPlan, tasks: tuple[GridMeasure, ...], histograms: tuple[Histogram, ...]) -> TotalsQuery:
    """If bounds are found first, both questions read the same columns, so that the engine reads rows once."""
    asked = plan.select
    shared = _arguments(plan) if plan.histograms else None
    return TotalsQuery(asked.input, asked.keys, tasks, histograms, plan.contribution, asked.public_groups, shared)


def _arguments(plan: SelectPlan) -> tuple[Expression, ...]:
    measures = [r.measure for r in plan.releases] + [r.histogram.serves for r in plan.histograms]
    return tuple(dict.fromkeys(measure.argument for measure in measures if measure.argument is not None))


def resolved_releases(
    plan: SelectPlan, found: tuple[Bounds | None, ...]
) -> list[tuple[GridMeasure | None, Randomised, Bounds | None]]:
    """All releases with their bounds filled in."""
    selecting = plan.parts_that_select() if isinstance(plan.selection, WholeSelection) else ()
    return [resolve(release, found, selects=index in selecting) for index, release in enumerate(plan.releases)]


def resolve(
    release: Release, found: tuple[Bounds | None, ...], *, selects: bool = False
) -> tuple[GridMeasure | None, Randomised, Bounds | None]:
    """A release with its bounds filled in: the task for the engine, and the noise stretched to them.

    Sums that select groups do so whether or not bounds were found: without any, values are clamped to [−1, 1], and not shown.
    """
    measure_, noise = release.measure, release.noise
    if not isinstance(release.bounds, Inferred):
        return grid_measure_of(measure_, release.bounds, noise.grid), noise, release.bounds
    bounds = found[release.bounds.histogram]
    if selects and (bounds is None or bounds.lower == bounds.upper):
        task = grid_measure_of(measure_, ONE_UNIT, noise.grid)
        return task, _additive(noise), bounds
    if bounds is None:
        if not measure_.never_negative:
            return None, noise, None
        bounds = Bounds(Fraction(0), Fraction(1))
    if measure_.is_tree:
        return grid_measure_of(measure_, bounds, noise.grid), noise, bounds
    noise = _additive(noise)
    unit = _unit(measure_, bounds)
    if unit == 0:
        still = LaplaceNoise(Shift(0, noise.shift.coordinates, noise.shift.entries), Fraction(0))
        return grid_measure_of(measure_, bounds, Fraction(1)), still, bounds
    task = grid_measure_of(measure_, bounds, noise.grid * unit**measure_.power)
    return task, shrunk(noise, task), bounds


def _additive(noise: Randomised) -> AdditiveNoise:
    if isinstance(noise, QuantileChoice):
        raise InternalError("only leaves are chosen among")
    return noise


def selection_under(plan: SelectPlan, noises: Sequence[Randomised]) -> Selection | None:
    """The plan's selection; a threshold on sums whose noise was stretched is the lowest that the same δ allows for that noise."""
    selection = plan.selection
    if not isinstance(selection, WholeSelection) or plan.shared_count is None:
        return selection
    noise = _additive(noises[plan.shared_count])
    if noise == selection.noise:
        return selection
    return on_released_whole(noise, selection.max_groups_per_owner, selection.min_owners, selection.delta)


def _unit(measure_: Measure, bounds: Bounds) -> Fraction:
    """How many times larger than one unit the found bounds are: a power of two, so that the grid stays one."""
    size = (bounds.upper - bounds.lower) / 2 if measure_.centred else max(abs(bounds.lower), abs(bounds.upper))
    if size == 0:
        return Fraction(0)
    below = power_of_two_below(size)
    return below if below == size else 2 * below


def shrunk(noise: AdditiveNoise, task: GridMeasure) -> AdditiveNoise:
    """The planned noise for the shift that the found bounds really have: never more loss than was charged.

    Laplace: the same ratio of shift and scale. Gaussian: the ratio kept and two steps more, at least a quarter, and nothing at all
    where the grid is coarse; docs/theory/noise.md proves that the certificate of the planned noise still holds.
    """
    delta, planned = task.delta, noise.shift.per_coordinate
    if delta > planned:
        raise InternalError("found bounds are wider than the plan allows")
    shift = Shift(delta, noise.shift.coordinates, noise.shift.entries)
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(shift, noise.scale * delta / planned, task.grid)
    if noise.sigma < SHRINKS_FROM:
        return GaussianNoise(shift, noise.sigma, task.grid)
    kept = max(Fraction(-(-noise.sigma * delta // planned)) + 2, noise.sigma / MOST_SHRUNK)
    return GaussianNoise(shift, min(noise.sigma, kept), task.grid)
