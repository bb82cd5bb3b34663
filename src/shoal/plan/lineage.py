"""Tracks owners through plain copies: symbols that hold some table's owner. No decisions are made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, Expression

if TYPE_CHECKING:
    from shoal.plan.nodes import Field, Node


def lineage(node: Node) -> frozenset[str]:
    """Symbols that hold some table's owner (or NULL), following plain copies only."""
    match node:
        case nodes.Scan():
            return frozenset({node.owner}) if node.owner is not None else frozenset()
        case nodes.Project():
            return copies(node.items, lineage(node.input))
        case nodes.Aggregate():
            return copies(node.keys, lineage(node.input))
        case nodes.PythonRows():
            return copies(node.carried, lineage(node.input))
        case nodes.Join():
            return lineage(node.left) | (frozenset() if node.kind in {"semi", "anti"} else lineage(node.right))
        case nodes.SetOperation():
            sides = [(lineage(s), s.fields) for s in (node.left, node.right)]
            return frozenset(
                f.symbol
                for i, f in enumerate(node.fields)
                if all(fields[i].symbol in symbols for symbols, fields in sides)
            )
        case nodes.Filter() | nodes.Distinct() | nodes.Sort():
            return lineage(node.input)
        case _:
            return frozenset()


def copies(items: tuple[tuple[Field, Expression], ...], symbols: frozenset[str]) -> frozenset[str]:
    """Which fields are copies of what the symbols hold."""
    return frozenset(f.symbol for f, value in items if is_copy(value, symbols))


def is_copy(value: Expression, symbols: frozenset[str]) -> bool:
    """A bare column, or a COALESCE of bare columns, as USING produces for a full join."""
    if isinstance(value, Column):
        return value.symbol in symbols
    return (
        isinstance(value, Call) and value.function == "coalesce" and all(is_copy(a, symbols) for a in value.arguments)
    )


def owner_names(node: Node) -> frozenset[str]:
    """The names of the owner columns below."""
    return frozenset(
        fold(nodes.field_of(part, part.owner).name)
        for part in nodes.walk(node)
        if isinstance(part, nodes.Scan) and part.owner is not None
    )
