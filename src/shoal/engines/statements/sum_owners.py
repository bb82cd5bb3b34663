"""Bounded contributions summed over owners in exact integers, as SQL: one statement for each kind of measure.

totals    one row per group: owners, and what measures of one number per owner add up to
sampled   one row per group: sums over sampled rows
leaves    one row per group and leaf of a tree; distinct and histograms alike
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.bound_owners import DEGREE, ONE, RANK, RUNNING, WHOLE, BoundOwners, N, clamped_value
from shoal.engines.statements.integers import (
    clamped,
    exists,
    floor_divided,
    integer,
    log_bin,
    not_null,
    on_grid,
    plus,
    times,
    wide,
)
from shoal.engines.statements.relations import aliased, call, column, select
from shoal.frozen import dataclass
from shoal.plan.measures import (
    SATURATION_BITS,
    DistinctValues,
    Histogram,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    OwnerWeight,
    RowCount,
    RowMoment,
)
from shoal.plan.types import DOUBLE
from shoal.sql import functions
from shoal.sql.functions.forms import try_cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shoal.plan.totals import GridMeasure, SamplingKey, TotalsQuery

OWNERS, LEAF, BIN, VALUE = "owners_", "leaf_", "bin_", "value_"


@dataclass(frozen=True, slots=True)
class Statements:
    """What to run: totals always; the rest as the measures need. `sampled` maps a statement to the tasks it answers."""

    totals: exp.Query
    groups: exp.Query | None
    sampled: tuple[tuple[exp.Query, tuple[int, ...]], ...]
    leaves: tuple[tuple[exp.Query, int], ...]
    distinct: tuple[tuple[exp.Query, int], ...]
    histograms: tuple[exp.Query, ...]

    def all(self) -> tuple[exp.Query, ...]:
        """Every statement; all of them begin with the same common tables."""
        listed = (query for several in (self.sampled, self.leaves, self.distinct) for query, _ in several)
        groups = () if self.groups is None else (self.groups,)
        return (self.totals, *groups, *listed, *self.histograms)


class Summing:
    """Writes the statements of one contribution query."""

    def __init__(self, query: TotalsQuery, key: SamplingKey, tables: Mapping[str, exp.Expr]) -> None:
        self._bounding = BoundOwners(query, key, tables)

    def statements(self) -> Statements:
        """Everything that has to be run."""
        tasks = self._bounding.query.tasks
        sampled: dict[tuple[object, int], list[int]] = {}
        for index, task in enumerate(tasks):
            if task.measure.sums_rows:
                sampled.setdefault((task.measure.argument, task.measure.rows_summed), []).append(index)
        return Statements(
            totals=self._totals(),
            groups=self._bounding.with_rows(
                select([column(k) for k in self._bounding.keys], exp.Table(this=exp.to_identifier("groups_")))
            )
            if self._bounding.query.public_groups is not None
            else None,
            sampled=tuple((self._moments(indices), tuple(indices)) for indices in sampled.values()),
            leaves=tuple((self._leaves(t), i) for i, t in enumerate(tasks) if t.measure.is_tree),
            distinct=tuple((self._distinct(t), i) for i, t in enumerate(tasks) if not t.measure.additive),
            histograms=tuple(self._histogram(h) for h in self._bounding.query.histograms),
        )

    def _grouped(self, items: Sequence[exp.Expr], source: exp.Expr, *extra: str) -> exp.Select:
        keys = [*self._bounding.keys, *extra]
        query = select([*map(column, keys), *items], source)
        if keys:
            query.set("group", exp.Group(expressions=[column(k) for k in keys]))
        return query

    def _totals(self) -> exp.Query:
        items = [aliased(call("count", exp.Star()), OWNERS)]
        for index, task in enumerate(self._bounding.query.tasks):
            if not task.measure.reads_rows:
                items.append(aliased(call("sum", self._owner_value(task)), f"m{index}"))
        return self._bounding.with_rows(self._grouped(items, exp.Table(this=exp.to_identifier("bounded_"))))

    def _owner_value(self, task: GridMeasure) -> exp.Expr:
        """What one owner adds to one group, in steps of the task's grid, clamped after the per-owner aggregate."""
        symbol = self._bounding.argument(task.measure, task.row_grid)
        if task.measure.limited_in_all:
            return _part_of_all(task, symbol, self._bounding.query.tasks.index(task))
        return PER_OWNER[type(task.measure)](task, symbol)

    def _moments(self, indices: list[int]) -> exp.Query:
        """Σ (clamp(x) − m)^power over sampled rows, for all powers of one argument."""
        tasks = [self._bounding.query.tasks[i] for i in indices]
        measure = tasks[0].measure
        assert isinstance(measure, RowMoment)  # noqa: S101 - chosen by statements()
        symbol = self._bounding.argument(measure, ONE)
        if symbol is None:
            # COUNT(*) with rows bounded per owner: every kept row is one.
            counted = [aliased(call("count", exp.Star()), f"m{i}") for i in indices]
            return self._bounding.with_rows(
                self._grouped(counted, exp.Table(this=exp.to_identifier(self._bounding.row_source)))
            )
        sample = self._bounding.compiler.subquery(self._bounding.sampled_rows(symbol, measure.rows))
        items: list[exp.Expr] = [
            aliased(call("sum", self._row_value(task, symbol)), f"m{index}")
            for index, task in zip(indices, tasks, strict=True)
        ]
        return self._bounding.with_rows(self._grouped(items, sample))

    def _row_value(self, task: GridMeasure, symbol: str) -> exp.Expr:
        measure = task.measure
        assert isinstance(measure, RowMoment)  # noqa: S101 - by construction
        if measure.power == 0:
            return integer(1)
        assert task.steps is not None  # noqa: S101 - these moments have bounds
        steps = on_grid(column(symbol), self._bounding.type_of(symbol), task.row_grid)
        if measure.origin == "between":
            inside = exp.Paren(this=clamped(steps, task.steps.lower, task.steps.upper))
            above = exp.Paren(this=exp.Sub(this=inside, expression=integer(task.steps.lower)))
            below = exp.Paren(this=exp.Sub(this=integer(task.steps.upper), expression=inside.copy()))
            return times(integer(2), times(above, below))
        middle = task.steps.middle if measure.centred else 0
        centred = exp.Sub(
            this=exp.Paren(this=clamped(steps, task.steps.lower, task.steps.upper)), expression=integer(middle)
        )
        value: exp.Expr = exp.Paren(this=centred)
        if measure.power == 2:
            value = times(value, value.copy())
        return _rescaled(value, task)

    def _leaf(self, measure: Leaves, task: GridMeasure, value: exp.Expr) -> exp.Expr:
        """⌊(x − L)·(leaves / (U − L))⌋, at least 0 and at most the last leaf; the same IEEE operations everywhere."""
        lower, factor = task.leaf_scale
        position = times(
            exp.Sub(this=exp.Paren(this=value), expression=functions.double_form(lower)), functions.double_form(factor)
        )
        last = functions.double_form(float(measure.leaf_count - 1))
        inside = call("least", call("greatest", call("floor", position), functions.double_form(0.0)), last)
        return try_cast(inside, "BIGINT")

    def _leaves(self, task: GridMeasure) -> exp.Query:
        measure = task.measure
        assert isinstance(measure, Leaves)  # noqa: S101 - chosen by statements()
        symbol = self._bounding.argument(measure, task.row_grid)
        assert symbol is not None  # noqa: S101 - leaves have an argument
        if measure.extreme is not None:
            source: exp.Expr = exp.Table(this=exp.to_identifier("bounded_"))
            value = column(f"{symbol}_{measure.extreme}")
        else:
            source = self._bounding.compiler.subquery(self._bounding.sampled_rows(symbol, measure.rows))
            value = column(symbol)
        real = functions.cast_form(value.copy(), measure.argument.type, DOUBLE)
        leaf = aliased(self._leaf(measure, task, real), LEAF)
        located = select([*map(column, self._bounding.keys), leaf], source).where(not_null(value.copy()), copy=False)
        counted = [aliased(call("count", exp.Star()), N)]
        return self._bounding.with_rows(self._grouped(counted, self._bounding.compiler.subquery(located), LEAF))

    def _distinct(self, task: GridMeasure) -> exp.Query:
        """How many different values every group has."""
        kept = self._bounding.compiler.subquery(self._kept_values(task)[0])
        return self._bounding.with_rows(self._grouped([aliased(call("count", exp.Star()), N)], kept))

    def _kept_values(self, task: GridMeasure) -> tuple[exp.Select, str]:
        """Different values, at most c of each owner in each group, chosen by their keyed pick; and the column they are in."""
        measure = task.measure
        assert isinstance(measure, DistinctValues)  # noqa: S101 - chosen by statements()
        symbol = self._bounding.argument(measure, task.row_grid)
        assert symbol is not None  # noqa: S101 - it has an argument
        kept = self._bounding.compiler.subquery(self._bounding.sampled_values(symbol, measure.values))
        return select([*map(column, self._bounding.keys), column(symbol)], kept).distinct(copy=False), symbol

    def kept_values(self, task: GridMeasure) -> exp.Query:
        """The same as rows of (keys, value): where owners are measured apart, values of different owners may be equal."""
        kept, symbol = self._kept_values(task)
        items = [*map(column, self._bounding.keys), aliased(column(symbol), VALUE)]
        return self._bounding.with_rows(select(items, self._bounding.compiler.subquery(kept)))

    def _histogram(self, histogram: Histogram) -> exp.Query:
        """Logarithmic bins of one value per owner, from the owner's first kept group, or from each (`per_group`)."""
        value: exp.Expr = column(N)
        if histogram.ends_at_powers:
            value = exp.Paren(this=exp.Sub(this=value, expression=call("sign", column(N))))
        located = select(
            [*self._bin_keys(histogram), aliased(log_bin(value, histogram.top_bin), BIN)],
            self._bounding.compiler.subquery(self._binned_values(histogram)),
        ).where(not_null(column(N)), copy=False)
        columns = [*self._bin_keys(histogram), column(BIN)]
        counted = select([*columns, aliased(call("count", exp.Star()), N)], self._bounding.compiler.subquery(located))
        counted.set("group", exp.Group(expressions=[c.copy() for c in columns]))
        return self._bounding.with_rows(counted)

    def _bin_keys(self, histogram: Histogram) -> list[exp.Expr]:
        return [column(key) for key in self._bounding.keys] if histogram.per_group else []

    def _binned_values(self, histogram: Histogram) -> exp.Select:
        """The values that are counted in bins, in steps of the histogram's grid."""
        measure = histogram.serves
        symbol = self._bounding.argument(measure, histogram.grid)
        keys = self._bin_keys(histogram)
        bounded = exp.Table(this=exp.to_identifier("bounded_"))
        first = exp.true() if histogram.per_group else exp.EQ(this=column(RANK), expression=exp.Literal.number(1))
        if measure.reads_rows and measure.extreme is None:
            assert measure.argument is not None  # noqa: S101 - rows are read of an argument
            raw = str(symbol)
            sample = self._bounding.compiler.subquery(
                self._bounding.one_row(raw, first_group_only=not histogram.per_group)
            )
            return select(
                [*keys, aliased(on_grid(column(raw), self._bounding.type_of(raw), histogram.grid), N)], sample
            )
        value = BINNED_PER_OWNER[type(measure)](histogram, symbol)
        chosen = select([*keys, aliased(value, N)], bounded).where(first, copy=False)
        return chosen.where(_present(symbol), copy=False) if measure.centred else chosen


# ---- what one owner adds to one group, by the class of the measure ----------------------------------------------------


def _present(symbol: str | None) -> exp.Expr:
    """Whether the owner has a value: one without adds nothing, also where the bounds leave out 0."""
    return exp.GT(this=column(f"{symbol}_n"), expression=exp.Literal.number(0))


def _rows_of(symbol: str | None) -> exp.Expr:
    return wide(column(f"{symbol}_n" if symbol else N))


def _mean(symbol: str) -> exp.Expr:
    """⌊(2S + n) / 2n⌋: one fixed rounding; S is lifted above zero so that every engine's division agrees."""
    lift = 2 ** (SATURATION_BITS + 1)
    rows = call("greatest", wide(column(f"{symbol}_n")), integer(1))
    lifted = plus(column(f"{symbol}_sum"), times(integer(lift), rows))
    numerator = plus(times(integer(2), lifted), rows.copy())
    quotient = exp.IntDiv(this=exp.Paren(this=numerator), expression=exp.Paren(this=times(integer(2), rows.copy())))
    return exp.Sub(this=exp.Paren(this=quotient), expression=integer(lift))


def _rescaled(value: exp.Expr, task: GridMeasure) -> exp.Expr:
    if task.shrink > 1:
        return floor_divided(plus(times(integer(2), value), integer(task.shrink)), 2 * task.shrink)
    return times(value, integer(task.stretch)) if task.stretch > 1 else value


def _clamped(value: exp.Expr, task: GridMeasure) -> exp.Expr:
    assert task.steps is not None  # noqa: S101 - these measures have bounds
    return clamped(value, task.steps.lower, task.steps.upper)


def _where_present(value: exp.Expr, symbol: str | None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_present(symbol), true=value)], default=integer(0))


def _owner_count(task: GridMeasure, symbol: str | None) -> exp.Expr:  # noqa: ARG001 - one owner is one on any grid
    return wide(exists(_present(symbol))) if symbol else integer(1)


def _owner_weight(task: GridMeasure, symbol: str | None) -> exp.Expr:  # noqa: ARG001 - of all rows
    """The weight beside the first degree that is not below the owner's own."""
    assert isinstance(task.measure, OwnerWeight)  # noqa: S101 - chosen by PER_OWNER
    *steps, (_, least) = task.measure.weights
    if not steps:
        return integer(least)
    branches = [
        exp.If(this=exp.LTE(this=column(DEGREE), expression=exp.Literal.number(degree)), true=integer(weight))
        for degree, weight in steps
    ]
    return exp.Case(ifs=branches, default=integer(least))


def _row_count(task: GridMeasure, symbol: str | None) -> exp.Expr:
    return _rescaled(_clamped(_rows_of(symbol), task), task)


def _owner_sum(task: GridMeasure, symbol: str | None) -> exp.Expr:
    total = exp.Coalesce(this=column(f"{symbol}_sum"), expressions=[integer(0)])
    return _where_present(_rescaled(_clamped(total, task), task), symbol)


def _owner_mean(task: GridMeasure, symbol: str | None) -> exp.Expr:
    assert task.steps is not None  # noqa: S101 - means have bounds
    mean = _clamped(_mean(str(symbol)), task)
    return _where_present(exp.Sub(this=exp.Paren(this=mean), expression=integer(task.steps.middle)), symbol)


def _part_of_all(task: GridMeasure, symbol: str | None, index: int) -> exp.Expr:
    """What is left in a group where all groups of an owner hold at most T: Cᵢ·T/C − Cᵢ₋₁·T/C, each rounded down."""
    assert task.steps is not None  # noqa: S101 - limits are bounds
    value, most = clamped_value(task, symbol), integer(task.steps.magnitude)
    running, whole = column(f"{RUNNING}{index}"), column(f"{WHOLE}{index}")
    before = exp.Sub(this=running, expression=call("abs", value))
    up_to, up_to_before = (
        exp.IntDiv(this=exp.Paren(this=times(part, most.copy())), expression=whole.copy()) for part in (running, before)
    )
    size = exp.Paren(this=exp.Sub(this=exp.Paren(this=up_to), expression=exp.Paren(this=up_to_before)))
    cut = times(wide(call("sign", value.copy())), size)
    within = exp.LTE(this=whole.copy(), expression=most.copy())
    return exp.Case(ifs=[exp.If(this=within, true=value.copy())], default=cut)


def _binned_extreme(histogram: Histogram, symbol: str | None) -> exp.Expr:
    measure = histogram.serves
    assert isinstance(measure, Leaves)  # noqa: S101 - only leaves have an extreme
    return on_grid(column(f"{symbol}_{measure.extreme}"), measure.argument.type, histogram.grid)


PER_OWNER: dict[type, Callable[[GridMeasure, str | None], exp.Expr]] = {
    OwnerCount: _owner_count,
    OwnerWeight: _owner_weight,
    RowCount: _row_count,
    OwnerSum: _owner_sum,
    OwnerMean: _owner_mean,
}
"""What one owner adds, for measures of one number per owner; `engines.memory.totals.PER_OWNER` gives the same integers."""
BINNED_PER_OWNER: dict[type, Callable[[Histogram, str | None], exp.Expr]] = {
    RowCount: lambda _, symbol: _rows_of(symbol),
    OwnerSum: lambda _, symbol: column(f"{symbol}_sum"),
    OwnerMean: lambda _, symbol: _mean(str(symbol)),
    Leaves: _binned_extreme,
}
"""The value of one owner that is counted in logarithmic bins; what is not listed is read row by row."""
