"""Values in steps of a grid: rounded, saturated and clamped as the engine's own SQL does."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shoal.engines.memory.rows import TooWide, real_steps
from shoal.plan.measures import Steps

VALUES = [0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 1e15, -1e15, 2.0**53, 1e308, -1e308, 5e-324, math.inf, -math.inf]


def by_hand(value: float, grid: Fraction, lower: int, upper: int) -> int:
    scaled = value * float(1 / grid)
    if math.isinf(scaled):
        return upper if scaled > 0 else lower
    return min(max(math.floor(scaled + 0.5), lower), upper)


@pytest.mark.parametrize(("lower", "upper"), [(0, 100), (-7, 9), (-(2**53), 2**53), (5, 2**40)])
@pytest.mark.parametrize("grid", [Fraction(1), Fraction(1, 1024), Fraction(1, 3), Fraction(7)])
def test_values_of_any_size_end_within_bounds(grid, lower, upper):
    values = np.array(VALUES)
    steps = real_steps(values, grid, Steps(lower, upper, 0))
    assert steps.tolist() == [by_hand(value, grid, lower, upper) for value in VALUES]
    assert values.tolist() == VALUES, "what was read stays as it is"


def test_without_bounds_what_could_pass_64_bits_is_left_to_the_engine():
    assert real_steps(np.array([2.5, -2.5]), Fraction(1)).tolist() == [3, -2]
    with pytest.raises(TooWide):
        real_steps(np.array([math.inf]), Fraction(1))
