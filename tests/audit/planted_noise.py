"""Planted bugs of the mathematics: scales, thresholds, splits, samplers, selection."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from planted import (
    EXACT,
    INVARIANT,
    MEAN,
    OWNERS,
    PLAN_CHECK,
    REPLAY,
    ROWS,
    SPREAD,
    TABLES,
    TESTER,
    TOTAL,
    UNIT,
    WHOLE,
    is_caught_sampling,
    measured,
    moves_too_far,
    planted,
    private,
    session,
    stops_the_plan,
)

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    OptimalSelection,
    QuantileChoice,
    RankTarget,
    Shift,
    ThresholdSelection,
)
from shoal.audit.suite import exact_checks
from shoal.engines.memory import totals as memory_totals
from shoal.engines.memory.totals import MomentTally
from shoal.mechanisms import (
    calibrate,
    gaussian_certificate,
    group_selection,
    joint_gaussian,
    noise,
    quantile_choice,
    quantiles,
)
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.ranks import nested
from shoal.mechanisms.sampling import samplers
from shoal.mechanisms.sampling.inversion import enclose_exp
from shoal.mechanisms.selection import keep_tables, weighted
from shoal.mechanisms.selection.thresholds import LaplaceThreshold
from shoal.mechanisms.selection.weighted import WeightedRule
from shoal.plan.aggregates import Average
from shoal.plan.measures import MeasureDefaults, OwnerSum, OwnerWeight, RowMoment
from shoal.release import bounds_per_group, execute, noisy
from shoal.rewrite import assign_mechanisms
from shoal.rewrite.assigning import complements, gaussian, laplace, sizing

LAPLACE = "epsilon=1, delta=0.01, max_groups_contributed=2, noise=LAPLACE"
THRESHOLD = f"{LAPLACE}, group_selection_strategy=LAPLACE_THRESHOLD"
OPTIMAL = f"{LAPLACE}, group_selection_strategy=OPTIMAL"
ONE, NONE = "x", ""
"""A data set is a word, a record is a letter: the tester looks at the pairs that are given, and at no other."""


def counting(event=UNIT):
    """The noise of a count of records, as it is drawn."""
    return lambda: lambda data, n: noise.add_noise(event, np.full(n, len(data)), seeded_entropy(n)).astype(np.int64)


# ---- scales ------------------------------------------------------------------------------------------------------


@planted(
    "noise scale too small",
    "the Laplace scale is 5% below Δ/ε",
    PLAN_CHECK,
    stops_the_plan(private(TOTAL, options="epsilon=1, noise=LAPLACE", group=None)),
)
def a_scale_five_percent_too_small(patch):
    honest = calibrate.laplace_scale
    patch.setattr(calibrate, "laplace_scale", lambda shift, epsilon: honest(shift, epsilon) * Fraction(95, 100))


@planted(
    "noise scale too small",
    "the sampler draws at 0.6 of the scale that is charged",
    TESTER,
    is_caught_sampling(counting(), inputs=[(ONE, NONE)]),
)
def a_sampler_that_draws_too_little(patch):
    honest = noise.wide_discrete_laplace
    patch.setattr(
        noise, "wide_discrete_laplace", lambda scale, size, entropy: honest(scale * Fraction(3, 5), size, entropy)
    )


def _medians():
    """The median of rows in six leaves, as it is drawn; every letter is a row."""

    def mechanism(data, n):
        leaf = np.tile([ord(letter) - ord("a") for letter in data], n)
        group = np.repeat(np.arange(n), len(data))
        choice = QuantileChoice(Shift(1), Fraction(2), (RankTarget(Fraction(1, 2)),))
        drawn = quantile_choice.ChosenQuantiles(n, group, leaf, np.ones_like(leaf), choice, 6, seeded_entropy(n))
        return (drawn.quantiles([0.5])[:, 0] * 6).astype(np.int64)

    return mechanism


@planted(
    "noise scale too small",
    "the exponential mechanism forgets that the sum of weights moves too, and draws at half its scale",
    TESTER,
    is_caught_sampling(_medians, inputs=[("aabee", "aabeee")]),
)
def a_choice_without_its_two(patch):
    honest = quantile_choice.chosen_leaves
    patch.setattr(
        quantile_choice,
        "chosen_leaves",
        lambda pieces, target, scale, entropy: honest(pieces, target, scale / 2, entropy),
    )


def _leaning_loses_more_than_is_charged():
    """Rows in the first two of many leaves, and one more in the last: the leaves between outweigh all others."""
    target, scale = RankTarget(Fraction(1), 3, Fraction(1, 2)), Fraction(2)

    def chance_of_first(last):
        leaf, count = np.array([0, 1, 9999]), np.array([1, 4, last])
        some = count > 0
        pieces = quantile_choice.Pieces.of(1, np.zeros_like(leaf[some]), leaf[some], count[some], 10_000)
        rate = float(1 / (quantile_choice.units_per_row(target) * scale))
        weights = pieces.width * np.exp(-quantile_choice.distances(pieces, target) * rate)
        return math.log(weights[0] / weights.sum())

    charged = float(QuantileChoice(Shift(1), scale, (target,)).epsilon)
    return abs(chance_of_first(0) - chance_of_first(1)) > charged


@planted(
    "noise scale too small",
    "a choice that leans weighs rows beyond the rank more, and those inside no less",
    INVARIANT,
    _leaning_loses_more_than_is_charged,
)
def a_lean_that_takes_nothing_back(patch):
    honest = quantile_choice.distances

    def one_sided(pieces, target):
        upright = replace(target, lean=Fraction(0))
        outwards = honest(pieces, target) * quantile_choice.units_per_row(upright)
        both = honest(pieces, upright) * quantile_choice.units_per_row(target)
        return np.maximum(outwards, both) // quantile_choice.units_per_row(upright)

    patch.setattr(quantile_choice, "distances", one_sided)


def _intervals():
    """The low ends of intervals for the greatest of rows in six leaves; nearly all of ε is for the counts around it."""

    def mechanism(data, n):
        leaf = np.tile([ord(letter) - ord("a") for letter in data], n)
        group = np.repeat(np.arange(n), len(data))
        choice = QuantileChoice(Shift(1), Fraction(40), (RankTarget(Fraction(1), 1),), Fraction(20, 19))
        drawn = quantile_choice.ChosenQuantiles(n, group, leaf, np.ones_like(leaf), choice, 6, seeded_entropy(n))
        return (drawn.bands([Fraction(1)], [0.1]).low[:, 0, 0] * 12).astype(np.int64)

    return mechanism


@planted(
    "noise scale too small",
    "rows around a quantile are counted with a fifth of the noise that is charged",
    TESTER,
    is_caught_sampling(_intervals, inputs=[("a", "ae"), ("aa", "aaf")]),
)
def counts_around_a_quantile_with_little_noise(patch):
    honest = quantile_choice.noisy_between
    patch.setattr(
        quantile_choice,
        "noisy_between",
        lambda before, event, *rest: honest(before, replace(event, scale=event.scale / 5), *rest),
    )


def _quartiles():
    """Three quartiles of rows in four leaves, as they are drawn at ε = 1."""

    def mechanism(data, n):
        leaf = np.tile([ord(letter) - ord("a") for letter in data], n)
        group = np.repeat(np.arange(n), len(data))
        targets = tuple(RankTarget(Fraction(i, 4)) for i in (1, 2, 3))
        choice = QuantileChoice(Shift(1), Fraction(4), targets, nested=True)
        drawn = quantile_choice.ChosenQuantiles(n, group, leaf, np.ones_like(leaf), choice, 4, seeded_entropy(n))
        low, middle, high = (drawn.quantiles([0.25, 0.5, 0.75]) * 4).astype(np.int64).T
        return 16 * low + 4 * middle + high

    return mechanism


@planted(
    "noise scale too small",
    "a recursion forgets its two levels, and that the sum of weights moves too, and draws at a quarter of its scale",
    TESTER,
    is_caught_sampling(_quartiles, inputs=[("aaaa", "aaaad")]),
)
def levels_that_cost_nothing(patch):
    honest = quantile_choice._nested
    patch.setattr(
        quantile_choice,
        "_nested",
        lambda part, targets, scale, entropy: honest(part, targets, scale / 4, entropy),
    )


def _rows_are_in_two_parts():
    rows = np.array([5, 9, 2])
    part = nested.Part(np.zeros(3, dtype=np.int64), np.arange(3), rows, np.array([0]), np.array([3]))
    return sum(int(side.rows.sum()) for side in part.cut(np.array([12]))) != rows.sum()


@planted(
    "a part counted twice",
    "the rows of the leaf that is cut are looked at on both sides",
    INVARIANT,
    _rows_are_in_two_parts,
)
def parts_that_overlap(patch):
    honest = nested.Part.cut
    last = nested.SUB_LEAVES - 1
    patch.setattr(
        nested.Part,
        "cut",
        lambda part, chosen: (honest(part, chosen | last)[0], honest(part, chosen - chosen % (last + 1))[1]),
    )


@planted(
    "a release that nobody pays for",
    "three quantiles by recursion are charged as one draw",
    PLAN_CHECK,
    stops_the_plan(
        private(
            "PERCENTILE_CONT(spend, 0.4, contribution_bounds_per_row => (0, 10))",
            "PERCENTILE_CONT(spend, 0.5, contribution_bounds_per_row => (0, 10))",
            "PERCENTILE_CONT(spend, 0.6, contribution_bounds_per_row => (0, 10))",
            options="epsilon=1",
            group=None,
        )
    ),
)
def a_recursion_that_pays_once(patch):
    patch.setattr(QuantileChoice, "draws", property(lambda _choice: 1))


@planted(
    "a release that nobody pays for",
    "two quantiles are read and one is drawn and charged",
    PLAN_CHECK,
    stops_the_plan(
        private(
            "PERCENTILE_CONT(spend, 0.4, contribution_bounds_per_row => (0, 10))",
            "PERCENTILE_CONT(spend, 0.6, contribution_bounds_per_row => (0, 10))",
            options="epsilon=1",
            group=None,
        )
    ),
)
def a_choice_that_pays_once(patch):
    honest = laplace.choice_of
    patch.setattr(
        laplace,
        "choice_of",
        lambda part, epsilon: replace(honest(part, epsilon), targets=honest(part, epsilon).targets[:1]),
    )


@planted(
    "ε not split in AVG",
    "sum and count of AVG get the whole ε each",
    PLAN_CHECK,
    stops_the_plan(private(MEAN, **WHOLE)),
)
def a_mean_that_pays_once(patch):
    honest = laplace.laplace_noise
    patch.setattr(laplace, "laplace_noise", lambda part, _epsilon: honest(part, Fraction(1)))


@planted(
    "ε not split in AVG",
    "the two sums that make AVG are sized as if each owner moved them by half of the bounds",
    PLAN_CHECK,
    stops_the_plan(private(MEAN, **WHOLE)),
)
def two_sums_sized_for_half(patch):
    honest = sizing.laplace_scale
    patch.setattr(sizing, "laplace_scale", lambda shift, epsilon: honest(shift, epsilon) / 2)


@planted(
    "L0 or Linf ignored",
    "the two sums that make AVG are said to move in one place only",
    PLAN_CHECK,
    stops_the_plan(private(MEAN, **WHOLE)),
)
def two_sums_that_move_as_one(patch):
    honest = sizing.sized

    def in_one_place(part, scale):
        found = honest(part, scale)
        return replace(found, shift=replace(found.shift, entries=None))

    patch.setattr(sizing, "sized", in_one_place)


@planted(
    "a noisy sum over an exact count",
    "the count of AVG is released without noise",
    PLAN_CHECK,
    stops_the_plan(private(MEAN, **WHOLE)),
)
def a_mean_over_an_exact_count(patch):
    honest = laplace.laplace_noise

    def exact_count(part, epsilon):
        if part.measure == Average(part.measure.argument).measures[1]:
            return LaplaceNoise(Shift(0), Fraction(0))
        return honest(part, epsilon)

    patch.setattr(laplace, "laplace_noise", exact_count)


@planted(
    "classical σ at large ε",
    "σ = √(2 ln(1.25/δ))·Δ/ε at ε = 10",
    PLAN_CHECK,
    stops_the_plan(private(TOTAL, options="epsilon=10, delta=1e-5, noise=GAUSSIAN", group=None)),
)
def a_classical_gaussian(patch):
    def classical(shifts, weights, epsilon, delta):
        return tuple(
            Fraction(math.sqrt(2 * math.log(1.25 / delta)) * math.sqrt(s.l2_squared) / float(epsilon)) for s in shifts
        )

    patch.setattr(calibrate, "joint_gaussian_sigmas", classical)


@planted(
    "a release that nobody pays for",
    "noise is drawn for two aggregates and charged for one",
    PLAN_CHECK,
    stops_the_plan(private(TOTAL, ROWS, options="epsilon=1, noise=LAPLACE", group=None)),
)
def an_uncharged_release(patch):
    honest = assign_mechanisms.with_laplace

    def forgetful(draft, budget, rule):
        candidate = honest(draft, budget, rule)
        return replace(candidate, events=candidate.events[1:])

    patch.setattr(assign_mechanisms, "with_laplace", forgetful)


# ---- sensitivities -----------------------------------------------------------------------------------------------


@planted(
    "variance bounds unsquared",
    "the sum of squares declares the reach of a sum",
    REPLAY,
    moves_too_far(private(SPREAD)),
)
def squares_with_the_reach_of_sums(patch):
    patch.setattr(RowMoment, "delta", lambda self, steps: self.rows * (1 if steps is None else steps.radius))


@planted(
    "|U − L| for a sum",
    "bounds (40, 50) of one sign count as 10 wide",
    REPLAY,
    moves_too_far(private("SUM(spend, contribution_bounds_per_group => (40, 50)) AS total")),
)
def a_sum_as_wide_as_its_bounds(patch):
    patch.setattr(OwnerSum, "delta", lambda self, steps: steps.upper - steps.lower)  # noqa: ARG005 - a method


@planted(
    "parts that make no whole",
    "the part of a variance between the bounds is counted three times",
    REPLAY,
    moves_too_far(private(SPREAD.replace("=> 3", "=> 9"), **WHOLE)),
)
def a_whole_with_a_part_too_large(patch):
    honest = MomentTally.of

    def tripled(self, bounded):
        groups, values = honest(self, bounded)
        return groups, values * 3 if self._task.measure.origin == "between" else values

    patch.setattr(MomentTally, "of", tripled)


@planted(
    "parts that make no whole",
    "the three sums of a variance get the noise of one third of a row",
    PLAN_CHECK,
    stops_the_plan(private(SPREAD, **WHOLE)),
)
def a_whole_that_pays_for_a_third(patch):
    honest = sizing.laplace_scale
    patch.setattr(sizing, "laplace_scale", lambda shift, epsilon: honest(shift, epsilon) / 3)


SUM_AND_OWNERS = "SUM(spend, contribution_bounds_per_group => (-20, 50)) AS total, COUNT(DISTINCT uid) AS owners"


@planted(
    "parts that make no whole",
    "a sum and what is missing to its bound, which forgets the sign of the bound",
    REPLAY,
    moves_too_far(private(SUM_AND_OWNERS, **WHOLE)),
)
def a_complement_of_the_wrong_sign(patch):
    honest = execute.from_bound

    def mirrored(task, total, owners):
        return (
            -honest(task, -np.asarray(total), owners) if task.measure.origin == "upper" else honest(task, total, owners)
        )

    patch.setattr(execute, "from_bound", mirrored)


@planted(
    "parts that make no whole",
    "a sum and its complement get the noise of the larger bound alone",
    PLAN_CHECK,
    stops_the_plan(private(SUM_AND_OWNERS)),
)
def a_complement_that_pays_for_one_part(patch):
    honest = complements.sized

    def of_the_upper_bound(part, scale):
        found = honest(part, scale)
        return replace(found, shift=replace(found.shift, per_coordinate=found.shift.per_coordinate * 5 // 7))

    patch.setattr(complements, "sized", of_the_upper_bound)


@planted(
    "τ for one group",
    "the threshold on a whole goes by the tail of one of its two noises",
    PLAN_CHECK,
    stops_the_plan(private(SUM_AND_OWNERS)),
)
def a_threshold_for_one_noise(patch):
    patch.setattr(calibrate, "smallest_pair_point", calibrate.smallest_tail_point)


@planted(
    "τ for one group",
    "the same on a whole with Gaussian noise",
    PLAN_CHECK,
    stops_the_plan(
        private(
            TOTAL,
            options="epsilon=1, delta=0.01, max_groups_contributed=2, noise=GAUSSIAN, group_selection_strategy=GAUSSIAN_THRESHOLD",
        )
    ),
)
def a_threshold_for_one_gaussian_noise(patch):
    patch.setattr(calibrate, "smallest_pair_point", calibrate.smallest_tail_point)


@planted(
    "L0 ignored",
    "noise is made for one group of an owner, not for κ",
    PLAN_CHECK,
    stops_the_plan(private(ROWS, options=OPTIMAL)),
)
def noise_for_one_group(patch):
    patch.setattr(MeasureDefaults, "coordinates", lambda *_: 1)


@planted(
    "L0 ignored",
    "the same, and the check of the plan believes it",
    REPLAY,
    moves_too_far(private(ROWS, options=OPTIMAL)),
)
def noise_for_one_group_unchecked(patch):
    patch.setattr(MeasureDefaults, "coordinates", lambda *_: 1)


BOUNDS_OF_EACH = private(
    "SUM(steps) AS total", options="epsilon=100000, delta=0.01, max_groups_contributed=3, inferred_bounds=PER_GROUP"
)


@planted(
    "L0 ignored",
    "the histograms that find bounds of each group are noisy for one group of an owner",
    PLAN_CHECK,
    stops_the_plan(BOUNDS_OF_EACH),
)
def bins_of_one_group(patch):
    for module in (laplace, gaussian):
        patch.setattr(module, "bins_shift", lambda *_: Shift(1))


@planted(
    "L0 ignored",
    "the same, and the check of the plan believes it",
    REPLAY,
    moves_too_far(BOUNDS_OF_EACH),
)
def bins_of_one_group_unchecked(patch):
    for module in (laplace, gaussian):
        patch.setattr(module, "bins_shift", lambda *_: Shift(1))


@planted(
    "missing bounds = no noise",
    "a sum whose bounds are found for each group gets the noise of other bounds",
    REPLAY,
    moves_too_far(BOUNDS_OF_EACH),
)
def noise_of_other_bounds(patch):
    honest = bounds_per_group.resolve

    def unstretched(release, found):
        task, event, bounds = honest(release, found)
        return task, replace(event, shift=replace(event.shift, per_coordinate=1)), bounds

    patch.setattr(bounds_per_group, "resolve", unstretched)


@planted(
    "missing bounds = no noise",
    "a sum whose bounds are found in the data gets no noise",
    REPLAY,
    moves_too_far(private("SUM(steps) AS total", options="epsilon=100000", group=None)),
)
def no_noise_for_found_bounds(patch):
    honest = execute.resolve

    def silent(release, found):
        task, event, bounds = honest(release, found)
        return task, LaplaceNoise(Shift(0), Fraction(0), event.grid), bounds

    patch.setattr(execute, "resolve", silent)


# ---- thresholds --------------------------------------------------------------------------------------------------


@planted("τ rounded down", "the threshold is one lower", PLAN_CHECK, stops_the_plan(private(OWNERS, options=THRESHOLD)))
def a_threshold_rounded_down(patch):
    honest = calibrate.threshold_for
    patch.setattr(calibrate, "threshold_for", lambda *known: honest(*known) - 1)


@planted(
    "`≥` against a tail taken with `>`",
    "the tail P[X > k] is computed where P[X ≥ k] is compared",
    PLAN_CHECK,
    stops_the_plan(private(OWNERS, options=THRESHOLD)),
)
def a_strict_tail(patch):
    honest = calibrate.smallest_tail_point
    patch.setattr(calibrate, "smallest_tail_point", lambda event, chance: honest(event, chance) - 1)


def _keeps_by_another_threshold():
    selection = ThresholdSelection(UNIT, 13, Fraction(1, 10**5), 1)
    owners = np.full(20_000, 10)
    kept = group_selection.select(selection, owners, seeded_entropy(3)).kept
    drawn = noise.draw_noise(UNIT, len(owners), seeded_entropy(3))
    return not np.array_equal(kept, owners + drawn >= 13)


@planted(
    "`≥` against a tail taken with `>`",
    "groups are kept from τ − 1 on",
    INVARIANT,
    _keeps_by_another_threshold,
)
def a_generous_comparison(patch):
    honest = LaplaceThreshold.draw
    patch.setattr(
        LaplaceThreshold,
        "draw",
        lambda self, selection, owners, entropy, weights=None: honest(
            self, replace(selection, threshold=selection.threshold - 1), owners, entropy, weights
        ),
    )


@planted(
    "continuous τ with discrete noise",
    "τ = ⌈1 − ln(2δ)/ε⌉",
    PLAN_CHECK,
    stops_the_plan(
        private(OWNERS, options="epsilon=1, delta=1e-5, noise=LAPLACE, group_selection_strategy=LAPLACE_THRESHOLD")
    ),
)
def a_continuous_threshold(patch):
    def continuous(event, kappa, delta):
        return math.ceil(1 - kappa * math.log(2 - 2 * (1 - delta) ** (1 / kappa)) * float(event.scale) / kappa)

    patch.setattr(calibrate, "threshold_for", continuous)


@planted(
    "Laplace τ with Gaussian noise",
    "a Gaussian count is held against the threshold of a Laplace count",
    PLAN_CHECK,
    stops_the_plan(
        private(OWNERS, options="epsilon=1, delta=1e-5, noise=GAUSSIAN, group_selection_strategy=GAUSSIAN_THRESHOLD")
    ),
)
def a_laplace_threshold_for_gaussian_noise(patch):
    honest = calibrate.threshold_for
    patch.setattr(
        calibrate,
        "threshold_for",
        lambda event, kappa, delta: honest(LaplaceNoise(event.shift, Fraction(event.shift.l1)), kappa, delta),
    )


@planted(
    "threshold and answer from different draws",
    "a count is thresholded with one draw, shown with another, and charged once",
    PLAN_CHECK,
    stops_the_plan(private(OWNERS, options=THRESHOLD)),
)
def a_second_draw_for_the_answer(patch):
    honest = assign_mechanisms.finished
    patch.setattr(
        assign_mechanisms, "finished", lambda draft, chosen: replace(honest(draft, chosen), shared_count=None)
    )


# ---- weights -----------------------------------------------------------------------------------------------------

WEIGHED = "epsilon=1, delta=0.01, max_groups_contributed=4, group_selection_strategy=WEIGHTED"


@planted(
    "L0 ignored",
    "owners in many groups weigh as much in each as owners in one",
    PLAN_CHECK,
    stops_the_plan(private(TOTAL, options=WEIGHED)),
)
def weights_that_do_not_fall(patch):
    patch.setattr(weighted, "weights_for", lambda groups: tuple((d, weighted.WHOLE) for d in range(1, groups + 1)))


@planted(
    "L0 ignored",
    "the engine gives every owner the weight of an owner in one group",
    REPLAY,
    moves_too_far(private(TOTAL, options=WEIGHED)),
)
def weights_by_no_degree(patch):
    patch.setitem(
        memory_totals.PER_OWNER, OwnerWeight, lambda task, _number, bounded: np.full(len(bounded.groups), task.delta)
    )


@planted(
    "τ for one group",
    "the threshold of weights is high enough for owners in one group only",
    PLAN_CHECK,
    stops_the_plan(private(TOTAL, options=WEIGHED)),
)
def a_threshold_for_one_degree(patch):
    honest = weighted.weighted_threshold
    patch.setattr(weighted, "weighted_threshold", lambda event, weights, delta: honest(event, weights[:1], delta))


@planted(
    "L0 ignored",
    "the exact δ of counts on a coarse grid is summed for one group less",
    EXACT,
    lambda: not exact_checks.gaussian_count(6.0, 3).holds,
)
def a_lattice_of_one_group_less(patch):
    honest = gaussian_certificate.lattice_delta
    patch.setattr(
        gaussian_certificate, "lattice_delta", lambda shift, groups, *facts: honest(shift, max(1, groups - 1), *facts)
    )
    patch.setattr(joint_gaussian, "approximate_lattice_sigma", lambda _shift, _groups, enough, *_: enough * 0.8)


@planted(
    "L0 ignored",
    "a count on a coarse grid beside a sum is summed for one group less",
    EXACT,
    lambda: not exact_checks.gaussian_count_and_sum(6.0).holds,
)
def a_mixed_sum_of_one_group_less(patch):
    honest = gaussian_certificate.mixed_delta

    def forgetful(coarse, *facts):
        return honest(tuple(part._replace(coordinates=max(1, part.coordinates - 1)) for part in coarse), *facts)

    patch.setattr(gaussian_certificate, "mixed_delta", forgetful)
    patch.setattr(joint_gaussian, "_mixed_factor", lambda _moved, enough, *_: enough * 0.9)


@planted(
    "δ charged once for two chances",
    "noise and threshold share a δ although a histogram of all groups is part of the noise",
    PLAN_CHECK,
    stops_the_plan(private("SUM(spend)", options=WEIGHED)),
)
def one_delta_beside_a_histogram(patch):
    honest = calibrate.joint_scales

    def forgetful(*facts, by_groups=True):
        return honest(*facts, by_groups=True)

    patch.setattr(calibrate, "joint_scales", forgetful)


def _shown_of_weighed_groups():
    """How many of four groups are shown; every letter is an owner in all four, and twenty owners are the least."""
    selection = WeightedRule().apart(4, 20, Fraction(1), Fraction(1, 100)).selection

    def mechanism(data, n):
        owners = np.full(4 * n, len(data))
        drawn = group_selection.select(selection, owners, seeded_entropy(n), owners * selection.weights[-1][1])
        return drawn.kept.reshape(n, 4).sum(axis=1)

    return mechanism


@planted(
    "a minimum that opens the gate",
    "with a minimum of owners, the weights of the others count towards the threshold",
    TESTER,
    is_caught_sampling(_shown_of_weighed_groups, delta=0.01, inputs=[("x" * 20, "x" * 19)]),
)
def weights_of_those_below_the_minimum(patch):
    honest = weighted.WeightedRule.draw

    def generous(self, selection, owners, entropy, weights=None):
        lower = selection.threshold - (selection.min_owners - 1) * selection.weights[0][1]
        return honest(self, replace(selection, threshold=lower), owners, entropy, weights)

    patch.setattr(weighted.WeightedRule, "draw", generous)


# ---- optimal selection -------------------------------------------------------------------------------------------

SELECTION = OptimalSelection(Fraction(1), Fraction(1, 10**5), 4)


def _keep_probabilities_break_their_promise():
    """π(n) ≤ e^{ε/κ}·π(n−1) + δ₁ with 1 − (1 − δ₁)^κ ≤ δ, and the mirror, in integers; e^{ε/κ} rounded up."""
    table = keep_tables.keep_probabilities(SELECTION)
    whole = 1 << table.bits
    growth = Fraction(1 << 512, enclose_exp(SELECTION.epsilon / SELECTION.max_groups_per_owner, 512)[0])
    delta = calibrate.delta_per_group(SELECTION.delta, SELECTION.max_groups_per_owner) * whole
    pairs = [(table.numerator(n - 1), table.numerator(n)) for n in range(1, 60)]
    return any(
        after > growth * before + delta or whole - before > growth * (whole - after) + delta for before, after in pairs
    )


@planted(
    "selection at ε for each of κ groups",
    "the keep probabilities are those of κ = 1",
    EXACT,
    _keep_probabilities_break_their_promise,
)
def a_selection_that_ignores_groups_per_owner(patch):
    honest = keep_tables.keep_probabilities
    patch.setattr(keep_tables, "keep_probabilities", lambda s: honest(replace(s, max_groups_per_owner=1)))


@planted(
    "selection with a larger δ",
    "the first owner of a group is shown with twice the chance",
    EXACT,
    _keep_probabilities_break_their_promise,
)
def a_selection_with_twice_the_delta(patch):
    honest = keep_tables.keep_probabilities
    patch.setattr(keep_tables, "keep_probabilities", lambda s: honest(replace(s, delta=2 * s.delta)))


def _gaussian_is_too_small():
    """One discrete Gaussian count at (1, 10⁻⁵), by the exact δ of the noise that is drawn."""
    sigma = calibrate.joint_gaussian_sigmas([Shift(1)], [1], Fraction(1), Fraction(1, 10**5))[0]
    return not calibrate.joint_gaussian_holds([GaussianNoise(Shift(1), sigma)], Fraction(1), Fraction(1, 10**5))


@planted(
    "continuous calibration of discrete noise",
    "the analytic σ of continuous noise, on whole numbers",
    EXACT,
    _gaussian_is_too_small,
)
def a_gaussian_calibrated_as_if_continuous(patch):
    patch.setattr(
        calibrate,
        "joint_gaussian_sigmas",
        lambda _shifts, _weights, epsilon, delta: (calibrate.gaussian_sigma(1, epsilon, delta),),
    )


# ---- draws -------------------------------------------------------------------------------------------------------


def _two_groups():
    def mechanism(data, n):
        exact, entropy = [data.count("x"), data.count("y")], seeded_entropy(len(data))
        return np.array([noise.add_noise(UNIT, exact, entropy).astype(np.int64) for _ in range(n)])

    return mechanism


@planted(
    "one draw reused for all groups",
    "every group of a release gets the same noise",
    TESTER,
    is_caught_sampling(_two_groups, samples=1000, inputs=[(ONE, NONE)]),
)
def one_draw_for_all_groups(patch):
    honest = noise.draw_noise
    patch.setattr(noise, "draw_noise", lambda event, size, entropy: np.full(size, honest(event, 1, entropy)[0]))


@planted(
    "no noise on zeros",
    "a count of 0 is released as it is",
    TESTER,
    is_caught_sampling(counting(), samples=5000, inputs=[(ONE, NONE)]),
)
def zeros_without_noise(patch):
    honest = noise.add_noise
    patch.setattr(
        noise,
        "add_noise",
        lambda event, exact, entropy: np.where(np.asarray(exact) == 0, 0, honest(event, exact, entropy)),
    )


def _leaves_the_grid():
    with session() as asked:
        plan = asked.plan(private(TOTAL, **WHOLE))
        answers = [asked.query(private(TOTAL, **WHOLE)).to_arrow().column(0)[0].as_py() for _ in range(3)]
    grid = plan.selects[0].releases[0].noise.grid
    return any(Fraction(answer) % grid for answer in answers)


@planted(
    "naive floating-point Laplace",
    "textbook noise −b·sgn(u)·ln(1 − 2|u|) on doubles is added to the sum",
    INVARIANT,
    _leaves_the_grid,
)
def textbook_laplace(patch):
    def textbook(event, exact, entropy):
        u = entropy.uint64(len(exact)) / 2.0**64 - 0.5
        return np.asarray(exact, dtype=np.float64) - float(event.scale) * np.sign(u) * np.log1p(-2 * abs(u))

    patch.setattr(noisy, "add_noise", textbook)


def _wraps_around():
    return noise.add_noise(
        LaplaceNoise(Shift(1), Fraction(1, 100)), [2**63 - 1, 2**70], seeded_entropy(0)
    ).tolist() != [
        2**63 - 1,
        2**70,
    ]


@planted("integer wrap-around", "noise is added in 64 bits", INVARIANT, _wraps_around)
def noise_in_64_bits(patch):
    honest = noise.add_noise

    def narrow(event, exact, entropy):
        wide = honest(event, exact, entropy)
        return np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in wide], dtype=object)

    patch.setattr(noise, "add_noise", narrow)


def _quantiles_are_drawn_again():
    forest = quantiles.NoisyTree(np.arange(4096), np.full(4096, 1), UNIT, branching=16, height=3)
    return len({forest.quantile(0.3) for _ in range(5)}) > 1


@planted(
    "fresh noise for every quantile",
    "a node of the tree gets new noise whenever it is visited",
    INVARIANT,
    _quantiles_are_drawn_again,
)
def nodes_drawn_again(patch):
    patch.setattr(
        quantiles.NoisyForest,
        "_children_of",
        lambda self, level, node, rows: self._count_children(level, node),  # noqa: ARG005 - the shape of what it replaces
    )


def _coins_are_biased():
    """10⁶ coins of chance 1/1000; 1000 ± 5.5 standard deviations: false alarm below 1e-7."""
    heads = samplers.bernoulli([Fraction(1, 1000)], np.zeros(10**6, dtype=np.int64), seeded_entropy(5)).sum()
    return not 826 <= heads <= 1174


@planted(
    "keep probabilities rounded to floats of few digits",
    "coins are thrown with 8 binary digits",
    INVARIANT,
    _coins_are_biased,
)
def coarse_coins(patch):
    honest = samplers.bernoulli

    def coarse(chances, which, entropy):
        return honest([Fraction(math.ceil(p * 256), 256) for p in chances], which, entropy)

    patch.setattr(samplers, "bernoulli", coarse)


# ---- bounds that are found ---------------------------------------------------------------------------------------

GUESSED = private("AVG(steps) AS average", **WHOLE)


def _finding_bounds():
    release = measured(GUESSED)[0].histograms[0]
    exact = {
        present: np.array([[int(present and b == 5) for b in release.histogram.bins]]) for present in (True, False)
    }

    def mechanism(present, n):
        return [str(noisy.read_bounds(release, exact[present], seeded_entropy(i))[0]) for i in range(n)]

    return mechanism


@planted(
    "bounds from the data",
    "bounds are read off the exact histogram",
    TESTER,
    is_caught_sampling(_finding_bounds, samples=200, inputs=[(True, False)]),
)
def bounds_from_exact_counts(patch):
    patch.setattr(noisy, "add_noise", lambda _event, exact, _entropy: np.array([100 * n for n in exact], dtype=object))


# ---- what is shown of a release ----------------------------------------------------------------------------------

LISTED = "epsilon=0.1, max_groups_contributed=1, group_selection_strategy=PUBLIC_GROUPS"
BY_REGION = private(
    "COUNT(DISTINCT uid) AS n",
    options=LISTED,
    source="customers RIGHT JOIN (SELECT DISTINCT region FROM regions) AS r ON customers.region = r.region",
    group="r.region",
)


def _releasing():
    """Which groups are shown, in which order; on two databases, one of them without the only owner of a group."""
    kept = {
        present: measured(
            BY_REGION,
            {
                **TABLES,
                "customers": TABLES["customers"].slice(0, 0) if not present else TABLES["customers"].slice(0, 1),
            },
        )
        for present in (True, False)
    }

    def mechanism(present, n):
        plan, exact = kept[present]
        tables = [execute.release(plan, exact, seeded_entropy(i)).table for i in range(n)]
        return ["".join(table.column(0).to_pylist()) for table in tables]

    return mechanism


_SHOWN = is_caught_sampling(_releasing, epsilon=0.1, samples=300, inputs=[(True, False)])


@planted("HAVING on raw values", "groups without an owner are dropped by their exact count", TESTER, _SHOWN)
def having_on_raw_values(patch):
    honest = execute.selected

    def dropped(plan, measurement, weights, entropy):
        kept, noisy = honest(plan, measurement, weights, entropy)
        return kept[measurement.owners[kept] > 0], noisy

    patch.setattr(execute, "selected", dropped)


@planted("ORDER BY on raw values", "rows come in the order of their exact counts", TESTER, _SHOWN)
def order_by_raw_values(patch):
    honest = execute.release

    def ordered(plan, exact, entropy):
        place = np.argsort(-exact.measurement.owners, kind="stable")
        patch.setattr(type(entropy), "permutation", lambda _self, count: place[:count])
        return honest(plan, exact, entropy)

    patch.setattr(execute, "release", ordered)


def _orders_repeat():
    """Ten groups three times: the same order by chance once in 1.3·10¹³ runs."""
    with session() as asked:
        sql = private(OWNERS, options="epsilon=10000, delta=0.01, max_groups_contributed=9")
        return len({tuple(asked.query(sql).to_arrow().column(0).to_pylist()) for _ in range(3)}) == 1


@planted("database-order output", "rows come as the database gave them", INVARIANT, _orders_repeat)
def rows_in_database_order(patch):
    patch.setattr("shoal.mechanisms.entropy.Entropy.permutation", lambda _self, count: np.arange(count, dtype=np.int64))
