"""The total of a share has the limits of its groups: what is cut is cut above and below the line.

With κ groups per owner and U in each, the total is the sum of what the groups count: an owner's rows are added up in each of its
groups, κ of these sums are kept, each clamped to U. With one limit for all listed groups, the total has that one.

The limits that the search of the groups finds are constants here, and what this SELECT can be is planned and verified before the
charge, one plan for each of them; the largest loss is charged. It spends nothing on a search of its own.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import InternalError, ShoalError
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.aggregates import Sum
from shoal.plan.expressions import Column
from shoal.plan.limits.sought import IN_ALL, Search, TotalOf
from shoal.rewrite.limits.histograms import Maker
from shoal.rewrite.verify.searches import verify_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.releases import AggregateCall, PrivateSelect, SelectPlan

    Planned = Callable[[PrivateSelect], SelectPlan]

ONE_ROW = Bounds(Fraction(0), Fraction(1))


def plan_of_total(
    total: PrivateSelect, rows: PrivateSelect, groups: tuple[int, int, SelectPlan], by: tuple[Planned, Planned, str]
) -> SelectPlan | None:
    """The plan of a total under the limits of its groups, if they can be its own.

    `rows` are those of the total, with the keys of the groups; `groups` the number of their SELECT, the position of what is
    divided, and its plan; `by` how to plan alone, how to plan a choice, and what symbols begin with.
    """
    (number, position, plan), (planned, remembered, prefix) = groups, by
    of = TotalOf(number, position, not _has_one_limit(plan, position))
    if of.in_pieces and plan.select.public_groups is not None and not _from_tables(rows):
        return None
    asked = in_pieces(total, rows, position, prefix) if of.in_pieces else total
    asked = replace(asked, options=replace(asked.options, measure_cut=Fraction(0)))
    if plan.search is None or not plan.search.finds:
        known = with_limits_of_groups(asked, plan, of)
        guessed = (0,) if position in plan.guessed else ()
        return None if known is None else replace(planned(known), guessed=guessed, total_of=of)
    possible = dict.fromkeys(with_limits_of_groups(asked, choice, of) for choice in plan.search.choices)
    if None in possible:
        return None
    choices = tuple(remembered(each) for each in possible if each is not None)
    example = with_limits_of_groups(asked, plan, of)
    shown = next((choice for choice in choices if choice.select == example), choices[0])
    search = Search((), (), choices, asked.options.epsilon)
    return replace(shown, select=asked, search=search, total_of=of)


def _has_one_limit(groups: SelectPlan, position: int) -> bool:
    """Whether one limit holds for all groups of an owner together, or would if it were found."""
    search, call = groups.search, groups.columns[position].call
    sought = () if search is None else search.sought
    one = any(limit.kind == "all" or (limit.kind in IN_ALL and position in limit.calls) for limit in sought)
    return one or groups.contribution.max_rows is not None or getattr(call.aggregate, "in_all", False)


def _from_tables(rows: PrivateSelect) -> bool:
    """Whether keys are columns of public tables that rows are joined with: then hardly any row is in a group that is not listed.

    Elsewhere the list may be of a few groups of many, and κ was found for those.
    """
    public = (n for n in nodes.walk(rows.input) if isinstance(n, nodes.Scan) and n.owner is None)
    symbols = {field.symbol for scan in public for field in scan.fields}
    return all(isinstance(value, Column) and value.symbol in symbols for _, value in rows.keys)


def in_pieces(total: PrivateSelect, rows: PrivateSelect, position: int, prefix: str) -> PrivateSelect:
    """The total as the sum of what owners have in each group."""
    node, size = Maker(rows, prefix).sums(rows.aggregates[position].aggregate)
    call = total.aggregates[0]
    bounds = ONE_ROW if call.aggregate.counts_rows else call.bounds
    source = "one row" if bounds is not None else call.bounds_source
    added = replace(call, aggregate=Sum(Column(size.symbol, size.type)), bounds=bounds, bounds_source=source)
    return replace(total, input=node, aggregates=(added,), one_row_per_owner=False)


def with_limits_of_groups(total: PrivateSelect, groups: SelectPlan, of: TotalOf) -> PrivateSelect | None:
    """The total with the limits of its groups as constants; None where they are none for it."""
    call, limited, limits = total.aggregates[0], groups.columns[of.position].call, groups.contribution
    options = replace(total.options, find_limits=False, measure_cut=Fraction(0))
    if of.in_pieces:
        options = replace(options, max_rows_per_owner=limits.groups)
        return replace(total, options=options, aggregates=(_piece_by_piece(call, limited, limits.groups),))
    if limits.max_rows is not None:
        counted = call.aggregate.one_by_one(call, limits.max_rows)
        options = replace(options, max_rows_per_owner=limits.max_rows)
        return None if counted is None else replace(total, options=options, aggregates=(counted,))
    if limited.bounds is None and not call.aggregate.counts_rows:
        return replace(total, options=options, aggregates=(_open(call),))
    if limited.bounds is None or not getattr(limited.aggregate, "in_all", False):
        return None
    return replace(total, options=options, aggregates=(call.aggregate.within(call, _size(limited.bounds)),))


def _piece_by_piece(call: AggregateCall, limited: AggregateCall, groups: int) -> AggregateCall:
    """κ pieces of each owner, each with the bounds of one group."""
    if call.aggregate.argument is None:
        raise InternalError("pieces are added up")
    kept = replace(call, aggregate=Sum(call.aggregate.argument, groups))
    if limited.bounds is None:
        return _open(kept)
    return replace(kept, bounds=limited.bounds, bounds_source="found")


def _open(call: AggregateCall) -> AggregateCall:
    """Bounds that are found in step two, as the groups find theirs."""
    return replace(call, bounds=None, bounds_source="inferred")


def _size(bounds: Bounds) -> Fraction:
    return max(abs(bounds.lower), abs(bounds.upper))


def found_total(plan: SelectPlan, groups: SelectPlan, replan: Callable[[PrivateSelect], SelectPlan]) -> SelectPlan:
    """The total under the limits that its groups have after their search; nothing is refused any more."""
    search, of = plan.search, plan.total_of
    if search is None or of is None:
        return plan
    wanted = with_limits_of_groups(plan.select, groups, of)
    try:
        if wanted is not None:
            return verify_found(plan, replan(wanted))
    except (ShoalError, InternalError):
        pass
    same = (
        c for c in search.choices if wanted is not None and c.contribution.max_rows == wanted.options.max_rows_per_owner
    )
    return next(same, search.choices[0])
