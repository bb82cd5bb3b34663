"""Limits on one owner's contribution, read off noisy histograms with one bin per owner. Everything here is post-processing.

**Reading.** With noise scale b and B bins, a bin stands out from t = b·ln(10·B) (5% chance of any false one); one far beyond the
last that stands out needs more, because its error would be larger, and up to five neighbours may stand out together. Up to the
highest such bin, counts are believed, negative ones as 0; above it only the excess over 2b is (b/2 for rows and sums, nothing where
the tail is heavy), and at most 0.3 of the bin before.
A second, pessimistic reading lets the tail fall more slowly; intervals use it.

**Tails.** Where each octave has half as many owners as the one before (a tail like 1/x), each holds as many rows, and what lies
beyond the last bin that stands out may be as much as what is seen. How slowly the last bins that stand out fall says how much
weight the pessimistic reading has; it goes on beyond the last edge, octave by octave, down to half an owner.

**Choice.** Group sizes are unknown, so the limits with the smallest maximum regret over sizes m are taken. For groups of
m owners with r̄ rows each, R the share that limits keep, σ the noise of step two per unit of U, p the chance of being shown:
L² = p·[(m·r̄·(1 − R))² + (U·σ)²] + (1 − p)·(m·r̄)².
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import log_sum_tail, sum_tail_point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

FALL = 0.3
"""The slowest rate at which counts fall beyond the last bin that stands out."""
HALF_AN_OWNER = 0.5
"""Fewer owners than this count as none: otherwise every octave up to the last would add as much as the one before."""
NEIGHBOURS = (2, 3, 4, 5)
"""How many neighbouring bins may stand out together."""
WIDEST = 10
"""The same of owners' sums, where none stands out or one that noise may have filled."""
SELDOM = math.log(1e-3)
"""Neighbours that noise fills more seldom, and that hold more owners than what stands out, are owners."""
NEAR = 2
"""Bins this close behind the last one that stands out need no more than any bin."""
UNSEEN = 2.0
"""In noise scales: for groups per owner, only counts above this are believed beyond the last bin that stands out. There a limit
that is one too large costs as much as half of ε; for rows and sums, cutting too much costs more than a limit that is too large."""
LIGHT = 0.5
"""The same for rows and sums whose visible part falls off: what noise fills beyond it makes a limit too large for nothing."""
HIDDEN = 2.0
"""How many noise scales beyond the first may hide in a bin, if counts do not fall off."""
OCTAVES_BEYOND = 8
"""Beyond the last edge, in the pessimistic reading: each has as many times fewer owners as bins before it."""
OCTAVE = 0.5
"""How fast a tail like 1/x falls from one octave to the next."""
SLOWEST_OCTAVE = 0.55
"""How slowly a tail may be feared to fall if what is seen of it falls no faster: every octave then holds a tenth more."""
CHANCE = 1.75
"""Standard deviations of what a heavy tail holds by chance: two of all refunds of a shop may be a third of them."""
SURE_OF_FALL = 1.0
"""Standard deviations of noise that the last two bins must exceed what a light tail would leave there."""
SURELY = 1000
"""A bin that noise fills only once in a thousand histograms counts as certainly filled."""
SIZES = 10
LEAST_OF_AVERAGE = 0.25
"""The smallest group to reckon with, as a part of the average group: of all owners, each in so many of so many possible groups."""
ROW_WEIGHT, SHARE_WEIGHT = 0.1, 0.03
"""The assumed error of a quantile's rank, or of a variance, if all rows beyond the limit belong to heavy owners; and of a share.
Shares of owners with many rows are much like those of others, and where a share is small, noise is what hides it."""


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """Owners per bin: believed and pessimistic; `middles` are the bins' representative values. If no bin stands out: not found."""

    middles: NDArray[np.float64]
    owners: NDArray[np.float64]
    pessimistic: NDArray[np.float64]
    found: bool
    with_tail: NDArray[np.float64] | None = None
    """Believed counts, plus any non-negative ones beyond the last bin that stands out: ignored by choices, used by intervals."""
    heaviness: float = 0.0
    """How far visible counts fail to fall off: 0 if they do, 1 if nothing suggests they ever will."""
    certain: float = 0.0
    """The representative value of the highest bin that is certainly filled."""
    top: int = -1
    """The highest bin that stands out."""
    standing: float = 0.0
    """The noisy owners of all bins that stand out."""
    chance: float = 0.0
    """The logarithm of how often noise alone fills the bins that stand out as much."""
    sides: tuple[HistogramReading, HistogramReading] | None = None
    """Owners with positive and with negative sums, if these were counted separately."""

    @property
    def total(self) -> float:
        """Approximately how many owners there are."""
        return float(self.owners.sum())

    @property
    def mass(self) -> float:
        """The total over all owners."""
        return float(self.owners @ self.middles)

    @property
    def mean(self) -> float:
        """The average per owner."""
        return float(self.owners @ self.middles) / max(self.total, 1e-9)

    def kept(self, limit: float, *, pessimistic: bool = False, with_tail: bool = False) -> float:
        """The share of the total that lies within a limit."""
        owners = self.pessimistic if pessimistic else self.owners
        if with_tail and self.with_tail is not None:
            owners = self.with_tail
        whole = float(owners @ self.middles)
        return float(owners @ np.minimum(self.middles, limit)) / whole if whole > 0 else 1.0


def middles_of(edges: Sequence[float], *, whole: bool) -> NDArray[np.float64]:
    """Representative values of bins (previous, edge]: the middle of their whole numbers, or three quarters of the edge."""
    upper = np.array([*edges, 1.5 * edges[-1]])
    lower = np.concatenate([[0.0], np.array(edges, dtype=np.float64)])
    if not whole:
        return np.concatenate([0.75 * upper[:-1], upper[-1:]])
    return np.concatenate([(lower[:-1] + 1 + upper[:-1]) / 2, upper[-1:]])


def read_histogram(
    counts: Sequence[float],
    scale: float,
    middles: NDArray[np.float64],
    *,
    slow: float,
    unseen: float = UNSEEN,
    beyond: int = 0,
    whole: Sequence[float] | None = None,
    one_total: bool = False,
    wide: bool = False,
) -> HistogramReading:
    """The two readings of noisy counts; `slow` is how fast the pessimistic tail falls, `unseen` how much of it may be noise.

    `beyond`: how many octaves may be filled beyond the last edge. `whole`: the counts of everybody, if these are a part that may
    be empty. Where most owners are is read off the whole, and what noise fills far from there is not believed.
    `one_total`: all owners are summed, so that a few of them may decide. `wide`: for owners who are spread over many bins, none
    of which need stand out.
    """
    noisy = np.array(counts, dtype=np.float64)
    middles = np.concatenate([middles, middles[-1] * 2.0 ** np.arange(1, beyond + 1)])
    everybody = noisy if whole is None else np.array(whole, dtype=np.float64)
    high = _widest(noisy, scale) if wide else _standing_out(noisy, scale, middles, everybody)
    if not len(high):
        return nothing_found(middles)
    top = int(high[-1])
    heaviness = 1.0 if beyond and top == len(noisy) - 1 else heaviness_of(noisy, top, slow, math.sqrt(2) * scale)
    noise = scale * max(unseen, LIGHT * (1 - heaviness))
    believed, tail = (np.concatenate([np.maximum(noisy, 0.0), np.zeros(beyond)]) for _ in range(2))
    for position in range(top + 1, len(noisy)):
        tail[position] = min(tail[position], FALL * tail[position - 1])
        believed[position] = min(max(believed[position] - noise, 0.0), FALL * believed[position - 1])
    feared = _feared(np.maximum(noisy, 0.0), top, scale, slow, heaviness, middles)
    sure = np.flatnonzero(noisy >= scale * math.log(SURELY * len(noisy)))
    return HistogramReading(
        middles,
        believed,
        _with_chance(feared, top, middles, heaviness) if one_total else feared,
        found=True,
        with_tail=tail,
        heaviness=heaviness,
        certain=float(middles[sure[-1]]) if len(sure) else 0.0,
        top=top,
        standing=float(noisy[high].sum()),
        chance=_by_chance(float(noisy[high].sum()), len(high), scale),
    )


def nothing_found(middles: NDArray[np.float64]) -> HistogramReading:
    """What is read if no bin stands out."""
    return HistogramReading(middles, np.zeros(len(middles)), np.zeros(len(middles)), found=False)


def overlooks(counts: Sequence[float], scale: float, reading: HistogramReading, top: int) -> bool:
    """Whether noise fills neighbours above `top`, none of which stands out, less often than all that the reading goes by.

    Also if it does so seldom, and they hold more owners: one bin that noise has filled is far less than owners spread over ten.
    """
    return any(
        run.chance < reading.chance or (run.chance < SELDOM and run.owners > reading.standing)
        for run in _runs(counts[top + 1 :], scale)
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring bins: of all runs of this length, the one with most owners."""

    first: int
    width: int
    owners: float
    chance: float
    """The logarithm of how often noise alone fills them as much."""


def _runs(counts: Sequence[float] | NDArray[np.float64], scale: float) -> Iterator[_Run]:
    for width in range(1, min(WIDEST, len(counts)) + 1):
        sums = np.convolve(counts, np.ones(width), mode="valid")
        first = int(np.argmax(sums))
        yield _Run(first, width, float(sums[first]), _by_chance(float(sums[first]), width, scale))


def _by_chance(owners: float, bins: int, scale: float) -> float:
    """The logarithm of how often noise alone puts so many owners into so many bins."""
    if owners <= 0:
        return 0.0
    return log_sum_tail(bins, owners / scale) if scale > 0 else -math.inf


def heaviness_of(noisy: NDArray[np.float64], top: int, slow: float, deviation: float) -> float:
    """How slowly the last bins that stand out fall, relative to a 1/x tail (`slow`); a tail begins two bins after the largest.

    What noise of this standard deviation per bin may have added does not count: bins that barely stand out say little about a tail.
    """
    largest = int(np.argmax(noisy))
    bins = min(2, top - largest)
    if bins < 2:
        return 0.0
    seen = np.maximum(noisy, 0.0)
    last_two = float(seen[top - 1 : top + 1].sum())
    fall = _fall(seen, top) * max(0.0, 1 - SURE_OF_FALL * math.sqrt(2) * deviation / max(last_two, 1e-9))
    # A few owners invented by noise fall off slowly among themselves, but not from the largest bin on.
    overall: float = (float(seen[top]) / max(float(seen[largest]), 1e-9)) ** (1 / (top - largest))
    slowly = min(max((min(fall, 1.6 * overall) / slow - 0.6) / 0.5, 0.0), 1.0)
    return slowly * min((top - largest - 1) / 2, 1.0)


def _fall(seen: NDArray[np.float64], top: int) -> float:
    """How much of a bin is left in the next one, over the last two that stand out."""
    return float(seen[top - 1 : top + 1].sum()) / max(float(seen[top - 2 : top].sum()), 1e-9)


def _feared(
    counts: NDArray[np.float64],
    top: int,
    scale: float,
    slow: float,
    heaviness: float,
    middles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Owners per bin, in the worst case that the counts do not exclude and that falls off at all.

    A bin far out that noise alone may have filled is not feared: one that represents c needs ln(c/a) more noise scales, if the
    last bin that stands out represents a. Then false bins add about the same to what is feared, wherever they are.
    """
    last, beyond = len(counts) - 1, len(middles) - len(counts)
    if slow == OCTAVE and heaviness >= 1:
        slow = min(max(slow, _fall(counts, top)), SLOWEST_OCTAVE)
    feared = np.concatenate([counts, np.zeros(beyond)])
    if top == last and beyond:
        falling = min(slow, OCTAVE) ** np.arange(beyond + 1)
        feared[last:] = counts[last] * falling / falling.sum()
    for position in range(top + 1, len(feared)):
        falls = (slow if position <= last else min(slow, OCTAVE)) * feared[position - 1]
        if position <= last:
            seen = counts[position] + (1 + HIDDEN * heaviness) * scale
            alone = scale * (math.log(10 * len(counts)) + math.log(middles[position] / middles[top]))
            falls = seen if counts[position] >= alone else min(seen, falls)
        feared[position] = falls if falls >= HALF_AN_OWNER else 0.0
    return feared


def _with_chance(
    feared: NDArray[np.float64], top: int, middles: NDArray[np.float64], heaviness: float
) -> NDArray[np.float64]:
    """The same with what chance adds to a heavy tail: how many owners are far out varies as a Poisson number does.

    With f owners of size c in each bin beyond the last that stands out, their sum varies by √Σf·c². It is dominated by the last
    bin that may hold anybody, and is added there.
    """
    beyond = np.flatnonzero(feared[top + 1 :]) + top + 1
    if not heaviness or not len(beyond):
        return feared
    spread = math.sqrt(float(feared[beyond] @ middles[beyond] ** 2))
    feared[beyond[-1]] += CHANCE * heaviness**2 * spread / middles[beyond[-1]]
    return feared


def _standing_out(
    noisy: NDArray[np.float64], scale: float, middles: NDArray[np.float64], whole: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Bins that noise alone is unlikely to have filled, by themselves or together with neighbours.

    Noise that fills a bin far out makes the limit far too large: if the last bin that stands out represents a and the next one c,
    the accepted chance falls by (a/c)², so false bins add about the same to the error wherever they are.
    """
    if scale <= 0:
        return np.flatnonzero(noisy > 0).astype(np.int64)
    _, surest = min(_surest(noisy, scale), _surest(whole, math.sqrt(2) * scale))
    found: set[int] = set()
    for position in range(len(noisy)):
        further = 0.0
        if position > surest:
            last = max((p for p in found if p < position), default=surest)
            further = 0.0 if position - last <= NEAR else 2 * math.log(middles[position] / middles[last])
        if noisy[position] >= scale * (math.log(10 * len(noisy)) + further):
            found.add(position)
        else:
            found |= _together(noisy, position, scale, further)
    return np.array(sorted(found), dtype=np.int64)


def _widest(noisy: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """The neighbours that are least likely to be noise, if noise alone is unlikely to fill any as much; empty if not."""
    run = min(_runs(noisy, scale), key=lambda run: run.chance)
    if run.chance > -math.log(20 * WIDEST * len(noisy)):
        return np.array([], dtype=np.int64)
    return run.first + np.flatnonzero(noisy[run.first : run.first + run.width] > 0).astype(np.int64)


def _surest(noisy: NDArray[np.float64], scale: float) -> tuple[float, int]:
    """How likely noise is to fill those neighbours that it fills least likely, and the largest of them.

    A few owners are spread over several bins, and noise fills one. Of few bins, it is the largest of the three that hold most.
    """
    if len(noisy) <= 2 * WIDEST:
        first = max(int(np.argmax(np.convolve(noisy, np.ones(3), mode="same"))) - 1, 0)
        return 0.0, first + int(np.argmax(noisy[first : first + 3]))
    run = min(_runs(noisy, scale), key=lambda run: run.chance)
    return run.chance, run.first + int(np.argmax(noisy[run.first : run.first + run.width]))


def _together(noisy: NDArray[np.float64], position: int, scale: float, further: float) -> set[int]:
    """The shortest run of bins, starting at a non-empty one, that stands out although none of its bins does; empty if none."""
    chance = math.exp(-further) / (20 * len(NEIGHBOURS) * len(noisy))
    for width in NEIGHBOURS if noisy[position] > 0 else ():
        run = noisy[position : position + width]
        if len(run) < width or run.max() >= scale * math.log(10 * len(noisy)):
            break
        if run.sum() >= sum_tail_point(scale, width, chance):
            return {position + int(at) for at in np.flatnonzero(run > 0)}
    return set()


@dataclass(frozen=True, slots=True)
class GroupOption:
    """Step two for one κ: how likely a group of this many owners is to be shown, and how many it needs for an even chance."""

    groups: int
    keep: Callable[[float], float]
    even_chance: float
    listed: bool = False
    """Whether groups are public, and all of them are shown."""


@dataclass(frozen=True, slots=True)
class Target:
    """One aggregate to limit: candidates, the distribution of owners, and the noise of step two per unit of the limit, for each κ.

    `additive` aggregates lose what lies beyond the limit; ratios, quantiles and variances lose only accuracy.
    `domain` is the number of possible distinct values, if x in COUNT(DISTINCT x) has a public domain.
    """

    candidates: tuple[float, ...]
    reading: HistogramReading | None
    sigmas: tuple[float, ...]
    additive: bool = True
    distinct: bool = False
    domain: int | None = None
    groups: float = 1.0
    """How many groups an owner's contribution is spread over, if the limit applies to all of them together."""
    row_weight: float = ROW_WEIGHT
    """For what is not additive: the error if all rows are beyond the limit."""
    all_groups: bool = False
    """Whether few listed groups share all owners: then groups are large."""
    feared: float = 0.0
    """The weight of the pessimistic reading."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the options, and which candidate of each target."""

    option: int
    limits: tuple[float, ...]


def choose(
    options: Sequence[GroupOption], groups: HistogramReading | None, targets: Sequence[Target], owners: float
) -> Choice:
    """The smallest maximum regret over group sizes, with the same κ for all targets; `owners` is roughly how many there are."""
    kept = np.array([1.0 if groups is None else groups.kept(option.groups) for option in options])
    smallest = max(options[0].even_chance, LEAST_OF_AVERAGE * owners * _share_of_groups(options, groups, targets))
    sizes = _sizes(smallest, owners)
    shown = np.array([[option.keep(size * k) for size in sizes] for option, k in zip(options, kept, strict=True)])
    if len(options) == 1 and len(sizes) == 1:
        shown = np.ones_like(shown)
    regrets = [_regret(_losses(target, kept, sizes, shown)) for target in targets]
    worst = np.max([regret.min(axis=1) for regret in regrets], axis=0) if regrets else np.zeros(len(options))
    best = int(np.argmin(worst))
    return Choice(best, tuple(t.candidates[int(np.argmin(r[best]))] for t, r in zip(targets, regrets, strict=True)))


def _share_of_groups(
    options: Sequence[GroupOption], groups: HistogramReading | None, targets: Sequence[Target]
) -> float:
    """About which part of all owners an average listed group has; 0 if nothing says so.

    If an owner is in k groups and there are G of them, it is k/G. Those who are in most groups tell how many there are, at least;
    if nearly everybody is in one group they tell nothing.
    """
    if groups is None or not groups.found:
        return 1.0 if any(target.all_groups for target in targets) else 0.0
    if not all(option.listed for option in options):
        return 0.0
    most = float(groups.middles[np.flatnonzero(groups.owners)[-1]])
    most = min(most, max(option.groups for option in options))
    return max(min((groups.mean - 1) / (most - 1), 1.0), 0.0) if most > 1 else 0.0


def _sizes(even_chance: float, owners: float) -> NDArray[np.float64]:
    """Group sizes, from those that just appear up to all owners; one size if there is one group."""
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
    within = np.array([1.0 if reading is None else _kept_of(reading, limit, target.feared) for limit in limits])
    noise = limits[None, :] * np.array(target.sigmas)[:, None]
    if not target.additive:
        return _ratio_losses(target, within, kept, noise, sizes, shown)
    lost = 1 - kept[:, None] * within[None, :]
    pairs = sizes * mean / target.groups
    # A value that several owners bring is lost when all of them drop it.
    shared = np.maximum(1.0, pairs / (2 * target.domain)) if target.distinct and target.domain else np.ones(len(sizes))
    whole = pairs / shared
    squared = (whole * lost[:, :, None] ** shared) ** 2 + noise[:, :, None] ** 2
    p = shown[:, None, :]
    losses: NDArray[np.float64] = np.sqrt(p * squared + (1 - p) * whole**2)
    return losses


def _kept_of(reading: HistogramReading, limit: float, feared: float) -> float:
    """The share within a limit: what is believed, and for a part what is feared."""
    return (1 - feared) * reading.kept(limit) + feared * reading.kept(limit, pessimistic=True)


def _ratio_losses(
    target: Target,
    within: NDArray[np.float64],
    kept: NDArray[np.float64],
    noise: NDArray[np.float64],
    sizes: NDArray[np.float64],
    shown: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Noise relative to the rows kept, plus part of those cut; if nothing is shown, the error is total."""
    mean = 1.0 if target.reading is None else target.reading.mean
    rows = mean * within
    counted = sizes[None, None, :] * kept[:, None, None] * rows[None, :, None]
    squared = np.minimum(noise[:, :, None] / counted, 1.0) ** 2 + (target.row_weight * (1 - within))[None, :, None] ** 2
    p = shown[:, None, :]
    losses: NDArray[np.float64] = np.sqrt(p * squared + (1 - p))
    return losses
