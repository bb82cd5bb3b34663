"""Numerical (PLD) composition inside one plan, on request: the same (ε, δ) bought with less noise.

The events of a plan are fixed before data is read, so their privacy-loss distributions may be composed numerically (across an
adaptive session they may not). Laplace releases are stretched by one common factor, as far as the composed loss allows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting import pld
from shoal.rewrite.assigning.budget import Budget
from shoal.rewrite.assigning.candidate import Candidate
from shoal.rewrite.assigning.finish import finished
from shoal.rewrite.assigning.laplace import with_laplace
from shoal.rewrite.assigning.rules import joins_gaussian, rules_of
from shoal.rewrite.select_groups import delta_of

if TYPE_CHECKING:
    from shoal.mechanisms.selection.rule import Rule
    from shoal.plan.releases import SelectPlan
    from shoal.rewrite.draft import Draft

STEPS_OF_SEARCH = 12
LARGEST_FACTOR = Fraction(16)


def compose_numerically(draft: Draft, basic: SelectPlan) -> SelectPlan:
    """The more accurate of the basic plan and the best stretched Laplace plan."""
    if draft.histograms:
        return basic  # bounds that are found stretch the noise; its loss distribution was certified for other steps
    spread = any(
        part.entries is not None for part in draft.parts
    )  # moves whose loss distribution is not proven to be the worst
    if (
        delta_of(draft.select.options) == 0
        or draft.select.options.noise == "GAUSSIAN"
        or len(basic.events) < 2
        or spread
    ):
        return basic
    rules = [rule for rule in rules_of(draft) if not joins_gaussian(rule)]
    stretched = [candidate for rule in rules if (candidate := _stretched(draft, rule)) is not None]
    plans = [finished(draft, candidate, "pld") for candidate in stretched]
    best = min(zip(stretched, plans, strict=True), key=lambda pair: pair[0].score(), default=None)
    if best is None or best[0].score() >= _score(basic):
        return basic
    return best[1]


def _score(plan: SelectPlan) -> float:
    noises = tuple(release.noise for release in plan.releases)
    return Candidate(noises, (), plan.selection, plan.shared_count is not None, plan.events, "").score()


def _stretched(draft: Draft, rule: Rule | None) -> Candidate | None:
    """The largest common factor on all shares of ε for which the composition still holds."""
    options = draft.select.options
    best, low, high = None, Fraction(1), LARGEST_FACTOR
    for _ in range(STEPS_OF_SEARCH):
        middle = (low + high) / 2
        candidate = with_laplace(draft, Budget(draft, middle), rule)
        if pld.plan_delta(candidate.events, options.epsilon) <= delta_of(options):
            best, low = candidate, middle
        else:
            high = middle
    return best
