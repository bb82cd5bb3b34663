"""Realises an additive event: exact integers in, exact integers plus independent discrete noise out. Nothing wraps.

>>> from fractions import Fraction
>>> from shoal.accounting.events import LaplaceNoise, Shift
>>> list(add_noise(LaplaceNoise(Shift(0), Fraction(0)), [3, 2**100]))
[3, 1267650600228229401496703205376]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.accounting.events import AdditiveNoise, LaplaceNoise, PolicyLaplace
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.sampling.samplers import WideSteps, wide_discrete_gaussian, wide_discrete_laplace

if TYPE_CHECKING:
    from collections.abc import Sequence

Integers = npt.NDArray[np.object_]
INT64_RANGE = (-(2**63), 2**63 - 1)


def draw_noise(noise: AdditiveNoise | PolicyLaplace, size: int, entropy: Entropy = SYSTEM) -> WideSteps:
    """Independent draws of the noise, in steps; zeros when no neighbour can move the numbers."""
    if noise.shift.l1 == 0:
        return np.zeros(size, dtype=np.int64)
    if isinstance(noise, LaplaceNoise | PolicyLaplace):
        return wide_discrete_laplace(noise.scale, size, entropy)
    return wide_discrete_gaussian(noise.sigma, size, entropy)


def add_noise(
    noise: AdditiveNoise | PolicyLaplace,
    exact: Sequence[int] | npt.NDArray[np.int64] | Integers,
    entropy: Entropy = SYSTEM,
) -> Integers:
    """Each exact number plus an independent draw, as Python integers.

    Precondition: neighbours (as the shift names them) differ in the whole vector by at most `noise.shift`. Postcondition:
    the release of the result loses what the event says: the noise is the event's noise exactly, the sum is exact, and its
    range has no end to saturate at.
    """
    numbers = _python_integers(exact)
    return np.asarray(numbers + draw_noise(noise, len(numbers), entropy).astype(object), dtype=object)


def _python_integers(numbers: Sequence[int] | npt.NDArray[np.int64] | Integers) -> Integers:
    if isinstance(numbers, np.ndarray) and numbers.dtype == np.int64:
        return numbers.astype(object)
    wide = np.empty(len(numbers), dtype=object)
    wide[:] = [int(number) for number in numbers]
    return wide


def saturate_int64(numbers: Sequence[int] | npt.NDArray[np.int64] | Integers) -> npt.NDArray[np.int64]:
    """Integers clamped to the range of int64, after the noise: post-processing.

    >>> saturate_int64([2**70, -5]).tolist()
    [9223372036854775807, -5]
    """
    clipped: Integers = np.clip(np.asarray(numbers, dtype=object), *INT64_RANGE)
    return clipped.astype(np.int64)
