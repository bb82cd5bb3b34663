"""SQL text → tree: the only entry point for a query's text; the text itself goes no further.

The tree consists of sqlglot nodes built by our own grammar (`grammar.queries`, `grammar.expressions`,
`grammar.calls`): anything the grammar does not define cannot be in the tree, so nothing is read and then dropped.
Errors come in a fixed order: size, kind of statement, number of statements, letters and words, grammar.

    >>> parse("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM visits;").explain
    False
    >>> parse("DROP TABLE visits")
    Traceback (most recent call last):
    shoal.errors.ShoalError: E_STATEMENT: DROP is not a query; only SELECT and WITH are accepted.
    ...
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.sql.grammar.constants import Constant, ConstantKind, constant, position_of
from shoal.sql.grammar.keywords import QUERY_WORDS
from shoal.sql.grammar.queries import QueryGrammar
from shoal.sql.grammar.syntax import (
    FunctionCall,
    PrivacyClause,
    clamped,
    function_call,
    named_arguments,
    privacy_clause,
)
from shoal.sql.grammar.tokens import MAX_TREE_DEPTH, Kind, Source, check_size, first_word, refuse, tokenize, too_tall
from shoal.stack import on_its_own_stack

__all__ = [
    "Constant",
    "ConstantKind",
    "FunctionCall",
    "PrivacyClause",
    "Statement",
    "clamped",
    "constant",
    "function_call",
    "named_arguments",
    "parse",
    "position_of",
    "privacy_clause",
    "source_text",
]


@dataclass(frozen=True, slots=True)
class Statement:
    """A query: Select, Union, Intersect or Except; `explain` if EXPLAIN PRIVACY preceded it."""

    tree: exp.Expression
    explain: bool
    sql: str


def parse(sql: str) -> Statement:
    """The one query in some SQL; raises a ShoalError that says why there is none."""
    if not isinstance(sql, str):
        raise ShoalError("E_USAGE", "A query must be a string.", hint="Pass the SQL text.")
    try:
        check_size(sql)
        _check_statement(sql)
        return on_its_own_stack(lambda: _parse(sql))
    except ShoalError as error:
        raise error.located(sql) from None
    except RecursionError:
        raise ShoalError("E_LIMITS", "The query nests too deeply.", hint="Name the inner parts with WITH.") from None


def has_privacy_clause(statement: Statement) -> bool:
    """Whether any SELECT of a statement has its own privacy clause."""
    return any(privacy_clause(select) is not None for select in statement.tree.find_all(exp.Select))


def source_text(node: exp.Expr, sql: str) -> str:
    """The text a node was read from."""
    return sql[node.meta["start"] : node.meta["end"]] if "start" in node.meta else ""


def _parse(sql: str) -> Statement:
    source = tokenize(sql)
    _check_single(source)
    grammar = QueryGrammar(source)
    explain = grammar.accept("EXPLAIN", "PRIVACY")
    if not explain and grammar.at("EXPLAIN"):
        hint = "EXPLAIN PRIVACY <query> shows what a query costs and how exact it will be."
        grammar.fail("E_STATEMENT", "An engine's plan shows exact numbers of rows; it is not shown.", hint)
    tree = cast("exp.Expression", grammar.statement())
    if _depth(tree) > MAX_TREE_DEPTH:
        too_tall(sql, 0)
    return Statement(tree, explain, sql)


_INSTEAD = {
    "SUMMARIZE": "DESCRIBE table shows its columns; SELECT COUNT(x), AVG(x), MEDIAN(x) FROM table asks for their numbers.",
    "PIVOT": "Write one aggregate per column, each with its own FILTER (WHERE …).",
}
"""What to write instead of statements that look at data."""


def _check_statement(sql: str) -> None:
    """Accept only queries: the first word decides, before the rest is even tokenised."""
    word, start = first_word(sql) or ("SELECT", 0)
    if word not in QUERY_WORDS and word != "EXPLAIN":
        message = f"{word[:40]} is not a query; only SELECT and WITH are accepted."
        refuse(sql, start, "E_STATEMENT", message, _INSTEAD.get(word, "A query begins with SELECT or WITH."))


def _check_single(source: Source) -> None:
    semicolon = False
    for token in source.tokens:
        if semicolon and token.kind is not Kind.END and token.key != ";":
            refuse(
                source.sql,
                token.start,
                "E_MULTI_STATEMENT",
                "There is more than one statement.",
                "Send one query at a time.",
            )
        semicolon = semicolon or token.key == ";"
    if len(source.tokens) == 1 or source.tokens[0].key == ";":
        refuse(source.sql, 0, "E_PARSE", "The query is empty.", "A query begins with SELECT or WITH.")


def _depth(tree: exp.Expr) -> int:
    """Levels of the tree, without recursion; chains such as a + b + c … count once for each operator."""
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in node.iter_expressions()]
    return deepest
