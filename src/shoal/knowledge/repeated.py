"""Counts released again and again, where a person's answers at different times are independent: pairs compose.

A pair of distributions is kept as chances of losses on a grid. δ is convex in e^ε, so the line through the true δ at the grid
points is nowhere below it, and that line is the curve of a pair whose losses are grid points. What dominates one release
dominates all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass
from shoal.knowledge.blanket import Blanket
from shoal.knowledge.counts import KnownChances

if TYPE_CHECKING:
    from shoal.knowledge.distributions import Floats

_POINTS = 1000  # of the grid on either side of 0
_BLANKET_POINTS = 400
_BEYOND = 1e-50  # δ of the last grid point; counted as an infinite loss
_RARE = 1e-60  # the chance of a loss that is not kept on the grid
_LARGEST_EPSILON = 500.0
_EVERY_MIXTURE = 12  # up to this many releases ups and downs are told apart


Curve = Callable[[float], float]
"""δ of a pair for every ε, negative ones too."""


@dataclass(frozen=True)
class Pair:
    """P[loss = (first + i)·step] = chances[i] under the first of two distributions; `infinite`: what only it can give."""

    step: float
    first: int
    chances: Floats
    infinite: float

    def then(self, other: Pair) -> Pair:
        """Both releases together; losses that hardly ever occur are counted as infinite."""
        infinite = self.infinite + (1 - self.infinite) * other.infinite
        chances = np.convolve(self.chances, other.chances)
        large = np.flatnonzero(chances >= _RARE)
        first, last = (int(large[0]), int(large[-1]) + 1) if len(large) else (0, 0)
        rare = float(chances[:first].sum() + chances[last:].sum())
        return Pair(self.step, self.first + other.first + first, chances[first:last], infinite + rare)

    def delta(self, epsilon: float) -> float:
        """E[(1 − e^(ε − loss))₊]."""
        losses = (self.first + np.arange(len(self.chances))) * self.step
        return float(self.infinite - (self.chances * np.expm1(np.minimum(epsilon - losses, 0.0))).sum())


def pair_of(curve: Curve, end: float, points: int) -> Pair:
    """The pair on a grid from −end to end whose δ is the line through the curve."""
    step = end / points
    epsilons = np.arange(-points, points + 1) * step
    x, deltas = np.exp(epsilons), np.minimum(1.0, [curve(float(epsilon)) for epsilon in epsilons])
    falls = np.concatenate(((1 - deltas[:1]) / x[:1], -np.diff(deltas) / np.diff(x), [0.0]))
    return Pair(step, -points, x * np.maximum(-np.diff(falls), 0.0), float(deltas[-1]))


def symmetric(curve: Curve) -> Curve:
    """The curve of a pair that swapping does not change, from its half at ε ≥ 0."""
    curve = lru_cache(maxsize=None)(curve)
    return lambda epsilon: curve(epsilon) if epsilon >= 0 else math.exp(epsilon) * curve(-epsilon) - math.expm1(epsilon)


def end_of(curve: Curve) -> float:
    """An ε beyond which hardly anything is left, or nothing falls any more."""
    floor = max(_BEYOND, 1.000001 * curve(_LARGEST_EPSILON))
    low, high = 0.0, _LARGEST_EPSILON
    while high - low > max(0.01 * high, 1e-4):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > floor else (low, middle)
    return high


def at_least_once(chance: float, times: int) -> float:
    """Give 1 − (1 − chance)^times."""
    return 1.0 if chance >= 1.0 else -math.expm1(times * math.log1p(-chance))


def power(pair: Pair, times: int) -> Pair:
    """The pair composed with itself, by squaring."""
    bits = bin(times)[3:]
    return reduce(lambda so_far, bit: so_far.then(so_far) if bit == "0" else so_far.then(so_far).then(pair), bits, pair)


@dataclass(frozen=True)
class RepeatedKnownChances:
    """Independent answers of people with known chances, `times` over: the worst target, the worst number of ups."""

    probabilities: tuple[float, ...]
    times: int

    @cached_property
    def _once(self) -> KnownChances:
        return KnownChances(self.probabilities)

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        half = len(self._once.targets.counts)
        either, up, down = (_worst_of(self._once, chosen) for chosen in (slice(None), slice(half), slice(half, None)))
        end = end_of(either)
        if self.times > _EVERY_MIXTURE:  # one pair that dominates both directions
            return (power(pair_of(symmetric(either), end, _POINTS), self.times),)
        upwards, downwards = pair_of(up, end, _POINTS), pair_of(down, end, _POINTS)
        return tuple(_mixed(upwards, i, downwards, self.times - i) for i in range(self.times + 1))

    @property
    def smallest(self) -> float:
        """The chance that one of the releases gives the target away."""
        return at_least_once(self._once.smallest, self.times)

    def delta(self, epsilon: float) -> float:
        """The worst number of ups."""
        return max(pair.delta(epsilon) for pair in self._pairs)


def _worst_of(once: KnownChances, chosen: slice) -> Curve:
    return lambda epsilon: float(once.deltas(epsilon)[chosen].max())


def _mixed(up: Pair, ups: int, down: Pair, downs: int) -> Pair:
    """The target's answers move up in some of the releases and down in the others."""
    if not ups or not downs:
        return power(down if downs else up, ups + downs)
    return power(up, ups).then(power(down, downs))


@dataclass(frozen=True)
class RepeatedBlanket:
    """Independent answers that keep a chance of at least λ each time: the blanket pair dominates all corners."""

    unknown: int
    uncertainty: float
    times: int

    @cached_property
    def _pair(self) -> Pair:
        curve = symmetric(Blanket(self.unknown, self.uncertainty).delta)
        return power(pair_of(curve, end_of(curve), _BLANKET_POINTS), self.times)

    @property
    def smallest(self) -> float:
        """The chance that one of the releases gives the target away."""
        return at_least_once(Blanket(self.unknown, self.uncertainty).smallest, self.times)

    def delta(self, epsilon: float) -> float:
        """The composed blanket."""
        return self._pair.delta(epsilon)
