"""Planted bugs of sensitivities: how far one owner moves a number, and noise sized for less."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from planted import (
    LAPLACE,
    PLAN_CHECK,
    REPLAY,
    ROWS,
    SPREAD,
    TOTAL,
    WHOLE,
    moves_too_far,
    planted,
    private,
    stops_the_plan,
)

from shoal.accounting.events import (
    LaplaceNoise,
    Shift,
)
from shoal.engines.memory.totals import MomentTally
from shoal.mechanisms import (
    calibrate,
)
from shoal.plan.measures import MeasureDefaults, OwnerSum, RowMoment
from shoal.release import bounds_per_group, execute, resolve_bounds
from shoal.rewrite.assigning import complements, gaussian, laplace, sizing

MEAN_OF_ROWS = "AVG_ROWS(spend, contribution_bounds_per_row => (0, 50), max_contributions_per_group => 3) AS mean"
OPTIMAL = f"{LAPLACE}, group_selection_strategy=OPTIMAL"


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


@planted(
    "parts that make no whole",
    "the two sums of an average of rows pay for one row of each owner",
    PLAN_CHECK,
    stops_the_plan(private(MEAN_OF_ROWS, **WHOLE)),
)
def two_sums_that_pay_for_one_row(patch):
    honest = sizing.sized

    def of_one_row(part, scale):
        found = honest(part, scale)
        rows = getattr(part.measure, "rows", 1)
        return replace(found, shift=replace(found.shift, per_coordinate=found.shift.per_coordinate // rows))

    patch.setattr(sizing, "sized", of_one_row)


@planted(
    "parts that make no whole",
    "rows of an average count twice from the upper bound",
    REPLAY,
    moves_too_far(private(MEAN_OF_ROWS.replace("=> 3", "=> 9"), **WHOLE)),
)
def rows_that_count_twice_from_above(patch):
    honest = MomentTally.of

    def doubled(self, bounded):
        groups, values = honest(self, bounded)
        return groups, values * 2 if self._task.measure.origin == "upper" else values

    patch.setattr(MomentTally, "of", doubled)


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
    honest = resolve_bounds.resolve

    def silent(release, found, **given):
        task, event, bounds = honest(release, found, **given)
        return task, LaplaceNoise(Shift(0), Fraction(0), event.grid), bounds

    patch.setattr(resolve_bounds, "resolve", silent)
