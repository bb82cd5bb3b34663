"""A number and its distance to the bound: with K = U − L, A = Σ(s − L) and B = Σ(U − s) over a group's n owners add up to n·K.

Both are released, with noise of the same kind and scale. A + B gives the number of owners, and Σs is (U·A + L·B)/K, which is just A
when L is 0. The part counted from the upper bound is released with its sign, as −B. A column that reads the number itself lists the
lower part first; a column that counts owners lists it second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.params import Bounds
from shoal.plan.measures import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.accounting.events import AdditiveNoise
    from shoal.plan.aggregates.noisy_measure import Interval, NoisyMeasure
    from shoal.plan.releases import Release

INT64_MAX = 2**63 - 1


def is_complement(readings: Sequence[NoisyMeasure] | Sequence[Release]) -> bool:
    """Whether the readings are two parts of a whole instead of one number."""
    if len(readings) != 2:
        return False
    measure = readings[0].measure
    return measure.counts_from_bounds and measure.origin != "middle"


def counts_owners(readings: Sequence[NoisyMeasure] | Sequence[Release]) -> bool:
    """Whether the column reads the whole rather than its lower part."""
    return readings[0].measure.origin == "upper"


def _steps(reading: NoisyMeasure) -> Steps:
    if reading.steps is None:
        raise InternalError("a whole without bounds")
    return reading.steps


def _times_whole(readings: Sequence[NoisyMeasure]) -> tuple[NDArray[Any], int]:
    """The requested number times K, in whole steps; and K."""
    steps = _steps(readings[0])
    first, second = (_exact(reading.values) for reading in readings)
    if counts_owners(readings):
        return second - first, steps.upper - steps.lower
    return steps.upper * first - steps.lower * second, steps.upper - steps.lower


def _exact(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers of any size; floats, stored or redrawn, stay floats."""
    return values if values.dtype.kind == "f" else np.asarray(values, dtype=object)


def whole_numbers(readings: Sequence[NoisyMeasure]) -> NDArray[np.int64]:
    """Owners, rows or sums of whole numbers, rounded, and saturated to 64 bits after the noise."""
    return np.array([max(-INT64_MAX - 1, min(INT64_MAX, v)) for v in _rounded(readings)], dtype=np.int64)


def _rounded(readings: Sequence[NoisyMeasure]) -> list[int]:
    values, whole = _times_whole(readings)
    grid = 1 if counts_owners(readings) else readings[0].grid
    top, bottom = grid.numerator, grid.denominator * whole
    if values.dtype.kind == "f":
        return [int(value) for value in np.rint(values * (top / bottom))]
    return [(2 * int(value) * top + bottom) // (2 * bottom) for value in values]


def real_numbers(readings: Sequence[NoisyMeasure]) -> NDArray[np.float64]:
    """Sums of reals."""
    values, whole = _times_whole(readings)
    return np.asarray(values / whole, dtype=np.float64) * float(readings[0].grid)


def around_complement(readings: Sequence[NoisyMeasure], level: float, *, whole_number: bool) -> Interval:
    """The combined spread of the two noises, centred on the answer before it is saturated to 64 bits."""
    width = width_of_complement(_noise(readings[0]), _steps(readings[0]), level, owners=counts_owners(readings))
    width *= 1.0 if counts_owners(readings) else float(readings[0].grid)
    if whole_number:
        centre, width = np.array(_rounded(readings), dtype=np.float64), float(math.floor(width + 0.5))
    else:
        centre = real_numbers(readings)
    return centre - width, centre + width


def _noise(reading: NoisyMeasure | Release) -> AdditiveNoise:
    from shoal.accounting.events import QuantileChoice

    if isinstance(reading.noise, QuantileChoice):
        raise InternalError("parts of a whole have noise")
    return reading.noise


def width_of_complement(noise: AdditiveNoise, steps: Steps, level: float, *, owners: bool) -> float:
    """The half-width for the owner count, or for the number itself in steps: exact except for sums with bounds of both signs.

    Those mix two noises in unequal parts; their quantile is that of continuous noise plus one step.
    """
    from shoal.mechanisms import calibrate

    whole = steps.upper - steps.lower
    if owners:
        return calibrate.pair_quantile(noise, level) / whole
    if steps.lower == 0:
        return float(calibrate.noise_quantile(noise, level))
    parts = steps.upper / whole, steps.lower / whole
    return calibrate.mixed_width(noise, *parts, level) + 1


def expected_width(releases: Sequence[Release], level: float) -> float:
    """The same before data is read, in the analyst's units."""
    first = releases[0]
    if not isinstance(first.bounds, Bounds):
        raise InternalError("a whole without bounds")
    owners, grid = counts_owners(releases), first.noise.grid
    width = width_of_complement(_noise(first), Steps.outward(first.bounds, grid), level, owners=owners)
    return width if owners else width * float(grid)
