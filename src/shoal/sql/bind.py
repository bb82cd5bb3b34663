"""Parsed query + catalog → relational nodes. Names become symbols here; nothing after this looks a name up.

A SELECT with the privacy clause becomes a `PrivateSelect`; what stands around it is a public relation over its stored rows.
Ownership is not judged here (`rewrite/check_ownership` does), only which SELECT is private.
"""

from __future__ import annotations

import datetime as dt
import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import Catalog, fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import (
    Column,
    ExistsRelation,
    Expression,
    InRelation,
    Literal,
    Order,
    columns_of,
)
from shoal.plan.nodes import Field, Node
from shoal.plan.trees import is_owned
from shoal.plan.types import BOOLEAN, INTEGER, Kind, Type, common_type
from shoal.sql import functions
from shoal.sql.bind_expressions import ExpressionBinder
from shoal.sql.bind_grouped import has_aggregate
from shoal.sql.bind_private import bind_private_select
from shoal.sql.bind_rows import RowsBinder
from shoal.sql.options import default_options, read_options
from shoal.sql.parse import Statement, position, privacy_clause
from shoal.sql.scope import Relation, Scope, Symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from shoal.plan.releases import PrivateSelect

MAX_COLUMNS = 1000
MAX_RELATIONS = 300
"""SELECTs and tables of one statement, each use of a WITH table counted with all that lies under it."""


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement without names: the public relation it answers with, and the private SELECTs under it."""

    root: Node
    selects: tuple[PrivateSelect, ...]
    output: tuple[str, ...]


@dataclass(slots=True)
class Context:
    """What binding one statement needs: the catalog, types frozen at open, symbols, and the private SELECTs met so far."""

    catalog: Catalog
    schemas: Mapping[str, tuple[tuple[str, Type], ...]]
    symbols: Symbols = field(default_factory=Symbols)
    selects: list[PrivateSelect] = field(default_factory=list)
    late: list[ShoalError] = field(default_factory=list)
    epsilon: Fraction | None = None
    relations: int = 0
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC).replace(tzinfo=None))

    def count_relations(self, number: int, place: tuple[int, int] | None) -> None:
        """Counts what a text stands for: doubling a WITH table thirty times must end here, not in memory."""
        self.relations += number
        if self.relations > MAX_RELATIONS:
            raise ShoalError(
                "E_LIMITS",
                f"The query reads more than {MAX_RELATIONS} relations once WITH tables are written out.",
                hint="Use each WITH table fewer times.",
                position=place,
            )


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH table: bound once, renamed at each use, so that a private SELECT in it is drawn once; `relations` in it."""

    node: Node
    relations: int


def bind(statement: Statement, catalog: Catalog, schemas: Mapping[str, tuple[tuple[str, Type], ...]]) -> BoundStatement:
    """The whole statement, bound; what only ownership can judge is judged later."""
    return bind_in(Context(catalog, schemas), statement)


def bind_in(context: Context, statement: Statement) -> BoundStatement:
    """The same in a given context, which keeps errors that ownership must precede."""
    root = Binder(context).query(statement.tree, {}, None, top=True)
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
        raise ShoalError("E_UNSUPPORTED", "This form of query is not supported.", position=position(tree))

    def _with(self, tree: exp.Expr, tables: dict[str, CommonTable], parent: Scope | None) -> dict[str, CommonTable]:
        clause = tree.args.get("with_")
        if clause is None:
            return tables
        if clause.args.get("recursive"):
            raise ShoalError(
                "E_RECURSION",
                "WITH RECURSIVE is not supported.",
                hint="Write the steps out, or ask for a view.",
                position=position(clause),
            )
        tables = dict(tables)
        for part in clause.expressions:
            before = self.context.relations
            node = self.query(part.this, tables, parent)
            names = [c.name for c in part.args["alias"].args.get("columns") or []]
            renamed = self._renamed(node, names, position(part))
            tables[fold(part.alias)] = CommonTable(renamed, self.context.relations - before)
            self.context.relations = before
        return tables

    def _renamed(self, node: Node, names: list[str], place: tuple[int, int] | None) -> Node:
        """The relation with other column names; fewer names than columns are refused."""
        if not names:
            return node
        visible = [f for f in node.fields if f.name]
        if len(names) != len(visible):
            raise ShoalError(
                "E_PARSE", f"{len(names)} column names are given for {len(visible)} columns.", position=place
            )
        return self.project(node, [(n, Column(f.symbol, f.type)) for n, f in zip(names, visible, strict=True)])

    def project(self, node: Node, items: list[tuple[str, Expression]]) -> nodes.Project:
        """Named columns over a relation; an interval is no column of its own."""
        for name, value in items:
            if value.type.kind is Kind.INTERVAL:
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"The column {name!r} would hold intervals.",
                    hint="Add the interval to a date or a timestamp, or count days with DATE_DIFF.",
                    position=value.place,
                )
        return nodes.Project(node, tuple((self.context.symbols.field(n, v.type, v), v) for n, v in items))

    def _set_operation(
        self, tree: exp.Expr, tables: dict[str, CommonTable], parent: Scope | None, *, top: bool
    ) -> Node:
        left = self.query(tree.this, tables, parent, top=top)
        right = self.query(tree.expression, tables, parent, top=top)
        place = position(tree)
        if (top and is_owned(left) != is_owned(right)) or (top and is_owned(left)):
            raise no_clause(place)
        if len(left.fields) != len(right.fields):
            raise ShoalError("E_PARSE", "Both sides of a set operation need as many columns.", position=place)
        if not tree.args.get("distinct") and not isinstance(tree, exp.Union):
            raise ShoalError(
                "E_UNSUPPORTED",
                "INTERSECT ALL and EXCEPT ALL are not supported.",
                hint="Leave out ALL.",
                position=place,
            )
        types = []
        for a, b in zip(left.fields, right.fields, strict=True):
            found = common_type([a.type, b.type])
            if found is None:
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"The columns {a.name!r} and {b.name!r} have different types.",
                    hint="Cast one of them.",
                    position=place,
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
        node: Node = nodes.SetOperation(left, right, kind, fields, place=place)
        scope = Scope([Relation("", node.fields)], parent=parent)
        return self.tail(tree, node, [], scope, tables)

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
        self.context.count_relations(1, position(tree))
        clause = privacy_clause(tree)
        unit = None
        options = None
        if clause is not None:
            options, unit = read_options(clause, self.context.catalog.defaults, self.context.epsilon)
        if len(tree.expressions) > MAX_COLUMNS:
            raise ShoalError("E_LIMITS", f"A SELECT has at most {MAX_COLUMNS} columns.", position=position(tree))
        scope = Scope(parent=parent)
        node = self._from(tree, scope, tables)
        node = self._where(tree, node, scope, tables)
        if clause is None and top and is_owned(node):
            if not self.context.catalog.defaults.answers_plain_sql:
                self._bind_as_rows(tree, node, scope, tables)
                raise no_clause(position(tree))
            options = default_options(self.context.catalog.defaults, self.context.epsilon)
        if options is not None:
            released, items, order = bind_private_select(self, tree, node, scope, tables, options, unit)
            return self.tail(tree, released, items, scope, tables, bound_order=order)
        return self._bind_as_rows(tree, node, scope, tables)

    def _bind_as_rows(self, tree: exp.Select, node: Node, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        return RowsBinder(self, tree, node, scope, tables).bound()

    def tail(
        self,
        tree: exp.Expr,
        node: Node,
        items: list[tuple[str, Expression]],
        scope: Scope,
        tables: dict[str, CommonTable],
        bound_order: list[Order] | None = None,
    ) -> Node:
        """ORDER BY, LIMIT and OFFSET; sort keys that are not shown are carried and dropped again."""
        if not items:
            # DISTINCT and set operations leave nothing in sight but what they show.
            items = [(f.name, Column(f.symbol, f.type)) for f in node.fields]
            scope = Scope([Relation("", node.fields)], parent=scope.parent)
            projected: Node = node
            shown = list(node.fields)
        else:
            projected = self.project(node, items)
            shown = list(projected.fields)
        order = bound_order if bound_order is not None else self._order(tree, shown, items, scope, tables)
        limit, offset = self._number(tree, "limit"), self._number(tree, "offset")
        if not order and limit is None and not offset:
            return projected
        values = {value: Column(f.symbol, f.type) for f, (_, value) in zip(shown, items, strict=True)}
        values.update({Column(f.symbol, f.type): Column(f.symbol, f.type) for f in shown})
        extra = [o.value for o in order if o.value not in values]
        if extra:
            projected = self.project(node, items + [("", value) for value in extra])
            shown = list(projected.fields)[: len(items)]
            everything = zip(projected.fields, [v for _, v in items] + extra, strict=True)
            values = {value: Column(f.symbol, f.type) for f, value in everything}
        keys = tuple(Order(values[o.value], o.descending, o.nulls_first) for o in order)
        result: Node = nodes.Sort(projected, keys, limit, offset or 0, place=position(tree))
        if extra:
            result = self.project(result, [(f.name, Column(f.symbol, f.type)) for f in shown])
        return result

    def _order(
        self,
        tree: exp.Expr,
        shown: list[Field],
        items: list[tuple[str, Expression]],
        scope: Scope,
        tables: dict[str, CommonTable],
    ) -> list[Order]:
        clause = tree.args.get("order")
        if clause is None:
            return []
        outputs = [(f, value) for f, (_, value) in zip(shown, items, strict=True)]
        binder = OutputBinder(scope, self, tables, outputs)
        return [binder.output_order(o) for o in clause.expressions]

    def _number(self, tree: exp.Expr, clause: str) -> int | None:
        part = tree.args.get(clause)
        if part is None:
            return None
        value = part.expression
        if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit() or len(value.name) > 15:
            raise ShoalError("E_PARSE", f"{clause.upper()} takes a whole number.", position=position(part))
        return int(value.name)

    # ---- FROM ----------------------------------------------------------------------------------------------------

    def _from(self, tree: exp.Select, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        clause = tree.args.get("from_")
        if clause is None:
            return nodes.Values(((1,),), (Field("", self.context.symbols.field("", INTEGER).symbol, INTEGER),))
        return self._joined(clause, tree.args.get("joins") or [], scope, tables)

    def _joined(self, clause: exp.Expr, joins: list[exp.Join], scope: Scope, tables: dict[str, CommonTable]) -> Node:
        node = self._relation(clause.this, scope, tables)
        for join in joins:
            node = self._join(node, join, scope, tables)
        return node

    def _relation(self, part: exp.Expr, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        place = position(part)
        if isinstance(part, exp.Paren):
            inner = part.this
            return self._joined(inner, inner.args.get("joins") or [], scope, tables)
        if isinstance(part, exp.Table):
            if isinstance(part.this, exp.Anonymous):
                raise ShoalError(
                    "E_TABLE_FUNCTION",
                    "Table functions cannot be used.",
                    hint="Query the tables of the catalog; a list of constants is written (VALUES ('a'), ('b')) AS t(name).",
                    position=place,
                )
            if part.args.get("sample"):
                raise ShoalError(
                    "E_UNSUPPORTED",
                    "TABLESAMPLE is not supported.",
                    hint="Contributions are sampled per owner already.",
                    position=place,
                )
            node, default = self._table(part, tables)
        elif isinstance(part, exp.Subquery):
            if part.args.get("sample"):
                raise ShoalError("E_UNSUPPORTED", "TABLESAMPLE is not supported.", position=place)
            node, default = self.query(part.this, tables, None), ""
        elif isinstance(part, exp.Values):
            node, default = self._values(part), ""
        else:
            if isinstance(part, exp.Lateral) and any(
                isinstance(t.this, exp.Anonymous) for t in part.find_all(exp.Table)
            ):
                raise ShoalError("E_TABLE_FUNCTION", "Table functions cannot be used.", position=place)
            raise ShoalError(
                "E_UNSUPPORTED",
                "LATERAL and UNNEST are not supported.",
                hint="Join the tables on the owner.",
                position=place,
            )
        alias = part.args.get("alias")
        node = self._renamed(node, [c.name for c in alias.args.get("columns") or []] if alias else [], place)
        visible = tuple(f for f in node.fields if f.name)
        scope.add(Relation((alias.name if alias and alias.this else default), visible))
        return node

    def _table(self, part: exp.Table, tables: dict[str, CommonTable]) -> tuple[Node, str]:
        place = position(part)
        text = part.name
        if not (part.args.get("db") or part.args.get("catalog")):
            common = tables.get(fold(text))
            if common is not None:
                self.context.count_relations(common.relations, place)
                fields = common.node.fields
                return self.project(common.node, [(f.name, Column(f.symbol, f.type)) for f in fields if f.name]), text
            table = self.context.catalog.table(text)
            if table is not None:
                self.context.count_relations(1, place)
                return self._scan(table.name), text
        known = sorted([t.name for t in self.context.catalog.tables.values()] + list(tables))
        close = difflib.get_close_matches(text, known, n=1)
        nearest = f"Did you mean {close[0]!r}? " if close else ""
        raise ShoalError(
            "E_UNKNOWN_TABLE",
            "There is no such table in the catalog.",
            hint=f"{nearest}Tables: {', '.join(known[:30])}.",
            position=place,
        )

    def _scan(self, table_name: str) -> Node:
        table = self.context.catalog.table(table_name)
        schema = self.context.schemas[fold(table_name)]
        fields = []
        owner = None
        for column, type_ in schema:
            f = self.context.symbols.field(column, type_)
            self.context.symbols.origins[f.symbol] = (fold(table_name), fold(column))
            fields.append(f)
            if table is not None and table.owner is not None and fold(column) == fold(table.owner):
                owner = f.symbol
        usable = [(f, c) for f, (c, _) in zip(fields, schema, strict=True)]
        return nodes.Scan(
            fold(table_name),
            tuple(f for f, _ in usable),
            tuple(c for _, c in usable),
            owner,
            table.owner_kind if table is not None else None,
        )

    def _values(self, part: exp.Values) -> Node:
        binder = ExpressionBinder(Scope())
        rows: list[list[Literal]] = []
        for row in part.expressions:
            bound = [binder.bind(v) for v in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            if not all(isinstance(v, Literal) for v in bound):
                raise ShoalError("E_UNSUPPORTED", "VALUES takes constants.", position=position(row))
            rows.append([v for v in bound if isinstance(v, Literal)])
        if len({len(r) for r in rows}) != 1:
            raise ShoalError("E_PARSE", "The rows of VALUES have different lengths.", position=position(part))
        types = [common_type([r[i].type for r in rows]) for i in range(len(rows[0]))]
        if any(t is None for t in types):
            raise ShoalError("E_UNSUPPORTED", "A column of VALUES has different types.", position=position(part))
        fields = tuple(self.context.symbols.field(f"col{i}", t) for i, t in enumerate(types) if t is not None)
        return nodes.Values(tuple(tuple(v.value for v in r) for r in rows), fields, place=position(part))

    # ---- joins ---------------------------------------------------------------------------------------------------

    def _join(self, left: Node, join: exp.Join, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        place = position(join)
        method, side, kind = (join.args.get(k) or "" for k in ("method", "side", "kind"))
        before = list(scope.relations)
        right = self._relation(join.this, scope, tables)
        added = [r for r in scope.relations if r not in before]
        if method in {"POSITIONAL", "ASOF"}:
            code = "E_JOIN_NOT_ON_UID" if is_owned(left) or is_owned(right) else "E_UNSUPPORTED"
            raise ShoalError(
                code, f"{method} joins are not supported.", hint="Join on the owner: ON a.uid = b.uid.", position=place
            )
        how = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}.get(side) or {"SEMI": "semi", "ANTI": "anti"}.get(
            kind, "inner"
        )
        names = self._shared_names(join, method, before, added, scope)
        if names:
            condition = self._using(names, before, added, scope, how, place)
        elif join.args.get("on") is not None:
            condition = ConditionBinder(scope, self, tables).condition(join.args["on"])
        else:
            condition = Literal(True, BOOLEAN)
        if how in {"semi", "anti"}:
            scope.relations[:] = before
        return nodes.Join(left, right, how, condition, place=place)

    def _shared_names(
        self, join: exp.Join, method: str, before: list[Relation], added: list[Relation], scope: Scope
    ) -> list[str]:
        using = [c.name for c in join.args.get("using") or []]
        if method != "NATURAL":
            return using
        right = {fold(f.name) for r in added for f in r.fields if f.symbol not in scope.hidden}
        return list(
            dict.fromkeys(
                f.name for r in before for f in r.fields if f.symbol not in scope.hidden and fold(f.name) in right
            )
        )

    def _using(
        self,
        names: list[str],
        before: list[Relation],
        added: list[Relation],
        scope: Scope,
        how: str,
        place: tuple[int, int] | None,
    ) -> Expression:
        """Equality of shared columns; afterwards the bare name means the preserved side, or either one in a full join."""
        conditions = []
        merged = dict(scope.merged)
        for name in names:
            a = Scope(before, scope.merged, parent=None).resolve(None, name, place)
            b = Scope(added).resolve(None, name, place)
            self.refuse_different_owners(a, b, place)
            conditions.append(functions.resolve("equal", [a, b], place))
            if how == "full":
                merged[fold(name)] = functions.resolve("coalesce", [a, b], place)
            else:
                merged[fold(name)] = b if how == "right" else a
            dropped = a if how == "right" else b
            if isinstance(dropped, Column):
                scope.hidden.add(dropped.symbol)
        scope.merged.update(merged)
        condition = conditions[0]
        for other in conditions[1:]:
            condition = functions.resolve("and", [condition, other], place)
        return condition

    # ---- WHERE, with its EXISTS and IN ---------------------------------------------------------------------------

    def _where(self, tree: exp.Select, node: Node, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        clause = tree.args.get("where")
        if clause is None:
            return node
        binder = ConditionBinder(scope, self, tables)
        plain: list[Expression] = []
        for conjunct in conjuncts(clause.this):
            if not is_subquery_test(conjunct):
                plain.append(binder.condition(conjunct))
                continue
            node = self._semi_join(conjunct, filtered(node, plain), scope, tables)
            plain = []
        return filtered(node, plain)

    def _semi_join(self, conjunct: exp.Expr, node: Node, scope: Scope, tables: dict[str, CommonTable]) -> Node:
        """[NOT] EXISTS (…) and [NOT] IN (…) as semi and anti joins, when they look outside or at private rows."""
        negated = isinstance(conjunct, exp.Not)
        test = conjunct.this if negated else conjunct
        query, value = (test.this, None) if isinstance(test, exp.Exists) else (test.args["query"], test.this)
        query = query.this if isinstance(query, exp.Subquery) else query
        place = position(conjunct)
        inner, correlated, outputs = self._correlated(query, scope, tables)
        if not correlated and not is_owned(inner):
            return self._public_test(node, inner, outputs, value, scope, tables, negated=negated, place=place)
        conditions = list(correlated)
        if value is not None:
            if len(outputs) != 1:
                raise ShoalError("E_PARSE", "IN (SELECT …) takes one column.", position=place)
            left = ExpressionBinder(scope, self.subquery(tables)).bind(value)
            equal = functions.resolve("equal", [left, outputs[0]], place)
            if negated and not (self._holds_owner(left) and self._holds_owner(outputs[0])):
                # NOT IN is unknown, not true, where a value is missing; an owner never is.
                unknown = functions.resolve("is_null", [equal], place)
                equal = functions.resolve("or", [equal, unknown], place)
            conditions.append(equal)
        condition: Expression = conditions[0] if conditions else Literal(True, BOOLEAN)
        for other in conditions[1:]:
            condition = functions.resolve("and", [condition, other], place)
        return nodes.Join(node, inner, "anti" if negated else "semi", condition, from_subquery=True, place=place)

    def refuse_different_owners(self, left: Expression, right: Expression, place: tuple[int, int] | None) -> None:
        """Owners of two types cannot be joined, whatever a cast would make of them."""
        if self._holds_owner(left) and self._holds_owner(right) and common_type([left.type, right.type]) is None:
            raise ShoalError(
                "E_JOIN_NOT_ON_UID",
                f"The owner columns of this join are of different types, {left.type} and {right.type}.",
                hint="Ask the custodian for a view in which they are of one type.",
                position=place,
            )

    def _holds_owner(self, value: Expression) -> bool:
        origin = self.context.symbols.origins.get(value.symbol) if isinstance(value, Column) else None
        table = self.context.catalog.table(origin[0]) if origin is not None else None
        return table is not None and table.owner is not None and origin is not None and fold(table.owner) == origin[1]

    def _public_test(
        self,
        node: Node,
        inner: Node,
        outputs: list[Expression],
        value: exp.Expr | None,
        scope: Scope,
        tables: dict[str, CommonTable],
        *,
        negated: bool,
        place: tuple[int, int] | None,
    ) -> Node:
        """A subquery over public rows only: an ordinary condition."""
        relation = self.project(inner, [("", o) for o in outputs])
        test: Expression
        if value is None:
            test = ExistsRelation(relation, place=place)
        else:
            left = ExpressionBinder(scope, self.subquery(tables)).bind(value)
            if len(outputs) != 1 or common_type([left.type, outputs[0].type]) is None:
                raise ShoalError("E_PARSE", "IN (SELECT …) takes one column of the same type.", position=place)
            test = InRelation(left, relation, place=place)
        return nodes.Filter(node, functions.resolve("not", [test], place) if negated else test, place=place)

    def _correlated(
        self, query: exp.Expr, outer: Scope, tables: dict[str, CommonTable]
    ) -> tuple[Node, list[Expression], list[Expression]]:
        """A subquery split into its own relation, the conditions that look outside, and its output columns."""
        clauses = ("group", "having", "distinct", "limit", "offset", "qualify", "with_", "hint")
        plain = isinstance(query, exp.Select) and not any(query.args.get(k) for k in clauses)
        if not plain or any(has_aggregate(item) for item in query.expressions):
            node = self.query(query, tables, None)
            return node, [], [Column(f.symbol, f.type) for f in node.fields]
        assert isinstance(query, exp.Select)  # noqa: S101 - narrowed above
        scope = Scope(parent=outer)
        node = self._from(query, scope, tables)
        binder = ConditionBinder(scope, self, tables)
        own = {f.symbol for f in node.fields}
        inside: list[Expression] = []
        correlated: list[Expression] = []
        for conjunct in conjuncts(query.args["where"].this) if query.args.get("where") is not None else []:
            if is_subquery_test(conjunct):
                node, inside = self._semi_join(conjunct, filtered(node, inside), scope, tables), []
                continue
            condition = binder.condition(conjunct)
            (inside if columns_of(condition) <= own else correlated).append(condition)
        node = filtered(node, inside)
        outputs: list[Expression] = []
        for item in query.expressions:
            value = item.this if isinstance(item, exp.Alias) else item
            if value.is_star:
                outputs.extend(Column(f.symbol, f.type) for _, f in scope.visible())
            else:
                outputs.append(binder.bind(value))
        return node, correlated, outputs

    def subquery(self, tables: dict[str, CommonTable]) -> Callable[[exp.Expr, Scope], Node]:
        """What an expression binder calls for a subquery in an expression; it sees nothing of the outer query."""

        def bound(tree: exp.Expr, outer: Scope) -> Node:  # noqa: ARG001 - uncorrelated on purpose
            return self.query(tree, tables, None)

        return bound


class ConditionBinder(ExpressionBinder):
    """WHERE and ON: owners of different types are refused as such."""

    def __init__(self, scope: Scope, binder: Binder, tables: dict[str, CommonTable]) -> None:
        super().__init__(scope, binder.subquery(tables))
        self._binder = binder

    def bind(self, node: exp.Expr) -> Expression:
        """An expression; a comparison of two columns is looked at first."""
        if isinstance(node, exp.EQ) and isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Column):
            place = position(node)
            self._binder.refuse_different_owners(super().bind(node.this), super().bind(node.expression), place)
        return super().bind(node)


class OutputBinder(ExpressionBinder):
    """ORDER BY: an ordinal or a bare name is an output column; inside expressions the columns of FROM come first, then outputs."""

    def __init__(
        self, scope: Scope, binder: Binder, tables: dict[str, CommonTable], outputs: list[tuple[Field, Expression]]
    ) -> None:
        super().__init__(scope, binder.subquery(tables))
        self._outputs = outputs

    def output_order(self, item: exp.Expr) -> Order:
        """One item of ORDER BY."""
        node = item.this if isinstance(item, exp.Ordered) else item
        found = self._output(node)
        if found is None:
            return self.ordered(item)
        nulls_first = item.args.get("nulls_first")
        return Order(found, bool(item.args.get("desc")), nulls_first is not None and bool(nulls_first))

    def column(self, node: exp.Column, place: tuple[int, int] | None) -> Expression:
        """A column of FROM, else what an output of that name stands for."""
        try:
            return super().column(node, place)
        except ShoalError:
            named = [] if node.table else self._named(node.name)
            if len(named) != 1:
                raise
            return named[0][1]

    def _output(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return self._ordinal(node)
        if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
            named = self._named(node.name)
            return named[0][1] if len(named) == 1 else None
        return None

    def _named(self, name: str) -> list[tuple[Field, Expression]]:
        return [(f, value) for f, value in self._outputs if f.name and fold(f.name) == fold(name)]

    def _ordinal(self, node: exp.Literal) -> Expression:
        number = int(node.name)
        if not 1 <= number <= len(self._outputs):
            raise ShoalError(
                "E_PARSE", f"ORDER BY {number} names no column of the SELECT list.", position=position(node)
            )
        return self._outputs[number - 1][1]


def is_subquery_test(conjunct: exp.Expr) -> bool:
    """Whether a condition is [NOT] EXISTS (SELECT …) or [NOT] IN (SELECT …)."""
    test = conjunct.this if isinstance(conjunct, exp.Not) else conjunct
    return isinstance(test, exp.Exists) or (isinstance(test, exp.In) and test.args.get("query") is not None)


def filtered(node: Node, conditions: list[Expression]) -> Node:
    """The rows for which all conditions hold: one filter, however long the chain of ANDs."""
    if not conditions:
        return node
    whole = conditions[0] if len(conditions) == 1 else functions.resolve("and", conditions, conditions[0].place)
    return nodes.Filter(node, whole, place=conditions[0].place)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a top-level AND."""
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    return [node]


def no_clause(place: tuple[int, int] | None) -> ShoalError:
    """The refusal of a plain query over private rows."""
    return ShoalError(
        "E_NO_DP_CLAUSE",
        "This query reads a private table without a privacy clause.",
        hint="Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) … or set defaults in the catalog.",
        position=place,
    )
