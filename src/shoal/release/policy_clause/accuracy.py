"""How wide the intervals of a SELECT WITH POLICY will be, from its plan alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.accuracy import size_of_a_group
from shoal.errors import ShoalError
from shoal.policies.answers import one_draw
from shoal.release.policy_clause.run import with_stored_row

if TYPE_CHECKING:
    from shoal.policies.planning import Measured
    from shoal.release.policy_clause.plan import Column, PolicyPlan


def widest(plan: PolicyPlan, level: float, owners: int | None) -> float:
    """The largest half-width among the aggregates that the answer shows; `owners` is the size of a group."""
    _, carried = with_stored_row(plan.select.root)
    shown = {carried.get(f.symbol) for f in plan.select.root.fields}
    widths = [half_width(plan, c, level, owners) for c in plan.columns if c.aggregate.field.symbol in shown]
    if not widths:
        raise ShoalError(
            "E_USAGE",
            "There is no private aggregate in this query whose error could be asked for.",
            hint="Ask for the aggregates themselves, in separate columns.",
        )
    return max(widths)


def half_width(plan: PolicyPlan, column: Column, level: float, owners: int | None) -> float:
    """How far the noise may move one number, in the analyst's units."""
    aggregate = column.aggregate
    if aggregate.attribute:
        raise ShoalError(
            "E_UNSUPPORTED",
            f"The error of {aggregate.written} depends on the data; no epsilon can be promised.",
            hint="Ask for counts, sums and averages.",
            position=aggregate.position,
        )
    *tallied, measured = (plan.families[i] for i in column.families)
    if aggregate.kind != "avg":
        return _width(measured, level)
    each = (1 + level) / 2 if tallied[0].scale else level
    count_width = _width(tallied[0], each)
    left = max(1.0, size_of_a_group(owners) * plan.rows_per_owner - count_width)
    return max(
        min(float(high - low), (_width(measured, each) + count_width * float(max(high - c, c - low))) / left)
        for c, (low, high) in zip(column.centres, column.ends, strict=True)
    )


def _width(measured: Measured, level: float) -> float:
    return one_draw(measured.scale, level) * float(measured.table.grid)
