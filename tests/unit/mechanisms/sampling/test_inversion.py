"""Exact inversion: the law of the drawn digit is computed by playing every tape of random bits, not by sampling."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shoal.mechanisms.entropy import Entropy
from shoal.mechanisms.sampling.inversion import Geometric, Sign, TruncatedGeometric, enclose_exp, enclose_powers


class TapeEndedError(Exception):
    """The draw wants more bits than the tape has."""


class WordTape(Entropy):
    """Plays one narrow word after another: the first through `uint64`, the rest through `bits`."""

    safe = False

    def __init__(self, words, width):
        self.words, self.width = list(words), width

    def bytes(self, count):
        raise NotImplementedError

    def _next(self):
        if not self.words:
            raise TapeEndedError
        return self.words.pop(0)

    def uint64(self, count):
        return np.array([self._next() << (64 - self.width) for _ in range(count)], dtype=np.uint64)

    def bits(self, count):
        assert count == self.width
        return self._next()


def exact_law(cuts, width, depth):
    """The share of all tapes of `depth` words that end in each piece, and the share of tapes that were too short."""
    cuts.word_bits = width
    pieces = len(cuts.floors(width)) + 1
    law, unresolved = [Fraction(0)] * pieces, Fraction(0)
    prefixes = [()]
    for length in range(1, depth + 1):
        longer = [(*prefix, word) for prefix in prefixes for word in range(2**width)]
        prefixes = []
        for tape in longer:
            try:
                law[int(cuts.draw(1, WordTape(tape, width))[0])] += Fraction(1, 2 ** (width * length))
            except TapeEndedError:
                prefixes.append(tape)
    unresolved = Fraction(len(prefixes), 2 ** (width * depth))
    return law, unresolved


def truncated_law(rate, size):
    weights = [math.exp(-rate * digit) for digit in range(size)]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(
    ("cuts", "law"),
    [
        (TruncatedGeometric(Fraction(1, 3), 5), truncated_law(1 / 3, 5)),
        (TruncatedGeometric(Fraction(1, 10**9), 7), truncated_law(1e-9, 7)),
        (
            Geometric(Fraction(7, 5), 3),
            [math.exp(-1.4 * k) * (1 - math.exp(-1.4)) for k in range(3)] + [math.exp(-4.2)],
        ),
        (
            Sign(Fraction(1, 2)),
            [
                math.exp(-0.5) / (1 + math.exp(-0.5)),
                (1 - math.exp(-0.5)) / (1 + math.exp(-0.5)),
                math.exp(-0.5) / (1 + math.exp(-0.5)),
            ],
        ),
    ],
    ids=["digit", "nearly uniform digit", "top", "sign"],
)
def test_every_tape_of_bits_played_gives_the_closed_form(cuts, law):
    shares, unresolved = exact_law(cuts, width=4, depth=7)
    assert unresolved < 1e-7
    for share, expected in zip(shares, law, strict=True):
        assert float(share) - 1e-12 <= expected <= float(share + unresolved) + 1e-12


def test_a_cut_with_the_wrong_inequality_is_caught_by_the_tapes():
    class TiesGoUp(TruncatedGeometric):
        """A tie counts as decided: the planted bug."""

        def _refine(self, digits, _entropy):
            return int(np.searchsorted(self._first_words, digits, side="right"))

    shares, unresolved = exact_law(TiesGoUp(Fraction(1, 3), 5), width=4, depth=7)
    gaps = [abs(float(share) - expected) for share, expected in zip(shares, truncated_law(1 / 3, 5), strict=True)]
    assert unresolved == 0
    assert max(gaps) > 0.01


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 3), Fraction(50), Fraction(1, 10**12), Fraction(10**7), Fraction(999, 7)]
)
@pytest.mark.parametrize("precision", [8, 64, 300])
def test_bounds_of_the_exponential_hold_and_nest(exponent, precision):
    low, high = enclose_exp(exponent, precision)
    assert high - low <= 3
    finer_low, finer_high = enclose_exp(exponent, precision + 64)
    assert low << 64 <= finer_high
    assert finer_low <= high << 64


def test_bounds_of_powers_stay_around_the_power():
    base = enclose_exp(Fraction(1, 7), 200)
    for power, (low, high) in zip(itertools.count(1), enclose_powers(base, 50, 200), strict=False):
        exact = enclose_exp(Fraction(power, 7), 260)
        assert low << 60 <= exact[1]
        assert exact[0] <= high << 60


def test_floors_of_cut_points_that_hug_one_are_found_without_endless_precision():
    assert Geometric(Fraction(10**7), 3).floors(64) == [2**64 - 1] * 3
    assert Sign(Fraction(10**7)).floors(64) == [0, 2**64 - 1]
