"""The first rows by a noisy number: where noise decides which they are, the answer says so.

Groups with few owners stray most, so they come first and last too often: the ten best-paid companies of a thousand are then the
smallest ones. Everything here follows from the plan and from released numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.plan import nodes
from shoal.plan.expressions import WindowCall, columns_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import StatementPlan
    from shoal.release.error_bars import ErrorBars
    from shoal.release.postprocess import Answer

STRAYS = 0.1
"""Half an interval beside its number; from here on, noise is worth a word about the order."""
_RANKS = frozenset({"row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"})


def chosen_by_noise(plan: StatementPlan, finished: Answer, bars: ErrorBars, level: float) -> Iterator[str]:
    """A note for each column by whose noisy numbers rows were chosen, if these stray far."""
    private = frozenset(column.call.field.symbol for select in plan.selects for column in select.columns)
    deciding = {symbol for value in _deciding(plan.root) for symbol in _sources(plan.root, value)} & private
    shown = finished.table.num_rows
    if not deciding or shown >= sum(stored.table.num_rows for stored in finished.released.values()):
        return
    for index, field in enumerate(plan.root.fields):
        read = frozenset(_sources(plan.root, frozenset({field.symbol}))) & private
        if read and read <= deciding and _strays(finished, bars, index, level):
            yield (
                f"{field.name}: noise may decide which rows come first, as groups of few owners stray most. Leave those out by "
                "HAVING COUNT(*) above what only large groups reach, or take larger groups or a larger epsilon."
            )


def _strays(finished: Answer, bars: ErrorBars, index: int, level: float) -> bool:
    ends = bars.interval(index, finished.table, level, whole=False)
    if ends is None:
        return False
    values = finished.table.column(index).to_pylist()
    known = [(float(v), a, b) for v, a, b in zip(values, *ends, strict=True) if _is_number(v) and _is_number(a)]
    return any((high - low) / 2 > STRAYS * abs(value) for value, low, high in known)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _deciding(root: Node) -> Iterator[frozenset[str]]:
    """The columns that decide which rows stay: of ORDER BY … LIMIT, and of ranks that a condition looks at."""
    ranked: dict[str, frozenset[str]] = {}
    for node in reversed(list(nodes.walk(root))):
        if isinstance(node, nodes.Project):
            for field, value in node.items:
                ordered = _ordered(value)
                carried = frozenset[str]().union(*(ranked.get(name, frozenset()) for name in columns_of(value)))
                if ordered or carried:
                    ranked[field.symbol] = ordered | carried
        elif isinstance(node, nodes.Filter):
            yield from (ranked[name] for name in columns_of(node.predicate) if name in ranked)
            yield _ordered(node.predicate)
        elif isinstance(node, nodes.Sort) and node.limit is not None and node.order:
            yield columns_of(node.order[0].value)


def _ordered(value: Expression) -> frozenset[str]:
    """What the ranks in an expression are ordered by."""
    ranks = [part for part in walk(value) if isinstance(part, WindowCall) and part.function in _RANKS]
    return frozenset[str]().union(*(columns_of(part.order[0].value) for part in ranks if part.order))


def _sources(root: Node, symbols: frozenset[str]) -> frozenset[str]:
    """The symbols, and everything that they are computed from."""
    found = set(symbols)
    for node in nodes.walk(root):
        if isinstance(node, nodes.Project):
            for field, value in node.items:
                if field.symbol in found:
                    found |= columns_of(value)
    return frozenset(found)
