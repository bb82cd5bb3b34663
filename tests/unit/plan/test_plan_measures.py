"""Measures: sensitivities for one group, logarithmic bins."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InternalError
from shoal.plan.expressions import Column
from shoal.plan.measures import (
    DistinctValues,
    Histogram,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
    Steps,
)
from shoal.plan.types import DOUBLE

X = Column("c1", DOUBLE)


@pytest.mark.parametrize(
    ("measure", "steps", "delta"),
    [
        (OwnerCount(), None, 1),
        (RowCount(), Steps(0, 7, 3), 7),
        (RowCount(), Steps(-9, -7, -8), 9),
        (OwnerSum(X, is_integer=True), Steps(-3, 7, 2), 7),
        (OwnerSum(X, is_integer=True), Steps(5, 7, 6), 7),  # never U − L: an absent owner adds nothing at all
        (OwnerSum(X, is_integer=True), Steps(-7, -5, -6), 7),
        (OwnerMean(X), Steps(5, 8, 6), 2),
        (RowMoment(X, 0, 4), Steps(5, 8, 6), 4),
        (RowMoment(X, 1, 4), Steps(5, 8, 6), 8),
        (RowMoment(X, 2, 4), Steps(5, 8, 6), 16),
        (RowMoment(X, 1, 4, centred=False), Steps(5, 8, 6), 32),
        (DistinctValues(X, 6), None, 6),
        (Leaves(X, 3), None, 3),
        (Leaves(X, 1, extreme="min"), None, 1),
    ],
)
def test_delta_for_one_group_is_what_the_table_says(measure, steps, delta):
    assert measure.delta(steps) == delta


@pytest.mark.parametrize("measure", [RowCount(), OwnerSum(X, is_integer=True), OwnerMean(X)], ids=repr)
def test_a_bounded_measure_without_bounds_is_a_bug(measure):
    with pytest.raises(InternalError):
        measure.delta(None)


HISTOGRAMS = [
    Histogram(RowCount()),
    Histogram(OwnerSum(X, is_integer=True)),
    Histogram(OwnerMean(X)),
    Histogram(Leaves(X, 1)),
]


@pytest.mark.parametrize("histogram", HISTOGRAMS, ids=lambda h: type(h.serves).__name__)
def test_bins_lie_side_by_side_and_cover_both_signs(histogram):
    edges = [histogram.edges(b) for b in histogram.bins]
    assert all(low <= high for low, high in edges)
    step = Fraction(1) if histogram.grid == 1 else Fraction(0)  # whole numbers end one before the next bin begins
    for (_, high), (low, _) in pairwise(edges):
        assert low - high == (step or (histogram.grid if Fraction(0) in {low, high} else 0))
    if isinstance(histogram.serves, RowCount):
        assert edges[0] == (1, 1)
    else:
        assert edges[0] == tuple(-edge for edge in reversed(edges[-1]))


@given(st.integers(-(2**88), 2**88))
def test_every_value_falls_into_the_bin_that_is_named_for_it(steps):
    histogram = Histogram(OwnerMean(X))
    number = steps.bit_length() if steps >= 0 else -((-steps).bit_length())
    low, high = histogram.edges(number)
    assert low <= steps * histogram.grid <= high


def test_a_tree_has_as_many_leaves_as_branches_to_the_power_of_its_height():
    assert Leaves(X, 1).leaf_count == 16**4
    assert Leaves(X, 1, branching=2, height=3).leaf_count == 8
