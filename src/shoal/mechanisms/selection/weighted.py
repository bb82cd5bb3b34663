"""WEIGHTED: a group appears when the noisy sum of its owners' weights reaches a threshold; owners in few groups weigh more.

An owner kept in d groups adds w(d) = ⌊W/√d⌋ steps to each of them. However large d is, all sums together move by at most
√(d·w(d)²) ≤ W, so Gaussian noise for a move of length W hides an owner, and it does not grow with κ. The threshold is the
smallest τ with 1 − (1 − P[w(d) + X ≥ τ])^d ≤ δ for every d: the chance that any of the d groups that exist through one owner alone
appears. A degree depends only on the owner's own rows, so no owner moves another's weight. Proof:
docs/theory/group-selection.md.

If all owners of a group are in κ groups, it needs as many of them as a Gaussian threshold on their number does; if they are in
fewer groups, it needs fewer. `half_point` and `keep_probability` describe the former; `typical_owners` a prior over the latter.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import GaussianNoise, Shift, WeightedSelection
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.certified import decimal_below
from shoal.mechanisms.noise import draw_noise
from shoal.mechanisms.selection.rule import SelectionApart, SelectionDraw, SelectionLoss
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from shoal.accounting.events import Selection
    from shoal.mechanisms.entropy import Entropy

WHOLE = 2**20
"""W: the weight of an owner in one group, in steps."""
EACH_UP_TO, FINENESS = 16, 12
"""Degrees have separate weights up to here; beyond, those up to the next d·(1 + 1/12) share one."""

Weights = tuple[tuple[int, int], ...]


@remembered(256)
def weights_for(max_groups: int) -> Weights:
    """(degree, weight) for degrees up to κ; a degree between two has the weight of the larger, which is conservative.

    >>> weights_for(3)
    ((1, 1048576), (2, 741455), (3, 605395))
    """
    degrees = list(range(1, min(max_groups, EACH_UP_TO) + 1))
    while degrees[-1] < max_groups:
        degrees.append(min(max_groups, degrees[-1] + -(-degrees[-1] // FINENESS)))
    return tuple((degree, math.isqrt(WHOLE**2 // degree)) for degree in degrees)


def weights_shift(max_groups: int) -> Shift:
    """One owner moves at most κ sums, by at most W in all."""
    return Shift(WHOLE, max_groups, length=WHOLE)


@remembered(1024)
def weighted_threshold(noise: GaussianNoise, weights: Weights, delta: Fraction) -> int:
    """The smallest τ that holds for every degree: floats choose which degree to start with, certified tails decide."""
    chances = [(weight, calibrate.delta_per_group(delta, degree)) for degree, weight in weights]
    first = max(
        chances, key=lambda pair: pair[0] + float(noise.sigma) * calibrate.normal_point(math.log(float(pair[1])))
    )
    threshold, position = first[0] + calibrate.smallest_tail_point(noise, first[1]), 0
    while (position := _first_failing(noise, threshold, chances, position)) < len(chances):
        weight, chance = chances[position]
        threshold = weight + calibrate.smallest_tail_point(noise, chance)
        position += 1
    return threshold


@remembered(1024)
def weighted_threshold_holds(noise: GaussianNoise, weights: Weights, threshold: int, delta: Fraction) -> bool:
    """Whether any of one owner's own groups appears with a chance of at most δ, however many groups the owner is in."""
    chances = [(weight, calibrate.delta_per_group(delta, degree)) for degree, weight in weights]
    return _first_failing(noise, threshold, chances, 0) == len(chances)


def _first_failing(noise: GaussianNoise, threshold: int, chances: Sequence[tuple[int, Fraction]], start: int) -> int:
    """The first degree from `start` on whose groups appear too often, or the number of degrees.

    The chance of exceeding a point falls with the point: if the largest of several weights meets the smallest of their limits, all
    of them meet theirs.
    """
    stop = len(chances)
    while start < stop:
        several = chances[start:stop]
        if _holds(noise, threshold - max(weight for weight, _ in several), min(chance for _, chance in several)):
            start, stop = stop, len(chances)
        elif len(several) == 1:
            return start
        else:
            stop = start + (stop - start) // 2
    return len(chances)


def _holds(noise: GaussianNoise, least: int, chance: Fraction) -> bool:
    return calibrate.noise_tail(noise, least).upper <= decimal_below(chance)


def typical_weight(weights: Weights) -> float:
    """The mean weight if a group's owners are in 1 to κ groups, all equally likely: a public prior, no data."""
    before, total = 0, 0.0
    for degree, weight in weights:
        total += (degree - before) * weight
        before = degree
    return total / before


def approximate_weighted_owners(
    max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction, *, typical: bool = True
) -> float:
    """Approximate `typical_owners` (or owners in κ groups each) of weights that have (ε, δ) to themselves; it proves nothing."""
    sigma = 1 / calibrate.approximate_norm(float(epsilon), float(delta))
    weights, left = weights_for(max_groups), float(delta)
    bar = max(weight / WHOLE + sigma * calibrate.normal_point(math.log(left / degree)) for degree, weight in weights)
    return (bar + min_owners - 1) * WHOLE / (typical_weight(weights) if typical else weights[-1][1])


class WeightedRule:
    """Gaussian noise on sums of weights; they may be part of a joint release (`rewrite.assign_mechanisms`)."""

    name = "WEIGHTED"
    words = (
        "a group appears when the noisy sum of its owners' weights reaches a threshold; owners in few groups weigh more"
    )
    reads: str | None = None
    joins_gaussian = True

    def made(self, selection: Selection) -> bool:
        """It has its own event."""
        return isinstance(selection, WeightedSelection)

    def shift(self, max_groups: int) -> Shift:
        """Of all sums of weights."""
        return weights_shift(max_groups)

    def joined(
        self,
        noise: GaussianNoise,
        max_groups: int,
        min_owners: int,
        delta: Fraction,
        *,
        released: bool = False,
    ) -> WeightedSelection:
        """The rule on noise charged elsewhere."""
        if released:
            raise InternalError("sums of weights are not shown")
        weights = weights_for(max_groups)
        return WeightedSelection(noise, weights, weighted_threshold(noise, weights, delta), delta, min_owners)

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """One δ for noise and threshold, as for a count."""
        shift = self.shift(max_groups)
        scales = calibrate.joint_scales([shift], [Fraction(1)], max_groups, epsilon, delta)
        noise = GaussianNoise(shift, scales.sigmas[0])
        selection = self.joined(noise, max_groups, min_owners, scales.delta_threshold)
        return SelectionApart(selection, scales.events((noise,), epsilon, selection), epsilon)

    def draw(
        self,
        selection: WeightedSelection,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> SelectionDraw:
        """Kept when weights + X ≥ threshold + (min_owners − 1)·w₁; no noise is drawn for groups below the minimum."""
        if weights is None or len(weights) != len(owners):
            raise InternalError("weights decide which groups appear, and there are none")
        kept = np.zeros(len(owners), dtype=bool)
        eligible = np.flatnonzero(owners >= selection.min_owners)
        sums = weights[eligible].astype(object) + draw_noise(selection.noise, len(eligible), entropy)
        kept[eligible] = np.asarray(sums >= _bar(selection), dtype=bool)
        return SelectionDraw(kept, None)

    def keep_probability(self, selection: WeightedSelection, counted: int, weight: float | None = None) -> float:
        """P[S + X ≥ τ] for a sum of weights, or for owners who are all in κ groups; in floats."""
        owners = counted + selection.min_owners - 1
        reached = owners * selection.weights[-1][1] if weight is None else weight
        point = (_bar(selection) - 0.5 - reached) / float(selection.noise.sigma)
        return math.erfc(point / math.sqrt(2)) / 2

    def half_point(self, selection: WeightedSelection) -> int:
        """Owners in κ groups each whose weights reach the threshold."""
        return max(1, -(-_bar(selection) // selection.weights[-1][1]) - (selection.min_owners - 1))

    def typical_owners(self, selection: WeightedSelection) -> float:
        """The same for owners in 1 to κ groups."""
        return max(1.0, _bar(selection) / typical_weight(selection.weights))

    def threshold(self, selection: WeightedSelection) -> None:  # noqa: ARG002 - one signature for all rules
        """No number of owners is compared with anything."""
        return

    def loss(self, selection: WeightedSelection) -> SelectionLoss:
        """Only δ, if the noise covers one owner of any degree and the threshold is high enough."""
        shift = selection.noise.shift
        longest = max(degree * weight**2 for degree, weight in selection.weights)
        if shift.l2_squared < longest or shift.per_coordinate < selection.weights[0][1]:
            raise InternalError("the noise of weights does not cover one owner in all of its groups")
        if shift.touched < selection.max_groups_per_owner:
            raise InternalError("the noise of weights covers fewer groups than an owner may be in")
        if not weighted_threshold_holds(selection.noise, selection.weights, selection.threshold, selection.delta):
            raise InternalError("a threshold is too low for the delta it claims")
        return SelectionLoss(Fraction(0), selection.delta, Fraction(0), selection.delta)

    def responses(self, selection: WeightedSelection) -> None:  # noqa: ARG002 - one signature for all rules
        """Its noise is composed by its own event."""
        return


def _bar(selection: WeightedSelection) -> int:
    """The noisy sum from which a group appears; with a minimum of k owners, k − 1 of the heaviest are subtracted."""
    return selection.threshold + (selection.min_owners - 1) * selection.weights[0][1]
