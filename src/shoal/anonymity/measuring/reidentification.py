"""How likely an attacker finds a person: prosecutor, journalist, marketer; and what a sampling fraction says of a population.

With a sampling fraction π the population of a class with f owners is f + negative binomial(f, π). That assumes that the
table was drawn uniformly from the population, and a prior ∝ 1/F on class sizes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Classes

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_BY_RECURSION = 64


@dataclass(frozen=True, slots=True)
class Attacker:
    """The risk of owners under one attacker: the highest, the average, and the share of owners above the threshold."""

    highest: float
    average: float
    above: float

    def to_dict(self) -> dict[str, float]:
        """For machines."""
        return {"highest": self.highest, "average": self.average, "above": self.above}


@dataclass(frozen=True, slots=True)
class Marketer:
    """An attacker who wants as many as possible: only the average counts."""

    average: float

    def to_dict(self) -> dict[str, float]:
        """For machines."""
        return {"average": self.average}


@dataclass(frozen=True, slots=True)
class Risk:
    """Risk by attacker; the journalist needs a population or a sampling fraction."""

    prosecutor: Attacker
    journalist: Attacker | None
    marketer: Marketer
    threshold: float

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "prosecutor": self.prosecutor.to_dict(),
            "journalist": None if self.journalist is None else self.journalist.to_dict(),
            "marketer": self.marketer.to_dict(),
            "threshold": self.threshold,
        }


def risk_of(classes: Classes, threshold: float) -> Risk:
    """Risk by attacker over the classes of a table."""
    prosecutor = _attacker(classes.owners, 1 / classes.owners, threshold)
    journalist = None
    if classes.population is not None:
        journalist = _attacker(classes.owners, 1 / np.maximum(classes.population, 1), threshold)
    elif classes.sampling is not None:
        sizes, position = np.unique(classes.owners, return_inverse=True)
        found = np.array([expected_risk(int(size), classes.sampling) for size in sizes])
        risk: Floats = found[position] if len(sizes) else np.zeros(0)
        journalist = _attacker(classes.owners, risk, threshold)
    return Risk(prosecutor, journalist, Marketer((journalist or prosecutor).average), threshold)


def _attacker(owners: Integers, risk: Floats, threshold: float) -> Attacker:
    total = int(owners.sum())
    if not total:
        return Attacker(0.0, 0.0, 0.0)
    above = int(owners[risk > threshold + 1e-12].sum())
    return Attacker(float(risk.max()), float((owners * risk).sum()) / total, above / total)


def expected_risk(owners: int, sampling: float) -> float:
    """E[1/F | f] = π ∫₀¹ s^(f−1) / (π + (1−π)s) ds, by a recursion in f, or by its series where that converges fast.

    >>> round(expected_risk(1, 0.1), 6), round(expected_risk(5, 0.1), 6)
    (0.255843, 0.024235)
    """
    rest = 1.0 - sampling
    if rest <= 0.0:
        return 1.0 / owners
    if owners <= _BY_RECURSION and sampling <= 0.5:
        integral = -math.log(sampling) / rest
        for size in range(1, owners):
            integral = (1.0 / size - sampling * integral) / rest
        return sampling * integral
    term, total, index = 1.0 / owners, 0.0, 0
    while term > total * 1e-18:
        total += term
        index += 1
        term *= rest * index / (owners + index)
    return sampling * total


def probability_below(k: int, owners: int, sampling: float) -> float:
    """P(F < k | f): how likely the population of a class with f owners is smaller than k.

    >>> round(probability_below(10, 1, 0.1), 6)
    0.61258
    """
    if sampling >= 1.0:
        return 1.0 if owners < k else 0.0
    fixed, rest = owners * math.log(sampling) - math.lgamma(owners), math.log1p(-sampling)
    logs = (math.lgamma(n + owners) - math.lgamma(n + 1) + n * rest + fixed for n in range(k - owners))
    return min(math.fsum(math.exp(log) for log in logs), 1.0)
