"""The smallest ε that is accurate enough: expected errors from closed forms, no data read, nothing spent."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal import params
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.params import LARGEST_EPSILON, SMALLEST_EPSILON
from shoal.plan.releases import Inferred
from shoal.release.computed.carried import shown_aggregates
from shoal.release.output_names import output_names
from shoal.sql.grammar.source_text import CallsAsWritten
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.aggregates import Aggregate
    from shoal.plan.releases import Column, SelectPlan, StatementPlan

STEPS_OF_SEARCH = 60
CLOSE_ENOUGH = Fraction(10**6 + 1, 10**6)


def epsilon_for(width_at: Callable[[Fraction], float], error: float) -> Fraction:
    """The smallest ε (to one part in a million, rounded up) at which the widest interval has at most this half-width.

    `width_at` plans the query with an ε and gives that half-width. Precondition: half-widths fall as ε grows, which holds
    for every mechanism here.
    """
    wanted = _positive(error)

    def enough(epsilon: Fraction) -> bool:
        try:
            return width_at(epsilon) <= wanted
        except ShoalError as refused:
            if refused.code != "E_OPTION_INVALID" or epsilon == LARGEST_EPSILON:
                raise
            return False  # parts of it that the query fixes are more than this

    low, high = SMALLEST_EPSILON, LARGEST_EPSILON
    if not enough(high):
        raise ShoalError(
            "E_USAGE",
            "No epsilon up to 1e6 reaches this error.",
            hint="Ask for a larger error, or narrow the bounds of the aggregates.",
        )
    if enough(low):
        return low
    for _ in range(STEPS_OF_SEARCH):
        if high <= low * CLOSE_ENOUGH:
            break
        middle = _between(low, high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _positive(error: float) -> float:
    try:
        exact = as_fraction(error)
    except (TypeError, ValueError):
        exact = Fraction(0)
    if exact <= 0:
        raise ShoalError("E_USAGE", "The error must be a positive, finite number.", hint="10 asks for ± 10.")
    return float(exact)


def _between(low: Fraction, high: Fraction) -> Fraction:
    """About the geometric mean, with few digits."""
    return Fraction(f"{(float(low) * float(high)) ** 0.5:.12e}")


def widest(plan: StatementPlan, level: float, owners: int | None) -> float:
    """The half-width of the widest interval among the aggregates that a plan shows; those of HAVING alone have none."""
    written = CallsAsWritten(plan.sql)
    shown = on_its_own_stack(lambda: shown_aggregates(plan))
    widths = []
    for number, (select, names) in enumerate(zip(plan.selects, output_names(plan), strict=True)):
        for position, (column, outputs) in enumerate(zip(select.columns, names, strict=True)):
            if (number, position) in shown:
                widths.append(half_width(select, column, level, owners, written))
            elif outputs.first is not None:
                raise ShoalError(
                    "E_UNSUPPORTED",
                    f"The answer computes with {outputs.first!r}, and what is computed has no error bar.",
                    hint="Ask for the aggregates themselves, in separate columns.",
                    position=column.call.position,
                )
    if not widths:
        raise ShoalError("E_USAGE", "There is no private aggregate in this query whose error could be asked for.")
    return max(widths)


def half_width(select: SelectPlan, column: Column, level: float, owners: int | None, written: CallsAsWritten) -> float:
    """How far the noise may move one number, in the analyst's units."""
    releases = [select.releases[i] for i in column.releases]
    aggregate = column.call.aggregate
    if _is_open(select, column) or any(isinstance(r.bounds, Inferred) for r in releases):
        raise ShoalError(
            "E_BOUNDS_REQUIRED",
            f"The error of {written.at(column.call.position) or aggregate.name} depends on bounds that are not known yet.",
            hint="Give bounds, and max_groups_contributed where there are groups, in the query or in the catalog.",
            position=column.call.position,
        )
    size = size_of_a_group(owners) if aggregate.needs_owners else 1
    width = aggregate.expected_half_width(releases, level, size)
    if width is None:
        raise ShoalError(
            "E_UNSUPPORTED",
            f"The error of {written.at(column.call.position) or aggregate.name} depends on the data; no epsilon can be promised.",
            hint="Ask for counts, sums and averages.",
            position=column.call.position,
        )
    return width


def _is_open(select: SelectPlan, column: Column) -> bool:
    """Whether the noise depends on limits that are found first."""
    if select.search is None or not _limited(column.call.aggregate):
        return False
    groups = select.total_of is not None or any(sought.kind == "groups" for sought in select.search.sought)
    return groups or select.search.limits(select.columns.index(column))


def _limited(aggregate: Aggregate) -> bool:
    """Whether limits on each owner change the error that can be promised."""
    return aggregate.adds_up or aggregate.needs_owners


def size_of_a_group(owners: int | None) -> int:
    """How many owners the analyst expects in a group; an average's error cannot be computed without it."""
    if owners is None:
        raise ShoalError(
            "E_USAGE",
            "The error of an average depends on how many owners a group has.",
            hint="Give an estimate: owners=1000 in Python, or --owners 1000 on the command line.",
        )
    return params.whole_number(owners, option="owners", largest=10**12)
