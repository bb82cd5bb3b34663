"""A SELECT without the privacy clause: over public rows, or over owned rows inside the FROM of a private SELECT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Order, WindowCall, transform, walk
from shoal.plan.traverse import is_owned
from shoal.plan.types import RELEASED_LIST, Kind
from shoal.sql import functions
from shoal.sql.binding.after_grouping import (
    GroupedBinder,
    KeyResolver,
    is_grouped,
    output_name,
    refuse_distinct_on,
    select_items,
)
from shoal.sql.binding.clauses.order_limit import with_tail
from shoal.sql.binding.expressions import ExpressionBinder, treats_ties_alike
from shoal.sql.binding.split_columns import is_unnested, split
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.plan.nodes import Field, Node, RowAggregate
    from shoal.sql.binding.context import CommonTable, Scope, Symbols
    from shoal.sql.binding.statement import Binder
    from shoal.sql.parse import FunctionCall


class RowsBinder:
    """Binds one such SELECT; its FROM and WHERE are already bound."""

    def __init__(
        self,
        binder: Binder,
        tree: exp.Select,
        node: Node,
        scope: Scope,
        tables: dict[str, CommonTable],
        owner: Column | None = None,
    ) -> None:
        """`owner`: one more key of GROUP BY, that the SELECT list cannot name."""
        self._binder = binder
        self._tree = tree
        self._node = node
        self._owner = owner
        self._scope = scope
        self._tables = tables
        self._rows = ExpressionBinder(scope, binder.subquery(tables))
        self._items = select_items(tree.expressions)
        self._aggregates: dict[RowAggregate, Field] = {}
        self._parts: dict[int, Expression] = {}

    def bound(self) -> Node:
        """The relation of the SELECT."""
        tree = self._tree
        refuse_distinct_on(tree)
        grouped = is_grouped(tree)
        if tree.args.get("qualify") is not None and (grouped or tree.args.get("distinct") is not None):
            raise ShoalError(
                "E_UNSUPPORTED",
                "QUALIFY is not supported together with DISTINCT, GROUP BY or an aggregate.",
                hint="Group in a subquery, and filter by the window around it.",
                position=position_of(tree.args["qualify"]),
            )
        return self._grouped() if grouped else self._plain()

    def _plain(self) -> Node:
        self._split_texts()
        items = self._expanded()
        node = self._node
        if self._tree.args.get("qualify") is not None:
            return self._qualified(items)
        if self._tree.args.get("distinct") is not None:
            node = nodes.Distinct(self._binder.project(node, items), position=position_of(self._tree))
            items = []
        return with_tail(self._binder, self._tree, node, items, self._scope, self._tables)

    def _split_texts(self) -> None:
        """UNNEST in the SELECT list turns one row into several, before anything is computed from them."""
        for _, value in self._items:
            if is_unnested(value):
                self._node, part = split(value, self._node, self._rows, self._binder.context.symbols)
                self._parts[id(value)] = Column(part.symbol, part.type)

    def _expanded(self) -> list[tuple[str, Expression]]:
        """The SELECT list with stars expanded."""
        found: list[tuple[str, Expression]] = []
        named: list[tuple[str, Expression]] = []
        for index, (alias, value) in enumerate(self._items):
            if value.is_star and isinstance(value, (exp.Star, exp.Column)):
                found.extend(self._star(value))
            else:
                found.append(
                    (
                        output_name(alias, value, index),
                        self._parts.get(id(value))
                        or self._carried(value)
                        or AliasBinder(self._rows, named).bind(value),
                    )
                )
                self._binder.context.weights.check(found[-1][1])
                if alias is not None:
                    named.append(found[-1])
        return found

    def _carried(self, value: exp.Expr) -> Expression | None:
        """A released list, referenced by name alone: it is passed through. Next to private rows it has no use."""
        if not isinstance(value, exp.Column):
            return None
        carried = self._scope.released_list(value.table or None, value.name)
        return carried if carried is not None and not is_owned(self._node) else None

    def _star(self, value: exp.Expr) -> list[tuple[str, Expression]]:
        table = value.table if isinstance(value, exp.Column) else ""
        found: list[tuple[str, Expression]] = []
        for alias, f in self._scope.visible():
            usable = f.type.kind is not Kind.UNSUPPORTED or (f.type == RELEASED_LIST and not is_owned(self._node))
            if (not table or fold(alias) == fold(table)) and usable:
                merged = self._scope.merged.get(fold(f.name)) if not table else None
                found.append((f.name, merged or Column(f.symbol, f.type)))
        if not found:
            raise ShoalError("E_UNKNOWN_TABLE", "This * does not match any table.", position=position_of(value))
        return found

    def _qualified(self, items: list[tuple[str, Expression]]) -> Node:
        """Rows are filtered by windows over all of them, then the SELECT list is computed."""
        clause = self._tree.args["qualify"]
        condition = AliasBinder(self._rows, items).condition(clause.this)
        settled = [(name, transform(value, self._without_ties)) for name, value in items]
        condition = transform(condition, self._without_ties)
        filtered, outputs, _ = qualifying(self._binder.context.symbols, self._node, condition, settled, [])
        return with_tail(self._binder, self._tree, filtered, outputs, self._scope, self._tables)

    def _without_ties(self, part: Expression) -> Expression:
        """QUALIFY passes on columns that nobody can name, such as an owner found through another table: they break ties, too."""
        if not isinstance(part, WindowCall) or not part.order or treats_ties_alike(part.function, part.frame):
            return part
        known = {order.value.symbol for order in part.order if isinstance(order.value, Column)}
        unseen = [f for f in self._node.fields if f.symbol not in known and f.type.kind is not Kind.UNSUPPORTED]
        return replace(part, order=(*part.order, *(Order(Column(f.symbol, f.type)) for f in unseen)))

    # ---- GROUP BY ------------------------------------------------------------------------------------------------

    def _grouped(self) -> Node:
        symbols = self._binder.context.symbols
        clause = self._tree.args.get("group")
        resolver = KeyResolver(self._items, self._rows)
        keys: dict[Expression, Field] = {}
        for part in clause.expressions if clause is not None else []:
            key = resolver.resolve(part)
            if key not in keys:
                keys[key] = symbols.field(value_name(key, self._node), key.type, key)
        if self._owner is not None:
            keys[self._owner] = symbols.field("", self._owner.type, self._owner)
        grouped = GroupedBinder(self._rows, keys, self._aggregate, _raw_in_group)
        outputs: list[tuple[str, Expression]] = []
        for index, (alias, value) in enumerate(self._items):
            if value.is_star and isinstance(value, (exp.Star, exp.Column)):
                raise ShoalError(
                    "E_GROUPING",
                    "* cannot be combined with GROUP BY.",
                    hint="Name the columns.",
                    position=position_of(value),
                )
            grouped.inputs_first = True
            outputs.append((output_name(alias, value, index), grouped.bind(value)))
            self._binder.context.weights.check(outputs[-1][1])
            if alias is not None:
                grouped.name(alias, outputs[-1][1])
        grouped.inputs_first = False
        grouped.aliases = {fold(n): v for n, v in outputs}
        having = self._tree.args.get("having")
        condition = grouped.condition(having.this) if having is not None else None
        order = self._order(grouped, outputs)
        node: Node = nodes.Aggregate(
            self._node,
            tuple((f, v) for v, f in keys.items()),
            tuple((f, a) for a, f in self._aggregates.items()),
            position=position_of(self._tree),
        )
        if condition is not None:
            node = nodes.Filter(node, condition, position=position_of(self._tree))
        if self._tree.args.get("distinct") is not None:
            node = nodes.Distinct(self._binder.project(node, outputs), position=position_of(self._tree))
            order = [self._shown(item, outputs, node.fields) for item in order]
            outputs = []
        return with_tail(self._binder, self._tree, node, outputs, self._scope, self._tables, bound_order=order)

    def _order(self, grouped: GroupedBinder, outputs: list[tuple[str, Expression]]) -> list[Order]:
        clause = self._tree.args.get("order")
        if clause is None:
            return []
        grouped.prefers_aliases = True
        return [ordered(grouped, item, outputs) for item in clause.expressions]

    def _shown(self, order: Order, outputs: list[tuple[str, Expression]], fields: tuple[Field, ...]) -> Order:
        """After DISTINCT only its output columns are in scope."""
        for field, (_, value) in zip(fields, outputs, strict=True):
            if value == order.value:
                return replace(order, value=Column(field.symbol, field.type))
        raise ShoalError(
            "E_UNSUPPORTED",
            "With DISTINCT, ORDER BY can only use what the SELECT list shows.",
            hint="Add it to the SELECT list, or leave out DISTINCT.",
            position=position_of(self._tree.args["order"]),
        )

    def _aggregate(self, call: FunctionCall) -> Expression:
        """An exact aggregate, order-independent by construction."""
        if call.name.startswith("ANON_"):
            raise ShoalError(
                "E_AGG_NOT_DP", f"{call.name} belongs to a SELECT WITH ANONYMIZATION.", position=call.position
            )
        functions.check_owner_aggregate(call.name, call.position)
        _refuse_what_only_private_aggregates_take(call)
        arguments = [] if call.star else [self._rows.bind(a) for a in call.arguments]
        name, result = functions.owner_aggregate(call.name, [a.type for a in arguments], call.position)
        condition = self._rows.condition(call.filter) if call.filter is not None else None
        aggregate = nodes.RowAggregate(name, tuple(arguments), result, call.distinct, condition, call.position)
        if aggregate not in self._aggregates:
            self._aggregates[aggregate] = self._binder.context.symbols.field("", result)
        found = self._aggregates[aggregate]
        return Column(found.symbol, found.type, call.position)


def qualifying(
    symbols: Symbols, node: Node, condition: Expression, items: list[tuple[str, Expression]], order: list[Order]
) -> tuple[Node, list[tuple[str, Expression]], list[Order]]:
    """QUALIFY: all windows are computed alongside the columns, and rows are filtered by them; later expressions read them there."""
    parts = (part for value in (condition, *(v for _, v in items), *(o.value for o in order)) for part in walk(value))
    windows = dict.fromkeys(part for part in parts if isinstance(part, WindowCall))
    fields = {window: symbols.field("", window.type) for window in windows}
    copies = tuple((f, Column(f.symbol, f.type)) for f in node.fields)
    everything = nodes.Project(node, (*copies, *((f, window) for window, f in fields.items())))

    def computed(part: Expression) -> Expression:
        found = fields.get(part) if isinstance(part, WindowCall) else None
        return part if found is None else Column(found.symbol, found.type)

    filtered = nodes.Filter(everything, transform(condition, computed), position=condition.position)
    outputs = [(name, transform(value, computed)) for name, value in items]
    return filtered, outputs, [replace(o, value=transform(o.value, computed)) for o in order]


class AliasBinder(ExpressionBinder):
    """QUALIFY, and the SELECT list after it: columns of FROM first, then names from the SELECT list."""

    def __init__(self, rows: ExpressionBinder, items: list[tuple[str, Expression]]) -> None:
        super().__init__(rows.scope, rows._subquery)  # noqa: SLF001 - the same binder, with names added
        self._named: dict[str, Expression] = {}
        for name, value in items:
            self._named.setdefault(fold(name), value)

    def bind(self, node: exp.Expr) -> Expression:
        """A column, else an alias, or any expression over them."""
        try:
            return super().bind(node)
        except ShoalError as error:
            plain = isinstance(node, exp.Column) and not node.table and fold(node.name) in self._named
            if error.code != "E_UNKNOWN_COLUMN" or not plain:
                raise
            return self._named[fold(node.name)]


def ordered(grouped: GroupedBinder, item: exp.Expr, outputs: list[tuple[str, Expression]]) -> Order:
    """One item of ORDER BY over groups; a whole number is the position of an output column."""
    node = item.this if isinstance(item, exp.Ordered) else item
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        number = int(node.name)
        if not 1 <= number <= len(outputs):
            raise ShoalError(
                "E_PARSE", f"ORDER BY {number} names no column of the SELECT list.", position=position_of(node)
            )
        nulls = item.args.get("nulls_first")
        return Order(outputs[number - 1][1], bool(item.args.get("desc")), bool(nulls) if nulls is not None else False)
    return grouped.ordered(item)


def value_name(value: Expression, node: Node) -> str:
    """The name of a bare column, "" for anything else."""
    if isinstance(value, Column):
        return next((f.name for f in node.fields if f.symbol == value.symbol), "")
    return ""


def _refuse_what_only_private_aggregates_take(call: FunctionCall) -> None:
    reasons = (
        (call.named or call.clamped, "bounds and named arguments", "They belong to a private SELECT; leave them out."),
        (call.order_by, "ORDER BY", "Leave it out: the answer does not depend on the order of rows."),
        (call.within_group, "WITHIN GROUP", "Leave it out: the answer does not depend on the order of rows."),
        (call.nulls, f"{call.nulls} NULLS", "Leave it out: aggregates skip NULL."),
    )
    for given, what, hint in reasons:
        if given:
            raise ShoalError("E_UNSUPPORTED", f"{call.name} takes no {what} here.", hint=hint, position=call.position)


def _raw_in_group(node: exp.Expr) -> ShoalError:
    return ShoalError(
        "E_GROUPING",
        "This column is neither a group key nor inside an aggregate.",
        hint="Add it to GROUP BY, or aggregate it.",
        position=position_of(node),
    )
