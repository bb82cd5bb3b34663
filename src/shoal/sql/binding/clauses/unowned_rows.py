"""Rows without an owner: an outer join that preserves a public table's rows creates some, and plain SQL leaves them out.

`movies LEFT JOIN ratings` also shows films that nobody rated. In plain SQL the join becomes an inner one, and the answer says so:
groups on a short public list still appear, with noise around 0. If WHERE selects the missing side (`ratings.film IS NULL`),
leaving those rows out would answer a different question, so the join is unchanged and is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Call, Case, Expression, walk
from shoal.plan.traverse import columns_read, is_owned

if TYPE_CHECKING:
    from shoal.plan.nodes import Node

_HOLDS_FOR_NULL = frozenset(
    {"is_null", "coalesce", "ifnull", "if", "is_not_true", "is_not_false", "is_distinct_from", "is_not_distinct_from"}
)
_KEEPS_PRIVATE = {("full", True): "left", ("full", False): "right", ("left", False): "inner", ("right", True): "inner"}
"""(kind, whether the private side is on the left) → the join without unowned rows."""


def owned_rows_only(node: Node) -> tuple[Node, tuple[str, ...]]:
    """The rows that have an owner, and the public tables whose rows were left out."""
    found: list[str] = []
    return _owned(node, (), found), tuple(dict.fromkeys(found))


def _owned(node: Node, conditions: tuple[Expression, ...], found: list[str]) -> Node:
    match node:
        case nodes.Filter():
            return replace(node, input=_owned(node.input, (*conditions, node.predicate), found))
        case nodes.Join(kind="semi" | "anti"):
            return replace(node, left=_owned(node.left, conditions, found))
        case nodes.Join() if is_owned(node):
            return _join(node, conditions, found)
    return node


def _join(node: nodes.Join, conditions: tuple[Expression, ...], found: list[str]) -> Node:
    left, right = is_owned(node.left), is_owned(node.right)
    private, public = (node.left, node.right) if left else (node.right, node.left)
    kind = _KEEPS_PRIVATE.get((node.kind, left)) if left != right and not node.from_subquery else None
    if kind is not None and not any(_looks_for_nothing(c, private) for c in conditions):
        found.extend(part.table for part in nodes.walk(public) if isinstance(part, nodes.Scan))
        node = replace(node, kind=kind)
    inside = conditions if node.kind == "inner" else ()
    return replace(
        node,
        left=_owned(node.left, inside, found) if left else node.left,
        right=_owned(node.right, inside, found) if right else node.right,
    )


def _looks_for_nothing(condition: Expression, private: Node) -> bool:
    """Whether a condition may hold when the private side is missing."""
    reads = bool(columns_read(condition) & {f.symbol for f in private.fields})
    return reads and any(
        isinstance(part, Case) or (isinstance(part, Call) and part.function in _HOLDS_FOR_NULL)
        for part in walk(condition)
    )
