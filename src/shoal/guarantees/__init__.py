"""Claims about privacy as values: convert them, add them up by every known rule, and see what they mean.

    >>> from shoal import guarantees as g
    >>> round(g.compose("laplace(10)*50", delta=1e-6, rule="optimal").epsilon, 6)
    3.172903
    >>> g.group(g.Pure(0.5), 4)
    Pure(epsilon=2)

Nothing here reads data or spends a budget, and sessions keep their own accountants. Parts are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.accounting.claims.meaning import Bounds, Meaning, guess_accuracy, meaning, posterior
    from shoal.guarantees.budgets import how_many, noise_for
    from shoal.guarantees.claims import Claim, Claims
    from shoal.guarantees.composing import Composition, compose
    from shoal.guarantees.converting import Conversion, conversions, convert
    from shoal.guarantees.derived import group, parallel, subsample
    from shoal.guarantees.noises import GaussianNoise, GeometricNoise, LaplaceNoise, RandomizedResponse, Subsampled
    from shoal.guarantees.parsing import parse
    from shoal.guarantees.promises import (
        Approximate,
        Gaussian,
        KullbackLeibler,
        MeanConcentrated,
        MutualInformation,
        Probabilistic,
        Pure,
        Renyi,
        TotalVariation,
        TruncatedConcentrated,
        ZeroConcentrated,
    )
    from shoal.guarantees.published import Deployment, deployments, power

_HOMES = {
    "shoal.accounting.claims.meaning": ("Bounds", "Meaning", "guess_accuracy", "meaning", "posterior"),
    "shoal.guarantees.budgets": ("how_many", "noise_for"),
    "shoal.guarantees.claims": ("Claim", "Claims"),
    "shoal.guarantees.composing": ("Composition", "compose"),
    "shoal.guarantees.converting": ("Conversion", "conversions", "convert"),
    "shoal.guarantees.derived": ("group", "parallel", "subsample"),
    "shoal.guarantees.noises": ("GaussianNoise", "GeometricNoise", "LaplaceNoise", "RandomizedResponse", "Subsampled"),
    "shoal.guarantees.parsing": ("parse",),
    "shoal.guarantees.promises": (
        "Approximate",
        "Gaussian",
        "KullbackLeibler",
        "MeanConcentrated",
        "MutualInformation",
        "Probabilistic",
        "Pure",
        "Renyi",
        "TotalVariation",
        "TruncatedConcentrated",
        "ZeroConcentrated",
    ),
    "shoal.guarantees.published": ("Deployment", "deployments", "power"),
}

__all__ = [
    "Approximate",
    "Bounds",
    "Claim",
    "Claims",
    "Composition",
    "Conversion",
    "Deployment",
    "Gaussian",
    "GaussianNoise",
    "GeometricNoise",
    "KullbackLeibler",
    "LaplaceNoise",
    "MeanConcentrated",
    "Meaning",
    "MutualInformation",
    "Probabilistic",
    "Pure",
    "RandomizedResponse",
    "Renyi",
    "Subsampled",
    "TotalVariation",
    "TruncatedConcentrated",
    "ZeroConcentrated",
    "compose",
    "conversions",
    "convert",
    "deployments",
    "group",
    "guess_accuracy",
    "how_many",
    "meaning",
    "noise_for",
    "parallel",
    "parse",
    "posterior",
    "power",
    "subsample",
]


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'shoal.guarantees' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return list(__all__)
