"""OpenDP's samplers, the vetted source for small batches: noise is drawn on a vector of zeros and added elsewhere.

OpenDP takes its scale as a binary float, reads it as an exact rational, and silently saturates its 64-bit draws.
So this module accepts only scales that are exactly a float and so small that a draw beyond 2⁶² has a chance below
e^{−4000}.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

SMALLEST_SCALE = Fraction(1, 2**40)
LARGEST_SCALE = Fraction(2**50)


def can_draw(scale: Fraction) -> bool:
    """Whether this scale is exactly representable and lies where OpenDP's 64-bit draws cannot saturate."""
    return SMALLEST_SCALE <= scale <= LARGEST_SCALE and Fraction(float(scale)) == scale


def discrete_laplace(scale: Fraction, size: int) -> npt.NDArray[np.int64]:
    """Draws of P[X = k] ∝ exp(−|k|/scale) by OpenDP."""
    return _draw("make_laplace", "l1_distance", "i64", scale, size)


def discrete_gaussian(sigma: Fraction, size: int) -> npt.NDArray[np.int64]:
    """Draws of P[X = k] ∝ exp(−k²/2σ²) by OpenDP."""
    return _draw("make_gaussian", "l2_distance", "f64", sigma, size)


def _draw(maker: str, metric: str, distance: str, scale: Fraction, size: int) -> npt.NDArray[np.int64]:
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")

    space: Any = domains.vector_domain(domains.atom_domain(T="i64"), size=size)
    measurement = getattr(measurements, maker)(space, getattr(metrics, metric)(T=distance), float(scale))
    return np.array(measurement([0] * size), dtype=np.int64)
