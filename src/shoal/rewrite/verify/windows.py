"""Windows over private rows: they look at one owner's rows, and which of two equal rows comes first changes nothing.

A window that uses places must order its rows by all that is read of them, so that tied rows are equal. Two such windows must agree
about equal rows as well: both end with a number of the row that the relation below them has made, for each owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Column, WindowCall, columns_of
from shoal.plan.types import Kind
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.plan.expressions import Expression
    from shoal.rewrite.verify.ownership import Owned

RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
BY_PLACE = RANKS | {"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"}
"""Window functions that use a row's position, and mean nothing without an order."""
WHOLE_PARTITION = (None, "PRECEDING"), (None, "FOLLOWING")


def check_windows(node: nodes.Node, values: Iterable[Expression], below: Owned) -> None:
    """Refuses a window whose answer for an owner's rows could follow from anything but these rows."""
    windows = {value for value in values if isinstance(value, WindowCall)}
    for window in windows:
        require(isinstance(node, nodes.Project), "a window where rows are still being chosen")
        require(any(map(below.holds, window.partition)), "a window looks at the rows of several owners")
        require(bool(window.order) or _needs_no_order(window), "a window follows the order in which rows are stored")
    by_place = [window for window in windows if _tells_equal_rows_apart(window)]
    if not by_place or not isinstance(node, nodes.Project):
        return
    for window in by_place:
        known = _ordered(window) | below.certain
        ties_are_equal = _read_of(node) <= known or any(keys <= known for keys in _keys_of(node.input))
        require(ties_are_equal, "a window has ties between rows that differ")
    if len(by_place) > 1:
        agreed = frozenset.intersection(*map(_ordered, by_place))
        require(bool(agreed & _numbers_in(node.input)), "windows disagree about the places of equal rows")


def _read_of(node: nodes.Project) -> frozenset[str]:
    """The columns of the rows below that anything reads; those of types that no query can name are always NULL."""
    known = {f.symbol for f in node.input.fields if f.type.kind is not Kind.UNSUPPORTED}
    return frozenset(symbol for _, value in node.items for symbol in columns_of(value)) & known


def _keys_of(node: nodes.Node) -> list[frozenset[str]]:
    """Columns that no two rows share, where rows are groups."""
    while isinstance(node, nodes.Filter):
        node = node.input
    return [frozenset(f.symbol for f, _ in node.keys)] if isinstance(node, nodes.Aggregate) else []


def _ordered(window: WindowCall) -> frozenset[str]:
    return frozenset(order.value.symbol for order in window.order if isinstance(order.value, Column))


def _numbers_in(node: nodes.Node) -> frozenset[str]:
    """Columns that number the rows of each owner."""
    if not isinstance(node, nodes.Project):
        return frozenset()
    return frozenset(
        f.symbol
        for f, value in node.items
        if isinstance(value, WindowCall)
        and value.function == "row_number"
        and [*value.partition] == [Column(p.symbol, p.type) for p in node.input.fields if p.symbol == node.input.owner]
    )


def _tells_equal_rows_apart(window: WindowCall) -> bool:
    if window.function in BY_PLACE:
        return window.function not in RANKS
    return window.frame is not None and window.frame.unit.upper() == "ROWS"


def _needs_no_order(window: WindowCall) -> bool:
    """An aggregate over the whole partition, or over all peers of a row, which without an order is the same."""
    frame = window.frame
    if window.function in BY_PLACE:
        return False
    return frame is None or frame.unit.upper() == "RANGE" or (frame.start, frame.end) == WHOLE_PARTITION
