"""What the trees of a plan contain, read from the dataclasses themselves, so no list of cases can forget a field."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from shoal.frozen import dataclass
from shoal.plan import expressions, nodes
from shoal.plan.expressions import Column
from shoal.plan.nodes import Field, Values
from shoal.plan.types import Type
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node

RELATIONS: tuple[Any, ...] = get_args(nodes.Node)
VALUES: tuple[Any, ...] = get_args(expressions.Expression)
_EITHER = RELATIONS + VALUES


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of a plan: its sources, every expression in it (inner ones too), and the relations inside those.

    `in_sight` are the columns that its expressions may read: those of its sources and, for a relation inside an
    expression, those that the expression itself may read.
    """

    node: Node
    inputs: tuple[Node, ...]
    values: tuple[Expression, ...]
    inside: tuple[Node, ...]
    in_sight: frozenset[str]


def part_of(node: Node, outside: frozenset[str]) -> Part:
    """A relation taken apart; shared expressions appear once."""
    inputs, values = tuple(relations_in([node])), tuple(values_below(values_in(node)))
    return Part(node, inputs, values, tuple(relations_in(values)), outside | symbols_of(inputs))


def parts_below(root: Node, outside: frozenset[str] = frozenset()) -> Iterator[Part]:
    """Every relation of a tree, those inside expressions too, once for each scope that it is in."""
    stack, seen = [(root, outside)], set[tuple[int, frozenset[str]]]()
    while stack:
        node, outer = stack.pop()
        if (id(node), outer) in seen:
            continue
        seen.add((id(node), outer))
        part = part_of(node, outer)
        yield part
        stack.extend((below, outer) for below in part.inputs)
        stack.extend((relation, part.in_sight) for relation in part.inside)


def symbols_of(relations: Iterable[Node]) -> frozenset[str]:
    """The columns that some relations offer."""
    return frozenset(field.symbol for node in relations for field in node.fields)


def values_below(roots: list[Expression]) -> list[Expression]:
    """Expressions and all their parts, each once."""
    stack, found = list(roots), dict[int, "Expression"]()
    while stack:
        value = stack.pop()
        if id(value) not in found:
            found[id(value)] = value
            stack.extend(values_in(value))
    return list(found.values())


def values_in(thing: object) -> list[Expression]:
    """The expressions directly in something, however deep in tuples."""
    return [held for held in _held(thing) if isinstance(held, VALUES)]


def relations_in(things: Iterable[Expression | Node]) -> list[Node]:
    """The relations directly in some things."""
    return [held for thing in things for held in _held(thing) if isinstance(held, RELATIONS)]


def _held(thing: Any) -> list[Any]:
    found: list[Any] = []
    kind: Any = type(thing)
    for name in _looked_into(kind):
        _collect(getattr(thing, name), found)
    return found


@cache
def _looked_into(kind: Any) -> tuple[str, ...]:
    """The fields that can hold expressions or relations: all but constants, types and source positions."""
    if kind is Values:
        return ()
    return tuple(f.name for f in fields(kind) if f.compare and f.name not in {"type", "fields"})


def _collect(value: object, found: list[Any]) -> None:
    if isinstance(value, tuple):
        for part in value:
            _collect(part, found)
    elif isinstance(value, _EITHER):
        found.append(value)
    elif is_dataclass(value) and not isinstance(value, (Field, Type, type)):
        found.extend(_held(value))


def check_symbols(part: Part) -> None:
    """A name means one thing: no two fields of a relation, nor of its sources, have the same symbol."""
    for offered in (part.node.fields, [field for node in part.inputs for field in node.fields]):
        require(len({field.symbol for field in offered}) == len(offered), "two columns of one name")


def check_names(values: Iterable[Expression], in_sight: frozenset[str]) -> None:
    """Every column that is read is offered by something in scope."""
    read = {value.symbol for value in values if isinstance(value, Column)}
    require(read <= in_sight, "a column is read that nothing below offers")
