"""Views of a server that cannot fail on a single row, as far as their text shows.

A view with `100 / x` fails on the row where x is 0. Nothing is handed on into views and all of their columns are read, so no query
decides which rows they meet. But a query would still fail for one owner's row. So a view over private rows is made of columns,
comparisons and a few functions that have a value for every row, or the catalog says `trusted_view = true`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.engines.postgresql.relations import Contents, Relation

_TOTAL = (
    *(exp.Select, exp.Subquery, exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Where, exp.With, exp.CTE, exp.Union),
    *(exp.Intersect, exp.Except, exp.Distinct, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Exists),
    *(exp.Column, exp.Identifier, exp.Star, exp.Alias, exp.Paren, exp.Literal, exp.Boolean, exp.Null, exp.Tuple),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Lower, exp.Upper, exp.Length, exp.Count, exp.Min, exp.Max, exp.CurrentUser, exp.Any, exp.Array, exp.Array),
    *(exp.DataType, exp.DataTypeParam),
)

_RELATIONS = (exp.From, exp.Join, exp.Any, exp.Exists, exp.SetOperation, exp.Subquery, exp.CTE)
"""Where a subquery is a relation; anywhere else it is a value, and the server raises an error if it has two rows."""


def refuse_fragile(name: str, relation: Relation, contents: Contents) -> None:
    """E_CATALOG for a view, or rules about rows, that could fail on some rows."""
    found = _fragile_part(relation, contents, depth=0)
    if found is not None:
        raise ShoalError(
            "E_CATALOG",
            f"Reading {name!r} can fail on single rows: {found}.",
            hint="Keep views over private rows to columns, comparisons, CASE, COALESCE, LOWER, UPPER and LENGTH. "
            "If no row can fail, say trusted_view = true.",
        )


def _fragile_part(relation: Relation, contents: Contents, depth: int) -> str | None:
    if relation.kind == "f":
        return "it is a foreign table, or has one as a part, whose values are converted when they are read"
    if relation.rules:
        return _fragile_text(f"SELECT 1 WHERE {relation.rules}", contents, depth)
    return _fragile_text(relation.definition, contents, depth) if relation.definition is not None else None


def _fragile_text(text: str, contents: Contents, depth: int) -> str | None:
    try:
        tree = sqlglot.parse_one(text, dialect="postgres")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return "its definition is not understood"
    for node in tree.walk():
        if not isinstance(node, _TOTAL) and not _is_harmless_cast(node):
            return f"it has {type(node).__name__.upper()}"
        if isinstance(node, exp.Length) and {key for key, value in node.args.items() if value} != {"this"}:
            return "it has LENGTH of bytes in an encoding that they may not have"
        if isinstance(node, exp.With) and node.args.get("recursive"):
            return "it is recursive, and a single row could make it endless"
        if isinstance(node, exp.Subquery) and not _is_relation(node):
            return "it has a subquery for one value, which may have two rows"
    return _fragile_table(tree, contents, depth)


def _is_relation(query: exp.Subquery) -> bool:
    above = query.parent
    if isinstance(above, exp.In):
        return query.arg_key == "query"
    return above is None or isinstance(above, _RELATIONS)


def _fragile_table(tree: exp.Expr, contents: Contents, depth: int) -> str | None:
    local = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        below = [contents.at(table.db, table.name)] if table.db else list(contents.named(table.name))
        if not table.db and table.name in local and not below:
            continue
        # A bare name may mean any of them, and one that a CTE has too may still mean a table where that is out of scope.
        for relation in below or [None]:
            if relation is None or depth > 20:
                return "it reads something that is not a table of the database"
            found = _fragile_part(relation, contents, depth + 1)
            if found is not None:
                return found
    return None


def _is_harmless_cast(node: exp.Expr) -> bool:
    """A constant that is cast fails for every row or for none; anything can be written as a string."""
    if not isinstance(node, exp.Cast):
        return False
    is_list = isinstance(node.this, exp.Array)
    listed = node.this.expressions if is_list else [node.this]
    return all(map(_is_constant, listed)) or (not is_list and node.to.is_type("text", "varchar"))


def _is_constant(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return _is_constant(node.this)
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))
