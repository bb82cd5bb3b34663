"""Tails of binomial counts, for many counts at once: the basis of intervals and amplification bounds.

P[X = k] comes from Loader's saddle-point form, whose terms are small, so precision holds up for millions of trials; P[X ≥ k]
= I_p(k, n − k + 1) comes from the continued fraction of the incomplete beta function. The relative error of both is below 10⁻⁹
up to 10⁹ trials; callers who need a one-sided bound widen by `WIDENED`.

    >>> round(float(at_least(np.array([9]), 10, 0.5)[0] * 1024), 6)
    11.0
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import InternalError

Floats = npt.NDArray[np.float64]

WIDENED = 1 + 1e-8
_EXACT_BELOW = 32
_MOST_TERMS = 200_000
_TINY = 1e-290


def chance_of(k: Any, n: Any, p: float | Floats) -> Floats:
    """P[Binomial(n, p) = k], 0 < p < 1, for arrays of whole numbers."""
    k, n, p = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (k, n, p)))
    inside = (k > 0) & (k < n)
    j = np.where(inside, k, 1.0)
    m = np.where(inside, n, 2.0)
    exponent = _correction(m) - _correction(j) - _correction(m - j)
    exponent = exponent - _deviance(j, m * p) - _deviance(m - j, m * (1 - p))
    middle = np.exp(exponent) * np.sqrt(m / (2 * math.pi * j * (m - j)))
    ends = np.where(k == 0, np.exp(n * np.log1p(-p)), np.exp(n * np.log(p)))
    return np.where(inside, middle, np.where((k == 0) | (k == n), ends, 0.0))


def _correction(n: Floats) -> Floats:
    """The difference ln n! − ln(√(2πn)(n/e)ⁿ): a table for small n, Stirling's series above."""
    table = np.array(
        [0.0]
        + [math.lgamma(i + 1) - 0.5 * math.log(2 * math.pi * i) - i * math.log(i) + i for i in range(1, _EXACT_BELOW)]
    )
    x = np.maximum(n, _EXACT_BELOW)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * x * x)) / (x * x)) / (x * x)) / x
    return np.where(n < _EXACT_BELOW, table[np.minimum(n, _EXACT_BELOW - 1).astype(np.int64)], series)


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x·ln(x/mean) + mean − x."""
    d = (x - mean) / mean
    # For small d the difference of two nearly equal terms is replaced by its series.
    series = d * d / 2 * (1 - d / 3 * (1 - d / 2 * (1 - 3 * d / 5 * (1 - 2 * d / 3))))
    return mean * np.where(np.abs(d) < 1e-3, series, (1 + d) * np.log1p(d) - d)


def at_least(k: Any, n: Any, p: float | Floats) -> Floats:
    """P[Binomial(n, p) ≥ k], 0 < p < 1, for arrays of whole numbers."""
    k, n, p = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (k, n, p)))
    sure, never = k <= 0, k > n
    k, n, p = (np.where(sure | never, plain, each) for plain, each in ((1.0, k), (1.0, n), (0.5, p)))
    upper = p < (k + 1) / (n + 3)
    # The fraction converges fast on the tail side; the other side is its complement.
    j, x = np.where(upper, k, n - k + 1), np.where(upper, p, 1 - p)
    tail = chance_of(j, n, x) * (1 - x) * _fraction(j, n - j + 1, x)
    return np.where(sure, 1.0, np.where(never, 0.0, np.where(upper, tail, 1 - tail)))


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction of I_x(a, b), from the front (Lentz), until no entry changes."""
    c = np.ones_like(x)
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        value *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        step = c * d
        value *= step
        if np.abs(step - 1).max(initial=0.0) < 1e-12:
            return value
    raise InternalError("the tail of a binomial count did not converge")


def _away_from_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def clopper_pearson(counts: npt.NDArray[np.int64], n: int, alpha: float) -> tuple[Floats, Floats]:
    """Intervals for proportions that miss on either side with probability at most α/2, whatever the true value.

    >>> low, high = clopper_pearson(np.array([0, 5, 10]), 10, 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871, 0.6915], [0.3085, 0.8129, 1.0])
    """
    different, inverse = np.unique(counts, return_inverse=True)
    low = _lower_end(different, n, alpha / 2)
    high = 1 - _lower_end(n - different, n, alpha / 2)
    return low[inverse], high[inverse]


def _lower_end(k: npt.NDArray[np.int64], n: int, alpha: float) -> Floats:
    """The p with P[Binomial(n, p) ≥ k] = α, rounded down: Newton on the logarithm, kept inside a shrinking bracket."""
    count = np.maximum(k, 1).astype(np.float64)
    low, high = np.zeros(len(k)), count / n
    z = -NormalDist().inv_cdf(alpha)
    p = np.clip(count / n - z * np.sqrt(count * np.maximum(n - count, 0.5) / n) / n, high * 1e-3, high * (1 - 1e-9))
    for _ in range(80):
        tail = at_least(count, n, p)
        low, high = np.where(tail <= alpha, p, low), np.where(tail <= alpha, high, p)
        slope = count / p * chance_of(count, n, p)
        with np.errstate(all="ignore"):
            step = p - tail * np.log(tail / alpha) / slope
        inside = np.isfinite(step) & (step > low) & (step < high)
        following = np.where(inside, step, (low + high) / 2)
        if np.all(np.abs(following - p) <= 1e-10 * np.minimum(p, 1 - p)):
            break
        p = following
    p = np.minimum(p, following)
    return np.where(k == 0, 0.0, p - 1e-9 * np.minimum(p, 1 - p))
