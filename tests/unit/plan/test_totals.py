"""Tasks: what one owner can add on a grid, against brute force over rows, bounds, grids and rescaling."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.params import Bounds
from shoal.plan.expressions import Column
from shoal.plan.measures import (
    DistinctValues,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
    Steps,
)
from shoal.plan.totals import MASK, GridMeasure, SamplingKey, grid_measure_of, row_grid_of
from shoal.plan.types import DOUBLE

X = Column("c1", DOUBLE)
powers_of_two = st.integers(-8, 8).map(lambda e: Fraction(2) ** e)
small_bounds = st.tuples(st.integers(-40, 40), st.integers(-40, 40), st.sampled_from([1, 2, 3, 7])).map(
    lambda parts: Bounds(Fraction(min(parts[:2]), parts[2]), Fraction(max(parts[:2]), parts[2]))
)


def owner_values(task: GridMeasure) -> set[int]:
    """Everything one owner can add to a group: all whole-step sums (or means, or rows) inside the clamp, rescaled."""
    steps, measure = task.steps, task.measure
    assert steps is not None
    inside = range(steps.lower, steps.upper + 1)
    if isinstance(measure, OwnerMean):
        return {v - steps.middle for v in inside}
    if isinstance(measure, RowMoment):
        middle = steps.middle if measure.centred else 0
        rows = {task.rescaled((v - middle) ** measure.power) for v in inside} | {0}
        extremes = {min(rows), max(rows), 0}
        return {sum(chosen) for chosen in itertools.combinations_with_replacement(extremes, measure.rows)}
    return {task.rescaled(v) for v in inside} | {0}


@pytest.mark.parametrize(
    "measure",
    [RowCount(), OwnerSum(X, is_integer=True), OwnerSum(X, is_integer=False), OwnerMean(X)]
    + [RowMoment(X, power, rows) for power in (1, 2) for rows in (1, 3)]
    + [RowMoment(X, 1, rows, centred=False, is_integer=integer) for rows in (1, 4) for integer in (False, True)],
    ids=repr,
)
@given(bounds=small_bounds, grid=powers_of_two)
def test_delta_is_the_farthest_that_one_owner_can_move_a_group(measure, bounds, grid):
    if measure.power == 2:
        grid = grid**2  # planned grids of squares are squares, so that rows have a grid of their own
    task = grid_measure_of(measure, bounds, grid)
    if task.steps.upper - task.steps.lower > 3000:
        return
    farthest = max(abs(v) for v in owner_values(task))
    assert farthest <= task.delta
    if task.shrink == 1:  # a coarser grid rounds halves up, which takes a step from negative values
        assert farthest == task.delta


def test_rows_that_are_rounded_one_by_one_count_one_by_one():
    """Ten rows of half a step each round up to ten steps, not to five."""
    task = grid_measure_of(
        RowMoment(X, 1, 10, centred=False, is_integer=True), Bounds(Fraction(0), Fraction(1)), Fraction(2)
    )
    assert task.shrink == 2
    assert task.rescaled(1) == 1
    assert task.delta == 10


@given(value=st.integers(-(2**70), 2**70), exponent=st.integers(-20, 20))
def test_rescaling_rounds_halves_up_and_keeps_order(value, exponent):
    grid = Fraction(2) ** exponent
    task = GridMeasure(OwnerSum(X, is_integer=True), grid, Fraction(1), Steps(0, 1, 0))
    assert abs(task.rescaled(value) * grid - value) <= grid / 2
    assert task.rescaled(value) <= task.rescaled(value + 1)
    assert (task.stretch == 1) or (task.shrink == 1)
    assert Fraction(task.stretch, task.shrink) == 1 / grid


@given(bounds=small_bounds, grid=powers_of_two)
def test_whole_step_bounds_contain_the_bounds_and_are_the_narrowest(bounds, grid):
    steps = Steps.outward(bounds, grid)
    assert steps.lower * grid <= bounds.lower < (steps.lower + 1) * grid
    assert (steps.upper - 1) * grid < bounds.upper <= steps.upper * grid
    assert steps.lower <= steps.middle <= steps.upper
    assert steps.radius == max(abs(v - steps.middle) for v in (steps.lower, steps.upper))
    assert steps.magnitude == max(abs(steps.lower), abs(steps.upper))


@pytest.mark.parametrize("value", [Fraction(5, 2), Fraction(1, 3), Fraction(-7, 5), Fraction(4)])
@pytest.mark.parametrize("measure", [OwnerMean(X), RowMoment(X, 1, 3), RowMoment(X, 2, 3)], ids=repr)
def test_centred_bounds_without_room_leave_nothing_to_move(measure, value):
    """Also where they lie between two steps of the grid: no noise is drawn there, so nothing may move."""
    assert grid_measure_of(measure, Bounds(value, value), Fraction(1)).delta == 0


def test_whole_numbers_are_counted_one_by_one_whatever_the_grid():
    for measure in (OwnerCount(), RowCount(), OwnerSum(X, is_integer=True), DistinctValues(X, 3), Leaves(X, 1)):
        assert row_grid_of(measure, Fraction(1, 64)) == 1
    assert row_grid_of(OwnerSum(X, is_integer=False), Fraction(1, 64)) == Fraction(1, 64)
    assert row_grid_of(RowMoment(X, 2, 1), Fraction(1, 64)) == Fraction(1, 8)


def test_leaves_keep_their_bounds_and_have_no_steps():
    bounds = Bounds(Fraction(0), Fraction(1))
    task = grid_measure_of(Leaves(X, 4), bounds, Fraction(1))
    assert (task.steps, task.bounds, task.delta) == (None, bounds, 4)


def test_a_sampling_key_gives_odd_multipliers_within_62_bits():
    key = SamplingKey((2**64 - 2, 5, 0))
    assert [key.odd(i) % 2 for i in range(6)] == [1] * 6
    assert all(0 <= key.number(i) <= MASK and key.odd(i) <= MASK for i in range(6))
    assert key.number(0) == key.number(3)  # it never runs out
