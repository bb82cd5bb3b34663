"""UNNEST(STRING_SPLIT(x, '|')): one row for each part of the string.

It is written as a join of the table with the numbers 1 to `MOST_PARTS`, so no new operation needs to be shown total and
bounded: row n has part n. That is a public number of rows at most, so private rows are split as well (`rewrite/check_fanout`
bounds the work, and an owner counts in a limited number of groups whatever the parts are). In a join of public and private
rows, a public string is split before it is joined: how often its table repeats a key is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.traverse import columns_read, is_owned
from shoal.plan.types import INTEGER, TEXT, Kind
from shoal.sql import functions
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import exp

    from shoal.plan.nodes import Field, Node
    from shoal.sql.binding.context import Symbols
    from shoal.sql.binding.expressions import ExpressionBinder

MOST_PARTS = 256
_SPLITS = frozenset({"STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY", "SPLIT"})


def is_unnested(value: exp.Expr) -> bool:
    """Whether an item of a SELECT list, or a relation in FROM, is UNNEST(…)."""
    call = function_call(value)
    return call is not None and call.name.upper() == "UNNEST"


def is_split(value: exp.Expr) -> bool:
    """Whether it is the UNNEST of the parts of a string."""
    call = function_call(value) if is_unnested(value) else None
    inner = function_call(call.arguments[0]) if call is not None and len(call.arguments) == 1 else None
    return inner is not None and inner.name.upper() in _SPLITS and len(inner.arguments) == 2


def split(value: exp.Expr, node: Node, rows: ExpressionBinder, symbols: Symbols, name: str = "") -> tuple[Node, Field]:
    """The rows, each repeated once per part of the string, and the field that holds the part."""
    position = position_of(value)
    call = function_call(value)
    inner = function_call(call.arguments[0]) if call is not None and is_split(value) else None
    if inner is None:
        raise _unsupported("UNNEST takes the parts of a string.", "Write UNNEST(STRING_SPLIT(x, '|')).", position)
    text, separator = (rows.bind(argument) for argument in inner.arguments)
    if text.type.kind is not Kind.TEXT or not isinstance(separator, Literal) or not separator.value:
        raise _unsupported("STRING_SPLIT takes a string and a constant separator.", None, position)
    part = symbols.field(name, TEXT)
    found = _replaced(node, columns_read(text), lambda public: _cut_up(public, part, text, separator, symbols))
    return found or _cut_up(node, part, text, separator, symbols), part


def _unsupported(message: str, hint: str | None, position: tuple[int, int] | None) -> ShoalError:
    return ShoalError("E_UNSUPPORTED", message, hint=hint, position=position)


def _replaced(node: Node, symbols: frozenset[str], cut_up: Callable[[Node], Node]) -> Node | None:
    """The tree with the public relation that has these columns split; None if they are not of one that every row has."""
    if not is_owned(node):
        return cut_up(node) if symbols <= {f.symbol for f in node.fields} else None
    match node:
        case nodes.Filter(input=below):
            found = _replaced(below, symbols, cut_up)
            return found and replace(node, input=found)
        case nodes.Join(kind="inner"):
            left = _replaced(node.left, symbols, cut_up)
            right = None if left is not None else _replaced(node.right, symbols, cut_up)
            if left is None and right is None:
                return None
            return replace(node, left=left or node.left, right=right or node.right)
    return None


def _cut_up(whole: Node, part: Field, text: Expression, separator: Literal, symbols: Symbols) -> Node:
    position = text.position
    number = symbols.field("", INTEGER)
    ordinal = Column(number.symbol, INTEGER)
    without = functions.resolve("replace", [text, separator, Literal("", TEXT)], position)
    lengths = [functions.resolve("length", [each], position) for each in (text, without)]
    removed = functions.resolve("subtract", lengths, position)
    size = Literal(len(str(separator.value)), INTEGER)
    parts = functions.resolve(
        "add", [functions.resolve("integer_divide", [removed, size], position), Literal(1, INTEGER)], position
    )
    numbers = nodes.Values(tuple((n,) for n in range(1, MOST_PARTS + 1)), (number,))
    condition = functions.resolve("less_equal", [ordinal, parts], position)
    joined = nodes.Join(whole, numbers, "inner", condition, position=position)
    copies: list[tuple[Field, Expression]] = [(f, Column(f.symbol, f.type)) for f in whole.fields]
    return nodes.Project(
        joined, (*copies, (part, functions.resolve("split_part", [text, separator, ordinal], position)))
    )
