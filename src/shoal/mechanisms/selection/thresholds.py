"""LAPLACE_THRESHOLD and GAUSSIAN_THRESHOLD: a group appears when its noisy number of owners reaches a threshold.

With the noise X of an owner count, the threshold is the smallest τ with 1 − (1 − P[1 + X ≥ τ])^κ ≤ δ, by exact tails: the
chance that any of the κ groups that exist through one owner alone appears. The noise is charged by its own event.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import GaussianNoise, LaplaceNoise, Shift, ThresholdSelection
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.noise import draw_noise, saturate_int64
from shoal.mechanisms.selection.rule import SelectionApart, SelectionDraw, SelectionLoss

if TYPE_CHECKING:
    import numpy.typing as npt

    from shoal.accounting.events import AdditiveNoise, Selection
    from shoal.mechanisms.entropy import Entropy


def count_shift(max_groups: int) -> Shift:
    """One owner adds or removes one in each of the owner's groups."""
    return Shift(1, max_groups)


def on_released_count(noise: AdditiveNoise, max_groups: int, min_owners: int, delta: Fraction) -> ThresholdSelection:
    """A threshold on an owner count that is also an answer: its noise is drawn, and charged, once."""
    threshold = calibrate.threshold_for(noise, max_groups, delta)
    return ThresholdSelection(noise, threshold, delta, max_groups, min_owners, released=True)


class _ThresholdRule:
    """Everything both have in common, which is all but the calibration."""

    noise: type[AdditiveNoise]

    def made(self, selection: Selection) -> bool:
        """Depends on the kind of noise."""
        return isinstance(selection, ThresholdSelection) and isinstance(selection.noise, self.noise)

    def draw(
        self,
        selection: ThresholdSelection,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,  # noqa: ARG002 - one signature for all rules
    ) -> SelectionDraw:
        """Kept when owners + X ≥ threshold + min_owners − 1; no noise is drawn for groups below the minimum."""
        kept, noisy = np.zeros(len(owners), dtype=bool), np.zeros(len(owners), dtype=np.int64)
        eligible = np.flatnonzero(owners >= selection.min_owners)
        counts = owners[eligible] + draw_noise(selection.noise, len(eligible), entropy)
        kept[eligible] = np.asarray(counts >= selection.threshold + selection.min_owners - 1, dtype=bool)
        noisy[eligible] = saturate_int64(counts)
        return SelectionDraw(kept, noisy)

    def keep_probability(self, selection: ThresholdSelection, counted: int, weight: float | None = None) -> float:  # noqa: ARG002
        """P[n + X ≥ τ]."""
        return float(calibrate.noise_tail(selection.noise, selection.threshold - counted).upper)

    def half_point(self, selection: ThresholdSelection) -> int:
        """The threshold: P[X ≥ 0] ≥ 1/2 > P[X ≥ 1]."""
        return max(selection.threshold, 1)

    def typical_owners(self, selection: ThresholdSelection) -> float:
        """The same, whatever other groups they are in."""
        return float(self.half_point(selection) + selection.min_owners - 1)

    def threshold(self, selection: ThresholdSelection) -> int | None:
        """In owners, including the minimum."""
        return selection.threshold + selection.min_owners - 1

    def loss(self, selection: ThresholdSelection) -> SelectionLoss:
        """Only δ, if the noise covers one owner and the threshold is high enough."""
        shift = selection.noise.shift
        if shift.per_coordinate < 1 or shift.coordinates < selection.max_groups_per_owner:
            raise InternalError("the noise of a threshold does not cover one owner in all of its groups")
        if not calibrate.threshold_holds(selection):
            raise InternalError("a threshold is too low for the delta it claims")
        return SelectionLoss(Fraction(0), selection.delta, Fraction(0), selection.delta)

    def responses(self, selection: ThresholdSelection) -> None:  # noqa: ARG002 - one signature for all rules
        """Its noise is composed by its own event."""
        return


class LaplaceThreshold(_ThresholdRule):
    """A Laplace-noised count."""

    name = "LAPLACE_THRESHOLD"
    words = "a group appears when its Laplace-noised number of owners reaches a threshold"
    reads: str | None = "LAPLACE"
    joins_gaussian = False
    noise = LaplaceNoise

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """All of ε for the count, all of δ for the threshold."""
        shift = count_shift(max_groups)
        noise = LaplaceNoise(shift, calibrate.laplace_scale(shift, epsilon))
        threshold = calibrate.threshold_for(noise, max_groups, delta)
        selection = ThresholdSelection(noise, threshold, delta, max_groups, min_owners)
        return SelectionApart(selection, (noise, selection), epsilon)


class GaussianThreshold(_ThresholdRule):
    """A Gaussian-noised count; the count may be part of a joint release (`rewrite.assign_mechanisms`)."""

    name = "GAUSSIAN_THRESHOLD"
    words = "a group appears when its Gaussian-noised number of owners reaches a threshold"
    reads: str | None = "GAUSSIAN"
    joins_gaussian = True
    noise = GaussianNoise

    def shift(self, max_groups: int) -> Shift:
        """Of the numbers of owners."""
        return count_shift(max_groups)

    def joined(
        self, noise: GaussianNoise, max_groups: int, min_owners: int, delta: Fraction, *, released: bool = False
    ) -> ThresholdSelection:
        """The rule on noise charged elsewhere."""
        threshold = calibrate.threshold_for(noise, max_groups, delta)
        return ThresholdSelection(noise, threshold, delta, max_groups, min_owners, released=released)

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """One δ for noise and threshold, if that is proven; else it is split so that the threshold is lowest."""
        shift = count_shift(max_groups)
        scales = calibrate.joint_scales([shift], [Fraction(1)], max_groups, epsilon, delta)
        noise = GaussianNoise(shift, scales.sigmas[0])
        selection = self.joined(noise, max_groups, min_owners, scales.delta_threshold)
        return SelectionApart(selection, scales.events((noise,), epsilon, selection), epsilon)
