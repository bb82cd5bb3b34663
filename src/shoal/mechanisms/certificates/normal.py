"""The δ of continuous Gaussian noise, as a certain bound."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from shoal.mechanisms.certified import arithmetic, around, decimal_near, exp_of_minus, normal_tail

if TYPE_CHECKING:
    from fractions import Fraction


def gaussian_delta(norm_squared: Fraction, epsilon: Fraction) -> Decimal:
    """An upper bound on Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), the δ of continuous Gaussian noise at μ² = norm_squared.

    ε may be negative: that is what remains when other noise has lost more than all of it.
    """
    with arithmetic():
        growth = exp_of_minus(-epsilon).lower if epsilon < 0 else around(1 / exp_of_minus(epsilon).upper).lower
        norm = decimal_near(norm_squared).sqrt() * (1 + Decimal("1e-70"))
        ratio = decimal_near(epsilon) / norm
        near, far = normal_tail(ratio - norm / 2), normal_tail(ratio + norm / 2)
        return near.upper - growth * far.lower
