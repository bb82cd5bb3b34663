"""Which private SELECTs are the totals of shares: one number without groups, by which a count or sum of groups is divided.

`100.0 * COUNT(*) / (SELECT COUNT(*) FROM t)` over groups of t, the same of sums, and the same written with WITH and a join of both.
Only where the total is of the same rows, and nothing else reads it: then it may have the limits of the groups.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, Expression, ScalarRelation, transform, walk
from shoal.plan.traverse import all_nodes, expressions_of, relations_in
from shoal.sql.binding.clauses.shares import without_factors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal.plan.kept_rows import KeptRows
    from shoal.plan.nodes import Node
    from shoal.plan.releases import AggregateCall, PrivateSelect

LARGEST = 20_000
"""Parts of all expressions of an answer, written out; where there are more, nothing is looked for."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The SELECT whose groups are divided by a total, and which of its aggregates is; `rows`, by groups, are those of the total."""

    select: int
    position: int
    rows: PrivateSelect


class _TooLargeError(Exception):
    """Expressions that refer to each other many times over."""


def totals_of_shares(root: Node, selects: Sequence[PrivateSelect], kept: KeptRows) -> dict[int, Groups]:
    """The numbers of SELECTs that are totals, with the groups that they are totals of."""
    if len(selects) < 2:
        return {}
    try:
        read = list(_Origins(root).read())
    except _TooLargeError:
        return {}
    uses = Counter(part.symbol for value in read for part in walk(value) if isinstance(part, Column))
    divided = Counter(pair for value in read for pair in _quotients(value))
    found = {}
    for number, select in enumerate(selects):
        if len(select.aggregates) != 1 or select.keys:
            continue
        symbol = select.aggregates[0].field.symbol
        parts = {part: often for (part, whole), often in divided.items() if whole == symbol}
        if len(parts) != 1 or uses[symbol] != sum(parts.values()):
            continue
        groups = _groups_of(next(iter(parts)), select, selects, kept)
        if groups is not None:
            found[number] = groups
    return found


def _groups_of(symbol: str, total: PrivateSelect, selects: Sequence[PrivateSelect], kept: KeptRows) -> Groups | None:
    """The groups that have this column, if the total is of the same."""
    for number, select in enumerate(selects):
        for position, call in enumerate(select.aggregates):
            if call.field.symbol == symbol and select.keys:
                rows = _rows_of_total(total, select, position, kept)
                return None if rows is None else Groups(number, position, rows)
    return None


# ---- what the answer reads ----------------------------------------------------------------------------------------


class _Origins:
    """Expressions of an answer over released columns, with what inner queries compute written out."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._nodes = list(all_nodes(root))
        self._computed = {
            field.symbol: value
            for node in self._nodes
            if isinstance(node, nodes.Project)
            for field, value in node.items
        }
        self._left = LARGEST

    def read(self) -> Iterator[Expression]:
        """What the answer shows, and what its rows are chosen, joined, sorted and aggregated by."""
        yield from (self._written_out(Column(field.symbol, field.type)) for field in self._root.fields)
        for node in self._nodes:
            if not isinstance(node, nodes.Project):
                yield from map(self._written_out, expressions_of(node))

    def _written_out(self, value: Expression) -> Expression:
        return transform(value, self._origin)

    def _origin(self, part: Expression) -> Expression:
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        if isinstance(part, ScalarRelation):
            (field,) = part.relation.fields[:1]
            return self._written_out(Column(field.symbol, field.type))
        inner = self._computed.get(part.symbol) if isinstance(part, Column) else None
        return part if inner is None else self._written_out(inner)


def _quotients(value: Expression) -> Iterator[tuple[str, str]]:
    """Symbols that are divided by each other, whatever constants either is multiplied by."""
    for part in walk(value):
        if isinstance(part, Call) and part.function == "divide":
            (_, above), (_, below) = (without_factors(each, nullif=True) for each in part.arguments)
            if isinstance(above, Column) and isinstance(below, Column):
                yield above.symbol, below.symbol


# ---- the same rows -----------------------------------------------------------------------------------------------


def _rows_of_total(total: PrivateSelect, groups: PrivateSelect, position: int, kept: KeptRows) -> PrivateSelect | None:
    """The groups over all rows of the total, if both are the same aggregate of the same rows, and nobody names limits."""
    whole, part = total.aggregates[0], groups.aggregates[position]
    kinds = {call.aggregate.sought_limit(call) if call.aggregate.adds_up else None for call in (whole, part)}
    if kinds not in ({"rows"}, {"sum"}):
        return None
    if not all(_is_open(*pair) for pair in ((total, whole), (groups, part))):
        return None
    wanted = _shape((total.input, whole.aggregate.argument))
    return next(
        (
            replace(groups, input=rows, public_groups=None)
            for rows, same in _same_rows(groups.input, kept)
            if _shape((same, part.aggregate.argument)) == wanted
        ),
        None,
    )


def _is_open(select: PrivateSelect, call: AggregateCall) -> bool:
    """Whether limits are to be found, nothing about them is said, and the rows are stored ones."""
    options = select.options
    named = options.max_groups_per_owner is not None or options.max_rows_per_owner is not None
    said = call.epsilon is not None or call.report is not None
    return options.find_limits and not named and not said and not _reads_released(select)


def _reads_released(select: PrivateSelect) -> bool:
    values = [value for _, value in select.keys]
    values += [call.aggregate.argument for call in select.aggregates if call.aggregate.argument is not None]
    roots = [select.input, *(relation for value in values for relation in relations_in(value))]
    return any(isinstance(node, nodes.StoredRows) for root in roots for node in all_nodes(root))


def _same_rows(node: Node, kept: KeptRows) -> Iterator[tuple[Node, Node]]:
    """The relation, and every one that has the same rows but for public tables of which each row meets one at most.

    Rows that meet none are in no group, and in the total: with each of the second goes the first with outer joins. Tables are taken
    whole: in part of one, most rows might meet nothing, and κ is found for those that do.
    """
    yield node, node
    filters: list[nodes.Filter] = []
    while isinstance(node, nodes.Filter):
        filters.append(node)
        node = node.input
    joins: list[nodes.Join] = []
    while isinstance(node, nodes.Join) and node.kind in {"inner", "left"} and kept.counted(node) is not None:
        if not isinstance(node.right, nodes.Scan) or node.right.owner is not None:
            return
        joins.append(node)
        node = node.left
        outer = node
        for join in reversed(joins):
            outer = replace(join, left=outer, kind="left")
        yield _filtered(outer, filters), _filtered(node, filters)


def _filtered(node: Node, filters: Sequence[nodes.Filter]) -> Node:
    for each in reversed(filters):
        node = replace(each, input=node)
    return node


def _shape(value: Any, names: dict[str, int] | None = None) -> Any:
    """A relation with symbols numbered in the order in which they are met: equal where two queries say the same."""
    names = {} if names is None else names
    if isinstance(value, tuple):
        return tuple(_shape(each, names) for each in value)
    if not hasattr(value, "__dataclass_fields__"):
        return value
    symbols = {"symbol", "owner"} if isinstance(value, _WITH_SYMBOLS) else set[str]()
    return (
        type(value).__name__,
        *(
            names.setdefault(part, len(names))
            if each.name in symbols and isinstance(part, str)
            else _shape(part, names)
            for each in fields(value)
            if each.compare
            for part in (getattr(value, each.name),)
        ),
    )


_WITH_SYMBOLS = (Column, nodes.Field, nodes.Scan)
