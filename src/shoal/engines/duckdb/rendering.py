"""Trees → DuckDB's SQL text, in words that nobody can redefine."""

from __future__ import annotations

from sqlglot import exp

from shoal.stack import on_its_own_stack

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.DPipe: "||",
}


def render(tree: exp.Expr, *, qualify_operators: bool = False) -> str:
    """The SQL text of a tree; operators by qualified name, and orders in full, where somebody may have redefined them."""
    return on_its_own_stack(lambda: _rendered(tree, qualify_operators=qualify_operators))


def _rendered(tree: exp.Expr, *, qualify_operators: bool) -> str:
    if qualify_operators:
        tree = tree.copy().transform(_qualified)
    return tree.sql(dialect="duckdb", normalize_functions=False, comments=False, copy=False)


def _qualified(node: exp.Expr) -> exp.Expr:
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return exp.Anonymous(this=f'system.main."{operator}"', expressions=[node.this, node.expression])
    if isinstance(node, exp.Ordered):
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return exp.Var(this=f"{_rendered(node.this, qualify_operators=True)} {direction} NULLS {nulls}")
    if isinstance(node, exp.Neg):
        return exp.Anonymous(this='system.main."-"', expressions=[node.this])
    return node
