"""WHERE, with its EXISTS and IN: subqueries that read private rows, or are correlated, become semi or anti joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, ExistsRelation, Expression, Literal, columns_of
from shoal.plan.traverse import is_owned
from shoal.plan.types import BOOLEAN
from shoal.sql import functions
from shoal.sql.binding.after_grouping import has_aggregate
from shoal.sql.binding.clauses.conditions import ConditionBinder, conjuncts, filtered, holds_owner, is_subquery_test
from shoal.sql.binding.clauses.from_clause import FromBinder
from shoal.sql.binding.context import Scope
from shoal.sql.binding.expressions import ExpressionBinder, in_relation
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.plan.nodes import Node
    from shoal.sql.binding.context import CommonTable
    from shoal.sql.binding.statement import Binder


class WhereBinder:
    """Binds the WHERE of one SELECT, whose FROM is in scope."""

    def __init__(self, binder: Binder, scope: Scope, tables: dict[str, CommonTable]) -> None:
        self._binder = binder
        self._scope = scope
        self._tables = tables

    def bound(self, tree: exp.Select, node: Node) -> Node:
        """The rows for which WHERE holds."""
        clause = tree.args.get("where")
        if clause is None:
            return node
        binder = ConditionBinder(self._scope, self._binder, self._tables)
        plain: list[Expression] = []
        for conjunct in conjuncts(clause.this):
            if not is_subquery_test(conjunct):
                plain.append(binder.condition(conjunct))
                continue
            node = self._semi_join(conjunct, filtered(node, plain))
            plain = []
        return filtered(node, plain)

    def _semi_join(self, conjunct: exp.Expr, node: Node) -> Node:
        """[NOT] EXISTS (…) and [NOT] IN (…) as semi and anti joins, if they are correlated or read private rows."""
        negated = isinstance(conjunct, exp.Not)
        test = conjunct.this if negated else conjunct
        query, value = (test.this, None) if isinstance(test, exp.Exists) else (test.args["query"], test.this)
        query = query.this if isinstance(query, exp.Subquery) else query
        position = position_of(conjunct)
        with self._binder.context.no_defaults():
            inner, correlated, outputs = self._correlated(query)
        if not correlated and not is_owned(inner):
            return self._public_test(node, inner, outputs, value, negated=negated, position=position)
        conditions = list(correlated)
        if value is not None:
            if len(outputs) != 1:
                raise ShoalError("E_PARSE", "IN (SELECT …) takes one column.", position=position)
            left = ExpressionBinder(self._scope, self._binder.subquery(self._tables)).bind(value)
            equal = functions.resolve("equal", [left, outputs[0]], position)
            if negated and not (
                holds_owner(self._binder.context, left) and holds_owner(self._binder.context, outputs[0])
            ):
                # NOT IN is unknown, not true, if a value is missing; an owner never is.
                unknown = functions.resolve("is_null", [equal], position)
                equal = functions.resolve("or", [equal, unknown], position)
            conditions.append(equal)
        condition: Expression = conditions[0] if conditions else Literal(True, BOOLEAN)
        for other in conditions[1:]:
            condition = functions.resolve("and", [condition, other], position)
        return nodes.Join(node, inner, "anti" if negated else "semi", condition, from_subquery=True, position=position)

    def _public_test(
        self,
        node: Node,
        inner: Node,
        outputs: list[Expression],
        value: exp.Expr | None,
        *,
        negated: bool,
        position: tuple[int, int] | None,
    ) -> Node:
        """A subquery over public rows only: an ordinary condition."""
        relation = self._binder.project(inner, [("", o) for o in outputs])
        test: Expression
        if value is None:
            test = ExistsRelation(relation, position=position)
        else:
            left = ExpressionBinder(self._scope, self._binder.subquery(self._tables)).bind(value)
            test = in_relation(left, relation, position)
        return nodes.Filter(node, functions.resolve("not", [test], position) if negated else test, position=position)

    def _correlated(self, query: exp.Expr) -> tuple[Node, list[Expression], list[Expression]]:
        """A subquery split into its own relation, the correlated conditions, and its output columns."""
        clauses = ("group", "having", "distinct", "limit", "offset", "qualify", "with_", "hint")
        plain = isinstance(query, exp.Select) and not any(query.args.get(k) for k in clauses)
        if not plain or any(has_aggregate(item) for item in query.expressions):
            node = self._binder.uncorrelated(query, self._tables, self._scope)
            return node, [], [Column(f.symbol, f.type) for f in node.fields]
        assert isinstance(query, exp.Select)  # noqa: S101 - narrowed above
        scope = Scope(parent=self._scope)
        node = FromBinder(self._binder, scope, self._tables).bound(query)
        inner = WhereBinder(self._binder, scope, self._tables)
        binder = ConditionBinder(scope, self._binder, self._tables)
        own = {f.symbol for f in node.fields}
        inside: list[Expression] = []
        correlated: list[Expression] = []
        for conjunct in conjuncts(query.args["where"].this) if query.args.get("where") is not None else []:
            if is_subquery_test(conjunct):
                node, inside = inner._semi_join(conjunct, filtered(node, inside)), []
                continue
            condition = binder.condition(conjunct)
            (inside if columns_of(condition) <= own else correlated).append(condition)
        node = filtered(node, inside)
        outputs: list[Expression] = []
        for item in query.expressions:
            value = item.this if isinstance(item, exp.Alias) else item
            if value.is_star:
                outputs.extend(Column(f.symbol, f.type) for _, f in scope.visible())
            else:
                outputs.append(binder.bind(value))
        return node, correlated, outputs
