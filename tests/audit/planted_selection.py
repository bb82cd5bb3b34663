"""Planted bugs of the choice of groups: thresholds, weights, optimal selection."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from planted import (
    EXACT,
    INVARIANT,
    OWNERS,
    PLAN_CHECK,
    REPLAY,
    TESTER,
    THRESHOLD,
    TOTAL,
    UNIT,
    is_caught_sampling,
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
    Shift,
    ThresholdSelection,
)
from shoal.audit.suite import exact_checks
from shoal.audit.suite.sampled_query import copied
from shoal.engines.memory import totals as memory_totals
from shoal.mechanisms import (
    calibrate,
    gaussian_certificate,
    group_selection,
    joint_gaussian,
    noise,
)
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.sampling.inversion import enclose_exp
from shoal.mechanisms.selection import keep_tables, weighted
from shoal.mechanisms.selection.thresholds import LaplaceThreshold
from shoal.mechanisms.selection.weighted import WeightedRule
from shoal.params import Bounds
from shoal.plan.measures import OwnerWeight
from shoal.release import execute
from shoal.release.execute import fresh_sampling_key
from shoal.rewrite import assign_mechanisms

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


# ---- averages that select ----------------------------------------------------------------------------------------

PEOPLE = {"tables": {"people": {"owner": "uid"}}}
MEANS = private("AVG(x) AS mean", source="people", group="k", options=THRESHOLD)


def _both_sums_of_a_group():
    """Whether a group is shown, and what its two sums make; a letter is an owner with 1 for a value, a dash one without."""

    def mechanism(data, n):
        people = {"uid": range(len(data)), "x": [1.0 if each == "x" else None for each in data], "k": ["a"] * len(data)}
        tables = {
            "people": pa.table(people, schema=pa.schema({"uid": pa.int64(), "x": pa.float64(), "k": pa.string()}))
        }
        with session(tables, PEOPLE) as asked:
            plan = asked.plan(MEANS).selects[0]
            key = fresh_sampling_key(seeded_entropy(1))
            exact = execute.measure(plan, asked._engine, key, seeded_entropy(1), (Bounds(Fraction(0), Fraction(4)),))
        lower, upper = execute.release(plan, copied(exact, n), seeded_entropy(n)).readings[0]
        whole = exact.noises[0].shift.per_coordinate
        sums = np.asarray([(a - b) / whole for a, b in zip(lower.values, upper.values, strict=True)], dtype=np.float64)
        return np.append(sums, np.full(n - len(sums), -99.0))

    return mechanism


@planted(
    "a count that is not the one released",
    "groups are selected by all their owners, although two sums over those with a value are released",
    TESTER,
    is_caught_sampling(_both_sums_of_a_group, delta=0.01, inputs=[("x" * 9 + "-" * 8, "x" * 9 + "-" * 7)]),
)
def owners_without_a_value_select(patch):
    patch.setattr(execute, "owners_that_select", lambda _plan, measured: measured.measurement.owners)


@planted(
    "τ of other noise",
    "found bounds stretch the noise of two sums, and their threshold is that of half the width",
    TESTER,
    is_caught_sampling(_both_sums_of_a_group, delta=0.01, inputs=[("x", "")]),
)
def a_threshold_for_narrower_bounds(patch):
    honest = execute.selection_under

    def halved(plan, noises):
        found = honest(plan, noises)
        return replace(found, threshold=found.threshold // 2)

    patch.setattr(execute, "selection_under", halved)


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
