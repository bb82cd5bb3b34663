"""Limits on what one owner adds, read off noisy histograms with one bin per owner. Everything here is post-processing.

**Reading.** With b the noise's scale and B bins, a bin stands out from t = b·ln(10·B) (5% chance of any false one). Up to the
highest bin that does, counts are believed, negative ones as 0; above it a count is at most 0.3 of the one before. A second,
pessimistic reading lets the tail fall more slowly; intervals use it.

**Choice.** How large groups are nobody knows, so the limits with the least largest regret over sizes m are taken. For groups of
m owners with r̄ rows each, R the share that limits keep, σ the noise of step two per unit of U, p the chance to be shown:
L² = p·[(m·r̄·(1 − R))² + (U·σ)²] + (1 − p)·(m·r̄)².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

FALL = 0.3
"""How fast counts fall, at least, beyond the last bin that stands out."""
HALF_AN_OWNER = 0.5
"""Fewer than this are nobody: otherwise every octave up to the last would add as much as the one before."""
FALSE_BINS = 10
"""How many times less likely a false bin is that stands alone."""
SIZES = 10
ROW_WEIGHT = 0.1
"""What of a quantile's rank, or of a variance, is taken to be wrong where all rows beyond the limit are heavy owners'."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Owners per bin: believed, and pessimistic; `middles` is what a bin stands for. Without a bin that stands out: not found."""

    middles: NDArray[np.float64]
    owners: NDArray[np.float64]
    pessimistic: NDArray[np.float64]
    found: bool

    @property
    def total(self) -> float:
        """About how many owners there are."""
        return float(self.owners.sum())

    @property
    def mean(self) -> float:
        """What an owner has on average."""
        return float(self.owners @ self.middles) / max(self.total, 1e-9)

    def kept(self, limit: float, *, pessimistic: bool = False) -> float:
        """Which share of everything lies within a limit."""
        owners = self.pessimistic if pessimistic else self.owners
        whole = float(owners @ self.middles)
        return float(owners @ np.minimum(self.middles, limit)) / whole if whole > 0 else 1.0


def middles_of(edges: Sequence[float], *, whole: bool) -> NDArray[np.float64]:
    """What bins (previous, edge] stand for: the middle of their whole numbers, or three quarters of the edge."""
    upper = np.array([*edges, 1.5 * edges[-1]])
    lower = np.concatenate([[0.0], np.array(edges, dtype=np.float64)])
    if not whole:
        return np.concatenate([0.75 * upper[:-1], upper[-1:]])
    return np.concatenate([(lower[:-1] + 1 + upper[:-1]) / 2, upper[-1:]])


def read_histogram(counts: Sequence[float], scale: float, middles: NDArray[np.float64], *, slow: float) -> Reading:
    """The two readings of noisy counts; `slow` is how fast the tail falls in the pessimistic one."""
    noisy = np.array(counts, dtype=np.float64)
    high = _standing_out(noisy, scale)
    if not len(high):
        return Reading(middles, np.zeros(len(noisy)), np.zeros(len(noisy)), found=False)
    believed, pessimistic = np.maximum(noisy, 0.0), np.maximum(noisy, 0.0)
    for place in range(int(high[-1]) + 1, len(noisy)):
        believed[place] = min(believed[place], FALL * believed[place - 1])
        feared = min(pessimistic[place] + scale, slow * pessimistic[place - 1])
        pessimistic[place] = feared if feared >= HALF_AN_OWNER else 0.0
    return Reading(middles, believed, pessimistic, found=True)


def _standing_out(noisy: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Bins above the threshold; one without another near below it, which is likely to be noise, must be well above."""
    above = noisy >= scale * math.log(10 * len(noisy))
    near = np.array([above[max(0, place - 2) : place].any() for place in range(len(noisy))])
    well_above = noisy >= scale * math.log(10 * FALSE_BINS * len(noisy))
    return np.flatnonzero(above & (near | well_above)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class GroupOption:
    """Step two for one κ: how likely a group of this many owners is shown, and how many it needs for an even chance."""

    groups: int
    keep: Callable[[float], float]
    even_chance: float


@dataclass(frozen=True, slots=True)
class Target:
    """One aggregate to be limited: candidates, how owners lie, and the noise of step two per unit of the limit, for each κ.

    `additive` aggregates lose what lies beyond the limit; ratios, quantiles and variances lose accuracy alone.
    `domain` is the number of different values there can be, where x of COUNT(DISTINCT x) has a public one.
    """

    candidates: tuple[float, ...]
    reading: Reading | None
    sigmas: tuple[float, ...]
    additive: bool = True
    distinct: bool = False
    domain: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the options, and which candidate of each target."""

    option: int
    limits: tuple[float, ...]


def choose(options: Sequence[GroupOption], groups: Reading | None, targets: Sequence[Target], owners: float) -> Choice:
    """The least largest regret over sizes of groups, the same κ for all targets; `owners` is about how many there are."""
    kept = np.array([1.0 if groups is None else groups.kept(option.groups) for option in options])
    sizes = _sizes(options[0].even_chance, owners)
    shown = np.array([[option.keep(size * k) for size in sizes] for option, k in zip(options, kept, strict=True)])
    if len(options) == 1 and len(sizes) == 1:
        shown = np.ones_like(shown)
    regrets = [_regret(_losses(target, kept, sizes, shown)) for target in targets]
    worst = np.max([regret.min(axis=1) for regret in regrets], axis=0) if regrets else np.zeros(len(options))
    best = int(np.argmin(worst))
    return Choice(best, tuple(t.candidates[int(np.argmin(r[best]))] for t, r in zip(targets, regrets, strict=True)))


def _sizes(even_chance: float, owners: float) -> NDArray[np.float64]:
    """Sizes of groups, from those that just appear to all owners; one size where there is one group."""
    if even_chance <= 0:
        return np.array([max(owners, 1.0)])
    return np.geomspace(even_chance, max(owners, even_chance), SIZES)


def _regret(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """(options, candidates, sizes) → the largest ratio to the best of all, over sizes."""
    best = losses.reshape(-1, losses.shape[2]).min(axis=0)
    ratios: NDArray[np.float64] = (losses / np.maximum(best, 1e-300)).max(axis=2)
    return ratios


def _losses(
    target: Target, kept: NDArray[np.float64], sizes: NDArray[np.float64], shown: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The expected error of (option, candidate, size)."""
    limits = np.array(target.candidates)
    reading = target.reading
    mean = 1.0 if reading is None else max(reading.mean, 1e-9)
    within = np.array([1.0 if reading is None else reading.kept(limit) for limit in limits])
    noise = limits[None, :] * np.array(target.sigmas)[:, None]
    if not target.additive:
        return _ratio_losses(reading, limits, within, kept, noise, sizes, shown)
    lost = 1 - kept[:, None] * within[None, :]
    pairs = sizes * mean
    # A value that several owners bring is lost when all of them drop it.
    shared = np.maximum(1.0, pairs / (2 * target.domain)) if target.distinct and target.domain else np.ones(len(sizes))
    whole = pairs / shared
    squared = (whole * lost[:, :, None] ** shared) ** 2 + noise[:, :, None] ** 2
    p = shown[:, None, :]
    losses: NDArray[np.float64] = np.sqrt(p * squared + (1 - p) * whole**2)
    return losses


def _ratio_losses(
    reading: Reading | None,
    limits: NDArray[np.float64],
    within: NDArray[np.float64],
    kept: NDArray[np.float64],
    noise: NDArray[np.float64],
    sizes: NDArray[np.float64],
    shown: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Noise relative to the rows that are kept, and a part of those that are not; nothing shown is wrong altogether."""
    rows = np.ones(len(limits)) if reading is None else np.array([reading.mean * w for w in within])
    counted = sizes[None, None, :] * kept[:, None, None] * rows[None, :, None]
    squared = np.minimum(noise[:, :, None] / counted, 1.0) ** 2 + (ROW_WEIGHT * (1 - within))[None, :, None] ** 2
    p = shown[:, None, :]
    losses: NDArray[np.float64] = np.sqrt(p * squared + (1 - p))
    return losses
