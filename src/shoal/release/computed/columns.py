"""Columns of an answer that are computed from private aggregates: ratios, differences, ROUND, CASE, shares of a total, ranks.

Computed row by row (including a total from a subquery), also in the parts of a UNION ALL, such as the groupings of a ROLLUP; by
windows over the groups of one SELECT; or by an aggregate over all of them (`AVG(n) FROM (SELECT day, COUNT(*) AS n … GROUP BY
day)`), which is a window that every row shares. Anything else that mixes rows (aggregates by group over released groups, other
subqueries, set operations that merge rows) is not covered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.mechanisms.group_selection import half_point
from shoal.plan import nodes
from shoal.plan.expressions import Call, Case, Cast, Column, Literal, WindowCall, columns_of, transform, walk
from shoal.plan.nodes import Field
from shoal.plan.types import Kind
from shoal.release.computed.scalars import with_scalars_joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.plan import releases
    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import SelectPlan, StatementPlan

_DRAWN = (Column, Literal, Call, Case, Cast, WindowCall)
_NUMBERS = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})
LARGEST = 200
"""Parts of an expression; a longer one is not drawn."""
OVER_ALL = frozenset({"avg", "sum", "min", "max"})
"""Aggregates over all released groups that can be drawn."""
FROM_ROW_TO_ROW = frozenset({"lag", "lead"})
"""Windows that look at one other row: missing groups change nothing else. A total misses them, and so does a rank."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The released groups that windows look at: more than the answer shows if rows are left out later."""

    rows: Node
    keys: frozenset[str]
    """Symbols that identify the groups."""
    size: str = ""
    """The symbol of a group's owner count, if small groups are left out; or of a sum over the owners (`of_sum`)."""
    even_chance: int = 0
    """How many owners a group needs for an even chance; 0 if no group is left out."""
    skips: bool = False
    """Whether windows look at rows that are adjacent only because groups between them were left out."""
    alike: bool = False
    """Whether groups that are left out have numbers like the others, as averages have, and not smaller ones, as counts have."""
    of_sum: tuple[int, int] | None = None
    """If nothing counts owners: the SELECT and column of the sum. Divided by the most one owner adds, it bounds them from below."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A column of the answer: its expression over released columns, by their symbols."""

    field: Field
    expression: Expression
    groups: Groups | None = None
    """What windows in the expression look at; None if there are none."""

    @property
    def symbols(self) -> frozenset[str]:
        """What it reads."""
        return columns_of(self.expression)


def computed_columns(plan: StatementPlan) -> dict[int, Computed]:
    """The columns whose intervals can be drawn, by position; copies have their own intervals."""
    drawable = _drawable(plan)
    root = with_scalars_joined(plan)
    repeated = [node.select for node in nodes.walk(root) if isinstance(node, nodes.StoredRows)]
    if len(set(repeated)) < len(repeated):
        return {}
    found = {}
    for position, field in enumerate(plan.root.fields):
        origin = _origin(root, field.symbol)
        if origin is None or isinstance(origin, Column) or field.type.kind not in _NUMBERS:
            continue
        parts = list(walk(origin))
        if not _is_drawn(parts):
            continue
        windows = [part for part in parts if isinstance(part, WindowCall)]
        groups = _groups(plan, _looked_at(root, field.symbol), windows) if windows else None
        if windows and groups is None:
            continue
        if groups is not None and _is_one_row(root):
            groups = replace(groups, keys=frozenset())
        private = {part.symbol for part in parts if isinstance(part, Column)} & drawable.keys()
        if private and all(drawable[symbol] for symbol in private):
            found[position] = Computed(field, origin, groups)
    return found


def _is_drawn(parts: Sequence[Expression]) -> bool:
    return len(parts) <= LARGEST and all(isinstance(part, _DRAWN) for part in parts)


def computed_in_parts(plan: StatementPlan) -> tuple[dict[int, Computed], ...]:
    """For each part of a UNION ALL, the columns that can be drawn there, where some part computes something."""
    root, drawable = with_scalars_joined(plan), _drawable(plan)
    repeated = [node.select for node in nodes.walk(root) if isinstance(node, nodes.StoredRows)]
    if not _has_parts(root) or len(set(repeated)) < len(repeated):
        return ()
    numbers = {n: field for n, field in enumerate(plan.root.fields) if field.type.kind in _NUMBERS}
    origins = {position: _origins(root, field.symbol) for position, field in numbers.items()}
    computed = {position: each for position, each in origins.items() if not all(isinstance(e, Column) for e in each)}
    return tuple(
        {
            position: Computed(numbers[position], origin)
            for position, origin in zip(computed, of_part, strict=True)
            if origin is not None and _drawn_row_by_row(origin, drawable)
        }
        for of_part in zip(*computed.values(), strict=True)
    )


def _drawn_row_by_row(origin: Expression, drawable: Mapping[str, bool]) -> bool:
    parts = list(walk(origin))
    private = {part.symbol for part in parts if isinstance(part, Column)} & drawable.keys()
    windows = any(isinstance(part, WindowCall) for part in parts)
    return _is_drawn(parts) and not windows and bool(private) and all(drawable[symbol] for symbol in private)


def _has_parts(node: Node) -> bool:
    while isinstance(node, (nodes.Project, nodes.Filter, nodes.Sort)):
        node = node.input
    return isinstance(node, nodes.SetOperation) and node.kind == "union_all"


def _origins(node: Node, symbol: str) -> list[Expression | None]:
    """The column as an expression over the stored rows of each part of a UNION ALL, the leftmost part first."""
    match node:
        case nodes.SetOperation(kind="union_all"):
            position = [field.symbol for field in node.fields].index(symbol)
            return [each for side in (node.left, node.right) for each in _origins(side, side.fields[position].symbol)]
        case nodes.Project() if _has_parts(node.input):
            value = next(value for field, value in node.items if field.symbol == symbol)
            read = {name: _origins(node.input, name) for name in columns_of(value)}
            parts = len(_origins(node.input, node.input.fields[0].symbol))
            return [_replaced(value, {name: each[n] for name, each in read.items()}) for n in range(parts)]
        case nodes.Filter() | nodes.Sort() if _has_parts(node.input):
            return _origins(node.input, symbol)
    return [_origin(node, symbol)]


def _is_one_row(node: Node) -> bool:
    """Whether the answer is an aggregate over all groups."""
    while isinstance(node, (nodes.Project, nodes.Filter, nodes.Sort)):
        node = node.input
    return isinstance(node, nodes.Aggregate) and not node.keys


def _looked_at(node: Node, symbol: str) -> Node | None:
    """The relation whose rows the windows behind a column look at; None if there are several in sequence."""
    match node:
        case nodes.Project():
            value = next((value for field, value in node.items if field.symbol == symbol), None)
            read = () if value is None else columns_of(value)
            below = {id(rows): rows for rows in (_looked_at(node.input, name) for name in read) if rows is not None}
            if value is not None and any(isinstance(part, WindowCall) for part in walk(value)):
                return None if below else node.input
            return next(iter(below.values())) if len(below) == 1 else None
        case nodes.Filter() | nodes.Sort():
            return _looked_at(node.input, symbol)
        case nodes.Aggregate(keys=()):
            parts = [part for field, value in node.aggregates if field.symbol == symbol for part in value.arguments]
            inside = (_looked_at(node.input, name) for part in parts for name in columns_of(part))
            return node.input if all(rows is None for rows in inside) else None
        case nodes.Join():
            side = next((s for s in (node.left, node.right) if any(f.symbol == symbol for f in s.fields)), None)
            return None if side is None else _looked_at(side, symbol)
    return None


def _groups(plan: StatementPlan, rows: Node | None, windows: Sequence[WindowCall]) -> Groups | None:
    """The groups of one SELECT, each once; None if rows are something else, or if groups that matter are left out."""
    node = rows
    while isinstance(node, (nodes.Project, nodes.Filter, nodes.Sort)):
        node = node.input
    if rows is None or not isinstance(node, nodes.StoredRows) or node.select >= len(plan.selects):
        return None
    select = plan.selects[node.select]
    aggregates = {column.call.field.symbol for column in select.columns}
    keys = frozenset(field.symbol for field in node.fields if field.symbol not in aggregates)
    far = [window for window in windows if window.function not in FROM_ROW_TO_ROW and not _looks_near(window)]
    if select.selection is None or not far:
        return Groups(rows, keys, skips=select.selection is not None)
    functions = {window.function for window in far}
    size = next((column.call.field.symbol for column in select.columns if _counts_owners(select, column)), "")
    adding_up = {c.call.field.symbol for c in select.columns if c.call.aggregate.adds_up}
    totals = [value for window in far for value in window.arguments]
    if "max" in functions and functions <= {"max"}:
        return Groups(rows, keys)
    even_chance = int(half_point(select.selection))
    if functions == {"avg"} and all(columns_of(t) <= aggregates - adding_up for t in totals):
        return Groups(rows, keys, size, even_chance, alike=True)
    if not functions <= {"sum", "avg"} or not all(columns_of(t) <= adding_up for t in totals):
        return None
    if size:
        return Groups(rows, keys, size, even_chance)
    summed = [n for n, c in enumerate(select.columns) if any(c.call.field.symbol in columns_of(t) for t in totals)]
    if len(summed) != 1 or select.finds_bounds_per_group or select.columns[summed[0]].call.report is not None:
        return None
    return Groups(rows, keys, select.columns[summed[0]].call.field.symbol, even_chance, of_sum=(node.select, summed[0]))


def _looks_near(window: WindowCall) -> bool:
    """Whether it averages a few rows before and after its own: like the row before, those that appear."""
    if window.function != "avg" or window.frame is None:
        return False
    return all(count is not None or side == "CURRENT ROW" for count, side in (window.frame.start, window.frame.end))


def _counts_owners(select: SelectPlan, column: releases.Column) -> bool:
    aggregate = column.call.aggregate
    counts = aggregate.adds_up and aggregate.never_negative and not aggregate.counts_values
    return (aggregate.counts_owners or (select.one_row and counts)) and column.call.report is None


def _drawable(plan: StatementPlan) -> dict[str, bool]:
    """The symbols of private aggregates, and whether the answer carries what their numbers may have been without noise.

    For quantiles that is one number with an interval; lists and dates are not drawn.
    """
    found = {}
    for select in plan.selects:
        for column in select.columns:
            trees = any(select.releases[index].measure.is_tree for index in column.releases)
            plain = bool(column.releases) and column.call.report is None
            is_number = not trees or column.call.field.type.kind in _NUMBERS
            found[column.call.field.symbol] = plain and is_number and not select.finds_bounds_per_group
    return found


def _origin(node: Node, symbol: str) -> Expression | None:
    """The column as an expression over stored rows; None if rows are mixed on the way."""
    match node:
        case nodes.Project():
            value = next((value for field, value in node.items if field.symbol == symbol), None)
            return None if value is None else _substituted(value, node.input)
        case nodes.Filter() | nodes.Sort():
            return _origin(node.input, symbol)
        case nodes.Join() if node.kind in {"inner", "left", "right", "full"}:
            side = next((s for s in (node.left, node.right) if any(f.symbol == symbol for f in s.fields)), None)
            return None if side is None else _origin(side, symbol)
        case nodes.Aggregate(keys=()):
            aggregate = next((value for field, value in node.aggregates if field.symbol == symbol), None)
            return None if aggregate is None else _over_all(aggregate, node.input)
        case nodes.StoredRows() | nodes.Scan() | nodes.Values():
            field = next((f for f in node.fields if f.symbol == symbol), None)
            return None if field is None else Column(symbol, field.type)
    return None


def _over_all(aggregate: nodes.RowAggregate, below: Node) -> Expression | None:
    """An aggregate over all rows as the window that every one of them would have."""
    if aggregate.function not in OVER_ALL or aggregate.distinct or aggregate.filter is not None:
        return None
    arguments = [_substituted(part, below) for part in aggregate.arguments]
    known = tuple(part for part in arguments if part is not None)
    window = WindowCall(aggregate.function, known, (), (), None, aggregate.type)
    return window if len(known) == len(arguments) else None


def _substituted(value: Expression, below: Node) -> Expression | None:
    return _replaced(value, {symbol: _origin(below, symbol) for symbol in columns_of(value)})


def _replaced(value: Expression, origins: Mapping[str, Expression | None]) -> Expression | None:
    if any(origin is None for origin in origins.values()):
        return None
    return transform(value, lambda part: (origins[part.symbol] or part) if isinstance(part, Column) else part)


def mixed_columns(plan: StatementPlan) -> list[str]:
    """Names of numbers that derive from private aggregates, and are neither copies nor computed row by row."""
    private = frozenset(column.call.field.symbol for select in plan.selects for column in select.columns)
    in_parts = computed_in_parts(plan)
    everywhere = set[int].intersection(*(set(part) for part in in_parts)) if in_parts else set[int]()
    drawn = computed_columns(plan).keys() | everywhere
    return [
        field.name
        for position, field in enumerate(plan.root.fields)
        if field.type.kind in _NUMBERS
        and position not in drawn
        and _follows(plan.root, field.symbol, private, copied=True)
    ]


def _follows(node: Node, symbol: str, private: frozenset[str], *, copied: bool) -> bool:
    """Whether a column derives from a private aggregate without being a copy of it."""
    match node:
        case nodes.Project() | nodes.Aggregate():
            items = node.items if isinstance(node, nodes.Project) else (*node.keys, *node.aggregates)
            value = next((value for field, value in items if field.symbol == symbol), None)
            if isinstance(value, Column):
                return _follows(node.input, value.symbol, private, copied=copied)
            parts = value.arguments if isinstance(value, nodes.RowAggregate) else () if value is None else (value,)
            read = {name for part in parts for name in columns_of(part)}
            return any(_follows(node.input, name, private, copied=False) for name in read)
        case nodes.Filter() | nodes.Sort():
            return _follows(node.input, symbol, private, copied=copied)
        case nodes.Distinct():
            return _follows(node.input, symbol, private, copied=copied and can_be_keys(node))
        case nodes.Join():
            sides = [side for side in (node.left, node.right) if any(f.symbol == symbol for f in side.fields)]
            return any(_follows(side, symbol, private, copied=copied) for side in sides)
        case nodes.SetOperation():
            position = [field.symbol for field in node.fields].index(symbol)
            sides = [node.left, node.right] if node.kind in {"union_all", "union"} else [node.left]
            same = copied and (node.kind == "union_all" or can_be_keys(node))
            return any(_follows(side, side.fields[position].symbol, private, copied=same) for side in sides)
        case nodes.StoredRows():
            return symbol in private and not copied
    return False


def can_be_keys(node: Node) -> bool:
    """Whether grouping can distinguish the rows: lists cannot be keys."""
    return all(field.type.kind is not Kind.UNSUPPORTED for field in node.fields)


def passing_on(node: Node, wanted: frozenset[str]) -> Node:
    """The tree with released columns passed up to its root under their own symbols."""
    match node:
        case nodes.Project():
            below = passing_on(node.input, wanted)
            own = {field.symbol for field in node.fields}
            more = [field for field in below.fields if field.symbol in wanted and field.symbol not in own]
            items = (*node.items, *((Field("", f.symbol, f.type), Column(f.symbol, f.type)) for f in more))
            return replace(node, input=below, items=items)
        case nodes.Filter() | nodes.Sort():
            return replace(node, input=passing_on(node.input, wanted))
        case nodes.Join() if node.kind in {"inner", "left", "right", "full"}:
            return replace(node, left=passing_on(node.left, wanted), right=passing_on(node.right, wanted))
        case nodes.SetOperation(kind="union_all"):
            return _passing_on_parts(node, wanted)
    return node


def _passing_on_parts(node: nodes.SetOperation, wanted: frozenset[str]) -> Node:
    """A row has the columns of the part that it comes from, and NULL for those of the other."""
    sides = passing_on(node.left, wanted), passing_on(node.right, wanted)
    own = {field.symbol for side in (node.left, node.right) for field in side.fields}
    more = [field for side in sides for field in side.fields if field.symbol in wanted and field.symbol not in own]
    if not more:
        return node
    left, right = (
        nodes.Project(
            side,
            (
                *((f, Column(f.symbol, f.type)) for f in before.fields),
                *((f, Column(f.symbol, f.type) if f in side.fields else Literal(None, f.type)) for f in more),
            ),
        )
        for before, side in zip((node.left, node.right), sides, strict=True)
    )
    return replace(node, left=left, right=right, fields=(*node.fields, *more))


def all_symbols(columns: Mapping[int, Computed]) -> frozenset[str]:
    """Everything that some computed column reads, or that identifies the groups its windows look at."""
    groups = [column.groups for column in columns.values() if column.groups is not None]
    told_apart = (each.keys | ({each.size} if each.size else set()) for each in groups)
    return frozenset().union(*(column.symbols for column in columns.values()), *told_apart)
