"""The exact worst case of a bare count, with or without noise, and everybody but the target.

With every chance somewhere in [λ, 1 − λ], the distribution of S is affine in each chance and δ is convex in the distribution,
so the worst case is at a corner: a of the others at λ, the rest at 1 − λ. All a are tried.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np

from shoal.frozen import dataclass
from shoal.knowledge.blanket import Blanket
from shoal.knowledge.distributions import Distribution, Floats, binomial, sum_of_answers, without_one
from shoal.knowledge.losses import Loss, NoisyCounts, ShiftedCounts, stacked

MOST_CORNERS = 2000
"""Up to this many others every corner is tried."""
_MOST_STEPS = 2_000_000  # of taking people out of sums, one value a step


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


def with_noise(rows: Floats, shift: int, noise_scale: float | None) -> ShiftedCounts | NoisyCounts:
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
    def targets(self) -> LeftOut:
        """The count of the others, for every target that could be the worst."""
        return left_out(np.array(self.probabilities), self.shift)

    @cached_property
    def _losses(self) -> tuple[ShiftedCounts | NoisyCounts, ...]:
        groups = (self.targets.counts, self.targets.pairs)
        return tuple(with_noise(stacked(list(group)), self.shift, self.noise_scale) for group in groups if group)

    @property
    def smallest(self) -> float:
        """What the worst target cannot avoid."""
        alone, *pairs = (loss.smallest for loss in self._losses)
        return min(1.0, alone + self.targets.weight * sum(pairs))

    def deltas(self, epsilon: float) -> Floats:
        """The divergence of every target that was tried, upwards and then downwards, raised for those that were not."""
        alone, *pairs = (loss.deltas(epsilon) for loss in self._losses)
        return self.targets.raised(alone, pairs[0] if pairs else alone)

    def delta(self, epsilon: float) -> float:
        """The worst target in the worse direction."""
        return float(self.deltas(epsilon).max())


@dataclass(frozen=True)
class LeftOut:
    """The counts without each possible target.

    With very many different chances only some are tried, evenly spread. A target p between two of them is bounded by
    convexity: with R the count without that target and a neighbour l that was tried, f(x) = δ(R + one more answer of
    chance x) is convex, f(p) is the δ of l, f(p_l) is the δ of the target, and f(0) = f(1) = δ(R). Hence the target's δ is at most
    δ_l + w·(δ(R) − δ_l), with w = (p_l − p)/(1 − p) for a neighbour above and (p − p_l)/p for one below.
    """

    counts: tuple[Distribution, ...]
    pairs: tuple[Distribution, ...] = ()  # without the same target and a neighbour; none where all were tried
    weight: float = 0.0  # the largest w

    def raised(self, alone: Floats, pairs: Floats) -> Floats:
        """What covers the targets that were not tried too."""
        return alone + self.weight * np.maximum(pairs - alone, 0.0)


def left_out(probabilities: Floats, group: int = 1) -> LeftOut:
    """The counts without each possible target, or without each group of them."""
    total = sum_of_answers(probabilities)
    chances, people = np.unique(probabilities, return_counts=True)
    if group > 1:
        return LeftOut(tuple(_without(total, members) for members in _groups(chances.tolist(), people.tolist(), group)))
    most = max(64, _MOST_STEPS // len(total.chances))
    if len(chances) <= most:
        return LeftOut(tuple(without_one(total, float(chance)) for chance in chances))
    tried, weight = _spread(chances, most // 2)
    counts = tuple(without_one(total, float(chance)) for chance in tried)
    neighbours = np.append(tried[1:], tried[-2])
    pairs = (without_one(count, float(chance)) for count, chance in zip(counts, neighbours, strict=True))
    return LeftOut(counts, tuple(pairs), weight)


def _spread(chances: Floats, most: int) -> tuple[Floats, float]:
    """Chances at even distances, both ends among them, and the largest w; a tenth more, because a pair represents similar ones."""
    wanted = np.linspace(chances[0], chances[-1], most)
    tried = np.unique(np.append(chances[np.minimum(np.searchsorted(chances, wanted), len(chances) - 1)], chances[0]))
    above = tried[np.searchsorted(tried, chances)]
    below = tried[np.searchsorted(tried, chances, side="right") - 1]
    shares = np.where(
        chances <= 0.5, (above - chances) / np.maximum(1 - chances, 0.5), (chances - below) / np.maximum(chances, 0.5)
    )
    return tried, min(1.0, 1.1 * float(shares.max()))


def _groups(chances: list[float], people: list[int], group: int) -> list[tuple[float, ...]]:
    """Every group of this many people, up to equal chances."""
    left = dict(zip(chances, people, strict=True))
    every = combinations_with_replacement(chances, group)
    return [members for members in every if all(members.count(chance) <= left[chance] for chance in set(members))]


def _without(total: Distribution, members: tuple[float, ...]) -> Distribution:
    for chance in members:
        total = without_one(total, chance)
    return total
