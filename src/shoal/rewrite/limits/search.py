"""Plans in two steps: noisy histograms find limits, then an ordinary plan has them as constants and the rest of ε.

Everything that step two may be is made and verified here, before anything is charged; the largest loss is charged. Limits other
than κ scale the noise and not the loss: small stand-ins take their place, and the plan that finally runs is checked against
what was charged.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Loss, plan_loss
from shoal.frozen import dataclass
from shoal.mechanisms.group_selection import half_point
from shoal.plan.limits.sought import SUMS, Limits, Search
from shoal.rewrite.limits.cuts import FEWEST_TO_MEASURE, cut_select, cuts_of
from shoal.rewrite.limits.histograms import histogram_select
from shoal.rewrite.limits.open_limits import (
    group_candidates,
    groups_without_search,
    open_limits,
    positions_in_all,
    prior_groups,
    prior_limits,
    with_limits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.plan.limits.sought import Sought
    from shoal.plan.releases import PrivateSelect, SelectPlan
    from shoal.rewrite.limits.cuts import Cut

    Planned = Callable[[PrivateSelect], SelectPlan]

SHARE, SHARE_OF_MANY = Fraction(1, 10), Fraction(1, 20)
"""Of ε, for all histograms together; the smaller one where ε·population is at least MANY."""
MANY = 50_000
FEWEST_PER_LIMIT = 100
"""If ε·population per limit is below this, a histogram would find nothing, and prior limits are used. Owners' sums count twice:
they spread over many octaves, and noise fills one of forty bins more often than one of twelve."""
MARGIN = Fraction(65, 64)
"""On ρ: limits that scale the noise round it by a trifle."""
FEWEST_ALONE, LARGEST_ALONE = 20, Fraction(1, 4)
"""Where groups per owner are known, few owners find the other limits with a larger share: 20 for each limit over ε·population."""
STAND_IN = Fraction(2)
FEWER_GROUPS = (3, 2, 1)
LARGEST_SHARE = Fraction(3, 5)
"""Of all owners, in the largest group that guessed limits reckon with."""


@dataclass(frozen=True, slots=True)
class Public:
    """Public facts about a query: the approximate number of owners, and the possible groups."""

    population: int | None
    cap: int | None
    one_row: bool = False
    """Whether an owner has one row at most."""
    domains: tuple[int | None, ...] = ()
    """For each aggregate, the most different values it can find."""


def plan_with_limits(
    select: PrivateSelect, planned: Planned, remembered: Planned, public: Public, prefix: str
) -> SelectPlan:
    """The plan of a SELECT, preceded by a search if limits are open and can be found.

    `remembered` plans what a search may choose from, `planned` everything else.
    """
    plan = _in_steps(select, planned, remembered, public, prefix)
    domains = public.domains if any(size is not None for size in public.domains) else ()
    return replace(plan, domains=domains, one_row=public.one_row)


def _in_steps(select: PrivateSelect, planned: Planned, remembered: Planned, public: Public, prefix: str) -> SelectPlan:
    if public.one_row:
        public = replace(public, cap=1)
    sought = open_limits(select, public.cap, one_row=public.one_row, domains=public.domains)
    if not sought and select.options.find_limits:
        select = _with_known(select, public.cap)
    cuts = cuts_of(select, sought, public.cap, one_row=public.one_row)
    select, cuts, unseen = _worth_measuring(select, cuts, public)
    epsilon = select.options.epsilon
    if not sought and not cuts:
        return replace(planned(select), guessed=unseen)
    if sought and (_has_fixed_parts(select) or share_of(epsilon, public.population, sought) is None):
        return _with_prior(_without_measuring(select), sought, planned, public)
    spent, histograms = _step_one(select, sought, cuts, public, (remembered, prefix))
    rest = epsilon - spent
    if sought:
        stand_ins = stand_ins_of(select, sought, public.cap)
        choices = tuple(remembered(with_limits(select, limits, rest)) for limits in stand_ins)
    else:
        choices = (remembered(as_given(select, rest)),)
    example = choices[_example(choices, prior_groups(select, public.cap))]
    search = Search((*sought, *(cut.sought for cut in cuts)), histograms, choices, rest)
    events = (*(event for histogram in histograms for event in histogram.events), *example.events)
    return replace(example, select=select, search=search, events=events)


def _with_known(select: PrivateSelect, cap: int | None) -> PrivateSelect:
    """The SELECT when nothing has to be found: its limits are what is known for free."""
    known = Limits(prior_groups(select, cap), (None,) * len(select.aggregates))
    found = with_limits(select, known, select.options.epsilon)
    return replace(found, options=replace(found.options, measure_cut=select.options.measure_cut))


def as_given(select: PrivateSelect, epsilon: Fraction) -> PrivateSelect:
    """The SELECT whose limits were all given, with the ε that measuring them leaves."""
    return replace(select, options=replace(select.options, epsilon=epsilon, find_limits=False, measure_cut=Fraction(0)))


def _without_measuring(select: PrivateSelect) -> PrivateSelect:
    return replace(select, options=replace(select.options, measure_cut=Fraction(0)))


def _worth_measuring(
    select: PrivateSelect, cuts: tuple[Cut, ...], public: Public
) -> tuple[PrivateSelect, tuple[Cut, ...], tuple[int, ...]]:
    """What is measured; if too few owners would show nothing, the aggregates whose cut stays unknown."""
    share = select.options.measure_cut
    if not cuts or not share or _has_fixed_parts(select):
        return _without_measuring(select), (), ()
    owners = public.population
    if owners is not None and select.options.epsilon * share * owners < FEWEST_TO_MEASURE * len(cuts):
        unseen = {position for cut in cuts for position in cut.calls if cut.bounds is None}
        return _without_measuring(select), (), tuple(sorted(unseen))
    return select, cuts, ()


def _step_one(
    select: PrivateSelect, sought: tuple[Sought, ...], cuts: tuple[Cut, ...], public: Public, by: tuple[Planned, str]
) -> tuple[Fraction, tuple[SelectPlan, ...]]:
    """The histograms of limits that are sought, then those of limits that are measured, and what all of them spend."""
    planned, prefix = by
    epsilon = select.options.epsilon
    share = share_of(epsilon, public.population, sought) if sought else None
    finding, measuring = (share or Fraction(0)) * epsilon, select.options.measure_cut * epsilon
    asked = [histogram_select(select, s, f"{prefix}h{n}", finding / len(sought)) for n, s in enumerate(sought)]
    asked += [cut_select(select, cut, f"{prefix}c{n}", measuring / len(cuts)) for n, cut in enumerate(cuts)]
    return finding + measuring, tuple(planned(each) for each in asked)


def _has_fixed_parts(select: PrivateSelect) -> bool:
    """If parts of ε are fixed in the query, there is none left for a search."""
    return select.options.selection_epsilon is not None or any(call.epsilon is not None for call in select.aggregates)


def share_of(epsilon: Fraction, population: int | None, sought: Sequence[Sought]) -> Fraction | None:
    """The share of ε for all histograms together; None if there are too few owners to find anything."""
    if population is None:
        return SHARE
    owners, limits = epsilon * population, len(sought)
    if owners >= MANY:
        return SHARE_OF_MANY
    if any(limit.kind == "groups" for limit in sought):
        sums = sum(limit.kind in SUMS for limit in sought)
        return SHARE if owners >= FEWEST_PER_LIMIT * (limits + sums) else None
    if owners * LARGEST_ALONE < FEWEST_ALONE * limits * Fraction(3, 4):
        return None
    return min(LARGEST_ALONE, max(SHARE, FEWEST_ALONE * limits / owners))


def _with_prior(select: PrivateSelect, sought: tuple[Sought, ...], planned: Planned, public: Public) -> SelectPlan:
    plan = _planned_prior(select, sought, planned, public)
    why = (
        "a part of epsilon is fixed in the query"
        if _has_fixed_parts(select)
        else f"about {public.population:,} owners are too few to find them"
    )
    note = f"Limits that nobody named are public guesses, because {why}."
    guessed = _guessed(plan, sought, public.cap)
    return replace(plan, select=replace(plan.select, notes=(*plan.select.notes, note)), guessed=guessed)


def _guessed(plan: SelectPlan, sought: tuple[Sought, ...], cap: int | None) -> tuple[int, ...]:
    """The aggregates that a guess may cut: all, unless an owner counts in every possible group; then sums find their bounds."""
    every_group = cap is not None and plan.contribution.groups >= cap
    if any(limit.kind == "groups" for limit in sought) and not every_group:
        return tuple(range(len(plan.columns)))
    guesses = {position for limit in sought for position in limit.calls}
    found = {position for position, column in enumerate(plan.columns) if column.call.bounds_source == "inferred"}
    return tuple(sorted(guesses - found))


def _planned_prior(select: PrivateSelect, sought: tuple[Sought, ...], planned: Planned, public: Public) -> SelectPlan:
    """The plan under public guesses; with few owners, with few enough groups per owner for any group to appear."""
    limits = prior_limits(select, sought, public.cap, public.population)
    if not any(limit.kind == "groups" for limit in sought):
        return planned(with_limits(select, limits, select.options.epsilon))
    for groups in (limits.groups, *(fewer for fewer in FEWER_GROUPS if fewer < limits.groups)):
        plan = planned(with_limits(select, replace(limits, groups=groups), select.options.epsilon))
        if plan.selection is None or public.population is None:
            break
        if half_point(plan.selection) <= LARGEST_SHARE * public.population:
            break
    return plan


def stand_ins_of(select: PrivateSelect, sought: Sequence[Sought], cap: int | None) -> list[Limits]:
    """Every κ that can be found, with stand-ins for the other limits in every way that makes another plan.

    COUNT(*) of one row of each owner is a count of owners, which can also select groups; a sum without bounds looks for them.
    """
    if any(limit.kind == "all" for limit in sought):
        return [Limits(1, (None,) * len(select.aggregates), int(STAND_IN))]
    open_groups = next((limit for limit in sought if limit.kind == "groups"), None)
    groups = group_candidates(cap) if open_groups is not None else (known_groups(select, sought, cap),)
    positions = [(limit.kind, position) for limit in sought for position in limit.calls]
    once = [position for kind, position in positions if kind == "rows" and is_count_of_all(select, position)]
    sums = [position for kind, position in positions if kind in SUMS and select.aggregates[position].bounds is None]
    found = []
    for kappa, one_row, without in product(
        groups, (False, True) if once else (False,), (False, True) if sums else (False,)
    ):
        of_call: list[Fraction | None] = [None] * len(select.aggregates)
        for _, position in positions:
            of_call[position] = Fraction(1) if one_row and position in once else STAND_IN
        for position in sums if without else ():
            of_call[position] = None
        found.append(Limits(kappa, tuple(of_call), in_all=positions_in_all(sought)))
    return found


def known_groups(select: PrivateSelect, sought: Sequence[Sought], cap: int | None) -> int:
    """κ where it is not sought."""
    return groups_without_search(select, cap) if positions_in_all(sought) else prior_groups(select, cap)


def is_count_of_all(select: PrivateSelect, position: int) -> bool:
    """Whether an aggregate is COUNT(*)."""
    return select.aggregates[position].aggregate.counts_all_rows


def _example(choices: Sequence[SelectPlan], groups: int) -> int:
    """The choice that explains best what may come out: the κ that would be guessed."""
    distances = [abs(choice.contribution.groups - groups) for choice in choices]
    return distances.index(min(distances))


def loss_of_select(plan: SelectPlan) -> Loss:
    """What a SELECT costs: that of its releases; with a search, of step one and of the worst that step two can be."""
    search = plan.search
    if search is None:
        return plan_loss(plan.events)
    first = plan_loss([event for histogram in search.histograms for event in histogram.events])
    second = largest([plan_loss(choice.events) for choice in search.choices], search.epsilon)
    rho, rho_delta = (a + b for a, b in zip(first.zcdp, second.zcdp, strict=True))
    return Loss(first.epsilon + second.epsilon, first.delta + second.delta, rho, rho_delta)


def largest(losses: Sequence[Loss], epsilon: Fraction) -> Loss:
    """A loss that none of them exceeds in any respect: all that step two may spend, and the margin on ρ.

    Limits that were not planned for round the noise differently, so they may cost slightly more than any of the stand-ins.
    """
    return Loss(
        max(epsilon, *(loss.epsilon for loss in losses)),
        max(loss.delta for loss in losses),
        MARGIN * max(loss.zcdp[0] for loss in losses),
        max(loss.zcdp[1] for loss in losses),
    )
