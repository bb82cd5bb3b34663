"""Quotients, whose tails are known before data is read.

Where a divisor comes near 0 with some density, x/y exceeds t about as often as 1/t: speeds of trips that took seconds, prices per
unit, rates. That follows from the query's text, so what lies beyond bounds is feared to fall off no faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, columns_of, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.plan.expressions import Expression

DEEPEST = 20
"""Columns of inner queries that are looked up one after the other."""


def is_quotient(argument: Expression | None, source: nodes.Node) -> bool:
    """Whether a value is divided by what differs from row to row, here or in an inner query."""
    if argument is None:
        return False
    computed = {
        field.symbol: expression
        for node in nodes.walk(source)
        if isinstance(node, nodes.Project)
        for field, expression in node.items
    }
    return _divides(argument, computed, DEEPEST)


def _divides(expression: Expression, computed: Mapping[str, Expression], deeper: int) -> bool:
    for part in walk(expression):
        if isinstance(part, Call) and part.function == "divide" and columns_of(part.arguments[1]):
            return True
        inner = computed.get(part.symbol) if isinstance(part, Column) else None
        if inner is not None and deeper and _divides(inner, computed, deeper - 1):
            return True
    return False
