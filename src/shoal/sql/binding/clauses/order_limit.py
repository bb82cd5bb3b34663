"""The end of a query: ORDER BY, LIMIT and OFFSET."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Order
from shoal.sql.binding.context import Relation, Scope
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.plan.nodes import Field, Node
    from shoal.sql.binding.context import CommonTable
    from shoal.sql.binding.statement import Binder


class OutputBinder(ExpressionBinder):
    """ORDER BY: an ordinal or a bare name is an output column; inside expressions the columns of FROM come first, then outputs."""

    def __init__(
        self, scope: Scope, binder: Binder, tables: dict[str, CommonTable], outputs: list[tuple[Field, Expression]]
    ) -> None:
        super().__init__(scope, binder.subquery(tables))
        self._outputs = outputs

    def output_order(self, item: exp.Expr) -> Order:
        """One item of ORDER BY."""
        node = item.this if isinstance(item, exp.Ordered) else item
        found = self._output(node)
        if found is None:
            return self.ordered(item)
        nulls_first = item.args.get("nulls_first")
        return Order(found, bool(item.args.get("desc")), nulls_first is not None and bool(nulls_first))

    def column(self, node: exp.Column, position: tuple[int, int] | None) -> Expression:
        """A column of FROM, else the output column of that name."""
        try:
            return super().column(node, position)
        except ShoalError:
            named = [] if node.table else self._named(node.name)
            if len(named) != 1:
                raise
            return named[0][1]

    def _output(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return self._ordinal(node)
        if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
            named = self._named(node.name)
            return named[0][1] if len(named) == 1 else None
        return None

    def _named(self, name: str) -> list[tuple[Field, Expression]]:
        return [(f, value) for f, value in self._outputs if f.name and fold(f.name) == fold(name)]

    def _ordinal(self, node: exp.Literal) -> Expression:
        number = int(node.name)
        if not 1 <= number <= len(self._outputs):
            raise ShoalError(
                "E_PARSE", f"ORDER BY {number} names no column of the SELECT list.", position=position_of(node)
            )
        return self._outputs[number - 1][1]


def with_tail(
    binder: Binder,
    tree: exp.Expr,
    node: Node,
    items: list[tuple[str, Expression]],
    scope: Scope,
    tables: dict[str, CommonTable],
    bound_order: list[Order] | None = None,
) -> Node:
    """ORDER BY, LIMIT and OFFSET; sort keys that are not shown are carried along, then dropped."""
    if not items:
        # DISTINCT and set operations leave only their output columns in scope.
        items = [(f.name, Column(f.symbol, f.type)) for f in node.fields]
        scope = Scope([Relation("", node.fields)], parent=scope.parent)
        projected: Node = node
        shown = list(node.fields)
    else:
        projected = binder.project(node, items)
        shown = list(projected.fields)
    order = bound_order if bound_order is not None else _order(binder, tree, shown, items, scope, tables)
    limit, offset = _number(tree, "limit"), _number(tree, "offset")
    if not order and limit is None and not offset:
        return projected
    values = {value: Column(f.symbol, f.type) for f, (_, value) in zip(shown, items, strict=True)}
    values.update({Column(f.symbol, f.type): Column(f.symbol, f.type) for f in shown})
    extra = [o.value for o in order if o.value not in values]
    if extra:
        projected = binder.project(node, items + [("", value) for value in extra])
        shown = list(projected.fields)[: len(items)]
        everything = zip(projected.fields, [v for _, v in items] + extra, strict=True)
        values = {value: Column(f.symbol, f.type) for f, value in everything}
    keys = tuple(Order(values[o.value], o.descending, o.nulls_first) for o in order)
    result: Node = nodes.Sort(projected, keys, limit, offset or 0, position=position_of(tree))
    if extra:
        result = binder.project(result, [(f.name, Column(f.symbol, f.type)) for f in shown])
    return result


def _order(
    binder: Binder,
    tree: exp.Expr,
    shown: list[Field],
    items: list[tuple[str, Expression]],
    scope: Scope,
    tables: dict[str, CommonTable],
) -> list[Order]:
    clause = tree.args.get("order")
    if clause is None:
        return []
    outputs = [(f, value) for f, (_, value) in zip(shown, items, strict=True)]
    outputs_first = OutputBinder(scope, binder, tables, outputs)
    return [outputs_first.output_order(o) for o in clause.expressions]


def _number(tree: exp.Expr, clause: str) -> int | None:
    part = tree.args.get(clause)
    if part is None:
        return None
    value = part.expression
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit() or len(value.name) > 15:
        raise ShoalError("E_PARSE", f"{clause.upper()} takes a whole number.", position=position_of(part))
    return int(value.name)
