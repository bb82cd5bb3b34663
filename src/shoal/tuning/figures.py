"""Exact figures, not simulated: what clamping, sampling of groups and noise do to every group, and its chance to appear.

For an owner o in group g with value x: c = clamp(x, L, U), m = groups of o, q = min(1, κ/m).

    clamp_bias = Σ (c − x)    kappa_bias = −Σ (1 − q)·c    kappa_variance = Σ q·(1 − q)·c²
    rmse = √((clamp_bias + kappa_bias)² + kappa_variance + σ²)    keep = Σ_j P[j owners left]·π(j)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import WeightedSelection
from shoal.frozen import dataclass
from shoal.mechanisms import group_selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.accounting.events import Selection
    from shoal.tuning.pairs import Pairs

Floats = "NDArray[np.float64]"
CERTAIN = 1e-12


@dataclass(frozen=True, slots=True)
class ColumnFigures:
    """Of one aggregate, group by group."""

    exact: NDArray[np.float64]
    clamp_bias: NDArray[np.float64]
    kappa_bias: NDArray[np.float64]
    kappa_variance: NDArray[np.float64]
    noise: float
    clamped_low: float
    clamped_high: float
    lost_to_clamping: float
    lost_to_groups_limit: float

    @property
    def rmse(self) -> NDArray[np.float64]:
        """The root of the mean squared error of every group."""
        found: NDArray[np.float64] = np.sqrt(
            (self.clamp_bias + self.kappa_bias) ** 2 + self.kappa_variance + self.noise**2
        )
        return found

    @property
    def without_limits(self) -> ColumnFigures:
        """As if nothing were clamped or left out, with the same noise."""
        nothing = np.zeros_like(self.exact)
        return replace(self, clamp_bias=nothing, kappa_bias=nothing, kappa_variance=nothing)

    @property
    def median_relative_error(self) -> float | None:
        """Of the groups that are not 0."""
        return self.relative_error(0.5)

    def relative_error(self, share: float) -> float | None:
        """What this share of the groups that are not 0 is off by at most."""
        there = self.exact != 0
        return float(np.quantile(self.rmse[there] / np.abs(self.exact[there]), share)) if there.any() else None


def column_figures(
    pairs: Pairs, values: NDArray[np.float64], bounds: tuple[float, float] | None, kappa: int, noise: float
) -> ColumnFigures:
    """What one setting does to one aggregate."""
    clamped = values if bounds is None else np.clip(values, *bounds)
    chance = np.minimum(1.0, kappa / pairs.groups_of_owner)
    groups = len(pairs.keys)

    def by_group(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(pairs.group, weights=weights, minlength=groups).astype(np.float64)

    size, everything = max(1, len(values)), float(np.abs(values).sum()) or 1.0
    low, high = (0, 0) if bounds is None else ((values < bounds[0]).sum(), (values > bounds[1]).sum())
    return ColumnFigures(
        by_group(values),
        by_group(clamped - values),
        -by_group((1 - chance) * clamped),
        by_group(chance * (1 - chance) * clamped**2),
        noise,
        float(low) / size,
        float(high) / size,
        float(np.abs(clamped - values).sum()) / everything,
        float(((1 - chance) * np.abs(clamped)).sum()) / everything,
    )


def keep_chances(pairs: Pairs, kappa: int, selection: Selection | None) -> NDArray[np.float64]:
    """The chance of each group to appear: owners left in it are a sum of binomials, one for each m."""
    groups = len(pairs.keys)
    if selection is None:
        return np.ones(groups)
    members = pairs.members
    if isinstance(selection, WeightedSelection):
        return np.array([_keep_by_weight(profile, kappa, selection) for profile in members])
    pi = _keep_by_owners(selection)
    known: dict[tuple[tuple[int, int], ...], float] = {}
    for profile in members:
        if profile not in known:
            known[profile] = _keep(profile, kappa, pi)
    return np.array([known[profile] for profile in members])


def _keep_by_owners(selection: Selection) -> NDArray[np.float64]:
    """π(0), π(1), … until it is certain."""
    found, owners = [0.0], 0
    while found[-1] < 1 - CERTAIN and owners < 1_000_000:
        owners += 1
        found.append(group_selection.keep_probability(selection, owners))
    return np.array(found)


def _keep(profile: tuple[tuple[int, int], ...], kappa: int, pi: NDArray[np.float64]) -> float:
    """Σ_j P[j]·π(j); beyond the last j of `pi` the group is certain."""
    if _surely_above(len(pi), sum(owners * min(1.0, kappa / m) for m, owners in profile)):
        return 1.0
    left = np.array([1.0])
    for m, owners in profile:
        left = np.convolve(left, _binomial(owners, min(1.0, kappa / m), len(pi)))[: len(pi)]
    known = float(left @ pi[: len(left)])
    return min(1.0, known + max(0.0, 1.0 - float(left.sum())))


def _surely_above(most: int, mean: float) -> bool:
    """Whether a sum of independent chances with this mean is below `most` with a chance below 10⁻¹² (Chernoff)."""
    return mean > most and (mean - most) ** 2 > -2 * mean * math.log(CERTAIN)


def _keep_by_weight(profile: tuple[tuple[int, int], ...], kappa: int, selection: WeightedSelection) -> float:
    """Owners with at most κ groups are certain, with the weights of their degrees; of the others, with the least, some are left."""
    degrees = [degree for degree, _ in selection.weights]
    certain = [(m, owners) for m, owners in profile if m <= kappa]
    weight = sum(selection.weights[bisect_left(degrees, m)][1] * owners for m, owners in certain)
    here = sum(owners for _, owners in certain)
    left = np.array([1.0])
    for m, owners in profile:
        if m > kappa:
            left = np.convolve(left, _binomial(owners, kappa / m, owners + 1))
    least = selection.weights[-1][1]

    def kept(j: int) -> float:
        return group_selection.keep_probability(selection, here + j, weight + j * least)

    likely = np.flatnonzero(left > CERTAIN / len(left))
    first, last = int(likely[0]), int(likely[-1])
    if kept(first) >= 1 - CERTAIN:
        return 1.0
    return min(1.0, float(left[first : last + 1] @ np.array([kept(j) for j in range(first, last + 1)])))


def _binomial(n: int, chance: float, most: int) -> NDArray[np.float64]:
    """P[0], …, P[most − 1] of a binomial, as many as it has."""
    size = min(n + 1, most)
    if chance >= 1.0:
        found = np.zeros(size)
        if n < most:
            found[n] = 1.0
        return found
    k = np.arange(size)
    factorials = _log_factorials(1 << n.bit_length())
    logs = factorials[n] - factorials[:size] - factorials[n - k]
    return np.asarray(np.exp(logs + k * math.log(chance) + (n - k) * math.log1p(-chance)))


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> NDArray[np.float64]:
    """The logarithms of 0!, 1!, 2! and so on."""
    found: NDArray[np.float64] = np.array([math.lgamma(i + 1) for i in range(most + 1)])
    return found
