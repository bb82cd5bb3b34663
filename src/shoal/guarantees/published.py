"""Deployments whose parameters were published, and the test that a Gaussian claim allows.

>>> [(one.name, one.epsilon, one.unit) for one in deployments() if one.organisation == "LinkedIn"]
[('Audience engagements', 34.9, 'user-month')]
"""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cache
from typing import Any

from shoal.accounting.claims import meaning
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.guarantees.claims import Claim

CAVEAT = (
    "ε is a promise per unit, and the units differ: numbers of different units are not comparable, and have no average."
)


@dataclass(frozen=True)
class Deployment:
    """One documented deployment; ε and δ are per unit."""

    name: str
    organisation: str
    year: int
    epsilon: float
    delta: float
    unit: str
    model: str
    definition: str
    source: str

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        return (
            f"ε = {self.epsilon:g}{delta} per {self.unit}: {self.organisation}, {self.name} ({self.year}, {self.model})"
        )

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def deployments() -> list[Deployment]:
    """Documented deployments, by unit and then by ε; every one names its source."""
    return sorted(_stored(), key=lambda one: (one.unit, one.epsilon, one.name))


@cache
def _stored() -> tuple[Deployment, ...]:
    import tomllib
    from importlib import resources

    text = (resources.files("shoal.guarantees") / "deployments.toml").read_text(encoding="utf-8")
    return tuple(Deployment(**{"delta": 0.0, **row}) for row in tomllib.loads(text)["deployment"])


def power(false_positive_rate: float, epsilon: float | Claim, delta: float = 0.0) -> float:
    """The largest power of a test at this false positive rate, from (ε, δ), or exactly from a Gaussian claim.

    >>> from shoal.guarantees.promises import Gaussian
    >>> round(power(0.05, Gaussian(1)), 6), round(power(0.05, 1, 1e-5), 7)
    (0.259511, 0.1359241)
    """
    if not isinstance(epsilon, Claim):
        return meaning.power(false_positive_rate, epsilon, delta)
    mu = epsilon.gaussian_mu()
    if mu is None or delta:
        raise ShoalError(
            "E_UNSUPPORTED",
            "The power of a test is known for (ε, δ) and for Gaussian claims.",
            hint="Write power(0.05, 1, 1e-6), or power(0.05, Gaussian(1)).",
        )
    meaning.power(false_positive_rate, 0)  # checks the rate
    return _gaussian_power(float(false_positive_rate), float(mu))


def _gaussian_power(rate: float, mu: float) -> float:
    """Φ(Φ⁻¹(α) + μ), rounded up."""
    if rate in {0.0, 1.0}:
        return rate
    low, high = -40.0, 40.0
    while high - low > 1e-15 * max(1.0, abs(high)):
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        low, high = (middle, high) if _below(middle) < rate else (low, middle)
    return min(1.0, _below(high + mu) * (1 + 1e-13))


def _below(point: float) -> float:
    return math.erfc(-point / math.sqrt(2)) / 2
