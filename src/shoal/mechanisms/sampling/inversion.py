"""Exact inversion: real cut points, integer comparisons, and more bits only where a comparison is tied.

Let U be a uniform real in [0, 1), whose binary digits are drawn when they are needed, and let 0 < c₁ < … < c_m < 1 be
reals. `CutPoints.draw` returns #{i : cᵢ ≤ U} for each of many independent U.

Proof. Let u = ⌊U·2^w⌋ be the digits seen so far and Tᵢ = ⌊cᵢ·2^w⌋, an integer known for certain (below). If u > Tᵢ
then U ≥ u/2^w ≥ (Tᵢ + 1)/2^w > cᵢ. If u < Tᵢ then U < (u + 1)/2^w ≤ Tᵢ/2^w ≤ cᵢ. Only u = Tᵢ leaves the comparison
open; then more digits of the same U are drawn and all cut points are computed to as many places. A tie lasts another
w digits with a chance of 2^−w, so it ends with probability 1. No floating-point number takes part.

Certainty of Tᵢ: `enclose` gives integers aᵢ ≤ cᵢ·2^p ≤ bᵢ; when aᵢ and bᵢ agree after dropping p − w binary places,
that is Tᵢ; otherwise p grows. The cut points are irrational (non-constant rational functions of e^{−x}, x rational
and not 0), so this ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.mechanisms.entropy import Entropy, Words

WORD_BITS = 64
Indices = npt.NDArray[np.int64]
Bounds = tuple[int, int]


def enclose_exp(exponent: Fraction, precision: int) -> Bounds:
    """Integers (a, b) with a ≤ e^{−exponent}·2^precision ≤ b, at most 3 apart, for exponent ≥ 0.

    Decimal's exp is correctly rounded and its argument has a relative error below 10^{1−digits}; the digits kept
    beyond those of the exponent and of the precision make the sum of both errors smaller than one unit of the last
    binary place.
    """
    if exponent > precision:
        return 0, 1
    digits = precision * 31 // 100 + len(str(int(exponent))) + 8
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    argument = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    numerator, denominator = context.exp(argument).as_integer_ratio()
    scaled = (numerator << precision) // denominator
    return max(0, scaled - 1), scaled + 2


def enclose_powers(base: Bounds, count: int, precision: int) -> list[Bounds]:
    """Bounds of base¹ … base^count, all scaled by 2^precision."""
    powers = [base]
    for _ in range(count - 1):
        low, high = powers[-1]
        powers.append(((low * base[0]) >> precision, ((high * base[1]) >> precision) + 1))
    return powers


class CutPoints(ABC):
    """Increasing reals c₁ < … < c_m strictly between 0 and 1 that cut the unit interval into m + 1 pieces."""

    word_bits = WORD_BITS

    @abstractmethod
    def enclose(self, precision: int) -> list[Bounds]:
        """Integers around each cᵢ·2^precision, as tight as a few units or tighter when the precision grows."""

    def floors(self, bits: int) -> list[int]:
        """⌊cᵢ·2^bits⌋, each of them certain."""
        precision = bits + 64
        while True:
            dropped = precision - bits
            below_one = (1 << precision) - 1  # each cᵢ < 1, so ⌊cᵢ·2^p⌋ cannot reach 2^p
            bounds = [(low >> dropped, min(high, below_one) >> dropped) for low, high in self.enclose(precision)]
            if all(low == high for low, high in bounds):
                return [low for low, _ in bounds]
            precision *= 2

    @cached_property
    def _first_words(self) -> Words:
        return np.array(self.floors(self.word_bits), dtype=np.uint64)

    def draw(self, size: int, entropy: Entropy) -> Indices:
        """#{i : cᵢ ≤ U} for `size` independent uniform U."""
        words = entropy.uint64(size) >> np.uint64(WORD_BITS - self.word_bits)
        cuts = self._first_words
        below = np.searchsorted(cuts, words, side="left")
        tied = np.flatnonzero(cuts[np.minimum(below, len(cuts) - 1)] == words)
        for row in tied:
            below[row] = self._refine(int(words[row]), entropy)
        return below.astype(np.int64, copy=False)

    def _refine(self, digits: int, entropy: Entropy) -> int:
        """The piece for the U that starts with these digits, drawing as many more as it takes."""
        bits = self.word_bits
        while True:
            bits += self.word_bits
            digits = (digits << self.word_bits) | entropy.bits(self.word_bits)
            cuts = self.floors(bits)
            below = bisect_left(cuts, digits)
            if below == len(cuts) or cuts[below] != digits:
                return below


class TruncatedGeometric(CutPoints):
    """A digit d of a geometric number: P[d] ∝ e^{−d·rate}, 0 ≤ d < size; cᵢ = (1 − rⁱ)/(1 − r^size), r = e^{−rate}."""

    def __init__(self, rate: Fraction, size: int) -> None:
        self.rate, self.size = rate, size

    def enclose(self, precision: int) -> list[Bounds]:
        """Outward bounds of the cut points, computed with guard bits for the difference 1 − r^size."""
        work = precision + max(0, self.rate.denominator.bit_length() - self.rate.numerator.bit_length()) + 16
        one = 1 << work
        *powers, last = enclose_powers(enclose_exp(self.rate, work), self.size, work)
        smallest, largest = one - last[1], one - last[0]
        return [
            (((one - high) << precision) // largest, -((-(one - low) << precision) // smallest)) for low, high in powers
        ]


class Geometric(CutPoints):
    """A geometric number below `size`: cᵢ = 1 − rⁱ, r = e^{−rate}; the last piece means "size or more"."""

    def __init__(self, rate: Fraction, size: int) -> None:
        self.rate, self.size = rate, size

    def enclose(self, precision: int) -> list[Bounds]:
        """Outward bounds of the cut points."""
        one = 1 << precision
        powers = enclose_powers(enclose_exp(self.rate, precision), self.size, precision)
        return [(one - high, one - low) for low, high in powers]


class Sign(CutPoints):
    """The sign of discrete Laplace noise: negative below c₁ = r/(1 + r), positive above c₂ = 1/(1 + r), r = e^−rate."""

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate

    def enclose(self, precision: int) -> list[Bounds]:
        """Outward bounds of the two cut points; they mirror each other around one half."""
        one = 1 << precision
        low, high = enclose_exp(self.rate, precision)
        first = (low << precision) // (one + low), -((-high << precision) // (one + high))
        return [first, (one - first[1], one - first[0])]
