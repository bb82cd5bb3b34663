"""Which limits are left open, what replaces them if nothing can be found, and how they become constants of a SELECT."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.plan.aggregates.defaults import within_all
from shoal.plan.expressions import Column
from shoal.plan.limits.sought import GROUP_EDGES, IN_ALL, ROW_EDGES, SUM_EDGES, SUMS, TOTAL_EDGES, Limits, Sought
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.releases import AggregateCall, PrivateSelect

PRIOR_GROUPS, PRIOR_ROWS, PRIOR_VALUES, PRIOR_OF_ALL = 5, 5, 8, 10
"""The last is for rows of a query without groups."""
MOST_LISTED, PRIOR_ROWS_OF_ALL = 30, 15
"""With this many listed groups, counts limit an owner's rows over all of them; how many rows, if nothing can be found."""
LARGEST_UNIT_IN_ALL = 2**20
"""For the limit of a sum in all groups, the largest size of one row: the last candidate is 2³⁰ times as large."""
FEW_GROUPS = 10
"""Up to this many possible groups, an owner counts in all of them if nothing can be found."""


def open_limits(
    select: PrivateSelect, cap: int | None, *, one_row: bool = False, domains: Sequence[int | None] = ()
) -> tuple[Sought, ...]:
    """What has to be sought; nothing if limits are named, or known for free."""
    options = select.options
    if not options.find_limits or options.max_rows_per_owner is not None:
        return ()
    if not one_row and limits_rows_of_all(select, cap):
        edges = tuple(Fraction(edge) for edge in GROUP_EDGES)
        return (Sought("all", edges, tuple(range(len(select.aggregates))), domain=cap),)
    in_all = not one_row and limits_in_all(select, cap)
    sought = []
    several = bool(select.keys) and options.max_groups_per_owner is None and (cap is None or cap > 1)
    if several and not (in_all and counts_in_every_group(select, cap)):
        sought.append(Sought("groups", tuple(Fraction(edge) for edge in group_candidates(cap))))
    if one_row or options.inferred_bounds == "PER_GROUP":
        return tuple(sought)
    found: dict[object, Sought] = {}
    for position, call in enumerate(select.aggregates):
        kind = call.aggregate.sought_limit(call)
        if kind is None:
            continue
        if in_all and may_be_limited_in_all(call):
            kind = f"{kind} in all"
        about = (kind, call.aggregate.argument)
        known = found.get(about)
        found[about] = (
            replace(known, calls=(*known.calls, position))
            if known is not None
            else _sought(kind, call, position, domains[position] if domains else None)
        )
    return (*sought, *found.values())


def limits_rows_of_all(select: PrivateSelect, cap: int | None) -> bool:
    """Whether one limit on rows in all serves better than one on groups and one on rows in each.

    Counts of rows of few listed groups: T rows in all make noise for T, κ groups of U rows each for κ·U, whatever owners have.
    """
    options = select.options
    counts = [call.aggregate.one_by_one(call, 1) is not None for call in select.aggregates]
    free = options.max_groups_per_owner is None and options.noise == "AUTO" and options.inferred_bounds == "GLOBAL"
    listed = select.public_groups is not None and bool(select.keys)
    return listed and free and bool(counts) and all(counts) and cap is not None and 1 < cap <= MOST_LISTED


def may_be_limited_in_all(call: AggregateCall) -> bool:
    """Whether it is a count of rows or a sum whose limit is open, and small enough for its square to fit 128 bits."""
    of_rows_or_sum = call.aggregate.adds_up and call.aggregate.sought_limit(call) in {"rows", "sum"}
    return of_rows_or_sum and _unit(call) <= LARGEST_UNIT_IN_ALL


def limits_in_all(select: PrivateSelect, cap: int | None) -> bool:
    """Whether counts and sums over listed groups have one limit for all groups of an owner together.

    T in all makes noise for T, κ groups of U each for κ·U, and few owners have U in each of κ groups. Only where an owner may be in
    many groups alike does Gaussian noise for U in each of them win: it grows with the root of κ. Where groups are selected, a
    number and what is missing to its bound do so for nothing, and that needs a limit for each group.
    """
    options = select.options
    free = options.noise in {"AUTO", "LAPLACE"} and options.inferred_bounds == "GLOBAL"
    # What is computed from a column of many values may have few.
    computed = any(not isinstance(value, Column) for _, value in select.keys)
    few = (cap is None or cap <= MOST_LISTED or computed) and cap != 1 and options.max_groups_per_owner != 1
    listed = select.public_groups is not None and bool(select.keys)
    return free and few and listed and any(map(may_be_limited_in_all, select.aggregates))


def counts_in_every_group(select: PrivateSelect, cap: int | None) -> bool:
    """Whether the number of groups costs nothing: all numbers have limits for all of them together."""
    return cap is not None and all(map(may_be_limited_in_all, select.aggregates))


def _sought(kind: str, call: AggregateCall, position: int, domain: int | None) -> Sought:
    """One aggregate's limit; values are limited to those that are possible at all."""
    edges = _edges(kind, call)
    if kind == "values" and domain is not None:
        edges = tuple(edge for edge in edges if edge < domain) + ((Fraction(domain),) if domain <= edges[-1] else ())
    one_sign = call.bounds is not None and (call.bounds.lower >= 0 or call.bounds.upper <= 0)
    signed = kind in SUMS and not one_sign
    return Sought(kind, edges, (position,), domain=domain if kind == "values" else None, signed=signed)


def group_candidates(cap: int | None) -> tuple[int, ...]:
    """Candidates for κ, up to the first that reaches the possible maximum."""
    if cap is None:
        return GROUP_EDGES
    below = [edge for edge in GROUP_EDGES if edge < cap]
    return (*below, cap) if len(below) < len(GROUP_EDGES) else GROUP_EDGES


def _edges(kind: str, call: AggregateCall) -> tuple[Fraction, ...]:
    if kind not in SUMS:
        return tuple(Fraction(edge) for edge in (TOTAL_EDGES if kind in IN_ALL else ROW_EDGES))
    whole = call.aggregate.type.kind is Kind.INTEGER
    edges = tuple(edge * _unit(call) for edge in SUM_EDGES)
    return tuple(edge for edge in edges if edge >= 1) if whole else edges


def _unit(call: AggregateCall) -> Fraction:
    """The size of one row, if the catalog gives it: a power of two, so that edges are exact."""
    size = max(abs(call.bounds.lower), abs(call.bounds.upper)) if call.bounds is not None else Fraction(1)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    return Fraction(2) ** power if size else Fraction(1)


def prior_limits(
    select: PrivateSelect, sought: tuple[Sought, ...], cap: int | None, population: int | None = None
) -> Limits:
    """Limits from public knowledge alone; a sum without bounds of one row has none."""
    groups = prior_groups(select, cap)
    of_call: list[Fraction | None] = [None] * len(select.aggregates)
    if any(limit.kind == "all" for limit in sought):
        return Limits(groups, tuple(of_call), PRIOR_ROWS_OF_ALL)
    if positions_in_all(sought) and not any(limit.kind == "groups" for limit in sought):
        groups = groups_without_search(select, cap)
    for limit in sought:
        for position in limit.calls:
            of_call[position] = prior_of(limit.kind, select.aggregates[position], grouped=bool(select.keys))
            if limit.kind == "values" and limit.domain is not None:
                of_call[position] = Fraction(prior_values(limit.domain, population, select.options.epsilon))
    return Limits(groups, tuple(of_call), in_all=positions_in_all(sought))


def positions_in_all(sought: Sequence[Sought]) -> tuple[int, ...]:
    """The aggregates whose limits hold for all groups together."""
    return tuple(position for limit in sought if limit.kind in IN_ALL for position in limit.calls)


def groups_without_search(select: PrivateSelect, cap: int | None) -> int:
    """κ if it is not sought: as many as are listed, if they cost nothing."""
    if select.options.max_groups_per_owner is None and cap is not None and counts_in_every_group(select, cap):
        return cap
    return prior_groups(select, cap)


def prior_values(domain: int, population: int | None, epsilon: Fraction) -> int:
    """How many values per owner, given how many are possible: not every owner needs to contribute a value that many share.

    As in the choice among found limits, for owners with PRIOR_VALUES each: values nobody contributes, against the noise.

    >>> prior_values(3, 90, Fraction(1)), prior_values(77, 90, Fraction(1)), prior_values(10_000, 90, Fraction(1))
    (1, 5, 8)
    """
    each = min(PRIOR_VALUES, domain)
    if population is None:
        return each
    pairs = population * each
    shared = max(1.0, pairs / (2 * domain))

    def loss(values: int) -> float:
        unseen = pairs / shared * math.pow(1 - values / each, shared)
        return math.pow(unseen, 2) + 2 * math.pow(values / float(epsilon), 2)

    return min(range(1, each + 1), key=loss)


def prior_groups(select: PrivateSelect, cap: int | None) -> int:
    """κ if it is not sought or not found."""
    if not select.keys:
        return 1
    if select.options.max_groups_per_owner is not None:
        return select.options.max_groups_per_owner
    return cap if cap is not None and cap <= FEW_GROUPS else PRIOR_GROUPS


def prior_of(kind: str, call: AggregateCall, *, grouped: bool) -> Fraction | None:
    """The limit of one aggregate if it is not found."""
    rows = PRIOR_ROWS_OF_ALL if kind in IN_ALL else PRIOR_ROWS if grouped else PRIOR_OF_ALL
    if kind in {"rows", "rows in all"}:
        return Fraction(rows)
    if kind == "values":
        return Fraction(PRIOR_VALUES)
    if call.bounds is None:
        return None
    return rows * max(abs(call.bounds.lower), abs(call.bounds.upper), Fraction(1, 2**20))


def with_limits(select: PrivateSelect, limits: Limits, epsilon: Fraction) -> PrivateSelect:
    """The SELECT with limits as constants, to be planned as if the analyst had named them."""
    options = replace(
        select.options,
        epsilon=epsilon,
        max_groups_per_owner=limits.groups if select.keys else None,
        find_limits=False,
        measure_cut=Fraction(0),
    )
    if not select.keys:
        options = replace(options, max_groups_per_owner=select.options.max_groups_per_owner)
    if limits.rows is not None:
        options = replace(options, max_groups_per_owner=None, max_rows_per_owner=limits.rows)
        counted = tuple(_one_by_one(call, limits.rows) for call in select.aggregates)
        return replace(select, options=options, aggregates=counted)
    calls = tuple(
        _limited(call, limit, in_all=position in limits.in_all)
        for position, (call, limit) in enumerate(zip(select.aggregates, limits.of_call, strict=True))
    )
    return replace(select, options=options, aggregates=calls)


def _one_by_one(call: AggregateCall, rows: int) -> AggregateCall:
    counted = call.aggregate.one_by_one(call, rows)
    if counted is None:
        raise InternalError("only counts are limited by rows in all groups")
    return counted


def _limited(call: AggregateCall, limit: Fraction | None, *, in_all: bool) -> AggregateCall:
    if limit is None:
        # A sum that was sought and not found: bounds of one row would not hold it, so they are found in step two.
        return replace(call, bounds=None, bounds_source="inferred") if call.bounds_source == "one row" else call
    return within_all(call, limit) if in_all else call.aggregate.within(call, limit)
