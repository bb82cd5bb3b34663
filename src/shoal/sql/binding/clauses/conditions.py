"""Conditions of WHERE and ON: their parts, and the owners that they compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression
from shoal.plan.types import common_type
from shoal.sql import functions
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.plan.kept_rows import KeptRows
    from shoal.plan.nodes import Node
    from shoal.sql.binding.context import CommonTable, Context, Scope
    from shoal.sql.binding.statement import Binder


class ConditionBinder(ExpressionBinder):
    """WHERE and ON: comparing owners of different types is refused with its own error."""

    def __init__(self, scope: Scope, binder: Binder, tables: dict[str, CommonTable]) -> None:
        super().__init__(scope, binder.subquery(tables))
        self._context = binder.context

    def bind(self, node: exp.Expr) -> Expression:
        """An expression; a comparison of two columns is checked first."""
        if isinstance(node, exp.EQ) and isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Column):
            position = position_of(node)
            refuse_different_owners(self._context, super().bind(node.this), super().bind(node.expression), position)
        return super().bind(node)


def refuse_different_owners(
    context: Context, left: Expression, right: Expression, position: tuple[int, int] | None
) -> None:
    """Owners of two types cannot be joined, whatever a cast would make of them."""
    if holds_owner(context, left) and holds_owner(context, right) and common_type([left.type, right.type]) is None:
        raise ShoalError(
            "E_JOIN_NOT_ON_UID",
            f"The owner columns of this join are of different types, {left.type} and {right.type}.",
            hint="Ask the custodian for a view in which they are of one type.",
            position=position,
        )


def holds_owner(context: Context, value: Expression) -> bool:
    """Whether a value is the owner column of a table, as stored."""
    origin = context.symbols.origins.get(value.symbol) if isinstance(value, Column) else None
    table = context.catalog.table(origin[0]) if origin is not None else None
    return table is not None and table.owner is not None and origin is not None and fold(table.owner) == origin[1]


def has_one_row(context: Context, kept: KeptRows, node: Node) -> bool:
    """Whether an owner has at most one row among those counted, whatever the data."""

    def has_one(name: str) -> bool:
        table = context.catalog.table(name)
        return table is not None and table.one_row_per_owner

    return kept.is_one_row(node, has_one, lambda key: holds_owner(context, key))


def owner_not_in_place(position: tuple[int, int] | None) -> ShoalError:
    """The refusal of a set operation that would mix owners up."""
    return ShoalError(
        "E_SETOP_UID",
        "Both sides of a set operation need the owner column, at the same position and of the same kind.",
        hint="SELECT uid, … FROM a UNION ALL SELECT uid, … FROM b",
        position=position,
    )


def is_subquery_test(conjunct: exp.Expr) -> bool:
    """Whether a condition is [NOT] EXISTS (SELECT …) or [NOT] IN (SELECT …)."""
    test = conjunct.this if isinstance(conjunct, exp.Not) else conjunct
    return isinstance(test, exp.Exists) or (isinstance(test, exp.In) and test.args.get("query") is not None)


def filtered(node: Node, conditions: list[Expression]) -> Node:
    """The rows for which all conditions hold: one filter, however long the chain of ANDs."""
    if not conditions:
        return node
    whole = conditions[0] if len(conditions) == 1 else functions.resolve("and", conditions, conditions[0].position)
    return nodes.Filter(node, whole, position=conditions[0].position)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a top-level AND."""
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    return [node]
