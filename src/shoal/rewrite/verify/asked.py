"""Whether a plan matches its own SELECT: contributions, measures, bounds and rules are the requested ones."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    OptimalSelection,
    QuantileChoice,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.errors import InternalError
from shoal.params import Bounds
from shoal.plan import aggregates
from shoal.plan.measures import (
    DistinctValues,
    Histogram,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
    TotalRows,
    TotalSum,
)
from shoal.plan.releases import Contribution, Inferred
from shoal.plan.types import Kind
from shoal.rewrite.verify.moves import wholes_of
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from shoal.plan.measures import Measure
    from shoal.plan.releases import AggregateCall, Column, SelectPlan

_KIND_OF_RULE = {
    "OPTIMAL": OptimalSelection,
    "LAPLACE_THRESHOLD": LaplaceNoise,
    "GAUSSIAN_THRESHOLD": GaussianNoise,
    "WEIGHTED": WeightedSelection,
}
_RULES = frozenset({OptimalSelection, ThresholdSelection, WeightedSelection, WholeSelection})
"""Every rule whose cost is derived here or by the accountants; one that is new elsewhere is refused until it is listed."""
_FINEST = 10**6
"""Fractions are rounded to this denominator before they are looked up."""
_ONE_EACH = Bounds(Fraction(0), Fraction(1))
_KIND_OF_NOISE = {"LAPLACE": LaplaceNoise, "GAUSSIAN": GaussianNoise}


def check_asked(plan: SelectPlan) -> None:
    """Everything in a plan that follows from its SELECT alone."""
    in_all = any(getattr(call.aggregate, "in_all", False) for call in plan.select.aggregates)
    # All of it may be in a group that is not new: what is proven of selected groups asks for a limit in each.
    require(not in_all or plan.selection is None, "a limit of all groups where groups are selected")
    options = plan.select.options
    asked = Contribution(bool(plan.select.keys), options.max_groups_per_owner or 1, options.max_rows_per_owner)
    require(plan.contribution == asked, "owners are not bounded as was asked")
    _check_groups(plan)
    _check_noise(plan)
    require(tuple(c.call for c in plan.columns) == plan.select.aggregates, "the columns are not the aggregates")
    for column in plan.columns:
        _check_column(plan, column)
    for index, release in enumerate(plan.releases):
        if isinstance(release.noise, QuantileChoice):
            _check_choice(plan, index, release.noise)
    read = {index for column in plan.columns for index in column.releases}
    require(read == set(range(len(plan.releases))), "a release that no column reads")
    found = {column.histogram for column in plan.columns} - {None}
    require(found == set(range(len(plan.histograms))), "a histogram that no column reads")


def _check_groups(plan: SelectPlan) -> None:
    """Unknown groups are selected, by the requested rule and minimum; public ones never are."""
    select, selection = plan.select, plan.selection
    unknown = bool(select.keys) and select.public_groups is None
    require(unknown == (selection is not None), "groups that nobody listed appear by a selection, and no others")
    if select.public_groups is not None:
        require(len(select.public_groups.fields) == len(select.keys), "public groups with other keys")
        require(select.options.min_owners == 1, "public groups have no minimum of owners")
    if selection is None:
        require(select.options.strategy != "PUBLIC_GROUPS" or not unknown, "there are no public groups")
        return
    require(selection.min_owners == select.options.min_owners, "groups with fewer owners than asked may appear")
    require(type(selection) in _RULES, "groups are selected by a rule of an unknown kind")
    require(
        select.options.strategy in {"AUTO", *_KIND_OF_RULE, "PUBLIC_GROUPS"}, "a rule of an unknown name was asked for"
    )
    wanted = _KIND_OF_RULE.get(select.options.strategy)
    rule = selection.noise if isinstance(selection, ThresholdSelection | WholeSelection) else selection
    require(wanted is None or isinstance(rule, wanted), "groups are selected by another rule than asked")
    require(select.options.strategy != "PUBLIC_GROUPS", "public groups were asked for, and groups are selected")


def _check_noise(plan: SelectPlan) -> None:
    kind = _KIND_OF_NOISE.get(plan.select.options.noise)
    drawn = (*(r.noise for r in plan.releases), *(h.noise for h in plan.histograms))
    require(kind is None or all(isinstance(n, kind) for n in drawn if n.shift.l1), "noise of another kind than asked")


def _check_column(plan: SelectPlan, column: Column) -> None:
    """A column reads what its aggregate is made of, clamped to the bounds that were given, or to those that will be found."""
    wanted = measures_of(column.call, plan.contribution.max_rows)
    wholes = wholes_of(plan)
    if any(column.releases == whole for whole in wholes):
        wanted = _parts_of_whole(column.call.aggregate)
    elif any(column.releases[::-1] == whole for whole in wholes if len(whole) == 2):
        _check_owners_of_whole(plan, column, wanted)
        return
    require(len(column.releases) == len(wanted), "a column reads too few releases, or too many")
    finds = isinstance(column.call.aggregate, aggregates.ApproxBounds)
    for index, measure in zip(column.releases, wanted, strict=True):
        require(0 <= index < len(plan.releases), "a column reads a release that is not there")
        release = plan.releases[index]
        require(release.measure == measure, "a column reads another measure than its aggregate needs")
        bounds = column.call.bounds if _is_clamped(measure) else None
        if _is_clamped(measure) and bounds is None:
            finds = True
            require(release.bounds == Inferred(_histogram_of(column)), "bounds are not found by the column's histogram")
        else:
            require(release.bounds == bounds, "a release is clamped to other bounds than asked")
    require(finds == (column.histogram is not None), "a histogram that finds nothing, or bounds that nothing finds")
    if finds:
        _check_histogram(plan, column, wanted)


def _check_owners_of_whole(plan: SelectPlan, column: Column, wanted: tuple[Measure, ...]) -> None:
    """An owner count may be read from a whole that every owner of a group adds to; its bounds and the rest are checked there."""
    require(wanted == (OwnerCount(),), "owners are read off a whole, and other things were asked for")
    measure = plan.releases[column.releases[0]].measure
    require(isinstance(measure, OwnerSum | RowCount), "a whole that does not count every owner")
    require(column.histogram is None, "a histogram that finds nothing, or bounds that nothing finds")


def _parts_of_whole(aggregate: aggregates.Aggregate) -> tuple[Measure, ...]:
    """What is read instead of centred sums and a count, if one noise serves all."""
    match aggregate:
        case aggregates.Average(argument=argument, rows=None):
            return OwnerMean(argument, "lower"), OwnerMean(argument, "upper")
        case aggregates.RowAverage(argument=argument, rows=most):
            return RowMoment(argument, 1, most, origin="lower"), RowMoment(argument, 1, most, origin="upper")
        case aggregates.Variance(argument=argument, rows=most):
            return tuple(RowMoment(argument, 2, most, origin=origin) for origin in ("lower", "between", "upper"))
        case aggregates.Sum(argument=argument, rows=None, in_all=False):
            whole = argument.type.kind is Kind.INTEGER
            return OwnerSum(argument, whole, "lower"), OwnerSum(argument, whole, "upper")
        case aggregates.CountRows(argument=rows_with, rows=None, in_all=False):
            return RowCount(rows_with, "lower"), RowCount(rows_with, "upper")
    raise InternalError("sums that make a whole, and no aggregate that is read off one")


def _check_choice(plan: SelectPlan, index: int, choice: QuantileChoice) -> None:
    """Every quantile that is read was paid for, and no other; only ranks near the ends of the data keep a distance."""
    require(isinstance(plan.releases[index].measure, Leaves), "a choice among things that are not leaves")
    read = [column.call.aggregate for column in plan.columns if index in column.releases]
    asked = {fraction.limit_denominator(_FINEST) for aggregate in read for fraction in _fractions(aggregate)}
    found = [target.fraction for target in choice.targets]
    require(len(found) == len(asked) and set(found) == asked, "quantiles are drawn that are not the ones that are read")
    require(choice.nested == (len(asked) > 1), "several quantiles are drawn apart from each other, or one among parts")
    require(choice.around is not None, "a quantile without the counts that its interval comes from")
    for target in choice.targets:
        inside = Fraction(1, 10) <= target.fraction <= Fraction(9, 10)
        require((target.margin == 0) == inside, "a rank is looked for at another place than asked")
        outwards = target.lean if 2 * target.fraction > 1 else -target.lean
        require(outwards == 0 if inside else 0 < outwards <= Fraction(1, 2), "a rank leans where none is asked to")


def _fractions(aggregate: aggregates.Aggregate) -> tuple[Fraction, ...]:
    match aggregate:
        case aggregates.Quantile(fraction=fraction):
            return (fraction,)
        case aggregates.Quantiles(parts=parts):
            return parts if isinstance(parts, tuple) else tuple(Fraction(i, parts) for i in range(parts + 1))
        case aggregates.Extreme(side=side):
            return (Fraction(1) if side == "max" else Fraction(0),)
    raise InternalError("an aggregate that reads no quantile")


def _histogram_of(column: Column) -> int:
    require(column.histogram is not None, "bounds that no histogram finds")
    return int(column.histogram or 0)


def _check_histogram(plan: SelectPlan, column: Column, measures: tuple[Measure, ...]) -> None:
    """The histogram looks at the values that its bounds will clamp."""
    index = _histogram_of(column)
    require(0 <= index < len(plan.histograms), "a histogram that is not there")
    per_group = plan.select.options.inferred_bounds == "PER_GROUP" and bool(plan.select.keys)
    rows_are_cut = plan.contribution.max_rows is not None
    # Which rows of an owner are kept depends on the grid, and every group would have a different one.
    require(not (per_group and rows_are_cut), "bounds of each group where rows are bounded per owner")
    served = _served(column, measures)
    require(served is not None, "a histogram of other values than those that are clamped")
    assert served is not None  # noqa: S101 - just required
    seen, wanted = plan.histograms[index].histogram, Histogram(served, per_group)
    require(
        seen == wanted or _sees_the_row(plan, seen, wanted), "a histogram of other values than those that are clamped"
    )


def _served(column: Column, measures: tuple[Measure, ...]) -> Measure | None:
    """What a histogram for this column alone looks at."""
    if isinstance(column.call.aggregate, aggregates.ApproxBounds):
        return RowMoment(column.call.aggregate.argument, 1, 1)
    served = next((m for m in measures if _is_clamped(m)), None)
    if isinstance(served, OwnerMean):
        return OwnerMean(served.argument)
    if isinstance(served, RowMoment):
        return RowMoment(served.argument, 1, served.rows, centred=True, is_integer=served.is_integer)
    return served


def _sees_the_row(plan: SelectPlan, seen: Histogram, wanted: Histogram) -> bool:
    """For an owner with one row, the sum, the mean and the row are one number: the search for another column sees it too."""
    values = (OwnerSum, OwnerMean, RowMoment, Leaves)
    rows = plan.contribution.max_rows
    others = (_served(column, measures_of(column.call, rows)) for column in plan.columns if column.call.bounds is None)
    return (
        plan.select.one_row_per_owner
        and isinstance(seen.serves, values)
        and isinstance(wanted.serves, values)
        and seen.serves in list(others)
        and seen.serves.argument == wanted.serves.argument
        and (seen.grid, seen.bins, seen.per_group) == (wanted.grid, wanted.bins, wanted.per_group)
    )


def _is_clamped(measure: Measure) -> bool:
    return not isinstance(measure, (OwnerCount, DistinctValues)) and not (
        isinstance(measure, RowMoment) and measure.power == 0
    )


def measures_of(call: AggregateCall, row_limit: int | None) -> tuple[Measure, ...]:
    """What an aggregate is made of, in the order in which it reads it."""
    asked = call.aggregate
    require(_rows_as_asked(asked, row_limit), "rows are bounded otherwise than was asked")
    match asked:
        case aggregates.CountOwners():
            return (OwnerCount(asked.argument),)
        case aggregates.CountRows(rows=None, in_all=True):
            require(call.bounds is not None, "a limit of all groups that is found in step two")
            return (TotalRows(asked.argument),)
        case aggregates.Sum(argument=argument, rows=None, in_all=True):
            require(call.bounds is not None, "a limit of all groups that is found in step two")
            return (TotalSum(argument, argument.type.kind is Kind.INTEGER),)
        case aggregates.CountRows(rows=None):
            once = asked.argument is None and call.bounds == _ONE_EACH
            return (OwnerCount() if once else RowCount(asked.argument),)
        case aggregates.CountRows(rows=int(most)):
            return (RowMoment(asked.argument, 0, most),)
        case aggregates.Sum(argument=argument, rows=most):
            whole = argument.type.kind is Kind.INTEGER
            if most is None:
                return (OwnerSum(argument, whole),)
            return (RowMoment(argument, 1, most, centred=False, is_integer=whole),)
        case aggregates.Average(argument=argument, rows=most):
            if most is None:
                return OwnerMean(argument), OwnerCount(argument)
            return RowMoment(argument, 1, most), RowMoment(argument, 0, most)
        case aggregates.RowAverage(argument=argument, rows=most):
            return RowMoment(argument, 1, most), RowMoment(argument, 0, most)
        case aggregates.Variance(argument=argument, rows=most):
            return RowMoment(argument, 1, most), RowMoment(argument, 2, most), RowMoment(argument, 0, most)
        case aggregates.Quantile() | aggregates.Quantiles():
            return (Leaves(asked.argument, asked.rows),)
        case aggregates.Extreme():
            return (Leaves(asked.argument, 1, extreme=asked.side),)
        case aggregates.CountDistinct():
            return (DistinctValues(asked.argument, asked.rows),)
        case aggregates.ApproxBounds():
            return ()
    raise InternalError("an aggregate of an unknown kind")


def _rows_as_asked(aggregate: aggregates.Aggregate, row_limit: int | None) -> bool:
    """A limit on an owner's rows holds for every aggregate that looks at rows, whatever it says about its own groups."""
    match aggregate:
        case aggregates.CountRows(in_all=True) | aggregates.Sum(in_all=True):
            return aggregate.rows is None and row_limit is None
        case aggregates.CountRows() | aggregates.Sum() | aggregates.Average():
            return aggregate.rows == row_limit
        case (
            aggregates.RowAverage()
            | aggregates.Variance()
            | aggregates.Quantile()
            | aggregates.Quantiles()
            | aggregates.CountDistinct()
        ):
            return aggregate.rows >= 1 and row_limit in {None, aggregate.rows}
        case aggregates.CountOwners() | aggregates.Extreme() | aggregates.ApproxBounds():
            return True
    raise InternalError("an aggregate of an unknown kind")
