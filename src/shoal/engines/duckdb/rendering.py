"""Trees → DuckDB's SQL text, in words that nobody can redefine."""

from __future__ import annotations

from sqlglot import exp

from shoal.engines.duckdb.writing import BINARY, Unknown, write
from shoal.stack import on_its_own_stack

_OPERATORS = BINARY | {exp.Div: "/"}


def render(tree: exp.Expr, *, qualify_operators: bool = False) -> str:
    """The SQL text of a tree; operators by qualified name, and orders in full, where somebody may have redefined them."""
    return on_its_own_stack(lambda: _rendered(tree, qualify_operators=qualify_operators))


def _rendered(tree: exp.Expr, *, qualify_operators: bool) -> str:
    try:
        return write(tree, qualified=qualify_operators)
    except Unknown:
        return generated(tree, qualify_operators=qualify_operators)


def generated(tree: exp.Expr, *, qualify_operators: bool) -> str:
    """The same by sqlglot's generator, which knows every node."""
    if qualify_operators:
        tree = _all_qualified(tree.copy())
    return tree.sql(dialect="duckdb", normalize_functions=False, comments=False, copy=False)


def _all_qualified(tree: exp.Expr) -> exp.Expr:
    """What is inside an operator comes before it."""
    for node in reversed(list(tree.dfs())):
        qualified = _qualified(node)
        if qualified is not node:
            tree = qualified if node is tree else (node.replace(qualified), tree)[1]
    return tree


def _qualified(node: exp.Expr) -> exp.Expr:
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return exp.Anonymous(this=f'system.main."{operator}"', expressions=[node.this, node.expression])
    if isinstance(node, exp.Ordered):
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return exp.Var(this=f"{generated(node.this, qualify_operators=False)} {direction} NULLS {nulls}")
    if isinstance(node, exp.Neg):
        return exp.Anonymous(this='system.main."-"', expressions=[node.this])
    return node
