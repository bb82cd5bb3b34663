"""What the repeated runs should come to, without running them: exact tails of the discrete noise that is drawn.

A cell is one group of one run. With t the true answer of a group, s its exact bounded count, n its owners and X the noise, the
relative error stays below e when |s + X − t| ≤ e·t. The median relative error over released cells is the smallest e with

    Σ_g P[g is kept, |s + X − t| ≤ e·t] ≥ ½·Σ_g P[g is kept].

Where the released count also selects, g is kept when n + X ≥ τ, and the two events are about the same X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from shoal.accounting.events import ThresholdSelection
from shoal.mechanisms.calibrate import noise_tail
from shoal.mechanisms.group_selection import keep_probability
from shoal.plan.totals import LeafCounts

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise, Selection
    from shoal.plan.releases import SelectPlan
    from shoal.release.resolve_bounds import ResolvedTotals


@dataclass(frozen=True, slots=True)
class Group:
    """What one group brings: owners and count after bounding, and the true answer."""

    owners: int
    count: int
    truth: float


@lru_cache(maxsize=65536)
def kept_chance(selection: Selection | None, owners: int) -> float:
    """The chance that a group of so many owners appears."""
    return 1.0 if selection is None else keep_probability(selection, owners)


def share_withheld(selection: Selection | None, owners: list[int], groups: int) -> float:
    """The expected share of `groups` that does not appear; groups that bounding emptied never do."""
    return 1.0 - math.fsum(kept_chance(selection, n) for n in owners) / groups


def is_one_count(select: SelectPlan, measured: ResolvedTotals) -> bool:
    """Whether the answer is one noisy whole number per group, so that the median error has a closed form."""
    if len(select.releases) != 1 or isinstance(measured.measurement.totals[0], LeafCounts):
        return False
    return measured.noises[0].grid == 1


def median_relative_error(select: SelectPlan, noise: AdditiveNoise, groups: list[Group]) -> float:
    """The median over released cells, to four digits."""
    goal = math.fsum(kept_chance(select.selection, g.owners) for g in groups) / 2
    low, high = 0.0, 1.0
    while _below(select, noise, groups, high) < goal:
        high *= 2
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _below(select, noise, groups, middle) >= goal else (middle, high)
    return high


def _below(select: SelectPlan, noise: AdditiveNoise, groups: list[Group], error: float) -> float:
    return math.fsum(_cell(select, noise, group, error) for group in groups)


def _cell(select: SelectPlan, noise: AdditiveNoise, group: Group, error: float) -> float:
    """P[the group is kept and its error is at most this]."""
    least = math.ceil(group.truth - group.count - error * group.truth)
    most = math.floor(group.truth - group.count + error * group.truth)
    selection = select.selection
    if select.shared_count is not None and isinstance(selection, ThresholdSelection):
        return _between(noise, max(least, selection.threshold - group.owners), most)
    return kept_chance(selection, group.owners) * _between(noise, least, most)


def _between(noise: AdditiveNoise, least: int, most: int) -> float:
    return float(noise_tail(noise, least).upper - noise_tail(noise, most + 1).upper) if least <= most else 0.0
