"""Separate bounds for every group, on request: groups are selected first, then bounds are found for those that are shown.

Why it is private. One owner is in at most κ groups, with one value in the histogram of each: that release is charged for a
shift of one in κ coordinates. The histograms of groups that are not shown are dropped. Whatever bounds come out, one owner
moves the numbers of a group by no more than the planned share of that group's own noise, which is stretched with the bounds; so
the moves of κ groups add up to what was charged, whichever bounds each of them has.

Groups with the same bounds are a class. The engine is asked for every measure under the bounds of every class; of each answer
only the groups of the class are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.group_keys import match_groups
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.totals import LeafCounts
from shoal.release.cuts.clamped import most_clamped
from shoal.release.noisy import read_bounds, reading, selected, weights_among
from shoal.release.resolve_bounds import ResolvedTotals, histogram_query, resolve, selecting_tasks, totals_query
from shoal.release.stored_rows import StoredRows, answer_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.engines.base import Engine
    from shoal.mechanisms.entropy import Entropy
    from shoal.params import Bounds
    from shoal.plan.aggregates import Aggregate
    from shoal.plan.releases import HistogramRelease, SelectPlan
    from shoal.plan.totals import ExactTotals, GridMeasure, SamplingKey
    from shoal.release.cuts.clamped import Clamped
    from shoal.release.noisy import Read

TASKS_AT_ONCE = 32
GROUPS_AT_ONCE = 10_000

Pairs = tuple["Bounds | None", ...]
"""What was found for one group, one pair of bounds for each histogram."""


@dataclass(frozen=True, slots=True)
class Found:
    """Bounds of the groups that are shown: the different ones, which of them each group has, and shares outside them."""

    classes: tuple[Pairs, ...]
    class_of: NDArray[np.int64]
    outside: tuple[tuple[float | None, ...], ...]
    clamped: tuple[tuple[Clamped | None, ...], ...]
    """The most that the bounds of a class cut off, for each class and each histogram."""


def release_by_group(plan: SelectPlan, engine: Engine, key: SamplingKey, entropy: Entropy) -> StoredRows:
    """Select groups, find bounds for those that are kept, measure under these bounds, and draw noise."""
    seen = engine.totals(histogram_query(plan), key)
    kept, decided = selected(plan, seen.owners, weights_among(seen, selecting_tasks(plan)), entropy, plan.selection)
    found = find_bounds(plan, seen, kept, entropy)
    tables, readings = [], []
    for number, measured in enumerate(measure_classes(plan, engine, key, seen, found.classes)):
        here = np.flatnonzero(found.class_of == number)
        order = kept[here]
        own = tuple(reading(plan, measured, i, order, decided, entropy) for i in range(len(plan.releases)))
        outside = tuple(tuple(shares[i] for i in here.tolist()) for shares in found.outside)
        keys = seen.keys.take(pa.array(order))
        tables.append(answer_table(plan, keys, own, len(order), measured.found, outside, bounds_class=number))
        # Trees hold exact counts: they have been answered, and go no further.
        readings.append(tuple(replace(r, forest=None) for r in own))
    table = pa.concat_tables(tables)
    shuffled = table.take(pa.array(entropy.permutation(table.num_rows))).combine_chunks()
    return StoredRows(shuffled, tuple(readings), notes_of(plan, found), clamped=found.clamped)


def find_bounds(plan: SelectPlan, seen: ExactTotals, kept: NDArray[np.int64], entropy: Entropy) -> Found:
    """Bounds of each kept group from its own noisy histograms; groups with the same bounds are one class."""
    bounds, outside, clamped = [], [], []
    for release, counts in zip(plan.histograms, seen.histograms, strict=True):
        if not isinstance(counts, LeafCounts):
            raise InternalError("the bounds of each group come from its own histogram")
        read = _read(plan, release, counts, kept, entropy)
        bounds.append([each.bounds for each in read])
        outside.append(tuple(each.outside for each in read))
        clamped.append([each.clamped for each in read])
    of_group = list(zip(*bounds, strict=True))
    # Without any group there is still an empty table with its columns.
    classes = tuple(dict.fromkeys(of_group)) or ((None,) * len(plan.histograms),)
    numbers = {pairs: number for number, pairs in enumerate(classes)}
    class_of = np.array([numbers[pairs] for pairs in of_group], dtype=np.int64)
    members = [np.flatnonzero(class_of == number).tolist() for number in range(len(classes))]
    largest = tuple(tuple(most_clamped([cut[i] for i in own]) for cut in clamped) for own in members)
    return Found(classes, class_of, tuple(outside), largest)


def _read(
    plan: SelectPlan, release: HistogramRelease, counts: LeafCounts, kept: NDArray[np.int64], entropy: Entropy
) -> list[Read]:
    """A histogram for each kept group, including empty bins; as many groups at a time as fit in memory."""
    bins = release.histogram.bins
    row_of = np.full(max(int(counts.groups.max(initial=-1)), int(kept.max(initial=-1))) + 1, -1, dtype=np.int64)
    row_of[kept] = np.arange(len(kept))
    row, position = row_of[counts.groups], counts.leaves - bins[0]
    found: list[Read] = []
    for start in range(0, len(kept), GROUPS_AT_ONCE):
        size = min(GROUPS_AT_ONCE, len(kept) - start)
        here = (row >= start) & (row < start + size) & (position >= 0)
        dense = np.zeros((size, len(bins)), dtype=np.int64)
        dense[row[here] - start, position[here]] = counts.counts[here]
        found += read_bounds(release, dense, entropy, plan.select.input)
    return found


def measure_classes(
    plan: SelectPlan, engine: Engine, key: SamplingKey, seen: ExactTotals, classes: Sequence[Pairs]
) -> list[ResolvedTotals]:
    """What enters the mechanisms under the bounds of each class; equal tasks are sent once."""
    resolved = [[resolve(release, found) for release in plan.releases] for found in classes]
    wanted = list(dict.fromkeys(task for row in resolved for task, _, _ in row if task is not None))
    totals: dict[GridMeasure, NDArray[Any] | LeafCounts] = {}
    for start in range(0, len(wanted), TASKS_AT_ONCE):
        some = tuple(wanted[start : start + TASKS_AT_ONCE])
        answer = engine.totals(totals_query(plan, some), key)
        position = match_groups(seen.keys, answer.keys)
        totals |= {task: _moved(total, position) for task, total in zip(some, answer.totals, strict=True)}
    nothing = np.zeros(len(seen.owners), dtype=object)
    return [
        ResolvedTotals(
            replace(seen, totals=tuple(nothing if task is None else totals[task] for task, _, _ in row), histograms=()),
            tuple(task for task, _, _ in row),
            tuple(noise for _, noise, _ in row),
            tuple(bounds for _, _, bounds in row),
            found,
        )
        for row, found in zip(resolved, classes, strict=True)
    ]


def _moved(total: NDArray[Any] | LeafCounts, position: NDArray[np.int64]) -> NDArray[Any] | LeafCounts:
    """An answer in the order in which the groups were first seen: the engine returns them in any order."""
    if isinstance(total, LeafCounts):
        return LeafCounts(position[total.groups], total.leaves, total.counts)
    moved = np.empty_like(total)
    moved[position] = total
    return moved


def notes_of(plan: SelectPlan, found: Found) -> tuple[str, ...]:
    """How wide the found bounds are, how many groups have none, and what it cost."""
    notes = []
    sizes = np.bincount(found.class_of, minlength=len(found.classes)).tolist()
    for column in plan.columns:
        if column.histogram is None:
            continue
        paid = plan.price_of_bounds(column.histogram)
        known = [pairs[column.histogram] for pairs in found.classes]
        present = [bounds for bounds in known if bounds is not None]
        if present:
            low, high = min(b.lower for b in present), max(b.upper for b in present)
            text = f"bounds of each group were found privately{paid}, within [{float(low):g}, {float(high):g}]"
        else:
            text = f"no bounds of any group could be found privately{paid}"
        without = sum(size for size, bounds in zip(sizes, known, strict=True) if bounds is None)
        name = column.call.field.name or column.call.aggregate.name
        notes.append(f"{name}: {text}{_left_out(column.call.aggregate, without)}.")
    return tuple(dict.fromkeys(notes))


def _left_out(aggregate: Aggregate, groups: int) -> str:
    if not groups:
        return ""
    which = f"{groups} group has none" if groups == 1 else f"{groups} groups have none"
    return f"; {which}: {aggregate.without_bounds_there}"
