"""A relation without the columns that nobody reads.

The engine would leave them out by itself, but only after they were written, bound and read again by us. Every column is a
total function of its row, so one that is not computed changes no other; the rows stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import ExistsRelation, Expression, InRelation, ScalarRelation, transform
from shoal.plan.traverse import columns_read, expressions_of, relations_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.plan.nodes import Field, Node
    from shoal.plan.totals import TotalsQuery


def read_input(query: TotalsQuery) -> Node:
    """The rows of a question, with the columns that its keys and measures read."""
    values = (*(key for _, key in query.keys), *query.arguments)
    return pruned(query.input, frozenset[str]().union(*map(columns_read, values)))


def pruned(node: Node, read: Iterable[str]) -> Node:
    """The relation with the columns that are read, its owner, and as few others as can be; never none."""
    needed = frozenset(read) | ({node.owner} if node.owner is not None else frozenset())
    match node:
        case nodes.Scan():
            kept = _kept(node.fields, needed)
            columns = tuple(c for f, c in zip(node.fields, node.columns, strict=True) if f in kept)
            return replace(node, fields=kept, columns=columns)
        case nodes.Project():
            return _project(node, needed)
        case nodes.Filter():
            return replace(node, input=_below(node, node.input, needed), predicate=_inside(node.predicate))
        case nodes.Join():
            left, right = (_below(node, side, needed) for side in (node.left, node.right))
            return replace(node, left=left, right=right, condition=_inside(node.condition))
        case nodes.Aggregate():
            return _aggregate(node, needed)
        case nodes.Sort():
            order = tuple(replace(o, value=_inside(o.value)) for o in node.order)
            return replace(node, input=_below(node, node.input, needed), order=order)
        case nodes.Distinct():
            return replace(node, input=whole(node.input))
        case nodes.SetOperation():
            return replace(node, left=whole(node.left), right=whole(node.right))
        case nodes.PythonRows():
            return replace(node, input=_below(node, node.input, frozenset()))
        case _:
            return node


def whole(node: Node) -> Node:
    """The relation with all its columns, and fewer below it."""
    return pruned(node, (field.symbol for field in node.fields))


def _below(node: Node, below: Node, needed: frozenset[str]) -> Node:
    """What lies below a node, with the columns that are read in it or above it."""
    read = needed.union(*map(columns_read, expressions_of(node)))
    return pruned(below, read & {field.symbol for field in below.fields})


def _kept(fields: tuple[Field, ...], needed: frozenset[str]) -> tuple[Field, ...]:
    return tuple(field for field in fields if field.symbol in needed) or fields[:1]


def _project(node: nodes.Project, needed: frozenset[str]) -> nodes.Project:
    kept = _kept(node.fields, needed)
    shorter = replace(node, items=tuple((f, _inside(v)) for f, v in node.items if f in kept))
    return replace(shorter, input=_below(shorter, node.input, frozenset()))


def _aggregate(node: nodes.Aggregate, needed: frozenset[str]) -> nodes.Aggregate:
    """Groups stay, whoever reads their keys; without keys one aggregate stays, because it makes the one row."""
    kept = {f for f, _ in node.aggregates if f.symbol in needed}
    if not node.keys and not kept:
        kept = {f for f, _ in node.aggregates[:1]}
    aggregates = tuple((f, _aggregate_inside(a)) for f, a in node.aggregates if f in kept)
    shorter = replace(node, keys=tuple((f, _inside(v)) for f, v in node.keys), aggregates=aggregates)
    return replace(shorter, input=_below(shorter, node.input, frozenset()))


def _aggregate_inside(aggregate: nodes.RowAggregate) -> nodes.RowAggregate:
    condition = None if aggregate.filter is None else _inside(aggregate.filter)
    return replace(aggregate, arguments=tuple(map(_inside, aggregate.arguments)), filter=condition)


def _inside(value: Expression) -> Expression:
    """An expression with the relations in it pruned; whether there are rows needs no column."""
    if not relations_in(value):
        return value

    def change(part: Expression) -> Expression:
        if isinstance(part, ExistsRelation):
            return replace(part, relation=pruned(part.relation, ()))
        if isinstance(part, (InRelation, ScalarRelation)):
            return replace(part, relation=whole(part.relation))
        return part

    return transform(value, change)
