"""Claims that name a mechanism: noise of a scale, randomised response, and what happens on a sample.

>>> LaplaceNoise(10).approximate()
(Fraction(1, 10), Fraction(0, 1))
>>> str(Subsampled(GaussianNoise(2), 0.01))
'subsampled(gaussian(2), 0.01)'
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from shoal.accounting.claims import profiles
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.guarantees.claims import (
    Claim,
    Concentrated,
    Curve,
    Number,
    check_epsilon,
    check_positive,
    exact,
    rate_of,
    refused_parameter,
)
from shoal.params import whole_number

if TYPE_CHECKING:
    from shoal.accounting.claims.profiles import Loss

LARGEST_SENSITIVITY = 10**9


class _TwoSidedNoise(Claim):
    """What Laplace noise and its discrete form share: a loss of at most Δ/b, and no chance to lose more."""

    @property
    def _loss(self) -> profiles.Laplace | profiles.Geometric:
        raise NotImplementedError

    def approximate(self) -> tuple[Fraction, Fraction]:
        """(Δ/b, 0)."""
        return self._loss.reach, Fraction(0)

    def concentrated(self) -> Concentrated:
        """ρ = (Δ/b)²/2."""
        return Concentrated(self._loss.reach**2 / 2, Fraction(0), Fraction(0))

    def renyi_curve(self) -> Curve:
        """The noise's own."""
        return Curve(self._loss.renyi_at)

    def loss(self) -> tuple[Loss, Fraction]:
        """The noise itself, moved by Δ."""
        return self._loss, Fraction(0)


@dataclass(frozen=True)
class LaplaceNoise(_TwoSidedNoise):
    """Laplace noise of a scale b on a number that one owner moves by at most the sensitivity Δ: Pure(Δ/b)."""

    scale: Number
    sensitivity: Number = 1
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_positive(self, "scale")
        check_positive(self, "sensitivity")

    @property
    def _loss(self) -> profiles.Laplace:
        return profiles.Laplace(exact(self.sensitivity) / exact(self.scale))


@dataclass(frozen=True)
class GeometricNoise(_TwoSidedNoise):
    """Discrete Laplace noise, P[x] ∝ e^{−|x|/b}, on a whole number that one owner moves by at most Δ: Pure(Δ/b)."""

    scale: Number
    sensitivity: int = 1
    name: ClassVar[str] = "geometric"

    def __post_init__(self) -> None:
        check_positive(self, "scale")
        whole_number(self.sensitivity, option="The sensitivity of geometric noise", largest=LARGEST_SENSITIVITY)

    @property
    def _loss(self) -> profiles.Geometric:
        return profiles.Geometric(exact(self.scale), int(self.sensitivity))


@dataclass(frozen=True)
class GaussianNoise(Claim):
    """Gaussian noise of standard deviation σ on numbers that one owner moves by at most Δ: Gaussian(Δ/σ)."""

    sigma: Number
    sensitivity: Number = 1
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_positive(self, "sigma")
        check_positive(self, "sensitivity")

    def gaussian_mu(self) -> Fraction:
        """Δ/σ."""
        return exact(self.sensitivity) / exact(self.sigma)

    def concentrated(self) -> Concentrated:
        """ρ = Δ²/2σ²."""
        return Concentrated(self.gaussian_mu() ** 2 / 2, Fraction(0), Fraction(0))

    def renyi_curve(self) -> Curve:
        """αΔ²/2σ²."""
        return Curve(profiles.Gaussian(self.gaussian_mu()).renyi_at)

    def loss(self) -> tuple[Loss, Fraction]:
        """The noise itself, moved by Δ."""
        return profiles.Gaussian(self.gaussian_mu()), Fraction(0)


@dataclass(frozen=True)
class RandomizedResponse(Claim):
    """One of two answers, the true one e^ε times as likely as the other: Pure(ε)."""

    epsilon: Number
    name: ClassVar[str] = "rr"

    def __post_init__(self) -> None:
        check_epsilon(self)

    def approximate(self) -> tuple[Fraction, Fraction]:
        """(ε, 0)."""
        return exact(self.epsilon), Fraction(0)

    def concentrated(self) -> Concentrated:
        """ρ = ε²/2."""
        return Concentrated(exact(self.epsilon) ** 2 / 2, Fraction(0), Fraction(0))

    def renyi_curve(self) -> Curve:
        """Its own, exactly."""
        return Curve(profiles.Response(exact(self.epsilon)).renyi_at)

    def loss(self) -> tuple[Loss, Fraction]:
        """Itself."""
        return profiles.Response(exact(self.epsilon)), Fraction(0)


@dataclass(frozen=True)
class Subsampled(Claim):
    """A mechanism on a Poisson sample: each person is looked at with chance `rate`. Neighbours: add/remove."""

    of: Claim
    rate: Number
    name: ClassVar[str] = "subsampled"

    def __post_init__(self) -> None:
        rate_of(self.rate)
        if not isinstance(self.of, Claim) or isinstance(self.of, Subsampled):
            raise refused_parameter(
                "subsampled", "needs another claim that is not subsampled", "subsampled(dp(1), 0.1)"
            )
        if self.approximate() is None and self.loss() is None:
            raise ShoalError(
                "E_UNSUPPORTED",
                f"What sampling does to {self.of} is not known here.",
                hint="Sample (ε, δ) claims, Laplace noise or Gaussian noise; convert other claims to dp first.",
            )

    def approximate(self) -> tuple[Fraction, Fraction] | None:
        """(ln(1 + q(e^ε − 1)), qδ)."""
        pair = self.of.approximate()
        rate = exact(self.rate)
        return None if pair is None else (profiles.amplified(pair[0], rate), pair[1] * rate)

    def concentrated(self) -> Concentrated | None:
        """That of its (ε, δ)."""
        pair = self.approximate()
        return None if pair is None else Concentrated(pair[0] ** 2 / 2, Fraction(0), pair[1])

    def renyi_curve(self) -> Curve | None:
        """Gaussian noise: exact at whole orders; else that of its (ε, δ)."""
        mu = self.of.gaussian_mu()
        if mu is not None:
            return Curve(profiles.Sampled(profiles.Gaussian(mu), exact(self.rate)).renyi_at, whole_orders=True)
        pair = self.approximate()
        return None if pair is None else Curve(profiles.Response(pair[0]).renyi_at, chance=pair[1])

    def loss(self) -> tuple[Loss, Fraction] | None:
        """Sampled noise, or the worst of its (ε, δ)."""
        inner = self.of.loss()
        if inner is not None and isinstance(inner[0], profiles.Laplace | profiles.Gaussian):
            return profiles.Sampled(inner[0], exact(self.rate)), Fraction(0)
        pair = self.approximate()
        return None if pair is None else (profiles.Response(pair[0]), pair[1])
