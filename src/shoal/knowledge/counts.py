"""The exact worst case of a bare count, with or without noise, and everybody but the target.

With every chance somewhere in [λ, 1 − λ], the distribution of S is affine in each chance and δ is convex in the distribution,
so the worst case is at a corner: a of the others at λ, the rest at 1 − λ. All a are tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np

from shoal.errors import ShoalError
from shoal.knowledge.blanket import Blanket
from shoal.knowledge.distributions import Distribution, Floats, binomial, sum_of_answers, without_one
from shoal.knowledge.losses import Loss, NoisyCounts, ShiftedCounts, stacked

MOST_CORNERS = 2000
"""Up to so many others every corner is tried."""
MOST_GROUPS = 2000
_MOST_STEPS = 2_000_000  # of taking people out of sums, one value a step
_SLACK = 1 + 1e-6


@dataclass(frozen=True)
class WorstCorner:
    """The worst of all corners with `unknown` others, or, with noise, the same on top of noise."""

    unknown: int
    uncertainty: float
    shift: int = 1
    noise_scale: float | None = None

    @cached_property
    def _worst(self) -> Loss:
        return with_noise(corners(self.unknown, self.uncertainty), self.shift, self.noise_scale)

    @property
    def smallest(self) -> float:
        """P[fewer yes than the shift] with everybody at λ; 0 with noise."""
        if self.noise_scale is not None:
            return 0.0
        return float(binomial(self.unknown, self.uncertainty).dense(self.shift - 1).sum())

    def delta(self, epsilon: float) -> float:
        """The worst corner in the worse direction."""
        return self._worst.delta(epsilon)


@lru_cache(maxsize=2)
def corners(unknown: int, uncertainty: float) -> Floats:
    """The count of yes with a of the others at λ and the rest at 1 − λ, for a up to a half: the others are mirror images."""
    return np.array([_corner(a, unknown - a, uncertainty).dense(unknown) for a in range(unknown // 2 + 1)])


def _corner(low: int, high: int, uncertainty: float) -> Distribution:
    return binomial(low, uncertainty).plus(binomial(high, uncertainty).reversed(high))


def with_noise(rows: Floats, shift: int, noise_scale: float | None) -> Loss:
    """The loss of rows of counts."""
    return ShiftedCounts(rows, shift) if noise_scale is None else NoisyCounts(rows, noise_scale, shift)


@dataclass(frozen=True)
class ManyUnknown:
    """More than 2,000 others: the blanket, or the worst case of 2,000 where that is smaller.

    One more answer is post-processing, so δ only falls with the number of others; so is noise on top of the blanket.
    """

    unknown: int
    uncertainty: float
    shift: int = 1
    noise_scale: float | None = None

    @cached_property
    def _fewer(self) -> WorstCorner:
        return WorstCorner(MOST_CORNERS, self.uncertainty, self.shift, self.noise_scale)

    @cached_property
    def _one_corner(self) -> Loss:
        """Some corner of 2,000: where the blanket is below it, the worst one need not be looked for."""
        row = binomial(MOST_CORNERS, self.uncertainty).dense(MOST_CORNERS)
        return with_noise(row[None, :], self.shift, self.noise_scale)

    @property
    def smallest(self) -> float:
        """What no ε avoids."""
        return 0.0 if self.noise_scale is not None else Blanket(self.unknown, self.uncertainty, self.shift).smallest

    def delta(self, epsilon: float) -> float:
        """The smaller bound."""
        blanket = Blanket(self.unknown, self.uncertainty, self.shift).delta(epsilon)
        return blanket if blanket <= self._one_corner.delta(epsilon) else min(blanket, self._fewer.delta(epsilon))


def count_loss(unknown: int, uncertainty: float, shift: int, noise_scale: float | None) -> Loss:
    """The exact worst case, up to 2,000 others."""
    kind = WorstCorner if unknown <= MOST_CORNERS else ManyUnknown
    return kind(unknown, uncertainty, shift, noise_scale)


@dataclass(frozen=True)
class KnownChances:
    """A count among people whose chances are known: each distinct chance is the target's once, the worst wins."""

    probabilities: tuple[float, ...]
    shift: int = 1
    noise_scale: float | None = None

    @cached_property
    def _worst(self) -> tuple[Loss, float]:
        counts, slack = left_out(np.array(self.probabilities), self.shift)
        return with_noise(stacked(list(counts)), self.shift, self.noise_scale), slack

    @property
    def smallest(self) -> float:
        """What the worst target cannot avoid."""
        loss, slack = self._worst
        return min(1.0, loss.smallest * slack)

    def delta(self, epsilon: float) -> float:
        """The worst target in the worse direction."""
        loss, slack = self._worst
        return loss.delta(epsilon) * slack


def left_out(probabilities: Floats, group: int = 1) -> tuple[tuple[Distribution, ...], float]:
    """The counts without each possible target (or group of them), and a factor for targets that were passed over.

    With very many different chances only some are tried: spread evenly, and those next to ½, where taking somebody out hurts
    most. Neighbouring chances give δ that agree to about (distance/variance of the count); the factor covers that.
    """
    total = sum_of_answers(probabilities)
    chances, people = np.unique(probabilities, return_counts=True)
    if group > 1:
        return tuple(_without(total, members) for members in _groups(chances.tolist(), people.tolist(), group)), 1.0
    most = max(64, _MOST_STEPS // len(total.chances))
    if len(chances) <= most:
        return tuple(without_one(total, float(chance)) for chance in chances), 1.0
    return tuple(without_one(total, float(chance)) for chance in _spread(chances, most)), _SLACK


def _spread(chances: Floats, most: int) -> Floats:
    evenly = chances[np.linspace(0, len(chances) - 1, most // 2).astype(np.int64)]
    middle = chances[np.argsort(np.abs(chances - 0.5), kind="stable")[: most // 2]]
    return np.union1d(evenly, middle)


def _groups(chances: list[float], people: list[int], group: int) -> list[tuple[float, ...]]:
    """Every group of so many people, told apart by their chances."""
    if math.comb(len(chances) + group - 1, group) > MOST_GROUPS:
        raise ShoalError(
            "E_USAGE",
            f"There are too many different groups of {group} related people.",
            hint="Round the probabilities so that few different ones are left, or say uncertainty= instead.",
        )
    left = dict(zip(chances, people, strict=True))
    every = combinations_with_replacement(chances, group)
    return [members for members in every if all(members.count(chance) <= left[chance] for chance in set(members))]


def _without(total: Distribution, members: tuple[float, ...]) -> Distribution:
    for chance in members:
        total = without_one(total, chance)
    return total
