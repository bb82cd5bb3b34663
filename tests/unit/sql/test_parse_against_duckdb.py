"""An oracle for precedence: DuckDB gives a text without parentheses the value it gives our tree with all of them."""

from __future__ import annotations

import random

import duckdb
import pytest
from sqlglot import exp

from shoal.errors import ShoalError
from shoal.sql.parse import parse

ROWS = "(VALUES (1, 2, 3, 'x', 'y', TRUE, FALSE), (3, -2, 0, 'yx', '', FALSE, NULL)) AS r(a, b, c, s, t, p, q)"
SYMBOLS = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Is: "IS",
    exp.Like: "LIKE",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
ARITHMETIC = ("+", "-", "*", "%", "/", "//")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MAYBE_NOT = ("", "NOT")


class Writer:
    """Writes random expressions without parentheses."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        forms = [
            lambda: self.random.choice("abc123"),
            lambda: f"{self.number(depth - 1)} {self.random.choice(ARITHMETIC)} {self.number(depth - 1)}",
            lambda: f"- {self.number(depth - 1)}",
            lambda: f"{self.random.choice('abc')}::DOUBLE",
        ]
        return self.random.choice(forms if depth else forms[:1])()

    def text(self, depth: int) -> str:
        forms = [
            lambda: self.random.choice(("s", "t", "'x'")),
            lambda: f"{self.text(depth - 1)} || {self.text(depth - 1)}",
            lambda: f"{self.text(depth - 1)} || {self.number(depth - 1)}",
        ]
        return self.random.choice(forms if depth else forms[:1])()

    def truth(self, depth: int) -> str:
        forms = [
            lambda: self.random.choice("pq"),
            lambda: f"{self.number(depth - 1)} {self.random.choice(COMPARISONS)} {self.number(depth - 1)}",
            lambda: f"{self.truth(depth - 1)} {self.random.choice(('AND', 'OR'))} {self.truth(depth - 1)}",
            lambda: f"NOT {self.truth(depth - 1)}",
            lambda: f"{self.number(depth - 1)} {self.random.choice(MAYBE_NOT)} BETWEEN 1 AND {self.number(1)}",
            lambda: f"{self.number(depth - 1)} {self.random.choice(MAYBE_NOT)} IN (1, {self.number(depth - 1)})",
            lambda: f"{self.text(depth - 1)} {self.random.choice(MAYBE_NOT)} LIKE {self.text(0)}",
            lambda: (
                f"{self.truth(depth - 1)} IS {self.random.choice(MAYBE_NOT)} {self.random.choice(('NULL', 'TRUE'))}"
            ),
            lambda: f"{self.number(1)} IS {self.random.choice(MAYBE_NOT)} DISTINCT FROM {self.number(depth - 1)}",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {self.truth(0)} ELSE {self.truth(depth - 1)} END",
        ]
        return self.random.choice(forms if depth else forms[:1])()


def rendered(node: exp.Expression) -> str:
    """The tree with a pair of parentheses around every part."""
    match node:
        case exp.Column() | exp.Literal() | exp.Boolean() | exp.Null():
            return node.sql()
        case exp.Neg():
            return f"(- {rendered(node.this)})"
        case exp.Not():
            return f"(NOT {rendered(node.this)})"
        case exp.Between():
            return f"({rendered(node.this)} BETWEEN {rendered(node.args['low'])} AND {rendered(node.args['high'])})"
        case exp.In():
            return f"({rendered(node.this)} IN ({', '.join(rendered(item) for item in node.expressions)}))"
        case exp.Cast():
            return f"CAST({rendered(node.this)} AS {node.to.sql('duckdb')})"
        case exp.Case():
            branches = " ".join(f"WHEN {rendered(i.this)} THEN {rendered(i.args['true'])}" for i in node.args["ifs"])
            return f"(CASE {branches} ELSE {rendered(node.args['default'])} END)"
    right = rendered(node.expression)
    return f"({rendered(node.this)} {SYMBOLS[type(node)]} {right})"


@pytest.mark.parametrize("seed", range(4))
def test_a_text_without_parentheses_means_what_duckdb_says(seed):
    writer = Writer(seed)
    engine = duckdb.connect()
    compared = 0
    for _ in range(150):
        text = writer.random.choice((writer.number, writer.text, writer.truth))(3)
        try:
            expected = engine.execute(f"SELECT {text} FROM {ROWS}").fetchall()
            tree = parse(f"SELECT {text} FROM t").tree
        except (duckdb.Error, ShoalError):
            continue
        assert repr(engine.execute(f"SELECT {rendered(tree.expressions[0])} FROM {ROWS}").fetchall()) == repr(
            expected
        ), text
        compared += 1
    assert compared > 90


def test_set_operations_mean_what_duckdb_says():
    engine = duckdb.connect()
    rng = random.Random(3)
    operators = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL")
    for _ in range(60):
        text = "SELECT 1"
        for _ in range(rng.randint(1, 5)):
            text += f" {rng.choice(operators)} SELECT {rng.randint(1, 2)}"
        expected = sorted(engine.execute(text).fetchall())
        assert sorted(engine.execute(_rendered_query(parse(text).tree)).fetchall()) == expected, text


def _rendered_query(tree: exp.Expression) -> str:
    if isinstance(tree, exp.Select):
        return f"SELECT {tree.expressions[0].name}"
    word = type(tree).__name__.upper()
    every = "" if tree.args["distinct"] else "ALL"
    return f"({_rendered_query(tree.this)}) {word} {every} ({_rendered_query(tree.expression)})"
