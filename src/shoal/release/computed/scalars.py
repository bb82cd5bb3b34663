"""`(SELECT SUM(x) …)` next to a group: the one number of another private SELECT, joined to every row.

A share of a separately queried total is then computed row by row from two released numbers, and drawn like any other. The
SELECT behind it has no groups, so it always has one row; the answer is the same as that of the subquery.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Column, Literal, ScalarRelation, transform, walk
from shoal.plan.nodes import Field
from shoal.plan.types import BOOLEAN

if TYPE_CHECKING:
    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import StatementPlan


def with_scalars_joined(plan: StatementPlan) -> Node:
    """The statement's tree, with the totals in its SELECT lists as columns of the rows below."""
    return _joined(plan.root, plan, {})


def _joined(node: Node, plan: StatementPlan, above: dict[str, Node]) -> Node:
    """`above`: totals that are read further up, by the symbol of their column."""
    match node:
        case nodes.Project():
            own = {s.relation.fields[0].symbol: s.relation for _, value in node.items for s in _totals(value, plan)}
            wanted = above | own
            if not wanted:
                return replace(node, input=_joined(node.input, plan, {}))
            below = _joined(node.input, plan, wanted)
            items = [(field, transform(value, lambda part: _as_column(part, own))) for field, value in node.items]
            passed = [relation.fields[0] for symbol, relation in above.items() if symbol not in own]
            more = [(Field("", f.symbol, f.type), Column(f.symbol, f.type)) for f in passed]
            return replace(node, input=below, items=(*items, *more))
        case nodes.Filter() | nodes.Sort():
            return replace(node, input=_joined(node.input, plan, above))
    for relation in above.values():
        node = nodes.Join(node, relation, "inner", Literal(True, BOOLEAN))
    return node


def _totals(value: Expression, plan: StatementPlan) -> list[ScalarRelation]:
    """Subqueries of one number that are a private SELECT without groups, with nothing that could drop its row."""
    return [part for part in walk(value) if isinstance(part, ScalarRelation) and _is_one_row(part.relation, plan)]


def _is_one_row(relation: Node, plan: StatementPlan) -> bool:
    while isinstance(relation, nodes.Project):
        relation = relation.input
    if not isinstance(relation, nodes.StoredRows) or relation.select >= len(plan.selects):
        return False
    return not plan.selects[relation.select].select.keys


def _as_column(part: Expression, totals: dict[str, Node]) -> Expression:
    if isinstance(part, ScalarRelation) and part.relation.fields[0].symbol in totals:
        return Column(part.relation.fields[0].symbol, part.type)
    return part
