"""Claims that name a definition of privacy and its parameters.

>>> Pure(1).concentrated().rho
Fraction(1, 2)
>>> str(Approximate(0.5, 1e-8))
'dp(0.5, 1e-08)'
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from shoal.accounting.claims import profiles
from shoal.accounting.claims.profiles import above, decimal_of
from shoal.frozen import dataclass
from shoal.guarantees.claims import (
    LARGEST_PARAMETER,
    Claim,
    Concentrated,
    Curve,
    Number,
    check_delta,
    check_epsilon,
    check_field,
    check_positive,
    exact,
)
from shoal.mechanisms.certified import arithmetic
from shoal.params import LARGEST_EPSILON

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from shoal.accounting.claims.profiles import Loss


@dataclass(frozen=True)
class Pure(Claim):
    """ε-differential privacy."""

    epsilon: Number
    name: ClassVar[str] = "dp"

    def __post_init__(self) -> None:
        check_epsilon(self)

    def approximate(self) -> tuple[Fraction, Fraction]:
        """(ε, 0)."""
        return exact(self.epsilon), Fraction(0)

    def concentrated(self) -> Concentrated:
        """ρ = ε²/2."""
        return _of_response(*self.approximate())

    def renyi_curve(self) -> Curve:
        """That of randomised response, the worst case."""
        return _renyi_of_response(*self.approximate())

    def loss(self) -> tuple[Loss, Fraction]:
        """Randomised response."""
        return profiles.Response(exact(self.epsilon)), Fraction(0)


def _of_response(epsilon: Fraction, chance: Fraction) -> Concentrated:
    return Concentrated(epsilon**2 / 2, Fraction(0), chance)


def _renyi_of_response(epsilon: Fraction, chance: Fraction) -> Curve:
    return Curve(profiles.Response(epsilon).renyi_at, chance=chance)


@dataclass(frozen=True)
class Approximate(Claim):
    """(ε, δ)-differential privacy."""

    epsilon: Number
    delta: Number
    name: ClassVar[str] = "dp"

    def __post_init__(self) -> None:
        check_epsilon(self)
        check_delta(self)

    def approximate(self) -> tuple[Fraction, Fraction]:
        """Itself."""
        return exact(self.epsilon), exact(self.delta)

    def concentrated(self) -> Concentrated:
        """ρ = ε²/2 with chance 1 − δ."""
        return _of_response(*self.approximate())

    def renyi_curve(self) -> Curve:
        """That of randomised response, with chance 1 − δ."""
        return _renyi_of_response(*self.approximate())

    def loss(self) -> tuple[Loss, Fraction]:
        """Everything is revealed with chance δ, else randomised response."""
        return profiles.Response(exact(self.epsilon)), exact(self.delta)


@dataclass(frozen=True)
class _ImpliesApproximate(Claim):
    """A claim that is worth as much as an (ε, δ) of its own."""

    def loss(self) -> tuple[Loss, Fraction] | None:
        """That of its (ε, δ)."""
        pair = self.approximate()
        return None if pair is None else (profiles.Response(pair[0]), pair[1])

    def concentrated(self) -> Concentrated | None:
        """That of its (ε, δ)."""
        pair = self.approximate()
        return None if pair is None else _of_response(*pair)

    def renyi_curve(self) -> Curve | None:
        """That of its (ε, δ)."""
        pair = self.approximate()
        return None if pair is None else _renyi_of_response(*pair)


@dataclass(frozen=True)
class Probabilistic(_ImpliesApproximate):
    """(ε, δ)-probabilistic privacy: with chance 1 − δ over outputs the loss is at most ε. Not closed under post-processing."""

    epsilon: Number
    delta: Number
    name: ClassVar[str] = "probabilistic"

    def __post_init__(self) -> None:
        check_epsilon(self)
        check_delta(self)

    def approximate(self) -> tuple[Fraction, Fraction]:
        """The same numbers."""
        return exact(self.epsilon), exact(self.delta)


@dataclass(frozen=True)
class TotalVariation(_ImpliesApproximate):
    """The total variation distance of outputs is at most δ: (0, δ)-privacy."""

    delta: Number
    name: ClassVar[str] = "tv"

    def __post_init__(self) -> None:
        check_delta(self)

    def approximate(self) -> tuple[Fraction, Fraction]:
        """(0, δ)."""
        return Fraction(0), exact(self.delta)


@dataclass(frozen=True)
class KullbackLeibler(_ImpliesApproximate):
    """The mean loss is at most ε."""

    epsilon: Number
    name: ClassVar[str] = "kl"

    def __post_init__(self) -> None:
        check_epsilon(self)

    def approximate(self) -> tuple[Fraction, Fraction] | None:
        """(0, √(ε/2)), by Pinsker's inequality, where that is below 1."""
        return _within_variation(exact(self.epsilon) / 2)


@dataclass(frozen=True)
class MutualInformation(_ImpliesApproximate):
    """One record and the output, given all others, have mutual information at most ε, whatever the prior."""

    epsilon: Number
    name: ClassVar[str] = "mi"

    def __post_init__(self) -> None:
        check_epsilon(self)

    def approximate(self) -> tuple[Fraction, Fraction] | None:
        """(0, √(2ε)) where that is below 1."""
        return _within_variation(exact(self.epsilon) * 2)


def _within_variation(square: Fraction) -> tuple[Fraction, Fraction] | None:
    with arithmetic():
        distance = above(decimal_of(square).sqrt())
    return (Fraction(0), distance) if distance < 1 else None


@dataclass(frozen=True)
class ZeroConcentrated(Claim):
    """(ξ, ρ)-zCDP: the Rényi divergence of every order α > 1 is at most ξ + ρα."""

    rho: Number
    xi: Number = 0
    name: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        check_positive(self, "rho")
        check_field(self, "xi", "from 0 to 1e6", lambda value: 0 <= value <= LARGEST_EPSILON)

    def concentrated(self) -> Concentrated:
        """Itself."""
        return Concentrated(exact(self.rho), exact(self.xi), Fraction(0))

    def renyi_curve(self) -> Curve:
        """ξ + ρα."""
        return Curve(_line(exact(self.rho), exact(self.xi)))


def _line(rho: Fraction, xi: Fraction) -> Callable[[Decimal], Decimal]:
    return lambda order: decimal_of(xi) + decimal_of(rho) * order


@dataclass(frozen=True)
class MeanConcentrated(Claim):
    """The loss has mean at most μ and is subgaussian with parameter τ around it. Not closed under post-processing."""

    mu: Number
    tau: Number
    name: ClassVar[str] = "mcdp"

    def __post_init__(self) -> None:
        check_positive(self, "mu")
        check_positive(self, "tau")

    def concentrated(self) -> Concentrated:
        """ρ = τ²/2 and ξ = μ − τ²/2, at least 0: the mean of a loss is at most half its variance otherwise."""
        rho = exact(self.tau) ** 2 / 2
        return Concentrated(rho, max(exact(self.mu) - rho, Fraction(0)), Fraction(0))

    def renyi_curve(self) -> Curve:
        """That of the concentrated claim."""
        rho, xi, chance = self.concentrated()
        return Curve(_line(rho, xi), chance=chance)


@dataclass(frozen=True)
class TruncatedConcentrated(Claim):
    """(ρ, ω)-tCDP: the Rényi divergence of every order α in (1, ω) is at most ρα."""

    rho: Number
    omega: Number
    name: ClassVar[str] = "tcdp"

    def __post_init__(self) -> None:
        check_positive(self, "rho")
        check_field(self, "omega", "above 1", lambda value: 1 < value <= LARGEST_PARAMETER)

    def renyi_curve(self) -> Curve:
        """ρα below ω; at ω too, by continuity."""
        return Curve(_line(exact(self.rho), Fraction(0)), largest_order=exact(self.omega))


@dataclass(frozen=True)
class Renyi(Claim):
    """The Rényi divergence of one order α > 1 is at most ε, and so is that of every smaller order."""

    alpha: Number
    epsilon: Number
    name: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        check_field(self, "alpha", "above 1", lambda value: 1 < value <= LARGEST_PARAMETER)
        check_epsilon(self)

    def renyi_curve(self) -> Curve:
        """ε up to α."""
        return Curve(_line(Fraction(0), exact(self.epsilon)), largest_order=exact(self.alpha))


@dataclass(frozen=True)
class Gaussian(Claim):
    """μ-Gaussian privacy: telling neighbours apart is as hard as telling N(0, 1) from N(μ, 1)."""

    mu: Number
    name: ClassVar[str] = "gdp"

    def __post_init__(self) -> None:
        check_positive(self, "mu")

    def gaussian_mu(self) -> Fraction:
        """Its μ."""
        return exact(self.mu)

    def concentrated(self) -> Concentrated:
        """ρ = μ²/2."""
        return Concentrated(exact(self.mu) ** 2 / 2, Fraction(0), Fraction(0))

    def renyi_curve(self) -> Curve:
        """αμ²/2."""
        return Curve(profiles.Gaussian(exact(self.mu)).renyi_at)

    def loss(self) -> tuple[Loss, Fraction]:
        """Two normal distributions."""
        return profiles.Gaussian(exact(self.mu)), Fraction(0)
