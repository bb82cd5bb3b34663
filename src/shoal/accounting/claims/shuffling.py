"""What a trusted shuffler is worth: reports of others hide which one is mine.

n people run a randomiser that keeps ε₀ on their own; a shuffler forgets who sent what. Replacing one person's value then
moves the distribution of all reports by (ε, δ) with a far smaller ε. The bound is computed, not quoted. Each report of
somebody else looks like one of the victim's two alternatives with chance γ, half of it for either (γ = e^{−ε₀} for any
randomiser, Feldman, McMillan and Talwar; 2/(e^{ε₀} + 1) for binary randomized response). Let C ~ Bin(n − 1, γ) count such
clones, A ~ Bin(C, ½) those of the first kind, and let the victim join her own side with chance β = e^{ε₀}/(e^{ε₀} + 1). Then

    δ(ε) = Σ_c P[C = c]·(P_c − e^ε·Q_c)₊ ,  P_c of (A + Δ, C − A + 1 − Δ), Δ ~ β,  Q_c of the same with 1 − β.

The likelihood ratio grows in A + Δ, so (·)₊ is a tail sum from a threshold on. One more clone is post-processing, so the
c-th term falls in c: what a block of clones is replaced by, its smallest number, only raises δ. Clones below the window
count with 1. Everything is rounded up.

    >>> round(shuffled_epsilon(1.0, 10_000, 1e-6), 4)
    0.053
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from shoal.mechanisms.binomial import WIDENED, at_least, chance_of

Floats = npt.NDArray[np.float64]

MOST_BLOCKS = 4096
LOG_LEFT_OUT = 80.0
"""The window of clones leaves out at most e⁻⁸⁰ below, which is added to δ."""


def clone_chance(local_epsilon: float, *, binary: bool = False) -> float:
    """γ: how often a report of somebody else looks like one of the victim's alternatives."""
    return 2 / (math.exp(local_epsilon) + 1) if binary else math.exp(-local_epsilon)


def shuffled_delta(epsilon: float, local_epsilon: float, n: int, *, binary: bool = False) -> float:
    """δ(ε), rounded up, for n reports that keep ε₀ each."""
    clones, masses, missed = _clones(n - 1, clone_chance(local_epsilon, binary=binary))
    terms = masses * _terms(clones, epsilon, local_epsilon)
    return float(terms.sum()) * WIDENED + missed


def shuffled_epsilon(local_epsilon: float, n: int, delta: float, *, binary: bool = False) -> float:
    """The smallest ε found with δ(ε) ≤ δ, rounded up; never above ε₀."""
    if delta <= 0 or n < 2:
        return local_epsilon
    low, high = 0.0, local_epsilon
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        if shuffled_delta(middle, local_epsilon, n, binary=binary) <= delta:
            high = middle
        else:
            low = middle
    return high


def _terms(clones: Floats, epsilon: float, local_epsilon: float) -> Floats:
    """(P_c − e^ε·Q_c)₊ for each number of clones."""
    own, other = 1 / (1 + math.exp(-local_epsilon)), 1 / (1 + math.exp(local_epsilon))
    ratio = math.exp(epsilon)
    share = (ratio * own - other) / ((own - other) * (1 + ratio))
    threshold = np.floor((clones + 1) * share) + 1
    tail = at_least(threshold, clones, 0.5)
    edge = chance_of(threshold - 1, clones, 0.5)
    edge = np.where(threshold - 1 > clones, 0.0, edge)
    # Both are known to one part in a billion; what is left of their difference may be known less well.
    return np.maximum(0.0, edge * (1 + 1e-9) * (own - ratio * other) - tail * (1 - 1e-9) * (ratio - 1))


@lru_cache(maxsize=8)
def _clones(others: int, chance: float) -> tuple[Floats, Floats, float]:
    """Numbers of clones, the mass each stands for, and the mass below all of them.

    The window goes √(2·v·L) + L beyond the mean on either side (Bernstein), v the variance: what lies below has at most e^{−L}.
    What lies above is counted with the largest number in the window, which can only raise the sum.
    """
    variance = others * chance * (1 - chance)
    reach = math.sqrt(2 * variance * LOG_LEFT_OUT) + LOG_LEFT_OUT
    first, last = max(0, math.floor(others * chance - reach)), min(others, math.ceil(others * chance + reach))
    step = -(-(last - first + 1) // MOST_BLOCKS)
    every = np.arange(first, last + 1, dtype=np.float64)
    masses = chance_of(every, others, chance)
    starts = np.arange(0, len(every), step)
    blocks = np.add.reduceat(masses, starts) * WIDENED
    blocks[-1] += math.exp(-LOG_LEFT_OUT)
    missed = math.exp(-LOG_LEFT_OUT) if first > 0 else 0.0
    return every[starts], blocks, missed
