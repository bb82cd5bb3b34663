"""Membership: is this person in the data? Published averages of many attributes answer that (Homer et al., 2008).

The attacker knows a person's attributes x, the averages a of the data, and the averages p of the population. The score
Σⱼ (xⱼ − pⱼ)(aⱼ − pⱼ) is about 0 for a stranger and Σⱼ pⱼ(1 − pⱼ)/n for one of the n members (Dwork et al., 2015); half
of that is the threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.private_sql import private_sums
from shoal.audit.attacks.results import AttackResult, Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def membership(
    *, members: int = 100, attributes: int = 2000, epsilon: float = 1.0, seed: int = 0, through_sql: bool = False
) -> AttackResult:
    """Tell members from strangers, half of each, by counts of many yes/no attributes.

    With `through_sql` the private answers come from a session, else from the noise that a session would draw.

    >>> membership(members=50).curve("exact").final > 0.95
    True
    """
    rng = np.random.default_rng(seed)
    population = rng.uniform(0.1, 0.9, attributes)
    inside = (rng.random((members, attributes)) < population).astype(np.float64)
    outside = (rng.random((members, attributes)) < population).astype(np.float64)
    curators = (Exact(), Rounded(5), SmallNoise(2.0, rng), Private(epsilon))
    steps = tuple(attributes // part for part in (64, 16, 4, 1))
    counts = inside.sum(axis=0)
    curves = []
    for curator in curators:
        by_sql = through_sql and isinstance(curator, Private)
        answers = _counts_by_sql(inside, epsilon) if by_sql else curator.answer(counts)
        shares = (_share_told(inside[:, :n], outside[:, :n], population[:n], answers[:n]) for n in steps)
        curves.append(Curve(curator.name, steps, tuple(shares)))
    return AttackResult("membership", f"who of {2 * members} people is in the data", 0.5, tuple(curves))


def _share_told(inside: Floats, outside: Floats, population: Floats, counts: Floats) -> float:
    """The share of members and strangers that their scores classify correctly."""
    members = len(inside)
    threshold = float((population * (1 - population)).sum()) / members / 2
    weights = counts / members - population
    told = np.concatenate(((inside - population) @ weights > threshold, (outside - population) @ weights <= threshold))
    return float(told.mean())


def _counts_by_sql(inside: Floats, epsilon: float) -> Floats:
    columns = {f"attribute_{i}": column.astype(np.int64) for i, column in enumerate(inside.T)}
    return private_sums(columns, list(columns), epsilon)
