"""Calibration at extreme parameters: bounded work, counted in certified tails, and never a threshold that does not hold."""

from fractions import Fraction

import pyarrow as pa
import pytest

import shoal
from shoal.accounting.events import GaussianNoise, LaplaceNoise, OptimalSelection, Shift
from shoal.mechanisms import calibrate
from shoal.mechanisms.certified import decimal_below
from shoal.mechanisms.selection import keep_tables
from shoal.mechanisms.selection.optimal import OptimalRule
from shoal.mechanisms.tails import noise_tail

SCALES = (Fraction(1, 3), Fraction(3), Fraction(10**5), Fraction(10**12) + Fraction(1, 7), Fraction(10**40))
CHANCES = (Fraction(9, 10), Fraction(1, 3), Fraction(1, 10**6), Fraction(1, 10**30), Fraction(1, 10**300))
NOISES = [kind(Shift(1), scale) for kind in (GaussianNoise, LaplaceNoise) for scale in SCALES]


@pytest.fixture
def counted(monkeypatch):
    """How many certified tails were asked for, and how many values of the closed form of a selection."""
    found = {"tails": 0, "values": 0}
    value = keep_tables.ClosedFormTable.numerator

    def tail(*arguments):
        found["tails"] += 1
        return noise_tail(*arguments)

    def numerator(*arguments):
        found["values"] += 1
        return value(*arguments)

    monkeypatch.setattr(calibrate, "noise_tail", tail)
    monkeypatch.setattr(keep_tables.ClosedFormTable, "numerator", numerator)
    calibrate.smallest_tail_point.cache_clear()
    return found


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("chance", CHANCES, ids=lambda chance: f"{float(chance):.1g}")
def test_a_tail_point_is_found_in_a_few_steps_and_holds(noise, chance, counted):
    point = calibrate.smallest_tail_point(noise, chance)
    assert counted["tails"] <= 8
    scale = noise.scale if isinstance(noise, LaplaceNoise) else noise.sigma
    unit = 1 if scale < 2**40 else scale / 2**38
    assert noise_tail(noise, point).upper <= decimal_below(chance)
    assert noise_tail(noise, int(point - unit)).upper > decimal_below(chance), "further out than it need be"


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1, 1000), Fraction(1, 10**10)], ids=float)
@pytest.mark.parametrize("delta", [Fraction(1, 10**3), Fraction(1, 10**12), Fraction(1, 10**300)], ids=float)
def test_the_half_point_of_a_selection_is_found_in_a_few_steps(epsilon, delta, counted):
    selection = OptimalSelection(epsilon, delta, 3, 1)
    half = OptimalRule().half_point(selection)
    assert counted["values"] <= 12
    table = keep_tables.keep_probabilities(selection)
    assert table.numerator(half - 1) < 1 << (table.bits - 1)
    assert half >= 2**40 or table.numerator(half) >= 1 << (table.bits - 1)


def test_planning_with_hardly_any_epsilon_and_delta_takes_bounded_work(counted):
    """A search of limits has dozens of choices; each takes a bounded number of tails, whatever the parameters are."""
    rows = pa.table({"uid": [1, 2, 3], "g": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    session = shoal.connect({"t": rows}, catalog={"tables": {"t": {"owner": "uid"}}})
    session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1e-10, delta=1e-300) "
        "g, COUNT(*) AS n, SUM(x, contribution_bounds_per_group => (0, 10)) AS s FROM t GROUP BY g"
    )
    assert 0 < counted["tails"] < 3000
    assert counted["values"] < 600
