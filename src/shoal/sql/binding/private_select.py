"""A SELECT with the privacy clause: keys, private aggregates and options; everything around them works on released rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from shoal.catalog import ColumnFacts, fold, root_of
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, Expression, Literal, Order, columns_of
from shoal.plan.kept_rows import KeptRows
from shoal.plan.releases import AggregateCall, Options, PrivateSelect
from shoal.plan.traverse import all_nodes
from shoal.plan.types import NULL, TEXT, Kind
from shoal.sql.binding.after_grouping import GroupedBinder, KeyResolver, output_name, select_items
from shoal.sql.binding.clauses.conditions import has_one_row, holds_owner
from shoal.sql.binding.clauses.periods import date_behind, period_of
from shoal.sql.binding.clauses.shares import averaged, shares_of, times_factors, with_averages
from shoal.sql.binding.expressions import LAST_VERDICTS, ExpressionBinder
from shoal.sql.binding.options import ABOUT_GROUPS
from shoal.sql.binding.private_aggregates import AggregateBinder, BoundAggregate, as_time
from shoal.sql.binding.public_groups import (
    FEW_OWNERS,
    LONGEST_LIST,
    SHORT_LIST,
    conditions_of,
    every_combination,
    has_public_keys,
    in_calendar,
    listed_in_catalog,
    listed_in_query,
    listed_in_tables,
    outer_joined,
    pinned,
)
from shoal.sql.binding.row_select import ordered, qualifying, value_name
from shoal.sql.binding.split_columns import is_split
from shoal.sql.parse import function_call, position_of, privacy_clause

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.catalog import Table
    from shoal.plan.expressions import Position
    from shoal.plan.nodes import Field, Node
    from shoal.sql.binding.clauses.periods import Period
    from shoal.sql.binding.context import CommonTable, Scope
    from shoal.sql.binding.public_groups import Block, Keys
    from shoal.sql.binding.statement import Binder
    from shoal.sql.parse import Constant, FunctionCall

MAX_KEYS = 100
FEW_FOR_SHARES = 400
"""ε times owners below which a count that is shown beside a share stays one of two counts, so that more groups appear."""
_NOTHING = Literal(None, NULL)
_Found = TypeVar("_Found")
Outputs = list[tuple[str, Expression]]


class PrivateBinder:
    """Binds one private SELECT; its FROM and WHERE are already bound."""

    def __init__(
        self,
        binder: Binder,
        tree: exp.Select,
        node: Node,
        scope: Scope,
        tables: dict[str, CommonTable],
        options: Options,
    ) -> None:
        self._binder = binder
        self._context = binder.context
        self._tree = tree
        self._node = node
        self._counted = self._counted_table()
        self._options = options
        kept = KeptRows(self._context.facts, self._context.references)
        says_so = self._counted is not None and self._counted.one_row_per_owner
        self._one_row = says_so or (options.find_limits and has_one_row(self._context, kept, node))
        if self._one_row and options.max_rows_per_owner is None:
            # One row is in one group: allowing more groups per owner would only add noise.
            self._options = options = replace(options, max_groups_per_owner=1)
        self._scans = [n for n in _scans(node) if n.owner is not None]
        self._rows = ExpressionBinder(scope, binder.subquery(tables))
        self._items = select_items(tree.expressions)
        self._calls: dict[BoundAggregate, AggregateCall] = {}
        self._aggregates = AggregateBinder(
            self._rows,
            self._context.symbols.known_bounds,
            self._is_owner,
            self._most_rows(),
            options.max_rows_per_owner,
            anonymization=options.clause == "ANONYMIZATION",
            finds_limits=options.find_limits,
        )

    # ---- what the catalog knows ----------------------------------------------------------------------------------

    def _facts(self, value: Expression) -> ColumnFacts:
        origin = self._context.symbols.origins.get(value.symbol) if isinstance(value, Column) else None
        table = self._context.catalog.table(origin[0]) if origin else None
        return table.facts(origin[1]) if table is not None and origin else ColumnFacts()

    def _is_owner(self, value: Expression) -> bool:
        """Whether a value is a copy of some table's owner column (by lineage, not name), or two of them merged by USING."""
        if isinstance(value, Call):
            return value.function == "coalesce" and all(map(self._is_owner, value.arguments))
        return holds_owner(self._context, value)

    def _most_rows(self) -> int | None:
        """The catalog's bound on rows, usable if the rows of one private table are counted and nothing multiplies them."""
        if self._one_row:
            return 1
        return self._counted.max_rows_per_owner_and_group if self._counted is not None else None

    def _counted_table(self) -> Table | None:
        """The private table whose rows are each counted at most once."""
        scan = KeptRows(self._context.facts, self._context.references).counted(self._node)
        return self._context.catalog.table(scan.table) if scan is not None else None

    # ---- the SELECT ----------------------------------------------------------------------------------------------

    def bound(self, unit: Constant | None) -> tuple[Node, list[tuple[str, Expression]], list[Order]]:
        """Keys, then the SELECT list, HAVING and ORDER BY over released columns."""
        self._check(unit)
        keys = self._keys()
        grouped = GroupedBinder(self._rows, keys, self._aggregate, self._raw)
        outputs, condition, qualified, order = self._over_groups(grouped)
        if self._options.find_limits and not self._one_row:
            outputs, condition, qualified, order = self._with_shares(outputs, condition, qualified, order)
        fields = tuple(keys.values()) + tuple(c.field for c in self._calls.values())
        # Private subqueries in the SELECT list or in HAVING were bound first: they have the lower numbers, and run first.
        number = len(self._context.selects)
        self._context.selects.append(self._select(keys))
        released: Node = nodes.StoredRows(number, fields, position=position_of(self._tree))
        if condition is not None:
            released = nodes.Filter(released, condition)
        if qualified is not None:
            return qualifying(self._context.symbols, released, qualified, outputs, order)
        return released, outputs, order

    def _check(self, unit: Constant | None) -> None:
        position = position_of(self._tree)
        if not self._scans:
            raise ShoalError(
                "E_UNSUPPORTED",
                "This SELECT reads no private table: there is nobody to protect.",
                hint="Remove the privacy clause, or name a private table in FROM.",
                position=position,
            )
        if unit is not None:
            named = str(unit.value) if isinstance(unit.value, str) else ""
            tables = self._context.catalog.tables
            owners = {fold(str(root_of(tables, tables[s.table]).owner)) for s in self._scans}
            if owners != {fold(named)}:
                raise ShoalError(
                    "E_OPTION_INVALID",
                    "privacy_unit_column must name the owner column that the catalog gives.",
                    hint=f"It is {', '.join(sorted(owners))}; the option may be left out.",
                    position=unit.position,
                )

    def _keys(self) -> dict[Expression, Field]:
        clause = self._tree.args.get("group")
        if clause is None:
            return {}
        if len(clause.expressions) > MAX_KEYS:
            raise ShoalError("E_LIMITS", f"GROUP BY takes at most {MAX_KEYS} keys.", position=position_of(clause))
        resolver = OwnerAwareKeys(self._items, self._rows, self._is_owner)
        keys: dict[Expression, Field] = {}
        for part in clause.expressions:
            value = resolver.resolve(part)
            if value.type.kind in {Kind.UNSUPPORTED, Kind.INTERVAL, Kind.NULL}:
                raise ShoalError(
                    "E_GROUPING",
                    f"A value of type {value.type} cannot be a group key.",
                    hint="Cast it.",
                    position=position_of(part),
                )
            if value not in keys:
                keys[value] = self._context.symbols.field(value_name(value, self._node), value.type, value)
        return keys

    def _over_groups(self, grouped: GroupedBinder) -> tuple[Outputs, Expression | None, Expression | None, list[Order]]:
        outputs = []
        grouped.inputs_first = True
        for index, (alias, value) in enumerate(self._items):
            outputs.append(self._output(grouped, index, alias, value))
            self._context.weights.check(outputs[-1][1])
            if alias is not None:
                grouped.name(alias, outputs[-1][1])
        grouped.inputs_first = False
        grouped.aliases = {fold(n): v for n, v in outputs}
        having = self._tree.args.get("having")
        condition = self._told_late(lambda: grouped.condition(having.this)) if having is not None else None
        qualify = self._tree.args.get("qualify")
        qualified = self._told_late(lambda: grouped.condition(qualify.this)) if qualify is not None else None
        clause = self._tree.args.get("order")
        grouped.prefers_aliases = True
        items = clause.expressions if clause is not None else []
        order = self._told_late(lambda: [ordered(grouped, item, outputs) for item in items]) or []
        return outputs, condition, qualified, order

    def _with_shares(
        self, outputs: Outputs, condition: Expression | None, qualified: Expression | None, order: list[Order]
    ) -> tuple[Outputs, Expression | None, Expression | None, list[Order]]:
        """Counts of some rows, divided by the count of all, as averages: one limit above and below the line."""
        used = [
            *(value for _, value in outputs),
            *(part for part in (condition, qualified) if part is not None),
            *(part.value for part in order),
        ]
        averages = self._averages_of_shares(used)
        if not averages:
            return outputs, condition, qualified, order

        def changed(value: Expression) -> Expression:
            return with_averages(value, averages)

        left = {symbol for value in used for symbol in columns_of(changed(value))}
        self._calls = {bound: call for bound, call in self._calls.items() if call.field.symbol in left}
        return (
            [(name, changed(value)) for name, value in outputs],
            None if condition is None else changed(condition),
            None if qualified is None else changed(qualified),
            [replace(part, value=changed(part.value)) for part in order],
        )

    def _has_few_owners(self) -> bool:
        """Whether groups of a SELECT are likely to be too small to appear, if more than counts is asked for."""
        population = self._context.catalog.defaults.population
        grouped = self._tree.args.get("group") is not None
        return grouped and population is not None and population * self._options.epsilon < FEW_FOR_SHARES

    def _averages_of_shares(self, used: list[Expression]) -> dict[Expression, Expression]:
        by_symbol = {call.field.symbol: call for call in self._calls.values()}
        averages: dict[Expression, Expression] = {}
        for share in shares_of(used, by_symbol, alone=self._has_few_owners()):
            call = by_symbol[share.part]
            found = self._aggregates.of_share(averaged(share, call))
            averages[share.quotient] = times_factors(share, self._shown(found, call.position))
        return averages

    def _output(self, grouped: GroupedBinder, index: int, alias: str | None, value: exp.Expr) -> tuple[str, Expression]:
        def bound() -> Expression:
            if is_split(value) or (value.is_star and isinstance(value, (exp.Star, exp.Column))):
                raise self._raw(value)
            _refuse_counting_over(value)
            return grouped.bind(value)

        return output_name(alias, value, index), self._told_late(bound) or _NOTHING

    def _told_late(self, bound: Callable[[], _Found]) -> _Found | None:
        """Anything that may not be shown is remembered, and reported once the rest of the query and its ownership are in order."""
        try:
            return bound()
        except ShoalError as error:
            if error.code not in LAST_VERDICTS:
                raise
            self._context.late.append(error)
            return None

    def _raw(self, node: exp.Expr) -> ShoalError:
        if (
            isinstance(node, exp.Column)
            and not isinstance(node.this, exp.Star)
            and self._is_owner(self._rows.bind(node))
        ):
            return exposed(position_of(node))
        return ShoalError(
            "E_RAW_OUTPUT",
            "Values of single rows cannot be shown: this is neither a group key nor an aggregate.",
            hint=f"Count the parts: SELECT {node.sql()} AS part, COUNT(*) … GROUP BY part."
            if is_split(node)
            else "Add the column to GROUP BY, or put it inside an aggregate such as AVG(…).",
            position=position_of(node),
        )

    def _aggregate(self, call: FunctionCall) -> Expression:
        """A private aggregate; the same one twice is one draw."""
        return self._shown(self._aggregates.bind(call), call.position)

    def _shown(self, found: BoundAggregate, position: Position) -> Expression:
        if found not in self._calls:
            field = self._context.symbols.field("", TEXT if found.report is not None else found.aggregate.type)
            self._calls[found] = AggregateCall(
                field,
                found.aggregate,
                found.bounds,
                found.bounds_source,
                found.epsilon,
                found.report,
                found.rows_left_open,
                position=position,
            )
        known = self._calls[found].field
        shown = Column(known.symbol, known.type, position)
        return shown if found.gives is None else as_time(shown, found.gives)

    def _select(self, keys: dict[Expression, Field]) -> PrivateSelect:
        pairs = tuple((f, v) for v, f in keys.items())
        node, groups, note = self._public_groups(pairs)
        notes = (
            *self._context.sharing,
            *self._remarks(),
            *self._idle_options(keys),
            *dict.fromkeys(self._aggregates.notes),
            *self._trusted_views(node),
        )
        return PrivateSelect(
            node, pairs, tuple(self._calls.values()), self._options, groups, note, notes, position_of(self._tree)
        )

    def _remarks(self) -> tuple[str, ...]:
        said = tuple(self._context.remarks)
        self._context.remarks.clear()
        return said

    def _trusted_views(self, node: Node) -> tuple[str, ...]:
        """What to say about views that may fail in the engine, if the custodian vouches for them."""
        tables = (self._context.catalog.table(part.table) for part in all_nodes(node) if isinstance(part, nodes.Scan))
        names = dict.fromkeys(table.name for table in tables if table is not None and table.trusted_view)
        return tuple(
            f"The view of {name} could fail on single rows, and is trusted by the catalog not to." for name in names
        )

    def _idle_options(self, keys: dict[Expression, Field]) -> tuple[str, ...]:
        """What to say about group options when there is a single group that always appears."""
        clause = privacy_clause(self._tree)
        idle = [name for name, _, _ in clause.options if name in ABOUT_GROUPS] if clause is not None else []
        if keys or not idle:
            return ()
        change = "changes" if len(idle) == 1 else "change"
        return (f"Without GROUP BY there is one group, which always appears: {' and '.join(idle)} {change} nothing.",)

    # ---- public groups -------------------------------------------------------------------------------------------

    def _public_groups(self, keys: Keys) -> tuple[Node, Node | None, str]:
        """The public list of groups, if the strategy uses one: an outer-joined public side, or domains."""
        strategy = self._options.strategy
        if not keys or strategy not in {"PUBLIC_GROUPS", "AUTO"}:
            return self._node, None, ""
        joined = outer_joined(self._binder, self._node, keys)
        if joined is not None and strategy == "PUBLIC_GROUPS":
            return joined[0], joined[1], "every group of the public side of the join appears"
        values = [self._facts(value).values for _, value in keys]
        listed = listed_in_catalog(self._binder, self._node, keys, values)
        if listed is not None and self._options.min_owners == 1 and self._options.selection_epsilon is None:
            self._context.remarks.append(_listed_alone([field.name for field, _ in keys]))
            return self._node, listed, "the catalog lists the values of every key"
        if strategy == "AUTO" and self._context.is_plain and (said := self._listed_in_query(keys)) is not None:
            return self._node, said, "the query itself lists the values of every key"
        if strategy == "AUTO":
            return self._listed_in_tables(keys)
        raise self._no_public_groups(keys)

    def _listed_in_query(self, keys: Keys) -> Node | None:
        """In plain SQL: a few groups, each named by the query text or the catalog."""
        owners = self._context.catalog.defaults.population or FEW_OWNERS
        periods = self._in_periods(keys, max(SHORT_LIST, min(owners, LONGEST_LIST)))
        dated = {place for places, _ in periods for place in places}
        months = {value: in_calendar(value) if owners < FEW_OWNERS else None for _, value in keys}
        lists = {
            place: pinned(value, self._node) or self._facts(value).values or listed_in_query(value) or months[value]
            for place, (_, value) in enumerate(keys)
            if place not in dated
        }
        most = max(SHORT_LIST, len(periods[0][1])) if len(periods) == 1 and not lists else SHORT_LIST
        blocks: list[Block] = [*periods, *(((place,), [(v,) for v in values or ()]) for place, values in lists.items())]
        if not all(rows for _, rows in blocks) or prod(len(rows) for _, rows in blocks) > most:
            return None
        listed = every_combination(self._binder, self._node, keys, sorted(blocks, key=itemgetter(0)))
        if listed is not None:
            self._say_what_is_listed(
                keys, dated, {value: months[value] for place, (_, value) in enumerate(keys) if place in lists}
            )
        return listed

    def _in_periods(self, keys: Keys, most: int) -> list[Block]:
        """Keys that a date decides, with what they can be in the period that the catalog or WHERE names."""
        places: dict[str, list[int]] = {}
        for place, (_, value) in enumerate(keys):
            if (symbol := date_behind(value)) is not None and pinned(value, self._node) is None:
                places.setdefault(symbol, []).append(place)
        conditions = conditions_of(self._node)
        found: list[Block] = []
        for symbol, of_it in places.items():
            period = period_of(symbol, conditions, self._period(symbol))
            values = [keys[place][1] for place in of_it]
            rows = self._context.calendar.in_period(values, period, most) if period is not None else None
            found += [(tuple(of_it), rows)] if rows else []
        return found

    def _period(self, symbol: str) -> Period | None:
        origin = self._context.symbols.origins.get(symbol)
        table = self._context.catalog.table(origin[0]) if origin else None
        return table.facts(origin[1]).period if table is not None and origin else None

    def _say_what_is_listed(
        self, keys: Keys, dated: set[int], months: dict[Expression, tuple[object, ...] | None]
    ) -> None:
        by_catalog = [field.name for field, value in keys if self._facts(value).values]
        if by_catalog:
            self._context.remarks.append(_listed_alone(by_catalog))
        if dated:
            self._context.remarks.append(
                "All groups of a public period appear, also without rows; rows of other times, or without a date, are in none."
            )
        if any(months.values()):
            self._context.remarks.append(
                "Every month, weekday or hour of the keys appears, as owners are few; rows without a date are in none of them."
            )

    def _listed_in_tables(self, keys: Keys) -> tuple[Node, Node | None, str]:
        """In plain SQL a short public list is the list of groups; with the clause, the strategy option decides."""
        found = listed_in_tables(self._binder, self._node, keys) if self._context.is_plain else None
        if found is None:
            return self._node, None, ""
        return self._node, *found

    def _no_public_groups(self, keys: Keys) -> ShoalError:
        if has_public_keys(self._node, keys):
            return ShoalError(
                "E_OPTION_INVALID",
                "PUBLIC_GROUPS needs joins that keep every row of the public relation which the keys come from.",
                hint="FROM regions r LEFT JOIN customers c ON c.region = r.region LEFT JOIN visits v ON v.uid = c.uid",
                position=position_of(self._tree),
            )
        return ShoalError(
            "E_OPTION_INVALID",
            "PUBLIC_GROUPS needs keys that are columns of a public relation outer-joined to the private rows, "
            "or keys whose values the catalog lists.",
            hint="FROM visits v RIGHT JOIN (SELECT DISTINCT region FROM regions) r ON v.region = r.region GROUP BY r.region",
            position=position_of(self._tree),
        )


def _listed_alone(names: list[str]) -> str:
    """What to say about rows that no listed group has."""
    listed = " and ".join(dict.fromkeys(name for name in names if name)) or "the keys"
    return f"Groups are the values that the catalog lists for {listed}; rows with another value, or with NULL, are in none of them."


def _refuse_counting_over(node: exp.Expr) -> None:
    """COUNT(*) OVER (…) next to private aggregates looks as if it counted rows, but would count released groups."""
    for part in node.walk(prune=lambda n: isinstance(n, exp.Select)):
        call = function_call(part)
        if call is not None and call.over is not None and call.star:
            raise ShoalError(
                "E_UNSUPPORTED",
                f"{call.name}(*) OVER (…) in a private SELECT is not supported.",
                hint="Count the released groups in an outer query.",
                position=call.position,
            )


class OwnerAwareKeys(KeyResolver):
    """GROUP BY of a private SELECT: an alias that hides the owner column still means the owner column."""

    def __init__(
        self,
        items: list[tuple[str | None, exp.Expr]],
        rows: ExpressionBinder,
        is_owner: Callable[[Expression], bool],
    ) -> None:
        super().__init__(items, rows)
        self._is_owner = is_owner

    def ambiguous(self, node: exp.Column, found: Expression) -> Expression:
        """The owner column wins, so that the exposure is reported."""
        return found if self._is_owner(found) else super().ambiguous(node, found)


def exposed(position: tuple[int, int] | None) -> ShoalError:
    """The refusal to show owners."""
    return ShoalError(
        "E_UID_EXPOSED",
        "The owner column cannot be shown or grouped by: every group would be one person.",
        hint="Group by something many owners share, such as uid % 10 or a region.",
        position=position,
    )


def _scans(node: Node) -> list[nodes.Scan]:
    return [n for n in nodes.walk(node) if isinstance(n, nodes.Scan)]
