"""Numerical (PLD) composition inside one plan, on request: the same (ε, δ) bought with less noise.

The events of a plan are fixed before data is read, so their privacy-loss distributions may be composed numerically (across an
adaptive session they may not). Laplace releases are stretched by one common factor, as far as the composed loss allows.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from shoal.accounting import pld
from shoal.rewrite.assign_mechanisms import best_assignment, regret
from shoal.rewrite.assigning.budget import Budget
from shoal.rewrite.assigning.complements import with_whole
from shoal.rewrite.assigning.finish import finished
from shoal.rewrite.assigning.laplace import with_laplace
from shoal.rewrite.assigning.means import with_mean
from shoal.rewrite.assigning.rules import joins_gaussian, rules_of
from shoal.rewrite.select_groups import delta_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.releases import SelectPlan
    from shoal.rewrite.assigning.candidate import Candidate
    from shoal.rewrite.draft import Draft

STEPS_OF_SEARCH = 12
LARGEST_FACTOR = Fraction(16)


def compose_numerically(draft: Draft, basic: SelectPlan) -> SelectPlan:
    """The more accurate of the basic plan and the best stretched Laplace plan."""
    if draft.histograms:
        return basic  # found bounds stretch the noise; its loss distribution was certified for other steps
    if delta_of(draft.select.options) == 0 or draft.select.options.noise == "GAUSSIAN" or len(basic.events) < 2:
        return basic
    rules = [rule for rule in rules_of(draft) if not joins_gaussian(rule)]
    ways: list[Callable[[Budget], list[Candidate]]] = [partial(with_whole, draft), partial(with_mean, draft)]
    ways += [lambda budget, rule=rule: [with_laplace(draft, budget, rule)] for rule in rules]  # type: ignore[misc]
    stretched = [candidate for way in ways if (candidate := _stretched(draft, way)) is not None]
    best = min(stretched, key=partial(regret, draft), default=None)
    if best is None or regret(draft, best) >= regret(draft, best_assignment(draft)):
        return basic
    return finished(draft, best, "pld")


def _stretched(draft: Draft, way: Callable[[Budget], list[Candidate]]) -> Candidate | None:
    """The largest common factor on all shares of ε for which the composition of the final noise still holds."""
    options = draft.select.options
    best, low, high = None, Fraction(1), LARGEST_FACTOR
    for _ in range(STEPS_OF_SEARCH):
        middle = (low + high) / 2
        for candidate in way(Budget(draft, middle)):
            fits = pld.plan_delta(finished(draft, candidate, "pld").events, options.epsilon) <= delta_of(options)
            best = candidate if fits else best
            low, high = (middle, high) if fits else (low, middle)
    return best
