"""Plain SQL over private tables: which SELECT gets the catalog's default clause, and what DISTINCT means in it.

It is the outermost SELECT that reads private rows. In a statement without any privacy clause it is also a SELECT of FROM or
WITH that aggregates the rows of several owners: the owner is neither among its keys nor its columns, so that its rows
belong to nobody, and a private answer is the only thing that it can mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan.lineage import is_copy, lineage, owner_names
from shoal.sql.binding.after_grouping import KeyResolver, is_grouped, output_name, refuse_distinct_on, select_items
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.plan.nodes import Node
    from shoal.sql.binding.scope import Scope


def aggregates_several_owners(tree: exp.Select, node: Node, scope: Scope) -> bool:
    """Whether a SELECT over private rows aggregates them across owners, and shows nothing that bears the owner's name."""
    if not is_grouped(tree):
        return False
    items = select_items(tree.expressions)
    shown = {fold(output_name(alias, value, index)) for index, (alias, value) in enumerate(items)}
    clause = tree.args.get("group")
    keys = clause.expressions if clause is not None else []
    # A binder without subqueries: looking at a key must not draw, and charge, a private SELECT inside it.
    resolver, owners = KeyResolver(items, ExpressionBinder(scope)), lineage(node)
    return not shown & owner_names(node) and not any(_is_owner(resolver, key, owners) for key in keys)


def _is_owner(resolver: KeyResolver, key: exp.Expr, owners: frozenset[str]) -> bool:
    try:
        return is_copy(resolver.resolve(key), owners)
    except ShoalError:
        return False


def tables_read(tree: exp.Expr) -> frozenset[str]:
    """Names that a query reads, those that its WITH tables read included unless nothing reads these."""
    names = frozenset(name for key, part in tree.args.items() if key != "with_" for name in _names(part))
    for table in reversed(tree.args["with_"].expressions):
        if fold(table.alias) in names:
            names |= _names(table.this)
    return names


def _names(part: object) -> frozenset[str]:
    parts = part if isinstance(part, list) else [part]
    found = (table for p in parts if isinstance(p, exp.Expr) for table in p.find_all(exp.Table))
    return frozenset(fold(table.name) for table in found)


def distinct_as_groups(tree: exp.Select) -> exp.Select:
    """SELECT DISTINCT a, b is SELECT a, b … GROUP BY a, b."""
    if tree.args.get("distinct") is None or any(item.is_star for item in tree.expressions):
        return tree
    refuse_distinct_on(tree)
    if is_grouped(tree):
        raise ShoalError(
            "E_UNSUPPORTED",
            "A private SELECT takes no DISTINCT.",
            hint="The groups of a private SELECT are distinct already; remove DISTINCT.",
            position=position_of(tree),
        )
    grouped = tree.copy()
    grouped.set("distinct", None)
    places = [exp.Literal.number(position) for position in range(1, len(tree.expressions) + 1)]
    grouped.set("group", exp.Group(expressions=places))
    return grouped
