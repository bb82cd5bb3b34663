"""Parsed query + catalog → relational nodes. Names become symbols here; no later stage looks a name up.

A SELECT with the privacy clause becomes a `PrivateSelect`; everything around it is a public relation over its stored rows.
This module decides only which SELECT is private; `rewrite/check_ownership` checks ownership.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, Expression, walk
from shoal.plan.lineage import is_copy, lineage, owner_names
from shoal.plan.traverse import is_owned
from shoal.plan.types import Kind, Type, common_type
from shoal.sql import functions
from shoal.sql.binding.after_grouping import (
    KeyResolver,
    RowNames,
    has_aggregate,
    is_grouped,
    output_name,
    refuse_distinct_on,
    select_items,
)
from shoal.sql.binding.clauses.conditions import holds_owner, owner_not_in_place
from shoal.sql.binding.clauses.from_clause import FromBinder
from shoal.sql.binding.clauses.mistakes import mistaken
from shoal.sql.binding.clauses.order_limit import with_tail
from shoal.sql.binding.clauses.per_owner_values import values_as_joins
from shoal.sql.binding.clauses.unowned_rows import owned_rows_only
from shoal.sql.binding.clauses.where_clause import WhereBinder
from shoal.sql.binding.context import CommonTable, Context, Relation, Scope
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.binding.options import default_options, read_options
from shoal.sql.binding.private_select import PrivateBinder
from shoal.sql.binding.row_select import RowsBinder
from shoal.sql.binding.without_clause import RowsWithoutClause, no_clause
from shoal.sql.binding.written_out import groupings_of, written_out
from shoal.sql.parse import Statement, position_of, privacy_clause

if TYPE_CHECKING:
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect

MAX_COLUMNS = 1000
_UNKNOWN_NAMES = frozenset({"E_UNKNOWN_TABLE", "E_UNKNOWN_COLUMN"})


Given = Callable[["Binder"], dict[str, CommonTable]]
"""Relations that a statement may name besides the tables of the catalog."""


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement without names: the public relation it answers with, and the private SELECTs under it."""

    root: Node
    selects: tuple[PrivateSelect, ...]
    output: tuple[str, ...]


def bind_in(context: Context, statement: Statement, given: Given = lambda _: {}) -> BoundStatement:
    """The same in a given context, which holds back errors that ownership must precede; `given` names relations as WITH does."""
    context.is_plain = all(privacy_clause(select) is None for select in statement.tree.find_all(exp.Select))
    binder = Binder(context)
    root = binder.query(statement.tree, given(binder), None, top=True)
    return BoundStatement(root, tuple(context.selects), tuple(f.name for f in root.fields))


class Binder:
    """Binds queries; one per statement."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # ---- queries -------------------------------------------------------------------------------------------------

    def query(self, tree: exp.Expr, tables: dict[str, CommonTable], parent: Scope | None, *, top: bool = False) -> Node:
        """A SELECT or a set operation, with its WITH, ORDER BY and LIMIT."""
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, tables, parent, top=top)
        tables = self._with(tree, tables, parent)
        if isinstance(tree, exp.Select):
            return self._select(tree, tables, parent, top=top)
        if isinstance(tree, (exp.Union, exp.Intersect, exp.Except)):
            return self._set_operation(tree, tables, parent, top=top)
        raise ShoalError("E_UNSUPPORTED", "This form of query is not supported.", position=position_of(tree))

    def _with(self, tree: exp.Expr, tables: dict[str, CommonTable], parent: Scope | None) -> dict[str, CommonTable]:
        clause = tree.args.get("with_")
        if clause is None:
            return tables
        if clause.args.get("recursive"):
            raise ShoalError(
                "E_RECURSION",
                "WITH RECURSIVE is not supported.",
                hint="Write the steps out, or ask for a view.",
                position=position_of(clause),
            )
        tables, read = dict(tables), tables_read(tree)
        for part in clause.expressions:
            before = self.context.relations
            with self.context.no_defaults(unless=fold(part.alias) in read):
                node = self.query(part.this, tables, parent)
            names = [c.name for c in part.args["alias"].args.get("columns") or []]
            renamed = self.renamed(node, names, position_of(part))
            tables[fold(part.alias)] = CommonTable(renamed, self.context.relations - before)
            self.context.relations = before
        return tables

    def renamed(self, node: Node, names: list[str], position: tuple[int, int] | None) -> Node:
        """The relation with other column names; fewer names than columns are refused."""
        if not names:
            return node
        visible = [f for f in node.fields if f.name]
        if len(names) != len(visible):
            raise ShoalError(
                "E_PARSE", f"{len(names)} column names are given for {len(visible)} columns.", position=position
            )
        return self.project(node, [(n, Column(f.symbol, f.type)) for n, f in zip(names, visible, strict=True)])

    def project(self, node: Node, items: list[tuple[str, Expression]]) -> nodes.Project:
        """Named columns over a relation; an interval cannot be a column."""
        for name, value in items:
            if value.type.kind is Kind.INTERVAL:
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"The column {name!r} would hold intervals.",
                    hint="Add the interval to a date or a timestamp, or count days with DATE_DIFF.",
                    position=value.position,
                )
        return nodes.Project(node, tuple((self.context.symbols.field(n, v.type, v), v) for n, v in items))

    def _set_operation(
        self, tree: exp.Expr, tables: dict[str, CommonTable], parent: Scope | None, *, top: bool
    ) -> Node:
        left = self.query(tree.this, tables, parent, top=top)
        right = self.query(tree.expression, tables, parent, top=top)
        position = position_of(tree)
        if (top and is_owned(left) != is_owned(right)) or (top and is_owned(left)):
            raise no_clause(position)
        if len(left.fields) != len(right.fields):
            raise ShoalError("E_PARSE", "Both sides of a set operation need as many columns.", position=position)
        if not tree.args.get("distinct") and not isinstance(tree, exp.Union):
            raise ShoalError(
                "E_UNSUPPORTED",
                "INTERSECT ALL and EXCEPT ALL are not supported.",
                hint="Leave out ALL.",
                position=position,
            )
        types = []
        for a, b in zip(left.fields, right.fields, strict=True):
            found = common_type([a.type, b.type])
            if found is None:
                self._refuse_misplaced_owners(left, right, position)
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"The columns {a.name!r} and {b.name!r} have different types.",
                    hint="Cast one of them.",
                    position=position,
                )
            types.append(found)
        left, right = self._converted(left, types), self._converted(right, types)
        kind = (
            "intersect"
            if isinstance(tree, exp.Intersect)
            else "except"
            if isinstance(tree, exp.Except)
            else "union"
            if tree.args.get("distinct")
            else "union_all"
        )
        fields = tuple(self.context.symbols.field(f.name, t) for f, t in zip(left.fields, types, strict=True))
        for new, a, b in zip(fields, left.fields, right.fields, strict=True):
            origin = self.context.symbols.origins.get(a.symbol)
            if origin is not None and origin == self.context.symbols.origins.get(b.symbol):
                self.context.symbols.origins[new.symbol] = origin
        node: Node = nodes.SetOperation(left, right, kind, fields, position=position)
        scope = Scope([Relation("", node.fields)], parent=parent)
        return with_tail(self, tree, node, [], scope, tables)

    def _refuse_misplaced_owners(self, left: Node, right: Node, position: tuple[int, int] | None) -> None:
        """If types differ because the owners are in different positions, that is the reason to report."""
        pairs = zip(left.fields, right.fields, strict=True)
        together = any(all(self._is_owner(f) for f in pair) for pair in pairs)
        if (is_owned(left) or is_owned(right)) and not together:
            raise owner_not_in_place(position)

    def _is_owner(self, field: nodes.Field) -> bool:
        return holds_owner(self.context, Column(field.symbol, field.type))

    def _converted(self, node: Node, types: list[Type]) -> Node:
        if all(f.type.plain() == t.plain() for f, t in zip(node.fields, types, strict=True)):
            return node
        items = [
            (
                f.name,
                Column(f.symbol, f.type)
                if f.type.plain() == t.plain()
                else functions.resolve_cast(Column(f.symbol, f.type), t, None),
            )
            for f, t in zip(node.fields, types, strict=True)
        ]
        return self.project(node, items)

    # ---- SELECT --------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, tables: dict[str, CommonTable], parent: Scope | None, *, top: bool) -> Node:
        self.context.count_relations(1, position_of(tree))
        tree = values_as_joins(written_out(tree), self.context.catalog)
        groupings = groupings_of(tree)
        if groupings is not None:
            return self._groupings(tree, groupings, tables, parent, top=top)
        clause = privacy_clause(tree)
        unit = None
        options = None
        if clause is not None:
            options, unit = read_options(clause, self.context.catalog.defaults, self.context.epsilon)
        if len(tree.expressions) > MAX_COLUMNS:
            raise ShoalError("E_LIMITS", f"A SELECT has at most {MAX_COLUMNS} columns.", position=position_of(tree))
        scope = Scope(parent=parent, now=self.context.now)
        node = FromBinder(self, scope, tables).bound(tree)
        rows = ExpressionBinder(scope, self.subquery(tables))
        scope.named = RowNames(select_items(tree.expressions), rows, self.context.weights)
        node = WhereBinder(self, scope, tables).bound(tree, node)
        if self.context.is_plain and self.context.catalog.defaults.answers_plain_sql:
            node = self._owned_rows_only(node)
        if clause is None and is_owned(node) and (top or self._is_private(tree, node, scope)):
            if not self.context.catalog.defaults.answers_plain_sql:
                RowsWithoutClause(self, tree, node, scope, tables).bound()
                raise no_clause(position_of(tree))
            tree = distinct_as_groups(tree)
            options = default_options(self.context.catalog.defaults, self.context.epsilon)
        if options is not None:
            self.context.remarks.extend(mistaken(tree, node, scope))
            options = self.context.share(options)
            released, items, order = PrivateBinder(self, tree, node, scope, tables, options).bound(unit)
            return with_tail(self, tree, released, items, scope, tables, bound_order=order)
        return self._bind_as_rows(tree, node, scope, tables)

    def _owned_rows_only(self, node: Node) -> Node:
        """In plain SQL, rows of public tables without a match are left out, and the answer says so."""
        if any(self._asks_for_no_owner(part.predicate) for part in nodes.walk(node) if isinstance(part, nodes.Filter)):
            self.context.remarks.append("Rows without an owner (NULL) belong to nobody: they are in no answer.")
        node, tables = owned_rows_only(node)
        names = " and ".join(self.context.catalog.tables[table].name for table in tables)
        if names:
            self.context.remarks.append(
                f"Rows of {names} without a match belong to nobody and are left out, as by an inner join."
            )
        return node

    def _asks_for_no_owner(self, condition: Expression) -> bool:
        tests = (part for part in walk(condition) if isinstance(part, Call) and part.function == "is_null")
        return any(holds_owner(self.context, test.arguments[0]) for test in tests)

    def _groupings(
        self,
        tree: exp.Select,
        groupings: list[exp.Select],
        tables: dict[str, CommonTable],
        parent: Scope | None,
        *,
        top: bool,
    ) -> Node:
        """ROLLUP, CUBE and GROUPING SETS: all groupings in turn, then ORDER BY and LIMIT over them all."""
        if tree.args.get("qualify") is not None or tree.args.get("distinct") is not None:
            raise ShoalError(
                "E_UNSUPPORTED",
                "QUALIFY and DISTINCT cannot be combined with several groupings.",
                hint="Filter in an outer query.",
                position=position_of(tree),
            )
        whole: exp.Expr = groupings[0]
        for other in groupings[1:]:
            whole = exp.Union(this=whole, expression=other, distinct=False)
        whole.meta.update(tree.meta)
        for clause in ("order", "limit", "offset"):
            whole.set(clause, tree.args.get(clause))
        with self.context.shared_by(len(groupings)):
            return self.query(whole, tables, parent, top=top)

    def _is_private(self, tree: exp.Select, node: Node, scope: Scope) -> bool:
        """Whether a SELECT of FROM or WITH gets the default clause."""
        answered = self.context.is_plain and self.context.catalog.defaults.answers_plain_sql
        several = answered and not self.context.without_defaults and aggregates_several_owners(tree, node, scope)
        return several and self._owner_of_groups(tree, node, scope) is None

    def _owner_of_groups(self, tree: exp.Select, node: Node, scope: Scope) -> Column | None:
        """The owner column, if every group has one owner: a key of GROUP BY is a key of a private table, by the catalog.

        Grouping by the owner too then changes nothing, and privacy does not depend on the catalog being right about it.
        """
        clause = tree.args.get("group")
        if clause is None or not is_owned(node) or has_optional_owners(node):
            return None
        resolver = KeyResolver(select_items(tree.expressions), ExpressionBinder(scope))
        keys = [key for key in map(resolver.resolved, clause.expressions) if key is not None]
        owners = lineage(node)
        if any(is_copy(key, owners) for key in keys) or not any(map(self.context.references.has_one_owner, keys)):
            return None
        return next((Column(field.symbol, field.type) for field in node.fields if field.symbol in owners), None)

    def _bind_as_rows(self, tree: exp.Select, node: Node, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        owner = self._owner_of_groups(tree, node, scope)
        if owner is not None:
            self.context.remarks.append(
                "Groups of the inner query have one owner each, by the catalog's references: it is grouped by the owner, too."
            )
        return RowsBinder(self, tree, node, scope, tables, owner).bound()

    def subquery(self, tables: dict[str, CommonTable]) -> Callable[[exp.Expr, Scope], Node]:
        """What an expression binder calls for a subquery in an expression."""
        return lambda tree, outer: self.uncorrelated(tree, tables, outer)

    def uncorrelated(self, tree: exp.Expr, tables: dict[str, CommonTable], outer: Scope) -> Node:
        """A subquery that sees nothing of the outer query; a correlated one is refused as such.

        In plain SQL, one that returns a single number over private rows is a separate release.
        """
        with self.context.no_defaults(unless=self.context.is_plain and is_one_row(tree)):
            if self.context.looks_outside:
                return self.query(tree, tables, outer)
            return self._uncorrelated(tree, tables, outer)

    def _uncorrelated(self, tree: exp.Expr, tables: dict[str, CommonTable], outer: Scope) -> Node:
        before = self.context.relations
        try:
            return self.query(tree, tables, None)
        except ShoalError as error:
            if error.code not in _UNKNOWN_NAMES:
                raise
            self.context.relations = before
            raise self._correlated(tree, tables, outer, error) from None

    def _correlated(
        self, tree: exp.Expr, tables: dict[str, CommonTable], outer: Scope, unknown: ShoalError
    ) -> ShoalError:
        """What to say about a subquery with an unknown name that the outer query may know."""
        self.context.looks_outside = True
        try:
            with self.context.no_defaults():
                node = self.query(tree, tables, outer)
        except ShoalError as error:
            further = unknown.code == "E_UNKNOWN_TABLE" and error.code == "E_UNKNOWN_COLUMN"
            return error if further or error.code not in _UNKNOWN_NAMES else unknown
        finally:
            self.context.looks_outside = False
        if is_owned(node):
            return ShoalError(
                "E_EXPR_SUBQUERY",
                "A subquery over a private table may look at the outer query only in EXISTS or IN, as one condition of WHERE, "
                "and without aggregates.",
                hint="Compute it per owner and join: JOIN (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) v ON v.uid = c.uid",
                position=position_of(tree),
            )
        return ShoalError(
            "E_UNSUPPORTED",
            "This subquery looks at a column of the outer query.",
            hint="Join its table instead: LEFT JOIN regions r ON r.region = c.region",
            position=position_of(tree),
        )


def is_one_row(tree: exp.Expr) -> bool:
    """Whether a subquery is one row of aggregates."""
    plain = isinstance(tree, exp.Select) and not any(
        tree.args.get(key) for key in ("group", "having", "distinct", "limit")
    )
    return plain and all(has_aggregate(value) for _, value in select_items(tree.expressions))


# ---- plain SQL: where the default clause applies -------------------------------------------------------------------


def aggregates_several_owners(tree: exp.Select, node: Node, scope: Scope) -> bool:
    """Whether a SELECT over private rows aggregates them across owners, and shows nothing with the owner column's name."""
    if not is_grouped(tree):
        return False
    items = select_items(tree.expressions)
    shown = {fold(output_name(alias, value, index)) for index, (alias, value) in enumerate(items)}
    clause = tree.args.get("group")
    keys = clause.expressions if clause is not None else []
    # A binder without subqueries: inspecting a key must not draw, and charge, a private SELECT inside it.
    resolver, owners = KeyResolver(items, ExpressionBinder(scope)), lineage(node)
    return not shown & owner_names(node) and not any(_is_owner(resolver, key, owners) for key in keys)


def _is_owner(resolver: KeyResolver, key: exp.Expr, owners: frozenset[str]) -> bool:
    found = resolver.resolved(key)
    return found is not None and is_copy(found, owners)


def has_optional_owners(node: Node) -> bool:
    """Whether an outer join may leave out private rows, so that a group of missing keys has several owners."""
    optional = {"left": ("right",), "right": ("left",), "full": ("left", "right")}
    joins = (part for part in nodes.walk(node) if isinstance(part, nodes.Join))
    return any(is_owned(getattr(join, side)) for join in joins for side in optional.get(join.kind, ()))


def tables_read(tree: exp.Expr) -> frozenset[str]:
    """Names that a query reads, including those its WITH tables read, unless a WITH table is itself unused."""
    names = frozenset(name for key, part in tree.args.items() if key != "with_" for name in _names(part))
    for table in reversed(tree.args["with_"].expressions):
        if fold(table.alias) in names:
            names |= _names(table.this)
    return names


def _names(part: object) -> frozenset[str]:
    parts = part if isinstance(part, list) else [part]
    found = (table for p in parts if isinstance(p, exp.Expr) for table in p.find_all(exp.Table))
    return frozenset(fold(table.name) for table in found)


def distinct_as_groups(tree: exp.Select) -> exp.Select:
    """SELECT DISTINCT a, b is SELECT a, b … GROUP BY a, b."""
    if tree.args.get("distinct") is None or any(item.is_star for item in tree.expressions):
        return tree
    refuse_distinct_on(tree)
    if is_grouped(tree):
        raise ShoalError(
            "E_UNSUPPORTED",
            "A private SELECT takes no DISTINCT.",
            hint="The groups of a private SELECT are distinct already; remove DISTINCT.",
            position=position_of(tree),
        )
    grouped = tree.copy()
    grouped.set("distinct", None)
    positions = [exp.Literal.number(position) for position in range(1, len(tree.expressions) + 1)]
    grouped.set("group", exp.Group(expressions=positions))
    return grouped
