"""What the text of a query tells about tails, before data is read: quotients, and groups that are made of the values themselves.

Where a divisor comes near 0 with some density, x/y exceeds t about as often as 1/t: speeds of trips that took seconds, prices per
unit, rates. That follows from the query's text, so what lies beyond bounds is feared to fall off no faster.

Where a group key is computed from the column that is averaged (customers by what they spent), one group has the whole tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, columns_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shoal.plan.expressions import Expression

DEEPEST = 20
"""Columns of inner queries that are looked up one after the other."""


def is_quotient(argument: Expression | None, source: nodes.Node) -> bool:
    """Whether a value is divided by what differs from row to row, here or in an inner query."""
    return argument is not None and _divides(argument, _computed(source), DEEPEST)


def is_grouped_by_itself(argument: Expression | None, keys: Iterable[Expression], source: nodes.Node) -> bool:
    """Whether a group key is computed from a column that the argument is computed from, too."""
    if argument is None:
        return False
    computed = _computed(source)
    of_argument = _origins(argument, computed, DEEPEST)
    return any(of_argument & _origins(key, computed, DEEPEST) for key in keys)


def _computed(source: nodes.Node) -> dict[str, Expression]:
    return {
        field.symbol: expression
        for node in nodes.walk(source)
        if isinstance(node, nodes.Project)
        for field, expression in node.items
    }


def _origins(expression: Expression, computed: Mapping[str, Expression], deeper: int) -> frozenset[str]:
    """The columns that an expression reads, followed into inner queries."""
    found: set[str] = set()
    for symbol in columns_of(expression):
        inner = computed.get(symbol) if deeper else None
        found |= {symbol} if inner is None else _origins(inner, computed, deeper - 1)
    return frozenset(found)


def _divides(expression: Expression, computed: Mapping[str, Expression], deeper: int) -> bool:
    for part in walk(expression):
        if isinstance(part, Call) and part.function == "divide" and columns_of(part.arguments[1]):
            return True
        inner = computed.get(part.symbol) if isinstance(part, Column) else None
        if inner is not None and deeper and _divides(inner, computed, deeper - 1):
            return True
    return False
