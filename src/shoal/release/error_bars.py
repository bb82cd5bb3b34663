"""What error bars at any level are computed from: noisy numbers and public parameters, nothing else of a query.

An answer carries this with it, in memory and in its bytes: no exact total, sampling key or tree is in it.
"""

from __future__ import annotations

from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.deadline import Deadline
from shoal.frozen import dataclass
from shoal.mechanisms.ranks.bands import RankBands
from shoal.params import Bounds
from shoal.plan.aggregates.defaults import Clamped as Moved
from shoal.plan.aggregates.noisy_measure import nothing
from shoal.plan.types import Kind
from shoal.release.computed.draws import LEVELS, Input, Ladder, drawn_ends, end_name, seed_of
from shoal.release.computed.parts import parts_of
from shoal.release.cuts.quotients import is_grouped_by_itself
from shoal.release.cuts.widening import Widening, of_bounds, of_limits, of_quantile, of_rows
from shoal.release.postprocess import evaluated
from shoal.rewrite.limits.choosing import HALF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from shoal.plan.aggregates import Aggregate, NoisyMeasure
    from shoal.plan.nodes import Node
    from shoal.plan.releases import Column, SelectPlan, StatementPlan
    from shoal.release.computed.carried import Source
    from shoal.release.computed.columns import Computed
    from shoal.release.computed.draws import LookedAt
    from shoal.release.cuts.clamped import Clamped
    from shoal.release.cuts.widening import Ends
    from shoal.release.postprocess import Answer
    from shoal.release.stored_rows import StoredRows
    from shoal.rewrite.limits.choosing import Kept

NO_VALUES = np.zeros(0)
ENDS = pa.list_(pa.float64())
FACTS = frozenset({"expression", "listed", "catalog", "one row"})
"""Sources of bounds that are declared to hold for every value."""
ZERO_TO_ONE = Bounds(Fraction(0), Fraction(1))
"""Bounds of a share."""
SECONDS_TO_EVALUATE = 60.0
"""Expressions over released numbers; no data is read."""


@dataclass(frozen=True, slots=True)
class CopiedAggregate:
    """A private aggregate that a column of the answer is a plain copy of.

    `numbers` are the columns that carry what is behind it; `classes` says how each of them was taken: once for all groups,
    or once for every class of groups whose bounds are the same (then the last of `numbers` is the number of the class).
    """

    aggregate: Aggregate
    numbers: tuple[str, ...]
    classes: tuple[tuple[NoisyMeasure, ...], ...]
    widenings: tuple[Widening, ...]
    """How far the ends of each class move, because limits or bounds left something out."""
    levels: tuple[float, ...] = ()
    """For quantiles: the levels of the intervals that the first of `numbers` lists, rank by rank, low ends and high ends."""

    @property
    def is_widened(self) -> bool:
        """Whether any end is moved."""
        return any(widening.widens for widening in self.widenings)

    @property
    def is_cut(self) -> bool:
        """Whether any end stays within what is possible."""
        return any(widening.least is not None or widening.most is not None for widening in self.widenings)

    def fill(
        self, carried: list[NDArray[Any]], level: float, low: NDArray[Any], high: NDArray[Any], *, whole: bool
    ) -> None:
        """The intervals of this aggregate, in the rows that have its numbers."""
        if self.levels:
            listed, *carried = carried
            own = np.array([each is not None for each in listed], dtype=np.bool_)
        else:
            own = ~np.isnan(carried[0].astype(np.float64))
        values = [np.nan_to_num(each) for each in carried]
        releases = len(self.classes[0]) if self.classes and not self.levels else 0
        class_of_row = values.pop() if len(values) > releases else np.zeros(len(own))
        for number, (taken, widening) in enumerate(zip(self.classes, self.widenings, strict=True)):
            here = np.flatnonzero(own & (class_of_row == number))
            if self.levels:
                readings = [replace(taken[0], values=here, bands=self._bands(listed[here]))]
            elif any(each.measure.is_tree for each in taken):
                continue
            else:
                readings = [replace(t, values=np.asarray(v)[here]) for t, v in zip(taken, values, strict=True)]
            ends = self.aggregate.interval(readings, level)
            low[here], high[here] = widening.of(*ends, whole=whole, sizes=self.aggregate.owners_of(readings))

    def _bands(self, listed: NDArray[Any]) -> RankBands:
        """The intervals that are carried."""
        ranks = self.aggregate.ranks
        shape = len(listed), 2, len(ranks), len(self.levels)
        ends = np.array([np.asarray(each, dtype=np.float64) for each in listed]).reshape(shape)
        return RankBands(ranks, self.levels, ends[:, 0], ends[:, 1])


@dataclass(frozen=True, slots=True)
class ErrorBars:
    """The noisy numbers behind an answer, row by row, and which aggregates each of its columns copies."""

    numbers: pa.Table
    columns: Mapping[int, tuple[CopiedAggregate, ...]]
    drawn: Mapping[int, bool] = field(default_factory=dict)
    """Columns that are computed, whose ends were drawn; whether anything that they read is widened."""

    def is_widened(self, index: int) -> bool:
        """Whether limits on each owner left something out of a column."""
        return self.drawn.get(index, False) or any(each.is_widened for each in self.columns.get(index, ()))

    def bounds(self, index: int) -> Bounds | None:
        """For a column of one quantile, or of averages, the values it lies between."""
        copied = self.columns.get(index, ())
        one = copied[0] if len(copied) == 1 and len(copied[0].classes) == 1 else None
        if one is None or not (len(one.aggregate.ranks) == 1 or one.aggregate.clamped is Moved.MEAN):
            return None
        return next((taken.bounds for taken in one.classes[0] if taken.bounds is not None), None)

    def interval(self, index: int, table: pa.Table, level: float, *, whole: bool = True) -> Ends | None:
        """(low, high) of a column, None if it is not a copy of a private aggregate; without `whole`, of its noise alone."""
        copied = self.columns.get(index, ())
        if index in self.drawn:
            return self._drawn_interval(index, level, "whole" if whole else "noise")
        if not copied:
            return None
        low, high = (np.full(table.num_rows, None, dtype=object) for _ in range(2))
        for each in copied:
            carried = [self.numbers.column(name).to_numpy(zero_copy_only=False) for name in each.numbers]
            each.fill(carried, level, low, high, whole=whole)
        # An outer join has rows without a number, and so without an interval.
        missing = table.column(index).is_null().to_numpy(zero_copy_only=False)
        low[missing] = high[missing] = None
        return _around_shown(low, high, table.column(index)) if any(each.is_cut for each in copied) else (low, high)

    def _drawn_interval(self, index: int, level: float, part: str) -> Ends:
        """The ends at the next level that was drawn; none above the highest."""
        known = next((each for each in LEVELS if each >= level), None)
        if known is None:
            return nothing(self.numbers.num_rows), nothing(self.numbers.num_rows)
        low, high = (
            np.array(self.numbers.column(end_name(index, part, side, known)).to_pylist(), dtype=object)
            for side in ("low", "high")
        )
        return low, high


def _around_shown(low: NDArray[Any], high: NDArray[Any], shown: pa.ChunkedArray) -> Ends:
    """Ends cut to what is possible never exclude the number shown, which noise may have made impossible."""
    if not (pa.types.is_integer(shown.type) or pa.types.is_floating(shown.type)):
        return low, high
    for position, value in enumerate(shown.to_pylist()):
        if value is not None and low[position] is not None:
            low[position], high[position] = min(low[position], float(value)), max(high[position], float(value))
    return low, high


def error_bars(plan: StatementPlan, finished: Answer) -> ErrorBars:
    """Taken from a query that was just answered."""
    columns: dict[int, tuple[CopiedAggregate, ...]] = {}
    numbers, drawn = _with_drawn(plan, finished)
    for index, sources in finished.carried.items():
        copied = []
        for number, source in enumerate(s for s in sources if _has_intervals(_column(plan, s))):
            found, listed = _with_bands(plan, finished, finished.components, source, f"bands_{index}_{number}")
            numbers = numbers if listed is None else numbers.append_column(found.numbers[0], listed)
            copied.append(found)
        if copied:
            columns[index] = tuple(copied)
    return ErrorBars(numbers, columns, drawn)


def _with_bands(
    plan: StatementPlan, finished: Answer, components: pa.Table, source: Source, name: str
) -> tuple[CopiedAggregate, pa.Array | None]:
    """Quantiles carry their intervals: each row those of its own group, found by its number."""
    copied = _copied(plan, finished, source)
    release = _as_run(finished, source, _column(plan, source)).releases[0]
    bands = [taken[release].bands for taken in finished.released[source.select].readings]
    levels = next((each.levels for each in bands if each is not None), ())
    if not levels:
        return copied, None
    numbers, *of_class = (
        components.column(n).to_numpy(zero_copy_only=False).astype(np.float64) for n in source.numbers
    )
    class_of = of_class[-1] if of_class else np.zeros(len(numbers))
    listed: list[list[float] | None] = [None] * len(numbers)
    for number, each in enumerate(bands):
        if each is None:
            continue
        here = np.flatnonzero(~np.isnan(numbers) & (class_of == number))
        own, rows = each.of(copied.aggregate.ranks), numbers[here].astype(np.int64)
        both = np.stack([own.low[rows], own.high[rows]], axis=1).reshape(
            len(here), 2 * len(own.fractions) * len(levels)
        )
        for position, ends in zip(here.tolist(), both.tolist(), strict=True):
            listed[position] = ends
    return replace(copied, numbers=(name, *source.numbers[1:]), levels=levels), pa.array(listed, ENDS)


def _with_drawn(plan: StatementPlan, finished: Answer) -> tuple[pa.Table, dict[int, bool]]:
    """The noisy numbers together with the drawn ends of computed columns."""
    numbers = finished.components
    drawn: dict[int, bool] = {}
    if finished.computed and finished.others is not None:
        sources = _inputs(plan, finished, finished.inputs, numbers)
        computed, table = finished.computed, finished.table
        ends, drawn = _ends_of(plan, computed, finished.inputs, sources, finished.others, table, seed_of(numbers))
        for name, end in ends.items():
            numbers = numbers.append_column(name, end)
    for each in finished.windows:
        sources, seed = _inputs(plan, finished, each.inputs, each.components), seed_of(each.components)
        ends, more = _ends_of(plan, each.computed, each.inputs, sources, each.others, finished.table, seed, each.groups)
        drawn |= more
        for name, end in ends.items():
            numbers = numbers.append_column(name, end)
    of_parts, widened = _ends_of_parts(plan, finished)
    for name, filled in of_parts.items():
        numbers = numbers.append_column(name, pa.array(filled, from_pandas=True))
    return numbers, drawn | widened


def _ends_of_parts(plan: StatementPlan, finished: Answer) -> tuple[dict[str, NDArray[np.float64]], dict[int, bool]]:
    """Columns that are computed in the parts of a UNION ALL: each part is drawn alone, and fills its own rows."""
    found: dict[str, NDArray[np.float64]] = {}
    widened: dict[int, bool] = {}
    for part in finished.parts:
        sources, table = _inputs(plan, finished, part.inputs, part.components), finished.table.take(pa.array(part.rows))
        ends, more = _ends_of(plan, part.computed, part.inputs, sources, part.others, table, seed_of(part.components))
        widened |= {position: widened.get(position, False) or wide for position, wide in more.items()}
        for name, end in ends.items():
            filled = found.setdefault(name, np.full(finished.table.num_rows, np.nan))
            filled[part.rows] = end.to_numpy(zero_copy_only=False)
    return found, widened


def _inputs(plan: StatementPlan, finished: Answer, sources: Mapping[str, Source], components: pa.Table) -> list[Input]:
    found = (_input(plan, finished, components, symbol, source) for symbol, source in sources.items())
    return [each for each in found if each is not None]


def _ends_of(
    plan: StatementPlan,
    computed: Mapping[int, Computed],
    sources: Mapping[str, Source],
    inputs: list[Input],
    others: pa.Table,
    answer: pa.Table,
    seed: int,
    groups: LookedAt | None = None,
) -> tuple[dict[str, pa.Array], dict[int, bool]]:
    """The ends of computed columns, by name; and for each column, whether anything that it reads is widened."""
    known = {each.symbol for each in inputs}
    read = {position: column for position, column in computed.items() if column.symbols & sources.keys() <= known}
    ends = drawn_ends(read, inputs, others, answer, _evaluated, seed, groups, parts_of(plan, sources))
    widened = {each.symbol for each in inputs if each.widening.widens}
    more = groups is not None and groups.even_chance > 0
    return ends, {position: more or bool(column.symbols & widened) for position, column in read.items()} if ends else {}


def _evaluated(root: Node, tables: dict[str, pa.Table]) -> pa.Table:
    return evaluated(root, tables, Deadline(SECONDS_TO_EVALUATE))


def _input(plan: StatementPlan, finished: Answer, components: pa.Table, symbol: str, source: Source) -> Input | None:
    """One aggregate to be drawn; None if it has no number, or none in some row."""
    copied = _copied(plan, finished, source)
    if any(taken.measure.is_tree for taken in copied.classes[0]):
        return _input_of_quantile(plan, finished, components, symbol, source)
    carried = [components.column(name).to_numpy(zero_copy_only=False) for name in source.numbers]
    unbounded = any(taken.steps is None and taken.measure.needs_bounds for taken in copied.classes[0])
    if unbounded or any(np.isnan(each.astype(np.float64)).any() for each in carried):
        return None
    call = plan.selects[source.select].columns[source.column].call
    return Input(
        symbol, replace(call, aggregate=copied.aggregate), copied.classes[0], tuple(carried), copied.widenings[0]
    )


def _input_of_quantile(
    plan: StatementPlan, finished: Answer, components: pa.Table, symbol: str, source: Source
) -> Input | None:
    """A quantile, by its intervals at all levels; None if some row has none."""
    copied, listed = _with_bands(plan, finished, components, source, "listed")
    if listed is None or listed.null_count:
        return None
    carried = [
        listed.to_numpy(zero_copy_only=False),
        *(components.column(name).to_numpy(zero_copy_only=False) for name in source.numbers[1:]),
    ]
    ladders = []
    for whole in (False, True):
        ends = np.zeros((2, len(LEVELS), len(listed)))
        for number, level in enumerate(LEVELS):
            low, high = (nothing(len(listed)) for _ in range(2))
            copied.fill(carried, level, low, high, whole=whole)
            if any(end is None for end in (*low, *high)):
                return None
            ends[:, number] = low.astype(np.float64), high.astype(np.float64)
        ladders.append(Ladder(*ends))
    call = plan.selects[source.select].columns[source.column].call
    return Input(symbol, call, (), (), copied.widenings[0], (ladders[0], ladders[1]))


def _column(plan: StatementPlan, source: Source) -> Column:
    return plan.selects[source.select].columns[source.column]


def _as_run(finished: Answer, source: Source, planned: Column) -> Column:
    """A column as it ran: found limits may have changed which releases it reads."""
    columns = finished.released[source.select].columns
    return columns[source.column] if columns else planned


def _has_intervals(column: Column) -> bool:
    return column.call.report is None and bool(column.releases)


def _copied(plan: StatementPlan, finished: Answer, source: Source) -> CopiedAggregate:
    column = _as_run(finished, source, _column(plan, source))
    classes = tuple(
        tuple(replace(taken[release], values=NO_VALUES, forest=None, bands=None) for release in column.releases)
        for taken in finished.released[source.select].readings
    )
    stored = finished.released[source.select]
    kept = stored.kept[source.column] if stored.kept else None
    clamped = stored.clamped or ((),) * len(classes)
    grouped = bool(plan.selects[source.select].select.keys)
    possible = _possible(plan.selects[source.select], source.column, stored, grouped=grouped)
    beyond = stored.beyond[source.column] if stored.beyond else None
    one_row, asked = plan.selects[source.select].one_row, plan.selects[source.select].select
    keys = (value for _, value in asked.keys)
    by_itself = is_grouped_by_itself(column.call.aggregate.argument, keys, asked.input)
    widenings = tuple(
        _widening(column, kept, taken, (cut, beyond), grouped=grouped, one_row=one_row, by_itself=by_itself).and_also(
            possible
        )
        for taken, cut in zip(classes, clamped, strict=True)
    )
    return CopiedAggregate(column.call.aggregate, source.numbers, classes, widenings)


def _possible(select: SelectPlan, position: int, stored: StoredRows, *, grouped: bool) -> Widening:
    """What the exact number can be: by its nature, by the size of a public list, by bounds that are facts.

    Bounds of a query clamp, and the exact value may lie beyond them. Those of constants are facts. Those of the catalog are
    what the custodian says about values; if what lies beyond them was measured, a group may consist of that alone.
    """
    call = select.select.aggregates[position]
    beyond = stored.beyond[position] if stored.beyond else None
    certain = call.bounds_source in FACTS and (call.bounds_source != "catalog" or beyond is None)
    # A limit on sums was found for one side of 0 because no row lies on the other.
    certain |= call.bounds_source == "found" and call.bounds is not None and call.bounds.lower >= 0
    least, most = call.aggregate.possible(call.bounds if certain else None)
    if call.bounds is not None and call.bounds_source == "catalog" and beyond is not None and not grouped:
        least, most = call.aggregate.possible(
            Bounds(call.bounds.lower - Fraction(beyond.below.feared), call.bounds.upper + Fraction(beyond.above.feared))
        )
    size = select.domains[position] if select.domains else None
    return Widening(least=least, most=most if size is None else Fraction(size))


def _widening(
    column: Column,
    kept: Kept | None,
    taken: tuple[NoisyMeasure, ...],
    clamped: tuple[tuple[Clamped | None, ...], Clamped | None],
    *,
    grouped: bool,
    one_row: bool,
    by_itself: bool,
) -> Widening:
    """What limits cut, and what found or given bounds cut; a count whose bound was not found counts each owner once."""
    aggregate = column.call.aggregate
    bounds = next((each.bounds for each in taken if each.bounds is not None), None)
    never_negative = bounds is not None and bounds.lower >= 0
    by_histogram, found = clamped
    if column.histogram is not None:
        found = by_histogram[column.histogram] if column.histogram < len(by_histogram) else None
    if column.histogram is not None and found is None and aggregate.stands_without_bounds:
        kept = kept or HALF
    if aggregate.ranks:
        return of_quantile(aggregate, found, bounds)
    return (
        of_limits(aggregate, kept, never_negative=never_negative)
        .and_also(of_bounds(aggregate, found, bounds, grouped=grouped, one_row=one_row, by_itself=by_itself))
        .and_also(of_rows(aggregate, kept, bounds, grouped=grouped))
        .and_also(_of_zeros_and_ones(column, found, bounds))
    )


def _of_zeros_and_ones(column: Column, found: Clamped | None, bounds: Bounds | None) -> Widening:
    """Whole numbers for which [0, 1] was found are taken for zeros and ones if nothing is seen beyond: their average is a share."""
    aggregate = column.call.aggregate
    argument = aggregate.argument
    whole = argument is not None and argument.type.kind is Kind.INTEGER and aggregate.clamped is Moved.MEAN
    if not whole or column.histogram is None or found is None or found.seen or bounds != ZERO_TO_ONE:
        return Widening()
    return Widening(least=bounds.lower, most=bounds.upper)
