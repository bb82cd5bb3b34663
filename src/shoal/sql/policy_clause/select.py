"""SELECT WITH POLICY → `PolicySelect`: bound as a query over the policy's domain, which is public.

The table is replaced in the catalog by its domain: the same name, public, with the attributes as columns. So every name,
type and function is checked as in any other query, and nothing bound here can reach the private rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import Catalog, Table, TablePolicy, fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.policy_select import PolicySelect
from shoal.plan.types import BOOLEAN, INTEGER, TEXT, Kind
from shoal.sql.binding.after_grouping import GroupedBinder, KeyResolver, output_name, select_items
from shoal.sql.binding.clauses.from_clause import FromBinder
from shoal.sql.binding.clauses.order_limit import with_tail
from shoal.sql.binding.context import Context, Scope
from shoal.sql.binding.expressions import ExpressionBinder
from shoal.sql.binding.row_select import ordered, value_name
from shoal.sql.binding.statement import Binder
from shoal.sql.parse import position_of, privacy_clause
from shoal.sql.policy_clause.aggregates import PolicyAggregates
from shoal.sql.policy_clause.options import read_policy_options
from shoal.sql.policy_clause.statement import the_select

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from shoal.plan.expressions import Expression, Order
    from shoal.plan.nodes import Field, Node
    from shoal.plan.types import Type
    from shoal.policies.domain import Domain
    from shoal.sql.parse import Statement

MAX_COLUMNS = 1000


def bind_policy_select(
    statement: Statement,
    catalog: Catalog,
    schemas: Mapping[str, tuple[tuple[str, Type], ...]] | None,
    epsilon: Fraction | None = None,
) -> PolicySelect:
    """The bound SELECT; reads nothing. `epsilon` replaces the query's own; without a source, `schemas` is None."""
    tree = the_select(statement)
    clause = privacy_clause(tree)
    assert clause is not None  # noqa: S101 - the_select found it
    options = read_policy_options(clause, catalog.defaults, epsilon)
    table, chosen = _policy_of(tree, catalog, options.policy)
    if schemas is not None:
        _check_columns(table, chosen, schemas)
    public, columns = _domain_in_place(catalog, schemas or {}, table, chosen.rule.domain)
    bound = _Select(tree, Context(public, columns, epsilon=epsilon), chosen)
    where, keys, root = bound.bound()
    return PolicySelect(
        statement.sql,
        table.name,
        table.owner or "",
        chosen.rule,
        chosen.max_rows_per_owner,
        options.epsilon,
        options.level,
        bound.domain_fields,
        where,
        keys,
        tuple(bound.aggregates.found.values()),
        root,
        position_of(tree),
    )


def _policy_of(tree: exp.Select, catalog: Catalog, name: str) -> tuple[Table, TablePolicy]:
    source = tree.args["from_"].this
    table = None if source.args.get("db") or source.args.get("catalog") else catalog.table(source.name)
    if table is None:
        raise ShoalError(
            "E_UNKNOWN_TABLE",
            "There is no such table in the catalog.",
            hint=f"Tables: {', '.join(sorted(t.name for t in catalog.tables.values()))}.",
            position=position_of(source),
        )
    if table.owner is None:
        raise ShoalError(
            "E_UNSUPPORTED",
            "This table is public: there is nobody to protect.",
            hint="Remove the clause.",
            position=position_of(source),
        )
    chosen = table.policies.get(fold(name))
    if chosen is None:
        known = ", ".join(sorted(policy.rule.name for policy in table.policies.values())) or "none"
        raise ShoalError(
            "E_OPTION_INVALID",
            f"The catalog gives the table {table.name!r} no policy of that name.",
            hint=f"Policies of this table: {known}.",
            position=position_of(tree),
        )
    return table, chosen


def _check_columns(table: Table, chosen: TablePolicy, schemas: Mapping[str, tuple[tuple[str, Type], ...]]) -> None:
    """Every attribute is a column of the table, with a type that matches its values."""
    types = {fold(name): type_ for name, type_ in schemas.get(fold(table.name), ())}
    for attribute in chosen.rule.domain.attributes:
        found = types.get(fold(attribute.name))
        first = attribute.values[0]
        fits = (
            {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL}
            if attribute.ordered
            else {Kind.BOOLEAN if isinstance(first, bool) else Kind.INTEGER if isinstance(first, int) else Kind.TEXT}
        )
        if found is None or found.kind not in fits:
            raise ShoalError(
                "E_CATALOG",
                f"The attribute {attribute.name!r} of the policy {chosen.rule.name!r} is not a column of {table.name!r} "
                "with values of that type.",
                hint="The attributes of a policy's domain are columns of its table.",
            )


def _domain_in_place(
    catalog: Catalog, schemas: Mapping[str, tuple[tuple[str, Type], ...]], table: Table, domain: Domain
) -> tuple[Catalog, Mapping[str, tuple[tuple[str, Type], ...]]]:
    public = replace(table, owner=None, owner_kind=None, view=None, columns={})
    columns = tuple((a.name, INTEGER if a.ordered else _type_of(a.values[0])) for a in domain.attributes)
    key = fold(table.name)
    return replace(catalog, tables={**catalog.tables, key: public}), {**schemas, key: columns}


def _type_of(value: object) -> Type:
    if isinstance(value, bool):
        return BOOLEAN
    return INTEGER if isinstance(value, int) else TEXT


class _Select:
    """Binds one SELECT over the domain."""

    def __init__(self, tree: exp.Select, context: Context, chosen: TablePolicy) -> None:
        if len(tree.expressions) > MAX_COLUMNS:
            raise ShoalError("E_LIMITS", f"A SELECT has at most {MAX_COLUMNS} columns.", position=position_of(tree))
        self._tree = tree
        self._context = context
        self._binder = Binder(context)
        self._scope = Scope()
        scan = FromBinder(self._binder, self._scope, {}).bound(tree)
        self._node = scan
        self.domain_fields = tuple(f for f in scan.fields if f.name)
        self._rows = ExpressionBinder(self._scope)
        self._items = select_items(tree.expressions)
        domain = chosen.rule.domain
        attributes = dict(zip((f.symbol for f in self.domain_fields), domain.names, strict=True))
        self.aggregates = PolicyAggregates(
            self._rows, context.symbols, attributes, domain, grouped=tree.args.get("group") is not None
        )

    def bound(self) -> tuple[Expression | None, tuple[tuple[Field, Expression], ...], Node]:
        """WHERE, keys, and the answer over the stored rows of groups."""
        clause = self._tree.args.get("where")
        where = self._rows.condition(clause.this) if clause is not None else None
        keys = self._keys()
        grouped = GroupedBinder(self._rows, keys, self.aggregates.bind, self._raw)
        outputs = [(output_name(alias, v, i), self._output(grouped, v)) for i, (alias, v) in enumerate(self._items)]
        grouped.aliases = {fold(name): value for name, value in outputs}
        having = self._tree.args.get("having")
        condition = grouped.condition(having.this) if having is not None else None
        grouped.prefers_aliases = True
        order = self._order(grouped, outputs)
        fields = (*keys.values(), *(a.field for a in self.aggregates.found.values()))
        released: Node = nodes.StoredRows(0, tuple(fields), position=position_of(self._tree))
        if condition is not None:
            released = nodes.Filter(released, condition)
        root = with_tail(self._binder, self._tree, released, outputs, self._scope, {}, bound_order=order)
        return where, tuple((f, v) for v, f in keys.items()), root

    def _output(self, grouped: GroupedBinder, value: exp.Expr) -> Expression:
        if value.is_star and isinstance(value, exp.Star | exp.Column):
            raise self._raw(value)
        return grouped.bind(value)

    def _order(self, grouped: GroupedBinder, outputs: list[tuple[str, Expression]]) -> list[Order]:
        clause = self._tree.args.get("order")
        return [ordered(grouped, item, outputs) for item in clause.expressions] if clause is not None else []

    def _keys(self) -> dict[Expression, Field]:
        clause = self._tree.args.get("group")
        if clause is None:
            return {}
        if clause.args.get("all"):
            raise ShoalError("E_GROUPING", "GROUP BY ALL is not supported.", hint="List the keys.")
        resolver = KeyResolver(self._items, self._rows)
        keys: dict[Expression, Field] = {}
        for part in clause.expressions:
            value = resolver.resolve(part)
            if value.type.kind in {Kind.UNSUPPORTED, Kind.INTERVAL, Kind.NULL}:
                raise ShoalError(
                    "E_GROUPING", f"A value of type {value.type} cannot be a group key.", position=position_of(part)
                )
            if value not in keys:
                keys[value] = self._context.symbols.field(value_name(value, self._node), value.type, value)
        return keys

    @staticmethod
    def _raw(node: exp.Expr) -> ShoalError:
        return ShoalError(
            "E_RAW_OUTPUT",
            "Values of single rows cannot be shown: this is neither a group key nor an aggregate.",
            hint="Add the column to GROUP BY, or put it inside an aggregate such as AVG(…).",
            position=position_of(node),
        )
