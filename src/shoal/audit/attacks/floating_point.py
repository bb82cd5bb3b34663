"""Floating point: the last bits of textbook noise give the answer away (Mironov, 2012).

A double has 53 bits. Laplace noise made as ±b·ln(u) from a double u reaches only some doubles, and adding it to 0 or
to 1 reaches different ones. An attacker who knows the program tries the few u that could have led to an output: when
none leads there from 0, the answer was 1. One answer is enough for most secrets, at any ε. Noise on a grid of
integers has no such bits: every output can come from both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.audit.attacks.curators import Private
from shoal.audit.attacks.private_sql import private_bits
from shoal.audit.attacks.results import AttackResult, Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Booleans = NDArray[np.bool_]

_ANSWERS = (1, 2, 4, 8)
_NEARBY = 12  # uniform doubles tried on each side of the inverse; rounding in the logarithm moves it by a few


def floating_point(
    *, targets: int = 2000, epsilon: float = 0.01, seed: int = 0, through_sql: bool = False
) -> AttackResult:
    """Recover a secret bit from its noisy value; the total ε is split evenly over the answers, whatever the noise.

    With `through_sql` the private answers come from a session, else from the noise that a session would draw.

    >>> floating_point(targets=200).curve("textbook").recovered[0] > 0.8
    True
    """
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, targets).astype(np.float64)
    guesses = rng.integers(0, 2, targets) == 1
    textbook = tuple(_textbook_share(secret, guesses, count / epsilon, count, rng) for count in _ANSWERS)
    private = tuple(_private_share(secret, epsilon, count, through_sql=through_sql) for count in _ANSWERS)
    return AttackResult(
        attack="floating point",
        secret=f"one bit behind noise of total ε = {epsilon:.3g} ({targets} trials)",
        guessing=0.5,
        curves=(
            Curve("exact answers", _ANSWERS, (1.0,) * len(_ANSWERS)),
            Curve("textbook Laplace noise", _ANSWERS, textbook),
            Curve(Private(epsilon).name, _ANSWERS, private),
        ),
    )


def textbook_laplace(uniform: Floats, scale: float) -> Floats:
    """Laplace noise by inverting its distribution function in doubles: the textbook way, and the broken one."""
    centred = uniform - 0.5
    noise: Floats = -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
    return noise


def is_reachable(output: Floats, answer: float, scale: float) -> Booleans:
    """Whether some uniform double leads from the answer to exactly this output."""
    tail = 0.5 * np.exp(-np.abs(output - answer) / scale)
    nearest = np.round(np.where(output < answer, tail, 1 - tail) * 2.0**53)
    reached = np.zeros(len(output), dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for shift in range(-_NEARBY, _NEARBY + 1):
            reached |= answer + textbook_laplace((nearest + shift) * 2.0**-53, scale) == output
    return reached


def _textbook_share(secret: Floats, guesses: Booleans, scale: float, answers: int, rng: np.random.Generator) -> float:
    """The share of bits found when one impossible output settles the matter and the rest is guessed."""
    is_zero, is_one = np.zeros(len(secret), dtype=bool), np.zeros(len(secret), dtype=bool)
    for _ in range(answers):
        output = secret + textbook_laplace(rng.random(len(secret)), scale)
        is_zero |= ~is_reachable(output, 1.0, scale)
        is_one |= ~is_reachable(output, 0.0, scale)
    found = np.where(is_zero | is_one, is_one, guesses)
    return float(np.mean(found == (secret == 1)))


def _private_share(secret: Floats, epsilon: float, answers: int, *, through_sql: bool) -> float:
    """The share of bits found by the likeliest bit for the mean of the answers: their last bits say nothing."""
    by_noise = Private(epsilon).answer
    seen = private_bits(secret, answers, epsilon) if through_sql else by_noise(np.tile(secret, (answers, 1)))
    return float(np.mean((seen.mean(axis=0) >= 0.5) == (secret == 1)))
