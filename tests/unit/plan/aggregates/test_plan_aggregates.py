"""From noisy sums to answers: the formulas of engine.md, with released numbers put in by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.params import Bounds
from shoal.plan.aggregates import (
    Average,
    CountDistinct,
    CountOwners,
    CountRows,
    Extreme,
    NoisyMeasure,
    Quantile,
    Quantiles,
    Sum,
    Variance,
)
from shoal.plan.expressions import Column
from shoal.plan.totals import grid_measure_of
from shoal.plan.types import DOUBLE, INTEGER

REAL, WHOLE = Column("x", DOUBLE), Column("i", INTEGER)
WIDE = Bounds(Fraction(0), Fraction(8))


def reading(measure, values, grid=Fraction(1), bounds=None, scale=1, shift=1, forest=None) -> NoisyMeasure:
    """A released number for each group, `values` in steps of the grid."""
    steps = grid_measure_of(measure, bounds, grid).steps if bounds is not None else None
    return NoisyMeasure(
        measure,
        LaplaceNoise(Shift(shift), Fraction(scale), grid),
        grid,
        bounds,
        steps,
        np.array(values, dtype=object),
        forest,
    )


class Uniform:
    """A tree over rows that are spread evenly."""

    def quantiles(self, probabilities):
        return np.tile(np.array(probabilities), (2, 1))


def test_counts_stay_negative_where_the_noise_makes_them_so():
    for aggregate in (CountOwners(), CountRows(None), CountDistinct(REAL, 3)):
        values = aggregate.finish([reading(aggregate.measures[0], [-3, 0, 7], bounds=WIDE)])
        assert values.tolist() == [-3, 0, 7]
        assert values.dtype == np.int64


def test_integer_sums_are_saturated_after_the_noise_and_rounded_from_a_finer_grid():
    whole = Sum(WHOLE)
    assert whole.type == INTEGER
    assert whole.finish([reading(whole.measures[0], [2**70, -(2**70), 5], bounds=WIDE)]).tolist() == [
        2**63 - 1,
        -(2**63),
        5,
    ]
    assert whole.finish([reading(whole.measures[0], [5, 6, -5], Fraction(1, 4), WIDE)]).tolist() == [1, 2, -1]
    assert whole.finish([reading(whole.measures[0], [3], Fraction(8), WIDE)]).tolist() == [24]


def test_real_sums_are_multiples_of_the_grid():
    real = Sum(REAL)
    assert real.type == DOUBLE
    assert real.finish([reading(real.measures[0], [3, -5], Fraction(1, 4), WIDE)]).tolist() == [0.75, -1.25]


def test_an_average_is_the_middle_plus_the_quotient_held_inside_the_bounds():
    mean = Average(REAL)
    total, count = mean.measures
    sums = reading(total, [8, -40, 400, 4], Fraction(1, 4), WIDE)
    counts = reading(count, [2, 5, 2, -9])
    # 4 + 2/2; 4 − 10/5; clamped; a count below one counts as one
    assert mean.finish([sums, counts]).tolist() == [5.0, 2.0, 8.0, 5.0]


def test_a_variance_is_the_mean_of_squares_minus_the_square_of_the_mean():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    for sample, root in ((False, False), (True, False), (False, True), (True, True)):
        variance = Variance(REAL, 1, sample=sample, root=root)
        first, second, count = variance.measures
        grid = Fraction(1, 64)
        centred = values - 4.0
        readings = [
            reading(first, [int(centred.sum() * 64)], grid, WIDE),
            reading(second, [int((centred**2).sum() * 64)], grid, WIDE),
            reading(count, [4]),
        ]
        wanted = (values.std(ddof=int(sample))) if root else values.var(ddof=int(sample))
        assert variance.finish(readings)[0] == pytest.approx(wanted)
        low, high = variance.interval(readings, 0.9)
        assert low[0] <= wanted <= high[0]


def test_a_variance_stays_between_0_and_a_quarter_of_the_squared_width():
    variance = Variance(REAL, 1, sample=False, root=False)
    first, second, count = variance.measures
    for squares, wanted in ((-100, 0.0), (10**6, 16.0)):
        readings = [reading(first, [0], bounds=WIDE), reading(second, [squares], bounds=WIDE), reading(count, [2])]
        assert variance.finish(readings).tolist() == [wanted]


def test_quantiles_are_places_between_the_bounds():
    tree = reading(Quantile(REAL, Fraction(1, 4), 1).measures[0], [0, 0], bounds=WIDE, forest=Uniform())
    assert Quantile(REAL, Fraction(1, 4), 1).finish([tree]).tolist() == [2.0, 2.0]
    assert Quantiles(REAL, 4, 1).finish([tree]).tolist() == [[0.0, 2.0, 4.0, 6.0, 8.0]] * 2
    assert Extreme(REAL, "min").finish([tree]).tolist() == [0.0, 0.0]
    assert Extreme(REAL, "max").finish([tree]).tolist() == [8.0, 8.0]


@pytest.mark.parametrize(
    "aggregate",
    [
        Sum(REAL),
        Sum(WHOLE),
        Average(REAL),
        Variance(REAL, 1, sample=True, root=True),
        Quantile(REAL, Fraction(1, 2), 1),
    ],
)
def test_without_bounds_the_cell_is_null_and_so_are_the_ends_of_its_interval(aggregate):
    readings = [reading(measure, [0, 0]) for measure in aggregate.measures]
    assert aggregate.finish(readings).tolist() == [None, None]
    assert [end.tolist() for end in aggregate.interval(readings, 0.95)] == [[None, None], [None, None]]


def test_intervals_of_counts_and_sums_are_as_wide_as_the_noise_and_none_without_noise():
    count = CountOwners()
    still = NoisyMeasure(
        count.measures[0], LaplaceNoise(Shift(0), Fraction(0)), Fraction(1), None, None, np.array([5], dtype=object)
    )
    assert [end.tolist() for end in count.interval([still], 0.95)] == [[5.0], [5.0]]
    narrow, wide = (count.interval([reading(count.measures[0], [5], scale=scale)], 0.95) for scale in (2, 20))
    assert wide[0][0] < narrow[0][0] < 5 < narrow[1][0] < wide[1][0]


def test_shares_of_a_budget_add_up():
    for aggregate in (
        CountOwners(),
        CountRows(None),
        Sum(REAL),
        Average(REAL),
        Variance(REAL, 1, sample=True, root=True),
        CountDistinct(REAL, 1),
    ):
        assert sum(aggregate.shares) == 1
        assert len(aggregate.shares) == len(aggregate.measures)


def test_rows_bounded_per_owner_are_summed_row_by_row():
    assert [
        m.rows for aggregate in (CountRows(None, 7), Sum(REAL, 7), Average(REAL, 7)) for m in aggregate.measures
    ] == [7] * 4
    assert not Sum(REAL, 7).measures[0].centred
    assert Average(REAL, 7).measures[0].centred
