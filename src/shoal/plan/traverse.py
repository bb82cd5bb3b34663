"""Traversal of whole plans: everything under a relation, including inside its expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import (
    Column,
    ExistsRelation,
    Expression,
    InRelation,
    Literal,
    ScalarRelation,
    children,
    columns_of,
    transform,
)
from shoal.plan.expressions import walk as walk_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.plan.nodes import Node

MAX_WEIGHT = 20_000
"""All expressions together: 1 for a column or a constant, `COMPUTED` for anything that is computed."""

COMPUTED = 8


def expressions_of(node: Node) -> list[Expression]:
    """The expressions a node holds."""
    match node:
        case nodes.Filter():
            return [node.predicate]
        case nodes.Project():
            return [value for _, value in node.items]
        case nodes.Join():
            return [node.condition]
        case nodes.Aggregate():
            arguments = [a for _, aggregate in node.aggregates for a in aggregate.arguments]
            filters = [a.filter for _, a in node.aggregates if a.filter is not None]
            return [value for _, value in node.keys] + arguments + filters
        case nodes.Sort():
            return [o.value for o in node.order]
        case nodes.PythonRows():
            return [value for _, value in (*node.arguments, *node.carried)]
        case _:
            return []


def all_nodes(node: Node) -> Iterator[Node]:
    """The node, everything below it, and the relations inside expressions."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(nodes.inputs(current))
        for expression in expressions_of(current):
            stack.extend(relations_in(expression))


def relations_in(expression: Expression) -> list[Node]:
    """The relations inside an expression; shared parts are visited once."""
    found: list[Node] = []
    seen: set[int] = set()
    stack = [expression]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, (InRelation, ExistsRelation, ScalarRelation)):
            found.append(current.relation)
        stack.extend(children(current))
    return found


class Weights:
    """How much expressions hold: each part is weighed once, however often it is used, so that no name for one makes it slow."""

    def __init__(self) -> None:
        self._weighed: dict[int, tuple[Expression, int]] = {}

    def weight(self, expression: Expression) -> int:
        """The weight of an expression as if it were written out, without the relations inside it."""
        if isinstance(expression, (Column, Literal)):
            return 1
        known = self._weighed.get(id(expression))
        if known is None:
            # The expression is kept with its weight: while it lives, no other can have its id.
            known = expression, COMPUTED + sum(map(self.weight, children(expression)))
            self._weighed[id(expression)] = known
        return known[1]

    def check(self, expression: Expression) -> None:
        """Refuses an expression that is too large on its own. Whoever binds names calls this for each of them."""
        if self.weight(expression) > MAX_WEIGHT:
            raise too_heavy()


def too_heavy() -> ShoalError:
    """The refusal of a query that a few names make large."""
    return ShoalError(
        "E_LIMITS",
        "The query has too many expressions once aliases and WITH tables are expanded.",
        hint="Ask several smaller queries.",
    )


def is_owned(node: Node) -> bool:
    """Whether private rows lie under a relation."""
    return any(isinstance(part, nodes.Scan) and part.owner is not None for part in all_nodes(node))


def columns_read(value: Expression) -> frozenset[str]:
    """The columns an expression reads, including those that a relation inside it takes from outside."""
    found = set(columns_of(value))
    for part in walk_expression(value):
        if isinstance(part, (InRelation, ExistsRelation, ScalarRelation)):
            inside = list(all_nodes(part.relation))
            made = {f.symbol for node in inside for f in node.fields}
            found |= {symbol for node in inside for e in expressions_of(node) for symbol in columns_of(e)} - made
    return frozenset(found)


def with_relations(value: Expression, change: Callable[[Node], Node]) -> Expression:
    """An expression with the relations inside it changed; the same one where it has none."""
    if not relations_in(value):
        return value

    def inside(part: Expression) -> Expression:
        if isinstance(part, (InRelation, ExistsRelation, ScalarRelation)):
            return replace(part, relation=change(part.relation))
        return part

    return transform(value, inside)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """A node with its inputs, and the relations inside its expressions, changed."""

    def expression(value: Expression) -> Expression:
        return with_relations(value, change)

    match node:
        case nodes.Filter():
            return replace(node, input=change(node.input), predicate=expression(node.predicate))
        case nodes.Project():
            return replace(node, input=change(node.input), items=tuple((f, expression(v)) for f, v in node.items))
        case nodes.Join():
            return replace(node, left=change(node.left), right=change(node.right), condition=expression(node.condition))
        case nodes.SetOperation():
            return replace(node, left=change(node.left), right=change(node.right))
        case nodes.Aggregate():
            keys = tuple((f, expression(v)) for f, v in node.keys)
            aggregates = tuple((f, _rebuilt_aggregate(a, expression)) for f, a in node.aggregates)
            return replace(node, input=change(node.input), keys=keys, aggregates=aggregates)
        case nodes.Sort():
            order = tuple(replace(o, value=expression(o.value)) for o in node.order)
            return replace(node, input=change(node.input), order=order)
        case nodes.Distinct() | nodes.PythonRows():
            return replace(node, input=change(node.input))
        case _:
            return node


def _rebuilt_aggregate(
    aggregate: nodes.RowAggregate, expression: Callable[[Expression], Expression]
) -> nodes.RowAggregate:
    condition = expression(aggregate.filter) if aggregate.filter is not None else None
    return replace(aggregate, arguments=tuple(expression(a) for a in aggregate.arguments), filter=condition)
