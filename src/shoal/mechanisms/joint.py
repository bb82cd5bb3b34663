"""The smallest noise for several Gaussian releases that are charged together.

What is returned always passes `gaussian.joint_gaussian_certificate`; floats below choose where to look, never what is
true.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import GaussianNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms.certified import arithmetic, decimal_near, round_scale_up
from shoal.mechanisms.gaussian import (
    ROUNDING_VARIANCES,
    approximate_norm,
    approximate_rounding_error,
    joint_gaussian_holds,
    largest_norm,
    largest_zcdp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_RAISE = 1e-10
RAISES = 12
DISCRETE_BELOW = 64
SCANNED = 160


def gaussian_sigma(norm_squared: int | Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The analytic σ of continuous noise: the smallest with Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ) ≤ δ, rounded up.

    Discrete noise needs a little more on a coarse grid: calibrate with `joint_gaussian_sigmas`.
    """
    with arithmetic():
        return round_scale_up(Fraction(decimal_near(Fraction(norm_squared)).sqrt() / largest_norm(epsilon, delta)))


def joint_gaussian_sigmas(
    shifts: Sequence[Shift], weights: Sequence[Fraction | float], epsilon: Fraction, delta: Fraction
) -> tuple[Fraction, ...]:
    """Scales σᵢ = factor·√(l2²ᵢ/weightᵢ), in steps, with the smallest factor for which the joint certificate holds.

    A weight is a release's share of the squared norm Σ l2²ᵢ/σᵢ²; only their ratios matter. A release that no owner
    can move gets scale 0: no noise.
    """
    if any(shift.l1 and weight <= 0 for shift, weight in zip(shifts, weights, strict=True)):
        raise InternalError("every release that can move needs a positive weight")
    return _sigmas(tuple(shifts), tuple(Fraction(weight) for weight in weights), epsilon, delta)


@lru_cache(maxsize=1024)
def _sigmas(
    shifts: tuple[Shift, ...], weights: tuple[Fraction, ...], epsilon: Fraction, delta: Fraction
) -> tuple[Fraction, ...]:
    units = [
        math.sqrt(shift.l2_squared / weight) if shift.l1 else 0.0 for shift, weight in zip(shifts, weights, strict=True)
    ]
    if not any(units):
        return tuple(Fraction(0) for _ in shifts)

    def at(factor: float) -> tuple[Fraction, ...]:
        return tuple(round_scale_up(Fraction(unit) * Fraction(factor)) for unit in units)

    def holds(factor: float) -> bool:
        parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, at(factor), strict=True)]
        return joint_gaussian_holds(parts, epsilon, delta)

    return at(_smallest_certified(_guesses(shifts, units, epsilon, delta), holds))


def _smallest_certified(guesses: Sequence[float], holds: Callable[[float], bool]) -> float:
    """The smallest guess, raised in growing steps until it holds; a guess that fails for long gives way to the next."""
    for guess in sorted(guesses):
        factor, raise_by = guess, FIRST_RAISE
        for _ in range(RAISES):
            if holds(factor):
                return factor
            factor, raise_by = guess * (1 + raise_by), raise_by * 8
    raise InternalError("no scale of Gaussian noise could be certified")


def _guesses(shifts: Sequence[Shift], units: Sequence[float], epsilon: Fraction, delta: Fraction) -> list[float]:
    moved = [(shift, unit) for shift, unit in zip(shifts, units, strict=True) if shift.l1]
    norm = float(largest_norm(epsilon, delta))
    guesses = [_zcdp_factor(moved, epsilon, delta)]
    for tau in ROUNDING_VARIANCES:
        factor = _continuous_factor(moved, tau, norm, epsilon, delta)
        guesses.extend([] if factor is None else [factor])
    if len(moved) == 1 and moved[0][0].touched == 1:
        shift, unit = moved[0][0].per_coordinate, moved[0][1]
        analytic = shift / norm
        if analytic < DISCRETE_BELOW:
            guesses.append(_discrete_sigma(shift, analytic, min(guesses) * unit, float(epsilon), float(delta)) / unit)
    return guesses


def _zcdp_factor(moved: Sequence[tuple[Shift, float]], epsilon: Fraction, delta: Fraction) -> float:
    """ρ = Σ l2²/2(factor·unit)² at the largest ρ that ε and δ allow."""
    squared = sum(shift.l2_squared / unit**2 for shift, unit in moved)
    return math.sqrt(squared / (2 * largest_zcdp(float(epsilon), float(delta))))


def _continuous_factor(
    moved: Sequence[tuple[Shift, float]], tau: Fraction, norm: float, epsilon: Fraction, delta: Fraction
) -> float | None:
    """The factor with Σ l2²/((factor·unit)² − τ²) = μ², μ lowered by what the rounding lemma takes from ε and δ."""
    variance = float(tau)
    squared = sum(shift.l2_squared / unit**2 for shift, unit in moved) / norm**2
    low, high = squared, squared + variance / min(unit for _, unit in moved) ** 2
    error = sum(shift.touched * approximate_rounding_error(math.sqrt(high) * unit, variance) for shift, unit in moved)
    if 4 * error >= float(epsilon) or error > 0.01:
        return None
    lowered = norm
    if error > 1e-14:
        lowered *= approximate_norm(float(epsilon) - 2 * error, float(delta) * (1 - error)) / approximate_norm(
            float(epsilon), float(delta)
        )
    high *= (norm / lowered) ** 2
    spans, most = [(float(shift.l2_squared), unit**2) for shift, unit in moved], lowered**2
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        spent = 0.0
        for square, unit_squared in spans:
            spent += square / max(middle * unit_squared - variance, 1e-300)
        low, high = (middle, high) if spent > most else (low, middle)
    return math.sqrt(high)


def _discrete_sigma(shift: int, analytic: float, enough: float, epsilon: float, delta: float) -> float:
    """The smallest σ found whose exact δ is small enough; on a coarse grid δ is not monotone, so it is scanned."""
    grid = np.geomspace(min(analytic, enough) / 2, enough, SCANNED)
    found = next((i for i, sigma in enumerate(grid) if _discrete_delta(shift, sigma, epsilon) <= delta), None)
    if not found:
        return enough
    low, high = float(grid[found - 1]), float(grid[found])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _discrete_delta(shift, middle, epsilon) <= delta else (middle, high)
    return high


def _discrete_delta(shift: int, sigma: float, epsilon: float) -> float:
    """P[X > εσ²/Δ − Δ/2] − e^ε·P[X > εσ²/Δ + Δ/2] in floats."""
    reach = math.ceil(40 * sigma) + shift + 2
    first = max(-reach, math.floor(epsilon * sigma**2 / shift - shift / 2) + 1)
    if first > reach:
        return 0.0
    points = np.arange(first, reach + 1, dtype=np.float64)
    scale = 2 * sigma**2
    gained = np.exp(-(points**2) / scale)
    lost = np.exp(np.minimum(epsilon - (points + shift) ** 2 / scale, 0.0))
    everything = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / scale)
    return float(np.sum(gained - np.minimum(lost, gained)) / np.sum(everything))
