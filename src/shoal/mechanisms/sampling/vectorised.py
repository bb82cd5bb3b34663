"""The vectorised exact samplers: geometric numbers digit by digit, discrete Laplace by its sign, Gaussian by rejection.

**Geometric.** P[G = g] ∝ e^{−g/b}. Write g = Σⱼ dⱼ·pⱼ + M·h with digits 0 ≤ dⱼ < sⱼ, place values pⱼ = s₀⋯sⱼ₋₁ and M
= s₀⋯s_J. Then e^{−g/b} = Πⱼ e^{−dⱼpⱼ/b} · e^{−hM/b}: digits and h are *independent*, each of them a (truncated)
geometric number, drawn by exact inversion (`inversion.CutPoints`). M = 2^⌊log₂ b⌋, so h is small; a drawn "size or
more" adds size and draws again, which is exact because a geometric number has no memory.

**Discrete Laplace.** With r = e^{−1/b}: P[X < 0] = r/(1 + r), P[X = 0] = (1 − r)/(1 + r), and given its sign, |X| − 1
is geometric.

**Discrete Gaussian** (the rejection of Canonne, Kamath and Steinke). Y discrete Laplace with scale t is kept with
probability e^{−γ}, γ = (|Y| − σ²/t)²/2σ²: then P[Y] ∝ e^{−|Y|/t − γ} ∝ e^{−Y²/2σ²}. The coin e^{−γ} is decided in
`rejection`, exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass
from shoal.mechanisms.sampling.inversion import CutPoints, Geometric, Sign, TruncatedGeometric
from shoal.mechanisms.sampling.rejection import keep_as_gaussian
from shoal.remembered import remembered

if TYPE_CHECKING:
    from shoal.mechanisms.entropy import Entropy

DIGIT_BITS = 8
TOP_VALUES = 64
LARGEST_BITS = 62

Draws = npt.NDArray[np.int64] | npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class GeometricTables:
    """Everything drawn for one geometric number: digits with the binary weight of their place, and the top."""

    digits: tuple[tuple[CutPoints, int], ...]
    top: CutPoints
    top_weight: int
    sign: CutPoints


@remembered(128)
def geometric_tables(scale: Fraction) -> GeometricTables:
    """The tables for one scale: ⌊log₂ scale⌋ binary places in digits of eight, and a top digit of rate in (½, 1]."""
    places = max(0, _floor_log2(scale))
    digits = [
        (TruncatedGeometric(Fraction(1 << weight) / scale, 1 << min(DIGIT_BITS, places - weight)), weight)
        for weight in range(0, places, DIGIT_BITS)
    ]
    top = Geometric(Fraction(1 << places) / scale, TOP_VALUES)
    return GeometricTables(tuple(digits), top, places, Sign(1 / scale))


def geometric(scale: Fraction, size: int, entropy: Entropy) -> Draws:
    """Draws of P[G = g] ∝ exp(−g/scale), g ≥ 0: int64, or Python integers when one of them does not fit below 2⁶²."""
    tables = geometric_tables(scale)
    parts = [(cuts.draw(size, entropy), weight) for cuts, weight in tables.digits]
    parts.append((_draw_top(tables.top, size, entropy), tables.top_weight))
    return _sum_of_places(parts, size)


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy) -> Draws:
    """Draws of P[X = k] ∝ exp(−|k|/scale): int64, or Python integers when one of them does not fit below 2⁶²."""
    sign = geometric_tables(scale).sign.draw(size, entropy) - 1
    magnitude: Draws = geometric(scale, size, entropy) + 1
    return magnitude * sign


def discrete_gaussian(sigma: Fraction, size: int, entropy: Entropy) -> Draws:
    """Draws of P[X = k] ∝ exp(−k²/2σ²): int64, or Python integers when one of them does not fit below 2⁶²."""
    proposal_scale = Fraction(int(sigma) + 1)
    kept: list[Draws] = []
    missing = size
    while missing > 0:
        proposals = discrete_laplace(proposal_scale, missing + missing // 2 + 8, entropy)
        accepted = proposals[keep_as_gaussian(proposals, sigma, proposal_scale, entropy)][:missing]
        kept.append(accepted)
        missing -= len(accepted)
    return np.concatenate([np.zeros(0, dtype=np.int64), *kept])


def _draw_top(top: CutPoints, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
    values = top.draw(size, entropy)
    unfinished = np.flatnonzero(values == TOP_VALUES)
    while len(unfinished):
        more = top.draw(len(unfinished), entropy)
        values[unfinished] += more
        unfinished = unfinished[more == TOP_VALUES]
    return values


def _sum_of_places(parts: list[tuple[npt.NDArray[np.int64], int]], size: int) -> Draws:
    """Σ digit·2^weight, in Python integers as soon as the sum could reach 2⁶²."""
    *_, (top, top_weight) = parts
    fits = (int(top.max(initial=0)) + 1) << top_weight <= 1 << LARGEST_BITS
    total: Draws = np.zeros(size, dtype=np.int64 if fits else object)
    for values, weight in parts:
        total = total + (values if fits else values.astype(object)) * (1 << weight)
    return total


def _floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1
