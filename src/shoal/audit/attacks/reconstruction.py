"""Reconstruction: enough counts over random subsets give back every secret bit (Dinur and Nissim, 2003).

Exhaustive: with all subsets asked and errors of at most E, any candidate that fits every answer within E differs from
the truth in at most 4E bits. Linear programming: with 4n random subsets, minimising Σ|aᵢ·x − yᵢ| over 0 ≤ x ≤ 1 and
rounding recovers nearly all bits as long as the errors stay well below √n, even when some answers are arbitrarily
wrong (Dwork, McSherry and Talwar, 2007).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Curator, Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.private_sql import private_sums
from shoal.audit.attacks.results import AttackResult, Curve
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_ITERATIONS = 60
_PRIME = 10_007
_MOST_EXHAUSTIVE = 12


def reconstruction(
    *, people: int = 1000, epsilon: float = 1.0, runs: int = 1, seed: int = 0, through_sql: bool = False
) -> AttackResult:
    """The linear-programming attack with up to 4n pseudo-random subset queries; shares are averaged over the runs.

    A person is in subset j when (a·uid + b) mod p < p/2 for fresh a and b: a predicate short enough for SQL. With
    `through_sql` the private answers come from a session, else from the noise that a session would draw.

    >>> reconstruction(people=100).curve("exact").final
    1.0
    """
    rng = np.random.default_rng(seed)
    a, b = rng.integers(1, _PRIME, 4 * people), rng.integers(0, _PRIME, 4 * people)
    subsets = ((a[:, None] * np.arange(people) + b[:, None]) % _PRIME < _PRIME // 2).astype(np.float64)
    secrets = rng.integers(0, 2, (people, runs)).astype(np.float64)
    curators: tuple[Curator, ...] = (
        Exact(),
        Rounded(max(2, round(people ** (1 / 3)))),
        SmallNoise(people**0.25, rng),
        Private(epsilon),
    )
    answers = [curator.answer(subsets @ secrets) for curator in curators]
    if through_sql:
        answers[-1] = np.column_stack([_answers_by_sql(a, b, secret, epsilon) for secret in secrets.T])
    steps = (people // 2, people, 2 * people, 4 * people)
    shares = [_shares_found(subsets[:step], [x[:step] for x in answers], secrets) for step in steps]
    curves = tuple(Curve(c.name, steps, tuple(share[i] for share in shares)) for i, c in enumerate(curators))
    return AttackResult("reconstruction", f"{people} secret bits, linear programming", 0.5, curves)


def _answers_by_sql(a: Integers, b: Integers, secret: Floats, epsilon: float) -> Floats:
    sums = [
        f"CASE WHEN (uid * {i} + {j}) % {_PRIME} < {_PRIME // 2} THEN secret ELSE 0 END"
        for i, j in zip(a, b, strict=True)
    ]
    return private_sums({"secret": secret.astype(np.int64)}, sums, epsilon)


def _shares_found(subsets: Floats, answers: list[Floats], secrets: Floats) -> list[float]:
    """The share of bits each curator gives away; all curators and runs are decoded together."""
    found = np.split(decode(subsets, np.hstack(answers)) > 0.5, len(answers), axis=1)
    return [float(np.mean(part == (secrets > 0.5))) for part in found]


def decode(subsets: Floats, answers: Floats, iterations: int = _ITERATIONS) -> Floats:
    """The x in [0, 1]ⁿ with the smallest Σ|subsets·x − answers|, one column for each column of answers.

    The linear program is solved by alternating directions: x for the residuals r and the box copy w, then r by soft
    thresholding, w by clipping, then the two running disagreements u and v.
    """
    queries, people = subsets.shape
    weight = queries / 4  # the size of subsetsᵀ·subsets off its one large eigenvalue, so that both copies pull alike
    inverse = np.linalg.inv(subsets.T @ subsets + weight * np.eye(people))
    w = np.full((people, answers.shape[1]), 0.5)
    r, u, v = np.zeros_like(answers), np.zeros_like(answers), np.zeros_like(w)
    step = None
    for _ in range(iterations):
        x = inverse @ (subsets.T @ (answers + r - u) + weight * (w - v))
        error = subsets @ x - answers
        step = np.abs(error).mean(axis=0) + 1e-9 if step is None else step
        r = np.sign(error + u) * np.maximum(np.abs(error + u) - step, 0.0)
        w = np.clip(x + v, 0.0, 1.0)
        u += error - r
        v += x - w
    return w


def exhaustive_reconstruction(*, people: int = 10, epsilon: float = 1.0, runs: int = 30, seed: int = 0) -> AttackResult:
    """Ask about subsets, try all 2ⁿ candidates, keep one whose worst error is smallest; averaged over the runs.

    >>> exhaustive_reconstruction(people=6).curve("exact").final
    1.0
    """
    if not 1 <= people <= _MOST_EXHAUSTIVE:
        raise ShoalError(
            "E_USAGE",
            f"The exhaustive attack tries 2ⁿ candidates: n is from 1 to {_MOST_EXHAUSTIVE}.",
            hint="For more people use the linear-programming attack.",
        )
    rng = np.random.default_rng(seed)
    candidates = (np.arange(2**people)[:, None] >> np.arange(people) & 1).astype(np.float64)
    predictions = candidates @ candidates[rng.permutation(len(candidates))].T
    truths = rng.integers(len(candidates), size=runs)
    steps = tuple(sorted({people, 4 * people, len(candidates)}))
    curves = tuple(
        Curve(c.name, steps, tuple(_exhaust(candidates, predictions[:, :step], truths, c) for step in steps))
        for c in (Exact(), Rounded(3), Private(epsilon))
    )
    return AttackResult("reconstruction (exhaustive)", f"{people} secret bits, all candidates", 0.5, curves)


def _exhaust(candidates: Floats, predictions: Floats, truths: Integers, curator: Curator) -> float:
    """The share of bits of the best candidates that are right; predictions[i, j] = what candidate i says to query j."""
    right = []
    for truth in truths:
        answers = curator.answer(predictions[truth])
        best = np.abs(predictions - answers).max(axis=1).argmin()
        right.append(np.mean(candidates[best] == candidates[truth]))
    return float(np.mean(right))
