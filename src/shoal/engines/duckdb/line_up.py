"""What the statements of one query answer, put side by side: the same groups in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.group_keys import match_groups, roomy
from shoal.engines.statements.bound_owners import N
from shoal.engines.statements.sum_owners import BIN, LEAF, OWNERS
from shoal.plan.totals import ExactTotals, LeafCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from sqlglot import exp

    from shoal.engines.statements.sum_owners import Statements
    from shoal.plan.totals import TotalsQuery


def lined_up(query: TotalsQuery, statements: Statements, run: Callable[[exp.Expr], pa.Table]) -> ExactTotals:
    """The totals of a query from the answers of its statements."""
    key_names = [f"k{i}" for i in range(len(query.keys))]
    totals = run(statements.totals)
    groups = roomy(totals.select(key_names) if key_names else pa.table({"one": [1]}))
    if statements.groups is not None:
        groups = roomy(run(statements.groups))
    count = groups.num_rows
    position = _positions(groups, totals, key_names)
    owners = _spread(totals.column(OWNERS), position, count).astype(np.int64)
    values: list[NDArray[Any] | LeafCounts] = [np.zeros(count, dtype=object) for _ in query.tasks]
    for total in totals.column_names:
        if total.startswith("m"):
            values[int(total[1:])] = _spread(totals.column(total), position, count)
    for tree, indices in statements.sampled:
        table = run(tree)
        position = _positions(groups, table, key_names)
        for index in indices:
            values[index] = _spread(table.column(f"m{index}"), position, count)
    for tree, index in statements.distinct:
        table = run(tree)
        values[index] = _spread(table.column(N), _positions(groups, table, key_names), count)
    for tree, index in statements.leaves:
        values[index] = _leaf_counts(run(tree), LEAF, groups, key_names)
    histograms = tuple(
        _histogram(run(tree), groups, key_names, per_group=histogram.per_group)
        for histogram, tree in zip(query.histograms, statements.histograms, strict=True)
    )
    return ExactTotals(groups if key_names else groups.select([]), owners, tuple(values), histograms)


def _leaf_counts(table: pa.Table, leaf: str, groups: pa.Table, key_names: list[str]) -> LeafCounts:
    return LeafCounts(_positions(groups, table, key_names), _int64(table.column(leaf)), _int64(table.column(N)))


def _histogram(
    table: pa.Table, groups: pa.Table, key_names: list[str], *, per_group: bool
) -> dict[int, int] | LeafCounts:
    if per_group:
        return _leaf_counts(table, BIN, groups, key_names)
    return dict(zip(_int64(table.column(BIN)).tolist(), _int64(table.column(N)).tolist(), strict=True))


def _positions(groups: pa.Table, table: pa.Table, key_names: list[str]) -> NDArray[np.int64]:
    """For every row of a statement's answer, the number of its group."""
    if not key_names:
        return np.zeros(table.num_rows, dtype=np.int64)
    return match_groups(groups, table.select(key_names))


def _int64(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _spread(column: pa.ChunkedArray, position: NDArray[np.int64], count: int) -> NDArray[Any]:
    """A column of wide integers, put where its groups are; groups without a row have 0."""
    values = np.zeros(count, dtype=object)
    if pa.types.is_decimal(column.type):
        numbers = np.array([0 if v is None else int(v) for v in column.to_pylist()], dtype=object)
    else:
        numbers = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False)).astype(object)
    values[position] = numbers
    return values
