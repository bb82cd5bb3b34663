"""What stands on what in a plan: pairs of constructs, by which a hunt tells a query of a new shape from the others.

A construct is a relation by its kind, a function, a cast, a window with its frame, a column or constant by its type, and an
aggregate. `COUNT` of a cast of a date inside a join is several pairs. What a function is given, by type, counts as one more. A
query is new if one of these was never met before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import (
    Call,
    Cast,
    Column,
    ExistsRelation,
    InRelation,
    Literal,
    ScalarRelation,
    WindowCall,
    children,
)
from shoal.plan.traverse import expressions_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import SelectPlan, StatementPlan


class Shapes:
    """The pairs of all plans so far; it is its own file, one pair a line."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = set(path.read_text().splitlines()) if path is not None and path.exists() else set()
        self._new: list[str] = []

    def __len__(self) -> int:
        return len(self._known)

    def new_of(self, plan: StatementPlan) -> set[str]:
        """The pairs of a plan that none had before."""
        return set(pairs_of(plan)) - self._known

    def add(self, pairs: set[str]) -> None:
        self._known |= pairs
        self._new += sorted(pairs)

    def save(self) -> None:
        if self._path is not None and self._new:
            with self._path.open("a") as file:
                file.writelines(f"{pair}\n" for pair in self._new)
        self._new.clear()


def pairs_of(plan: StatementPlan) -> Iterator[str]:
    """Every pair of a statement: of its private SELECTs, and of what is done with released rows."""
    yield from _below(plan.root, "answer")
    for select in plan.selects:
        yield from _of_select(select)


def _of_select(plan: SelectPlan) -> Iterator[str]:
    select = plan.select
    yield f"selection > {type(plan.selection).__name__}"
    yield from _below(select.input, "private")
    if select.public_groups is not None:
        yield from _below(select.public_groups, "groups")
    for _, key in select.keys:
        yield from _of_value(key, "key")
    for call in select.aggregates:
        named = type(call.aggregate).__name__
        yield f"{named} > {select.options.noise}, {call.bounds_source}"
        argument = getattr(call.aggregate, "argument", None)
        if argument is not None:
            yield from _of_value(argument, named)


def _below(node: Node, parent: str) -> Iterator[str]:
    waiting: list[tuple[Node, str]] = [(node, parent)]
    while waiting:
        current, above = waiting.pop()
        name = _relation(current)
        yield f"{above} > {name}"
        waiting.extend((below, name) for below in nodes.inputs(current))
        if isinstance(current, nodes.Aggregate):
            yield from (
                f"{name} > {aggregate.function}, distinct: {aggregate.distinct}" for _, aggregate in current.aggregates
            )
        for value in expressions_of(current):
            yield from _of_value(value, name)


def _of_value(value: Expression, parent: str) -> Iterator[str]:
    waiting = [(value, parent)]
    while waiting:
        current, above = waiting.pop()
        name = _construct(current)
        yield f"{above} > {name}"
        below = children(current)
        if below:
            yield f"{name}({', '.join(part.type.kind.value for part in below)})"
        waiting.extend((part, name) for part in below)
        if isinstance(current, (InRelation, ExistsRelation, ScalarRelation)):
            yield from _below(current.relation, name)


def _relation(node: Node) -> str:
    kind = getattr(node, "kind", "")
    return f"{type(node).__name__} {kind}{' owned' if node.owner is not None else ''}"


def _construct(value: Expression) -> str:
    match value:
        case Call():
            return value.function
        case WindowCall():
            return f"{value.function} over {value.frame.unit if value.frame is not None else '-'}"
        case Cast():
            return f"cast to {value.type.kind.value}"
        case Column() | Literal():
            return value.type.kind.value
        case _:
            return type(value).__name__
