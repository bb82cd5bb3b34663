"""The δ of discrete Gaussian noise on coarse grids together with finer Gaussian noise, when all of it moves at once.

A coarse part moves by s steps in each of d coordinates; its loss, (2·s·S + d·s²)/2σ², depends only on the sum S of its noises.
The finer parts are treated as continuous noise of norm μ. Given the sums t of the coarse parts, the finer noise may lose what
they leave of ε, so

    δ = Σ_t P[t]·δ_μ(ε − loss(t)),   δ_μ(x) = Φ(μ/2 − x/μ) − e^x·Φ(−μ/2 − x/μ),   δ₀(x) = max(0, 1 − e^x).

P[S = t] comes from `lattice`, rounded up. Terms that matter are enclosed. For the others, δ_μ is bounded by 1 if the chance is
tiny, and by its value at the largest small loss if the loss is small (docs/theory/noise.md).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from shoal.mechanisms.certificates.lattice import BITS, law_of_sum
from shoal.mechanisms.certificates.normal import gaussian_delta
from shoal.mechanisms.certified import arithmetic, around, exp_of_minus
from shoal.remembered import remembered

NEGLIGIBLE = 1e-5
"""The part of δ that may be lost, for each reason, by not examining single terms."""
WIDEST, MOST_COORDINATES, MOST_TERMS = 3, 12, 250
"""Beyond these (σ, d, and roughly how many terms are enclosed) continuous noise is nearly optimal, or sums take too long:
with several groups there is one sum per number of groups, and every alternative in a search has its own.
"""
LEAST_SUMMED = 0.5**BITS / NEGLIGIBLE
"""Below this δ, a chance rounded up to one part in 2¹⁶⁰ is no longer negligible: every sum would be examined
and none could prove anything."""
LARGEST_EXPONENT, SMALLEST = 700.0, 1e-300
ROOT_OF_TWO = math.sqrt(2)


class Coarse(NamedTuple):
    """Noise of scale σ on this many integers, each moved by `shift`."""

    shift: int
    coordinates: int
    sigma: Fraction

    @property
    def terms(self) -> float:
        """Roughly how many sums of its noises matter."""
        return 6 * float(self.sigma) * math.sqrt(self.coordinates) + 3

    @property
    def is_coarse(self) -> bool:
        """Whether the grid is wide relative to the noise, and the distribution of the sum quick to compute."""
        return self.sigma <= WIDEST and self.coordinates <= MOST_COORDINATES


class Term(NamedTuple):
    """A chance in 2⁻¹⁶⁰, rounded up, and what is left of ε there."""

    mass: int
    left: Fraction


@remembered(256)
def mixed_delta(coarse: tuple[Coarse, ...], norm_squared: Fraction, epsilon: Fraction, delta: Fraction) -> Decimal:
    """An upper bound on the δ of coarse parts and of continuous noise of this squared norm.

    `delta` decides what is negligible; the bound holds for any value.
    """
    enough = NEGLIGIBLE * float(delta)
    with arithmetic():
        unit, total = Decimal(1) / (1 << BITS), Decimal(0)
        terms = [Term(1 << BITS, epsilon)]
        for part in coarse:
            masses, beyond = law_of_sum(part.sigma, part.coordinates)
            near, cut = _near(masses, enough)
            total += beyond + cut * unit
            terms = [_after(term, part, position, mass) for term in terms for position, mass in near]
        single, bounded = _singled_out(terms, math.sqrt(float(norm_squared)), enough)
        total += sum(term.mass for term in bounded.rare) * unit
        if bounded.small:
            least = min(term.left for term in bounded.small)
            total += sum(term.mass for term in bounded.small) * unit * _rest(norm_squared, least)
        for term in single:
            total += term.mass * unit * _rest(norm_squared, term.left)
        return around(total).upper


def _near(masses: tuple[int, ...], enough: float) -> tuple[list[tuple[int, int]], int]:
    """Sums with their masses, from the middle outwards until the remainder is negligible, and that remainder."""
    middle, most = (len(masses) - 1) // 2, int(enough * (1 << BITS)) if enough > 0.5**BITS else 0
    cut, reach = 0, middle
    while reach and cut + masses[middle - reach] + masses[middle + reach] <= most:
        cut += masses[middle - reach] + masses[middle + reach]
        reach -= 1
    return [(position, masses[middle + position]) for position in range(-reach, reach + 1)], cut


def _after(term: Term, part: Coarse, position: int, mass: int) -> Term:
    loss = Fraction(2 * part.shift * position + part.coordinates * part.shift**2) / (2 * part.sigma**2)
    return Term(-(-(term.mass * mass) >> BITS), term.left - loss)


class Bounded(NamedTuple):
    """Terms that are not examined individually: those of tiny chance, and those of small loss."""

    rare: list[Term]
    small: list[Term]


def _singled_out(terms: list[Term], norm: float, enough: float) -> tuple[list[Term], Bounded]:
    """Which terms to enclose, and which to bound all at once: floats choose, and any choice is valid."""
    ordered = sorted(terms, key=lambda term: term.mass)
    rare, total = 0, 0.0
    while rare < len(ordered) and total + ordered[rare].mass * 0.5**BITS <= enough:
        total += ordered[rare].mass * 0.5**BITS
        rare += 1
    by_loss = sorted(ordered[rare:], key=lambda term: -term.left)
    small, chance = 0, 0.0
    while small < len(by_loss):
        chance += by_loss[small].mass * 0.5**BITS
        if chance * approximate_delta(norm, float(by_loss[small].left)) > enough:
            break
        small += 1
    return by_loss[small:], Bounded(ordered[:rare], by_loss[:small])


def _rest(norm_squared: Fraction, left: Fraction) -> Decimal:
    """An upper bound on δ_μ(left); without finer noise, on max(0, 1 − e^left)."""
    if norm_squared:
        return gaussian_delta(norm_squared, left)
    return 1 - exp_of_minus(-left).lower if left < 0 else Decimal(0)


def approximate_delta(norm: float, epsilon: float) -> float:
    """δ_μ in floats."""
    if not norm:
        return max(0.0, -math.expm1(min(epsilon, 0.0)))
    near, far = epsilon / norm - norm / 2, epsilon / norm + norm / 2
    kept = math.erfc(far / ROOT_OF_TWO) * math.exp(epsilon) if epsilon < LARGEST_EXPONENT else 0.0
    return max(0.0, math.erfc(near / ROOT_OF_TWO) - kept) / 2


def approximate_mixed_delta(coarse: tuple[Coarse, ...], norm_squared: float, epsilon: float, delta: float) -> float:
    """The δ of `mixed_delta` in floats: it proves nothing. A sum of discrete Gaussians is approximately one of scale σ√d."""
    terms, cut = [(1.0, epsilon)], max(NEGLIGIBLE * delta, SMALLEST)
    for part in coarse:
        double, width = 2 * float(part.sigma) ** 2, float(part.sigma) * math.sqrt(part.coordinates)
        reach = math.ceil(width * math.sqrt(-2 * math.log(cut))) + 1
        sums = range(-reach, reach + 1)
        weights = [math.exp(-((position / width) ** 2) / 2) for position in sums]
        whole = sum(weights)
        law = [
            (weight / whole, (2 * part.shift * position + part.coordinates * part.shift**2) / double)
            for position, weight in zip(sums, weights, strict=True)
        ]
        terms = [(mass * chance, left - loss) for mass, left in terms for chance, loss in law if mass * chance > cut]
    norm = math.sqrt(norm_squared)
    return sum(mass * approximate_delta(norm, left) for mass, left in terms)
