"""Where a quantile lies, at a confidence level: noisy counts of the rows between positions around the chosen leaf.

**Rungs.** The positions are on both sides of the chosen leaf: a leaf away, then eight times as far from one to the next, and from
1/128 of the range on twice as far, up to the bounds; between two chosen leaves, up to half way. The rows between neighbouring rungs
are counted, each row once, with discrete Laplace noise. Rungs follow from leaves that are already released. Every bin adds noise to
every test, and the narrow ones seldom hold rows.

**Test.** Of n rows, B lie below a position t. With G = B − p·n and p = k/d, the p-quantile lies at or above t only if
G ≤ 1 − p − 1/d, and below t only if G ≥ 1/d − p: so for PERCENTILE_CONT, which interpolates, and for PERCENTILE_DISC. Noisy G is
(1 − p)·(bins below) − p·(bins above); its noise Z has a known law. The high end of the interval is the lowest rung from which
on every rung has a noisy G above 1 − p − 1/d + s, s the point that Z passes with chance β; else the upper bound. It is too low
only if the last rung at or below the quantile passed, whose noise is then above s: that rung is fixed by the data and by leaves
chosen before, so the chance is at most β, without a union over rungs. The low end likewise. The true quantile is between them
with chance 1 − 2β at least, whatever the data.

**Sampled rows.** If the n rows are a sample, such as one of each owner's, B strays from p·n by √(n·p(1 − p)) at the quantile of all
rows. s and z·√(n·p(1 − p)), the normal point of the same chance, then add up as independent errors do. Noisy n is close enough.

**Law.** Z is a sum of k noises times 1 − p and l noises times p. The point s comes from the saddlepoint r* (Barndorff-Nielsen):
within 1% of the exact one where measured, and half a row is added, as Z is discrete.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.accounting.events import LaplaceNoise
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import noise_standard_deviation
from shoal.mechanisms.noise import draw_noise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from shoal.accounting.events import AdditiveNoise
    from shoal.mechanisms.entropy import Entropy

Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

HALVINGS = 50
NEARLY = 1e-12
DOUBLED_FROM, COARSE = 7, 3
"""Distances double from 1/2⁷ of the range on; nearer to a chosen leaf each is 2³ times the one before."""
DISCRETE = 0.5
"""In rows: the possible error of the saddlepoint for discrete noise."""


@dataclass(frozen=True, slots=True)
class RankBands:
    """Intervals of quantiles, from released numbers alone: positions in [0, 1], of shape (groups, fractions, levels)."""

    fractions: tuple[Fraction, ...]
    levels: tuple[float, ...]
    low: Reals
    high: Reals

    @classmethod
    def around(
        cls, fractions: Sequence[Fraction], levels: Sequence[float], positions: Reals, low: Reals, high: Reals
    ) -> RankBands:
        """Intervals that contain the positions shown, of shape (groups, fractions), whatever the noise."""
        shown = positions[:, :, None]
        return cls(tuple(fractions), tuple(levels), np.minimum(low, shown), np.maximum(high, shown))

    def of(self, fractions: Sequence[Fraction]) -> RankBands:
        """Those of some of the fractions, in this order."""
        known = {fraction: position for position, fraction in enumerate(self.fractions)}
        positions = [known[fraction] for fraction in fractions]
        return RankBands(tuple(fractions), self.levels, self.low[:, positions], self.high[:, positions])

    def at(self, level: float) -> tuple[Reals, Reals] | None:
        """Both ends, (groups, fractions), at the next available level; None above the highest."""
        known = next((number for number, each in enumerate(self.levels) if each >= level - NEARLY), None)
        return None if known is None else (self.low[:, :, known], self.high[:, :, known])


def steps_from(leaves: int) -> Counts:
    """How many leaves away from a chosen one the rungs are.

    >>> steps_from(65536)
    array([    1,     8,    64,   512,  1024,  2048,  4096,  8192, 16384,
           32768, 65536])
    """
    doublings = (leaves - 1).bit_length()
    coarse = max(0, doublings - DOUBLED_FROM)
    return 2 ** np.array([*range(0, coarse, COARSE), *range(coarse, doublings + 1)], dtype=np.int64)


def rungs_around(chosen: Counts, leaves: int) -> Counts:
    """Sorted positions for each row of chosen leaves, from 0 to `leaves`; unneeded ones lie at an end.

    >>> rungs_around(np.array([[4]]), 16)
    array([[ 0,  0,  1,  3,  4,  5,  6,  8, 12, 16]])
    """
    rising = np.sort(chosen, axis=1)
    steps = steps_from(leaves)
    gaps = np.diff(rising, axis=1) // 2
    ends = np.full((len(rising), 1), leaves, dtype=np.int64)
    room_above = np.concatenate([gaps, ends], axis=1)
    room_below = np.concatenate([ends, gaps], axis=1)
    up, down = rising[:, :, None] + steps, rising[:, :, None] + 1 - steps
    up = np.where((steps <= room_above[:, :, None]) | (steps == 1), up, leaves)
    down = np.where((steps <= room_below[:, :, None]) | (steps == 1), down, 0)
    both = np.concatenate([down, up], axis=2).reshape(len(rising), -1)
    return np.sort(np.clip(both, 0, leaves), axis=1)


def noisy_between(rows_before: Counts, noise: LaplaceNoise, rungs: Counts, entropy: Entropy) -> Reals:
    """Rows between neighbouring rungs, with noise where they are apart, from the rows before each of them."""
    exact = np.diff(rows_before, axis=1)
    apart = np.diff(rungs, axis=1) > 0
    noisy = exact.astype(np.float64)
    noisy[apart] += draw_noise(noise, int(apart.sum()), entropy).astype(np.float64)
    return noisy


def bands_of(
    rungs: Counts,
    noisy: Reals,
    noise: LaplaceNoise,
    fractions: Sequence[Fraction],
    levels: Sequence[float],
    *,
    sampled: bool = False,
) -> tuple[Counts, Counts]:
    """Low and high ends in leaves, of shape (groups, fractions, levels); rungs start at 0 and end at the number of leaves."""
    apart = np.diff(rungs, axis=1) > 0
    # The rows before rung i are the bins before it; the outermost rungs are the bounds, which need no test.
    below = np.cumsum(noisy, axis=1)[:, :-1]
    total = noisy.sum(axis=1, keepdims=True)
    bins_below: Counts = np.cumsum(apart, axis=1, dtype=np.int64)[:, :-1]
    bins_above = apart.sum(axis=1, keepdims=True) - bins_below
    inner = rungs[:, 1:-1]
    pairs, which = _different(bins_below, bins_above)
    low, high = (np.zeros((len(rungs), len(fractions), len(levels)), dtype=np.int64) for _ in range(2))
    for position, fraction in enumerate(fractions):
        off = below - float(fraction) * total
        for number, level in enumerate(levels):
            far = noise_points(noise, pairs, float(fraction), (1 - level) / 2)[which]
            if sampled:
                far = np.hypot(far, sampling_points(total, float(fraction), (1 - level) / 2))
            ends_below, starts_above = passed(off, far, float(fraction), 1 / fraction.denominator)
            # Nothing lies below the first rung, and nothing at or above the last one, whatever the noise.
            ends_below = (ends_below & (inner > 0)) | (inner == rungs[:, -1:])
            starts_above = (starts_above & (inner < rungs[:, -1:])) | (inner == 0)
            high[:, position, number] = np.min(np.where(suffix(ends_below), inner, rungs[:, -1:]), axis=1)
            low[:, position, number] = np.max(np.where(prefix(starts_above), inner, 0), axis=1)
    return low, high


def sampling_points(rows: Reals, fraction: float | Reals, chance: float) -> Reals:
    """How far, in rows, the rank of a quantile strays with this chance if this many rows are a sample of all.

    >>> np.round(sampling_points(np.array([[400.0], [-3.0]]), 0.5, 0.025), 1)
    array([[19.6],
           [ 0. ]])
    """
    far: Reals = NormalDist().inv_cdf(1 - chance) * np.sqrt(np.maximum(rows, 0.0) * fraction * (1 - fraction))
    return far


def rows_to_pass(noise: AdditiveNoise, fraction: Fraction, level: float, leaves: int, chosen: int = 1) -> float:
    """Approximately how many rows an interval needs on either side, if chosen leaves are evenly spread: known before data is read.

    >>> from fractions import Fraction
    >>> from shoal.accounting.events import LaplaceNoise, Shift
    >>> round(rows_to_pass(LaplaceNoise(Shift(1), Fraction(5)), Fraction(1, 2), 0.95, 65536), 1)
    31.6
    """
    rungs = rungs_around(leaves * np.arange(1, chosen + 1)[None, :] // (chosen + 1), leaves)
    apart = int((np.diff(rungs, axis=1) > 0).sum())
    below = apart // 2 if chosen == 1 else round(apart * float(fraction))
    pairs = np.array([[below], [apart - below]])
    return float(noise_points(noise, pairs, float(fraction), (1 - level) / 2)[0])


def passed(
    off: Reals, far: Reals, share: float | Reals, step: float | Reals
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether the quantile surely lies below a position, and whether it surely lies at or above it, judged by noisy B − p·n.

    `share` is p = k/d and `step` 1/d.
    """
    above, below = 1 - share - step, step - share
    return off > above + far, off < below - far


def suffix(passing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether all from here on pass."""
    return np.asarray(np.logical_and.accumulate(passing[:, ::-1], axis=1)[:, ::-1])


def prefix(passing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether all up to here pass."""
    return np.asarray(np.logical_and.accumulate(passing, axis=1))


def _different(below: Counts, above: Counts) -> tuple[Counts, Counts]:
    """The distinct pairs of these numbers, and which pair is at each position."""
    most = int(above.max(initial=0)) + 1
    codes, which = np.unique(below * most + above, return_inverse=True)
    return np.stack([codes // most, codes % most]), which.reshape(below.shape)


def noise_points(noise: AdditiveNoise, pairs: Counts, fraction: float | Reals, chance: float) -> Reals:
    """For each pair (k, l) the point that (1 − p)·(a sum of k noises) − p·(a sum of l noises) exceeds with this chance.

    p is one number, or one for each pair.
    """
    if not 0 < chance < 0.5:
        raise InternalError("a tail is less than one half")
    if not noise.shift.l1:
        return np.zeros(pairs.shape[1])
    if isinstance(noise, LaplaceNoise):
        return _saddlepoints(float(noise.scale), pairs.astype(np.float64), fraction, chance) + DISCRETE
    squares = pairs[0] * (1 - fraction) ** 2 + pairs[1] * fraction**2
    far: Reals = NormalDist().inv_cdf(1 - chance) * noise_standard_deviation(noise) * np.sqrt(squares) + DISCRETE
    return far


def _saddlepoints(scale: float, pairs: Reals, fraction: float | Reals, chance: float) -> Reals:
    """The λ at which r* is the normal quantile, by halving; the point is the derivative of the cumulants there.

    >>> np.round(_saddlepoints(5.0, np.array([[1.0], [0.0]]), 0.0, 0.025), 1)
    array([15.1])
    """
    wanted = NormalDist().inv_cdf(1 - chance)
    heaviest = np.maximum(np.where(pairs[0] > 0, 1 - fraction, 0.0), np.where(pairs[1] > 0, fraction, 0.0))
    moving = heaviest > 0
    low = np.zeros(len(heaviest))
    high = np.where(moving, 1 / (scale * np.where(moving, heaviest, 1.0)), 1.0)
    with np.errstate(all="ignore"):
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = _signed_root(scale, pairs, fraction, middle)[1] >= wanted
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        points = _signed_root(scale, pairs, fraction, low)[0]
    return np.where(moving, np.nan_to_num(points), 0.0)


def _signed_root(scale: float, pairs: Reals, fraction: float | Reals, at: Reals) -> tuple[Reals, Reals]:
    """The point whose saddlepoint is λ, and r*, which is approximately normal."""
    logs, points, curves = np.zeros_like(at), np.zeros_like(at), np.zeros_like(at)
    for count, weight in zip(pairs, (1 - fraction, fraction), strict=True):
        left, right = 1 / scale - at * weight, 1 / scale + at * weight
        whole = 2 * math.log(-math.expm1(-1 / scale))
        logs += count * (whole - np.log(-np.expm1(-left)) - np.log(-np.expm1(-right)))
        points += count * weight * (1 / np.expm1(left) - 1 / np.expm1(right))
        curves += count * weight**2 * (1 / np.sinh(left / 2) ** 2 + 1 / np.sinh(right / 2) ** 2) / 4
    root = np.sqrt(np.maximum(2 * (at * points - logs), 0.0))
    refined = root + np.log(at * np.sqrt(curves) / root) / root
    return points, np.where(root > 1e-6, np.nan_to_num(refined, nan=np.inf, posinf=np.inf), 0.0)


def walk_points(
    noise: AdditiveNoise, fractions: Sequence[Fraction], chance: float, branching: int, height: int
) -> list[Reals]:
    """For every level of a tree, the points for all edges that a walk may test there: (fractions, bins below the edge).

    On the way down every level adds the same number of bins on any path. So a few points serve all groups, and are found at once.
    """
    shares = np.array([float(fraction) for fraction in fractions])
    tables: list[Reals] = []
    for level in range(height):
        bins = branching + level * (branching - 1)
        below = np.tile(np.arange(1, bins), len(shares))
        pairs = np.stack([below, bins - below])
        points = np.zeros((len(shares), bins))
        points[:, 1:] = noise_points(noise, pairs, np.repeat(shares, bins - 1), chance).reshape(len(shares), -1)
        tables.append(points)
    return tables


class TreeWalk:
    """The ends of some quantiles of every group, level by level down a tree of noisy counts, at one chance for each end.

    On every level the edges between the children of one node are tested as above; the nodes next to the path are the bins. The
    end continues in the child that the test leaves. It errs only if the edge at or below the quantile (or above it) passes on one
    of the levels: each level has its share of the chance, and that edge is fixed by the data, whatever path the noise takes.

    A node for each fraction of each group, group by group; `points` are `walk_points` of the fractions.
    """

    def __init__(
        self,
        groups: int,
        points: Sequence[Reals],
        fractions: Sequence[Fraction],
        *,
        upper: bool,
        sampled: float | None = None,
    ) -> None:
        """`sampled`: the chance of each end, if rows are a sample."""
        self._points, self._upper, self._level, self._sampled = points, upper, 0, sampled
        self.node = np.repeat(np.arange(groups, dtype=np.int64), len(fractions))
        self._which = np.tile(np.arange(len(fractions)), groups)
        self._share = np.array([float(fraction) for fraction in fractions])[self._which][:, None]
        self._step = np.array([1 / fraction.denominator for fraction in fractions])[self._which][:, None]
        self._below, self._above = np.zeros(len(self.node)), np.zeros(len(self.node))
        self._bins_below = np.zeros(len(self.node), dtype=np.int64)

    def into(self, children: Reals) -> None:
        """One level down, given noisy counts of the children of each node: (nodes, branching)."""
        branching = children.shape[1]
        upto = np.cumsum(children, axis=1)
        below = self._below[:, None] + upto[:, :-1]
        above = self._above[:, None] + upto[:, -1:] - upto[:, :-1]
        far = self._points[self._level][self._which[:, None], self._bins_below[:, None] + np.arange(1, branching)]
        if self._sampled is not None:
            far = np.hypot(far, sampling_points(below + above, self._share, self._sampled))
        off = (1 - self._share) * below - self._share * above
        ends_below, starts_above = passed(off, far, self._share, self._step)
        held = suffix(ends_below) if self._upper else prefix(starts_above)
        child = branching - 1 - held.sum(axis=1) if self._upper else held.sum(axis=1)
        rows = np.arange(len(child))
        self._below += upto[rows, child] - children[rows, child]
        self._above += upto[:, -1] - upto[rows, child]
        self._bins_below += child
        self._level += 1
        self.node = self.node * branching + child
