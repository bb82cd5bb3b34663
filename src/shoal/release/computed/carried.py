"""The noisy numbers behind each private aggregate, carried along its plain copies up to the answer: intervals need them.

A copy is a column that is passed on as it is: through filters, orders, projections, joins, and set operations, where a row has
the numbers of the side that it comes from.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Cast, Expression, Literal
from shoal.plan.expressions import Column as ColumnOf
from shoal.plan.nodes import Field, Node
from shoal.plan.types import DOUBLE, Kind
from shoal.release.computed.columns import can_be_keys
from shoal.release.stored_rows import component, components_of
from shoal.sql import functions

if TYPE_CHECKING:
    from shoal.plan.releases import StatementPlan

PUBLIC = 1_000_000
"""Public tables are numbered from here among the released ones."""


@dataclass(frozen=True, slots=True)
class Source:
    """A private aggregate, by SELECT and column, and the columns that carry the noisy numbers behind a copy of it."""

    select: int
    column: int
    numbers: tuple[str, ...]


Carried = dict[str, tuple[Source, ...]]
"""Symbol of a copy → the aggregates it copies: several after UNION, and every row has the numbers of at least one."""


def shown_aggregates(plan: StatementPlan) -> frozenset[tuple[int, int]]:
    """The private aggregates, by SELECT and column, that reach the answer as they are."""
    _, carried = carry(plan.root, plan)
    return frozenset((s.select, s.column) for f in plan.root.fields for s in carried.get(f.symbol, ()))


def carry(node: Node, plan: StatementPlan) -> tuple[Node, Carried]:
    """The tree with the noisy numbers behind each aggregate carried along its plain copies."""
    match node:
        case nodes.StoredRows() if node.select < PUBLIC:
            carried: Carried = {}
            extra: list[Field] = []
            for number, column in enumerate(plan.selects[node.select].columns):
                symbols = components_of(plan.selects[node.select], column, column.call.field.symbol)
                carried[column.call.field.symbol] = (Source(node.select, number, symbols),)
                extra.extend(Field("", s, DOUBLE) for s in symbols)
            return replace(node, fields=(*node.fields, *extra)), carried
        case nodes.Filter() | nodes.Sort():
            below, carried = carry(node.input, plan)
            return replace(node, input=below), carried
        case nodes.Project():
            return _carry_project(node, plan)
        case nodes.Join() if node.kind not in {"semi", "anti"}:
            left, left_carried = carry(node.left, plan)
            right, right_carried = carry(node.right, plan)
            return replace(node, left=left, right=right), left_carried | right_carried
        case nodes.Join():
            below, carried = carry(node.left, plan)
            return replace(node, left=below), carried
        case nodes.SetOperation(kind="union_all"):
            return _carry_union(node, plan)
        case nodes.SetOperation(kind="union"):
            return _distinct(*_carry_union(replace(node, kind="union_all"), plan), node)
        case nodes.SetOperation():
            return _carry_chosen(node, plan)
        case nodes.Distinct():
            return _distinct(*carry(node.input, plan), node)
    return node, {}


def _distinct(below: Node, carried: Carried, node: Node) -> tuple[Node, Carried]:
    """Every distinct row once, with the numbers of one of its duplicates; unchanged if nothing is carried."""
    kept = {f.symbol: carried[f.symbol] for f in node.fields if f.symbol in carried}
    if not kept or not can_be_keys(node):
        return node, {}
    keys = tuple((f, ColumnOf(f.symbol, f.type)) for f in node.fields)
    names = [name for sources in kept.values() for name in _numbers(sources)]
    numbers = ((Field("", n, DOUBLE), nodes.RowAggregate("max", (ColumnOf(n, DOUBLE),), DOUBLE)) for n in names)
    return nodes.Aggregate(below, keys, tuple(numbers)), kept


def _carry_chosen(node: nodes.SetOperation, plan: StatementPlan) -> tuple[Node, Carried]:
    """INTERSECT and EXCEPT: the distinct rows of the left side that are, or are not, on the right."""
    below, carried = _distinct(*carry(node.left, plan), nodes.Distinct(node.left))
    if not carried:
        return node, {}
    same = [
        functions.resolve("is_not_distinct_from", [ColumnOf(a.symbol, a.type), ColumnOf(b.symbol, b.type)], None)
        for a, b in zip(node.left.fields, node.right.fields, strict=True)
    ]
    condition = reduce(lambda a, b: functions.resolve("and", [a, b], None), same)
    chosen = nodes.Join(below, node.right, "semi" if node.kind == "intersect" else "anti", condition)
    items: list[tuple[Field, Expression]] = []
    kept: Carried = {}
    for f, side in zip(node.fields, node.left.fields, strict=True):
        items.append((f, ColumnOf(side.symbol, side.type)))
        if sources := carried.get(side.symbol, ()):
            kept[f.symbol] = _copied(sources, f.symbol)
            pairs = zip(_numbers(kept[f.symbol]), _numbers(sources), strict=True)
            items.extend((Field("", new, DOUBLE), ColumnOf(old, DOUBLE)) for new, old in pairs)
    return nodes.Project(chosen, tuple(items)), kept


def _carry_project(node: nodes.Project, plan: StatementPlan) -> tuple[Node, Carried]:
    below, carried = carry(node.input, plan)
    items = list(node.items)
    kept: Carried = {}
    for f, value in node.items:
        sources = carried.get(_original(value) or "", ())
        if sources:
            kept[f.symbol] = _copied(sources, f.symbol)
            items.extend(
                (Field("", new, DOUBLE), ColumnOf(old, DOUBLE))
                for new, old in zip(_numbers(kept[f.symbol]), _numbers(sources), strict=True)
            )
    return replace(node, input=below, items=tuple(items)), kept


def _original(value: Expression) -> str | None:
    """The column that a value is a copy of; a whole number that became a double is the same number."""
    if isinstance(value, Cast) and (value.value.type.kind, value.type.kind) == (Kind.INTEGER, Kind.DOUBLE):
        value = value.value
    return value.symbol if isinstance(value, ColumnOf) else None


def _copied(sources: tuple[Source, ...], symbol: str, first: int = 0) -> tuple[Source, ...]:
    """The same aggregates, with their numbers in columns named after another copy, starting at a given number."""
    names = (component(symbol, number) for number in count(first))
    return tuple(replace(source, numbers=tuple(next(names) for _ in source.numbers)) for source in sources)


def _numbers(sources: tuple[Source, ...]) -> list[str]:
    return [number for source in sources for number in source.numbers]


def _carry_union(node: nodes.SetOperation, plan: StatementPlan) -> tuple[Node, Carried]:
    """Both sides with the numbers of both: a row has those of the side that it comes from, and NULL for the other's."""
    inputs = (node.left, node.right)
    sides = [carry(side, plan) for side in inputs]
    kept: Carried = {}
    values: list[dict[str, Expression]] = [{}, {}]
    for position, f in enumerate(node.fields):
        for (_, carried), side, own in zip(sides, inputs, values, strict=True):
            old = carried.get(side.fields[position].symbol, ())
            known = kept.get(f.symbol, ())
            new = _copied(old, f.symbol, len(_numbers(known)))
            own |= {name: ColumnOf(s, DOUBLE) for name, s in zip(_numbers(new), _numbers(old), strict=True)}
            kept |= {f.symbol: known + new} if new else {}
    added = [Field("", name, DOUBLE) for sources in kept.values() for name in _numbers(sources)]
    left, right = (
        nodes.Project(
            below,
            (
                *((f, ColumnOf(f.symbol, f.type)) for f in side.fields),
                *((number, own.get(number.symbol, Literal(None, DOUBLE))) for number in added),
            ),
        )
        for (below, _), side, own in zip(sides, inputs, values, strict=True)
    )
    return replace(node, left=left, right=right, fields=(*node.fields, *added)), kept
