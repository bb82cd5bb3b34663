"""Constants in options, named arguments and bounds: exact, with their kind, so that '1' is never taken for 1."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from shoal.exact import as_fraction
from shoal.frozen import dataclass

Position: TypeAlias = tuple[int, int]
Value: TypeAlias = "int | Fraction | str | bool | tuple[Constant, ...] | None"


class ConstantKind(Enum):
    """How a constant was written."""

    INTEGER = "an integer"
    NUMBER = "a number"
    STRING = "a string"
    WORD = "a word"
    BOOLEAN = "a boolean"
    NULL = "NULL"
    TUPLE = "a list in parentheses"
    LIST = "a list in brackets"
    TYPED = "a typed constant"
    OTHER = "an expression"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as the analyst wrote it.

    `value` is an int for 3, an exact Fraction for 0.1 and 1e-6, a str for 'x' (STRING) and LAPLACE (WORD), a bool,
    None for NULL, a tuple of constants for (0, 100), a tuple of the one inner constant for DATE '2026-01-01' (TYPED,
    `type_name` DATE). OTHER is whatever is not a constant, or not a number that can be held: its value is None.
    """

    kind: ConstantKind
    value: Value
    text: str
    position: Position | None
    type_name: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether `value` is an int or a Fraction."""
        return self.kind in {ConstantKind.INTEGER, ConstantKind.NUMBER}

    @property
    def is_integer(self) -> bool:
        """Whether it was written without a point or exponent."""
        return self.kind is ConstantKind.INTEGER

    @property
    def is_string(self) -> bool:
        """Whether it was in single quotes."""
        return self.kind is ConstantKind.STRING


def position_of(node: exp.Expr) -> Position | None:
    """Line and column where a node begins, both from 1; those of its first part if the node has none."""
    meta = node.meta
    if "line" not in meta:  # few nodes have none
        meta = next((part.meta for part in node.walk(bfs=False) if "line" in part.meta), {})
    return (meta["line"], meta["col"]) if meta else None


def constant(node: exp.Expr) -> Constant:
    """The constant that a node represents; of kind OTHER if it is not a constant.

    >>> from shoal.sql.parse import parse
    >>> constant(parse("SELECT -0.5").tree.expressions[0]).value
    Fraction(-1, 2)
    """
    position = position_of(node)
    match node:
        case exp.Literal() if node.is_string:
            return Constant(ConstantKind.STRING, node.name, f"'{node.name}'", position)
        case exp.Literal():
            return _number(node.name, position)
        case exp.Neg():
            return _negative(constant(node.this), position)
        case exp.Boolean():
            return Constant(ConstantKind.BOOLEAN, bool(node.this), str(bool(node.this)).upper(), position)
        case exp.Null():
            return Constant(ConstantKind.NULL, None, "NULL", position)
        case exp.Column() if not node.table and isinstance(node.this, exp.Identifier):
            return Constant(ConstantKind.WORD, node.name, node.name, position)
        case exp.Tuple():
            items = tuple(constant(item) for item in node.expressions)
            return Constant(ConstantKind.TUPLE, items, f"({', '.join(item.text for item in items)})", position)
        case exp.Array():
            items = tuple(constant(item) for item in node.expressions)
            return Constant(ConstantKind.LIST, items, f"[{', '.join(item.text for item in items)}]", position)
        case exp.Cast():
            inner, type_name = constant(node.this), node.to.this.name
            return Constant(ConstantKind.TYPED, (inner,), f"CAST({inner.text} AS {type_name})", position, type_name)
    return Constant(ConstantKind.OTHER, None, "…", position)


def _number(text: str, position: Position | None) -> Constant:
    if text.isdigit():
        return Constant(ConstantKind.INTEGER, int(text), text, position)
    try:
        return Constant(ConstantKind.NUMBER, as_fraction(text), text, position)
    except ValueError:  # an exponent beyond any double: nothing here could use such a number
        return Constant(ConstantKind.OTHER, None, text, position)


def _negative(inner: Constant, position: Position | None) -> Constant:
    if isinstance(inner.value, (int, Fraction)) and inner.is_number:
        return Constant(inner.kind, -inner.value, f"-{inner.text}", position)
    return Constant(ConstantKind.OTHER, None, f"-{inner.text}", position)
