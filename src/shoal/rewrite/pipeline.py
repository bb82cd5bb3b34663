"""The road of a plan: bound statement → passes, in order → verified plan.

The last step, `verify`, derives everything that privacy depends on again, without the passes, and refuses a mismatch.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.accountants import Loss
from shoal.errors import InternalError, ShoalError
from shoal.plan.kept_rows import KeptRows
from shoal.plan.releases import SelectPlan, StatementPlan
from shoal.plan.traverse import is_owned
from shoal.remembered import remembered
from shoal.rewrite.assign_mechanisms import assign_mechanisms
from shoal.rewrite.bound_contributions import bound_contributions
from shoal.rewrite.check_fanout import check_fanout
from shoal.rewrite.check_limits import check_epsilon, check_limits, check_steps
from shoal.rewrite.check_ownership import check_ownership
from shoal.rewrite.check_windows import check_windows
from shoal.rewrite.checks.check_regrouping import check_regrouping
from shoal.rewrite.compose_numerically import compose_numerically
from shoal.rewrite.infer_bounds import infer_bounds
from shoal.rewrite.limits.caps import PublicSizes
from shoal.rewrite.limits.search import Public, loss_of_select, plan_with_limits
from shoal.rewrite.limits.share_totals import totals_of_shares
from shoal.rewrite.limits.shared import plan_of_total
from shoal.rewrite.number_rows import number_rows
from shoal.rewrite.select_groups import delta_of, select_groups
from shoal.rewrite.verify.statement import verify
from shoal.sql.binding.clauses.conditions import has_one_row
from shoal.sql.binding.context import Context
from shoal.sql.binding.statement import BoundStatement, Given, bind_in
from shoal.sql.binding.without_clause import no_clause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shoal.catalog import Catalog
    from shoal.plan.expressions import Position
    from shoal.plan.public_facts import PublicFacts
    from shoal.plan.releases import PrivateSelect
    from shoal.plan.types import Type
    from shoal.sql.parse import Statement

PLANS_REMEMBERED = 4096
PASSES = (bound_contributions, infer_bounds, select_groups, assign_mechanisms)
"""After ownership is checked: each takes what the one before it made."""


def plan_query(
    statement: Statement,
    catalog: Catalog,
    schemas: Mapping[str, tuple[tuple[str, Type], ...]],
    facts: PublicFacts,
    epsilon: Fraction | None = None,
    composition: str = "basic",
    given: Given = lambda _: {},
) -> StatementPlan:
    """The verified plan of a statement; reads no data, spends nothing. `epsilon` plans for another ε.

    `composition` is "basic", or "pld" for numerical composition inside each private SELECT (extra: accounting) whose limits are
    named: to compose every choice of a search would take minutes. `given` are relations that the statement may name.
    """
    context = Context(catalog, schemas, epsilon=epsilon, facts=facts)
    bound = bind_in(context, statement, given)
    check_limits(bound)
    owned = [check_ownership(select, context.references) for select in bound.selects]
    check_windows(bound)
    check_regrouping(bound, catalog)
    for error in context.late:
        raise error
    if is_owned(bound.root):
        raise no_clause(bound.root.position)
    if epsilon is None:
        check_epsilon(owned, catalog.defaults.max_epsilon_per_query)
    owned = [number_rows(select, f"n{number}") for number, select in enumerate(owned)]
    owned = check_fanout(owned, facts)
    kept = KeptRows(facts, context.references)
    sizes = PublicSizes(catalog, context.symbols.origins, facts)
    owned = [
        replace(
            select,
            one_row_per_owner=has_one_row(context, kept, select.input),
            population=catalog.defaults.population,
        )
        for select in owned
    ]

    def alone(part: PrivateSelect) -> SelectPlan:
        return plan_select(part, composition)

    def planned(number: int, select: PrivateSelect) -> SelectPlan:
        public = Public(
            catalog.defaults.population, sizes.groups(select), select.one_row_per_owner, sizes.domains(select)
        )
        return plan_with_limits(select, alone, remembered_plan, public, f"s{number}")

    totals = totals_of_shares(bound.root, bound.selects, kept)
    plans = {number: planned(number, select) for number, select in enumerate(owned) if number not in totals}
    for number, groups in totals.items():
        rows = _owned_rows(groups.rows, context, facts)
        shared = (groups.select, groups.position, plans[groups.select])
        by = alone, remembered_plan, f"s{number}"
        total = None if rows is None else plan_of_total(owned[number], rows, shared, by)
        plans[number] = planned(number, owned[number]) if total is None else total
    selects = [plans[number] for number in range(len(owned))]
    return verify(_statement(bound, selects, statement, catalog), catalog)


def _owned_rows(select: PrivateSelect, context: Context, facts: PublicFacts) -> PrivateSelect | None:
    """The rows of a total by groups, checked as any SELECT is; None where they would be refused."""
    try:
        (rows,) = check_fanout([number_rows(check_ownership(select, context.references), "t")], facts)
    except ShoalError:
        return None
    return rows


def remembered_plan(select: PrivateSelect) -> SelectPlan:
    """The same, for what a search may choose from: many plans that are alike in many queries."""
    # Source positions are not part of a SELECT, but plans mention them.
    positions = (select.position, *(call.position for call in select.aggregates))
    return _remembered(select, positions, PASSES)


@remembered(PLANS_REMEMBERED)
def _remembered(
    select: PrivateSelect,
    _positions: tuple[Position, ...],
    _passes: tuple[Callable[[Any], Any], ...],
) -> SelectPlan:
    return plan_select(select, "basic")


def plan_select(select: PrivateSelect, composition: str) -> SelectPlan:
    """The plan of one private SELECT whose limits are known."""
    before: Any = None
    draft: Any = select
    for step in PASSES:
        before, draft = draft, step(draft)
    if composition == "pld":
        draft = compose_numerically(before, draft)
    if not isinstance(draft, SelectPlan):
        raise InternalError("the passes did not end in a plan")
    check_steps(draft)
    return draft


def _statement(
    bound: BoundStatement, selects: list[SelectPlan], statement: Statement, catalog: Catalog
) -> StatementPlan:
    losses = [loss_of_select(select) for select in selects]
    loss = Loss(
        sum((each.epsilon for each in losses), Fraction(0)),
        sum((each.delta for each in losses), Fraction(0)),
        sum((each.zcdp[0] for each in losses), Fraction(0)),
        sum((each.zcdp[1] for each in losses), Fraction(0)),
    )
    if any(select.composition == "pld" for select in selects):
        # Only the asked (ε, δ) is certain of a numerically composed plan; sessions add it up as such.
        loss = Loss(_asked_epsilon(selects), _asked_delta(selects))
    return StatementPlan(
        statement.sql,
        bound.root,
        tuple(selects),
        _asked_epsilon(selects),
        _asked_delta(selects),
        loss,
        catalog.version,
    )


def _asked_epsilon(selects: list[SelectPlan]) -> Fraction:
    return sum((s.select.options.epsilon for s in selects), Fraction(0))


def _asked_delta(selects: list[SelectPlan]) -> Fraction:
    return sum((delta_of(s.select.options) for s in selects), Fraction(0))
