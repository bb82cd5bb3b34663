"""Follows each row's owner upward a second time: every row that a private SELECT reads belongs to exactly one owner.

For each relation over private tables: which fields hold the owner in every row (`certain`), and which hold the owner or NULL
(`possible`). The rules are those of the promise, written down a second time, independently of `check_ownership`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Cast, Column
from shoal.rewrite.verify.requirement import require
from shoal.rewrite.verify.windows import check_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shoal.catalog import Catalog
    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.types import Type
    from shoal.rewrite.verify.trees import Part


@dataclass(frozen=True, slots=True)
class Owned:
    """Rows with owners of one kind. `sides` are those of a full join: every row has the owner of one of them at least."""

    certain: frozenset[str]
    possible: frozenset[str]
    kind: str
    type: Type
    sides: tuple[Owned, Owned] | None = None

    def holds(self, value: Expression) -> bool:
        """Whether a value is the owner in every row."""
        if isinstance(value, Column):
            return value.symbol in self.certain
        if not isinstance(value, Call) or not self.may_hold(value):
            return False
        some = any(map(self.holds, value.arguments))
        return some or (self.sides is not None and all(any(map(s.holds, value.arguments)) for s in self.sides))

    def may_hold(self, value: Expression) -> bool:
        """Whether a value is the owner or NULL, and never anything else."""
        if isinstance(value, Column):
            return value.symbol in self.certain or value.symbol in self.possible
        return isinstance(value, Call) and value.function == "coalesce" and all(map(self.may_hold, value.arguments))

    def projected(self, items: Iterable[tuple[nodes.Field, Expression]]) -> Owned:
        """The owner among computed columns."""
        items = tuple(items)
        certain = frozenset(f.symbol for f, value in items if self.holds(value))
        possible = frozenset(f.symbol for f, value in items if self.may_hold(value)) - certain
        sides = None if self.sides is None else (self.sides[0].projected(items), self.sides[1].projected(items))
        return Owned(certain, possible, self.kind, self.type, sides)


class Ownership:
    """Follows owners through the trees of one statement; it trusts what the catalog says about tables, and nothing else."""

    def __init__(self, catalog: Catalog, parts: Mapping[int, Part]) -> None:
        self._catalog = catalog
        self._parts = parts

    def of(self, node: Node, given: tuple[Expression, ...] = ()) -> Owned | None:
        """The owner of a relation's rows, None for a public relation; `given` holds for each of its rows that matters above."""
        owned = self._of(node, given)
        # Of a full join no column alone holds the owner; what is above it must bring both together.
        if owned is None or (isinstance(node, nodes.Join) and node.kind == "full"):
            require(node.owner is None, "a relation claims an owner that it does not have")
        else:
            require(node.owner in owned.certain, "a private relation has lost its owner")
        return owned

    def _of(self, node: Node, given: tuple[Expression, ...]) -> Owned | None:
        match node:
            case nodes.Scan():
                return self._scan(node)
            case nodes.StoredRows() | nodes.Values():
                return None
            case nodes.Filter():
                below = self.of(node.input, (*given, *_conjuncts(node.predicate)))
            case nodes.Join():
                below = self._join(node, given)
            case nodes.SetOperation():
                return self._set_operation(node)
            case nodes.Project() | nodes.Aggregate() | nodes.Distinct() | nodes.Sort() | nodes.PythonRows():
                below = self.of(node.input)
            case _:
                raise InternalError("a relation of an unknown kind")
        self._check_expressions(node, below)
        return None if below is None else _above(node, below)

    def _scan(self, node: nodes.Scan) -> Owned | None:
        """A table is private exactly when the catalog says so, and owned by the column that it names."""
        table = self._catalog.table(node.table)
        require(table is not None, "a table that the catalog does not know")
        assert table is not None  # noqa: S101 - just required
        require(len(node.fields) == len(node.columns), "a table with fields that are not its columns")
        if table.owner is None:
            return None
        owners = [f for f, c in zip(node.fields, node.columns, strict=True) if fold(c) == fold(str(table.owner))]
        require(node.owner in {f.symbol for f in owners}, "a private table without its owner")
        kind = table.owner_kind or fold(table.owner)
        return Owned(frozenset({str(node.owner)}), frozenset(), kind, owners[0].type.plain())

    def _join(self, node: nodes.Join, given: tuple[Expression, ...]) -> Owned | None:
        inner = (*given, *_conjuncts(node.condition)) if node.kind == "inner" else ()
        left = self.of(node.left, given if node.kind in {"left", "semi", "anti"} else inner)
        right = self.of(node.right, given if node.kind == "right" else inner)
        if left is None and right is None:
            return None
        if left is None or right is None:
            kept = {"inner", "left", "semi", "anti"} if left is not None else {"inner", "right"}
            require(node.kind in kept, "a join makes rows that belong to nobody")
            return left or right
        conditions = (*_conjuncts(node.condition), *(given if node.kind == "inner" else ()))
        require(any(_equates(c, left, right) for c in conditions), "private tables are not joined on their owners")
        require((left.kind, left.type) == (right.kind, right.type), "owners of different kinds are joined")
        return _joined(node.kind, left, right)

    def _set_operation(self, node: nodes.SetOperation) -> Owned | None:
        left, right = self.of(node.left), self.of(node.right)
        if left is None and right is None:
            return None
        require(left is not None and right is not None, "private rows are united with public ones")
        assert left is not None  # noqa: S101 - just required
        assert right is not None  # noqa: S101 - same
        require((left.kind, left.type) == (right.kind, right.type), "owners of different kinds are united")
        columns = zip(node.fields, node.left.fields, node.right.fields, strict=True)
        certain = frozenset(f.symbol for f, a, b in columns if a.symbol in left.certain and b.symbol in right.certain)
        return Owned(certain, frozenset(), left.kind, left.type)

    def _check_expressions(self, node: Node, below: Owned | None) -> None:
        """Relations inside expressions are public; windows over private rows look at one owner's rows, in an order."""
        part = self._parts[id(node)]
        self.check_public(part.inside)
        if below is None:
            return
        if isinstance(node, nodes.Sort):
            require(node.limit is None and node.offset == 0, "rows of several owners are chosen by their order")
        check_windows(node, part.values, below)

    def check_public(self, relations: Iterable[Node]) -> None:
        """There are no private rows under these relations."""
        for relation in relations:
            require(self.of(relation) is None, "private rows are where only public ones may be")


def _above(node: Node, below: Owned) -> Owned:
    """The owner of what a relation makes of private rows."""
    match node:
        case nodes.Project():
            return below.projected(node.items)
        case nodes.Aggregate():
            keys = below.projected(node.keys)
            require(bool(keys.certain), "rows of several owners are aggregated")
            return keys
        case nodes.PythonRows():
            return _past_function(node, below)
    return below


def _past_function(node: nodes.PythonRows, below: Owned) -> Owned:
    """A function sees no owner, and makes none: what carries the owner is copied past it, and nothing else is."""
    require(not any(below.may_hold(value) for _, value in node.arguments), "a function sees the owner")
    require(all(below.holds(value) for _, value in node.carried), "a function is passed by what is not the owner")
    return below.projected(node.carried)


def _joined(kind: str, left: Owned, right: Owned) -> Owned:
    both, maybe = left.certain | right.certain, left.possible | right.possible
    match kind:
        case "semi" | "anti":
            return left
        case "inner":
            return Owned(both, maybe, left.kind, left.type, left.sides or right.sides)
        case "left":
            return Owned(left.certain, maybe | right.certain, left.kind, left.type, left.sides)
        case "right":
            return Owned(right.certain, maybe | left.certain, left.kind, left.type, right.sides)
    return Owned(frozenset(), maybe | both, left.kind, left.type, (left, right))


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for argument in condition.arguments for part in _conjuncts(argument))
    return (condition,)


def _equates(condition: Expression, left: Owned, right: Owned) -> bool:
    """Whether a condition says that the owners of both sides are the same."""
    if not isinstance(condition, Call) or condition.function != "equal" or len(condition.arguments) != 2:
        return False
    a, b = condition.arguments
    return (left.holds(a) and right.holds(b)) or (left.holds(b) and right.holds(a))


def shows_owner(value: Expression, owned: Owned) -> bool:
    """Whether a value is nothing but the owner, cast or not."""
    while isinstance(value, Cast):
        value = value.value
    return owned.may_hold(value)
