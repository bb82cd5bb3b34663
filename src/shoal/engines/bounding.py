"""A contribution query as SQL: bound what every owner adds, then sum over owners in exact integers.

    rows      one row per stored row:       owner, group keys, the numbers the measures read
    partials  one row per owner and group:  what the owner has there
    bounded   at most κ groups per owner, the ones with the smallest keyed pick
    sampled   at most c rows per owner and group, the ones with the smallest keyed pick
    totals    one row per group

With rows bounded per owner (R), `rows` is cut to R rows per owner first and every row counts for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.compile import Compiler, aliased, call, column, select
from shoal.plan.contributions import MASK, ContributionQuery, SamplingKey, Task
from shoal.plan.measures import (
    SATURATION_BITS,
    DistinctValues,
    Histogram,
    Leaves,
    Measure,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
)
from shoal.plan.types import DOUBLE, INTEGER, Kind, Type
from shoal.sql import functions
from shoal.sql.functions.forms import data_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.plan.expressions import Expression

ONE = Fraction(1)
OWNER, PICK, RANK, OWNERS, LEAF, BIN, N = "owner_", "pick_", "rank_", "owners_", "leaf_", "bin_", "n_"


@dataclass(frozen=True, slots=True)
class Statements:
    """What to run: totals always; the rest as the measures need. `sampled` maps a statement to the tasks it answers."""

    totals: exp.Query
    groups: exp.Query | None
    sampled: tuple[tuple[exp.Query, tuple[int, ...]], ...]
    leaves: tuple[tuple[exp.Query, int], ...]
    distinct: tuple[tuple[exp.Query, int], ...]
    histograms: tuple[exp.Query, ...]


def integer(value: int) -> exp.Expr:
    """A wide integer literal; engines read small ones faster."""
    literal: exp.Expr = exp.Literal.number(abs(value))
    if value < 0:
        literal = exp.Neg(this=literal)
    return exp.Cast(this=literal, to=data_type("HUGEINT"))


def wide(value: exp.Expr) -> exp.Expr:
    """A 128-bit integer."""
    return exp.Cast(this=value, to=data_type("HUGEINT"))


def masked(value: exp.Expr) -> exp.Expr:
    """Value mod 2⁶²."""
    return exp.BitwiseAnd(this=exp.Paren(this=value), expression=integer(MASK))


def mixed(value: exp.Expr) -> exp.Expr:
    """x·(⌊x/2³¹⌋ | 1) mod 2⁶²: keys in a row, such as days, stand in a row no longer, or the outer ones would be picked more."""
    high = exp.IntDiv(this=exp.Paren(this=value.copy()), expression=integer(2**31))
    return masked(times(value, exp.BitwiseOr(this=exp.Paren(this=high), expression=integer(1))))


def times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left · right."""
    return exp.Mul(this=exp.Paren(this=left), expression=exp.Paren(this=right))


def plus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left + right."""
    return exp.Add(this=exp.Paren(this=left), expression=exp.Paren(this=right))


def clamped(value: exp.Expr, lower: int, upper: int) -> exp.Expr:
    """The value, at least lower and at most upper."""
    return call("least", call("greatest", value, integer(lower)), integer(upper))


def floor_divided(value: exp.Expr, divisor: int) -> exp.Expr:
    """⌊value / divisor⌋ for a positive divisor, whatever the engine's own division does with negative numbers."""
    remainder = exp.Mod(this=exp.Paren(this=value), expression=integer(divisor))
    positive = exp.Mod(this=exp.Paren(this=plus(remainder, integer(divisor))), expression=integer(divisor))
    return exp.IntDiv(
        this=exp.Paren(this=exp.Sub(this=exp.Paren(this=value.copy()), expression=exp.Paren(this=positive))),
        expression=integer(divisor),
    )


def exists(condition: exp.Expr) -> exp.Expr:
    """1 when the condition holds, else 0."""
    return exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))


def not_null(value: exp.Expr) -> exp.Expr:
    """Value IS NOT NULL."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Left IS NOT DISTINCT FROM right."""
    return exp.NullSafeEQ(this=left, expression=right)


def on_grid(value: exp.Expr, type_: Type, row_grid: Fraction) -> exp.Expr:
    """A row's number in steps: ⌊x/grid + ½⌋, saturated; integers stay what they are, and NULL stays NULL."""
    if type_.kind is Kind.INTEGER and row_grid == 1:
        return wide(value)
    scaled = times(functions.cast_form(value, type_, DOUBLE), functions.double_form(float(1 / row_grid)))
    limit = functions.double_form(float(2**SATURATION_BITS))
    # LEAST and GREATEST would skip NULL and make a missing value the smallest of all.
    saturated = exp.Case(
        ifs=[
            exp.If(this=exp.GTE(this=scaled, expression=limit), true=limit.copy()),
            exp.If(this=exp.LTE(this=scaled.copy(), expression=exp.Neg(this=limit.copy())), true=exp.Neg(this=limit)),
        ],
        default=scaled.copy(),
    )
    return wide(call("floor", plus(saturated, functions.double_form(0.5))))


class Bounding:
    """Builds the statements of one contribution query."""

    def __init__(self, query: ContributionQuery, key: SamplingKey, tables: Mapping[str, exp.Expr]) -> None:
        self._query = query
        self._key = key
        self._compiler = Compiler(tables)
        self._keys = [f"k{i}" for i in range(len(query.keys))]
        self._arguments: list[tuple[Expression, str, Fraction | None]] = []
        for task in query.tasks:
            self._argument(task.measure, task.row_grid)
        for histogram in query.histograms:
            self._argument(histogram.serves, histogram.grid)

    # ---- arguments -----------------------------------------------------------------------------------------------

    def _argument(self, measure: Measure, row_grid: Fraction) -> str | None:
        """The column of `rows` that a measure reads: a number on a grid for sums, else the (canonical) value as it is."""
        if measure.argument is None:
            return None
        grid = row_grid if isinstance(measure, (OwnerSum, OwnerMean)) else None
        for expression, symbol, known in self._arguments:
            if expression == measure.argument and known == grid:
                return symbol
        symbol = f"a{len(self._arguments)}"
        self._arguments.append((measure.argument, symbol, grid))
        return symbol

    def _type_of(self, symbol: str) -> Type:
        expression, _, grid = next(a for a in self._arguments if a[1] == symbol)
        return INTEGER if grid is not None else expression.type

    # ---- picks ---------------------------------------------------------------------------------------------------

    def _pick(self) -> exp.Expr:
        """(mixed(a·u + b) | 1)·mixed(Σ mᵢ·gᵢ + d) mod 2⁶²."""
        owner_field = next(f for f in self._query.input.fields if f.symbol == self._query.input.owner)
        owner = functions.canonical_integer(column(OWNER), owner_field.type)
        keyed_owner = masked(plus(times(wide(owner), integer(self._key.odd(0))), integer(self._key.number(1))))
        odd_owner = exp.BitwiseOr(this=exp.Paren(this=mixed(keyed_owner)), expression=integer(1))
        group: exp.Expr = integer(self._key.number(2))
        for index, ((field, _), symbol) in enumerate(zip(self._query.keys, self._keys, strict=True)):
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
        return wide(functions.canonical_integer(column(symbol), self._type_of(symbol)))

    @staticmethod
    def _zero_if_null(symbol: str) -> exp.Expr:
        return exp.Coalesce(this=column(symbol), expressions=[integer(0)])

    # ---- common tables -------------------------------------------------------------------------------------------

    def _rows(self) -> exp.Select:
        query = self._query
        keys = [
            aliased(functions.key_form(self._compiler.expression(value), field.type), symbol)
            for (field, value), symbol in zip(query.keys, self._keys, strict=True)
        ]
        assert query.input.owner is not None  # noqa: S101 - check_ownership saw to it
        source = self._compiler.subquery(self._compiler.relation(query.input))
        values = [
            aliased(functions.key_form(value, a.type) if grid is None else value, symbol)
            for a, symbol, grid in self._arguments
            for value in [self._compiler.expression(a)]
        ]
        rows = select([aliased(column(query.input.owner), OWNER), *keys, *values], source)
        return self._in_steps(rows.where(not_null(column(query.input.owner))))

    def _in_steps(self, rows: exp.Select) -> exp.Select:
        """The rows with numbers that will be summed counted in steps of their grids."""
        if all(grid is None for _, _, grid in self._arguments):
            return rows
        counted = [
            column(symbol) if grid is None else aliased(on_grid(column(symbol), argument.type, grid), symbol)
            for argument, symbol, grid in self._arguments
        ]
        return select([column(OWNER), *map(column, self._keys), *counted], self._compiler.subquery(rows))

    def _with_rows(self, query: exp.Query) -> exp.Query:
        """The statement with the common tables it needs in front."""
        tables: list[tuple[str, exp.Query]] = [("rows_", self._rows())]
        source = "rows_"
        if self._query.public_groups is not None:
            tables.append(("groups_", self.groups()))
            tables.append(("listed_", self._listed()))
            source = "listed_"
        if self._query.contribution.max_rows is not None:
            tables.extend(self._cut_to_rows(source))
            source = "cut_"
        tables.append(("partials_", self._partials(source)))
        tables.append(("bounded_", self._bounded()))
        self._source = source
        for alias, table in tables:
            query = query.with_(alias, as_=table, copy=False)
        return query

    @property
    def _row_source(self) -> str:
        if self._query.contribution.max_rows is not None:
            return "cut_"
        return "listed_" if self._query.public_groups is not None else "rows_"

    def groups(self) -> exp.Query:
        """The public groups, canonical like the keys of the rows."""
        node = self._query.public_groups
        assert node is not None  # noqa: S101 - asked for only then
        items = [
            aliased(functions.key_form(functions.cast_form(column(f.symbol), f.type, field.type), field.type), symbol)
            for f, (field, _), symbol in zip(node.fields, self._query.keys, self._keys, strict=True)
        ]
        return select(items, self._compiler.subquery(self._compiler.relation(node))).distinct()

    def _listed(self) -> exp.Query:
        """Rows of listed groups only: the others are dropped before sampling."""
        match = exp.and_(*[same(column(k, "g"), column(k, "r")) for k in self._keys])
        listed = select(
            [exp.Literal.number(1)],
            exp.Table(this=exp.to_identifier("groups_"), alias=exp.TableAlias(this=exp.to_identifier("g"))),
        ).where(match)
        names = [OWNER, *self._keys, *(a[1] for a in self._arguments)]
        source = exp.Table(this=exp.to_identifier("rows_"), alias=exp.TableAlias(this=exp.to_identifier("r")))
        return select([aliased(column(n, "r"), n) for n in names], source).where(exp.Exists(this=listed))

    def _cut_to_rows(self, source: str) -> list[tuple[str, exp.Query]]:
        """At most R rows per owner: duplicates numbered, then the smallest keyed picks of the whole row."""
        names = [*self._keys, *(a[1] for a in self._arguments)]
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
        limit = exp.LTE(this=column(RANK), expression=exp.Literal.number(self._query.contribution.max_rows))
        cut = select([column(OWNER), *map(column, names)], exp.Table(this=exp.to_identifier("ranked_"))).where(limit)
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
        columns = [column(OWNER), *map(column, self._keys)]
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
        measures = [t.measure for t in self._query.tasks] + [h.serves for h in self._query.histograms]
        found = []
        for measure in measures:
            if isinstance(measure, Leaves) and measure.extreme is not None:
                symbol = self._argument(measure, ONE)
                assert symbol is not None  # noqa: S101 - leaves have an argument
                if (symbol, measure.extreme) not in found:
                    found.append((symbol, measure.extreme))
        return found

    def _bounded(self) -> exp.Select:
        """At most κ groups per owner, at random from that owner's own groups only."""
        picked = self._compiler.subquery(
            select([exp.Star(), aliased(self._pick(), PICK)], exp.Table(this=exp.to_identifier("partials_")))
        )
        contribution = self._query.contribution
        if not self._keys:
            return select([exp.Star(), aliased(exp.Literal.number(1), RANK)], picked)
        ranked = select([exp.Star(), aliased(self._numbered([OWNER], [PICK, *self._keys]), RANK)], picked)
        if contribution.max_rows is not None:
            return ranked
        limit = exp.LTE(this=column(RANK), expression=exp.Literal.number(contribution.max_groups))
        return select([exp.Star()], self._compiler.subquery(ranked)).where(limit)

    # ---- statements ----------------------------------------------------------------------------------------------

    def statements(self) -> Statements:
        """Everything that has to be run."""
        tasks = self._query.tasks
        sampled: dict[tuple[object, int], list[int]] = {}
        for index, task in enumerate(tasks):
            if isinstance(task.measure, RowMoment):
                sampled.setdefault((task.measure.argument, task.measure.rows), []).append(index)
        return Statements(
            totals=self._totals(),
            groups=self._with_rows(
                select([column(k) for k in self._keys], exp.Table(this=exp.to_identifier("groups_")))
            )
            if self._query.public_groups is not None
            else None,
            sampled=tuple((self._moments(indices), tuple(indices)) for indices in sampled.values()),
            leaves=tuple((self._leaves(t), i) for i, t in enumerate(tasks) if isinstance(t.measure, Leaves)),
            distinct=tuple(
                (self._distinct(t), i) for i, t in enumerate(tasks) if isinstance(t.measure, DistinctValues)
            ),
            histograms=tuple(self._histogram(h) for h in self._query.histograms),
        )

    def _grouped(self, items: Sequence[exp.Expr], source: exp.Expr, *extra: str) -> exp.Select:
        keys = [*self._keys, *extra]
        query = select([*map(column, keys), *items], source)
        if keys:
            query.set("group", exp.Group(expressions=[column(k) for k in keys]))
        return query

    def _totals(self) -> exp.Query:
        items = [aliased(call("count", exp.Star()), OWNERS)]
        for index, task in enumerate(self._query.tasks):
            if not (isinstance(task.measure, (RowMoment, Leaves, DistinctValues))):
                items.append(aliased(call("sum", self._owner_value(task)), f"m{index}"))
        return self._with_rows(self._grouped(items, exp.Table(this=exp.to_identifier("bounded_"))))

    def _owner_value(self, task: Task) -> exp.Expr:
        """What one owner adds to one group, in steps of the task's grid, clamped after the per-owner aggregate."""
        measure = task.measure
        symbol = self._argument(measure, task.row_grid)
        if isinstance(measure, OwnerCount):
            return (
                wide(exists(exp.GT(this=column(f"{symbol}_n"), expression=exp.Literal.number(0))))
                if symbol
                else integer(1)
            )
        assert task.steps is not None  # noqa: S101 - these measures have bounds
        if isinstance(measure, RowCount):
            rows = wide(column(f"{symbol}_n" if symbol else N))
            return self._rescaled(clamped(rows, task.steps.lower, task.steps.upper), task)
        # An owner without a value adds nothing, also where the bounds leave out 0.
        present = exp.GT(this=column(f"{symbol}_n"), expression=exp.Literal.number(0))
        if isinstance(measure, OwnerSum):
            total = exp.Coalesce(this=column(f"{symbol}_sum"), expressions=[integer(0)])
            value = self._rescaled(clamped(total, task.steps.lower, task.steps.upper), task)
        else:
            mean = clamped(self._mean(str(symbol)), task.steps.lower, task.steps.upper)
            value = exp.Sub(this=exp.Paren(this=mean), expression=integer(task.steps.middle))
        return exp.Case(ifs=[exp.If(this=present, true=value)], default=integer(0))

    @staticmethod
    def _mean(symbol: str) -> exp.Expr:
        """⌊(2S + n) / 2n⌋: one fixed rounding; S is lifted above zero so that every engine's division agrees."""
        lift = 2 ** (SATURATION_BITS + 1)
        rows = call("greatest", wide(column(f"{symbol}_n")), integer(1))
        lifted = plus(column(f"{symbol}_sum"), times(integer(lift), rows))
        numerator = plus(times(integer(2), lifted), rows.copy())
        quotient = exp.IntDiv(this=exp.Paren(this=numerator), expression=exp.Paren(this=times(integer(2), rows.copy())))
        return exp.Sub(this=exp.Paren(this=quotient), expression=integer(lift))

    @staticmethod
    def _rescaled(value: exp.Expr, task: Task) -> exp.Expr:
        if task.shrink > 1:
            return floor_divided(plus(times(integer(2), value), integer(task.shrink)), 2 * task.shrink)
        return times(value, integer(task.stretch)) if task.stretch > 1 else value

    def _sampled_rows(self, symbol: str, rows: int) -> exp.Select:
        """At most `rows` rows of an owner in a group with a value, from the groups that were kept."""
        if self._query.contribution.max_rows is not None:
            return self._kept_rows(symbol)
        return self._ranked_rows(symbol, self._kept_rows(symbol), rows)

    def _one_row(self, symbol: str, *, first_group_only: bool) -> exp.Select:
        """One row of an owner with a value, in the first of its groups or in each."""
        return self._ranked_rows(symbol, self._kept_rows(symbol, first_group_only=first_group_only), 1)

    def _kept_rows(self, symbol: str, *, first_group_only: bool = False) -> exp.Select:
        """All rows with a value, from the groups that were kept."""
        names = [OWNER, *self._keys]
        match: list[exp.Expr] = [exp.EQ(this=column(OWNER, "r"), expression=column(OWNER, "b"))]
        match += [same(column(k, "r"), column(k, "b")) for k in self._keys]
        if first_group_only:
            match.append(exp.EQ(this=column(RANK, "b"), expression=exp.Literal.number(1)))
        source = exp.Table(this=exp.to_identifier(self._row_source), alias=exp.TableAlias(this=exp.to_identifier("r")))
        kept = exp.Table(this=exp.to_identifier("bounded_"), alias=exp.TableAlias(this=exp.to_identifier("b")))
        joined = select(
            [
                *(aliased(column(n, "r"), n) for n in names),
                aliased(column(symbol, "r"), symbol),
                aliased(column(PICK, "b"), PICK),
            ],
            source,
        )
        joined.append("joins", exp.Join(this=kept, on=exp.and_(*match), kind="INNER"))
        return joined.where(not_null(column(symbol, "r")))

    def _ranked_rows(self, symbol: str, joined: exp.Select, rows: int) -> exp.Select:
        """The `rows` rows of every owner and group that have the smallest picks."""
        names = [OWNER, *self._keys]
        numbered = select(
            [exp.Star(), aliased(self._numbered([*names, symbol], []), "dup_")], self._compiler.subquery(joined)
        )
        picked = select(
            [exp.Star(), aliased(self._row_pick([symbol], "dup_"), "row_pick_")], self._compiler.subquery(numbered)
        )
        ranked = select(
            [exp.Star(), aliased(self._numbered(names, ["row_pick_", symbol, "dup_"]), "row_rank_")],
            self._compiler.subquery(picked),
        )
        limit = exp.LTE(this=column("row_rank_"), expression=exp.Literal.number(rows))
        return select([exp.Star()], self._compiler.subquery(ranked)).where(limit)

    def _moments(self, indices: list[int]) -> exp.Query:
        """Σ (clamp(x) − m)^power over sampled rows, for all powers of one argument."""
        tasks = [self._query.tasks[i] for i in indices]
        measure = tasks[0].measure
        assert isinstance(measure, RowMoment)  # noqa: S101 - chosen by statements()
        symbol = self._argument(measure, ONE)
        if symbol is None:
            # COUNT(*) with rows bounded per owner: every kept row is one.
            counted = [aliased(call("count", exp.Star()), f"m{i}") for i in indices]
            return self._with_rows(self._grouped(counted, exp.Table(this=exp.to_identifier(self._row_source))))
        sample = self._compiler.subquery(self._sampled_rows(symbol, measure.rows))
        items: list[exp.Expr] = [
            aliased(call("sum", self._row_value(task, symbol)), f"m{index}")
            for index, task in zip(indices, tasks, strict=True)
        ]
        return self._with_rows(self._grouped(items, sample))

    def _row_value(self, task: Task, symbol: str) -> exp.Expr:
        measure = task.measure
        assert isinstance(measure, RowMoment)  # noqa: S101 - by construction
        if measure.power == 0:
            return integer(1)
        assert task.steps is not None  # noqa: S101 - these moments have bounds
        steps = on_grid(column(symbol), self._type_of(symbol), task.row_grid)
        middle = task.steps.middle if measure.centred else 0
        centred = exp.Sub(
            this=exp.Paren(this=clamped(steps, task.steps.lower, task.steps.upper)), expression=integer(middle)
        )
        value: exp.Expr = exp.Paren(this=centred)
        if measure.power == 2:
            value = times(value, value.copy())
        return self._rescaled(value, task)

    def _leaf(self, measure: Leaves, task: Task, value: exp.Expr) -> exp.Expr:
        """⌊(x − L)·(leaves / (U − L))⌋, at least 0 and at most the last leaf; the same IEEE operations everywhere."""
        lower, factor = leaf_scale(task)
        place = times(
            exp.Sub(this=exp.Paren(this=value), expression=functions.double_form(lower)), functions.double_form(factor)
        )
        last = functions.double_form(float(measure.leaf_count - 1))
        inside = call("least", call("greatest", call("floor", place), functions.double_form(0.0)), last)
        return exp.Cast(this=inside, to=data_type("BIGINT"))

    def _leaves(self, task: Task) -> exp.Query:
        measure = task.measure
        assert isinstance(measure, Leaves)  # noqa: S101 - chosen by statements()
        symbol = self._argument(measure, task.row_grid)
        assert symbol is not None  # noqa: S101 - leaves have an argument
        if measure.extreme is not None:
            source: exp.Expr = exp.Table(this=exp.to_identifier("bounded_"))
            value = column(f"{symbol}_{measure.extreme}")
        else:
            source = self._compiler.subquery(self._sampled_rows(symbol, measure.rows))
            value = column(symbol)
        real = functions.cast_form(value.copy(), measure.argument.type, DOUBLE)
        leaf = aliased(self._leaf(measure, task, real), LEAF)
        located = select([*map(column, self._keys), leaf], source).where(not_null(value.copy()))
        counted = [aliased(call("count", exp.Star()), N)]
        return self._with_rows(self._grouped(counted, self._compiler.subquery(located), LEAF))

    def _distinct(self, task: Task) -> exp.Query:
        """Different values, at most c of each owner in each group, chosen by their keyed pick."""
        measure = task.measure
        assert isinstance(measure, DistinctValues)  # noqa: S101 - chosen by statements()
        symbol = self._argument(measure, task.row_grid)
        assert symbol is not None  # noqa: S101 - it has an argument
        names = [OWNER, *self._keys]
        match: list[exp.Expr] = [exp.EQ(this=column(OWNER, "r"), expression=column(OWNER, "b"))]
        match += [same(column(k, "r"), column(k, "b")) for k in self._keys]
        source = exp.Table(this=exp.to_identifier(self._row_source), alias=exp.TableAlias(this=exp.to_identifier("r")))
        kept = exp.Table(this=exp.to_identifier("bounded_"), alias=exp.TableAlias(this=exp.to_identifier("b")))
        joined = select(
            [
                *(aliased(column(n, "r"), n) for n in names),
                aliased(column(symbol, "r"), symbol),
                aliased(column(PICK, "b"), PICK),
                aliased(exp.Literal.number(1), "dup_"),
            ],
            source,
        )
        joined.append("joins", exp.Join(this=kept, on=exp.and_(*match), kind="INNER"))
        joined = joined.where(not_null(column(symbol, "r"))).distinct()
        picked = select(
            [*map(column, names), column(symbol), aliased(self._row_pick([symbol], "dup_"), "row_pick_")],
            self._compiler.subquery(joined),
        )
        ranked = select(
            [exp.Star(), aliased(self._numbered(names, ["row_pick_", symbol]), "row_rank_")],
            self._compiler.subquery(picked),
        )
        limit = exp.LTE(this=column("row_rank_"), expression=exp.Literal.number(measure.values))
        sample = (
            select([*map(column, self._keys), column(symbol)], self._compiler.subquery(ranked)).where(limit).distinct()
        )
        counted = [aliased(call("count", exp.Star()), N)]
        return self._with_rows(self._grouped(counted, self._compiler.subquery(sample)))

    def _histogram(self, histogram: Histogram) -> exp.Query:
        """Logarithmic bins of one value per owner, from the owner's first kept group, or from each (`per_group`)."""
        located = select(
            [*self._bin_keys(histogram), aliased(log_bin(column(N), histogram.top_bin), BIN)],
            self._compiler.subquery(self._binned_values(histogram)),
        ).where(not_null(column(N)))
        columns = [*self._bin_keys(histogram), column(BIN)]
        counted = select([*columns, aliased(call("count", exp.Star()), N)], self._compiler.subquery(located))
        counted.set("group", exp.Group(expressions=[c.copy() for c in columns]))
        return self._with_rows(counted)

    def _bin_keys(self, histogram: Histogram) -> list[exp.Expr]:
        return [column(key) for key in self._keys] if histogram.per_group else []

    def _binned_values(self, histogram: Histogram) -> exp.Select:
        """The values that are counted in bins, in steps of the histogram's grid."""
        measure = histogram.serves
        symbol = self._argument(measure, histogram.grid)
        keys = self._bin_keys(histogram)
        bounded = exp.Table(this=exp.to_identifier("bounded_"))
        first = exp.true() if histogram.per_group else exp.EQ(this=column(RANK), expression=exp.Literal.number(1))
        if not isinstance(measure, (RowCount, OwnerSum, OwnerMean)) and getattr(measure, "extreme", None) is None:
            assert measure.argument is not None  # noqa: S101 - the rest reads rows of an argument
            raw = str(symbol)
            sample = self._compiler.subquery(self._one_row(raw, first_group_only=not histogram.per_group))
            return select([*keys, aliased(on_grid(column(raw), self._type_of(raw), histogram.grid), N)], sample)
        if isinstance(measure, RowCount):
            value: exp.Expr = wide(column(f"{symbol}_n" if symbol else N))
        elif isinstance(measure, OwnerSum):
            value = column(f"{symbol}_sum")
        elif isinstance(measure, OwnerMean):
            present = exp.GT(this=column(f"{symbol}_n"), expression=exp.Literal.number(0))
            return select([*keys, aliased(self._mean(str(symbol)), N)], bounded).where(first).where(present)
        else:
            assert isinstance(measure, Leaves)  # noqa: S101 - only leaves have an extreme
            value = on_grid(column(f"{symbol}_{measure.extreme}"), measure.argument.type, histogram.grid)
        return select([*keys, aliased(value, N)], bounded).where(first)


def leaf_scale(task: Task) -> tuple[float, float]:
    """The lower bound and the factor leaves / (U − L) as the floats every path computes with."""
    measure = task.measure
    assert isinstance(measure, Leaves)  # noqa: S101 - only leaves have one
    assert task.bounds is not None  # noqa: S101 - and bounds
    lower, upper = float(task.bounds.lower), float(task.bounds.upper)
    return lower, (measure.leaf_count / (upper - lower) if upper > lower else 0.0)


def log_bin(value: exp.Expr, top: int) -> exp.Expr:
    """0 for 0, else ±(1 + ⌊log₂|v|⌋), at most ±top: a float logarithm, mended where it rounds across a power of two."""
    size = call("least", call("abs", value), integer(2 ** (SATURATION_BITS + 30)))
    guess = exp.Cast(
        this=call("floor", call("log2", exp.Cast(this=call("greatest", size, integer(1)), to=data_type("DOUBLE")))),
        to=data_type("INT"),
    )
    low_power = exp.BitwiseLeftShift(this=integer(1), expression=exp.Paren(this=guess))
    too_high = exists(exp.GT(this=low_power, expression=size.copy()))
    high_power = exp.BitwiseLeftShift(this=integer(2), expression=exp.Paren(this=guess.copy()))
    too_low = exists(exp.LTE(this=high_power, expression=size.copy()))
    number = plus(
        exp.Sub(this=exp.Paren(this=guess.copy()), expression=exp.Paren(this=too_high)),
        plus(too_low, exp.Literal.number(1)),
    )
    number = call("least", number, exp.Literal.number(top))
    return exp.Case(
        ifs=[
            exp.If(this=exp.EQ(this=value.copy(), expression=exp.Literal.number(0)), true=exp.Literal.number(0)),
            exp.If(
                this=exp.LT(this=value.copy(), expression=exp.Literal.number(0)),
                true=exp.Neg(this=exp.Paren(this=number)),
            ),
        ],
        default=number.copy(),
    )
