"""How far one owner moves a release: by hand for every measure, and for all bounds that a histogram can find."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.errors import InternalError
from shoal.params import Bounds
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
)
from shoal.plan.releases import Contribution, Inferred, Release
from shoal.plan.types import DOUBLE
from shoal.release.resolve_bounds import resolve
from shoal.rewrite.verify.moves import Moves, moves_of, moves_of_histogram, moves_under

X = Column("c1", DOUBLE)
GROUPS, ROWS = Contribution(grouped=True, max_groups=5), Contribution(grouped=True, max_rows=8)
TEN = Bounds(Fraction(-4), Fraction(10))


def released(measure, bounds=None, grid=1) -> Release:
    return Release(measure, LaplaceNoise(Shift(1), Fraction(1), Fraction(grid)), bounds)


@pytest.mark.parametrize(
    ("measure", "bounds", "by_groups", "by_rows"),
    [
        (OwnerCount(), None, (5, 5, 5, 1), (8, 8, 8, 1)),
        (RowCount(), TEN, (50, 500, 5, 10), (80, 800, 8, 10)),
        (OwnerSum(X, is_integer=False), TEN, (50, 500, 5, 10), (80, 800, 8, 10)),
        (OwnerMean(X), TEN, (35, 245, 5, 7), (56, 392, 8, 7)),
        (RowMoment(X, 0, 3), None, (15, 45, 5, 3), (8, 64, 8, 8)),
        (RowMoment(X, 1, 3), TEN, (105, 2205, 5, 21), (56, 56**2, 8, 56)),
        (RowMoment(X, 2, 3), TEN, (735, 108045, 5, 147), (392, 392**2, 8, 392)),
        (RowMoment(X, 1, 3, centred=False, is_integer=True), TEN, (150, 4500, 5, 30), (80, 6400, 8, 80)),
        (DistinctValues(X, 3), None, (15, 45, 5, 3), (8, 64, 8, 8)),
        (Leaves(X, 3), TEN, (60, 180, 60, 3), (32, 256, 32, 8)),
        (Leaves(X, 1, extreme="max"), TEN, (20, 20, 20, 1), (32, 32, 32, 1)),
    ],
    ids=repr,
)
def test_the_moves_of_every_measure_are_those_of_the_worst_way_to_spread_them(measure, bounds, by_groups, by_rows):
    assert moves_of(released(measure, bounds), GROUPS) == Moves(*by_groups)
    assert moves_of(released(measure, bounds), ROWS) == Moves(*by_rows)
    assert moves_under(released(measure, bounds), [ROWS, GROUPS]) == [Moves(*by_rows), Moves(*by_groups)]


def test_bounds_without_room_move_nothing_where_the_middle_counts_as_zero():
    assert moves_of(released(OwnerMean(X), Bounds(Fraction(3), Fraction(3))), GROUPS).l1 == 0
    assert moves_of(released(OwnerSum(X, is_integer=True), Bounds(Fraction(3), Fraction(3))), GROUPS).l1 == 15


def test_one_value_of_an_owner_is_in_one_histogram_or_in_one_of_each_group():
    assert moves_of_histogram(Histogram(RowCount()), GROUPS) == Moves(1, 1, 1, 1)
    assert moves_of_histogram(Histogram(RowCount(), per_group=True), GROUPS) == Moves(5, 5, 5, 1)


@pytest.mark.parametrize(
    ("shift", "covers"),
    [
        (Shift(3, 5), True),
        (Shift(3, 6), True),
        (Shift(4, 5), True),
        (Shift(15, 1, 5), True),
        (Shift(3, 4), False),
        (Shift(2, 5), False),
        (Shift(2, 100), False),
        (Shift(15, 1), False),
        (Shift(0, 5), False),
    ],
    ids=repr,
)
def test_a_shift_covers_moves_in_both_norms_in_their_number_and_in_the_furthest(shift, covers):
    assert Moves.even(5, 3).covered_by(shift) == covers


MEASURES = {
    "rows": RowCount(),
    "whole sum": OwnerSum(X, is_integer=True),
    "sum": OwnerSum(X, is_integer=False),
    "mean": OwnerMean(X),
    "first moment": RowMoment(X, 1, 3),
    "second moment": RowMoment(X, 2, 3),
    "rows summed": RowMoment(X, 1, 3, centred=False, is_integer=True),
}


@pytest.mark.parametrize("exponent", [-40, -22, -2, 0, 2, 12])
@pytest.mark.parametrize("name", MEASURES)
def test_no_bounds_that_a_histogram_can_find_go_further_than_was_planned(name, exponent):
    """All pairs of every eighth bin, and of all bins around zero: what would be run fits the planned shift exactly."""
    measure = MEASURES[name]
    planned = released(measure, Inferred(0), Fraction(2) ** exponent)
    moves = moves_of(planned, Contribution(grouped=False))
    noise = LaplaceNoise(Shift(moves.furthest, 1), Fraction(moves.furthest), planned.noise.grid)
    histogram = Histogram(measure)
    bins = [b for b in histogram.bins if abs(b) < 5 or b % 8 == 0 or abs(b) > histogram.top_bin - 3]
    for low, high in combinations_with_replacement(bins, 2):
        lower = Fraction(0) if isinstance(measure, RowCount) else histogram.edges(low)[0]
        found = Bounds(lower, max(histogram.edges(high)[1], lower))
        task, drawn, _ = resolve(Release(measure, noise, Inferred(0)), (found,))
        assert task is not None
        assert task.delta <= moves.furthest
        assert drawn.epsilon <= 1


@pytest.mark.parametrize("grid", [Fraction(1, 3), Fraction(3), Fraction(1, 10)])
def test_a_grid_that_cannot_be_stretched_is_refused(grid):
    with pytest.raises(InternalError):
        moves_of(released(OwnerMean(X), Inferred(0), grid), GROUPS)
    with pytest.raises(InternalError):
        moves_of(released(RowMoment(X, 2, 1), Inferred(0), Fraction(1, 8)), GROUPS)
