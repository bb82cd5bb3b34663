"""The variance from three sums that make a whole: A = Σ(x − L)², C = Σ 2(x − L)(U − x), B = Σ(U − x)².

With K = U − L every row adds K² to the three in total, whatever its value: S = A + B + C = n·K². A/S is the mean of t² and
(A + C/2)/S that of t = (x − L)/K, so the variance is K²·(A/S − ((A + C/2)/S)²) = K²·(AB − C²/4)/S².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.plan.aggregates.noisy_measure import Interval, NoisyMeasure

CERTAIN = 10
"""S must be at least this many times its noise width for the first-order treatment of the noise."""


def whole_of(reading: NoisyMeasure) -> float:
    """K² in the analyst's units: bounds are in row steps, sums in squared row steps."""
    assert reading.steps is not None  # noqa: S101 - moments have bounds
    return float((reading.steps.upper - reading.steps.lower) ** 2 * reading.grid)


def variance_and_rows(readings: Sequence[NoisyMeasure]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The variance, between 0 and K²/4, and the number of rows behind it."""
    above, between, below = (np.maximum(reading.floats, 0.0) for reading in readings)
    return _variance(above, between, below, whole_of(readings[0]))


def _variance(
    above: NDArray[Any], between: NDArray[Any], below: NDArray[Any], whole: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    if not whole:  # found bounds can coincide
        return np.zeros(len(above)), np.ones(len(above))
    total = np.maximum(above + between + below, whole)
    variance = whole * (above / total * (below / total) - (between / total) ** 2 / 4)
    return np.clip(variance, 0.0, whole / 4), total / whole


def ends_of_variance(
    readings: Sequence[NoisyMeasure], level: float, *, near: bool = False
) -> tuple[Interval, Interval]:
    """The (least, most) variance and number of rows with every sum within its width, which all three are with probability `level`.

    Where a narrower interval is allowed (`near`: at high levels, with S well above the noise), the first-order effect of the noise.

    f = (AB − C²/4)/S² falls with C. It has no critical point inside the box (B² + BC − AB + C²/2 = 0 and its mirror leave A = B and
    C·(A + C/2) = 0), and along A it rises up to A* = B + C + C²/2B and then falls; likewise along B. So its minimum is at a
    corner, and its maximum at a corner or where A* (or B*) meets an edge. If less than one row may remain, anything is possible.
    """
    width, whole = readings[0].half_width((2 + level) / 3), whole_of(readings[0])
    if not whole:
        nothing, one = np.zeros(len(readings[0].values)), np.ones(len(readings[0].values))
        return (nothing, nothing), (one, one)
    low, high = ([np.maximum(reading.floats + side * width, 0.0) for reading in readings] for side in (-1, 1))
    few, many = (np.maximum(sum(ends), whole) / whole for ends in (low, high))
    least = [_variance(a, high[1], b, whole)[0] for a in (low[0], high[0]) for b in (low[2], high[2])]
    most = [
        _variance(a, low[1], b, whole)[0]
        for one, two in ((0, 2), (2, 0))
        for fixed in (low[two], high[two])
        for peak in (_peak(fixed, low[1], low[one], high[one]),)
        for a, b in (((peak, fixed) if one == 0 else (fixed, peak)),)
    ]
    certain = sum(low) > whole
    bottom = np.where(certain, np.minimum.reduce(least), 0.0)
    top = np.where(certain, np.maximum.reduce(most), whole / 4)
    return (_nearer(readings, level, bottom, top) if near else (bottom, top)), (few, many)


def _nearer(readings: Sequence[NoisyMeasure], level: float, bottom: NDArray[Any], top: NDArray[Any]) -> Interval:
    """V ± w·‖∇v‖, plus 3·K²·(w/S)² for higher-order terms, and never wider than the given ends.

    With N = AB − C²/4 the gradient of N/S² is (B, −C/2, A)/S² − 2N/S³. At high levels the width of a sum of noises is at most the
    root of the sum of their squared widths. S may be smaller by twice its width.
    """
    width, whole = readings[0].half_width(level), whole_of(readings[0])
    above, between, below = (np.maximum(reading.floats, 0.0) for reading in readings)
    total = above + between + below
    certain = total > CERTAIN * width
    fewer = np.where(certain, total - 2 * width, 1.0)
    lead = (above * below - between**2 / 4) / np.where(certain, total, 1.0)
    slope = np.sqrt((below - 2 * lead) ** 2 + (between / 2 + 2 * lead) ** 2 + (above - 2 * lead) ** 2)
    reach = whole * (width * slope / fewer**2 + 3 * (width / fewer) ** 2)
    variance = variance_and_rows(readings)[0]
    return (
        np.where(certain, np.maximum(bottom, variance - reach), bottom),
        np.where(certain, np.minimum(top, variance + reach), top),
    )


def _peak(fixed: NDArray[Any], between: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Where f is largest along an edge: B + C + C²/2B, clamped to the ends."""
    with np.errstate(divide="ignore", invalid="ignore"):
        stationary = np.where(fixed > 0, fixed + between + between**2 / (2 * fixed), np.inf)
    return np.clip(stationary, low, high)
