"""Chooses the noise, its scale, and the rule that selects groups.

Closed forms give the cost of every assignment the options allow. The most accurate one wins, but never one that is less
accurate anywhere than the even split ε/(N + 1) with Laplace noise.

Candidates: Laplace noise with optimal or Laplace-threshold selection; jointly calibrated Gaussian noise with a Gaussian
threshold on the owner count, or on weights (part of the same joint release), or with an optimal selection; Laplace noise with a
selection by weights that gets only as much ε as it needs to show what the even split shows; noise of either kind on a number and
on its distance from its bound, which together select groups.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import geometric_mean
from typing import TYPE_CHECKING

from shoal.accounting.events import WeightedSelection
from shoal.errors import ShoalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.group_selection import RULES
from shoal.mechanisms.regret import expected_groups, expected_log_error, largest_group
from shoal.rewrite.assigning.budget import Budget, part_moves
from shoal.rewrite.assigning.candidate import Candidate, Errors, asked_by, kind_of_noise, spare_of
from shoal.rewrite.assigning.complements import with_gaussian_whole, with_whole
from shoal.rewrite.assigning.finish import finished
from shoal.rewrite.assigning.gaussian import gaussian_beside, least_beside, with_gaussian
from shoal.rewrite.assigning.laplace import with_laplace
from shoal.rewrite.assigning.means import with_mean
from shoal.rewrite.assigning.reasons import NAMES, noise_asked
from shoal.rewrite.assigning.rules import joins_gaussian, least_share, rules_of
from shoal.rewrite.bound_contributions import choose_quantiles
from shoal.rewrite.select_groups import delta_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.mechanisms.selection.rule import Rule
    from shoal.plan.releases import SelectPlan
    from shoal.rewrite.draft import Draft


SLACK = 1 + 1e-6
LEAST_SHOWN = 1e-6
CLEARLY_MORE, NOT_MORE_THAN = 1.1, 2.0
"""A selection by weights beats more accurate numbers if it is expected to show this many times as many groups, with errors at
most this many times as large."""


def assign_mechanisms(draft: Draft) -> SelectPlan:
    """The finished plan of one private SELECT."""
    return finished(draft, best_assignment(draft))


def best_assignment(draft: Draft) -> Candidate:
    """The most accurate way to spend the budget that is nowhere worse than the even split."""
    candidates = _candidates(draft, Budget(draft))
    chosen = choose_quantiles(draft)
    if chosen is not None:
        candidates += _candidates(chosen, Budget(chosen))
    fair = [candidates[0], *(c for c in candidates[1:] if _nowhere_worse(c, candidates[0], spare_of(draft)))]
    best = min(fair, key=partial(regret, draft))
    more = _weights_that_show_more(draft, best, fair)
    if more:
        weighed = min(more, key=partial(regret, draft))
        return replace(weighed, why=_why_weights(draft, weighed, best))
    return replace(best, why=_why_not_the_other(draft, best, fair))


def regret(draft: Draft, candidate: Candidate) -> tuple[float, float]:
    """The quantity to minimise: the expected error over a public prior of group sizes; where no group has one, all of it."""
    if not draft.needs_selection:
        return 0.0, candidate.score()
    return expected_log_error(candidate.errors(), candidate.typical_owners(), _largest(draft)), candidate.score()


def _largest(draft: Draft) -> float:
    return largest_group(delta_of(draft.select.options))


def _why_not_the_other(draft: Draft, best: Candidate, fair: list[Candidate]) -> str:
    """Where a count that is shown also selects: closer numbers or more groups, and what the other kind of noise would give."""
    others = [
        c
        for c in fair
        if type(c.selection) is type(best.selection) and c.shared and kind_of_noise(c) != kind_of_noise(best)
    ]
    if not others or not best.shared or draft.select.options.noise != "AUTO":
        return best.why
    other = min(others, key=partial(regret, draft))
    times = _times_the_errors(other, best)
    if times >= 1 and best.half_point() <= other.half_point():
        return best.why
    shown = f"groups from {other.half_point():,.0f} owners on instead of {best.half_point():,.0f}"
    return (
        f"{NAMES[kind_of_noise(best)]} is expected to say more about groups of up to {_largest(draft):,.0f} owners; "
        f"noise = {kind_of_noise(other)} would give typical errors {_in_figures(times)} times as large, and show {shown}"
    )


def _candidates(draft: Draft, budget: Budget) -> list[Candidate]:
    """All assignments the options allow, except those that another one beats; the first is the even split."""
    noise = noise_asked(draft)
    moves = any(part_moves(p) for p in draft.parts) or draft.histograms or draft.needs_selection
    rules = rules_of(draft)
    if RULES["OPTIMAL"] in rules:
        # No rule with the same (ε, δ) keeps any group with a higher chance than the optimal one.
        rules = [rule for rule in rules if rule is RULES["OPTIMAL"] or joins_gaussian(rule)]
    found: list[Candidate] = []
    if noise != "GAUSSIAN" or not moves:
        found.append(with_laplace(draft, budget, rules[0]))
    if noise == "GAUSSIAN" and moves and budget.delta == 0:
        raise ShoalError(
            "E_OPTION_INVALID",
            "Gaussian noise needs delta > 0.",
            hint="Write delta = 1e-6, or noise = LAPLACE.",
            position=draft.select.position,
        )
    if moves and budget.delta > 0 and (noise == "GAUSSIAN" or (noise == "AUTO" and budget.is_even)):
        for rule in reversed(rules):  # the joint threshold first: it often beats a separate selection
            if draft.shared_unit is not None and not joins_gaussian(rule):
                continue  # the count that is shown has Gaussian noise
            if any(part.measure.limited_in_all for part in draft.parts) and noise == "AUTO":
                found += gaussian_beside(draft, budget, rule)
            if any(part.targets for part in draft.parts):
                found += gaussian_beside(draft, budget, rule)
            elif not _surpassed(draft, found, partial(least_beside, draft, budget, rule)):
                found.append(with_gaussian(draft, budget, rule))
    if noise != "GAUSSIAN":
        for rule in rules[1:]:
            if not _surpassed(draft, found, partial(_least_with_gaussian_count, draft, budget, found[0])):
                found.append(with_laplace(draft, budget, rule))
            found += _with_leaner_selection(draft, budget, rule, found)
        found += [*with_whole(draft, budget), *with_mean(draft, budget)]
    if noise != "LAPLACE" and moves:
        found += [whole for whole in with_gaussian_whole(draft, budget) if not _weights_show_more(draft, whole, found)]
    return found


def _weights_show_more(draft: Draft, whole: Candidate, found: list[Candidate]) -> bool:
    """Whether a selection by weights is expected to show more groups than Gaussian noise on a whole, whose errors gain little."""
    weighed = [c for c in found if isinstance(c.selection, WeightedSelection)]
    fair = [c for c in weighed if _nowhere_worse(c, found[0], spare_of(draft))]
    return _open_to_weights(draft) and any(c.typical_owners() < whole.typical_owners() for c in fair)


def _weights_that_show_more(draft: Draft, best: Candidate, fair: list[Candidate]) -> list[Candidate]:
    """Selections by weights that are expected to show clearly more groups: numbers up to twice as close do not outweigh them."""
    if not _open_to_weights(draft) or isinstance(best.selection, WeightedSelection):
        return []
    needed = expected_groups(best.typical_owners(), _largest(draft)) * CLEARLY_MORE
    weighed = [c for c in fair if isinstance(c.selection, WeightedSelection)]
    return [
        c
        for c in weighed
        if expected_groups(c.typical_owners(), _largest(draft)) >= max(needed, LEAST_SHOWN)
        and _times_the_errors(c, best) <= NOT_MORE_THAN
    ]


def _times_the_errors(candidate: Candidate, other: Candidate) -> float:
    """How many times as large the typical errors of one are, over all numbers; 1 where there are none."""
    ratios = [a / b for a, b in zip(candidate.medians(), other.medians(), strict=True)]
    return geometric_mean(ratios) if ratios else 1.0


def _in_figures(ratio: float) -> str:
    """Two digits, without a power of ten.

    >>> _in_figures(1.234), _in_figures(8123.4)
    ('1.2', '8,100')
    """
    return f"{float(f'{ratio:.2g}'):,.10g}"


def _open_to_weights(draft: Draft) -> bool:
    return draft.needs_selection and draft.shared_unit is None and draft.select.options.strategy == "AUTO"


def _why_weights(draft: Draft, weighed: Candidate, other: Candidate) -> str:
    """What is traded away for more groups, and how to request it."""
    shown = [expected_groups(c.typical_owners(), _largest(draft)) for c in (weighed, other)]
    times = _times_the_errors(other, weighed)
    return (
        f"Weights are expected to show {shown[0]:.0%} of groups of up to {_largest(draft):,.0f} owners; "
        f"{asked_by(other)} would show {shown[1]:.0%}, with typical errors {_in_figures(times)} times as large"
    )


def _nowhere_worse(candidate: Candidate, baseline: Candidate, spare: float) -> bool:
    """Whether no number and no group does worse than under the even split ε/(N + 1)."""
    pairs = [
        *zip(candidate.widths(), baseline.widths(), strict=True),
        *zip(candidate.medians(), baseline.medians(), strict=True),
    ]
    return all(a <= b * spare * SLACK for a, b in pairs) and candidate.half_point() <= baseline.half_point() * SLACK


def _surpassed(draft: Draft, found: list[Candidate], least: Callable[[], Errors | None]) -> bool:
    """Whether a candidate is at least as good in everything as another one can be."""
    fair = [c for c in found[1:] if _nowhere_worse(c, found[0], spare_of(draft))]
    estimate = least() if fair and draft.needs_selection and draft.shared_unit is None else None
    return estimate is not None and any(
        c.half_point() <= estimate.owners and all(a <= b for a, b in zip(c.widths(), estimate.widths, strict=True))
        for c in fair
    )


def _least_with_gaussian_count(draft: Draft, budget: Budget, even: Candidate) -> Errors:
    """Approximate errors of the even split's noise with a Gaussian threshold, rounded down."""
    owners = calibrate.approximate_gaussian_threshold(draft.contribution.groups, budget.selection, budget.delta)
    return Errors(even.widths(), owners - 2)


def _with_leaner_selection(draft: Draft, budget: Budget, rule: Rule | None, found: list[Candidate]) -> list[Candidate]:
    """A rule that needs fewer owners than the even split's gives up the ε it can spare without getting worse; all numbers gain."""
    even, joint = found[0], rule is not None and joins_gaussian(rule)
    if rule is None or not joint or draft.shared_unit is not None or not budget.is_even:
        return []
    epsilon = least_share(draft, budget, rule, even.half_point())
    without = (budget.epsilon - budget.selection) / budget.epsilon
    surpassed = any(
        all(a <= b * float(without) for a, b in zip(c.medians(), even.medians(), strict=True)) for c in found[1:]
    )
    if surpassed or epsilon >= budget.selection:
        return []
    leaner = with_laplace(draft, budget.leaning(epsilon), rule)
    return [leaner] if leaner.half_point() <= even.half_point() else []
