"""What the engine cannot read where it is, moved into its own projection below.

The smallest and largest of strings are taken by bytes; for that the engine copies their argument, and it cannot copy one that
holds a relation (`MAX((SELECT …))`, of an aggregate or of a window). So such arguments become columns first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, WindowCall, transform
from shoal.plan.nodes import Field
from shoal.plan.traverse import expressions_of, relations_in
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.nodes import Node

    Lift = Callable[[Expression], Expression]


Reader = TypeVar("Reader", nodes.Project, nodes.Aggregate)


def lifted(node: Reader) -> Reader:
    """The node over a projection that has such arguments as columns; usually the node itself."""
    if not any(map(relations_in, expressions_of(node))):
        return node
    below: dict[Expression, Column] = {}

    def lift(value: Expression) -> Expression:
        if value.type.kind is not Kind.TEXT or not relations_in(value):
            return value
        return below.setdefault(value, Column(f"lifted{len(below)}", value.type))

    changed = _aggregate(node, lift) if isinstance(node, nodes.Aggregate) else _project(node, lift)
    return replace(changed, input=_with_columns(node.input, below)) if below else node


def _aggregate(node: nodes.Aggregate, lift: Lift) -> nodes.Aggregate:
    aggregates = tuple((f, replace(a, arguments=tuple(map(lift, a.arguments)))) for f, a in node.aggregates)
    return replace(node, aggregates=aggregates)


def _project(node: nodes.Project, lift: Lift) -> nodes.Project:
    def change(part: Expression) -> Expression:
        return replace(part, arguments=tuple(map(lift, part.arguments))) if isinstance(part, WindowCall) else part

    return replace(node, items=tuple((f, transform(value, change)) for f, value in node.items))


def _with_columns(node: Node, below: dict[Expression, Column]) -> nodes.Project:
    kept = tuple((field, Column(field.symbol, field.type)) for field in node.fields)
    added = tuple((Field("", made.symbol, made.type), value) for value, made in below.items())
    return nodes.Project(node, (*kept, *added), node.owner)
