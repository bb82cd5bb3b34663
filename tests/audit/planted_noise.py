"""Planted bugs of the mathematics: scales, splits, samplers."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from planted import (
    INVARIANT,
    MEAN,
    PLAN_CHECK,
    ROWS,
    TESTER,
    TOTAL,
    UNIT,
    WHOLE,
    is_caught_sampling,
    planted,
    private,
    stops_the_plan,
)

from shoal.accounting.events import (
    LaplaceNoise,
    QuantileChoice,
    RankTarget,
    Shift,
)
from shoal.mechanisms import (
    calibrate,
    noise,
    quantile_choice,
)
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.ranks import nested
from shoal.plan.aggregates import Average
from shoal.rewrite import assign_mechanisms
from shoal.rewrite.assigning import laplace, sizing

ONE, NONE = "x", ""
"""A data set is a word, a record is a letter: the tester looks at the pairs that are given, and at no other."""


def counting(event=UNIT):
    """The noise of a count of records, as it is drawn."""
    return lambda: lambda data, n: noise.add_noise(event, np.full(n, len(data)), seeded_entropy(n)).astype(np.int64)


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
