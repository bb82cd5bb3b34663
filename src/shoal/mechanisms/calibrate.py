"""Pure calibration: (budget, sensitivity) → scale and threshold, and scale → error bars. No data, no randomness.

Everything privacy depends on is an exact rational or an outward-rounded bound for the discrete noise actually drawn.

    >>> laplace_scale(Shift(1), Fraction(1, 10))
    Fraction(10, 1)
    >>> noise = LaplaceNoise(Shift(1), Fraction(1))
    >>> threshold_for(noise, 1, Fraction(1, 10**5))
    13
    >>> noise_quantile(noise, 0.95)
    3
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from shoal.accounting.events import (
    AdditiveNoise,
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    SelectedGaussian,
    Shift,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.errors import InternalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.mechanisms.certified import ARITHMETIC, Enclosure, decimal_below, round_scale_up
from shoal.mechanisms.gaussian_certificate import (
    approximate_norm,
    joint_gaussian_certificate,
    joint_gaussian_holds,
    zcdp_holds,
)
from shoal.mechanisms.joint_gaussian import gaussian_sigma, grouped_gaussian_sigmas, joint_gaussian_sigmas
from shoal.mechanisms.tails import gaussian_tail, laplace_tail, noise_tail, pair_tail
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.accounting.events import Event

Selected = ThresholdSelection | WeightedSelection | WholeSelection

__all__ = [
    "Enclosure",
    "JointScales",
    "approx_bounds_threshold",
    "approximate_gaussian_threshold",
    "approximate_norm",
    "best_delta_split",
    "delta_per_group",
    "gaussian_sigma",
    "gaussian_tail",
    "joint_gaussian_certificate",
    "joint_gaussian_holds",
    "joint_gaussian_sigmas",
    "joint_scales",
    "laplace_scale",
    "laplace_tail",
    "mixed_quantile",
    "mixed_width",
    "noise_quantile",
    "noise_standard_deviation",
    "noise_tail",
    "normal_point",
    "pair_quantile",
    "pair_tail",
    "round_scale_up",
    "smallest_pair_point",
    "smallest_tail_point",
    "threshold_for",
    "threshold_holds",
    "zcdp_holds",
]

DELTA_BITS = 64
SPLITS = tuple(Fraction(n, 32) for n in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 31))


def laplace_scale(shift: Shift, epsilon: Fraction) -> Fraction:
    """The discrete Laplace scale b = Δ₁/ε in steps, rounded up to 40 binary digits; 0 when nothing can move."""
    if epsilon <= 0:
        raise InternalError("Laplace noise needs a positive ε")
    return round_scale_up(shift.l1 / epsilon)


@remembered(1024)
def delta_per_group(delta: Fraction, max_groups_per_owner: int) -> Fraction:
    """δ₁ = 1 − (1−δ)^{1/κ}, rounded down to 64 binary digits: κ independent chances of δ₁ make at most δ.

    >>> delta_per_group(Fraction(1, 2), 1)
    Fraction(1, 2)
    """
    if max_groups_per_owner == 1:
        return delta
    small = delta / max_groups_per_owner
    with localcontext(ARITHMETIC) as context:
        context.prec += len(str(small.denominator // small.numerator))  # digits that 1 − … cancels
        kept = Decimal((1 - delta).numerator) / Decimal((1 - delta).denominator)
        missing = 1 - (kept.ln() / max_groups_per_owner).exp()
        return _round_down(Fraction(missing * (1 - Decimal("1e-60"))))


def _round_down(value: Fraction) -> Fraction:
    unit = Fraction(2) ** (DELTA_BITS - (value.numerator.bit_length() - value.denominator.bit_length()))
    return math.floor(value * unit) / unit


FINE_SCALE_BITS = 40
"""Noise up to 2⁴⁰ steps wide has thresholds in single steps."""


@remembered(4096)
def smallest_tail_point(noise: AdditiveNoise, chance: Fraction) -> int:
    """The smallest integer k with P[X ≥ k] ≤ chance, for one entry of the noise and 0 < chance < 1.

    If the noise is wider than 2⁴⁰ steps: the smallest multiple of a unit of about 2⁻⁴⁰ of its scale. The rounding up is too small
    to notice, and the point is found near the first guess, which is good to a dozen digits.
    """
    bound, unit = decimal_below(chance), _unit_of_points(noise)

    def holds(point: int) -> bool:
        return noise_tail(noise, unit * point).upper <= bound

    return unit * first_point(holds, -(-_approximate_tail_point(noise, chance) // unit))


def first_point(holds: Callable[[int], bool], guess: int) -> int:
    """The first integer from which a condition holds, near a guess: takes twice the logarithm of the guess's error in steps."""
    high, step = guess, 1
    while not holds(high):
        high, step = high + step, 2 * step
    low, step = high - 1, 1
    while holds(low):
        low, high, step = low - step, low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _unit_of_points(noise: AdditiveNoise) -> int:
    scale = noise.scale if isinstance(noise, LaplaceNoise) else noise.sigma
    return 1 << max(0, int(scale).bit_length() - FINE_SCALE_BITS)


def _approximate_tail_point(noise: AdditiveNoise, chance: Fraction) -> int:
    """Approximately where the tail falls to this chance; a starting point."""
    if noise.shift.l1 == 0:
        return 0
    log_chance = float(decimal_below(chance).ln(ARITHMETIC))
    if isinstance(noise, LaplaceNoise):
        if 2 * chance > 1:
            return 1 - _approximate_tail_point(noise, 1 - chance)
        log_mass = math.log1p(math.exp(-min(700.0, float(1 / noise.scale))))
        return math.ceil(noise.scale * Fraction(-log_chance - log_mass))
    return math.ceil(noise.sigma * Fraction(_sharp_normal_point(log_chance)) + Fraction(1, 2))


def _sharp_normal_point(log_chance: float) -> float:
    """The same as `normal_point`, to a dozen digits."""
    point = normal_point(log_chance)
    for _ in range(3 if log_chance < -1 else 0):
        point = max(point, 0.1)
        point += (_log_normal_tail(point) - log_chance) / (point + 1 / point)
    return point


def _log_normal_tail(point: float) -> float:
    """Approximately ln P[N ≥ z], z > 0."""
    if point < 37:
        return math.log(math.erfc(point / math.sqrt(2)) / 2)
    shrink = -1 / point**2
    series = shrink * (1 + 3 * shrink * (1 + 5 * shrink * (1 + 7 * shrink)))
    return -(point**2) / 2 - math.log(point * math.sqrt(2 * math.pi)) + math.log1p(series)


def normal_point(log_chance: float) -> float:
    """Approximately the z with P[N ≥ z] = e^log_chance."""
    if log_chance > -30:
        return -NormalDist().inv_cdf(min(math.exp(log_chance), 1 - 1e-16))
    point = math.sqrt(-2 * log_chance)
    for _ in range(4):
        point = math.sqrt(-2 * (log_chance + math.log(point * math.sqrt(2 * math.pi))))
    return point


def noise_quantile(noise: AdditiveNoise, level: float) -> int:
    """The smallest q with P[|X| ≤ q] ≥ level, exact for the discrete noise: the half-width of an interval, in steps."""
    if not 0 < level < 1:
        raise InternalError("a confidence level lies between 0 and 1")
    return max(0, smallest_tail_point(noise, (1 - as_fraction(level)) / 2) - 1)


def noise_standard_deviation(noise: AdditiveNoise) -> float:
    """The standard deviation of one entry of the discrete noise, in steps.

    Laplace: 1/(√2·sinh(1/2b)). Gaussian: σ, or less on a coarse grid, where it is summed.
    """
    if noise.shift.l1 == 0:
        return 0.0
    if isinstance(noise, LaplaceNoise):
        half_rate = float(1 / (2 * noise.scale))
        return 1 / (math.sqrt(2) * math.sinh(half_rate)) if half_rate < 350 else 0.0
    sigma = float(noise.sigma)
    if sigma > 3:
        return sigma
    weights = [math.exp(-(k**2) / (2 * sigma**2)) if k < 40 * sigma else 0.0 for k in range(1, 121)]
    return math.sqrt(2 * sum(k**2 * w for k, w in enumerate(weights, start=1)) / (1 + 2 * sum(weights)))


@remembered(1024)
def smallest_pair_point(noise: AdditiveNoise, chance: Fraction) -> int:
    """The smallest integer k with P[X + Y ≥ k] ≤ chance, for two entries of the noise and 0 < chance < 1.

    For wider noise, in units of about 2⁻⁴⁰ of it, as in `smallest_tail_point`.
    """
    bound, unit = decimal_below(chance), _unit_of_points(noise)

    def holds(point: int) -> bool:
        return pair_tail(noise, unit * point).upper <= bound

    scale = noise.scale if isinstance(noise, LaplaceNoise) else noise.sigma * Fraction(math.sqrt(2))
    log_chance = float(decimal_below(chance).ln(ARITHMETIC))
    widths = -log_chance if isinstance(noise, LaplaceNoise) else _sharp_normal_point(log_chance)
    return unit * first_point(holds, -(-math.ceil(scale * Fraction(widths)) // unit))


def pair_quantile(noise: AdditiveNoise, level: float) -> int:
    """The smallest q with P[|X + Y| ≤ q] ≥ level, exact for the discrete noise."""
    return max(0, smallest_pair_point(noise, (1 - as_fraction(level)) / 2) - 1)


def mixed_width(noise: AdditiveNoise, first: float, second: float, level: float) -> float:
    """The q with P[|first·X + second·Y| ≤ q] = level for continuous noise of this kind and scale."""
    if isinstance(noise, LaplaceNoise):
        return mixed_quantile(float(noise.scale), first, second, level)
    return float(noise.sigma) * math.hypot(first, second) * NormalDist().inv_cdf((1 + level) / 2)


def mixed_quantile(scale: float, first: float, second: float, level: float) -> float:
    """The q with P[|first·X + second·Y| ≤ q] = level for continuous Laplace noise; discrete noise is at most one step wider.

    With scales a ≥ c, P[|…| > q] = (a²·e^{−q/a} − c²·e^{−q/c})/(a² − c²), and (1 + q/2a)·e^{−q/a} if they are equal.
    """
    large, small = sorted((abs(first) * scale, abs(second) * scale), reverse=True)

    def beyond(point: float) -> float:
        tail = math.exp(-point / large)
        if small < large * 1e-6:
            return tail
        if small > large * (1 - 1e-6):
            return (1 + point / (2 * large)) * tail
        return (large**2 * tail - small**2 * math.exp(-point / small)) / (large**2 - small**2)

    low, high = 0.0, large
    while beyond(high) > 1 - level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > 1 - level else (low, middle)
    return high


def threshold_for(noise: AdditiveNoise, max_groups_per_owner: int, delta: Fraction) -> int:
    """The smallest τ with 1 − (1 − P[1 + X ≥ τ])^κ ≤ δ for the discrete noise X actually drawn.

    A group of n owners is kept when n + X ≥ τ: the same ≥ on both sides.
    """
    return 1 + smallest_tail_point(noise, delta_per_group(delta, max_groups_per_owner))


def threshold_holds(selection: ThresholdSelection) -> bool:
    """Whether any of one owner's κ own groups appears with a chance of at most δ, by certified tails."""
    chance = noise_tail(selection.noise, selection.threshold - 1).upper
    return chance <= decimal_below(delta_per_group(selection.delta, selection.max_groups_per_owner))


@dataclass(frozen=True, slots=True)
class JointScales:
    """Scales of jointly charged Gaussian releases, one of which is compared with a threshold, and the δ of noise and threshold."""

    sigmas: tuple[Fraction, ...]
    delta_noise: Fraction
    delta_threshold: Fraction
    one_delta: bool
    """Whether the two share one δ instead of splitting it."""

    def events(self, parts: tuple[GaussianNoise, ...], epsilon: Fraction, selection: Selected) -> tuple[Event, ...]:
        """The charge for parts with these scales, and for the selection that reads one of them."""
        if self.one_delta:
            return (SelectedGaussian(parts, epsilon, self.delta_noise, selection),)
        return JointGaussian(parts, epsilon, self.delta_noise), selection


def joint_scales(
    shifts: Sequence[Shift],
    weights: Sequence[Fraction | float],
    max_groups_per_owner: int,
    epsilon: Fraction,
    delta: Fraction,
    *,
    by_groups: bool = True,
) -> JointScales:
    """All of δ for both the noise and the threshold, if they can be proven to share it; else the best split.

    `by_groups`: whether an owner moves only numbers of its own groups. Floats choose the split; scales are certified for it.
    """
    if by_groups:
        sigmas = grouped_gaussian_sigmas(shifts, weights, epsilon, delta, max_groups_per_owner)
        if sigmas is not None:
            return JointScales(sigmas, delta, delta, one_delta=True)
    delta_noise = delta * best_delta_split(max_groups_per_owner, epsilon, delta)
    apart = joint_gaussian_sigmas(shifts, weights, epsilon, delta_noise)
    return JointScales(apart, delta_noise, delta - delta_noise, one_delta=False)


@remembered(1024)
def best_delta_split(max_groups_per_owner: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The part of δ for Gaussian noise that makes the threshold smallest, whatever share of the norm the count has."""

    def height(split: Fraction) -> float:
        return _threshold_at(split, max_groups_per_owner, epsilon, delta)

    return min(SPLITS, key=height)


def _threshold_at(split: Fraction, max_groups_per_owner: int, epsilon: Fraction, delta: Fraction) -> float:
    return _threshold_for(delta * split, delta * (1 - split), max_groups_per_owner, epsilon)


def _threshold_for(of_noise: Fraction, of_threshold: Fraction, max_groups_per_owner: int, epsilon: Fraction) -> float:
    point = normal_point(math.log(float(of_threshold) / max_groups_per_owner))
    return point * math.sqrt(max_groups_per_owner) / approximate_norm(float(epsilon), float(of_noise))


def approximate_gaussian_threshold(max_groups_per_owner: int, epsilon: Fraction, delta: Fraction) -> float:
    """Approximate threshold of a Gaussian owner count that has (ε, δ) to itself; it proves nothing."""
    return 1 + _threshold_for(delta, delta, max_groups_per_owner, epsilon)


def approx_bounds_threshold(noise: AdditiveNoise, bins: int, probability: Fraction) -> int:
    """The smallest K ≥ 0 for which, with this probability, no empty bin among bins − 1 shows a noisy count *above* K.

    Exact-tail version of K = −(1/ε)·ln(2 − 2·P^{1/(B−1)}): (1 − P[X > K])^{B−1} ≥ P.
    """
    if not 0 < probability < 1 or bins < 1:
        raise InternalError("a histogram has bins, and a chance lies between 0 and 1")
    return max(0, smallest_tail_point(noise, delta_per_group(1 - probability, max(1, bins - 1))) - 1)


@remembered(256)
def _tail_of_sum(terms: int) -> tuple[float, ...]:
    """P[S > t] = e^{−t}·(c₀ + c₁t + …) for the sum S of this many Laplace noises of scale 1.

    S is the difference of two gamma variables of shape n. Where it is positive, it is one of shape n − j, with the weight
    C(n − 1 + j, j)/2ⁿ⁺ʲ.

    >>> _tail_of_sum(3) == (1 / 2, 5 / 16, 1 / 16)
    True
    """
    weights = [Fraction(math.comb(terms - 1 + j, j), 2 ** (terms + j)) for j in range(terms)]
    return tuple(float(sum(weights[: terms - k]) / math.factorial(k)) for k in range(terms))


def log_sum_tail(terms: int, point: float) -> float:
    """The logarithm of the chance that the sum of so many independent Laplace noises of scale 1 exceeds a positive point.

    >>> round(math.exp(log_sum_tail(4, 7.97)), 3)
    0.005
    """
    return math.log(sum(c * point**power for power, c in enumerate(_tail_of_sum(terms)))) - point


@remembered(256)
def sum_tail_point(scale: float, terms: int, chance: float) -> float:
    """The point that the sum of independent Laplace noises of one scale exceeds with this chance, below one half.

    Gaussian noise of the same variance exceeds it less often, for chances below a hundredth.

    >>> round(sum_tail_point(2.0, 1, 0.005), 2), round(sum_tail_point(2.0, 4, 0.005), 2)
    (9.21, 15.94)
    """
    low, high = 0.0, 100.0 + 4 * abs(math.log(chance))
    while high - low > 1e-9 * high:
        point = (low + high) / 2
        low, high = (point, high) if log_sum_tail(terms, point) > math.log(chance) else (low, point)
    return scale * high
