"""Every row of what a private SELECT reads must belong to exactly one owner.

This pass follows the owner upward and refuses what would lose, forge, mix or show it; where the query does not mention the
owner it is carried silently.

Lineage is followed by symbols, never by names. Three walks, because a query may break several rules and the first of
forged, cross-owner, lost / join / set operation, exposed is the one to report.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.aggregates import CountOwners
from shoal.plan.expressions import Call, Cast, Column, Expression, columns_of
from shoal.plan.lineage import copies, is_copy, lineage
from shoal.plan.nodes import Field, Node, field_of
from shoal.plan.references import References
from shoal.plan.traverse import is_owned
from shoal.rewrite.check_windows import read_values, windows_of
from shoal.rewrite.checks.mixed_owners import cross_owner, place_of, refuse_cross_windows, refuse_mixed_owners
from shoal.sql import functions
from shoal.sql.binding.clauses.conditions import owner_not_in_place

if TYPE_CHECKING:
    from shoal.plan.expressions import Position
    from shoal.plan.releases import AggregateCall, PrivateSelect
    from shoal.plan.types import Type

MAX_OWNED_RELATIONS = 4
NO_REFERENCES = References()
FAILED_FUNCTIONS = (
    "Python functions run over private records. Where one raises an exception, its record (or its owner, with per_owner) is "
    "left out, and nothing says so; try_on shows what a function does with records of your own."
)


@dataclass(frozen=True, slots=True)
class Owned:
    """A relation whose rows have owners: `equal` symbols always hold the owner, `nullable` ones hold it or NULL.

    `sides` are those of a full join: every row has an owner on one of them at least.
    """

    node: Node
    equal: frozenset[str]
    nullable: frozenset[str]
    kind: str
    names: frozenset[str]
    sides: tuple[Owned, Owned] | None = None

    def holds_owner(self, value: Expression) -> bool:
        """Whether a value is the owner in every row: its column, or COALESCE of owners from both sides of a full join."""
        if isinstance(value, Column):
            return value.symbol in self.equal
        if self.sides is None or not self.holds_owner_or_null(value):
            return False
        return isinstance(value, Call) and all(any(map(side.holds_owner, value.arguments)) for side in self.sides)

    def holds_owner_or_null(self, value: Expression) -> bool:
        """Whether a value is never anything but the row's owner."""
        return is_copy(value, self.equal | self.nullable)


def check_ownership(select: PrivateSelect, references: References = NO_REFERENCES) -> PrivateSelect:
    """The same SELECT over rows that carry their owner, or a refusal."""
    if _owned_relations(select.input) > MAX_OWNED_RELATIONS:
        raise ShoalError(
            "E_LIMITS",
            f"At most {MAX_OWNED_RELATIONS} private tables can be joined in one FROM.",
            hint="Aggregate per owner in a subquery first, or ask the custodian for a view.",
            position=select.position,
        )
    refuse_mixed_owners(select.input)
    for value in read_values(select):
        refuse_cross_windows(value, lineage(select.input))
    ownership = Ownership(references)
    owned = ownership.own(select.input, ())
    if owned is None:
        raise _lost(select.position, "No private rows reach this SELECT.")
    for _, value in select.keys:
        _refuse_exposed(value, owned)
    return replace(
        select,
        input=owned.node,
        aggregates=tuple(_counting_owners(c, owned) for c in select.aggregates),
        notes=(*select.notes, *dict.fromkeys(ownership.notes)),
    )


def _counting_owners(call: AggregateCall, owned: Owned) -> AggregateCall:
    """COUNT(DISTINCT owner) counts everybody; on a side that may be missing, only those who are there."""
    counted = call.aggregate
    if not (counted.counts_owners or counted.counts_values) or counted.argument is None:
        return call
    if not owned.holds_owner_or_null(counted.argument):
        return call
    return replace(call, aggregate=CountOwners(None if owned.holds_owner(counted.argument) else counted.argument))


def _owned_relations(node: Node) -> int:
    """How many private tables multiply each other: joins add up, the sides of a set operation do not."""
    if isinstance(node, nodes.Scan):
        return int(node.owner is not None)
    below = [_owned_relations(part) for part in nodes.inputs(node)]
    return max(below, default=0) if isinstance(node, nodes.SetOperation) else sum(below)


def _refuse_missing_partition(node: nodes.Project, below: Owned) -> None:
    """A partition by an owner that may be missing would put all rows without one, of any owner, into one window."""
    for part in (window for _, value in node.items for window in windows_of(value)):
        if not any(map(below.holds_owner, part.partition)):
            raise cross_owner(part.position, "This window uses an owner from the optional side of an outer join.")


def _lost(position: Position, message: str, hint: str | None = None) -> ShoalError:
    return ShoalError(
        "E_UID_LOST",
        message,
        hint=hint or "Keep the owner column: group by it, select it, join on it.",
        position=position,
    )


def _refuse_exposed(value: Expression, owned: Owned) -> None:
    bare = value
    while isinstance(bare, Cast):
        bare = bare.value
    if owned.holds_owner_or_null(bare):
        raise ShoalError(
            "E_UID_EXPOSED",
            "The owner column cannot be shown or grouped by: every group would be one person.",
            hint="Group by something many owners share, such as uid % 10 or a region.",
            position=value.position,
        )


# ---- carrying the owner ------------------------------------------------------------------------------------------


class Ownership:
    """Rebuilds a tree so that each owned relation has its owner among its fields."""

    def __init__(self, references: References) -> None:
        self._fresh = count(1)
        self._references = references
        self.notes: list[str] = []

    def own(self, node: Node, given: tuple[Expression, ...]) -> Owned | None:
        """The owned relation, or None for a public one; `given` are conditions known to hold above inner joins."""
        if not is_owned(node):
            return None
        match node:
            case nodes.Scan():
                assert node.owner is not None  # noqa: S101 - is_owned said so
                name = fold(field_of(node, node.owner).name)
                return Owned(node, frozenset({node.owner}), frozenset(), node.owner_kind or name, frozenset({name}))
            case nodes.Filter():
                return self._filter(node, given)
            case nodes.Project():
                return self._project(node)
            case nodes.Join():
                return self._join(node, given)
            case nodes.Aggregate():
                return self._aggregate(node)
            case nodes.Distinct():
                return self._distinct(node)
            case nodes.SetOperation():
                return self._set_operation(node)
            case nodes.Sort():
                return self.own(node.input, ())
            case nodes.PythonRows():
                return self._python_rows(node)
        raise _lost(node.position, "This relation cannot hold private rows.")

    def _must(self, node: Node, given: tuple[Expression, ...] = ()) -> Owned:
        owned = self.own(node, given)
        if owned is None:
            raise _lost(node.position, "A private relation is expected here.")
        return owned

    def _filter(self, node: nodes.Filter, given: tuple[Expression, ...]) -> Owned:
        below = self._must(node.input, (*given, *_conjuncts(node.predicate)))
        return replace(below, node=replace(node, input=below.node, owner=below.node.owner))

    def _project(self, node: nodes.Project) -> Owned:
        below = self._must(node.input)
        _refuse_missing_partition(node, below)
        equal = frozenset(f.symbol for f, v in node.items if below.holds_owner(v))
        nullable = copies(node.items, below.equal | below.nullable) - equal
        for f, _ in node.items:
            if f.name and fold(f.name) in below.names and f.symbol in nullable:
                raise _lost(
                    place_of(node, f),
                    f"The column {f.name!r} comes from the optional side of an outer join.",
                    "Take the owner from the preserved side of the join.",
                )
        items = node.items
        visible = next((f.symbol for f, _ in items if f.symbol in equal), None)
        if visible is None:
            hidden = Field("", f"h{next(self._fresh)}", _owner_type(below))
            items = (*items, (hidden, Column(_owner(below), hidden.type)))
            visible, equal = hidden.symbol, frozenset({hidden.symbol})
        return replace(
            below,
            node=replace(node, input=below.node, items=items, owner=visible),
            equal=equal,
            nullable=nullable,
            sides=None,
        )

    def _python_rows(self, node: nodes.PythonRows) -> Owned:
        """The owner bypasses the function, which never sees it."""
        below = self._must(node.input)
        shown = next((name for name, value in node.arguments if below.holds_owner_or_null(value)), None)
        if shown is not None:
            raise _lost(node.position, f"The function would see the owner as {shown!r}.", "Leave the owner out.")
        self.notes.append(FAILED_FUNCTIONS)
        carried = tuple((f, value) for f, value in node.carried if below.holds_owner(value))
        if not carried:
            hidden = Field("", f"h{next(self._fresh)}", _owner_type(below))
            carried = ((hidden, Column(_owner(below), hidden.type)),)
        symbols = frozenset(f.symbol for f, _ in carried)
        owned = replace(node, input=below.node, carried=carried, owner=carried[0][0].symbol)
        return replace(below, node=owned, equal=symbols, nullable=frozenset(), sides=None)

    def _aggregate(self, node: nodes.Aggregate) -> Owned:
        below = self._must(node.input)
        keys = [f.symbol for f, v in node.keys if below.holds_owner(v)]
        if not keys:
            raise _lost(
                node.position,
                "This subquery aggregates over several owners.",
                "Group by the owner inside FROM (GROUP BY uid), and aggregate over owners in the private SELECT; "
                "or give this SELECT its own privacy clause.",
            )
        return replace(
            below,
            node=replace(node, input=below.node, owner=keys[0]),
            equal=frozenset(keys),
            nullable=frozenset(),
            sides=None,
        )

    def _distinct(self, node: nodes.Distinct) -> Owned:
        named = {f.symbol for f in node.input.fields if f.name}
        below = self._must(node.input)
        if not named & below.equal:
            raise _lost(
                node.position, "DISTINCT merges the rows of several owners.", "Select the owner column as well."
            )
        return replace(below, node=replace(node, input=below.node, owner=below.node.owner))

    def _set_operation(self, node: nodes.SetOperation) -> Owned:
        sides = [self.own(side, ()) for side in (node.left, node.right)]
        left, right = sides
        positions = (
            [
                i
                for i, (a, b) in enumerate(zip(node.left.fields, node.right.fields, strict=True))
                if a.symbol in left.equal and b.symbol in right.equal
            ]
            if left is not None and right is not None
            else []
        )
        if left is None or right is None or not positions or left.kind != right.kind:
            raise owner_not_in_place(node.position)
        if _owner_type(left).plain() != _owner_type(right).plain():
            raise ShoalError("E_SETOP_UID", "The owners of both sides have different types.", position=node.position)
        # A side's silently carried owner must not become a column of the set operation.
        rebuilt = [_only(s.node, original.fields) for s, original in ((left, node.left), (right, node.right))]
        owner = node.fields[positions[0]].symbol
        return Owned(
            replace(node, left=rebuilt[0], right=rebuilt[1], owner=owner),
            frozenset(node.fields[i].symbol for i in positions),
            frozenset(),
            left.kind,
            left.names | right.names,
        )

    # ---- joins ---------------------------------------------------------------------------------------------------

    def _join(self, node: nodes.Join, given: tuple[Expression, ...]) -> Owned:
        known = (*given, *_conjuncts(node.condition)) if node.kind == "inner" else ()
        # A condition above the join also holds for the rows of a side that the join keeps as they are.
        left = self.own(node.left, given if node.kind in {"left", "semi", "anti"} else known)
        try:
            right = self.own(node.right, given if node.kind == "right" else known)
        except ShoalError:
            if node.from_subquery:
                raise _subquery(node.position) from None
            raise
        if left is not None and right is not None:
            return self._owned_owned(node, left, right, given)
        if left is not None:
            return self._owned_public(node, left, owned_is_left=True)
        assert right is not None  # noqa: S101 - one side is owned
        return self._owned_public(node, right, owned_is_left=False)

    def _owned_public(self, node: nodes.Join, owned: Owned, *, owned_is_left: bool) -> Owned:
        allowed = {"inner", "left", "semi", "anti"} if owned_is_left else {"inner", "right"}
        if node.kind not in allowed:
            if node.from_subquery:
                raise _subquery(node.position)
            raise _lost(
                node.position,
                "This outer join creates rows that belong to nobody.",
                "Preserve the private side, or use group_selection_strategy = PUBLIC_GROUPS to list public groups.",
            )
        left, right = (owned.node, node.right) if owned_is_left else (node.left, owned.node)
        return replace(owned, node=replace(node, owner=owned.node.owner, left=left, right=right))

    def _owned_owned(self, node: nodes.Join, left: Owned, right: Owned, given: tuple[Expression, ...]) -> Owned:
        conditions = (*_conjuncts(node.condition), *(given if node.kind == "inner" else ()))
        matches = any(_equates(c, left, right) for c in conditions)
        same = _owner_type(left) == _owner_type(right) and left.kind == right.kind
        if not matches and same and (key := self._shared_key(conditions, left, right)) is not None:
            node, matches = _comparing_owners(node, left, right), True
            self.notes.append(
                f"The join on {key[1]} follows a reference of the catalog: rows match where their owners are the same, too."
            )
        if not matches or not same:
            if node.from_subquery:
                raise _subquery(node.position)
            raise ShoalError(
                "E_JOIN_NOT_ON_UID",
                "Private tables must be joined on their owner columns."
                if not matches
                else "The owner columns of this join are of different types or kinds.",
                hint="Write JOIN … ON a.uid = b.uid AND …; other conditions may follow, but not OR.",
                position=node.position,
            )
        joined = replace(node, left=left.node, right=right.node)
        names = left.names | right.names
        match node.kind:
            case "semi" | "anti":
                return replace(left, node=replace(joined, owner=left.node.owner))
            case "inner":
                nullable = left.nullable | right.nullable
                return Owned(
                    replace(joined, owner=left.node.owner),
                    left.equal | right.equal,
                    nullable,
                    left.kind,
                    names,
                    left.sides or right.sides,
                )
            case "left":
                nullable = left.nullable | right.equal | right.nullable
                return Owned(replace(joined, owner=left.node.owner), left.equal, nullable, left.kind, names, left.sides)
            case "right":
                nullable = right.nullable | left.equal | left.nullable
                return Owned(
                    replace(joined, owner=right.node.owner), right.equal, nullable, left.kind, names, right.sides
                )
        return self._full(joined, left, right)

    def _shared_key(self, conditions: tuple[Expression, ...], left: Owned, right: Owned) -> tuple[str, str] | None:
        """The key on which both sides are joined, where the catalog says that they hold the same one."""
        ours, theirs = ({f.symbol for f in side.node.fields} for side in (left, right))
        for condition in conditions:
            key, used = self._references.relate(condition), columns_of(condition)
            if key is not None and used & ours and used & theirs:
                return key
        return None

    def _full(self, joined: nodes.Join, left: Owned, right: Owned) -> Owned:
        """A full join: the owner is whichever side has one."""
        type_ = _owner_type(left)
        value = Call("coalesce", (Column(_owner(left), type_), Column(_owner(right), type_)), type_)
        hidden = Field("", f"h{next(self._fresh)}", type_)
        copies: list[tuple[Field, Expression]] = [(f, Column(f.symbol, f.type)) for f in joined.fields]
        items = (*copies, (hidden, value))
        nullable = left.equal | right.equal | left.nullable | right.nullable
        return Owned(
            nodes.Project(joined, items, hidden.symbol, joined.position),
            frozenset({hidden.symbol}),
            nullable,
            left.kind,
            left.names | right.names,
            (left, right),
        )


def _comparing_owners(node: nodes.Join, left: Owned, right: Owned) -> nodes.Join:
    """The join with the equality of owners added to its condition, never above it: an outer join keeps its rows."""
    owners = [Column(_owner(side), _owner_type(side)) for side in (left, right)]
    same = functions.resolve("equal", owners, node.position)
    return replace(node, condition=functions.resolve("and", [node.condition, same], node.position))


def _subquery(position: Position) -> ShoalError:
    return ShoalError(
        "E_EXPR_SUBQUERY",
        "A subquery over a private table must be tied to the owner, or one owner would decide about the others.",
        hint="WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND …)",
        position=position,
    )


def _owner(owned: Owned) -> str:
    assert owned.node.owner is not None  # noqa: S101 - by construction
    return owned.node.owner


def _owner_type(owned: Owned) -> Type:
    return field_of(owned.node, _owner(owned)).type


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for argument in condition.arguments for part in _conjuncts(argument))
    return (condition,)


def _equates(condition: Expression, left: Owned, right: Owned) -> bool:
    """Whether a condition is owner = owner, of raw columns."""
    if not isinstance(condition, Call) or condition.function != "equal":
        return False
    a, b = condition.arguments
    return (left.holds_owner(a) and right.holds_owner(b)) or (left.holds_owner(b) and right.holds_owner(a))


def _only(node: Node, wanted: tuple[Field, ...]) -> Node:
    """The relation without fields that were added silently."""
    symbols = {f.symbol for f in wanted}
    if all(f.symbol in symbols for f in node.fields):
        return node
    kept = tuple((f, Column(f.symbol, f.type)) for f in node.fields if f.symbol in symbols)
    return nodes.Project(node, kept, node.owner, node.position)
