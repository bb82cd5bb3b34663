"""The exact δ of discrete Gaussian noise on a count in several groups, where the grid is coarse.

All d coordinates move by s steps and have the same σ, so the likelihood ratio depends only on the sum S of the noises: the
loss is (2·s·S + d·s²)/2σ², it grows with S, and δ = Σ_t P[S = t]·max(0, 1 − e^{ε − loss(t)}). A smaller move, or one of fewer
coordinates, is never worse: discrete Gaussian noise is log-concave (docs/theory/noise.md).

P[S = t] is a d-fold convolution. It is computed in integer multiples of 2⁻¹⁶⁰, rounded up, by multiplying polynomials that are
each packed into one large integer; the truncated far tail is added as a chance that everything is revealed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from shoal.mechanisms.certified import arithmetic, around, exp_of_minus
from shoal.mechanisms.tails import gaussian_tail, gaussian_total
from shoal.remembered import remembered

BITS = 160
REACH = 16
"""Values further out than 16σ + 2 have a chance below 10⁻⁵⁶."""
MOST_COORDINATES, WIDEST, LONGEST = 32, 6, 20
"""Beyond these (d, σ, and their product) the grid is fine enough for the certificate of continuous noise, or sums take too long."""
SCANNED = 120

Masses = tuple[int, ...]


def is_coarse(coordinates: int, sigma: Fraction | float) -> bool:
    """Whether the sum is short enough to take term by term, and worth it."""
    return 1 < coordinates <= MOST_COORDINATES and sigma <= WIDEST and coordinates * sigma <= LONGEST


@remembered(256)
def lattice_delta(shift: int, coordinates: int, sigma: Fraction, epsilon: Fraction) -> Decimal:
    """An upper bound on the δ of `coordinates` integers that move by at most `shift` each, under noise of scale σ each."""
    masses, beyond = law_of_sum(sigma, coordinates)
    furthest = (len(masses) - 1) // 2
    # loss(t) > ε from here on; the masses are symmetric, and index 0 is the sum −furthest.
    first = math.floor((epsilon * 2 * sigma**2 - coordinates * shift**2) / (2 * shift)) + 1
    with arithmetic():
        unit, total = Decimal(1) / (1 << BITS), beyond
        start = max(first, -furthest)
        loss = Fraction(2 * shift * start + coordinates * shift**2) / (2 * sigma**2)
        kept, shrink = exp_of_minus(loss - epsilon).lower, exp_of_minus(Fraction(shift) / sigma**2).lower
        for position in range(start + furthest, len(masses)):
            total += masses[position] * unit * (1 - kept)
            kept *= shrink
        return around(total).upper


@remembered(64)
def law_of_sum(sigma: Fraction, coordinates: int) -> tuple[Masses, Decimal]:
    """P[S = t] in 2⁻¹⁶⁰, rounded up, for the sum S of this many noises, and the chance that any of them is further out."""
    reach = math.ceil(REACH * sigma) + 2
    beyond = gaussian_tail(sigma, reach + 1).upper
    with arithmetic():
        return _power(_one(sigma, reach), coordinates), around(2 * coordinates * beyond).upper


def _one(sigma: Fraction, reach: int) -> Masses:
    """P[X = k] for |k| ≤ reach, in 2⁻¹⁶⁰ and rounded up."""
    total = gaussian_total(sigma).lower
    with arithmetic():
        half = [_up(exp_of_minus(Fraction(k * k) / (2 * sigma**2)).upper / total) for k in range(reach + 1)]
    return (*half[:0:-1], *half)


def _up(chance: Decimal) -> int:
    return int(around(chance * (1 << BITS)).upper) + 1


def _power(one: Masses, times: int) -> Masses:
    """The law of a sum of this many independent numbers, by squaring."""
    if times == 1:
        return one
    half = _power(one, times // 2)
    whole = _product(half, half)
    return _product(whole, one) if times % 2 else whole


def _product(first: Masses, second: Masses) -> Masses:
    """A convolution, rounded up: two polynomials whose coefficients do not run into each other, multiplied as integers."""
    size = (2 * (BITS + 8) + len(first).bit_length()) // 8 + 1
    left, right = (
        int.from_bytes(b"".join(mass.to_bytes(size, "little") for mass in masses), "little")
        for masses in (first, second)
    )
    count = len(first) + len(second) - 1
    written = (left * right).to_bytes(size * count, "little")
    sums = (int.from_bytes(written[size * i : size * (i + 1)], "little") for i in range(count))
    return tuple(-(-value >> BITS) if value else 0 for value in sums)


def approximate_lattice_sigma(shift: int, coordinates: int, enough: float, epsilon: float, delta: float) -> float:
    """Approximately the smallest sufficient σ, in floats, searching down from one that suffices: it proves nothing."""
    found = enough
    for sigma in np.linspace(enough, enough * 0.75, SCANNED):
        if _approximate_delta(shift, coordinates, float(sigma), epsilon) > delta:
            break
        found = float(sigma)
    return found


def _approximate_delta(shift: int, coordinates: int, sigma: float, epsilon: float) -> float:
    reach = math.ceil(9 * sigma) + 2
    one = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * sigma**2))
    law = one = one / one.sum()
    for bit in f"{coordinates:b}"[1:]:
        law = np.convolve(law, law)
        law = np.convolve(law, one) if bit == "1" else law
    sums = np.arange(len(law)) - (len(law) - 1) // 2
    loss = (2 * shift * sums + coordinates * shift**2) / (2 * sigma**2)
    return float(law @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))))
