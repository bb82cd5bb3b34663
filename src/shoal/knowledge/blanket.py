"""The blanket: what is left when the attacker is shown everything but fair coins.

Whoever says yes with a chance in [λ, 1 − λ] answers, with chance 2λ, by a fair coin. Show the attacker who did not, and their
answers. M ~ Bin(m, 2λ) coins are left, the count of heads is B_M ~ Bin(M, ½), and

    δ(ε) = Σ_M P[Bin(m, 2λ) = M]·D(M),    D(M) = max_k P[B_M ≥ k − r] − e^ε·P[B_M ≥ k].

The same holds for histograms of any number of options that everybody chooses with a chance of at least λ: the coins are those
between the two options in question. D falls with M, and every step of the fall is a positive term that is known in closed form:

    D(M, k) − D(M + 1, k + 1) = ½·(P[B_M = k − r] − e^ε·P[B_M = k])
    D(M, k) − D(M + 1, k)     = ½·(e^ε·P[B_M = k − 1] − P[B_M = k − 1 − r])

so D is summed from the largest M down, without a subtraction. Coins with another chance p work alike (1 − p and p for ½).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shoal.frozen import dataclass
from shoal.knowledge.distributions import Floats, binomial, binomial_chances

Whole = NDArray[np.int64]

_RARE = 1e-45


@dataclass(frozen=True)
class Blanket:
    """The blanket of `unknown` people who keep a chance of at least `uncertainty` for either answer."""

    unknown: int
    uncertainty: float
    shift: int = 1

    @property
    def smallest(self) -> float:
        """P[fewer tails than the shift]; tails are Bin(m, λ)."""
        return float(binomial(self.unknown, self.uncertainty).dense(self.shift - 1).sum())

    def delta(self, epsilon: float) -> float:
        """The mean of D(M) over the number of coins; numbers that hardly ever occur are counted as 1 if that changes nothing."""
        coins = binomial(self.unknown, 2 * self.uncertainty)
        for smallest in (_RARE, 0.0):
            there = np.flatnonzero(coins.chances >= smallest)
            first, last = int(there[0]), int(there[-1])
            rare = float(coins.chances[:first].sum() + coins.chances[last + 1 :].sum())
            apart = coin_deltas(coins.first + first, coins.first + last, epsilon, self.shift)
            found = float((coins.chances[first : last + 1] * apart).sum())
            if rare <= 1e-11 * found:
                break
        return found + rare


def coin_deltas(first: int, last: int, epsilon: float, shift: int = 1, chance: float = 0.5) -> Floats:
    """D(M) of Bin(M, chance), upwards, for M = first … last."""
    ratio = math.exp(epsilon)
    coins = np.arange(first, last + 1)
    cuts = coin_cuts(coins, epsilon, shift, chance)
    before, after = coins[:-1], cuts[:-1]
    moves = cuts[1:] > after
    tail = np.where(moves, after, after - 1)
    loss = binomial_chances(tail - shift, before, chance) - ratio * binomial_chances(tail, before, chance)
    steps = np.maximum(np.where(moves, (1 - chance) * loss, -chance * loss), 0.0)
    largest = _largest(last, int(cuts[-1]), ratio, shift, chance)
    summed: Floats = np.cumsum(np.concatenate(([largest], steps[::-1])))[::-1]
    return np.minimum(summed, 1.0)


def coin_cuts(coins: Whole, epsilon: float, shift: int = 1, chance: float = 0.5) -> Whole:
    """The first k with P[B_M = k − r] > e^ε·P[B_M = k], for each M; it moves by 0 or 1 from one M to the next."""
    low, high = np.full(len(coins), -1), coins + shift
    needed = epsilon + shift * (math.log(chance) - math.log1p(-chance))
    while (high - low > 1).any():
        middle = (low + high) // 2
        above = _log_ratio(middle, coins, shift) > needed
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


def _log_ratio(k: Whole, coins: Whole, shift: int) -> Floats:
    """Ln P[B_M = k − r] − ln P[B_M = k] for fair coins; −∞ where k − r is impossible, +∞ where k is."""
    logs = np.zeros(len(k))
    for i in range(shift):
        logs += np.log(np.maximum(k - i, 1) / np.maximum(coins - k + 1 + i, 1))
    return np.where(k < shift, -np.inf, np.where(k > coins, np.inf, logs))


def _largest(coins: int, cut: int, ratio: float, shift: int, chance: float) -> float:
    """D(M, k) summed directly, for one M."""
    heads = binomial(coins, chance)
    k = np.arange(cut, heads.last + shift + 1)
    return float((heads.at(k - shift) - ratio * heads.at(k)).clip(0.0).sum())
