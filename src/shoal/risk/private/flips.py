"""The mechanism: every bit is flipped with chance q = 1/(1 + e^ε), rounded up to a multiple of 2⁻⁶⁴.

Precondition: adding or removing one owner changes at most one bit of the matrix.
Formula: each bit is flipped independently with chance Q·2⁻⁶⁴, Q = ⌈2⁶⁴/(1 + e^ε)⌉: a fresh 64-bit word w flips it where w < Q.
Postcondition: for the one bit that differs, the odds of either output are at most (1 − q)/q ≤ e^ε; all other bits have the same
distribution. Hence pure ε-differential privacy, for adding or removing one owner, with no δ and no rounding on the wrong side.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shoal.mechanisms.entropy import Entropy

Bits = NDArray[np.bool_]

WORDS = 1 << 64
_ONE_STEP = Fraction(45)  # e^45 > 2⁶⁴: from here on a flip has the smallest chance of the grid
_DIGITS = 60


def flip_numerator(epsilon: Fraction) -> int:
    """Q = ⌈2⁶⁴/(1 + e^ε)⌉, never too small: e^ε is bounded from below.

    >>> flip_numerator(Fraction(1)) / 2**64
    0.2689414213699951
    """
    if epsilon >= _ONE_STEP:
        return 1
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    exponent = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    growth = Fraction(context.exp(exponent)) * (1 - Fraction(1, 10 ** (_DIGITS - 5)))
    return -((-WORDS) // (1 + growth))


def flipped(bits: Bits, numerator: int, entropy: Entropy) -> Bits:
    """Every bit, flipped with chance numerator·2⁻⁶⁴."""
    words = entropy.uint64(bits.size).reshape(bits.shape)
    return bits ^ (words < np.uint64(numerator))


def coins(chances: NDArray[np.float64], entropy: Entropy) -> Bits:
    """True with these chances, to 53 binary digits; only for what is released already."""
    words = entropy.uint64(chances.size).reshape(chances.shape) >> np.uint64(11)
    return words < np.round(np.ldexp(chances, 53)).astype(np.uint64)
