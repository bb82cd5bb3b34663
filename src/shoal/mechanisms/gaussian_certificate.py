"""Certificates that a vector of discrete Gaussian noise is (ε, δ)-private, and the smallest noise that has one.

`joint_gaussian_certificate` decides, both when a plan is made and when it is verified. A certificate is
rigorous: all reals are enclosed, all roundings go outward. There are five (proofs in docs/theory/noise.md), tried in
this order:

*discrete*: one shifted coordinate, shift Δ. P[X > εσ²/Δ − Δ/2] − e^ε·P[X > εσ²/Δ + Δ/2] ≤ δ, exact for the noise drawn.

*continuous*: rounding lemma. For 0 < τ < σ, discrete noise of variance σ² equals, up to a factor within (1 ± w) per
coordinate, continuous noise of variance r² = σ² − τ² that is rounded at random to an integer. With s² = r²τ²/σ², η =
2Σ_{j≥1} e^{−2π²τ²j²}: w = 2Σ_{j≥1} e^{−2π²(τ²+s²)j²} + η²/(1 − η). Over d shifted coordinates, μ² = Σ Δᵢ²/rᵢ², ε′ = ε
− Σ ln((1+w)/(1−w)), δ′ = δ·Π(1−w): Φ(μ/2 − ε′/μ) − e^{ε′}·Φ(−μ/2 − ε′/μ) ≤ δ′ suffices.

*lattice*: one part in several coordinates on a coarse grid; the sum of its noises is convolved (`certificates.lattice`).

*zcdp*: ρ = Σ Δᵢ²/2σᵢ²; e^{(α−1)(αρ−ε)}·(1 − 1/α)^α/(α − 1) ≤ δ for some α > 1.

*mixed*: parts on coarse grids are summed as in *lattice*, the others are treated as continuous noise (`certificates.mixed`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from shoal.mechanisms.certificates.lattice import is_coarse, lattice_delta
from shoal.mechanisms.certificates.mixed import LEAST_SUMMED, MOST_TERMS, Coarse, mixed_delta
from shoal.mechanisms.certificates.normal import gaussian_delta
from shoal.mechanisms.certified import (
    ARITHMETIC,
    arithmetic,
    around,
    decimal_below,
    decimal_near,
    exp_of_minus,
)
from shoal.mechanisms.tails import gaussian_tail, wrapped
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.accounting.events import GaussianNoise

Certificate = Literal["discrete", "continuous", "lattice", "zcdp", "mixed"]
Terms = tuple[Fraction, Fraction, Decimal]
"""μ², ε′ and the factor of δ′ of the rounding theorem."""
ROUNDING_VARIANCES = tuple(Fraction(n, 8) for n in (3, 4, 5, 6, 8, 10, 12, 16))
"""Candidates for τ²: a larger one rounds more faithfully and leaves less of the variance."""
SHRINKS_FROM, MOST_SHRUNK = 64, 4
"""Noise of this many steps may later shrink to a quarter when bounds are found; certificates allow for it."""
NORM_PRECISION = 2e-12
LAST_STEP, SMALLEST_GAP, MOST_STEPS = 1e-8, 1e-14, 200
SMALLEST_FLOAT = 5e-324
ROOT_OF_TWO, LOG_ROOT_OF_TWO_PI = math.sqrt(2), math.log(2 * math.pi) / 2


def joint_gaussian_certificate(
    parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction
) -> Certificate | Literal["none needed"] | None:
    """Why these releases together are (epsilon, delta)-private, or None when no certificate holds."""
    shifted = tuple(replace(part, grid=Fraction(1)) for part in parts if part.shift.l1)  # the grid proves nothing
    return _certificate(shifted, epsilon, delta) if shifted else "none needed"


@remembered(1024)
def _certificate(shifted: tuple[GaussianNoise, ...], epsilon: Fraction, delta: Fraction) -> Certificate | None:
    if len(shifted) == 1 and shifted[0].shift.touched == 1 and _holds_discrete(shifted[0], epsilon, delta):
        return "discrete"
    if _holds_continuous(shifted, epsilon, delta):
        return "continuous"
    if _is_lattice(shifted) and _holds_lattice(shifted[0], epsilon, delta):
        return "lattice"
    if zcdp_holds(sum((part.rho for part in shifted), Fraction(0)), epsilon, delta):
        return "zcdp"
    mixed = _mixed_delta(shifted, epsilon, delta)
    return "mixed" if mixed is not None and mixed <= decimal_below(delta) else None


def joint_gaussian_holds(parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction) -> bool:
    """Whether these releases together are (epsilon, delta)-private, proven by one of the certificates."""
    return joint_gaussian_certificate(parts, epsilon, delta) is not None


def grouped_gaussian_holds(parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction, groups: int) -> bool:
    """Whether these releases, moved in at most `groups` groups, share their δ with the threshold on one of the releases.

    In one group the owner is either moved or new. In several, some are moved and some new, and if a share x of the groups is
    new, the noise's remaining δ must be at most (1 − x)·δ. This holds if the continuous bound is convex in the squared norm v,
    since it is 0 at 0: its second derivative is non-negative if v² + 4v ≤ 4ε² (docs/theory/group-selection.md). On a coarse
    grid it is summed for every number of groups; the finer parts then move the corresponding share of their squared norm.
    """
    shifted = tuple(replace(part, grid=Fraction(1)) for part in parts if part.shift.l1)
    if groups == 1 or not shifted:
        return joint_gaussian_holds(parts, epsilon, delta)
    return _grouped_certificate(shifted, epsilon, delta, groups)


@remembered(1024)
def _grouped_certificate(shifted: tuple[GaussianNoise, ...], epsilon: Fraction, delta: Fraction, groups: int) -> bool:
    """The same for the parts that can move; verifying a plan repeats the check made when planning."""
    terms = _continuous_terms(shifted, epsilon)
    if terms is not None and _is_convex(terms) and _within(terms, delta):
        return True
    for left in range(groups, 0, -1):
        found = _summed_delta(shifted, epsilon, delta, (left, groups))
        if found is None or found > decimal_below(delta * left / groups):
            return False
        if found <= decimal_below(delta / groups):
            break  # fewer groups lose no more, and have this much each
    return True


def _is_convex(terms: Terms) -> bool:
    """Whether the continuous certificate's bound is convex all the way up to the squared norm it is used for."""
    norm_squared, left, _ = terms
    return norm_squared**2 + 4 * norm_squared <= 4 * left**2


def discrete_gaussian_delta(shift: int, sigma: Fraction, epsilon: Fraction) -> Decimal:
    """An upper bound on the smallest δ of one integer that moves by at most `shift` under discrete Gaussian noise.

    The likelihood ratio of X and X + shift is monotone, so the worst event is a half-line; by the same property a
    smaller shift is never worse, and the two directions mirror each other.
    """
    first = math.floor(epsilon * sigma**2 / shift - Fraction(shift, 2)) + 1
    near, far = gaussian_tail(sigma, first), gaussian_tail(sigma, first + shift)
    with arithmetic():
        return near.upper - around(1 / exp_of_minus(epsilon).upper).lower * far.lower


def _holds_discrete(part: GaussianNoise, epsilon: Fraction, delta: Fraction) -> bool:
    return discrete_gaussian_delta(part.shift.per_coordinate, part.sigma, epsilon) <= decimal_below(delta)


def _is_lattice(parts: Sequence[GaussianNoise], groups: int | None = None) -> bool:
    """One part that moves the same way in several coordinates of a coarse grid (one per group, if groups are given)."""
    shift = parts[0].shift
    plain = len(parts) == 1 and shift.touched == shift.coordinates and shift.length is None
    return plain and is_coarse(shift.coordinates, parts[0].sigma) and groups in {None, shift.coordinates}


def _holds_lattice(part: GaussianNoise, epsilon: Fraction, delta: Fraction) -> bool:
    shift = part.shift
    return lattice_delta(shift.per_coordinate, shift.coordinates, part.sigma, epsilon) <= decimal_below(delta)


def coarse_and_finer(
    parts: Sequence[GaussianNoise], delta: float | Fraction
) -> tuple[tuple[GaussianNoise, ...], tuple[GaussianNoise, ...]]:
    """Parts that move the same way in every coordinate of a coarse grid, as many as can be summed together; and all others."""
    if delta < LEAST_SUMMED:
        return (), tuple(parts)
    plain = [part for part in parts if part.shift.touched == part.shift.coordinates and part.shift.length is None]
    coarse: list[GaussianNoise] = []
    terms = 1.0
    for part in sorted(plain, key=lambda one: one.sigma):
        one = as_coarse(part)
        if one.is_coarse and terms * one.terms <= MOST_TERMS:
            coarse.append(part)
            terms *= one.terms
    finer = list(parts)
    for part in coarse:
        finer.remove(part)
    return tuple(coarse), tuple(finer)


def as_coarse(part: GaussianNoise, moved: int | None = None) -> Coarse:
    """A part as it is summed, with this many coordinates moving (all of them unless stated)."""
    return Coarse(part.shift.per_coordinate, part.shift.coordinates if moved is None else moved, part.sigma)


def _summed_delta(
    parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction, moved: tuple[int, int]
) -> Decimal | None:
    """The δ of parts on coarse grids when this many of an owner's groups move; None if it cannot be summed."""
    if _is_lattice(parts, moved[1]):
        return lattice_delta(parts[0].shift.per_coordinate, moved[0], parts[0].sigma, epsilon)
    return _mixed_delta(parts, epsilon, delta, moved)


def _mixed_delta(
    parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction, moved: tuple[int, int] | None = None
) -> Decimal | None:
    """The δ with coarse parts summed and the others rounded, or None; `moved`: how many of an owner's groups move."""
    coarse, finer = coarse_and_finer(parts, delta)
    if not coarse or len(parts) == 1:
        return None
    left, groups = moved or (1, 1)
    if moved is not None:
        by_group = all(part.shift.coordinates == groups for part in coarse)
        if not by_group or any(part.shift.length for part in finer):  # weights go by degrees, not by groups
            return None
    terms = _continuous_terms(finer, epsilon) if finer else (Fraction(0), epsilon, Decimal(1))
    if terms is None:
        return None
    norm_squared, remaining, kept = terms
    summed = tuple(as_coarse(part, None if moved is None else left) for part in coarse)
    with arithmetic():
        return around(mixed_delta(summed, norm_squared * left / groups, remaining, delta) / kept).upper


def _holds_continuous(parts: Sequence[GaussianNoise], epsilon: Fraction, delta: Fraction) -> bool:
    terms = _continuous_terms(parts, epsilon)
    return terms is not None and _within(terms, delta)


def _within(terms: Terms, delta: Fraction) -> bool:
    norm_squared, left, kept = terms
    with arithmetic():
        return gaussian_delta(norm_squared, left) <= around(decimal_below(delta) * kept).lower


def _continuous_terms(parts: Sequence[GaussianNoise], epsilon: Fraction) -> Terms | None:
    """μ², ε′ and the factor of δ′ in the rounding theorem, or None if it does not apply."""
    variance = _best_rounding_variance(parts, epsilon)
    if variance is None:
        return None
    with arithmetic():
        errors = [(part.shift.touched, rounding_error(part.sigma, variance)) for part in parts]
        loss = sum((count * 2 * error / (1 - error * error) for count, error in errors), Decimal(0))  # ≥ Σ 2·artanh(w)
        kept = 1 - sum((count * error for count, error in errors), Decimal(0))  # ≤ Π (1 − w)
        left = epsilon - Fraction(around(loss).upper)
        if left <= 0 or kept <= 0:
            return None
        norm_squared = sum((part.shift.l2_squared / (part.sigma**2 - variance) for part in parts), Fraction(0))
        return norm_squared, left, kept


@remembered(4096)
def rounding_error(sigma: Fraction, variance: Fraction) -> Decimal:
    """The w of the rounding lemma, rounded up: j² ≥ 1 + 3(j − 1) gives Σ_{j≥1} x^{j²} ≤ x/(1 − x³).

    w falls as σ grows; if the noise may shrink later, it is the w of the smallest noise that can remain.
    """
    least = sigma / MOST_SHRUNK if sigma >= SHRINKS_FROM else sigma
    kept = variance * (least**2 - variance) / least**2
    with arithmetic():
        plain, averaged = wrapped(variance, 1), wrapped(variance + kept, 1)
        wave, mean = (2 * around(x / (1 - x**3)).upper for x in (plain, averaged))
        return around(mean + wave * wave / (1 - wave)).upper


def approximate_rounding_error(sigma: float, variance: float) -> float:
    """The w of the rounding lemma in floats."""
    least = sigma / MOST_SHRUNK if sigma >= SHRINKS_FROM else sigma
    wave = 2 * math.exp(-2 * math.pi**2 * variance)
    return 2 * math.exp(-2 * math.pi**2 * variance * (2 - variance / least**2)) + wave * wave / (1 - wave)


def _best_rounding_variance(parts: Sequence[GaussianNoise], epsilon: Fraction) -> Fraction | None:
    """The cheapest τ², in floats: it decides which proof is tried, never whether it holds."""
    smallest = min(part.sigma for part in parts) ** 2
    facts = [(float(part.rho), float(part.sigma), part.shift.touched) for part in parts]
    total = sum(rho for rho, _, _ in facts)
    costs = []
    for exact in ROUNDING_VARIANCES:
        if smallest > exact:
            variance = float(exact)
            shrunk = sum(rho * variance / (sigma**2 - variance) for rho, sigma, _ in facts) / (2 * total)
            error = sum(touched * approximate_rounding_error(sigma, variance) for _, sigma, touched in facts)
            costs.append((shrunk + 2 * error / float(epsilon), exact))
    return min(costs)[1] if costs else None


def zcdp_holds(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether ρ-zCDP implies (ε, δ)-privacy by the conversion of Canonne, Kamath and Steinke at some order α."""
    if rho == 0:
        return True
    order = _best_order(float(rho), float(epsilon))
    with arithmetic():
        alpha = decimal_near(order)
        log_delta = (
            decimal_near((order - 1) * (order * rho - epsilon)) - (alpha - 1).ln() + alpha * ((alpha - 1) / alpha).ln()
        )
        return log_delta + Decimal("1e-40") * (1 + abs(log_delta)) <= decimal_below(delta).ln()


@remembered(1024)
def largest_zcdp(epsilon: float, delta: float) -> float:
    """Approximately the largest ρ that implies (ε, δ)-privacy: the best order solves log δ = (α−1)(αρ−ε) + … for ρ."""

    def allowed(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (epsilon + (math.log(delta) - _log_zcdp_delta(log_excess, 0.0, 0.0)) / excess) / (1 + excess)

    return allowed(_minimise(lambda log_excess: -allowed(log_excess)))


def _best_order(rho: float, epsilon: float) -> Fraction:
    """An order α close to the best one."""
    return 1 + Fraction(math.exp(_minimise(lambda log_excess: _log_zcdp_delta(log_excess, rho, epsilon))))


def _minimise(function: Callable[[float], float]) -> float:
    """The minimum of a unimodal function of ln(α − 1), by trisection."""
    low, high = -40.0, 60.0
    for _ in range(70):
        third = (high - low) / 3
        low, high = (low, high - third) if function(low + third) < function(high - third) else (low + third, high)
    return (low + high) / 2


def _log_zcdp_delta(log_excess: float, rho: float, epsilon: float) -> float:
    excess = math.exp(log_excess)
    shrink = (1 + excess) * (log_excess - math.log1p(excess)) if log_excess < 30 else -1.0
    return excess * ((1 + excess) * rho - epsilon) - log_excess + shrink


@remembered(1024)
def largest_norm(epsilon: Fraction, delta: Fraction) -> Decimal:
    """The largest μ with Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) ≤ δ, or a relative 10⁻¹¹ less: Δ₂/μ is the analytic σ."""
    target = decimal_below(delta)

    def holds(log_norm: float) -> bool:
        with arithmetic():
            return gaussian_delta(Fraction(Decimal(2 * log_norm).exp()), epsilon) <= target

    guess = math.log(approximate_norm(float(epsilon), float(delta)))
    low, high, step = guess - 2 * NORM_PRECISION, guess + 2 * NORM_PRECISION, NORM_PRECISION
    while not holds(low):
        low, high, step = low - step, low, 4 * step
    while step == NORM_PRECISION and holds(high):
        low, high = high, high + 100 * (high - low)
    while high - low > 5 * NORM_PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return ARITHMETIC.exp(Decimal(low))


@remembered(4096)
def approximate_norm(epsilon: float, delta: float) -> float:
    """The norm of `largest_norm` in floats: a starting point that proves nothing.

    Newton's steps in ln μ, for d ln δ/d ln μ = μ·φ(ε/μ − μ/2)/δ, kept between bounds that close in; the start is where
    P[N ≥ ε/μ − μ/2] ≤ e^{−(ε/μ − μ/2)²/2} = δ, which is not above the answer.
    """
    low, high, wanted = math.log(1e-40), math.log(1e10), math.log(max(delta, SMALLEST_FLOAT))
    reach = math.sqrt(max(0.0, -2 * wanted))
    start = 2 * epsilon / max(reach + math.sqrt(reach * reach + 2 * epsilon), SMALLEST_FLOAT)
    guess = min(max(math.log(max(start, SMALLEST_FLOAT)), low), high)
    for _ in range(MOST_STEPS):
        norm = math.exp(guess)
        found = _log_approximate_delta(norm, epsilon)
        low, high = (guess, high) if found <= wanted else (low, guess)
        log_slope = guess - (epsilon / norm - norm / 2) ** 2 / 2 - LOG_ROOT_OF_TWO_PI - found
        step = (wanted - found) * math.exp(-log_slope) if abs(log_slope) < 700 else math.inf
        guess = guess + step if low <= guess + step <= high else (low + high) / 2
        if abs(step) < LAST_STEP or high - low < SMALLEST_GAP:
            break
    return math.exp(guess)


def _log_approximate_delta(norm: float, epsilon: float) -> float:
    near, far = _log_normal_tail(epsilon / norm - norm / 2), _log_normal_tail(epsilon / norm + norm / 2)
    part = -math.expm1(min(0.0, epsilon + far - near))
    return near + math.log(part) if part else -math.inf


def _log_normal_tail(point: float) -> float:
    if point < 30:
        return math.log(math.erfc(point / ROOT_OF_TWO) / 2)
    square = point * point
    return -square / 2 - math.log(point) - LOG_ROOT_OF_TWO_PI + math.log1p((3 / square - 1) / square)
