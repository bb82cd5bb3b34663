"""How much likelier a register is with the target in the sketch than without.

A register C of m has seen the ranks of the owners in its bucket. With q(c) = 2^{−c}/m the chance that an owner lands in the bucket
with a rank above c, F_k(c) = (1 − q(c))^k = P[C ≤ c] after k owners. With the target at rank ρ and n owners in the sketch,
n − 1 of them others if the target is one:

    C < ρ   0: the target is certainly absent
    C = ρ   F_{n−1}(ρ) / (F_n(ρ) − F_n(ρ − 1))
    C > ρ   (F_{n−1}(C) − F_{n−1}(C − 1)) / (F_n(C) − F_n(C − 1))
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shoal.risk.sketch.owner_sets import HIGHEST_RANK

Floats = NDArray[np.float64]

RANKS = np.arange(HIGHEST_RANK + 1)


def chances_of_ranks() -> Floats:
    """P[rank = ρ] of an owner, ρ = 0 … 49; the highest rank has what is left."""
    chances = np.ldexp(1.0, -RANKS)
    chances[0], chances[-1] = 0.0, chances[-2]
    return chances


def ratio_table(registers: int, owners: float) -> Floats:
    """The likelihood ratio for every register C (row) and every rank ρ ≥ 1 of the target (column; column 0 is unused).

    >>> table = ratio_table(512, 10_000)
    >>> float(table[3, 5]), round(float(table[5, 5]), 3), round(float(table[9, 5]), 3)
    (0.0, 2.189, 1.0)
    """
    owners = max(1.0, owners)
    with_target, without = _steps(registers, owners - 1), _steps(registers, owners)
    at_most = np.exp((owners - 1) * np.log1p(-_beyond(registers)))
    raised = np.where(without > 0, with_target / np.maximum(without, 1e-300), 1.0)
    table = np.where(RANKS[:, None] > RANKS[None, :], raised[:, None], 0.0)
    equal = np.minimum(at_most / np.maximum(without, 1e-300), math.ldexp(1.0, 62))
    np.fill_diagonal(table, equal)
    table[:, 0] = 0.0
    return table


def _beyond(registers: int) -> Floats:
    """q(c) for c = 0 … 49; nothing is above the highest rank."""
    beyond = np.ldexp(1.0 / registers, -RANKS)
    beyond[-1] = 0.0
    return beyond


def _steps(registers: int, owners: float) -> Floats:
    """F_k(c) − F_k(c − 1) = P[C = c], without cancellation; at c = 0 it is F_k(0)."""
    logs = owners * np.log1p(-_beyond(registers))
    steps = np.exp(logs)
    steps[1:] *= -np.expm1(logs[:-1] - logs[1:])
    return steps


def posterior_of(prior: float, ratio: float) -> float:
    """prior·LR/(prior·LR + 1 − prior)."""
    return prior * ratio / (prior * ratio + 1 - prior)
