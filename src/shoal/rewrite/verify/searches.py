"""Whether a search keeps what it promises: step one and any step two together cost no more than was asked, whatever is found.

Every plan that may run is the requested SELECT with limits as constants and less ε; nothing else may differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Loss
from shoal.accounting.events import LaplaceNoise
from shoal.plan import aggregates
from shoal.plan.measures import OwnerCount
from shoal.plan.nodes import Values
from shoal.rewrite.verify.asked import check_asked
from shoal.rewrite.verify.charges import check_events, check_noises, loss_of
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from shoal.plan.limits.sought import Search, Sought
    from shoal.plan.releases import AggregateCall, SelectPlan

ROUNDING = Fraction(65, 64)
"""The margin on ρ above what the choices cost: found limits change the rounding of the noise slightly."""
_LIMITED = (
    aggregates.CountDistinct,
    aggregates.RowAverage,
    aggregates.Variance,
    aggregates.Quantile,
    aggregates.Quantiles,
)


def check_search(plan: SelectPlan) -> None:
    """Both steps of a plan that finds limits first."""
    search = plan.search
    require(search is not None, "limits that nobody seeks")
    assert search is not None  # noqa: S101 - just required
    if plan.total_of is not None:
        _check_total(plan, search)
        return
    measured = [limit.measures for limit in search.sought]
    require(plan.select.options.find_limits == (not all(measured)), "limits are sought that were given")
    require(any(measured) == (plan.select.options.measure_cut > 0), "what limits cut is measured that nobody asked for")
    for limit, histogram in zip(search.sought, search.histograms, strict=True):
        _check_histogram(limit, histogram)
    for choice in search.choices:
        check_choice(plan, choice)
    _check_every_choice(search)
    _check_example(plan, search)
    known = (*(e for histogram in search.histograms for e in histogram.events),)
    require(plan.events[: len(known)] == known, "what step one draws is not stated")
    require(
        any(plan.events[len(known) :] == choice.events for choice in search.choices),
        "what step two draws is not stated",
    )
    require(
        all(each.composition == "basic" for each in (plan, *search.choices)),
        "the losses of a search are added up in a way that nobody knows",
    )
    _check_epsilon(plan, search)


def _check_example(plan: SelectPlan, search: Search) -> None:
    example = replace(plan, search=None, domains=(), one_row=False, total_of=None)
    same = (replace(example, select=choice.select, events=choice.events) == choice for choice in search.choices)
    require(any(same), "a plan explains itself by a step that cannot be taken")


def _check_total(plan: SelectPlan, search: Search) -> None:
    """A total that has the limits of other groups seeks none itself: all its ε is for the one plan that will run."""
    require(search.sought == () and search.histograms == (), "a total seeks limits that its groups have")
    require(plan.select.options.find_limits and not plan.select.options.measure_cut, "limits of a total were given")
    require(search.epsilon == plan.select.options.epsilon, "a total costs another ε than was asked")
    for choice in search.choices:
        check_choice(plan, choice)
    _check_example(plan, search)
    require(any(plan.events == choice.events for choice in search.choices), "what a total draws is not stated")
    require(all(each.composition == "basic" for each in (plan, *search.choices)), "losses are added up otherwise")


def _check_choice_of_total(plan: SelectPlan, choice: SelectPlan, search: Search) -> None:
    """One number, the requested one, with a limit on what an owner adds to it."""
    asked, options = plan.select, choice.select.options
    require(not asked.keys and len(asked.aggregates) == len(choice.select.aggregates) == 1, "a total of another shape")
    require(asked.options.max_rows_per_owner is None, "rows that were given are sought")
    wanted = replace(asked.options, find_limits=False, measure_cut=Fraction(0), epsilon=search.epsilon)
    require(options == replace(wanted, max_rows_per_owner=options.max_rows_per_owner), "other options")
    require(replace(choice.select, options=asked.options, aggregates=asked.aggregates) == asked, "another total")
    before, after = asked.aggregates[0], choice.select.aggregates[0]
    counted = (aggregates.CountRows, aggregates.Sum)
    require(isinstance(before.aggregate, counted) and isinstance(after.aggregate, counted), "a total of another kind")
    require(not getattr(after.aggregate, "in_all", False), "a limit of all groups without groups")
    without = [_without_rows(_unlimited(each)) for each in (before, after)]
    require(without[0] == without[1], "another total")
    _check_given(before, after)


def _check_every_choice(search: Search) -> None:
    """A plan for every κ that can be found, each in as many ways: whatever is found, there is one that was charged for."""
    ways = Counter(choice.contribution.groups for choice in search.choices)
    for limit in search.sought:
        if limit.kind == "groups":
            require(set(ways) == {int(edge) for edge in limit.edges}, "limits that may be found have no plan")
    require(len(set(ways.values())) == 1, "limits that may be found have no plan")


def _check_histogram(limit: Sought, plan: SelectPlan) -> None:
    """Owners counted in listed bins, each in one, with Laplace noise."""
    require(plan.search is None and plan.selection is None, "a histogram is found in one step")
    groups = plan.select.public_groups
    bins = tuple((position,) for position in limit.bins)
    require(isinstance(groups, Values) and groups.rows == bins, "bins that are not listed")
    counts = [release.measure for release in plan.releases]
    require(counts == [OwnerCount()] and not plan.histograms, "a histogram counts owners, and nothing else")
    require(isinstance(plan.releases[0].noise, LaplaceNoise), "a histogram of limits has Laplace noise")
    require(plan.select.options.inferred_bounds == "GLOBAL", "a histogram looks for no bounds")
    require(plan.contribution.grouped and plan.contribution.groups == 1, "an owner in more than one bin")


def _check_epsilon(plan: SelectPlan, search: Search) -> None:
    spent = sum((histogram.select.options.epsilon for histogram in search.histograms), Fraction(0))
    pairs = zip(search.sought, search.histograms, strict=True)
    measuring = sum((found.select.options.epsilon for limit, found in pairs if limit.measures), Fraction(0))
    asked = plan.select.options
    require(measuring == asked.measure_cut * asked.epsilon, "measuring costs another share than was asked")
    require(spent > 0 and search.epsilon > 0, "a step that costs nothing")
    require(spent + search.epsilon <= plan.select.options.epsilon, "both steps cost more than was asked")


def check_choice(plan: SelectPlan, choice: SelectPlan) -> None:
    """One plan that step two may run: the requested SELECT with limits, and the ε of step two."""
    search, asked, options = plan.search, plan.select, choice.select.options
    require(search is not None and choice.search is None, "a search inside a search")
    assert search is not None  # noqa: S101 - just required
    if plan.total_of is not None:
        _check_choice_of_total(plan, choice, search)
        _check_as_planned(choice)
        return
    wanted = replace(asked.options, find_limits=False, measure_cut=Fraction(0), epsilon=search.epsilon)
    in_all = any(limit.kind == "all" for limit in search.sought)
    if in_all:
        require(asked.options.max_rows_per_owner is None, "rows that were given are sought")
        require(options.max_rows_per_owner is not None and options.max_groups_per_owner is None, "no limit on rows")
        wanted = replace(wanted, max_rows_per_owner=options.max_rows_per_owner)
    require(replace(options, max_groups_per_owner=None) == replace(wanted, max_groups_per_owner=None), "other options")
    groups = asked.options.max_groups_per_owner
    require(groups is None or options.max_groups_per_owner == groups, "groups per owner that were given are not kept")
    stripped = replace(choice.select, options=asked.options, aggregates=asked.aggregates)
    require(stripped == asked, "step two asks something else")
    require(len(choice.select.aggregates) == len(asked.aggregates), "step two has other aggregates")
    given = asked.options.find_limits or choice.select.aggregates == asked.aggregates
    require(given, "limits that are measured are not those that were given")
    sought_in_all = {p for limit in search.sought if limit.kind in {"rows in all", "sum in all"} for p in limit.calls}
    for position, after in enumerate(choice.select.aggregates):
        limited = getattr(after.aggregate, "in_all", False)
        require(not limited or position in sought_in_all, "a limit of all groups that nobody sought")
        require(not limited or after.bounds is not None, "a limit of all groups without bounds")
    for before, after in zip(asked.aggregates, choice.select.aggregates, strict=True):
        _check_counted(before, after, options.max_rows_per_owner if in_all else None)
        require(not getattr(before.aggregate, "in_all", False), "a limit of all groups that nobody can name")
        require(_unlimited(before) == _unlimited(after), "step two has other aggregates")
        _check_given(before, after)
    _check_as_planned(choice)


def _check_as_planned(choice: SelectPlan) -> None:
    check_asked(choice)
    check_noises(choice)
    check_events(choice)
    loss_of(choice)


def _check_counted(before: AggregateCall, after: AggregateCall, rows: int | None) -> None:
    """Only counts have a limit on rows in total, and then rows are counted one by one."""
    if not isinstance(before.aggregate, aggregates.CountRows) or not isinstance(after.aggregate, aggregates.CountRows):
        require(rows is None, "rows in all are limited of something that is not a count")
        return
    require(rows is None or before.aggregate.rows is None, "rows that were given are sought")
    require(after.aggregate.rows == (before.aggregate.rows if rows is None else rows), "rows are counted otherwise")


def _check_given(before: AggregateCall, after: AggregateCall) -> None:
    """Given limits are kept; what was left open had no value before."""
    could_be_open = isinstance(before.aggregate, aggregates.CountRows | aggregates.Sum)
    given = not could_be_open or (before.bounds is not None and before.bounds_source != "one row")
    require(not given or after.bounds == before.bounds, "bounds that were given are not kept")
    if isinstance(before.aggregate, _LIMITED):
        kept = before.aggregate.rows == 1 if before.rows_left_open else before.aggregate == after.aggregate
        require(kept, "rows of each owner that were given are not kept")


def _unlimited(call: AggregateCall) -> AggregateCall:
    """An aggregate without what a limit may change: rows, if they were left open, and bounds."""
    counted = call.aggregate
    if isinstance(counted, _LIMITED):
        counted = replace(counted, rows=1)
    if isinstance(counted, aggregates.CountRows):
        counted = replace(counted, rows=None, in_all=False)
    if isinstance(counted, aggregates.Sum):
        counted = replace(counted, in_all=False)
    return replace(call, aggregate=counted, bounds=None, bounds_source="", rows_left_open=False)


def _without_rows(call: AggregateCall) -> AggregateCall:
    if isinstance(call.aggregate, aggregates.CountRows):
        return replace(call, aggregate=replace(call.aggregate, rows=None))
    if isinstance(call.aggregate, aggregates.Sum):
        return replace(call, aggregate=replace(call.aggregate, rows=None))
    return call


def loss_of_search(plan: SelectPlan) -> Loss:
    """What is charged for both steps: all of step one, and the largest loss of step two in each currency."""
    search = plan.search
    assert search is not None  # noqa: S101 - asked of searches only
    first = [loss_of(histogram) for histogram in search.histograms]
    second = worst_of(search)
    return Loss(
        sum((loss.epsilon for loss in first), second.epsilon),
        sum((loss.delta for loss in first), second.delta),
        sum((loss.zcdp[0] for loss in first), second.zcdp[0]),
        sum((loss.zcdp[1] for loss in first), second.zcdp[1]),
    )


def worst_of(search: Search) -> Loss:
    """The most that step two may cost: all the ε that it may spend, and the maximum of everything else."""
    losses = [loss_of(choice) for choice in search.choices]
    rho = ROUNDING * max(loss.zcdp[0] for loss in losses)
    return Loss(
        max(search.epsilon, *(loss.epsilon for loss in losses)),
        max(loss.delta for loss in losses),
        rho,
        max(loss.zcdp[1] for loss in losses),
    )


def verify_found(plan: SelectPlan, found: SelectPlan) -> SelectPlan:
    """The plan of step two with limits that were found, if it is one of those that were charged for; else an internal error."""
    check_choice(plan, found)
    assert plan.search is not None  # noqa: S101 - required by check_choice
    cost, charged = loss_of(found), worst_of(plan.search)
    require(cost.epsilon <= charged.epsilon and cost.delta <= charged.delta, "step two costs more than was charged")
    within = all(a <= b for a, b in zip(cost.zcdp, charged.zcdp, strict=True))
    require(within, "step two costs more than was charged in zCDP")
    return found
