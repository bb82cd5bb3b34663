"""Rows are numbered once where two windows look at their places.

A window that uses places breaks its ties by all columns, so that which of two equal rows comes first makes no difference to it. To
two windows it does: if the first gives equal rows the places 1 and 2, the second may give them 5 and 4 or 4 and 5, and what is
computed from both follows the order in which an engine meets the rows: other owners would decide about it. So equal rows
are numbered below, and every window takes that number for its last tie-break. Whichever of them is first, it is first for all.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Order, WindowCall, transform, walk
from shoal.plan.nodes import Field
from shoal.plan.traverse import all_nodes, rebuilt, relations_in, with_relations
from shoal.plan.types import INTEGER, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect

RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
PLACED = frozenset({"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"})


def number_rows(select: PrivateSelect, prefix: str) -> PrivateSelect:
    """The same SELECT, in which windows over the same rows agree about the places of equal ones."""
    if not any(isinstance(node, nodes.Project) and _disagree(node) for node in _relations(select)):
        return select
    symbols = (f"{prefix}_{i}" for i in count())

    def numbered(node: Node) -> Node:
        node = rebuilt(node, numbered)
        return _numbered(node, next(symbols)) if isinstance(node, nodes.Project) and _disagree(node) else node

    groups = select.public_groups
    return replace(
        select,
        input=numbered(select.input),
        keys=tuple((field, with_relations(value, numbered)) for field, value in select.keys),
        public_groups=None if groups is None else numbered(groups),
    )


def _relations(select: PrivateSelect) -> Iterator[Node]:
    values = [value for _, value in select.keys]
    listed = [] if select.public_groups is None else [select.public_groups]
    for root in (select.input, *listed, *(relation for value in values for relation in relations_in(value))):
        yield from all_nodes(root)


def _disagree(node: nodes.Project) -> bool:
    return len(set(_by_place(node))) > 1


def _by_place(node: nodes.Project) -> Iterator[WindowCall]:
    return (
        part for _, value in node.items for part in walk(value) if isinstance(part, WindowCall) and follows_places(part)
    )


def follows_places(window: WindowCall) -> bool:
    """Whether equal rows may get different answers."""
    if window.function in PLACED | RANKS:
        return window.function in PLACED
    return window.frame is not None and window.frame.unit == "ROWS"


def _numbered(node: nodes.Project, symbol: str) -> nodes.Project:
    below = node.input
    number = Field("", symbol, INTEGER)
    ordered = tuple(Order(Column(f.symbol, f.type)) for f in below.fields if f.type.kind is not Kind.UNSUPPORTED)
    owners = (Column(below.owner, nodes.field_of(below, below.owner).type),) if below.owner is not None else ()
    places = WindowCall("row_number", (), owners, ordered, None, INTEGER)
    copies = tuple((f, Column(f.symbol, f.type)) for f in below.fields)
    last = Order(Column(symbol, INTEGER))

    def agreed(part: Expression) -> Expression:
        if not isinstance(part, WindowCall) or not follows_places(part):
            return part
        return replace(part, order=(*part.order, last))

    items = tuple((field, transform(value, agreed)) for field, value in node.items)
    return replace(node, input=nodes.Project(below, (*copies, (number, places)), below.owner), items=items)
