"""Window functions belong in a SELECT list, in QUALIFY or in ORDER BY, and nowhere else.

Anywhere else (a condition, a group key, an aggregate, another window) an engine would fail on them or, worse, not fail: a key or
an aggregated value of a private SELECT that looks at other rows would be one that other owners decide.

Over private rows, the work of a window must not grow with the square of an owner's rows: whether it ends would reveal who is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import WindowCall, children, walk
from shoal.plan.traverse import all_nodes, expressions_of, is_owned
from shoal.sql.functions.aggregates import NO_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect
    from shoal.sql.binding.statement import BoundStatement


def windows_of(value: Expression) -> Iterator[WindowCall]:
    """The window functions in an expression."""
    return (part for part in walk(value) if isinstance(part, WindowCall))


def read_values(select: PrivateSelect) -> list[Expression]:
    """What a private SELECT reads of every row: its keys, and what its aggregates are taken of."""
    arguments = (getattr(call.aggregate, "argument", None) for call in select.aggregates)
    return [*(value for _, value in select.keys), *(a for a in arguments if a is not None)]


def check_windows(bound: BoundStatement) -> None:
    """Refuses window functions in places where rows are still being chosen or grouped."""
    trees: list[Node] = [bound.root]
    for select in bound.selects:
        trees += [select.input, *([select.public_groups] if select.public_groups is not None else [])]
        for value in read_values(select):
            _refuse(windows_of(value))
        _refuse_listing(select.input)
    for node in (part for tree in trees for part in all_nodes(tree)):
        for value in expressions_of(node):
            if not isinstance(node, nodes.Project):
                _refuse(windows_of(value))
            for window in windows_of(value):
                _refuse(inner for child in children(window) for inner in windows_of(child))


def _refuse_listing(tree: Node) -> None:
    for node in all_nodes(tree):
        for window in (found for value in expressions_of(node) for found in windows_of(value)):
            if window.function in NO_WINDOWS and is_owned(node):
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"{window.function.upper()} cannot be a window function over private rows.",
                    hint="Compute it in a subquery that groups by the owner, and join that on the owner.",
                    position=window.position,
                )


def _refuse(windows: Iterator[WindowCall]) -> None:
    for window in windows:
        raise ShoalError(
            "E_UNSUPPORTED",
            f"The window function {window.function.upper()} is not allowed here.",
            hint="Compute it in the SELECT list of a subquery, and use the column.",
            position=window.position,
        )
