"""Queries that are right by the letter and hardly ever meant: what the answer should say about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.plan import nodes
from shoal.plan.expressions import Call, Literal, walk
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.nodes import Node
    from shoal.sql.binding.context import Scope

_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def mistaken(tree: exp.Select, node: Node, scope: Scope) -> Iterator[str]:
    """Remarks about a comparison with NULL, and about names of columns in single quotes."""
    conditions = [part.predicate for part in nodes.walk(node) if isinstance(part, nodes.Filter)]
    calls = [part for condition in conditions for part in walk(condition) if isinstance(part, Call)]
    if any(call.function in _COMPARISONS and _has_null(call) for call in calls):
        yield "A comparison with NULL is never true, not even NULL = NULL: IS NULL and IS NOT NULL ask whether a value is missing."
    columns = {fold(field.name): field for _, field in scope.visible()}
    for key in _keys(tree):
        if isinstance(key, exp.Literal) and key.is_string and fold(key.name) in columns:
            name = columns[fold(key.name)].name
            yield f"'{key.name}' in single quotes is a string, the same in every row; the column is \"{name}\"."
        elif isinstance(key, exp.Div) and isinstance(key.this, exp.Column) and _is_whole(key.expression):
            divided = columns.get(fold(key.this.name))
            if divided is not None and divided.type.kind is Kind.INTEGER:
                yield f"{key.sql()} has a fraction; {key.this.sql()} // {key.expression.sql()} is the whole quotient."


def _has_null(call: Call) -> bool:
    return any(isinstance(argument, Literal) and argument.value is None for argument in call.arguments)


def _is_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _keys(tree: exp.Select) -> Iterator[exp.Expr]:
    """What a SELECT groups by, with the names and numbers of its items resolved."""
    items = [item.this if isinstance(item, exp.Alias) else item for item in tree.expressions]
    named = {fold(item.alias): item.this for item in tree.expressions if isinstance(item, exp.Alias)}
    group = tree.args.get("group")
    for key in group.expressions if group is not None else ():
        if _is_whole(key) and 0 < int(key.name) <= len(items):
            yield items[int(key.name) - 1]
        else:
            yield named.get(fold(key.name), key) if isinstance(key, exp.Column) and not key.table else key
