"""Exact tails of the discrete noise actually drawn, as bounds that contain the true value.

**Discrete Laplace**, r = e^{−1/b}: P[X ≥ k] = r^k/(1 + r) for k ≥ 1.

Two of them added, k ≥ 0: P[X + Y ≥ k] = r^k/(1 + r)²·(k·(1 − r) + r + (1 + r²)/(1 + r)), since P[X + Y = k] =
((1 − r)/(1 + r))²·r^k·(k + (1 + r²)/(1 − r²)).

**Two discrete Gaussians added**: P[X + Y = k]·Z² = e^{−k²/4σ²}·Σ_x e^{−(x − k/2)²/σ²}, and the sum is σ√π·(1 ± η) with
η = 2Σ_{j≥1} e^{−π²σ²j²}, by Poisson summation: the tail of one discrete Gaussian of scale σ√2, up to a known factor.

**Discrete Gaussian**: P[X ≥ k] = T(k)/Z with T(k) = Σ_{j≥k} e^{−j²/2σ²} and Z = Σ_j e^{−j²/2σ²}. For σ ≥ 1 Poisson
summation gives Z = σ√(2π)·(1 + 2Σ_{j≥1} e^{−2π²σ²j²}). T(k) is summed term by term for σ ≤ 16 and far in the tail;
otherwise by the Euler–Maclaurin formula around the midpoint a = k − ½, z = a/σ, with Hermite polynomials He and
Bernoulli polynomials B:

    T(k) = σ√(2π)·Q(z) + Σ_{m=1}^{p} B_{2m}(½)/(2m)! · σ^{1−2m} He_{2m−1}(z) e^{−z²/2} + R,
    |R| ≤ 4·(2πσ)^{−2p}·σ·∫_z^∞ He⁺_{2p}(y) e^{−y²/2} dy,

He⁺ being He with positive coefficients: the rest is ∫ B̃_{2p}(x)/(2p)!·f^{(2p)}(x) dx, |B̃_{2p}|/(2p)! ≤
2ζ(2p)/(2π)^{2p} ≤ 4/(2π)^{2p}, and f^{(n)}(x) = (−1/σ)^n He_n(x/σ) f(x).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from shoal.accounting.events import AdditiveNoise, LaplaceNoise
from shoal.mechanisms.certified import (
    PI,
    Enclosure,
    arithmetic,
    around,
    complement,
    decimal_near,
    exp_of_minus,
    normal_tail,
)
from shoal.remembered import remembered

CERTAIN = Enclosure(Decimal(1), Decimal(1))
IMPOSSIBLE = Enclosure(Decimal(0), Decimal(0))
SUMMED_UP_TO = 16
EXPANDED_FROM = 64
CORRECTIONS = 16
NEGLIGIBLE = Decimal("1e-65")


def noise_tail(noise: AdditiveNoise, least: int) -> Enclosure:
    """P[X ≥ least] for one entry of the noise; noise of shift 0 is not drawn, X = 0."""
    if noise.shift.l1 == 0:
        return CERTAIN if least <= 0 else IMPOSSIBLE
    if isinstance(noise, LaplaceNoise):
        return laplace_tail(noise.scale, least)
    return gaussian_tail(noise.sigma, least)


def laplace_tail(scale: Fraction, least: int) -> Enclosure:
    """P[X ≥ least] for P[X = k] ∝ exp(−|k|/scale), as bounds.

    >>> float(laplace_tail(Fraction(1), 1).upper)
    0.2689414213699951
    """
    if least <= 0:
        return complement(laplace_tail(scale, 1 - least))
    power, ratio = exp_of_minus(least / scale), exp_of_minus(1 / scale)
    with arithmetic():
        return Enclosure(around(power.lower / (1 + ratio.upper)).lower, around(power.upper / (1 + ratio.lower)).upper)


def laplace_pair_tail(scale: Fraction, least: int) -> Enclosure:
    """P[X + Y ≥ least] for two independent draws with P[X = k] ∝ exp(−|k|/scale), as bounds.

    >>> float(laplace_pair_tail(Fraction(1), 0).upper)
    0.6402008309570565
    """
    if least < 0:
        return complement(laplace_pair_tail(scale, 1 - least))
    power, ratio = exp_of_minus(least / scale), exp_of_minus(1 / scale)
    with arithmetic():
        low, high = ratio
        below = least * (1 - high) + low + (1 + low * low) / (1 + high)
        above = least * (1 - low) + high + (1 + high * high) / (1 + low)
        return Enclosure(
            around(power.lower * below / (1 + high) ** 2).lower, around(power.upper * above / (1 + low) ** 2).upper
        )


def pair_tail(noise: AdditiveNoise, least: int) -> Enclosure:
    """P[X + Y ≥ least] for two entries of the noise."""
    if isinstance(noise, LaplaceNoise):
        return laplace_pair_tail(noise.scale, least)
    return gaussian_pair_tail(noise.sigma, least)


@remembered(4096)
def gaussian_pair_tail(sigma: Fraction, least: int) -> Enclosure:
    """P[X + Y ≥ least] for two independent draws with P[X = k] ∝ exp(−k²/2σ²), as bounds.

    >>> round(float(gaussian_pair_tail(Fraction(3), 0).upper), 6)
    0.547016
    """
    if least <= 0:
        return complement(gaussian_pair_tail(sigma, 1 - least))
    fine = 10**40
    below = Fraction(math.isqrt(2 * sigma.numerator**2 * fine**2 // sigma.denominator**2), fine)
    above = below + Fraction(1, fine)
    one = gaussian_total(sigma)
    with arithmetic():
        wave = (-(PI * PI) * decimal_near(sigma**2)).exp()
        ripple = around(2 * wave / (1 - wave**3)).upper
        root = decimal_near(sigma) * PI.sqrt()
        low, high = (_tail_mass(scale, least) for scale in (below, above))
        lower = around(low.lower * root * max(1 - ripple, Decimal(0)) / one.upper**2).lower
        return Enclosure(lower, min(around(high.upper * root * (1 + ripple) / one.lower**2).upper, Decimal(1)))


def _tail_mass(sigma: Fraction, least: int) -> Enclosure:
    """Σ_{j≥least} e^{−j²/2σ²}: a tail times all mass. It grows with σ."""
    tail, total = gaussian_tail(sigma, least), gaussian_total(sigma)
    with arithmetic():
        return Enclosure(around(tail.lower * total.lower).lower, around(tail.upper * total.upper).upper)


@remembered(4096)
def gaussian_tail(sigma: Fraction, least: int) -> Enclosure:
    """P[X ≥ least] for P[X = k] ∝ exp(−k²/2σ²), as bounds."""
    if least <= 0:
        return complement(gaussian_tail(sigma, 1 - least))
    near = sigma > EXPANDED_FROM or (sigma > SUMMED_UP_TO and 2 * least <= sigma**2)
    above = _expanded_tail(sigma, least) if near else _summed_tail(sigma, least)
    total = gaussian_total(sigma)
    with arithmetic():
        return Enclosure(around(above.lower / total.upper).lower, around(above.upper / total.lower).upper)


@remembered(256)
def gaussian_total(sigma: Fraction) -> Enclosure:
    """Z = Σ_k e^{−k²/2σ²}."""
    if sigma < 1:
        above = _summed_tail(sigma, 1)
        with arithmetic():
            return Enclosure(around(1 + 2 * above.lower).lower, around(1 + 2 * above.upper).upper)
    with arithmetic():
        wide = decimal_near(sigma) * (2 * PI).sqrt()
        return around(wide * (1 + 2 * sum((wrapped(sigma**2, order) for order in range(1, 5)), Decimal(0))))


def wrapped(variance: Fraction, order: int) -> Decimal:
    """e^{−2π²·variance·order²}, a Fourier coefficient of Gaussian noise wrapped around the circle of length 1."""
    with arithmetic():
        return (-2 * PI * PI * decimal_near(variance * order**2)).exp()


def _summed_tail(sigma: Fraction, least: int) -> Enclosure:
    """Σ_{j≥least} e^{−j²/2σ²} term by term; ratios of neighbours fall, so the rest is below a geometric series."""
    if least**2 / (2 * sigma**2) > 10**17:
        return Enclosure(Decimal(0), exp_of_minus(least**2 / (2 * sigma**2)).upper * 2)
    with arithmetic():
        half = decimal_near(1 / (2 * sigma**2))
        term, ratio, shrink = (-(half * least**2)).exp(), (-(half * (2 * least + 1))).exp(), (-2 * half).exp()
        total = term
        while (rest := term * ratio / (1 - ratio)) > total * NEGLIGIBLE:
            term *= ratio
            ratio *= shrink
            total += term
        return Enclosure(around(total).lower, around(total + rest).upper)


def _expanded_tail(sigma: Fraction, least: int) -> Enclosure:
    """Σ_{j≥least} e^{−j²/2σ²} by Euler–Maclaurin around the midpoint (see the top of the module)."""
    with arithmetic():
        wide, point = decimal_near(sigma), decimal_near((least - Fraction(1, 2)) / sigma)
        level, integral = (-(point * point) / 2).exp(), normal_tail(point)
        root = (2 * PI).sqrt()
        corrections = level * _corrections(wide, point)
        moments = _hermite_integral(point, level, root * integral.upper)
        rest = 4 * wide * moments / (2 * PI * wide) ** (2 * CORRECTIONS)
        lower, upper = (wide * root * end + corrections for end in integral)
        return Enclosure(max(around(lower).lower - rest, Decimal(0)), around(upper).upper + rest)


def _corrections(wide: Decimal, point: Decimal) -> Decimal:
    """Σ_m B_{2m}(½)/(2m)!·σ^{1−2m}·He_{2m−1}(z)."""
    before, hermite = Decimal(1), point
    total = Decimal(0)
    for order, weight in enumerate(_midpoint_weights(), start=1):
        total += decimal_near(weight) * hermite / wide ** (2 * order - 1)
        before, hermite = hermite, point * hermite - (2 * order - 1) * before
        before, hermite = hermite, point * hermite - 2 * order * before
    return total


def _hermite_integral(point: Decimal, level: Decimal, mass: Decimal) -> Decimal:
    """∫_z^∞ He⁺_{2p}(y) e^{−y²/2} dy, by the moments M_j = z^{j−1}e^{−z²/2} + (j − 1)·M_{j−2}, M₀ = √(2π)·Q(z)."""
    degree = 2 * CORRECTIONS
    moment, total = mass, Decimal(0)
    for power in range(0, degree + 1, 2):
        if power:
            moment = point ** (power - 1) * level + (power - 1) * moment
        pairs = (degree - power) // 2
        total += moment * (math.factorial(degree) // (math.factorial(pairs) * math.factorial(power) * 2**pairs))
    return total


@lru_cache(maxsize=1)
def _midpoint_weights() -> tuple[Fraction, ...]:
    """B_{2m}(½)/(2m)! = −(1 − 2^{1−2m})·B_{2m}/(2m)! for m = 1 … CORRECTIONS."""
    bernoulli = [Fraction(1)]
    for order in range(1, 2 * CORRECTIONS + 1):
        lower = sum((math.comb(order + 1, k) * bernoulli[k] for k in range(order)), Fraction(0))
        bernoulli.append(-lower / (order + 1))
    return tuple(-(1 - Fraction(2, 4**m)) * bernoulli[2 * m] / math.factorial(2 * m) for m in range(1, CORRECTIONS + 1))
