"""Which selection rules are tried, and what each costs alongside other noise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.mechanisms import calibrate, group_selection
from shoal.mechanisms.group_selection import RULES
from shoal.mechanisms.selection.weighted import approximate_weighted_owners
from shoal.rewrite.select_groups import delta_of

if TYPE_CHECKING:
    from shoal.mechanisms.selection.rule import Rule, SelectionApart
    from shoal.rewrite.assigning.budget import Budget
    from shoal.rewrite.draft import Draft


CAREFUL = Fraction(101, 100)
"""Owners are whole numbers, so the share is a little larger than the ratio suggests."""
LARGER_SHARES = 4
"""How often a selection's share is enlarged before giving up; owners scale with 1/ε, so one step is usually enough."""


def rules_of(draft: Draft) -> list[Rule | None]:
    """Selection rules to try; None where nothing is selected."""
    if not draft.needs_selection:
        return [None]
    strategy = draft.select.options.strategy
    if strategy != "AUTO":
        return [RULES[strategy]]
    rules = [rule for rule in RULES.values() if draft.shared_unit is None or rule.reads is not None]
    unwanted = _rule_that_shows_fewer(draft) if draft.shared_unit is None else None
    return [rule for rule in rules if rule.name != unwanted]


def _rule_that_shows_fewer(draft: Draft) -> str:
    """Of the two rules that read Gaussian noise, the one that needs more owners, for owners in 1 to κ groups (closed form)."""
    groups, least = draft.contribution.groups, draft.select.options.min_owners
    budget = draft.select.options.epsilon, delta_of(draft.select.options)
    counted = calibrate.approximate_gaussian_threshold(groups, *budget) + least - 1
    weighed = approximate_weighted_owners(groups, least, *budget)
    return "GAUSSIAN_THRESHOLD" if groups > 1 and weighed < counted else "WEIGHTED"


def joins_gaussian(rule: Rule | None) -> bool:
    """Whether what a rule reads can be one more part of a joint Gaussian release."""
    return rule is not None and rule.joins_gaussian


def least_share(draft: Draft, budget: Budget, rule: Rule, owners: float) -> Fraction:
    """Roughly the ε at which a selection needs this many owners, each in κ groups; a little more is a little safer."""
    groups, least = draft.contribution.groups, draft.select.options.min_owners
    share = budget.selection
    for _ in range(LARGER_SHARES):
        if rule is RULES["WEIGHTED"]:
            needed = approximate_weighted_owners(groups, least, share, budget.delta, typical=False)
        else:
            needed = calibrate.approximate_gaussian_threshold(groups, share, budget.delta) + least - 1
        share *= Fraction(needed / owners)
    part = (share * CAREFUL / budget.epsilon).limit_denominator(10**6)
    return budget.epsilon * part if part else budget.selection


def selection_beside(draft: Draft, budget: Budget, rule: Rule) -> SelectionApart:
    """A selection with half of δ, and as much more of ε as it takes to need no more owners than under the even split.

    Only if the query names the rule: otherwise a threshold within the joint release has smaller errors.
    """
    chosen = selection_apart(draft, rule, budget.selection, budget.delta / 2)
    if not budget.is_even or draft.select.options.strategy == "AUTO":
        return chosen
    wanted = group_selection.half_point(selection_apart(draft, rule, budget.selection, budget.delta).selection)
    for _ in range(LARGER_SHARES):
        owners = group_selection.half_point(chosen.selection)
        larger = chosen.epsilon * Fraction(owners, wanted)
        if owners <= wanted or larger >= budget.epsilon:
            break
        chosen = selection_apart(draft, rule, larger, budget.delta / 2)
    return chosen


def selection_apart(draft: Draft, rule: Rule, epsilon: Fraction, delta: Fraction) -> SelectionApart:
    """A selection with its own budget."""
    return rule.apart(draft.contribution.groups, draft.select.options.min_owners, epsilon, delta)
