"""Membership: is this person in the data? Published averages of many attributes answer that (Homer et al., 2008).

The attacker knows a person's attributes x, the averages a of the data, and the averages p of the population. The score
Σⱼ (xⱼ − pⱼ)(aⱼ − pⱼ) is about 0 for a stranger and Σⱼ pⱼ(1 − pⱼ)/n for one of the n members (Dwork et al., 2015); half
of that is the threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Curator, Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.results import AttackResult, Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def membership(*, members: int = 100, attributes: int = 4000, epsilon: float = 1.0, seed: int = 0) -> AttackResult:
    """Tell members from strangers, half of each, by counts of many yes/no attributes.

    >>> membership(members=50).curve("exact").final > 0.95
    True
    """
    rng = np.random.default_rng(seed)
    population = rng.uniform(0.1, 0.9, attributes)
    inside = rng.random((members, attributes)) < population
    outside = rng.random((members, attributes)) < population
    curators = (Exact(), Rounded(5), SmallNoise(2.0, rng), Private(epsilon))
    steps = tuple(attributes // part for part in (64, 16, 4, 1))
    curves = tuple(
        Curve(
            curator.name,
            steps,
            tuple(_share_told(inside[:, :n], outside[:, :n], population[:n], curator) for n in steps),
        )
        for curator in curators
    )
    return AttackResult("membership", f"who of {2 * members} people is in the data", 0.5, curves)


def _share_told(inside: Floats, outside: Floats, population: Floats, curator: Curator) -> float:
    members = len(inside)
    averages = curator.answer(inside.sum(axis=0).astype(np.float64)) / members
    threshold = float((population * (1 - population)).sum()) / members / 2
    weights = averages - population
    told = np.concatenate(((inside - population) @ weights > threshold, (outside - population) @ weights <= threshold))
    return float(told.mean())
