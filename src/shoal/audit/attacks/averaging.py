"""Averaging: ask the same question again and again, and the noise averages away.

Noise without a budget protects for one question. The mean of t answers has noise smaller by √t. With a budget, t
answers cost t times as much or carry t times the noise, and the mean is worse than one answer; asking with the very
same words returns the stored answer. Whatever is asked, a guess about one bit is right with chance at most e^ε/(1 +
e^ε).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Curator, Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.private_sql import private_bits
from shoal.audit.attacks.results import AttackResult, Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_TIMES = (1, 4, 16, 64)


def averaging(*, targets: int = 400, epsilon: float = 1.0, seed: int = 0, through_sql: bool = False) -> AttackResult:
    """Recover one person's secret bit from repeated counts of that person alone; the share over many such persons.

    With `through_sql` the private answers come from a session, else from the noise that a session would draw.

    >>> averaging(targets=50).curve("noise").final > 0.9
    True
    """
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, targets).astype(np.float64)
    curators = (Exact(), Rounded(5), SmallNoise(1.0, rng), Private(epsilon))
    return AttackResult(
        attack="averaging",
        secret=f"the bit of one person ({targets} trials)",
        guessing=0.5,
        curves=tuple(_curve(secret, curator, through_sql=through_sql) for curator in curators),
    )


def _curve(secret: Floats, curator: Curator, *, through_sql: bool) -> Curve:
    recovered = []
    for times in _TIMES:
        if isinstance(curator, Private) and through_sql:
            answers = private_bits(secret, times, curator.epsilon)
        else:
            answers = curator.answer(np.tile(secret, (times, 1)))  # a row for each repetition, a column for each person
        recovered.append(float(np.mean((answers.mean(axis=0) > 0.5) == secret)))
    note = "the same answer every time; see differencing" if isinstance(curator, Rounded) else ""
    return Curve(curator.name, _TIMES, tuple(recovered), note)
