"""UNNEST(STRING_SPLIT(x, '|')) in the SELECT list over public rows: one row for each part of a text.

It is written as a join with the numbers 1 to `MOST_PARTS`, so that nothing new has to be known to be total and bounded: row
n has part n. Private rows are not cut up like this: how many rows come of one would be for the data to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.traverse import is_owned
from shoal.plan.types import INTEGER, TEXT, Kind
from shoal.sql import functions
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    from sqlglot import exp

    from shoal.plan.nodes import Node
    from shoal.sql.binding.context import Symbols
    from shoal.sql.binding.expressions import ExpressionBinder

MOST_PARTS = 256
_SPLITS = frozenset({"STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY", "SPLIT"})


def is_unnested(value: exp.Expr) -> bool:
    """Whether an item of a SELECT list is UNNEST(…)."""
    call = function_call(value)
    return call is not None and call.name.upper() == "UNNEST"


def split(value: exp.Expr, node: Node, rows: ExpressionBinder, symbols: Symbols) -> tuple[Node, Expression]:
    """The rows, each as often as the text has parts, and the part of each."""
    position = position_of(value)
    call = function_call(value)
    inner = function_call(call.arguments[0]) if call is not None and len(call.arguments) == 1 else None
    if inner is None or inner.name.upper() not in _SPLITS or len(inner.arguments) != 2 or is_owned(node):
        raise ShoalError(
            "E_UNSUPPORTED",
            "UNNEST takes the parts of a string in a public table.",
            hint="SELECT movie, UNNEST(STRING_SPLIT(genres, '|')) AS genre FROM movies, and join with that.",
            position=position,
        )
    text, separator = (rows.bind(argument) for argument in inner.arguments)
    if text.type.kind is not Kind.TEXT or not isinstance(separator, Literal) or not separator.value:
        raise ShoalError("E_UNSUPPORTED", "STRING_SPLIT takes a string and a constant separator.", position=position)
    number = symbols.field("", INTEGER)
    place = Column(number.symbol, INTEGER)
    without = functions.resolve("replace", [text, separator, Literal("", TEXT)], position)
    lengths = [functions.resolve("length", [part], position) for part in (text, without)]
    removed = functions.resolve("subtract", lengths, position)
    size = Literal(len(str(separator.value)), INTEGER)
    parts = functions.resolve(
        "add", [functions.resolve("integer_divide", [removed, size], position), Literal(1, INTEGER)], position
    )
    numbers = nodes.Values(tuple((n,) for n in range(1, MOST_PARTS + 1)), (number,))
    condition = functions.resolve("less_equal", [place, parts], position)
    joined = nodes.Join(node, numbers, "inner", condition, position=position)
    return joined, functions.resolve("split_part", [text, separator, place], position)
