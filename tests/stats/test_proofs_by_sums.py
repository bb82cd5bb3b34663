"""Two proofs of the pages, held against sums that share no code with them: adaptive bounds of joint noise, and moves that spread.

Every δ here is summed over all outcomes of discrete noise. Nothing is drawn.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, Shift
from shoal.mechanisms.joint_gaussian import joint_gaussian_holds

# ---- bounds that are found on the way (docs/theory/noise.md) --------------------------------------------------------


def gaussian(sigma, shift, reach):
    """The law of discrete Gaussian noise around a shift, on [-reach, reach]."""
    wide = np.arange(-int(14 * sigma), int(14 * sigma) + 1, dtype=float)
    total = np.exp(-(wide**2) / (2 * sigma**2)).sum()
    return np.exp(-((np.arange(-reach, reach + 1) - shift) ** 2.0) / (2 * sigma**2)) / total


def as_drawn(sigma, planned, found):
    return min(sigma, max(math.ceil(found / planned * sigma) + 2, sigma / 4))


def worst_delta(epsilon, first, second, drawn=as_drawn):
    """δ of two releases where an adversary sees the first and chooses, for each outcome, which bounds the second one finds."""
    (sigma, move), (sigma2, planned) = first, second
    reach = 10 * sigma + move
    p, q = gaussian(sigma, 0, reach), gaussian(sigma, move, reach)
    worst = np.zeros_like(p)
    for part in (1, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.26, 0.25, 0.2, 0.1, 0.02):
        found = max(1, round(planned * part))
        scale = drawn(sigma2, planned, found)
        far = int(10 * scale) + found
        p2, q2 = gaussian(scale, 0, far), gaussian(scale, found, far)
        # The ratio of the second falls with its outcome: the best event for each first outcome is an initial piece.
        ratio = np.log(p2) - np.log(q2)
        below, above = (np.concatenate([[0.0], np.cumsum(law)]) for law in (p2, q2))
        pieces = np.searchsorted(-ratio, -(epsilon + np.log(q) - np.log(p)))
        worst = np.maximum(worst, p * below[pieces] - math.exp(epsilon) * q * above[pieces])
    return float(worst.sum())


SIGMAS = [(64, 64), (64, 128), (200, 64)]
MOVES = [(4, 4), (2, 8), (16, 2), (1, 1)]
EPSILONS = [Fraction(1, 4), Fraction(1), Fraction(3)]


def is_certified(epsilon, delta, first, second):
    parts = [GaussianNoise(Shift(move), Fraction(sigma)) for sigma, move in (first, second)]
    return joint_gaussian_holds(parts, epsilon, Fraction(delta))


@pytest.mark.parametrize(("sigma", "sigma2"), SIGMAS)
@pytest.mark.parametrize("shares", MOVES)
def test_no_choice_of_bounds_loses_more_than_is_certified(sigma, sigma2, shares):
    first, second = (sigma, sigma // shares[0]), (sigma2, sigma2 // shares[1])
    for epsilon in EPSILONS:
        delta = worst_delta(float(epsilon), first, second)
        if delta > 1e-11:  # below that, sums of doubles say little
            assert not is_certified(epsilon, delta * (1 - 1e-6), first, second)
            assert is_certified(epsilon, min(0.99, delta * 1.01), first, second)


def test_noise_that_shrinks_too_far_is_noticed():
    first, second = (64, 16), (64, 16)
    planted = worst_delta(
        1.0, first, second, lambda sigma, planned, found: max(0.8 * found / planned * sigma, sigma / 4)
    )
    assert planted > 1.2 * worst_delta(1.0, first, second)
    assert is_certified(Fraction(1), planted * 0.9, first, second)  # so the sum above would have failed


# ---- moves that spread (docs/theory/accounting.md) ------------------------------------------------------------------


def losses(scale, move):
    """Probabilities and losses of one entry that moves: noise beyond [0, move] says nothing more, so it is clamped."""
    r = math.exp(-1 / scale)
    ends = [1 / (1 + r), r**move / (1 + r)] if move else [1.0]
    between = [(1 - r) / (1 + r) * r**t for t in range(1, move)]
    masses = [ends[0], *between, *ends[1:]]
    return [(mass, (move - 2 * t) / scale) for t, mass in enumerate(masses)]


def delta_of(scale, moves, epsilon):
    """δ of independent entries that move by this much, over all their outcomes."""
    total = 0.0
    for outcome in itertools.product(*(losses(scale, move) for move in moves)):
        loss = math.fsum(loss for _, loss in outcome)
        total += math.prod(mass for mass, _ in outcome) * max(0.0, -math.expm1(epsilon - loss))
    return total


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 7.0])
@pytest.mark.parametrize("whole", [2, 3, 5, 8])
def test_a_move_that_is_spread_loses_no_more_than_one_entry(scale, whole):
    parts = [split for split in itertools.product(range(whole + 1), repeat=3) if sum(split) == whole]
    for epsilon in (-2.0, -0.5, 0.0, 0.1, 0.7, 1.5, 3.0):
        alone = delta_of(scale, [whole], epsilon)
        assert all(delta_of(scale, split, epsilon) <= alone + 1e-14 for split in parts)
        beside = delta_of(scale, [whole, whole], epsilon)  # and beside another entry, as in a plan
        assert all(delta_of(scale, [*split, whole], epsilon) <= beside + 1e-14 for split in parts)


def test_a_move_that_is_longer_when_spread_loses_more():
    """The check above would notice a claim that is too small by one step: beyond a loss of 3 one entry has nothing left."""
    assert delta_of(1.0, [2, 2], 3.2) > 0.05 > delta_of(1.0, [3], 3.2) == 0.0
