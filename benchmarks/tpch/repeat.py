"""The engine once, the noise many times.

Noise and selection are drawn group by group and know nothing of other groups, so many runs of a query are one run over many copies
of its groups. What is repeated is `shoal.release.execute.release` itself: the plan's own selection, noise and finishing.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.plan.totals import LeafCounts
from shoal.release.execute import release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.plan.releases import SelectPlan
    from shoal.release.resolve_bounds import ResolvedTotals

CELLS_AT_ONCE = 2_000_000


def answers(select: SelectPlan, measured: ResolvedTotals, runs: int) -> pa.Table:
    """The released rows of all runs, one below the other: keys, and the first aggregate as `answer`."""
    cells = max([len(measured.measurement.owners), *(_cells(total) for total in measured.measurement.totals)])
    batch = max(1, CELLS_AT_ONCE // cells)
    sizes = [min(batch, runs - done) for done in range(0, runs, batch)]
    answer = select.columns[0].call.field.symbol
    names = [*(field.symbol for field, _ in select.select.keys), answer]
    tables = [release(select, copies(measured, size)).table.select(names) for size in sizes]
    return pa.concat_tables(tables).rename_columns([*names[:-1], "answer"])


def exact_answers(select: SelectPlan, measured: ResolvedTotals) -> pa.Table:
    """The bounded answers before noise, of all groups: for comparing only, never released."""
    silent = tuple(LaplaceNoise(Shift(0), Fraction(0), noise.grid) for noise in measured.noises)
    return answers(replace(select, selection=None, shared_count=None), replace(measured, noises=silent), 1)


def _cells(total: NDArray[Any] | LeafCounts) -> int:
    return len(total.leaves) if isinstance(total, LeafCounts) else len(total)


def copies(measured: ResolvedTotals, runs: int) -> ResolvedTotals:
    """The same exact numbers for that many copies of every group."""
    exact = measured.measurement
    groups = len(exact.owners)
    totals = tuple(_copied(total, groups, runs) for total in exact.totals)
    keys = pa.concat_tables([exact.keys] * runs)
    weights = None if measured.weights is None else np.tile(measured.weights, runs)
    copied = replace(exact, keys=keys, owners=np.tile(exact.owners, runs), totals=totals)
    return replace(measured, measurement=copied, weights=weights)


def _copied(total: NDArray[Any] | LeafCounts, groups: int, runs: int) -> NDArray[Any] | LeafCounts:
    if not isinstance(total, LeafCounts):
        return np.tile(total, runs)
    first = np.repeat(np.arange(runs, dtype=np.int64) * groups, len(total.groups))
    return LeafCounts(np.tile(total.groups, runs) + first, np.tile(total.leaves, runs), np.tile(total.counts, runs))
