"""One group may hold more than its share of what lies beyond bounds: its interval knows, by released numbers alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.errors import InternalError
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.aggregates import Average, Sum
from shoal.plan.expressions import Call, Column, Literal
from shoal.plan.measures import Histogram, OwnerMean
from shoal.plan.nodes import Field
from shoal.plan.types import DOUBLE
from shoal.release.cuts.clamped import what_is_clamped
from shoal.release.cuts.one_group import Tail
from shoal.release.cuts.quotients import is_grouped_by_itself, is_quotient
from shoal.release.cuts.widening import of_bounds

X, Y = Column("x", DOUBLE), Column("y", DOUBLE)
TAIL = Tail(feared=2.0, square=400.0, each=200.0, owners=1000.0, other_bound=0.0, span=64.0, mean=16.0)
REALS = Histogram(OwnerMean(X))
NOISE = LaplaceNoise(Shift(1, 1), Fraction(2))


def moved(mean, owners, tail=TAIL):
    return float(tail.in_groups(np.array([mean]), np.array([mean]), np.array([owners]))[0])


def clamped(filled, *, quotients=False):
    counts = np.zeros(len(REALS.bins))
    uppers = [float(REALS.edges(number)[1]) for number in REALS.bins]
    for edge, count in filled.items():
        counts[uppers.index(edge)] = count
    ends = uppers.index(16), uppers.index(64)
    bounds = Bounds(Fraction(8), Fraction(64))
    return what_is_clamped(REALS, NOISE, counts, ends, bounds, quotients=quotients), bounds


def test_the_group_of_all_owners_holds_what_all_hold():
    assert moved(16.0, 1000) == pytest.approx(2.0)


def test_small_groups_may_hold_more_by_chance():
    assert moved(16.0, 100) > moved(16.0, 400) > 2.0


def test_no_group_holds_more_than_all_there_is():
    assert moved(60.0, 100) == pytest.approx(2.0 * 1000 / 100)


def test_where_groups_are_made_of_values_those_of_the_tail_vary_more_than_all():
    """All of the tail, and the distance of rows from owners as if all that varies were this group's: 5·(√10 − 1) more."""
    alone = replace(TAIL, by_itself=True, apart=5.0)
    assert moved(60.0, 100, alone) == pytest.approx(2.0 * 1000 / 100 + 5.0 * (10**0.5 - 1))
    assert moved(8.0, 100, alone) == pytest.approx(2.0)
    assert moved(60.0, 100, replace(TAIL, apart=5.0)) == pytest.approx(20.0)


def test_a_group_with_large_values_holds_more_of_the_tail():
    assert moved(48.0, 300) > moved(16.0, 300)


def test_a_group_whose_average_is_small_has_few_owners_at_the_bound():
    assert moved(0.64, 10) == pytest.approx(max(2.0, 200 * 0.01))


def test_what_lies_below_mirrors_what_lies_above():
    mirrored = Tail(2.0, 400.0, 200.0, 1000.0, other_bound=0.0, span=-64.0, mean=-16.0)
    assert moved(-48.0, 300, mirrored) == pytest.approx(moved(48.0, 300))


def test_what_nobody_has_seen_falls_on_all_groups_alike():
    hidden = Tail(2.0, 400.0, 200.0, 1000.0, 0.0, 64.0, 16.0, seen=0.0)
    assert moved(60.0, 100, hidden) == pytest.approx(2.0)
    cut, bounds = clamped({16: 800, 32: 800, 64: 800})
    above = of_bounds(Average(X), cut, bounds, grouped=True, one_row=True).tails[1]
    assert above is None or above.seen < 0.2


def test_towards_zero_no_group_is_moved_further():
    cut, bounds = clamped({2: 5, 4: 20, 8: 60, 16: 800, 32: 800, 64: 800})
    assert of_bounds(Average(X), cut, bounds, grouped=True, one_row=True).tails[0] is None


def test_groups_made_of_the_values_have_the_tail_of_their_side():
    below = Tail(2.0, 400.0, 200.0, 1000.0, other_bound=64.0, span=-96.0, mean=16.0, by_itself=True)
    assert moved(-20.0, 100, below) == pytest.approx(2.0 * 1000 / 100)
    assert moved(40.0, 100, below) == pytest.approx(2.0)


def test_a_tail_without_a_place_is_a_mistake():
    with pytest.raises(InternalError):
        Tail(1.0, 1.0, 1.0, 10.0, 0.0, 0.0, 0.0)


def test_the_group_that_has_the_whole_tail_is_within_its_interval():
    """4,000 customers, 250 of whom are above 5,000 and hold all of what lies beyond: 16 times their share."""
    cut, bounds = clamped({16: 800, 32: 800, 64: 300, 128: 60, 256: 25, 512: 10})
    widening = of_bounds(Average(X), cut, bounds, grouped=True, one_row=True, by_itself=True)
    ends = np.array([50.0], dtype=object), np.array([52.0], dtype=object)
    _, high = widening.of(*ends, sizes=np.array([120.0]))
    excess = (60 * 32 + 25 * 128 + 10 * 320) / 120
    assert high[0] > 51 + excess
    _, even = widening.of(*ends)
    assert even[0] < 51 + excess


def test_an_average_without_groups_is_moved_by_what_all_hold():
    cut, bounds = clamped({16: 800, 32: 800, 64: 300, 128: 60})
    assert of_bounds(Average(X), cut, bounds, grouped=False, one_row=True).tails is None
    assert of_bounds(Sum(X), cut, bounds, grouped=True, one_row=True).tails is None


def test_a_far_bin_after_a_gap_does_not_carry_the_end_away():
    near, _ = clamped({16: 800, 32: 800, 64: 300, 128: 60})
    far, _ = clamped({16: 800, 32: 800, 64: 300, 128: 60, 256: 1, 512: 1, 1024: 1, 2048: 14})
    assert far.above.feared < 8 * near.above.feared
    surely, _ = clamped({16: 800, 32: 800, 64: 300, 128: 60, 256: 1, 512: 1, 1024: 1, 2048: 60})
    assert surely.above.feared > 60 * 1024 / 1900


def test_quotients_are_feared_to_fall_as_one_by_x():
    plain, _ = clamped({16: 3000, 32: 900, 64: 70})
    quotient, _ = clamped({16: 3000, 32: 900, 64: 70}, quotients=True)
    assert quotient.above.feared > 2 * plain.above.feared
    assert quotient.above.square > 10 * plain.above.square
    assert quotient.below.feared == plain.below.feared


def test_quotients_are_seen_in_inner_queries_too():
    scan = nodes.StoredRows(0, (Field("", "x", DOUBLE), Field("", "y", DOUBLE)))
    speed = Call("divide", (X, Y), DOUBLE)
    inner = nodes.Project(scan, ((Field("", "speed", DOUBLE), speed),))
    assert is_quotient(speed, scan)
    assert is_quotient(Column("speed", DOUBLE), inner)
    assert not is_quotient(Call("divide", (X, Literal(60.0, DOUBLE)), DOUBLE), scan)
    assert not is_quotient(X, inner)
    assert not is_quotient(None, inner)


def test_groups_made_of_the_values_themselves_are_seen_in_inner_queries_too():
    scan = nodes.StoredRows(0, (Field("", "x", DOUBLE), Field("", "y", DOUBLE)))
    inner = nodes.Project(
        scan, ((Field("", "segment", DOUBLE), Call("floor", (X,), DOUBLE)), (Field("", "z", DOUBLE), X))
    )
    segment, z = Column("segment", DOUBLE), Column("z", DOUBLE)
    assert is_grouped_by_itself(X, [Call("floor", (X,), DOUBLE)], scan)
    assert is_grouped_by_itself(z, [Y, segment], inner)
    assert not is_grouped_by_itself(X, [Y], scan)
    assert not is_grouped_by_itself(None, [X], scan)
