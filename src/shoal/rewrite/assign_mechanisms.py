"""Which noise, how much, and which rule keeps groups.

Every way that the options allow is costed by closed forms, and the most accurate one is taken, never one that is less
accurate anywhere than the even split ε/(N + 1) with Laplace noise.

Candidates: Laplace noise with optimal or Laplace-threshold selection; jointly calibrated Gaussian noise with a Gaussian
threshold on the owner count, or on weights (part of the same joint release), or beside an optimal selection; Laplace noise beside
a selection by weights that has no more of ε than it needs to show what the even split shows.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, cast

from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    QuantileChoice,
    Shift,
    ThresholdSelection,
    WeightedSelection,
)
from shoal.errors import ShoalError
from shoal.mechanisms import calibrate, group_selection
from shoal.mechanisms.group_selection import RULES
from shoal.mechanisms.regret import expected_log_error, largest_group
from shoal.mechanisms.selection import thresholds
from shoal.mechanisms.selection.weighted import approximate_weighted_owners
from shoal.plan.releases import Column, HistogramRelease, Release, SelectPlan
from shoal.rewrite.bound_contributions import bins_shift, choose_quantiles
from shoal.rewrite.select_groups import delta_of
from shoal.rewrite.sizing import Sized, choice_of, partitioned, reach, sized
from shoal.rewrite.weights import GAUSSIAN_MEDIAN, LAPLACE_MEDIAN, joint_weights, weights_by_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.accounting.events import AdditiveNoise, Event, Randomised, Selection
    from shoal.mechanisms.selection.rule import JointRule, Rule, SelectionApart
    from shoal.rewrite.draft import Draft, Part, Unit

LAPLACE_95, GAUSSIAN_95 = math.log(20), 1.96
SLACK = 1 + 1e-6
RANKS_OF_A_TREE = 1.8
"""About how many times the error of one node a rank read off a tree is wrong (measured: docs/theory/quantiles.md)."""

NEARLY_ALL = Fraction(99, 100)
NAMES = {"LAPLACE": "Laplace noise", "GAUSSIAN": "Jointly calibrated Gaussian noise"}
CAREFUL = Fraction(101, 100)
"""Owners are whole numbers: a share that is a little larger than the ratio says."""
LARGER_SHARES = 4
"""How often the share of a selection is enlarged before it is given up; owners go by 1/ε, so that one step mostly does."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One complete assignment: noise of every part and histogram, the selection, what it costs and how good it is."""

    parts: tuple[Randomised, ...]
    histograms: tuple[AdditiveNoise, ...]
    selection: Selection | None
    shared: bool
    events: tuple[Event, ...]
    why: str

    def widths(self) -> tuple[float, ...]:
        """About the 95% half-width of every released number, in the analyst's units."""
        return tuple(_width(noise) for noise in self.parts if noise.shift.l1)

    def medians(self) -> tuple[float, ...]:
        """About the median error of every released number, in the analyst's units."""
        return tuple(_width(noise) * _median_in_widths(noise) for noise in self.parts if noise.shift.l1)

    def errors(self) -> tuple[float, ...]:
        """The same in what one owner adds at most."""
        moved = [noise for noise in self.parts if noise.shift.l1]
        return tuple(
            median / float(noise.shift.per_coordinate * noise.grid)
            for median, noise in zip(self.medians(), moved, strict=True)
        )

    def half_point(self) -> float:
        """Owners at which a group is as likely kept as not; 1 without selection."""
        return max(1.0, float(group_selection.half_point(self.selection))) if self.selection is not None else 1.0

    def score(self) -> float:
        """Mean logarithm of what should be small."""
        logs = [math.log(max(w, 1e-300)) for w in self.widths()]
        return sum(logs, math.log(self.typical_owners())) / (len(logs) + 1)

    def typical_owners(self) -> float:
        """About the same for owners in 1 to κ groups: where group sizes go by their logarithm, the fewer, the more groups."""
        return max(1.0, group_selection.typical_owners(self.selection)) if self.selection is not None else 1.0


@dataclass(frozen=True, slots=True)
class Errors:
    """What should be small: half-widths of the released numbers, and the owners that a group needs."""

    widths: tuple[float, ...]
    owners: float


def _width(noise: Randomised) -> float:
    if isinstance(noise, QuantileChoice):
        reaches = max(target.reach for target in noise.targets)
        return LAPLACE_95 * float(reaches * noise.scale) / RANKS_OF_A_TREE
    if isinstance(noise, LaplaceNoise):
        return LAPLACE_95 * float(noise.scale) * float(noise.grid)
    return GAUSSIAN_95 * float(noise.sigma) * float(noise.grid)


def _median_in_widths(noise: Randomised) -> float:
    return GAUSSIAN_MEDIAN / GAUSSIAN_95 if isinstance(noise, GaussianNoise) else LAPLACE_MEDIAN / LAPLACE_95


def assign_mechanisms(draft: Draft) -> SelectPlan:
    """The finished plan of one private SELECT."""
    candidates = _candidates(draft, Budget(draft))
    chosen = choose_quantiles(draft)
    if chosen is not None:
        candidates += _candidates(chosen, Budget(chosen))
    fair = [candidates[0], *(c for c in candidates[1:] if _nowhere_worse(c, candidates[0], spare_of(draft)))]
    best = min(fair, key=partial(_regret, draft))
    return finished(draft, replace(best, why=_why_not_the_other(draft, best, fair)))


def _regret(draft: Draft, candidate: Candidate) -> tuple[float, float]:
    """What should be small: the expected error over a public prior of group sizes; where no group has one, all of it."""
    if not draft.needs_selection:
        return 0.0, candidate.score()
    return expected_log_error(candidate.errors(), candidate.typical_owners(), _largest(draft)), candidate.score()


def _largest(draft: Draft) -> float:
    return largest_group(delta_of(draft.select.options))


def _why_not_the_other(draft: Draft, best: Candidate, fair: list[Candidate]) -> str:
    """Where a count that is shown also selects: closer numbers or more groups, and what the other kind of noise would give."""
    others = [c for c in fair if type(c.selection) is type(best.selection) and c.shared and _kind(c) != _kind(best)]
    if not others or not best.shared or draft.select.options.noise != "AUTO":
        return best.why
    other = min(others, key=partial(_regret, draft))
    ratios = [math.log(a / b) for a, b in zip(other.medians(), best.medians(), strict=True)]
    times = math.exp(sum(ratios) / len(ratios))
    if times >= 1 and best.half_point() <= other.half_point():
        return best.why
    shown = f"groups from {other.half_point():,.0f} owners on instead of {best.half_point():,.0f}"
    return (
        f"{NAMES[_kind(best)]} is expected to tell more about groups of up to {_largest(draft):,.0f} owners; "
        f"noise = {_kind(other)} would give typical errors {times:.2g} times as large, and show {shown}"
    )


def _kind(candidate: Candidate) -> str:
    return "GAUSSIAN" if any(isinstance(noise, GaussianNoise) for noise in candidate.parts) else "LAPLACE"


def spare_of(draft: Draft) -> float:
    """A count that also selects saves the share of ε that the even split keeps for the selection."""
    return (len(draft.units) + 1) / len(draft.units) if draft.shared_unit is not None else 1.0


def _nowhere_worse(candidate: Candidate, baseline: Candidate, spare: float) -> bool:
    """Whether no number and no group fares worse than under the even split ε/(N + 1)."""
    pairs = [
        *zip(candidate.widths(), baseline.widths(), strict=True),
        *zip(candidate.medians(), baseline.medians(), strict=True),
    ]
    return all(a <= b * spare * SLACK for a, b in pairs) and candidate.half_point() <= baseline.half_point() * SLACK


class Budget:
    """The even split, with what the analyst fixed taken out first."""

    def __init__(self, draft: Draft, factor: Fraction = Fraction(1)) -> None:
        """`factor` stretches every share: numerical composition finds out how far (and keeps half of δ for itself)."""
        options = draft.select.options
        self.epsilon = options.epsilon
        self.delta = delta_of(options) if factor == 1 else delta_of(options) / 2
        own_selection = draft.needs_selection and draft.shared_unit is None
        fixed = [u.epsilon for u in draft.units if u.epsilon is not None]
        if own_selection and options.selection_epsilon is not None:
            fixed.append(options.selection_epsilon)
        left = options.epsilon - sum(fixed, Fraction(0))
        open_units = sum(u.epsilon is None and unit_moves(draft, u) for u in draft.units)
        takers = open_units + int(own_selection and options.selection_epsilon is None)
        if left < 0 or (takers and left == 0):
            raise ShoalError(
                "E_OPTION_INVALID",
                "The aggregates' own epsilons leave nothing of the query's epsilon for the rest.",
                hint="Their sum must stay below the option epsilon; which groups appear also needs a part of it.",
                position=draft.select.position,
            )
        even = left / takers if takers else Fraction(0)
        self.units = [factor * (u.epsilon if u.epsilon is not None else even) for u in draft.units]
        self.selection = factor * (options.selection_epsilon or even) if own_selection else Fraction(0)
        self.is_even = not fixed

    def leaning(self, selection: Fraction) -> Budget:
        """The same with so much for the selection, the rest stretched alike."""
        other = copy(self)
        stretch = (self.epsilon - selection) / (self.epsilon - self.selection)
        other.units, other.selection = [stretch * unit for unit in self.units], selection
        return other


def _candidates(draft: Draft, budget: Budget) -> list[Candidate]:
    """All assignments the options allow, without those that another surpasses; the first is the even split."""
    noise = _noise_asked(draft)
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
        for rule in reversed(rules):  # the joint threshold first: it often surpasses a selection apart
            if draft.shared_unit is not None and not joins_gaussian(rule):
                continue  # the count that is shown has Gaussian noise
            if any(part.targets for part in draft.parts):
                found += _gaussian_beside_choices(draft, budget, rule)
            elif not _surpassed(draft, found, partial(_least_beside, draft, budget, rule)):
                found.append(_with_gaussian(draft, budget, rule))
    if noise != "GAUSSIAN":
        for rule in rules[1:]:
            if not _surpassed(draft, found, partial(_least_with_gaussian_count, draft, budget, found[0])):
                found.append(with_laplace(draft, budget, rule))
            found += _with_leaner_selection(draft, budget, rule, found)
    return found


def _with_leaner_selection(draft: Draft, budget: Budget, rule: Rule | None, found: list[Candidate]) -> list[Candidate]:
    """A rule that needs fewer owners than the even split's gives up as much of its ε as keeps it no worse; all numbers gain."""
    even, joint = found[0], rule is not None and joins_gaussian(rule)
    if rule is None or not joint or draft.shared_unit is not None or not budget.is_even:
        return []
    epsilon = _least_share(draft, budget, rule, even.half_point())
    without = (budget.epsilon - budget.selection) / budget.epsilon
    surpassed = any(
        all(a <= b * float(without) for a, b in zip(c.medians(), even.medians(), strict=True)) for c in found[1:]
    )
    if surpassed or epsilon >= budget.selection:
        return []
    leaner = with_laplace(draft, budget.leaning(epsilon), rule)
    return [leaner] if leaner.half_point() <= even.half_point() else []


def _least_share(draft: Draft, budget: Budget, rule: Rule, owners: float) -> Fraction:
    """About the ε at which a selection needs so many owners, where each is in κ groups; a little more is a little safer."""
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


def _noise_asked(draft: Draft) -> str:
    """The noise that was asked for; a threshold that reads a released count asks for the kind of its own name."""
    options = draft.select.options
    if options.noise != "AUTO" or draft.shared_unit is None:
        return options.noise
    rule = RULES.get(options.strategy)
    return rule.reads if rule is not None and rule.reads is not None else "AUTO"


def _why(draft: Draft, budget: Budget, noise: str) -> str:
    """The reason for a kind of noise in words; that it is the more accurate one only where the planner could choose."""
    name = NAMES[noise]
    options = draft.select.options
    if any(part.targets for part in draft.parts):
        left = "" if all(part.targets for part in draft.parts) else f"; {name} for the rest"
        return f"Quantiles are chosen among leaves, which is more accurate here than a noisy tree{left}"
    if not any(part_moves(part) for part in draft.parts):
        return "No owner can change these numbers, so they get no noise"
    if options.noise == noise:
        return f"{name}, as asked"
    if _noise_asked(draft) == noise:
        return f"{name}: the rule {options.strategy}, as asked, reads a count that is shown"
    if noise == "LAPLACE" and budget.delta == 0:
        return f"{name}: Gaussian noise would need delta > 0"
    if noise == "LAPLACE" and not budget.is_even:
        return f"{name}, because a part of epsilon is fixed in the query"
    return f"{name} is the more accurate here"


def _surpassed(draft: Draft, found: list[Candidate], least: Callable[[], Errors | None]) -> bool:
    """Whether a candidate is at least as good in everything as another one can be."""
    fair = [c for c in found[1:] if _nowhere_worse(c, found[0], spare_of(draft))]
    estimate = least() if fair and draft.needs_selection and draft.shared_unit is None else None
    return estimate is not None and any(
        c.half_point() <= estimate.owners and all(a <= b for a, b in zip(c.widths(), estimate.widths, strict=True))
        for c in fair
    )


def _least_with_gaussian_count(draft: Draft, budget: Budget, even: Candidate) -> Errors:
    """About the errors of the even split's noise beside a Gaussian threshold, rounded down."""
    owners = calibrate.approximate_gaussian_threshold(draft.contribution.groups, budget.selection, budget.delta)
    return Errors(even.widths(), owners - 2)


def _least_beside(draft: Draft, budget: Budget, rule: Rule | None) -> Errors | None:
    """About the errors of joint noise beside a selection of its own, rounded down."""
    if rule is None or joins_gaussian(rule):
        return None
    delta = budget.delta / 2
    beside = _selection_beside(draft, budget, rule)
    epsilon = budget.epsilon - beside.epsilon
    weights = _weights(draft, budget, rule, epsilon, delta, own_count=False)
    norm = calibrate.approximate_norm(float(epsilon), float(delta))
    total = float(sum(weights))
    widths = tuple(
        0.999 * GAUSSIAN_95 * float(reach(part)) * math.sqrt(part.coordinates * total / float(weight)) / norm
        for part, weight in zip(draft.parts, weights, strict=False)
        if part_moves(part)
    )
    return Errors(widths, float(group_selection.half_point(beside.selection)))


def part_moves(part: Part) -> bool:
    """Whether one owner can change it at all."""
    return reach(part) > 0


def unit_moves(draft: Draft, unit: Unit) -> bool:
    """Whether an aggregate needs any of ε: one owner can change what it reads."""
    return unit.histogram is not None or any(part_moves(draft.parts[index]) for index in unit.parts)


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
    """Of the two rules that read Gaussian noise, the one that needs more owners, for owners in 1 to κ groups: in closed form."""
    groups, least = draft.contribution.groups, draft.select.options.min_owners
    budget = draft.select.options.epsilon, delta_of(draft.select.options)
    counted = calibrate.approximate_gaussian_threshold(groups, *budget) + least - 1
    weighed = approximate_weighted_owners(groups, least, *budget)
    return "GAUSSIAN_THRESHOLD" if groups > 1 and weighed < counted else "WEIGHTED"


def joins_gaussian(rule: Rule | None) -> bool:
    """Whether what a rule reads can be one more part of a joint Gaussian release."""
    return rule is not None and rule.joins_gaussian


# ---- Laplace -----------------------------------------------------------------------------------------------------


def _laplace(part: Part, epsilon: Fraction) -> LaplaceNoise | QuantileChoice:
    if part.targets:
        return choice_of(part, epsilon)
    if not part_moves(part):
        return LaplaceNoise(Shift(0, part.coordinates), Fraction(0))
    on_grid = sized(part, part.coordinates * reach(part) / epsilon)
    return LaplaceNoise(on_grid.shift, calibrate.laplace_scale(on_grid.shift, epsilon), on_grid.grid)


def with_laplace(draft: Draft, budget: Budget, rule: Rule | None) -> Candidate:
    """Independent Laplace noise, each aggregate with its share of ε."""
    of_parts, of_histograms = _laplace_shares(draft, budget)
    noises = tuple(_laplace(part, epsilon) for part, epsilon in zip(draft.parts, of_parts, strict=True))
    bins = [bins_shift(histogram, draft.contribution) for histogram in draft.histograms]
    binned = tuple(
        LaplaceNoise(shift, calibrate.laplace_scale(shift, epsilon))
        for shift, epsilon in zip(bins, of_histograms, strict=True)
    )
    charged: tuple[Event, ...] = tuple(n for n in (*binned, *noises) if n.shift.l1)
    selection, extra = _laplace_selection(draft, budget, rule, noises)
    shared = draft.shared_unit is not None and isinstance(selection, ThresholdSelection) and selection.released
    return Candidate(noises, binned, selection, shared, (*charged, *extra), _why(draft, budget, "LAPLACE"))


def _laplace_shares(draft: Draft, budget: Budget) -> tuple[list[Fraction], list[Fraction]]:
    """ε of every part and of every histogram: what several aggregates read is paid for by all of them."""
    parts, histograms = [Fraction(0)] * len(draft.parts), [Fraction(0)] * len(draft.histograms)
    for unit, epsilon in zip(draft.units, budget.units, strict=True):
        live = [s if part_moves(draft.parts[i]) else Fraction(0) for i, s in zip(unit.parts, unit.shares, strict=True)]
        rest = epsilon
        if unit.histogram is not None:
            rest = epsilon / 2 if any(live) else Fraction(0)
            histograms[unit.histogram] += epsilon - rest
        for index, share in zip(unit.parts, live, strict=True):
            parts[index] += rest * share / (sum(live) or 1)
    return parts, histograms


def _laplace_selection(
    draft: Draft, budget: Budget, rule: Rule | None, noises: tuple[Randomised, ...]
) -> tuple[Selection | None, tuple[Event, ...]]:
    if rule is None:
        return None, ()
    if draft.shared_unit is None:
        apart = _selection_apart(draft, rule, budget.selection, budget.delta)
        return apart.selection, apart.events
    noise = noises[draft.units[draft.shared_unit].parts[0]]
    assert isinstance(noise, LaplaceNoise)  # noqa: S101 - owners are counted
    selected = thresholds.on_released_count(
        noise, draft.contribution.groups, draft.select.options.min_owners, budget.delta
    )
    return selected, (selected,)


# ---- Gaussian ----------------------------------------------------------------------------------------------------


def _with_gaussian(draft: Draft, budget: Budget, rule: Rule | None) -> Candidate:
    """All noisy numbers of the SELECT as one jointly calibrated release."""
    own_count = joins_gaussian(rule) and draft.shared_unit is None
    apart = rule is not None and not joins_gaussian(rule) and draft.shared_unit is None
    beside = _selection_beside(draft, budget, rule) if rule is not None and apart else None
    epsilon = budget.epsilon - beside.epsilon if beside is not None else budget.epsilon
    delta = budget.delta / 2 if apart else budget.delta
    weights = _weights(draft, budget, rule, epsilon, delta, own_count=own_count)
    shifts_of, grids = _gaussian_sizes(draft, weights, epsilon, delta)
    bins = [bins_shift(histogram, draft.contribution) for histogram in draft.histograms]
    kappa, k = draft.contribution.groups, draft.select.options.min_owners
    joint = cast("JointRule | None", rule if draft.needs_selection and not apart else None)
    shifts = [*shifts_of, *bins, *([joint.shift(kappa)] if joint is not None and own_count else [])]
    count = len(shifts) - 1 if own_count else _shared_part(draft)
    split = calibrate.best_delta_split(kappa, epsilon, delta) if joint is not None else 1
    delta_noise = delta * split
    sigmas = calibrate.joint_gaussian_sigmas(shifts, weights, epsilon, delta_noise)
    noises = tuple(
        GaussianNoise(shift, sigma, grid)
        for shift, sigma, grid in zip(
            shifts, sigmas, [*grids, *[Fraction(1)] * (len(shifts) - len(grids))], strict=True
        )
    )
    charged = tuple(n for n in noises if n.shift.l1)
    events: tuple[Event, ...] = (JointGaussian(charged, epsilon, delta_noise),) if charged else ()
    selection: Selection | None = None
    if beside is not None:
        selection, events = beside.selection, (*events, *beside.events)
    elif joint is not None:
        selection = joint.joined(noises[count or 0], kappa, k, delta - delta_noise, released=not own_count)
        events = (*events, selection)
    size = len(draft.parts)
    shared = isinstance(selection, ThresholdSelection) and selection.released
    why = _why(draft, budget, "GAUSSIAN")
    return Candidate(noises[:size], noises[size : size + len(draft.histograms)], selection, shared, events, why)


def _gaussian_beside_choices(draft: Draft, budget: Budget, rule: Rule | None) -> list[Candidate]:
    """Quantiles that are chosen keep their shares of ε; all other numbers are one jointly calibrated release."""
    rest = [index for index, part in enumerate(draft.parts) if not part.targets]
    if draft.histograms or not any(part_moves(draft.parts[index]) for index in rest):
        return []  # found bounds are charged together with what they stretch
    epsilons = _laplace_shares(draft, budget)[0]
    chosen = {i: choice_of(part, epsilons[i]) for i, part in enumerate(draft.parts) if part.targets}
    units = [unit for unit in draft.units if chosen.keys().isdisjoint(unit.parts)]
    shared = None if draft.shared_unit is None else units.index(draft.units[draft.shared_unit])
    left = budget.epsilon - sum((c.epsilon for c in chosen.values()), Fraction(0))
    options = replace(draft.select.options, epsilon=left)
    others = replace(
        draft,
        select=replace(draft.select, options=options),
        parts=tuple(draft.parts[index] for index in rest),
        units=tuple(replace(unit, parts=tuple(rest.index(i) for i in unit.parts)) for unit in units),
        shared_unit=shared,
    )
    joint = _with_gaussian(others, Budget(others), rule)
    parts = dict(zip(rest, joint.parts, strict=True)) | chosen
    noises = tuple(parts[index] for index in range(len(draft.parts)))
    why = _why(draft, budget, "GAUSSIAN")
    return [replace(joint, parts=noises, events=(*chosen.values(), *joint.events), why=why)]


def _shared_part(draft: Draft) -> int | None:
    return draft.units[draft.shared_unit].parts[0] if draft.shared_unit is not None else None


def _weights(
    draft: Draft, budget: Budget, rule: Rule | None, epsilon: Fraction, delta: Fraction, *, own_count: bool
) -> list[Fraction]:
    """Shares of the squared norm: by the aggregates' own ε squared, or leaning towards what an even split would give."""
    if not budget.is_even:
        return weights_by_epsilon(draft, budget.units, budget.selection if own_count else None)
    split = calibrate.best_delta_split(draft.contribution.groups, epsilon, delta) if joins_gaussian(rule) else 1
    norm = calibrate.approximate_norm(float(epsilon), float(delta * split))
    return joint_weights(draft, norm, spare_of(draft), own_count=own_count)


def _gaussian_sizes(
    draft: Draft, weights: list[Fraction], epsilon: Fraction, delta: Fraction
) -> tuple[list[Shift], list[Fraction]]:
    """Grids from the unrounded scale: the analytic σ of each part for its share of the norm."""
    total = sum(weights, Fraction(0))
    unit_sigma = Fraction(1 / calibrate.approximate_norm(float(epsilon), float(delta)))
    shifts, grids = [], []
    for part, weight in zip(draft.parts, weights, strict=False):
        spread = Fraction(math.sqrt(part.coordinates * total / weight)).limit_denominator(10**6)
        scale = unit_sigma * reach(part) * spread
        on_grid = sized(part, scale) if scale else Sized(Shift(0, part.coordinates), Fraction(1))
        shifts.append(on_grid.shift)
        grids.append(on_grid.grid)
    return shifts, grids


def _selection_beside(draft: Draft, budget: Budget, rule: Rule) -> SelectionApart:
    """A selection with half of δ, and as much more of ε as it takes to need no more owners than under the even split.

    Only where the rule was named: else a threshold that is part of the joint release has smaller errors.
    """
    chosen = _selection_apart(draft, rule, budget.selection, budget.delta / 2)
    if not budget.is_even or draft.select.options.strategy == "AUTO":
        return chosen
    wanted = group_selection.half_point(_selection_apart(draft, rule, budget.selection, budget.delta).selection)
    for _ in range(LARGER_SHARES):
        owners = group_selection.half_point(chosen.selection)
        larger = chosen.epsilon * Fraction(owners, wanted)
        if owners <= wanted or larger >= budget.epsilon:
            break
        chosen = _selection_apart(draft, rule, larger, budget.delta / 2)
    return chosen


def _selection_apart(draft: Draft, rule: Rule, epsilon: Fraction, delta: Fraction) -> SelectionApart:
    return rule.apart(draft.contribution.groups, draft.select.options.min_owners, epsilon, delta)


# ---- the plan ----------------------------------------------------------------------------------------------------


def finished(draft: Draft, chosen: Candidate, composition: str = "basic") -> SelectPlan:
    """The plan that a chosen assignment makes."""
    releases = tuple(
        Release(part.measure, noise, part.bounds) for part, noise in zip(draft.parts, chosen.parts, strict=True)
    )
    columns = tuple(
        Column(call, draft.units[unit].parts, draft.units[unit].histogram)
        for call, unit in zip(draft.select.aggregates, draft.unit_of_call, strict=True)
    )
    histograms = tuple(HistogramRelease(h, noise) for h, noise in zip(draft.histograms, chosen.histograms, strict=True))
    shared = _shared_part(draft) if chosen.shared else None
    plan = SelectPlan(
        draft.select,
        draft.contribution,
        histograms,
        releases,
        columns,
        chosen.selection,
        shared,
        chosen.events,
        (*draft.notes, *([chosen.why] if releases else []), *_unused(draft, chosen)),
        composition,
    )
    # Numerical composition has no worst case for moves that may spread over two sums.
    return partitioned(plan) if composition == "basic" else plan


def _unused(draft: Draft, chosen: Candidate) -> list[str]:
    """What is charged and not used, and why: an ε that was fixed in the query stays with its aggregate."""
    asked = draft.select.options.epsilon
    used = sum((epsilon_of(event) for event in chosen.events), Fraction(0))
    if used >= asked * NEARLY_ALL or not chosen.events:
        return []
    told = f"Only epsilon = {float(used):.3g} of the {float(asked):.3g} that is charged is used"
    return [f"{told}: the epsilons fixed in the query leave the rest over"]


def epsilon_of(event: Event) -> Fraction:
    """The ε that an event is charged with; a threshold reads noise that is charged by itself."""
    return Fraction(0) if isinstance(event, ThresholdSelection | WeightedSelection) else event.epsilon
