"""Distributions of counts: binomial, Poisson-binomial, two-sided geometric noise, tails.

Every value is a sum of positive terms, so its *relative* error stays far below 10⁻⁹ even at 10⁻²⁰⁰. Values below 10⁻²⁹⁰ are
left out; `LEFT_OUT` covers all of them together.

    >>> binomial(3, 0.5).chances.round(9).tolist()
    [0.125, 0.375, 0.375, 0.125]
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.frozen import dataclass

Floats = NDArray[np.float64]

SMALLEST_CHANCE = 1e-290
LEFT_OUT = 1e-280
"""More than everything that any distribution here leaves out."""
_BLURRED = 1e-286  # below, taking people out may have gone wrong by what was left out
_LOG_LEFT_OUT = 670.0
_BATCH = 64  # people that are added one by one, all batches at once
_FEW = 100  # distinct chances that are worth a binomial each
_TABLE = np.array(
    [0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, 16)]
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """P[S = first + i] = chances[i]; nothing elsewhere."""

    first: int
    chances: Floats

    @property
    def last(self) -> int:
        """The largest value."""
        return self.first + len(self.chances) - 1

    def at(self, values: ArrayLike) -> Floats:
        """P[S = value] for each of these values."""
        positions = np.asarray(values) - self.first
        inside = (positions >= 0) & (positions < len(self.chances))
        found: Floats = np.where(inside, self.chances[np.clip(positions, 0, len(self.chances) - 1)], 0.0)
        return found

    def dense(self, count: int) -> Floats:
        """P[S = 0], …, P[S = count]."""
        return self.at(np.arange(count + 1))

    def reversed(self, count: int) -> Distribution:
        """The distribution of count − S."""
        return Distribution(count - self.last, self.chances[::-1])

    def at_least(self, values: ArrayLike) -> Floats:
        """P[S ≥ value] for each of these values."""
        above = tails(self.chances)
        found: Floats = above[np.clip(np.asarray(values) - self.first, 0, len(self.chances))]
        return found

    def in_groups(self, most: int, above: int) -> list[tuple[int, float]]:
        """At most about this many values with their chances, each the largest of the group it represents.

        Everything from `above` on is one group: what grows with the value is never understated there either if it stays equal.
        """
        values = np.arange(self.first, self.last + 1)
        size = -(-len(values) // most)
        ends = np.minimum((values - self.first) // size * size + size - 1 + self.first, self.last)
        found, positions = np.unique(np.where(values >= above, above, np.minimum(ends, above)), return_inverse=True)
        return list(zip(found.tolist(), np.bincount(positions, weights=self.chances).tolist(), strict=True))

    def plus(self, other: Distribution) -> Distribution:
        """The distribution of the sum of two independent ones."""
        return trimmed(self.first + other.first, np.convolve(self.chances, other.chances))


def trimmed(first: int, chances: Floats, smallest: float = SMALLEST_CHANCE) -> Distribution:
    """Without the values at both ends that are too small to count."""
    large = np.flatnonzero(chances >= smallest)
    return Distribution(first + int(large[0]), chances[large[0] : large[-1] + 1])


def binomial(count: int, chance: float) -> Distribution:
    """The number of yes among `count` people who each say yes with this chance."""
    if chance in {0.0, 1.0} or count == 0:
        return Distribution(count if chance == 1.0 else 0, np.ones(1))
    variance = count * chance * (1 - chance)
    reach = math.sqrt(2 * variance * _LOG_LEFT_OUT) + 2 * _LOG_LEFT_OUT / 3 + 1  # Bernstein
    first, last = max(0, math.floor(count * chance - reach)), min(count, math.ceil(count * chance + reach))
    return trimmed(first, binomial_chances(np.arange(first, last + 1), count, chance))


def binomial_chances(k: ArrayLike, count: ArrayLike, chance: float) -> Floats:
    """P[Bin(count, chance) = k] for arrays of k and count, 0 < chance < 1.

    By deviances from the mean (Loader, 2000): log-gammas of large numbers would cancel and lose eight digits.
    """
    k, n = np.broadcast_arrays(np.asarray(k, np.float64), np.asarray(count, np.float64))
    possible, inner = (k >= 0) & (k <= n), (k > 0) & (k < n)
    x, y = np.where(inner, k, 1.0), np.where(inner, n - k, 1.0)
    total = x + y
    log = stirling_error(total) - stirling_error(x) - stirling_error(y)
    log -= _deviance(x, total * chance) + _deviance(y, total * (1 - chance))
    log += 0.5 * np.log(total / (2 * math.pi * x * y))
    log = np.where(inner, log, np.where(k == 0, n * math.log1p(-chance), n * math.log(chance)))
    found: Floats = np.where(possible, np.exp(np.where(possible, log, 0.0)), 0.0)
    return found


def stirling_error(n: Floats) -> Floats:
    """Give ln n! minus Stirling's formula, for whole n ≥ 1."""
    x = np.maximum(n, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * x**2)) / x**2) / x**2) / x
    error: Floats = np.where(n < 16, _TABLE[np.minimum(n, 15).astype(np.int64)], series)
    return error


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Give x·ln(x/mean) + mean − x."""
    away = (mean - x) / x
    log = np.where(np.abs(away) < 0.5, np.log1p(np.maximum(away, -0.5)), np.log(mean / x))
    found: Floats = x * (away - log)
    return found


def sum_of_answers(probabilities: ArrayLike) -> Distribution:
    """The number of yes among people with these chances (Poisson-binomial).

    >>> sum_of_answers([0.5, 0.5, 1.0]).chances.round(9).tolist()
    [0.25, 0.5, 0.25]
    """
    chances, people = np.unique(np.asarray(probabilities, np.float64), return_counts=True)
    if len(chances) <= _FEW:
        parts = [binomial(int(count), float(chance)) for chance, count in zip(chances, people, strict=True)]
    else:
        parts = _batches(np.repeat(chances, people))
    return _sum_of(parts)


def _batches(chances: Floats) -> list[Distribution]:
    """Sums of 64 people each, one person of every batch added at a time."""
    missing = -len(chances) % _BATCH
    people = np.concatenate((chances, np.zeros(missing))).reshape(-1, _BATCH)
    sums = np.zeros((len(people), _BATCH + 1))
    sums[:, 0] = 1.0
    for chance in people.T[:, :, None]:
        sums[:, 1:] = sums[:, 1:] * (1 - chance) + sums[:, :-1] * chance
        sums[:, :1] *= 1 - chance
    return [trimmed(0, row) for row in sums]


def _sum_of(parts: list[Distribution]) -> Distribution:
    """The sum of all parts, neighbours first."""
    if not parts:
        return Distribution(0, np.ones(1))
    while len(parts) > 1:
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [parts[i].plus(parts[i + 1]) for i in range(0, len(parts) - 1, 2)] + odd
    return parts[0]


def without_one(total: Distribution, chance: float) -> Distribution:
    """What is left of a sum when a person with this chance is taken out.

    f = (1 − p)·g + p·(g shifted by one) is solved for g from below while g's ratios exceed p/(1 − p), and from above after
    that: errors shrink at every step on either side.

    >>> without_one(sum_of_answers([0.5, 0.25]), 0.25).chances.round(9).tolist()
    [0.5, 0.5]
    """
    if chance in {0.0, 1.0}:
        return Distribution(total.first - int(chance), total.chances)
    f, odds = total.chances.tolist(), chance / (1 - chance)
    rising = _from_below(f, 1 - chance, odds)
    falling = _from_below(f[::-1], chance, 1 / odds)[::-1]
    # while f rises faster than the odds, trust the rise; at the lower end, what was left out may have blurred the ratios
    slow = (i for i, (before, after) in enumerate(pairwise(f)) if before > _BLURRED and after <= odds * before)
    turn = next(slow, len(f) - 1)
    return trimmed(total.first, np.array(rising[:turn] + falling[turn:]), _BLURRED)


def _from_below(f: list[float], stay: float, odds: float) -> list[float]:
    """Give g with f[k] = stay·(g[k] + odds·g[k − 1]), one value fewer than f."""
    solved, before = [], 0.0
    for value in f[:-1]:
        before = value / stay - odds * before
        solved.append(before)
    return solved


def tails(rows: Floats) -> Floats:
    """P[S ≥ k] along the last axis, summed from the small end, with a 0 behind the last."""
    summed = np.cumsum(rows[..., ::-1], axis=-1)[..., ::-1]
    closed: Floats = np.concatenate((summed, np.zeros((*rows.shape[:-1], 1))), axis=-1)
    return closed
