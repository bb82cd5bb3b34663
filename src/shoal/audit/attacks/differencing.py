"""Differencing: ask about everyone, ask about everyone but one, subtract.

The attack is as old as statistical databases (Denning's trackers). Rounding does not stop it: an attacker who
controls r known rows asks for c, c + 1, …, c + r − 1 rounded to r, and the sum of the answers gives c exactly, by
Hermite's identity Σⱼ ⌊(c + j)/r⌋ = c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Curator, Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.private_sql import private_sums
from shoal.audit.attacks.results import AttackResult, Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def differencing(*, people: int = 100, epsilon: float = 1.0, seed: int = 0, through_sql: bool = False) -> AttackResult:
    """Recover every person's secret bit from counts over everyone and over everyone but one.

    With `through_sql` the private answers come from a session, else from the noise that a session would draw.

    >>> differencing(people=20).curve("exact").final
    1.0
    """
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, people)
    curators = (Exact(), Rounded(5), SmallNoise(0.3, rng), Private(epsilon))
    return AttackResult(
        attack="differencing",
        secret=f"one bit for each of {people} people",
        guessing=0.5,
        curves=tuple(_curve(secret, curator, through_sql=through_sql) for curator in curators),
    )


def _curve(secret: NDArray[np.int64], curator: Curator, *, through_sql: bool) -> Curve:
    """The share of all bits known after the first targets were attacked; of the others, guessing gets half."""
    people = len(secret)
    queries, recovered = [], []
    for targets in sorted({max(1, people * share // 100) for share in (10, 25, 50, 100)}):
        if isinstance(curator, Private) and through_sql:
            asked, found = _difference_by_sql(secret, targets, curator.epsilon)
        else:
            asked, found = _difference(secret, targets, curator)
        queries.append(asked)
        recovered.append(float((np.sum(found == secret[:targets]) + (people - targets) / 2) / people))
    return Curve(curator.name, tuple(queries), tuple(recovered))


def _difference(secret: NDArray[np.int64], targets: int, curator: Curator) -> tuple[int, NDArray[np.int64]]:
    """The bits of the first targets, two queries each: count of everyone, minus count of everyone but the target."""
    everyone = secret.sum()
    truth = np.concatenate((np.full(targets, everyone), everyone - secret[:targets]))
    paddings = curator.base if isinstance(curator, Rounded) else 1
    padded = (truth[None, :] + np.arange(paddings)[:, None]).ravel().astype(np.float64)
    answers = curator.answer(padded).reshape(paddings, -1)
    counts = _unround(answers, paddings) if paddings > 1 else answers[0]
    return padded.size, (counts[:targets] - counts[targets:] > 0.5).astype(np.int64)


def _difference_by_sql(secret: NDArray[np.int64], targets: int, epsilon: float) -> tuple[int, NDArray[np.int64]]:
    """The same two queries for each target, as SQL; a term that is 0 keeps the first ones from being one draw."""
    everyone = [f"secret + 0 * (uid % {i + 2})" for i in range(targets)]
    but_one = [f"CASE WHEN uid <> {i} THEN secret ELSE 0 END" for i in range(targets)]
    answers = private_sums({"secret": secret}, everyone + but_one, epsilon)
    return len(answers), (answers[:targets] - answers[targets:] > 0.5).astype(np.int64)


def _unround(answers: Floats, base: int) -> Floats:
    """The exact counts behind answers rounded to a base, from queries padded with 0 … base − 1 known rows."""
    exact: Floats = (answers / base).sum(axis=0) - base // 2
    return exact
