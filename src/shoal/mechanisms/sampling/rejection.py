"""Exact coins with probability e^{−γ}: a certified float decides almost all of them, exact arithmetic the rest.

For a proposal y, γ(y) = (|y| − σ²/t)²/2σ² is rational. Let U be uniform in [0, 1) with first 64 digits u; keep y when
U < e^{−γ}.

Proof of the filter. Let v be the float computed below and e = 2⁻³². Claim: |v − e^{−γ}| ≤ e·e^{−γ} whenever γ ≤ 60,
in the range of σ where the filter is used. Then (u + 1)·2⁻⁶⁴ ≤ v(1 − 2e) implies U < e^{−γ}, and u·2⁻⁶⁴ ≥ v(1 + 2e)
implies U > e^{−γ}, also with the roundings (2⁻⁵³ each) of these comparisons. For γ > 60, v ≥ e^{−γ} still holds and v
< 2⁻⁸⁰, so no proposal is kept and only u = 0 is not rejected. What is neither kept nor rejected (a chance of about
2⁻³⁰) goes to exact arithmetic with further digits of U.

Proof of the claim, with w = 2⁻⁵³ the unit roundoff (only +, −, ×, ÷ are used, which IEEE 754 rounds correctly). t > σ
gives a = σ²/t < σ. γ ≤ 60 gives |d| ≤ 11σ for d = |y| − a, so |y| < 12σ. Converting y and a and subtracting errs by
at most w(|y| + a + |d|) ≤ 24wσ; squaring and scaling by 1/2σ² make of it at most 2·11·24w/2 + 4·60w < 600w in γ,
hence a factor within 1 ± 600w of e^{−γ}. Write γ = k/32 + s with 0 ≤ s < 1/32: s is exact (Sterbenz), e^{−k/32} is a
correctly rounded table entry, and the series for e^{−s} to the fifth power errs by less than s⁶/720 < 2⁻³⁹ and 20
roundings. In sum below 2⁻³⁸ < e.
"""

from __future__ import annotations

from decimal import Context
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.mechanisms.sampling.inversion import WORD_BITS, enclose_exp

if TYPE_CHECKING:
    from shoal.mechanisms.entropy import Entropy

FILTERED_SIGMAS = (Fraction(1, 2**100), Fraction(2**60))
TOLERANCE = 2.0**-32
LARGEST_EXPONENT = 60
TABLE_STEPS = 32

Draws = npt.NDArray[np.int64] | npt.NDArray[np.object_]
Flags = npt.NDArray[np.bool_]


def keep_as_gaussian(
    proposals: Draws, sigma: Fraction, proposal_scale: Fraction, entropy: Entropy, tolerance: float = TOLERANCE
) -> Flags:
    """For each proposal y, true with probability exactly e^{−γ(y)}; a larger tolerance sends more coins to exact arithmetic."""
    words = entropy.uint64(len(proposals))
    if FILTERED_SIGMAS[0] <= sigma <= FILTERED_SIGMAS[1]:
        keep, open_ = _filter(np.abs(proposals).astype(np.float64), sigma, proposal_scale, words, tolerance)
    else:
        keep, open_ = np.zeros(len(words), dtype=bool), np.ones(len(words), dtype=bool)
    for row in np.flatnonzero(open_):
        exponent = (abs(int(proposals[row])) - sigma**2 / proposal_scale) ** 2 / (2 * sigma**2)
        keep[row] = _is_below_exp(int(words[row]), exponent, entropy)
    return keep


def _filter(
    magnitudes: npt.NDArray[np.float64],
    sigma: Fraction,
    scale: Fraction,
    words: npt.NDArray[np.uint64],
    tolerance: float,
) -> tuple[Flags, Flags]:
    """Proposals that are certainly kept, and those that the float leaves open."""
    distance = magnitudes - float(sigma**2 / scale)
    value = _exp_of_minus(np.minimum(distance * distance * float(1 / (2 * sigma**2)), LARGEST_EXPONENT + 1))
    uniform = words.astype(np.float64) * 2.0**-WORD_BITS
    keep = uniform + 2.0**-WORD_BITS <= value * (1 - 2 * tolerance)
    return keep, ~keep & (uniform < value * (1 + 2 * tolerance))


def _exp_of_minus(exponents: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """e^{−x} within a relative 2⁻³⁸ for 0 ≤ x ≤ 61, from a table of correctly rounded values and a short series."""
    steps = (exponents * TABLE_STEPS).astype(np.int64)
    rest = exponents - steps / TABLE_STEPS
    series = 1 - rest * (1 - rest / 2 * (1 - rest / 3 * (1 - rest / 4 * (1 - rest / 5))))
    return _exp_table()[steps] * series


@lru_cache(maxsize=1)
def _exp_table() -> npt.NDArray[np.float64]:
    context = Context(prec=40)
    count = (LARGEST_EXPONENT + 1) * TABLE_STEPS + 1
    return np.array([float(context.exp(context.create_decimal(-k) / TABLE_STEPS)) for k in range(count)])


def _is_below_exp(digits: int, exponent: Fraction, entropy: Entropy) -> bool:
    """Whether the U that starts with these digits lies below e^{−exponent}; digits are drawn until that is certain."""
    if exponent == 0:
        return True
    bits = WORD_BITS
    while True:
        low, high = enclose_exp(exponent, bits)
        if digits + 1 <= low:
            return True
        if digits >= high:
            return False
        digits = (digits << WORD_BITS) | entropy.bits(WORD_BITS)
        bits += WORD_BITS
