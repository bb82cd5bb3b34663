"""Exact discrete noise: the single entry point to every random number that protects anyone.

It has two sources. Batches of at most `VETTED_BATCH` draws come from OpenDP's vetted samplers; larger
batches, scales that a 64-bit draw or a binary float cannot hold, and seeded tests come from the vectorised sampler in
`inversion` and `rejection`, which is exact by the proofs written there. Both are tested against the closed form and
against each other.

    >>> from fractions import Fraction
    >>> from shoal.mechanisms.entropy import seeded_entropy
    >>> discrete_laplace(Fraction(3), 5, seeded_entropy(1)).dtype
    dtype('int64')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.errors import InternalError
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.sampling import opendp_samplers, vectorised
from shoal.mechanisms.sampling.inversion import WORD_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

Steps = npt.NDArray[np.int64]
WideSteps = npt.NDArray[np.int64] | npt.NDArray[np.object_]

VETTED_BATCH = 256
LARGEST_DRAW = 1 << 62
SHORT_BITS = 16
LOW_WORD = np.uint64(0xFFFFFFFF)


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy = SYSTEM) -> Steps:
    """Draws of P[X = k] ∝ exp(−|k|/scale), saturated at ±2⁶².

    Saturated noise is not additive noise: where the scale can exceed about 2⁵⁰ steps, use `wide_discrete_laplace`.
    """
    return _saturated(wide_discrete_laplace(scale, size, entropy))


def discrete_gaussian(sigma: Fraction, size: int, entropy: Entropy = SYSTEM) -> Steps:
    """Draws of P[X = k] ∝ exp(−k²/2σ²), saturated at ±2⁶² (see `discrete_laplace`)."""
    return _saturated(wide_discrete_gaussian(sigma, size, entropy))


def wide_discrete_laplace(scale: Fraction, size: int, entropy: Entropy = SYSTEM) -> WideSteps:
    """Draws of P[X = k] ∝ exp(−|k|/scale): int64, or Python integers when one of them does not fit below 2⁶²."""
    _require_scale(scale, size)
    if _is_vetted(scale, size, entropy):
        return opendp_samplers.discrete_laplace(scale, size)
    return vectorised.discrete_laplace(scale, size, entropy)


def wide_discrete_gaussian(sigma: Fraction, size: int, entropy: Entropy = SYSTEM) -> WideSteps:
    """Draws of P[X = k] ∝ exp(−k²/2σ²): int64, or Python integers when one of them does not fit below 2⁶²."""
    _require_scale(sigma, size)
    if _is_vetted(sigma, size, entropy):
        return opendp_samplers.discrete_gaussian(sigma, size)
    return vectorised.discrete_gaussian(sigma, size, entropy)


def geometric(scale: Fraction, size: int, entropy: Entropy = SYSTEM) -> Steps:
    """Draws of P[G = k] ∝ exp(−k/scale), k ≥ 0, saturated at 2⁶²."""
    _require_scale(scale, size)
    return _saturated(vectorised.geometric(scale, size, entropy))


def bernoulli(
    probabilities: Sequence[Fraction], which: npt.NDArray[np.int64] | None = None, entropy: Entropy = SYSTEM
) -> npt.NDArray[np.bool_]:
    """Independent coins: coin i is true with probability exactly `probabilities[which[i]]` (default: one coin each).

    A uniform real U, digits drawn when needed, is compared with p: the first 64 digits of both decide unless they are
    equal, and then the exact fraction decides with further digits. P[U < p] = p for every rational p in [0, 1].
    """
    if any(not 0 <= p <= 1 for p in probabilities):
        raise InternalError("a probability lies between 0 and 1")
    rows = np.arange(len(probabilities)) if which is None else which
    sure = np.array([p == 1 for p in probabilities], dtype=bool)
    floors = np.array(
        [0 if p == 1 else (p.numerator << WORD_BITS) // p.denominator for p in probabilities], dtype=np.uint64
    )
    words = entropy.uint64(len(rows))
    outcome = (words < floors[rows]) | sure[rows]
    for row in np.flatnonzero((words == floors[rows]) & ~sure[rows]):
        outcome[row] = _tied_coin(probabilities[int(rows[row])], entropy)
    return np.asarray(outcome, dtype=np.bool_)


def _tied_coin(probability: Fraction, entropy: Entropy) -> bool:
    """Whether U < p, given that the first 64 digits of U and p agree: the digits that follow are fresh on U's side."""
    rest = probability * 2**WORD_BITS % 1
    while rest:
        word = int(rest * 2**WORD_BITS)
        rest = rest * 2**WORD_BITS - word
        if (digits := entropy.bits(WORD_BITS)) != word:
            return digits < word
    return False


def coins(probability: Fraction, size: int, entropy: Entropy = SYSTEM) -> npt.NDArray[np.bool_]:
    """Many independent coins of one exact probability: 16 digits decide all but one in 65,536, `bernoulli` the rest."""
    if not 0 <= probability < 1:
        raise InternalError("the chance of a coin is at least 0 and below 1")
    floor = (probability.numerator << SHORT_BITS) // probability.denominator
    words = np.frombuffer(entropy.bytes(SHORT_BITS // 8 * size), dtype="<u2")
    outcome = words < floor
    tied = np.flatnonzero(words == floor)
    rest = probability * (1 << SHORT_BITS) - floor
    outcome[tied] = bernoulli([rest], np.zeros(len(tied), dtype=np.int64), entropy)
    return outcome


def below(bound: int, size: int, entropy: Entropy = SYSTEM) -> Steps:
    """Independent uniform integers in [0, bound), exactly, for 1 ≤ bound ≤ 2³².

    A 32-bit word x gives ⌊x·bound/2³²⌋ and the remainder x·bound mod 2³². Among the words of one quotient, those whose
    remainder is at least 2³² mod bound are equally many for every quotient (Lemire); the others are drawn again.
    """
    if not 1 <= bound <= 1 << 32:
        raise InternalError("a bound of uniform integers lies between 1 and 2^32")
    least = np.uint64((1 << 32) % bound)
    products = _products(bound, size, entropy)
    while len(again := np.flatnonzero(products & LOW_WORD < least)):
        products[again] = _products(bound, len(again), entropy)
    return (products >> np.uint64(32)).astype(np.int64)


def _products(bound: int, size: int, entropy: Entropy) -> npt.NDArray[np.uint64]:
    return np.frombuffer(entropy.bytes(4 * size), dtype="<u4").astype(np.uint64) * np.uint64(bound)


def _is_vetted(scale: Fraction, size: int, entropy: Entropy) -> bool:
    return entropy.safe and size <= VETTED_BATCH and opendp_samplers.can_draw(scale)


def _require_scale(scale: Fraction, size: int) -> None:
    if scale <= 0 or size < 0:
        raise InternalError("noise needs a positive scale and a number of draws")


def _saturated(draws: WideSteps) -> Steps:
    return np.clip(draws, -LARGEST_DRAW, LARGEST_DRAW).astype(np.int64)
