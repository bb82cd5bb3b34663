"""The smallest noise for several Gaussian releases that are charged together.

Results always pass `gaussian_certificate.joint_gaussian_certificate`; floats below choose where to look, never what is
true.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import GaussianNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms.certificates.lattice import approximate_lattice_sigma, is_coarse
from shoal.mechanisms.certificates.mixed import approximate_mixed_delta
from shoal.mechanisms.certified import arithmetic, decimal_near, round_scale_up
from shoal.mechanisms.gaussian_certificate import (
    ROUNDING_VARIANCES,
    approximate_norm,
    approximate_rounding_error,
    as_coarse,
    coarse_and_finer,
    grouped_gaussian_holds,
    joint_gaussian_holds,
    largest_norm,
    largest_zcdp,
)
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_RAISE = 1e-10
RAISES = 12
DISCRETE_BELOW = 64
SCANNED = 160
MOST_STEPS, JUST_ABOVE = 100, 1 + 1e-15
NEGLIGIBLE = 40
ROUNDED = float(ROUNDING_VARIANCES[3])
"""τ² = ¾, at which the rounding lemma costs almost nothing in ε and δ."""
WORTH_SUMMING, SECANTS, JUST_ENOUGH, SMALLEST = 0.01, 5, 1 + 1e-4, 1e-300
"""Summing next to finer parts is only worthwhile if the noise falls by at least one percent."""


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
    found = _sigmas(tuple(shifts), _checked(shifts, weights), epsilon, delta)
    if found is None:
        raise InternalError("no scale of Gaussian noise could be certified")
    return found


def grouped_gaussian_sigmas(
    shifts: Sequence[Shift], weights: Sequence[Fraction | float], epsilon: Fraction, delta: Fraction, groups: int
) -> tuple[Fraction, ...] | None:
    """The same when a threshold on one of the releases shares their δ; None if no proof of that is found."""
    return _sigmas(tuple(shifts), _checked(shifts, weights), epsilon, delta, groups)


def _checked(shifts: Sequence[Shift], weights: Sequence[Fraction | float]) -> tuple[Fraction, ...]:
    if any(shift.l1 and weight <= 0 for shift, weight in zip(shifts, weights, strict=True)):
        raise InternalError("every release that can move needs a positive weight")
    return tuple(Fraction(weight) for weight in weights)


@remembered(1024)
def _sigmas(
    shifts: tuple[Shift, ...],
    weights: tuple[Fraction, ...],
    epsilon: Fraction,
    delta: Fraction,
    groups: int | None = None,
) -> tuple[Fraction, ...] | None:
    units = [
        math.sqrt(shift.l2_squared / weight) if shift.l1 else 0.0 for shift, weight in zip(shifts, weights, strict=True)
    ]
    if not any(units):
        return tuple(Fraction(0) for _ in shifts)

    def at(factor: float) -> tuple[Fraction, ...]:
        return tuple(round_scale_up(Fraction(unit) * Fraction(factor)) for unit in units)

    def holds(factor: float) -> bool:
        parts = [GaussianNoise(shift, sigma) for shift, sigma in zip(shifts, at(factor), strict=True)]
        if groups is not None:
            return grouped_gaussian_holds(parts, epsilon, delta, groups)
        return joint_gaussian_holds(parts, epsilon, delta)

    factor = _smallest_certified(_guesses(shifts, units, epsilon, delta), holds)
    return None if factor is None else at(factor)


def _smallest_certified(guesses: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """The smallest guess, raised in growing steps until it holds; if it fails all the way to the next guess, that one is used."""
    ordered = sorted(guesses)
    for guess, following in zip(ordered, [*ordered[1:], math.inf], strict=True):
        factor, raise_by = guess, FIRST_RAISE
        for _ in range(RAISES):
            if factor > following:
                break
            if holds(factor):
                return factor
            factor, raise_by = guess * (1 + raise_by), raise_by * 8
    return None


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
    elif len(moved) == 1 and moved[0][0].touched == moved[0][0].coordinates and moved[0][0].length is None:
        only, unit = moved[0]
        enough = min(guesses) * unit
        if is_coarse(only.coordinates, enough):
            facts = only.per_coordinate, only.coordinates, enough, float(epsilon), float(delta)
            guesses.append(approximate_lattice_sigma(*facts) / unit)
    elif len(moved) > 1:
        mixed = _mixed_factor(moved, min(guesses), float(epsilon), float(delta))
        guesses.extend([] if mixed is None else [mixed])
    return guesses


def _mixed_factor(moved: Sequence[tuple[Shift, float]], enough: float, epsilon: float, delta: float) -> float | None:
    """Approximately the smallest factor with coarse parts summed and the others rounded, if that is worth its time."""
    units = {GaussianNoise(shift, Fraction(enough * unit)): unit for shift, unit in moved}
    coarse, finer = coarse_and_finer([GaussianNoise(shift, Fraction(enough * unit)) for shift, unit in moved], delta)
    if not coarse:
        return None

    def excess(factor: float) -> float:
        """ln(δ at this factor / δ), roughly linear in the factor."""
        rounded = [(part.shift.l2_squared, (factor * units[part]) ** 2 - ROUNDED) for part in finer]
        if any(variance <= 0 for _, variance in rounded):
            return math.inf
        norm_squared = sum(square / variance for square, variance in rounded)
        summed = tuple(as_coarse(part)._replace(sigma=Fraction(factor * units[part])) for part in coarse)
        return math.log(max(approximate_mixed_delta(summed, norm_squared, epsilon, delta), SMALLEST) / delta)

    found = before = enough * (1 - WORTH_SUMMING)
    above = excess(before)
    if above > 0:
        return None
    guess = found * (1 - WORTH_SUMMING)
    for _ in range(SECANTS):
        here = excess(guess)
        found = min(found, guess) if here <= 0 else found
        slope = (here - above) / (guess - before) if guess != before else 0.0
        if not math.isfinite(slope) or slope >= 0:
            break
        before, above, guess = guess, here, (guess - here / slope) * JUST_ENOUGH
        # A line says little when δ is far below the target, and sums of wide noise have no end.
        if not 0 < guess < enough:
            break
    return found


def _zcdp_factor(moved: Sequence[tuple[Shift, float]], epsilon: Fraction, delta: Fraction) -> float:
    """ρ = Σ l2²/2(factor·unit)² at the largest ρ that ε and δ allow."""
    squared = sum(shift.l2_squared / unit**2 for shift, unit in moved)
    return math.sqrt(squared / (2 * largest_zcdp(float(epsilon), float(delta))))


def _continuous_factor(
    moved: Sequence[tuple[Shift, float]], tau: Fraction, norm: float, epsilon: Fraction, delta: Fraction
) -> float | None:
    """The factor with Σ l2²/((factor·unit)² − τ²) = μ², μ lowered by what the rounding lemma costs in ε and δ."""
    variance = float(tau)
    squared = sum(shift.l2_squared / unit**2 for shift, unit in moved) / norm**2
    widest = math.sqrt(squared + variance / min(unit for _, unit in moved) ** 2)
    error = sum(shift.touched * approximate_rounding_error(widest * unit, variance) for shift, unit in moved)
    if 4 * error >= float(epsilon) or error > 0.01:
        return None
    lowered = norm
    if error > 1e-14:
        lowered *= approximate_norm(float(epsilon) - 2 * error, float(delta) * (1 - error)) / approximate_norm(
            float(epsilon), float(delta)
        )
    spans = [(float(shift.l2_squared), unit**2) for shift, unit in moved]
    return math.sqrt(_spending(spans, variance, lowered**2)) * JUST_ABOVE


def _spending(spans: Sequence[tuple[float, float]], variance: float, most: float) -> float:
    """The x with Σ s/(x·u − variance) = most over all spans (s, u).

    The sum is convex and falls, so Newton's steps climb to it from any x below, such as where one of its terms alone is
    `most`.
    """
    found = max((variance + square / most) / unit for square, unit in spans)
    for _ in range(MOST_STEPS):
        parts = [(square / (found * unit - variance), unit / (found * unit - variance)) for square, unit in spans]
        step = (sum(part for part, _ in parts) - most) / sum(part * slope for part, slope in parts)
        found += step
        if step <= 1e-15 * found:
            break
    return found


def _discrete_sigma(shift: int, analytic: float, enough: float, epsilon: float, delta: float) -> float:
    """The smallest σ found whose exact δ is small enough; on a coarse grid δ is not monotone, so σ is scanned."""
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
    """P[X > εσ²/Δ − Δ/2] − e^ε·P[X > εσ²/Δ + Δ/2] in floats; terms below e^−NEGLIGIBLE of the largest are left out."""
    scale = 2 * sigma**2
    edge = math.sqrt(NEGLIGIBLE * scale)
    first = math.floor(max(-edge, epsilon * sigma**2 / shift - shift / 2)) + 1
    if first > 6 * edge:
        return 0.0
    points = np.arange(first, math.hypot(max(first, 0), edge) + 1, dtype=np.float64)
    gained = np.exp(-(points**2) / scale)
    lost = np.exp(np.minimum(epsilon - (points + shift) ** 2 / scale, 0.0))
    return float(np.sum(gained - np.minimum(lost, gained))) / _total(sigma, edge)


def _total(sigma: float, edge: float) -> float:
    """Σ e^{−k²/2σ²} over all integers; from σ = 1 on by Poisson summation, whose next term is below 10⁻³⁴."""
    if sigma >= 1:
        return sigma * math.sqrt(2 * math.pi) * (1 + 2 * math.exp(-2 * (math.pi * sigma) ** 2))
    return 1 + 2 * sum(math.exp(-((k / sigma) ** 2) / 2) for k in range(1, math.ceil(edge) + 1))
