"""Exact statements about two binomial proportions: tails, Clopper–Pearson bounds, and a joint test of p ≤ e^ε·q + δ.

Everything here is valid for finite samples, with no normal approximation on the side where a false alarm could hide:
tails are sums of exact binomial terms, what a window leaves out is bounded by Bernstein's inequality and added back,
and every tail is widened by one part in a million, which covers the rounding of the logarithms many times over. The
functions that do approximate (`z_scores`, `promised_epsilon`, `detectable_epsilon`) choose what to look at and state
power; no verdict rests on them.

    >>> low = lower_bound(90, 100, alpha=1e-6)
    >>> round(low, 3)
    0.695
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.frozen import dataclass

Floats = NDArray[np.float64]

_LOG_LEFT_OUT = 60.0  # windows keep all but e⁻⁶⁰ of the mass on either side
_LEFT_OUT = math.exp(-_LOG_LEFT_OUT)
_WIDENED = 1.0 + 1e-6
_CELLS = 128  # intervals of q in the joint test
_SMALL = 64  # below it, log k! is summed instead of expanded


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an event was seen: `count` of `samples` runs on a data set, and the same on its neighbour."""

    count: int
    samples: int
    neighbour_count: int
    neighbour_samples: int


def log_factorial(k: Floats) -> Floats:
    """Give ln k! of whole numbers, by Stirling's series above 64 (relative error below 1e-15)."""
    table = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, _SMALL)))))
    x = np.maximum(k, _SMALL) + 1.0
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    small = table[np.minimum(k, _SMALL - 1).astype(np.int64)]
    return np.where(k < _SMALL, small, large)


def _log_choose(k: Floats, n: int) -> Floats:
    return log_factorial(np.float64(n) + np.zeros(1)) - log_factorial(k) - log_factorial(n - k)


def _probabilities(k: Floats, n: int, p: Floats) -> Floats:
    """P[Binomial(n, p) = k]: a row for each p, a column for each k."""
    p = np.clip(p, 1e-300, 1.0 - 1e-16)[:, None]
    terms: Floats = np.exp(_log_choose(k, n)[None, :] + k[None, :] * np.log(p) + (n - k)[None, :] * np.log1p(-p))
    return terms


def _window(n: int, low: float, high: float) -> tuple[int, int]:
    """Whole numbers that Binomial(n, p) leaves with chance at most e⁻⁶⁰ on each side, for every p in [low, high].

    Bernstein: P[X − np ≥ √(2vL) + 2L/3] ≤ e^{−L} for v = np(1 − p).
    """
    variance = n * max(p * (1 - p) for p in (low, high, min(max(0.5, low), high)))
    reach = math.sqrt(2 * variance * _LOG_LEFT_OUT) + 2 * _LOG_LEFT_OUT / 3 + 1
    return max(0, math.floor(n * low - reach)), min(n, math.ceil(n * high + reach))


def tail_at_least(k: int, n: int, p: float) -> float:
    """P[Binomial(n, p) ≥ k], rounded up.

    >>> round(tail_at_least(9, 10, 0.5) * 1024)
    11
    """
    first, last = _window(n, p, p)
    if k <= first:
        return 1.0
    if k > last:
        return _LEFT_OUT
    terms = _probabilities(np.arange(k, last + 1, dtype=np.float64), n, np.array([p]))
    return min(1.0, float(terms.sum()) * _WIDENED + _LEFT_OUT)


def lower_bound(k: int, n: int, alpha: float) -> float:
    """Clopper–Pearson: the true proportion lies below this with chance at most α, whatever it is.

    The largest p found by bisection with P[Binomial(n, p) ≥ k] ≤ α.
    """
    if k == 0:
        return 0.0
    safe, unsafe = 0.0, k / n
    for _ in range(60):
        middle = (safe + unsafe) / 2
        if tail_at_least(k, n, middle) <= alpha:
            safe = middle
        else:
            unsafe = middle
        if unsafe - safe <= 1e-7 * unsafe:
            break
    return safe


def upper_bound(k: int, n: int, alpha: float) -> float:
    """Clopper–Pearson: the true proportion lies above this with chance at most α."""
    if k == n:
        return 1.0
    safe, unsafe = 1.0, k / n
    for _ in range(80):
        middle = (safe + unsafe) / 2
        if tail_at_least(n - k, n, 1.0 - middle) <= alpha:
            safe = middle
        else:
            unsafe = middle
        if safe - unsafe <= 1e-7 * safe:
            break
    return safe


def certified_epsilon(counts: Counts, delta: float, alpha: float) -> float:
    """A lower bound on ln((p − δ)/q), wrong with chance at most α: Clopper–Pearson on both sides, α/2 each."""
    p = lower_bound(counts.count, counts.samples, alpha / 2)
    if p <= delta:
        return 0.0
    q = upper_bound(counts.neighbour_count, counts.neighbour_samples, alpha / 2)
    return max(0.0, math.log((p - delta) / q) - 1e-9)


def promised_epsilon(counts: Counts, delta: float, alpha: float) -> float:
    """About what `certified_epsilon` would give, or a little more; to skip certificates that cannot win."""
    z = quantile(alpha / 2)
    p = counts.count / counts.samples
    excess = p - z * math.sqrt(p * (1 - p) / counts.samples) - delta
    seen = counts.neighbour_count
    q = (seen + z * math.sqrt(seen * (1 - seen / counts.neighbour_samples)) + z * z / 2) / counts.neighbour_samples
    return math.log(excess / q) if excess > 0 else 0.0


def _worst_joint_tail(counts: Counts, slope: float, ratio: float, delta: float, q_range: tuple[float, float]) -> float:
    """The largest P[A ≥ a + s·(B − b)] over q in the range and p ≤ ratio·q + δ, rounded up; s = slope·n/m.

    The range is cut into cells. Within a cell A is stochastically largest at its right end, B smallest at its left
    end, so that pair of ends bounds the whole cell.
    """
    n, m = counts.samples, counts.neighbour_samples
    cells = np.linspace(*q_range, _CELLS + 1)
    q = cells[:-1]
    p = np.minimum(1.0, ratio * cells[1:] + delta)
    b_first, b_last = _window(m, q[0], q[-1])
    b = np.arange(b_first, b_last + 1, dtype=np.float64)
    a_first, a_last = _window(n, p[0], p[-1])
    a = np.arange(a_first, a_last + 1, dtype=np.float64)
    survival = np.cumsum(_probabilities(a, n, p)[:, ::-1], axis=1)[:, ::-1]
    survival = np.hstack((survival, np.zeros((_CELLS, 1)))) + _LEFT_OUT
    needed = np.ceil(counts.count + slope * n / m * (b - counts.neighbour_count) - 1e-6)
    position = np.clip(needed - a_first, 0, len(a)).astype(np.int64)
    tails = (_probabilities(b, m, q) * np.minimum(1.0, survival[:, position])).sum(axis=1) + 2 * _LEFT_OUT
    return float(tails.max()) * _WIDENED


def joint_test_rejects(counts: Counts, epsilon: float, delta: float, alpha: float, *, at: float | None = None) -> bool:
    """Whether the counts refute p ≤ e^at·q + δ (`at` defaults to ε), with chance at most α of refuting what is true.

    The unconditional exact test of A/n − e^ε·B/m: its tail at what was seen, at the worst q. q ranges over its own
    Clopper–Pearson interval, which misses it with chance α/10; the tail must stay below the other 9α/10 (Berger and
    Boos). The statistic keeps the slope e^ε while `at` moves, so that the hypotheses are nested and refuting one
    refutes all smaller.
    """
    share = alpha / 20
    q_low = lower_bound(counts.neighbour_count, counts.neighbour_samples, share)
    q_high = upper_bound(counts.neighbour_count, counts.neighbour_samples, share)
    ratio = math.exp(min(700.0, epsilon if at is None else at))
    if ratio * q_low + delta >= 1.0:
        return False
    tail = _worst_joint_tail(counts, math.exp(min(700.0, epsilon)), ratio, delta, (q_low, q_high))
    return tail <= 0.9 * alpha


def joint_lower_bound(counts: Counts, epsilon: float, delta: float, alpha: float) -> float:
    """The largest ε′ found with p ≤ e^ε′·q + δ refuted at level α; 0 if ε itself is not refuted."""
    if not joint_test_rejects(counts, epsilon, delta, alpha):
        return 0.0
    refuted, open_ = epsilon, epsilon + 0.01
    while open_ < epsilon + 50 and joint_test_rejects(counts, epsilon, delta, alpha, at=open_):
        refuted, open_ = open_, epsilon + 2 * (open_ - epsilon)
    for _ in range(8):
        middle = (refuted + open_) / 2
        if joint_test_rejects(counts, epsilon, delta, alpha, at=middle):
            refuted = middle
        else:
            open_ = middle
    return refuted


def z_scores(count: ArrayLike, n: int, neighbour_count: ArrayLike, m: int, epsilon: float, delta: float) -> Floats:
    """How many standard deviations p̂ − e^ε·q̂ lies above δ; an approximation, to choose what is worth an exact test."""
    p, q = np.asarray(count, dtype=np.float64) / n, np.asarray(neighbour_count, dtype=np.float64) / m
    ratio = math.exp(min(300.0, epsilon))
    scores: Floats = (p - ratio * q - delta) / np.sqrt(_variance(p, n) + ratio**2 * _variance(q, m))
    return scores


def _variance(p: Any, n: int) -> Any:
    """The variance of a proportion, with half an observation added so that it is never 0."""
    shrunk = (p * n + 0.5) / (n + 1.0)
    return shrunk * (1 - shrunk) / n


def quantile(alpha: float) -> float:
    """The z with P[Z ≥ z] = α for a standard normal Z."""
    return -NormalDist().inv_cdf(alpha)


def detectable_epsilon(counts: Counts, epsilon: float, delta: float, alpha: float) -> float:
    """The smallest ε′ > ε a test at level α would catch with 99% chance, were p = e^ε′·q + δ on this event.

    By the normal approximation, with q as seen. Infinite when no p ≤ 1 would be caught.
    """
    z, spare = quantile(alpha), quantile(0.01)
    n, m = counts.samples, counts.neighbour_samples
    q = counts.neighbour_count / m
    if q == 0.0:
        return math.inf
    ratio = math.exp(min(300.0, epsilon))
    cautious = min(0.5, q + z * math.sqrt(q / m) + z * z / m) if q < 0.5 else q
    p = ratio * q + delta
    for _ in range(50):
        if p >= 1.0:
            return math.inf
        spread = math.sqrt(_variance(p, n) + ratio**2 * _variance(cautious, m))
        p = ratio * q + delta + (z + spare) * spread
    return math.log((p - delta) / q) if p < 1.0 else math.inf
