"""FROM: tables, WITH tables, subqueries, lists of values, and their joins; every name they bring comes into scope."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import CARRIED_OWNER, ColumnFacts, fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.known_bounds import of_column, of_period
from shoal.plan.nodes import Field, Node
from shoal.plan.traverse import is_owned
from shoal.plan.types import BOOLEAN, INTEGER, common_type
from shoal.sql import functions
from shoal.sql.binding.clauses.conditions import ConditionBinder, refuse_different_owners
from shoal.sql.binding.context import Relation, Scope
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.binding.split_columns import is_split, split
from shoal.sql.parse import position_of

if TYPE_CHECKING:
    from shoal.sql.binding.context import CommonTable
    from shoal.sql.binding.statement import Binder

USUAL_SCHEMAS = frozenset({"main", "public", "dbo"})
"""What tools write before the name of a table; the catalog has one table of that name."""


class FromBinder:
    """Binds the FROM of one SELECT, adding to its scope."""

    def __init__(self, binder: Binder, scope: Scope, tables: dict[str, CommonTable]) -> None:
        self._binder = binder
        self._scope = scope
        self._tables = tables

    def bound(self, tree: exp.Select) -> Node:
        """The contents of FROM; without FROM, a single empty row."""
        clause = tree.args.get("from_")
        if clause is None:
            return nodes.Values(((1,),), (Field("", self._binder.context.symbols.field("", INTEGER).symbol, INTEGER),))
        return self._joined(clause, tree.args.get("joins") or [])

    def _joined(self, clause: exp.Expr, joins: list[exp.Join]) -> Node:
        node = self._relation(clause.this)
        for join in joins:
            node = self._join(node, join)
        return node

    def _relation(self, part: exp.Expr) -> Node:
        position = position_of(part)
        if isinstance(part, exp.Paren):
            inner = part.this
            return self._joined(inner, inner.args.get("joins") or [])
        if isinstance(part, exp.Table):
            if isinstance(part.this, exp.Anonymous):
                raise ShoalError(
                    "E_TABLE_FUNCTION",
                    "Table functions cannot be used.",
                    hint="Query the tables of the catalog; a list of constants is written (VALUES ('a'), ('b')) AS t(name).",
                    position=position,
                )
            if part.args.get("sample"):
                raise ShoalError(
                    "E_UNSUPPORTED",
                    "TABLESAMPLE is not supported.",
                    hint="Contributions are sampled per owner already.",
                    position=position,
                )
            node, default = self._table(part)
        elif isinstance(part, exp.Subquery):
            if part.args.get("sample"):
                raise ShoalError("E_UNSUPPORTED", "TABLESAMPLE is not supported.", position=position)
            node, default = self._binder.query(part.this, self._tables, None), ""
        elif isinstance(part, exp.Values):
            node, default = self._values(part), ""
        else:
            if isinstance(part, exp.Lateral) and any(
                isinstance(t.this, exp.Anonymous) for t in part.find_all(exp.Table)
            ):
                raise ShoalError("E_TABLE_FUNCTION", "Table functions cannot be used.", position=position)
            raise ShoalError(
                "E_UNSUPPORTED",
                "LATERAL is not supported.",
                hint="Join the tables on the owner.",
                position=position,
            )
        alias = part.args.get("alias")
        node = self._binder.renamed(node, [c.name for c in alias.args.get("columns") or []] if alias else [], position)
        visible = tuple(f for f in node.fields if f.name)
        self._scope.add(Relation((alias.name if alias and alias.this else default), visible))
        return node

    def _table(self, part: exp.Table) -> tuple[Node, str]:
        position = position_of(part)
        text = part.name
        if not (part.args.get("db") or part.args.get("catalog")):
            common = self._tables.get(fold(text))
            if common is not None:
                self._binder.context.count_relations(common.relations, position)
                fields = common.node.fields
                return self._binder.project(
                    common.node, [(f.name, Column(f.symbol, f.type)) for f in fields if f.name]
                ), text
            table = self._binder.context.catalog.table(text)
            if table is not None:
                self._binder.context.count_relations(1, position)
                return self.scan(table.name), text
        elif fold(part.text("db")) in USUAL_SCHEMAS and not part.args.get("catalog"):
            table = self._binder.context.catalog.table(text)
            if table is not None and table.source is None:
                self._binder.context.count_relations(1, position)
                return self.scan(table.name), text
        known = sorted([t.name for t in self._binder.context.catalog.tables.values()] + list(self._tables))
        close = difflib.get_close_matches(text, known, n=1)
        nearest = f"Did you mean {close[0]!r}? " if close else ""
        raise ShoalError(
            "E_UNKNOWN_TABLE",
            "There is no such table in the catalog.",
            hint=f"{nearest}Tables: {', '.join(known[:30])}.",
            position=position,
        )

    def scan(self, table_name: str) -> Node:
        """The rows of a table of the catalog."""
        table = self._binder.context.catalog.table(table_name)
        schema = self._binder.context.schemas[fold(table_name)]
        fields = []
        owner = None
        for column, type_ in schema:
            carried = table is not None and table.carries_owner and column == CARRIED_OWNER
            f = self._binder.context.symbols.field("" if carried else column, type_)
            self._binder.context.symbols.origins[f.symbol] = (fold(table_name), fold(column))
            facts = table.facts(column) if table is not None else ColumnFacts()
            known = of_column(facts.bounds, facts.values) or of_period(facts.period, type_.kind)
            if known is not None:
                self._binder.context.symbols.known_bounds.columns[f.symbol] = known
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
                raise ShoalError("E_UNSUPPORTED", "VALUES takes constants.", position=position_of(row))
            rows.append([v for v in bound if isinstance(v, Literal)])
        if len({len(r) for r in rows}) != 1:
            raise ShoalError("E_PARSE", "The rows of VALUES have different lengths.", position=position_of(part))
        types = [common_type([r[i].type for r in rows]) for i in range(len(rows[0]))]
        if any(t is None for t in types):
            raise ShoalError("E_UNSUPPORTED", "A column of VALUES has different types.", position=position_of(part))
        fields = tuple(self._binder.context.symbols.field(f"col{i}", t) for i, t in enumerate(types) if t is not None)
        return nodes.Values(tuple(tuple(v.value for v in r) for r in rows), fields, position=position_of(part))

    # ---- joins ---------------------------------------------------------------------------------------------------

    def _join(self, left: Node, join: exp.Join) -> Node:
        position = position_of(join)
        method, side, kind = (join.args.get(k) or "" for k in ("method", "side", "kind"))
        parts = self._parts_of_text(left, join)
        if parts is not None:
            return parts
        before = list(self._scope.relations)
        right = self._relation(join.this)
        added = self._scope.relations[len(before) :]
        if method in {"POSITIONAL", "ASOF"}:
            code = "E_JOIN_NOT_ON_UID" if is_owned(left) or is_owned(right) else "E_UNSUPPORTED"
            raise ShoalError(
                code,
                f"{method} joins are not supported.",
                hint="Join on the owner: ON a.uid = b.uid.",
                position=position,
            )
        how = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}.get(side) or {"SEMI": "semi", "ANTI": "anti"}.get(
            kind, "inner"
        )
        names = self._shared_names(join, method, before, added)
        if names:
            condition = self._using(names, before, added, how, position)
        elif join.args.get("on") is not None:
            condition = ConditionBinder(self._scope, self._binder, self._tables).condition(join.args["on"])
        else:
            condition = Literal(True, BOOLEAN)
        if how in {"semi", "anti"}:
            self._scope.relations[:] = before
        return nodes.Join(left, right, how, condition, position=position)

    def _parts_of_text(self, left: Node, join: exp.Join) -> Node | None:
        """FROM films, UNNEST(SPLIT(genres, '|')) AS genre, with or without LATERAL: the parts of a string."""
        relation = join.this.this if isinstance(join.this, exp.Lateral) else join.this
        call = relation.this if isinstance(relation, exp.Table) else None
        condition = join.args.get("on")
        joins_all = join.args.get("kind") == "CROSS" or (isinstance(condition, exp.Boolean) and condition.this)
        if call is None or not is_split(call) or not joins_all or join.args.get("side"):
            return None
        alias = join.this.args.get("alias") or relation.args.get("alias")
        columns = alias.args.get("columns") or [] if alias is not None else []
        table = alias.name if alias is not None else ""
        name = columns[0].name if columns else table or "unnest"
        rows = ExpressionBinder(self._scope, self._binder.subquery(self._tables))
        node, field = split(call, left, rows, self._binder.context.symbols, name)
        self._scope.add(Relation(table, (field,)))
        return node

    def _shared_names(self, join: exp.Join, method: str, before: list[Relation], added: list[Relation]) -> list[str]:
        using = [c.name for c in join.args.get("using") or []]
        if method != "NATURAL":
            return using
        right = {fold(f.name) for r in added for f in r.fields if f.symbol not in self._scope.hidden}
        return list(
            dict.fromkeys(
                f.name for r in before for f in r.fields if f.symbol not in self._scope.hidden and fold(f.name) in right
            )
        )

    def _using(
        self,
        names: list[str],
        before: list[Relation],
        added: list[Relation],
        how: str,
        position: tuple[int, int] | None,
    ) -> Expression:
        """Equality of shared columns; afterwards the bare name means the preserved side, or either one in a full join."""
        conditions = []
        merged = dict(self._scope.merged)
        for name in names:
            a = Scope(before, self._scope.merged, parent=None).resolve(None, name, position)
            b = Scope(added).resolve(None, name, position)
            refuse_different_owners(self._binder.context, a, b, position)
            conditions.append(functions.resolve("equal", [a, b], position))
            if how == "full":
                merged[fold(name)] = functions.resolve("coalesce", [a, b], position)
            else:
                merged[fold(name)] = b if how == "right" else a
            dropped = a if how == "right" else b
            if isinstance(dropped, Column):
                self._scope.hidden.add(dropped.symbol)
        self._scope.merged.update(merged)
        condition = conditions[0]
        for other in conditions[1:]:
            condition = functions.resolve("and", [condition, other], position)
        return condition
