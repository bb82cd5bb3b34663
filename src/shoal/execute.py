"""The meeting point: reserve → run → select → noise → finish → commit. A plan runs once; the ledger is asked before any data.

`measure` is the exact half (what enters the mechanisms), `release` the noisy half (what leaves them). Noise is added here and
nowhere else, for every engine.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift
from shoal.engines.base import EngineFailure
from shoal.errors import InternalError, ShoalError
from shoal.exact import power_of_two_below
from shoal.finish import Finished, finish, public_rows
from shoal.mechanisms import groups, quantiles
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.noise import add_noise
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.aggregates import CountRows, Reading
from shoal.plan.contributions import (
    MASK,
    ContributionQuery,
    LeafCounts,
    Measurement,
    SamplingKey,
    Task,
    is_centred,
    task_of,
)
from shoal.plan.measures import Leaves, RowCount
from shoal.plan.releases import Inferred
from shoal.plan.trees import rebuilt, with_relations
from shoal.released import Released, answer_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from shoal.accounting.accountants import Loss
    from shoal.accounting.events import AdditiveNoise
    from shoal.accounting.ledger import Ledger
    from shoal.engines.base import Engine
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Measure
    from shoal.plan.nodes import Node
    from shoal.plan.releases import HistogramRelease, Release, SelectPlan, StatementPlan

SAMPLING_NUMBERS = 160


def fresh_sampling_key(entropy: Entropy = SYSTEM) -> SamplingKey:
    """Random numbers for one query, from the operating system; never from the query's text."""
    return SamplingKey(tuple(int(w) & MASK for w in entropy.uint64(SAMPLING_NUMBERS)))


def execute(
    plan: StatementPlan, engine: Engine, ledger: Ledger, user: str | None, entropy: Entropy = SYSTEM
) -> Finished:
    """Runs a plan once. A failure after the charge stays charged and says one thing only."""
    if not plan.selects:
        return _public(plan, engine)
    reservation = ledger.reserve(charge_of(plan), user=user, description=plan.sql)
    finished: Finished | None = None
    with suppress(Exception):  # whatever goes wrong could depend on the data, and none of it may be told
        finished = _run(plan, engine, entropy)
    if finished is None:
        # Raised out here, so that the error has no context in which an engine speaks.
        reservation.fail()
        raise ShoalError(
            "E_EXECUTION",
            "The query could not be finished. It stays charged, because data may have been read.",
            hint="Nothing more is said on purpose: what went wrong could depend on the data. Ask the custodian.",
        )
    reservation.commit()
    return finished


def charge_of(plan: StatementPlan) -> Loss:
    """What the ledger is asked for: the ε that was asked, and δ where any mechanism uses it."""
    return replace(plan.loss, epsilon=plan.epsilon, delta=plan.delta if plan.loss.delta else Fraction(0))


def _public(plan: StatementPlan, engine: Engine) -> Finished:
    with suppress(EngineFailure):
        return finish(plan, {}, public_rows(plan.root, engine), ordered=True)
    raise ShoalError("E_EXECUTION", "The query over public tables could not be finished.")


def _run(plan: StatementPlan, engine: Engine, entropy: Entropy) -> Finished:
    released: dict[int, Released] = {}
    for number, select in enumerate(plan.selects):
        ready = with_stored_rows(select, released)
        released[number] = release(ready, measure(ready, engine, fresh_sampling_key(entropy), entropy), entropy)
    return finish(plan, released, public_rows(plan.root, engine), entropy=entropy)


def with_stored_rows(select: SelectPlan, released: dict[int, Released]) -> SelectPlan:
    """A later SELECT may read what an earlier one released: its stored rows, as a public list."""
    if not released:
        return select

    def stored(node: Node) -> Node:
        if isinstance(node, nodes.Released):
            table = released[node.select].table.select([f.symbol for f in node.fields])
            return nodes.Values(tuple(tuple(row.values()) for row in table.to_pylist()), node.fields)
        return rebuilt(node, stored)

    def value(expression: Expression) -> Expression:
        return with_relations(expression, stored)

    asked = select.select
    groups_ = stored(asked.public_groups) if asked.public_groups is not None else None
    keys = tuple((field, value(key)) for field, key in asked.keys)
    return replace(
        select,
        select=replace(asked, input=stored(asked.input), public_groups=groups_, keys=keys),
        releases=tuple(replace(r, measure=_with_argument(r.measure, value)) for r in select.releases),
        histograms=tuple(
            replace(r, histogram=replace(r.histogram, serves=_with_argument(r.histogram.serves, value)))
            for r in select.histograms
        ),
    )


def _with_argument(measure_: Measure, change: Callable[[Expression], Expression]) -> Measure:
    return replace(measure_, argument=change(measure_.argument)) if measure_.argument is not None else measure_


# ---- the exact half ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Exact integers of one SELECT, the tasks they answer, and the bounds that were found on the way."""

    measurement: Measurement
    tasks: tuple[Task | None, ...]
    noises: tuple[AdditiveNoise, ...]
    bounds: tuple[Bounds | None, ...]
    found: tuple[Bounds | None, ...]
    outside: tuple[float | None, ...] = ()


def measure(
    plan: SelectPlan,
    engine: Engine,
    key: SamplingKey,
    entropy: Entropy = SYSTEM,
    found: tuple[Bounds | None, ...] | None = None,
) -> Measured:
    """What enters the mechanisms. Bounds that must be inferred are released first, and clamp the rest."""
    outside: tuple[float | None, ...] = ()
    if found is None:
        found, outside = infer(plan, engine, key, entropy)
    resolved = [resolve(release, found) for release in plan.releases]
    live = [task for task, _, _ in resolved if task is not None]
    query = ContributionQuery(
        plan.select.input, plan.select.keys, tuple(live), (), plan.contribution, plan.select.public_groups
    )
    measurement = engine.measure(query, key)
    totals = iter(measurement.totals)
    spread = tuple(
        next(totals) if task is not None else np.zeros(len(measurement.owners), dtype=object) for task, _, _ in resolved
    )
    return Measured(
        replace(measurement, totals=spread),
        tuple(task for task, _, _ in resolved),
        tuple(noise for _, noise, _ in resolved),
        tuple(bounds for _, _, bounds in resolved),
        found,
        outside,
    )


def infer(
    plan: SelectPlan, engine: Engine, key: SamplingKey, entropy: Entropy
) -> tuple[tuple[Bounds | None, ...], tuple[float | None, ...]]:
    """Bounds read off noisy logarithmic histograms (None where no bin stands out), and about what share lies outside them."""
    if not plan.histograms:
        return (), ()
    asked = tuple(release.histogram for release in plan.histograms)
    query = ContributionQuery(
        plan.select.input, plan.select.keys, (), asked, plan.contribution, plan.select.public_groups
    )
    exact = engine.measure(query, key).histograms
    read = [_read_bounds(release, counts, entropy) for release, counts in zip(plan.histograms, exact, strict=True)]
    return tuple(bounds for bounds, _ in read), tuple(share for _, share in read)


def _read_bounds(
    release: HistogramRelease, counts: dict[int, int], entropy: Entropy
) -> tuple[Bounds | None, float | None]:
    """The outer edges of the outermost filled bins; everything after the noise is post-processing."""
    bins = release.histogram.bins
    noisy = add_noise(release.noise, [counts.get(b, 0) for b in bins], entropy)
    outer = quantiles.bounds_from_histogram(noisy, release.noise)
    if outer is None:
        return None, None
    low, high = release.histogram.edges(bins[outer[0]]), release.histogram.edges(bins[outer[1]])
    lower = Fraction(0) if isinstance(release.histogram.serves, RowCount) else low[0]
    inside = float(sum(noisy[outer[0] : outer[1] + 1]))
    everything = float(sum(noisy))
    share = min(1.0, max(0.0, 1 - inside / everything)) if everything > 0 else None
    return Bounds(lower, max(high[1], lower)), share


def resolve(release: Release, found: tuple[Bounds | None, ...]) -> tuple[Task | None, AdditiveNoise, Bounds | None]:
    """A release with its bounds filled in: the task for the engine, and the noise stretched to them."""
    measure_, noise = release.measure, release.noise
    if not isinstance(release.bounds, Inferred):
        return task_of(measure_, release.bounds, noise.grid), noise, release.bounds
    bounds = found[release.bounds.histogram]
    if bounds is None:
        if not isinstance(measure_, RowCount):
            return None, noise, None
        bounds = Bounds(Fraction(0), Fraction(1))
    if isinstance(measure_, Leaves):
        return task_of(measure_, bounds, noise.grid), noise, bounds
    unit = _unit(measure_, bounds)
    if unit == 0:
        still = LaplaceNoise(Shift(0, noise.shift.coordinates), Fraction(0))
        return task_of(measure_, bounds, Fraction(1)), still, bounds
    task = task_of(measure_, bounds, noise.grid * unit**measure_.power)
    return task, shrunk(noise, task), bounds


def _unit(measure_: Measure, bounds: Bounds) -> Fraction:
    """How many times larger than one unit the found bounds are: a power of two, so that the grid stays one."""
    size = (bounds.upper - bounds.lower) / 2 if is_centred(measure_) else max(abs(bounds.lower), abs(bounds.upper))
    if size == 0:
        return Fraction(0)
    below = power_of_two_below(size)
    return below if below == size else 2 * below


def shrunk(noise: AdditiveNoise, task: Task) -> AdditiveNoise:
    """The planned noise for the shift that the found bounds really have: never more loss than was charged.

    Laplace: the same ratio of shift and scale. Gaussian: the ratio kept, and two steps more, which covers the rounding
    variance that the certificate of the planned noise takes from a grid this fine.
    """
    delta, planned = task.delta, noise.shift.per_coordinate
    if delta > planned:
        raise InternalError("found bounds are wider than the plan allows")
    shift = Shift(delta, noise.shift.coordinates, noise.shift.entries)
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(shift, noise.scale * delta / planned, task.grid)
    sigma = min(noise.sigma, Fraction(-(-noise.sigma * delta // planned)) + 2)
    return GaussianNoise(shift, sigma, task.grid)


# ---- the noisy half ----------------------------------------------------------------------------------------------


def release(plan: SelectPlan, measured: Measured, entropy: Entropy = SYSTEM) -> Released:
    """Select groups, draw noise for those that are kept and for no other, and put them in a random order."""
    measurement = measured.measurement
    kept, noisy_owners = _selected(plan, measurement, entropy)
    order = kept[entropy.permutation(len(kept))]
    readings = tuple(
        _reading(plan, measured, index, order, noisy_owners, entropy) for index in range(len(plan.releases))
    )
    keys = measurement.keys.take(pa.array(order))
    table = answer_table(plan, keys, readings, len(order), measured.found, measured.outside)
    # Trees hold exact counts: they have answered, and go no further.
    return Released(table, tuple(replace(r, forest=None) for r in readings), notes_of(plan, measured))


def _selected(
    plan: SelectPlan, measurement: Measurement, entropy: Entropy
) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """The groups to show; with a threshold on a released count also the noisy counts that decided."""
    if plan.selection is None:
        return np.arange(len(measurement.owners), dtype=np.int64), None
    draw = groups.select(plan.selection, measurement.owners, entropy)
    return np.flatnonzero(draw.kept).astype(np.int64), draw.noisy_owners


def _reading(
    plan: SelectPlan,
    measured: Measured,
    index: int,
    order: NDArray[np.int64],
    noisy_owners: NDArray[Any] | None,
    entropy: Entropy,
) -> Reading:
    release_, task = plan.releases[index], measured.tasks[index]
    noise, bounds = measured.noises[index], measured.bounds[index]
    total = measured.measurement.totals[index]
    empty = np.zeros(len(order), dtype=object)
    grid = task.grid if task is not None else noise.grid
    steps = task.steps if task is not None else None
    if task is None:
        return Reading(release_.measure, noise, grid, None, None, empty)
    if isinstance(total, LeafCounts):
        if not isinstance(release_.measure, Leaves):
            raise InternalError("only leaves have a tree")
        forest = _forest(release_.measure, total, order, noise, entropy)
        return Reading(release_.measure, noise, grid, bounds, steps, empty, forest)
    if plan.shared_count == index and noisy_owners is not None:
        values: NDArray[Any] = np.asarray(noisy_owners)[order]
    else:
        values = add_noise(noise, np.asarray(total)[order], entropy)
    return Reading(release_.measure, noise, grid, bounds, steps, values)


def _forest(
    measure_: Leaves, counts: LeafCounts, order: NDArray[np.int64], noise: AdditiveNoise, entropy: Entropy
) -> quantiles.NoisyForest:
    """Noisy trees of the groups that are shown, and of no other."""
    shown = np.full(max(int(counts.groups.max(initial=-1)), int(order.max(initial=-1))) + 1, -1, dtype=np.int64)
    shown[order] = np.arange(len(order))
    group = shown[counts.groups]
    kept = group >= 0
    return quantiles.NoisyForest(
        len(order),
        group[kept],
        counts.leaves[kept],
        counts.counts[kept],
        noise,
        branching=measure_.branching,
        height=measure_.height,
        entropy=entropy,
    )


def notes_of(plan: SelectPlan, measured: Measured) -> tuple[str, ...]:
    """What the analyst should know about this answer: bounds that were found and what they cost, or that none were."""
    notes = []
    for column in plan.columns:
        if column.histogram is None or column.histogram >= len(measured.found):
            continue
        bounds, name = measured.found[column.histogram], column.call.aggregate.name
        price = plan.histograms[column.histogram].price
        paid = f" for ε = {float(price):.3g}" if price is not None else ""
        if bounds is not None:
            notes.append(
                f"{name}: bounds [{float(bounds.lower):g}, {float(bounds.upper):g}] were found privately{paid}."
            )
        elif isinstance(column.call.aggregate, CountRows):
            notes.append(f"{name}: no bound could be found privately{paid}, so each owner counts once at most.")
        else:
            notes.append(
                f"{name}: no bounds could be found privately{paid}, so the cell is NULL; give bounds in the query."
            )
    return tuple(dict.fromkeys(notes))
