"""What a plan will ask, before anything is charged, with placeholders for what only the data decides.

Bounds that will be found are as wide as they can become, rows that will be released are one row of NULLs, the sampling key is
the engine's own placeholder. Whatever cannot be written or read with these is a bug of ours, and costs nothing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.engines.base import Asked
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.totals import grid_measure_of
from shoal.release.postprocess import public_scans, statement_over_nulls
from shoal.release.resolve_bounds import (
    as_asked,
    histogram_query,
    resolved_releases,
    selecting_tasks,
    selection_under,
    totals_query,
)
from shoal.release.stored_rows import StoredRows, arrow_type, components_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal.plan.measures import Histogram
    from shoal.plan.nodes import Node
    from shoal.plan.releases import SelectPlan, StatementPlan
    from shoal.plan.totals import GridMeasure, TotalsQuery


def asked_of(plan: StatementPlan, selects: Sequence[SelectPlan]) -> Asked:
    """Everything that will be asked; `selects` are those of the plan, reading placeholders instead of each other."""
    totals = tuple(question for select in selects for question in _questions(select))
    return Asked(totals, tuple(public_scans(plan.root)), None if _only_copies(plan.root) else _finishing(plan))


def _finishing(plan: StatementPlan) -> str:
    stored = {number: _null_row(select) for number, select in enumerate(plan.selects)}
    return statement_over_nulls(plan, stored)


def _only_copies(node: Node) -> bool:
    """Whether the rows that one SELECT released are only sorted and their columns chosen."""
    while not isinstance(node, nodes.StoredRows):
        if isinstance(node, nodes.Project):
            values = [value for _, value in node.items]
        elif isinstance(node, nodes.Sort):
            values = [order.value for order in node.order]
        else:
            return False
        if not all(isinstance(value, Column) for value in values):
            return False
        node = node.input
    return True


def steps_of(select: SelectPlan) -> tuple[SelectPlan, ...]:
    """What runs for a SELECT: itself; if limits are found first, the histograms and every shape that step two can have.

    κ and the other limits are numbers in the statements, and change nothing else about them.
    """
    search = select.search
    if search is None:
        return (select,)
    fewest = min(choice.contribution.groups for choice in search.choices)
    return (*search.histograms, *(c for c in search.choices if c.contribution.groups == fewest))


def placeholders(plan: StatementPlan) -> dict[int, StoredRows]:
    """For every private SELECT, one row of NULLs in place of what it will release."""
    return {number: StoredRows(_null_row(select), ()) for number, select in enumerate(plan.selects)}


def _questions(select: SelectPlan) -> list[TotalsQuery]:
    """One about the bounds, if some must be found, and one about the rest, under bounds of any width."""
    widest = tuple(_widest(release.histogram) for release in select.histograms)
    nothing = tuple(None for _ in select.histograms)
    narrowest = tuple(_narrowest(release.histogram) for release in select.histograms)
    for found in (nothing, narrowest):
        noises = [noise for _, noise, _ in resolved_releases(select, found)]
        selection_under(select, noises)
    resolved = resolved_releases(select, widest)
    tasks = tuple(as_asked(task) for task, _, _ in resolved if task is not None)
    wanted = (*tasks, *_on_other_grids(select), *selecting_tasks(select))
    asked = [totals_query(select, tuple(dict.fromkeys(wanted)))]
    return [histogram_query(select), *asked] if select.histograms else asked


def _on_other_grids(select: SelectPlan) -> Iterator[GridMeasure]:
    """Sums whose bounds are found first may be counted in ones, or in steps of several."""
    for release in select.releases:
        if release.measure.summed_on_grid and not release.measure.centred and isinstance(release.bounds, Bounds):
            yield from (as_asked(grid_measure_of(release.measure, release.bounds, Fraction(grid))) for grid in (1, 8))


def _widest(histogram: Histogram) -> Bounds:
    """The bounds that are found when every bin is filled."""
    lower = Fraction(0) if histogram.serves.never_negative else histogram.edges(histogram.bins[0])[0]
    return Bounds(lower, histogram.edges(histogram.bins[-1])[1])


def _narrowest(histogram: Histogram) -> Bounds:
    """The bounds that are found when only the smallest bin above zero is filled."""
    lower, upper = histogram.edges(1)
    return Bounds(Fraction(0) if histogram.serves.never_negative else lower, upper)


def _null_row(select: SelectPlan) -> pa.Table:
    """One row as `answer_table` makes them, without values."""
    columns = {field.symbol: pa.nulls(1, arrow_type(field.type)) for field, _ in select.select.keys}
    for column in select.columns:
        symbol = column.call.field.symbol
        columns[symbol] = pa.nulls(1, arrow_type(column.call.field.type))
        columns |= {name: pa.nulls(1, pa.float64()) for name in components_of(select, column, symbol)}
    return pa.table(columns) if columns else pa.table({"nothing": pa.nulls(1)})
