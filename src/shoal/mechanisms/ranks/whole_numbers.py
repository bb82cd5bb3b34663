"""Quantiles of whole numbers between whole bounds: only positions that hold a whole number may be chosen.

The type of the column and the bounds are public, so leaves that no value can fall into need no probability: the proof of a
choice holds for any fixed set of leaves. A column of ages uses 121 of 65,536 leaves. A quantile is then a whole number, its
interval goes from whole number to whole number, and no empty leaf between two of them competes with either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass
from shoal.mechanisms.quantile_choice import ChosenQuantiles
from shoal.mechanisms.ranks.bands import RankBands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from shoal.accounting.events import QuantileChoice
    from shoal.mechanisms.entropy import Entropy

Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

LEAVES_EACH = 4
"""At least this many leaves per whole number, so that no two share a leaf."""
NEARLY = 1e-6


def number_of(leaf: Counts, leaves: int, width: int) -> Counts:
    """The whole number v ≤ width, counted from the lower bound, whose leaf ⌊v·leaves/width⌋ this is (the last one for v = width).

    >>> number_of(np.array([0, 32768, 65535]), 65536, 120)
    array([  0,  60, 120])
    """
    return np.asarray((2 * leaf * width + leaves) // (2 * leaves), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class WholeQuantiles:
    """Quantiles chosen among the whole numbers from 0 to `width`, as positions in [0, 1]."""

    chosen: ChosenQuantiles
    width: int

    @classmethod
    def of(
        cls,
        groups: int,
        group: Counts,
        leaf: Counts,
        count: Counts,
        choice: QuantileChoice,
        leaves: int,
        entropy: Entropy,
        width: int,
    ) -> WholeQuantiles:
        """The same as `ChosenQuantiles`, over whole numbers."""
        numbers = number_of(leaf, leaves, width)
        return cls(ChosenQuantiles(groups, group, numbers, count, choice, width + 1, entropy), width)

    def quantiles(self, probabilities: Sequence[float]) -> Reals:
        """Positions of whole numbers, of shape (groups, probabilities)."""
        positions: Reals = np.floor(self.chosen.quantiles(probabilities) * (self.width + 1)) / self.width
        return positions

    def bands(
        self, fractions: Sequence[Fraction], levels: Sequence[float], *, sampled: bool = False
    ) -> RankBands | None:
        """From the first whole number inside to the last one."""
        found = self.chosen.bands(fractions, levels, sampled=sampled)
        if found is None:
            return None
        low = np.floor(found.low * (self.width + 1) + NEARLY) / self.width
        high = (np.ceil(found.high * (self.width + 1) - NEARLY) - 1) / self.width
        return RankBands(found.fractions, found.levels, low, high)
