"""Numerical composition of claims: privacy loss distributions from above and from below (extra `accounting`).

`pld` does this for the events of a query; here the parts are the losses of `profiles`: continuous noise, sampled noise,
and (ε, δ) claims at their worst. From above, losses are rounded so that hockey-stick divergences only grow; from below,
so that they only shrink. What floating point and Fourier transforms may lose is an allowance of 10⁻¹¹ for each part,
as in `pld`, added above and taken off below.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.accounting.claims.profiles import Gaussian, Geometric, Laplace, Loss, Response, Sampled
from shoal.errors import missing_extra
from shoal.exact import float_above, float_below
from shoal.frozen import dataclass
from shoal.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_EPSILON = 50
MOST_POINTS = 10_000
MOST_PARTS = 100_000
_FEWEST_POINTS, _POINTS_PER_PART, _MOST_POINTS = 2**12, 2**10, 2**17
"""How fine the grid is: each part may be rounded by a step, so more parts need smaller ones."""
_ALLOWANCE_PER_PART = Fraction(1, 10**11)
_RELATIVE = 1 + Fraction(1, 10**8)
_FINEST, _COARSEST = 2.0**-40, 2.0**-10


def is_installed() -> bool:
    """Whether the library behind this module is there."""
    from importlib.util import find_spec

    return find_spec("dp_accounting") is not None


def why_not(parts: Mapping[Loss, int]) -> str | None:
    """A sentence where these parts cannot be composed numerically."""
    if sum(parts.values()) > MOST_PARTS:
        return f"roundings of more than {MOST_PARTS:,} parts add up to too much"
    for part in parts:
        if isinstance(part, Geometric) and part.shift > MOST_POINTS:
            return f"geometric noise with a sensitivity above {MOST_POINTS:,} has too many points"
        if _largest_loss(part) > 2 * LARGEST_EPSILON:
            return f"nothing is gained numerically where a single loss can exceed {2 * LARGEST_EPSILON}"
    return None


@dataclass(frozen=True)
class Numerical:
    """Losses, each this many times, and the chance that everything is revealed besides.

    >>> fifty = Numerical({Laplace(Fraction(1, 10)): 50}, Fraction(0))
    >>> round(fifty.epsilon_at(Fraction(1, 10**6)), 2)
    3.12
    """

    parts: Mapping[Loss, int]
    chance: Fraction

    def delta_at(self, epsilon: Fraction) -> float:
        """δ(ε), rounded up."""
        divergence = max(0.0, float(self._above.get_delta_for_epsilon(float_below(epsilon)))) if self.parts else 0.0
        inner = min(Fraction(1), Fraction(divergence) * _RELATIVE + self._allowance)
        return float_above(self.chance + (1 - self.chance) * inner)

    def epsilon_at(self, delta: Fraction) -> float | None:
        """The smallest ε found with δ(ε) ≤ δ, or None where floating point cannot tell."""
        if delta < self.chance:
            return None
        if not self.parts:
            return 0.0
        room = ((delta - self.chance) / (1 - self.chance) - self._allowance) / _RELATIVE
        if room <= 0:
            return None
        epsilon = max(0.0, float(self._above.get_epsilon_for_delta(float_below(room))))
        for _ in range(40):
            if not math.isfinite(epsilon) or Fraction(self.delta_at(Fraction(epsilon))) <= delta:
                break
            epsilon += max(epsilon * 1e-7, 1e-12)
        return epsilon if math.isfinite(epsilon) else None

    def epsilon_at_least(self, delta: Fraction) -> float:
        """No analysis of these mechanisms can show a smaller ε at δ."""
        if not self.parts:
            return 0.0
        room = ((delta - self.chance) / (1 - self.chance) + self._allowance) * _RELATIVE
        if room <= 0 or room >= 1:
            return 0.0
        return max(0.0, float(self._below.get_epsilon_for_delta(float_above(room))))

    @property
    def _allowance(self) -> Fraction:
        return _ALLOWANCE_PER_PART * sum(self.parts.values())

    @cached_property
    def _above(self) -> Any:
        return self._composed(pessimistic=True)

    @cached_property
    def _below(self) -> Any:
        return self._composed(pessimistic=False)

    def _composed(self, *, pessimistic: bool) -> Any:
        interval, result = self._interval(), None
        for part, count in self.parts.items():
            one = _distribution(part, interval, pessimistic=pessimistic)
            several = one.self_compose(count) if count > 1 else one
            result = several if result is None else result.compose(several)
        return result

    def _interval(self) -> float:
        """A power of two, so small that roundings hardly show in the range of losses that matter; any interval is valid."""
        variance = sum(_variance(part) * count for part, count in self.parts.items())
        at_most = sum(_largest_loss(part) * count for part, count in self.parts.items())
        spread = min(at_most, variance / 2 + 20 * math.sqrt(variance))
        points = min(max(_FEWEST_POINTS, _POINTS_PER_PART * sum(self.parts.values())), _MOST_POINTS)
        return 2.0 ** math.floor(math.log2(min(max(spread / points, _FINEST), _COARSEST)))


def _variance(part: Loss) -> float:
    """About how much a loss varies; it chooses the grid and nothing else."""
    match part:
        case Response():
            return float(part.epsilon) ** 2
        case Gaussian():
            return float(part.mu) ** 2
        case Sampled():
            return min(1.0, float(part.rate) ** 2 * math.expm1(min(_variance(part.of), 20.0)))
    return float(getattr(part, "reach", 1)) ** 2


def _largest_loss(part: Loss) -> float:
    """The largest loss, or one that is hardly ever exceeded."""
    match part:
        case Response():
            return float(part.epsilon)
        case Gaussian():
            return float(part.mu) * (12 + float(part.mu) / 2)
        case Sampled():
            return math.log1p(float(part.rate) * math.expm1(min(_largest_loss(part.of), 600.0)))
    return float(getattr(part, "reach", math.inf))


@remembered(32)
def _distribution(part: Loss, interval: float, *, pessimistic: bool) -> Any:
    """The loss distribution of one part, as the library has it; scales are rounded outward like the losses."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as library
    except ImportError:
        raise missing_extra("accounting", "Numerical composition of losses") from None
    options = {
        "pessimistic_estimate": pessimistic,
        "value_discretization_interval": interval,
        "use_connect_dots": pessimistic,  # tighter, and made for upper bounds alone
    }
    outward, rate = (float_above if pessimistic else float_below), 1.0
    if isinstance(part, Sampled):
        rate = outward(part.rate)
        part = part.of
    match part:
        case Gaussian():
            inverse = (float_below if pessimistic else float_above)(1 / part.mu)
            return library.from_gaussian_mechanism(inverse, sampling_prob=rate, **options)
        case Laplace():
            inverse = (float_below if pessimistic else float_above)(1 / part.reach)
            return library.from_laplace_mechanism(inverse, sampling_prob=rate, **options)
        case Geometric():
            return library.from_discrete_laplace_mechanism(outward(1 / part.scale), part.shift, **options)
        case Response():
            return library.PrivacyLossDistribution.create_from_rounded_probability(
                _response_masses(part, interval, pessimistic=pessimistic),
                0.0,
                interval,
                pessimistic_estimate=pessimistic,
            )
    raise missing_extra("accounting", "Numerical composition of this claim")


def _response_masses(part: Response, interval: float, *, pessimistic: bool) -> dict[int, float]:
    """A loss of ±ε on the grid: both ends move up by less than a step, or down."""
    epsilon = float(part.epsilon)
    rounded = math.ceil if pessimistic else math.floor
    off = 1e-12 if pessimistic else -1e-12
    likely = 1 / (1 + math.exp(-epsilon))
    up, down = rounded(epsilon / interval + off), rounded(-epsilon / interval + off)
    return {up: 1.0} if up == down else {up: likely, down: 1 - likely}
