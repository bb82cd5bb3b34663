"""Contributions bounded, as SQL: what every owner has, cut to what an owner may add.

    rows      one row per stored row:       owner, group keys, the numbers the measures read
    partials  one row per owner and group:  what the owner has there
    bounded   at most κ groups per owner, the ones with the smallest keyed pick
    sampled   at most c rows per owner and group, the ones with the smallest keyed pick

With rows bounded per owner (R), `rows` is cut to R rows per owner first and every row counts for itself. What is summed over
owners is in `sum_owners`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.integers import (
    clamped,
    integer,
    masked,
    mixed,
    not_null,
    on_grid,
    plus,
    same,
    times,
    wide,
)
from shoal.engines.statements.pruned import read_input
from shoal.engines.statements.relations import Compiler, aliased, call, column, select
from shoal.plan.types import INTEGER, Type
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Measure
    from shoal.plan.totals import GridMeasure, SamplingKey, TotalsQuery

ONE = Fraction(1)
OWNER, PICK, RANK, N, DEGREE = "owner_", "pick_", "rank_", "n_", "degree_"
RUNNING, WHOLE = "running_", "whole_"


def clamped_value(task: GridMeasure, symbol: str | None) -> exp.Expr:
    """The rows, or the sum, of an owner in a group, within the task's bounds."""
    assert task.steps is not None  # noqa: S101 - asked of measures with bounds
    value = column(f"{symbol}_sum") if task.measure.summed_on_grid else wide(column(f"{symbol}_n" if symbol else N))
    return clamped(exp.Coalesce(this=value, expressions=[integer(0)]), task.steps.lower, task.steps.upper)


class BoundOwners:
    """The common tables of one contribution query, and the samples of rows drawn from them."""

    def __init__(self, query: TotalsQuery, key: SamplingKey, tables: Mapping[str, exp.Expr]) -> None:
        self.query = query
        self._key = key
        self.compiler = Compiler(tables)
        self._listing = Compiler(tables, whole_texts=True)
        self.keys = [f"k{i}" for i in range(len(query.keys))]
        self._arguments: list[tuple[Expression, str, Fraction | None]] = []
        for task in query.tasks:
            self.argument(task.measure, task.row_grid)
        for histogram in query.histograms:
            self.argument(histogram.serves, histogram.grid)

    # ---- arguments -----------------------------------------------------------------------------------------------

    def argument(self, measure: Measure, row_grid: Fraction) -> str | None:
        """The column of `rows` that a measure reads: a number on a grid for sums, else the (canonical) value as it is."""
        if measure.argument is None:
            return None
        grid = row_grid if measure.summed_on_grid else None
        for expression, symbol, known in self._arguments:
            if expression == measure.argument and known == grid:
                return symbol
        symbol = f"a{len(self._arguments)}"
        self._arguments.append((measure.argument, symbol, grid))
        return symbol

    def type_of(self, symbol: str) -> Type:
        """What a column of `rows` holds."""
        expression, _, grid = next(a for a in self._arguments if a[1] == symbol)
        return INTEGER if grid is not None else expression.type

    # ---- picks ---------------------------------------------------------------------------------------------------

    def _pick(self) -> exp.Expr:
        """(mixed(a·u + b) | 1)·mixed(Σ mᵢ·gᵢ + d) mod 2⁶²."""
        owner_field = next(f for f in self.query.input.fields if f.symbol == self.query.input.owner)
        owner = functions.canonical_integer(column(OWNER), owner_field.type)
        keyed_owner = masked(plus(times(wide(owner), integer(self._key.odd(0))), integer(self._key.number(1))))
        odd_owner = exp.BitwiseOr(this=exp.Paren(this=mixed(keyed_owner)), expression=integer(1))
        group: exp.Expr = integer(self._key.number(2))
        for index, ((field, _), symbol) in enumerate(zip(self.query.keys, self.keys, strict=True)):
            value = functions.canonical_integer(column(symbol), field.type)
            group = plus(group, masked(times(wide(value), integer(self._key.odd(3 + index)))))
        return masked(times(odd_owner, mixed(masked(group))))

    def _row_pick(self, symbols: list[str], duplicate: str) -> exp.Expr:
        """A keyed number of (pick, row content, duplicate index)."""
        content: exp.Expr = integer(self._key.number(20))
        for index, symbol in enumerate(symbols):
            on_steps = any(a[1] == symbol and a[2] is not None for a in self._arguments)
            value = masked(self._zero_if_null(symbol)) if on_steps else self._canonical(symbol)
            content = plus(content, masked(times(value, integer(self._key.odd(21 + index)))))
        content = plus(content, masked(times(wide(column(duplicate)), integer(self._key.odd(19)))))
        odd_pick = exp.BitwiseOr(this=exp.Paren(this=wide(column(PICK))), expression=integer(1))
        return masked(times(odd_pick, mixed(masked(content))))

    def _canonical(self, symbol: str) -> exp.Expr:
        return wide(functions.canonical_integer(column(symbol), self.type_of(symbol)))

    @staticmethod
    def _zero_if_null(symbol: str) -> exp.Expr:
        return exp.Coalesce(this=column(symbol), expressions=[integer(0)])

    # ---- common tables -------------------------------------------------------------------------------------------

    def _rows(self) -> exp.Select:
        query = self.query
        keys = [
            aliased(functions.key_form(self.compiler.expression(value), field.type), symbol)
            for (field, value), symbol in zip(query.keys, self.keys, strict=True)
        ]
        assert query.input.owner is not None  # noqa: S101 - check_ownership saw to it
        source = self.compiler.subquery(self.compiler.relation(read_input(query)))
        values = [
            aliased(functions.key_form(self.compiler.expression(a), a.type), symbol) for a, symbol, _ in self._arguments
        ]
        rows = select([aliased(column(query.input.owner), OWNER), *keys, *values], source)
        return self._in_steps(rows.where(not_null(column(query.input.owner)), copy=False))

    def _in_steps(self, rows: exp.Select) -> exp.Select:
        """The rows with numbers that will be summed counted in steps of their grids."""
        if all(grid is None for _, _, grid in self._arguments):
            return rows
        counted = [
            column(symbol) if grid is None else aliased(on_grid(column(symbol), argument.type, grid), symbol)
            for argument, symbol, grid in self._arguments
        ]
        return select([column(OWNER), *map(column, self.keys), *counted], self.compiler.subquery(rows))

    def with_rows(self, query: exp.Query) -> exp.Query:
        """The statement with the common tables it needs in front."""
        tables: list[tuple[str, exp.Query]] = [("rows_", self._rows())]
        source = "rows_"
        if self.query.public_groups is not None:
            tables.append(("groups_", self.groups()))
            tables.append(("listed_", self._listed()))
            source = "listed_"
        if self.query.contribution.max_rows is not None:
            tables.extend(self._cut_to_rows(source))
            source = "cut_"
        tables.append(("partials_", self._partials(source)))
        tables.append(("bounded_", self._bounded()))
        for alias, table in tables:
            query = query.with_(alias, as_=table, copy=False)
        return query

    @property
    def row_source(self) -> str:
        """The common table that rows are read from: listed groups only, or cut to R rows of an owner, where that is asked."""
        if self.query.contribution.max_rows is not None:
            return "cut_"
        return "listed_" if self.query.public_groups is not None else "rows_"

    def groups(self) -> exp.Query:
        """The public groups, canonical like the keys of the rows."""
        node = self.query.public_groups
        assert node is not None  # noqa: S101 - asked for only then
        items = [
            aliased(functions.key_form(functions.cast_form(column(f.symbol), f.type, field.type), field.type), symbol)
            for f, (field, _), symbol in zip(node.fields, self.query.keys, self.keys, strict=True)
        ]
        return select(items, self.compiler.subquery(self._listing.relation(node))).distinct(copy=False)

    def _listed(self) -> exp.Query:
        """Rows of listed groups only: the others are dropped before sampling."""
        match = exp.and_(*[same(column(k, "g"), column(k, "r")) for k in self.keys], copy=False)
        listed = select(
            [exp.Literal.number(1)],
            exp.Table(this=exp.to_identifier("groups_"), alias=exp.TableAlias(this=exp.to_identifier("g"))),
        ).where(match, copy=False)
        names = [OWNER, *self.keys, *(a[1] for a in self._arguments)]
        source = exp.Table(this=exp.to_identifier("rows_"), alias=exp.TableAlias(this=exp.to_identifier("r")))
        return select([aliased(column(n, "r"), n) for n in names], source).where(exp.Exists(this=listed), copy=False)

    def _cut_to_rows(self, source: str) -> list[tuple[str, exp.Query]]:
        """At most R rows per owner: duplicates numbered, then the smallest keyed picks of the whole row."""
        names = [*self.keys, *(a[1] for a in self._arguments)]
        numbered = select(
            [
                column(OWNER),
                *map(column, names),
                aliased(self._numbered([OWNER, *names], []), "dup_"),
                aliased(self._pick(), PICK),
            ],
            exp.Table(this=exp.to_identifier(source)),
        )
        picked = select(
            [
                column(OWNER),
                *map(column, names),
                aliased(self._row_pick([a[1] for a in self._arguments], "dup_"), "row_pick_"),
                column("dup_"),
            ],
            exp.Table(this=exp.to_identifier("numbered_")),
        )
        ranked = select(
            [column(OWNER), *map(column, names), aliased(self._numbered([OWNER], ["row_pick_", *names, "dup_"]), RANK)],
            exp.Table(this=exp.to_identifier("picked_")),
        )
        limit = exp.LTE(this=column(RANK), expression=exp.Literal.number(self.query.contribution.max_rows))
        cut = select([column(OWNER), *map(column, names)], exp.Table(this=exp.to_identifier("ranked_"))).where(
            limit, copy=False
        )
        return [("numbered_", numbered), ("picked_", picked), ("ranked_", ranked), ("cut_", cut)]

    @staticmethod
    def _numbered(partition: list[str], order: list[str]) -> exp.Expr:
        """ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)."""
        window = exp.Window(this=call("row_number"), partition_by=[column(p) for p in partition])
        if order:
            window.set("order", exp.Order(expressions=[exp.Ordered(this=column(o), nulls_first=True) for o in order]))
        return window

    def _partials(self, source: str) -> exp.Select:
        """One row per owner and group."""
        columns = [column(OWNER), *map(column, self.keys)]
        items: list[exp.Expr] = [*columns, aliased(call("count", exp.Star()), N)]
        for _, symbol, grid in self._arguments:
            items.append(aliased(call("count", column(symbol)), f"{symbol}_n"))
            if grid is not None:
                items.append(aliased(call("sum", column(symbol)), f"{symbol}_sum"))
        for symbol, side in self._extremes():
            items.append(aliased(call(side, column(symbol)), f"{symbol}_{side}"))
        grouped = select(items, exp.Table(this=exp.to_identifier(source)))
        grouped.set("group", exp.Group(expressions=[c.copy() for c in columns]))
        return grouped

    def _extremes(self) -> list[tuple[str, str]]:
        measures = [t.measure for t in self.query.tasks] + [h.serves for h in self.query.histograms]
        found = []
        for measure in measures:
            if measure.extreme is not None:
                symbol = self.argument(measure, ONE)
                assert symbol is not None  # noqa: S101 - leaves have an argument
                if (symbol, measure.extreme) not in found:
                    found.append((symbol, measure.extreme))
        return found

    def _bounded(self) -> exp.Select:
        """At most κ groups per owner, at random from that owner's own groups only."""
        picked = self.compiler.subquery(
            select([exp.Star(), aliased(self._pick(), PICK)], exp.Table(this=exp.to_identifier("partials_")))
        )
        contribution, windows = self.query.contribution, [*self._degree(), *self._running()]
        if not self.keys:
            return select([exp.Star(), aliased(exp.Literal.number(1), RANK), *windows], picked)
        ranked = select([exp.Star(), aliased(self._numbered([OWNER], [PICK, *self.keys]), RANK)], picked)
        if contribution.max_rows is not None:
            return select([exp.Star(), *windows], self.compiler.subquery(ranked)) if windows else ranked
        limit = exp.LTE(this=column(RANK), expression=exp.Literal.number(contribution.max_groups))
        return select([exp.Star(), *windows], self.compiler.subquery(ranked)).where(limit, copy=False)

    def _running(self) -> list[exp.Expr]:
        """For limits of all groups together: what an owner has up to each kept group, in the order of picks, and in all."""
        found: list[exp.Expr] = []
        for index, task in enumerate(self.query.tasks):
            if not task.measure.limited_in_all:
                continue
            size = call("abs", clamped_value(task, self.argument(task.measure, task.row_grid)))
            whole = exp.Window(this=call("sum", size), partition_by=[column(OWNER)])
            ordered = exp.Window(this=call("sum", size.copy()), partition_by=[column(OWNER)])
            order = [exp.Ordered(this=column(o), nulls_first=True) for o in (PICK, *self.keys)]
            ordered.set("order", exp.Order(expressions=order))
            ordered.set(
                "spec", exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
            )
            found += [aliased(ordered, f"{RUNNING}{index}"), aliased(whole, f"{WHOLE}{index}")]
        return found

    def _degree(self) -> list[exp.Expr]:
        """How many groups of its owner are kept, where weights go by it; rows that WHERE leaves out are not in a window."""
        if not any(task.measure.goes_by_degree for task in self.query.tasks):
            return []
        counted = exp.Window(this=call("count", column(PICK)), partition_by=[column(OWNER)])
        return [aliased(counted, DEGREE)]

    # ---- samples -------------------------------------------------------------------------------------------------

    def sampled_rows(self, symbol: str, rows: int) -> exp.Select:
        """At most `rows` rows of an owner in a group with a value, from the groups that were kept."""
        if self.query.contribution.max_rows is not None:
            return self._kept_rows(symbol)
        return self._first_rows(symbol, self._kept_rows(symbol), rows)

    def one_row(self, symbol: str, *, first_group_only: bool) -> exp.Select:
        """One row of an owner with a value, in the first of its groups or in each."""
        return self._first_rows(symbol, self._kept_rows(symbol, first_group_only=first_group_only), 1)

    def sampled_values(self, symbol: str, values: int) -> exp.Select:
        """At most this many different values of an owner in a group, from the groups that were kept."""
        different = self.compiler.subquery(self._kept_rows(symbol).distinct(copy=False))
        return self._first_picks(
            symbol, select([exp.Star(), aliased(exp.Literal.number(1), "dup_")], different), values
        )

    def _kept_rows(self, symbol: str, *, first_group_only: bool = False) -> exp.Select:
        """All rows with a value, from the groups that were kept."""
        names = [OWNER, *self.keys]
        match: list[exp.Expr] = [exp.EQ(this=column(OWNER, "r"), expression=column(OWNER, "b"))]
        match += [same(column(k, "r"), column(k, "b")) for k in self.keys]
        if first_group_only:
            match.append(exp.EQ(this=column(RANK, "b"), expression=exp.Literal.number(1)))
        source = exp.Table(this=exp.to_identifier(self.row_source), alias=exp.TableAlias(this=exp.to_identifier("r")))
        kept = exp.Table(this=exp.to_identifier("bounded_"), alias=exp.TableAlias(this=exp.to_identifier("b")))
        joined = select(
            [
                *(aliased(column(n, "r"), n) for n in names),
                aliased(column(symbol, "r"), symbol),
                aliased(column(PICK, "b"), PICK),
            ],
            source,
        )
        joined.append("joins", exp.Join(this=kept, on=exp.and_(*match, copy=False), kind="INNER"))
        return joined.where(not_null(column(symbol, "r")), copy=False)

    def _first_rows(self, symbol: str, rows: exp.Select, limit: int) -> exp.Select:
        """This many rows of every owner and group, equal ones numbered."""
        number = aliased(self._numbered([OWNER, *self.keys, symbol], []), "dup_")
        return self._first_picks(symbol, select([exp.Star(), number], self.compiler.subquery(rows)), limit)

    def _first_picks(self, symbol: str, numbered: exp.Select, limit: int) -> exp.Select:
        """Of every owner and group, the rows that have the smallest keyed picks of their content."""
        picked = select(
            [exp.Star(), aliased(self._row_pick([symbol], "dup_"), "row_pick_")], self.compiler.subquery(numbered)
        )
        rank = self._numbered([OWNER, *self.keys], ["row_pick_", symbol, "dup_"])
        ranked = select([exp.Star(), aliased(rank, "row_rank_")], self.compiler.subquery(picked))
        within = exp.LTE(this=column("row_rank_"), expression=exp.Literal.number(limit))
        return select([exp.Star()], self.compiler.subquery(ranked)).where(within, copy=False)
