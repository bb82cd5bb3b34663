"""The numbers behind the pictures of group selection: exact probabilities of the rules that are really sampled, no simulation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import GaussianNoise, LaplaceNoise, OptimalSelection, Shift, ThresholdSelection
from shoal.exact import as_fraction
from shoal.mechanisms.calibrate import joint_scales, laplace_scale, threshold_for
from shoal.mechanisms.group_selection import half_point, keep_probability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.accounting.events import Selection

Line = tuple[str | int | float, ...]
SETTINGS = ((1.0, 1e-5, 30), (0.1, 1e-10, 400))
Q13_EPSILON = 0.1


def optimal(epsilon: float, delta: float, groups_per_owner: int = 1) -> OptimalSelection:
    """The optimal rule."""
    return OptimalSelection(_exact(epsilon), _exact(delta), groups_per_owner)


def laplace(epsilon: float, delta: float, groups_per_owner: int = 1) -> ThresholdSelection:
    """The threshold on a count with Laplace noise."""
    shift = Shift(1, groups_per_owner)
    noise = LaplaceNoise(shift, laplace_scale(shift, _exact(epsilon)))
    threshold = threshold_for(noise, groups_per_owner, _exact(delta))
    return ThresholdSelection(noise, threshold, _exact(delta), groups_per_owner)


def gaussian(epsilon: float, delta: float, groups_per_owner: int = 1) -> ThresholdSelection:
    """The threshold on a count with Gaussian noise: one δ for both."""
    shift = Shift(1, groups_per_owner)
    scales = joint_scales([shift], [Fraction(1)], groups_per_owner, _exact(epsilon), _exact(delta))
    noise = GaussianNoise(shift, scales.sigmas[0])
    threshold = threshold_for(noise, groups_per_owner, scales.delta_threshold)
    return ThresholdSelection(noise, threshold, scales.delta_threshold, groups_per_owner)


def _exact(number: float) -> Fraction:
    return as_fraction(number).limit_denominator(10**15)


def powers(first: float, last: float, per_decade: int) -> list[float]:
    """Numbers in even steps of their logarithm, both ends included, rounded to three digits."""
    steps = round((math.log10(last) - math.log10(first)) * per_decade)
    return [float(f"{10 ** (math.log10(first) + step / per_decade):.3g}") for step in range(steps + 1)]


def withheld_by_delta(owners: list[int], per_decade: int = 4) -> Iterable[Line]:
    """(δ, way, expected share of groups withheld) of groups with these many owners, at ε = 0.1."""
    for delta in powers(1e-10, 1e-3, per_decade):
        yield delta, "the released count selects", _withheld(laplace(Q13_EPSILON, delta), owners)
        yield delta, "optimal rule, half of ε", _withheld(optimal(Q13_EPSILON / 2, delta), owners)
        yield delta, "Laplace threshold, half of ε", _withheld(laplace(Q13_EPSILON / 2, delta), owners)


def _withheld(selection: Selection, owners: list[int]) -> float:
    return 1.0 - math.fsum(keep_probability(selection, n) for n in owners) / len(owners)


def kept_by_owners() -> Iterable[Line]:
    """(ε, δ, owners, rule, chance of being kept)."""
    for epsilon, delta, most in SETTINGS:
        rules = {"optimal": optimal(epsilon, delta), "Laplace threshold": laplace(epsilon, delta)}
        for owners in range(1, most + 1, max(1, most // 100)):
            for rule, selection in rules.items():
                yield epsilon, delta, owners, rule, keep_probability(selection, owners)


def half_points() -> Iterable[Line]:
    """(what varies, ε, δ, rule, owners at which a group is as likely kept as not)."""
    varied = [("ε", epsilon, delta) for delta in (1e-5, 1e-10) for epsilon in powers(0.01, 10, 6)]
    varied += [("δ", epsilon, delta) for epsilon in (1.0, 0.1) for delta in powers(1e-12, 1e-2, 3)]
    for what, epsilon, delta in varied:
        yield what, epsilon, delta, "optimal", half_point(optimal(epsilon, delta))
        yield what, epsilon, delta, "Laplace threshold", half_point(laplace(epsilon, delta))


def half_points_by_groups(epsilon: float = 1.1, delta: float = 1e-5) -> Iterable[Line]:
    """(groups per owner, rule, owners at which a group is as likely kept as not)."""
    for groups in (*range(1, 11), 12, 15, 20, 25, 30, 40, 50):
        yield groups, "Laplace threshold", half_point(laplace(epsilon, delta, groups))
        yield groups, "optimal", half_point(optimal(epsilon, delta, groups))
        yield groups, "Gaussian threshold", half_point(gaussian(epsilon, delta, groups))
