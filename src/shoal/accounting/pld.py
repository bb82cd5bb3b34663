"""Numerical composition inside one plan: privacy loss distributions, behind the one door to dp-accounting.

A plan's events are fixed before data is read, so their losses may be composed numerically, which is tighter than adding
(ε, δ) up. It is *not* a valid rule for a session, where each query depends on earlier answers: use an accountant there.

Proof note. Precondition: neighbours move each coordinate of an additive release by at most its integer shift s, and no more
coordinates than the shift says. Where a coordinate's move may spread over several entries (two sums that make a whole, rows in
different leaves), it adds up to s at most; Laplace noise loses most where it does not spread (docs/theory/accounting.md). For
Gaussian noise and for choices nothing of the kind is proven here, and a plan with such a release is refused.
1. Discrete Laplace and Gaussian noise are log-concave, so for a move v the best event against X + v is a tail, and
   P[X + v ≥ k] − e^ε·P[X ≥ k] grows with v: the pair (X, X + s) dominates every smaller move, in both directions by
   symmetry, and the product over coordinates dominates the release.
2. An (ε, δ)-private decision is dominated by: everything is revealed with chance δ, else randomised response at ε.
   Optimal selection is κ such decisions at (ε/κ, δ₁), δ in all; a chosen quantile is one at (ε, 0) in each group. A threshold
   reveals with chance δ beyond its noise, which is charged as noise. These chances are added outside, in exact rationals.
3. Losses are rounded up to a grid and masses beyond it count as infinite loss, so hockey-stick divergences only grow.
   What floating point and the library's Fourier transforms may lose is added as an allowance of 10⁻¹¹ per coordinate
   (a transform of n ≤ 2²⁰ points errs by at most 3·u·log₂n in L2, so a tail by √n times that).
Postcondition: the plan is (ε, δ)-private for the numbers returned. Where basic or zCDP composition is tighter, or δ is
too small for floating point, their number is returned.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.accountants import Loss, plan_loss
from shoal.accounting.events import (
    AdditiveNoise,
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    QuantileChoice,
    SelectedGaussian,
    Selection,
)
from shoal.accounting.zcdp import zcdp_delta, zcdp_epsilon
from shoal.errors import InternalError, ShoalError, missing_extra
from shoal.exact import float_above, float_below
from shoal.frozen import dataclass
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.events import Event, Shift

LARGEST_EPSILON = 50
"""Beyond it the loss is almost surely close to its mean, and nothing is gained."""

_GRID_POINTS = 2**17
_ALLOWANCE_PER_COORDINATE = Fraction(1, 10**11)
_RELATIVE_ALLOWANCE = 1 + Fraction(1, 10**8)
_MOST_POINTS_FOR_THE_LIBRARY = 10_000
_GAUSSIAN_TAIL = 12.0
"""Beyond 12σ there is less than 10⁻³¹ of a discrete Gaussian; the allowance covers it."""


@dataclass(frozen=True, slots=True)
class _Noise:
    """One coordinate of additive noise at its largest move."""

    gaussian: bool
    shift: int
    scale: Fraction

    @property
    def rho(self) -> Fraction:
        return Fraction(self.shift) ** 2 / (2 * self.scale**2)

    @property
    def largest_loss(self) -> float:
        move = self.shift / float(self.scale)
        return move * (_GAUSSIAN_TAIL + move / 2) if self.gaussian else move


@dataclass(frozen=True, slots=True)
class _Response:
    """Randomised response: a loss of ±ε."""

    epsilon: Fraction

    @property
    def rho(self) -> Fraction:
        return self.epsilon**2 / 2

    @property
    def largest_loss(self) -> float:
        return float(self.epsilon)


_Part = _Noise | _Response


def plan_delta(events: Sequence[Event], epsilon: Fraction) -> Fraction:
    """The δ of a plan at ε, rounded up: the smallest of the numerical, the basic and the zCDP answer.

    >>> from shoal.accounting.events import Shift
    >>> two = [LaplaceNoise(Shift(1), Fraction(2)), LaplaceNoise(Shift(1), Fraction(2))]
    >>> 0.15 < float(plan_delta(two, Fraction(1, 2))) < 0.16
    True
    """
    if epsilon > LARGEST_EPSILON:
        raise _too_large()
    loss = plan_loss(events)
    rho, rho_delta = loss.zcdp
    known = [_Composition(events).delta_at(epsilon), rho_delta + zcdp_delta(rho, epsilon)]
    if loss.epsilon <= epsilon:
        known.append(loss.delta)
    return min(known)


def plan_epsilon(events: Sequence[Event], delta: Fraction) -> Fraction:
    """The ε of a plan at δ, rounded up: the smallest of the numerical, the basic and the zCDP answer.

    >>> from shoal.accounting.events import Shift
    >>> fifty = [LaplaceNoise(Shift(1, coordinates=50), Fraction(50))]
    >>> plan_loss(fifty).epsilon, 0.55 < float(plan_epsilon(fifty, Fraction(1, 10**6))) < 0.56
    (Fraction(1, 1), True)
    """
    loss = plan_loss(events)
    known = [epsilon for epsilon in (_basic_epsilon(loss, delta), _zcdp_epsilon(loss, delta)) if epsilon is not None]
    numerical = _Composition(events).epsilon_at(delta)
    if numerical is not None:
        known.append(numerical)
    if not known or min(known) > LARGEST_EPSILON:
        raise _too_large()
    return min(known)


def _basic_epsilon(loss: Loss, delta: Fraction) -> Fraction | None:
    return loss.epsilon if loss.delta <= delta else None


def _zcdp_epsilon(loss: Loss, delta: Fraction) -> Fraction | None:
    rho, rho_delta = loss.zcdp
    return zcdp_epsilon(rho, delta - rho_delta) if rho_delta < delta else None


def _too_large() -> ShoalError:
    return ShoalError(
        "E_OPTION_INVALID",
        f"Numerical composition is of no use above epsilon {LARGEST_EPSILON}.",
        hint="Ask for a smaller epsilon, or leave the composition inside a query to the default.",
    )


class _Composition:
    """The events of one plan, composed on a common grid of losses."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._parts = _parts(events)
        told = (event.selection if isinstance(event, SelectedGaussian) else event for event in events)
        selections = (event for event in told if isinstance(event, Selection))
        self._chance_of_everything = sum((event.delta for event in selections), Fraction(0))
        if any(part.largest_loss > 2 * LARGEST_EPSILON for part in self._parts):
            raise _too_large()
        self._allowance = _ALLOWANCE_PER_COORDINATE * self._parts.total()
        self._distribution = self._composed() if self._parts else None

    def _composed(self) -> Any:
        """All parts together; a `PrivacyLossDistribution` of the library."""
        interval = self._interval()
        result = None
        for part, copies in self._parts.items():
            one = _distribution(part, interval)
            several = one.self_compose(copies) if copies > 1 else one
            result = several if result is None else result.compose(several)
        return result

    def _interval(self) -> float:
        """A power of two about 2⁻¹⁷ of the range of losses that matter."""
        rho = float(sum(part.rho * copies for part, copies in self._parts.items()))
        at_most = sum(part.largest_loss * copies for part, copies in self._parts.items())
        return 2.0 ** math.floor(math.log2(min(at_most, rho + 20 * math.sqrt(2 * rho)) / _GRID_POINTS))

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """The divergence at ε, with all allowances."""
        if self._distribution is None:
            return self._chance_of_everything
        divergence = max(0.0, float(self._distribution.get_delta_for_epsilon(float_below(epsilon))))
        numerical = Fraction(divergence) * _RELATIVE_ALLOWANCE + self._allowance
        return min(Fraction(1), numerical + self._chance_of_everything)

    def epsilon_at(self, delta: Fraction) -> Fraction | None:
        """A small ε whose `delta_at` is at most δ, or None where floating point cannot tell."""
        if self._distribution is None:
            return Fraction(0) if self._chance_of_everything <= delta else None
        room = (delta - self._chance_of_everything - self._allowance) / _RELATIVE_ALLOWANCE
        if room <= 0:
            return None
        epsilon = Fraction(max(0.0, float(self._distribution.get_epsilon_for_delta(float_below(room)))) or 1e-12)
        for _ in range(60):
            if self.delta_at(epsilon) <= delta:
                return epsilon
            epsilon *= 1 + Fraction(1, 10**7)
        return None


def _parts(events: Sequence[Event]) -> Counter[_Part]:
    """Every coordinate of noise and every decision, equal ones counted."""
    from shoal.mechanisms.group_selection import rule_of

    parts: Counter[_Part] = Counter()
    for event in events:
        match event:
            case LaplaceNoise():
                _add_noise(parts, event)
            case JointGaussian() | SelectedGaussian():
                for noise in event.parts:
                    _add_noise(parts, noise)
            case QuantileChoice():
                _require_not_spread(event.shift)
                once = Fraction(2 * event.shift.per_coordinate) / event.scale
                parts[_Response(once)] += event.draws * event.shift.coordinates
                if event.counts is not None:
                    _add_noise(parts, event.counts)
            case _ if isinstance(event, Selection):
                epsilon, copies = rule_of(event).responses(event) or (Fraction(0), 0)
                if epsilon > 0:
                    parts[_Response(epsilon)] += copies
    return parts


def _add_noise(parts: Counter[_Part], noise: AdditiveNoise) -> None:
    if noise.shift.per_coordinate == 0:
        return
    if isinstance(noise, GaussianNoise):
        _require_not_spread(noise.shift)
    scale = noise.sigma if isinstance(noise, GaussianNoise) else noise.scale
    parts[_Noise(isinstance(noise, GaussianNoise), noise.shift.per_coordinate, scale)] += noise.shift.coordinates


def _require_not_spread(shift: Shift) -> None:
    if shift.touched > shift.coordinates:
        raise InternalError("the losses of moves that may spread cannot be composed numerically")


# --- one part, from the library or on its grid ------------------------------------------------------------------------


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise missing_extra("accounting", "Numerical composition of losses") from None
    return privacy_loss_distribution


@remembered(64)
def _distribution(part: _Part, interval: float) -> Any:
    """The loss distribution of one part: the library's own where it is quick, else the same thing, vectorised."""
    library = _library()
    if isinstance(part, _Response):
        from dp_accounting.pld import common

        parameters = common.DifferentialPrivacyParameters(float_above(part.epsilon), 0.0)
        return library.from_privacy_parameters(parameters, value_discretization_interval=interval)
    scale = float_below(part.scale)
    if _points(part) > _MOST_POINTS_FOR_THE_LIBRARY:
        masses = (_gaussian_masses if part.gaussian else _laplace_masses)(part.shift, scale, interval)
        return library.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)
    if part.gaussian:
        return library.from_discrete_gaussian_mechanism(scale, part.shift, value_discretization_interval=interval)
    return library.from_discrete_laplace_mechanism(1 / scale, part.shift, value_discretization_interval=interval)


def _points(part: _Noise) -> float:
    return 2 * _GAUSSIAN_TAIL * float(part.scale) if part.gaussian else float(part.shift)


def _laplace_masses(shift: int, scale: float, interval: float) -> dict[int, float]:
    """Masses of the rounded-up loss (|x − s| − |x|)/b of discrete Laplace noise, in closed form per grid point.

    Loss ≤ j·h exactly when x ≥ (s − j·h·b)/2. The edge is moved up by one step of x, so that rounding of the edge
    itself can only raise a loss (by at most 2/b, a part in s/2 of the largest).
    """
    import numpy as np

    largest = shift / scale
    top, bottom = math.ceil(largest / interval), math.ceil(-largest / interval)
    levels = np.arange(top - 1, bottom - 1, -1)
    edges = np.clip(np.floor((shift - levels * (interval * scale)) / 2) + 1, 0, shift)
    beyond = np.exp(-(edges + 1) / scale) / (1 + math.exp(-1 / scale))  # P[X > edge], all at or below this level
    masses = -np.diff(np.concatenate(([1.0], beyond, [0.0])))
    return dict(zip(range(top, bottom - 1, -1), masses.tolist(), strict=True))


def _gaussian_masses(shift: int, sigma: float, interval: float) -> dict[int, float]:
    """Masses of the rounded-up loss s(s − 2x)/2σ² of discrete Gaussian noise, on blocks of m ≈ σ/2¹⁵ integers.

    Proof note for the coarser grid. The log-mass −x²/2σ² is concave, hence below its tangent at the middle c of a
    block: the block's mass is at most f(c)·Σ exp(−c(x − c)/σ²) ≤ f(c)·m·(1 + y²/6 + y⁴/100), y = m·c/2σ² ≤ 10⁻³, and
    the excess is a part in 24σ²/m² ≥ 10¹⁰. Its loss is at most that of its lowest x. By Poisson summation the masses
    exp(−x²/2σ²) add up to more than σ√2π.
    """
    import numpy as np

    block = max(1, math.floor(sigma / 2**15))
    reach = math.ceil(_GAUSSIAN_TAIL * sigma / block)
    lowest = np.arange(-reach, reach + 1, dtype=np.float64) * block
    middle = lowest + (block - 1) / 2
    bend = (block * middle / (2 * sigma**2)) ** 2
    heights = np.exp(-(middle**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    masses = heights * block * (1 + bend / 6 + bend**2 / 100)
    levels = np.ceil(shift * (shift - 2 * lowest) / (2 * sigma**2) / interval + 1e-9).astype(np.int64)
    first = int(levels.min())
    sums = np.bincount(levels - first, weights=masses)
    return {first + i: mass for i, mass in enumerate(sums.tolist()) if mass > 0}
