"""A threshold on two numbers that make a whole: each owner's distance from the lower bound, and from the upper.

For every owner of a group the two add up to K, the width of the bounds, whatever the value; for n owners they add up to n·K.
Both are released with noise for a move of K in each of κ groups, which is charged once. Their sum is a count of owners
at no extra cost, and it decides which groups appear. The threshold is the smallest τ with
1 − (1 − P[K + X₁ + X₂ ≥ τ])^κ ≤ δ, by exact tails. Proof: docs/theory/group-selection.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.accounting.events import GaussianNoise, LaplaceNoise, WholeSelection
from shoal.errors import InternalError
from shoal.mechanisms import calibrate
from shoal.mechanisms.certified import decimal_below
from shoal.mechanisms.noise import draw_noise
from shoal.mechanisms.selection.rule import SelectionApart, SelectionDraw, SelectionLoss
from shoal.mechanisms.tails import pair_tail
from shoal.remembered import remembered

if TYPE_CHECKING:
    import numpy.typing as npt

    from shoal.accounting.events import AdditiveNoise, Selection
    from shoal.mechanisms.entropy import Entropy


SMALL = 2**61
"""Three numbers below it add up within 64 bits."""


def _is_small(noise: npt.NDArray[Any]) -> bool:
    return bool(noise.dtype == np.int64 and np.all(noise < SMALL) and np.all(noise > -SMALL))


@remembered(1024)
def on_released_whole(noise: AdditiveNoise, max_groups: int, min_owners: int, delta: Fraction) -> WholeSelection:
    """The lowest threshold that δ allows, on noise charged and released elsewhere."""
    chance = calibrate.delta_per_group(delta, max_groups)
    threshold = noise.shift.per_coordinate + calibrate.smallest_pair_point(noise, chance)
    return WholeSelection(noise, threshold, delta, max_groups, min_owners)


class WholeRule:
    """A threshold on the number of owners given by two released parts of a whole; it does not exist without them."""

    name = "LAPLACE_THRESHOLD"
    words = "a group appears when its number of owners, read off two Laplace-noised numbers that make a whole, reaches a threshold"
    reads: str | None = "LAPLACE"
    joins_gaussian = False
    noise: type[AdditiveNoise] = LaplaceNoise

    def made(self, selection: Selection) -> bool:
        """It has its own event, for noise of either kind."""
        return isinstance(selection, WholeSelection) and isinstance(selection.noise, self.noise)

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:  # noqa: ARG002
        """There is nothing to read."""
        raise InternalError("parts of a whole select groups only where they are released")

    def draw(
        self,
        selection: WholeSelection,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,  # noqa: ARG002 - one signature for all rules
    ) -> SelectionDraw:
        """Both noises for every group with enough owners; for kept groups they are added to what is released."""
        kept = np.zeros(len(owners), dtype=bool)
        eligible = np.flatnonzero(owners >= selection.min_owners)
        drawn = [draw_noise(selection.noise, len(eligible), entropy) for _ in range(2)]
        counted: npt.NDArray[Any] = owners[eligible] - (selection.min_owners - 1)
        small = int(counted.max(initial=0)) * selection.whole < SMALL and all(map(_is_small, drawn))
        above, below = (np.zeros(len(owners), dtype=np.int64 if small else object) for _ in range(2))
        above[eligible], below[eligible] = drawn
        # The part counted from the upper bound is released with its sign, below 0, so its noise counts the other way.
        counted = counted.astype(above.dtype) * selection.whole
        sums = counted + above[eligible] - below[eligible]
        kept[eligible] = np.asarray(sums >= selection.threshold, dtype=bool)
        return SelectionDraw(kept, None, (above, below))

    def keep_probability(self, selection: WholeSelection, counted: int, weight: float | None = None) -> float:  # noqa: ARG002
        """P[n·K + X₁ + X₂ ≥ τ]."""
        return float(pair_tail(selection.noise, selection.threshold - counted * selection.whole).upper)

    def half_point(self, selection: WholeSelection) -> int:
        """Owners that reach the threshold: P[X₁ + X₂ ≥ 0] ≥ 1/2 > P[X₁ + X₂ ≥ 1]."""
        return max(1, -(-selection.threshold // selection.whole))

    def typical_owners(self, selection: WholeSelection) -> float:
        """The same, whatever other groups they are in; a fraction of an owner matters if steps are fine."""
        return max(1.0, selection.threshold / selection.whole) + selection.min_owners - 1

    def threshold(self, selection: WholeSelection) -> int | None:
        """In owners, including the minimum."""
        return self.half_point(selection) + selection.min_owners - 1

    def loss(self, selection: WholeSelection) -> SelectionLoss:
        """Only δ, if the noise covers both parts of one owner in all groups and the threshold is high enough."""
        shift, groups = selection.noise.shift, selection.max_groups_per_owner
        if shift.coordinates < groups or shift.touched < 2 * groups:
            raise InternalError("the noise of a whole does not cover both its parts in all groups of an owner")
        chance = pair_tail(selection.noise, selection.threshold - selection.whole).upper
        if chance > decimal_below(calibrate.delta_per_group(selection.delta, groups)):
            raise InternalError("a threshold is too low for the delta it claims")
        return SelectionLoss(Fraction(0), selection.delta, Fraction(0), selection.delta)

    def responses(self, selection: WholeSelection) -> None:  # noqa: ARG002 - one signature for all rules
        """Its noise is composed by its own event."""
        return


class GaussianWholeRule(WholeRule):
    """The same on Gaussian noise, which is part of a joint release."""

    name = "GAUSSIAN_THRESHOLD"
    words = "a group appears when its number of owners, read off two Gaussian-noised numbers that make a whole, reaches a threshold"
    reads: str | None = "GAUSSIAN"
    noise = GaussianNoise
