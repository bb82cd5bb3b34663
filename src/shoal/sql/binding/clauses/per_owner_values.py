"""Scalar subqueries correlated with the outer query by owner, rewritten as joins with one value per owner.

`(SELECT COUNT(*) FROM orders o WHERE o.customer = c.customer)` is the number of orders of c's owner: an exact value of one owner,
like a column. It is rewritten as a LEFT JOIN with `(SELECT customer, COUNT(*) FROM orders GROUP BY customer)`, so the rules for
joins on the owner apply to it. Anything not of this form is left unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.sql.binding.after_grouping import has_aggregate, select_items
from shoal.sql.parse import function_call

if TYPE_CHECKING:
    from shoal.catalog import Catalog

_COUNTS = frozenset({"COUNT", "COUNTIF", "COUNT_IF"})
"""Aggregates that are 0 over no rows; all others are NULL."""
_NOT_PLAIN = ("group", "having", "distinct", "limit", "offset", "order", "joins", "with_", "qualify", "laterals")


def values_as_joins(tree: exp.Select, catalog: Catalog) -> exp.Select:
    """The SELECT with every such subquery in its list and in WHERE replaced by a column of a joined table."""
    parts = [*tree.expressions, *([tree.args["where"]] if tree.args.get("where") else [])]
    subqueries = (subquery for part in parts for subquery in part.find_all(exp.Subquery))
    if not any(_over_private_rows(subquery, catalog) for subquery in subqueries):
        return tree
    if any(value.is_star for value in tree.expressions):
        return tree
    found = tree.copy()
    outer = _owner_columns(found, catalog)
    parts = [*found.expressions, *([found.args["where"]] if found.args.get("where") else [])]
    inside = [s for part in parts for s in part.find_all(exp.Subquery) if s.find_ancestor(exp.Select) is found]
    for number, subquery in enumerate(inside, start=1):
        _replace(found, subquery, outer, catalog, f"per_owner_{number}")
    return found


def _owner_columns(tree: exp.Select, catalog: Catalog) -> dict[str, str]:
    """The owner column of every private table in FROM, by folded alias."""
    from_ = tree.args.get("from_")
    sources = [from_.this] if from_ is not None else []
    sources += [join.this for join in tree.args.get("joins") or ()]
    named = ((source, _owner(source, catalog)) for source in sources if isinstance(source, exp.Table))
    return {fold(source.alias_or_name): owner for source, owner in named if owner is not None}


def _owner(source: exp.Table, catalog: Catalog) -> str | None:
    table = catalog.table(source.name)
    return None if table is None or table.public or table.owner is None else fold(table.owner)


def _replace(tree: exp.Select, subquery: exp.Subquery, outer: dict[str, str], catalog: Catalog, name: str) -> None:
    looked_at = _over_private_rows(subquery, catalog)
    if looked_at is None:
        return
    inner, source, owner = looked_at
    where = inner.args["where"]
    conditions = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    mine = fold(source.alias_or_name)
    links = [pair for pair in (_link(part, mine, owner, outer) for part in conditions) if pair is not None]
    others = [part for part in conditions if _link(part, mine, owner, outer) is None]
    if len(links) != 1 or any(_looks_outside(part, mine) for part in (*others, *inner.expressions)):
        return
    tree.append("joins", _join(inner, source, links[0], others, name))
    value: exp.Expr = exp.column(f"{name}_value", table=name)
    counted = function_call(select_items(inner.expressions)[0][1])
    if counted is not None and counted.name in _COUNTS:
        missing = exp.Is(this=value.copy(), expression=exp.Null())
        value = exp.Case(ifs=[exp.If(this=missing, true=exp.Literal.number(0))], default=value)
    subquery.replace(value)


def _over_private_rows(subquery: exp.Subquery, catalog: Catalog) -> tuple[exp.Select, exp.Table, str] | None:
    """One value of some rows of a private table: the SELECT, the table and its owner column."""
    inner = subquery.this
    if not isinstance(inner, exp.Select) or inner.args.get("where") is None or inner.args.get("from_") is None:
        return None
    source = inner.args["from_"].this
    owner = _owner(source, catalog) if isinstance(source, exp.Table) else None
    return None if owner is None or not _is_one_value(inner) else (inner, source, owner)


def _is_one_value(inner: exp.Select) -> bool:
    plain = not any(inner.args.get(key) for key in _NOT_PLAIN)
    return plain and inner.args.get("from_") is not None and len(inner.expressions) == 1 and has_aggregate(
        select_items(inner.expressions)[0][1]
    )  # fmt: skip


def _link(part: exp.Expr, mine: str, owner: str, outer: dict[str, str]) -> tuple[exp.Column, exp.Column] | None:
    """The inner and the outer owner column, if a condition equates them."""
    while isinstance(part, exp.Paren):
        part = part.this
    if not isinstance(part, exp.EQ):
        return None
    for here, there in ((part.this, part.expression), (part.expression, part.this)):
        if not isinstance(here, exp.Column) or not isinstance(there, exp.Column) or not there.table:
            continue
        is_mine = fold(here.name) == owner and fold(here.table or mine) == mine
        alias = fold(there.table)
        if is_mine and alias != mine and outer.get(alias) == fold(there.name):
            return here, there
    return None


def _looks_outside(part: exp.Expr, mine: str) -> bool:
    nested = part.find(exp.Select) is not None
    return nested or any(column.table and fold(column.table) != mine for column in part.find_all(exp.Column))


def _join(
    inner: exp.Select, source: exp.Table, link: tuple[exp.Column, exp.Column], others: list[exp.Expr], name: str
) -> exp.Join:
    here, there = link
    key, value = f"{name}_key", f"{name}_value"
    counted = select_items(inner.expressions)[0][1].copy()
    grouped = exp.Select(
        expressions=[
            exp.Alias(this=here.copy(), alias=exp.to_identifier(key)),
            exp.Alias(this=counted, alias=exp.to_identifier(value)),
        ]
    )
    grouped.set("from_", exp.From(this=source.copy()))
    grouped.set("group", exp.Group(expressions=[here.copy()]))
    if others:
        grouped.set("where", exp.Where(this=exp.and_(*(part.copy() for part in others), copy=False)))
    grouped.meta.update(inner.meta)
    aliased = exp.Subquery(this=grouped, alias=exp.TableAlias(this=exp.to_identifier(name)))
    return exp.Join(this=aliased, side="LEFT", on=exp.EQ(this=exp.column(key, table=name), expression=there.copy()))
