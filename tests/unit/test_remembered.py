"""Results that are remembered for each person apart."""

from __future__ import annotations

import copy

import pytest

from shoal.mechanisms.calibrate import smallest_tail_point
from shoal.remembered import MOST_PEOPLE, NOBODY, remember_for, remembered


@pytest.fixture
def counted():
    """A function that notes how often it computes."""
    calls = []

    @remembered(16)
    def doubled(number: int) -> int:
        """Twice the number."""
        calls.append(number)
        return 2 * number

    yield doubled, calls
    remember_for(NOBODY)


def test_what_one_person_computed_is_computed_again_for_another_and_kept_for_both(counted):
    doubled, calls = counted
    for person in ("ann", "bob", "ann", "bob", NOBODY):
        remember_for(person)
        assert (doubled(4), doubled(4)) == (8, 8)
    assert calls == [4, 4, 4]


def test_who_was_served_least_lately_is_forgotten(counted):
    doubled, calls = counted
    for number in range(MOST_PEOPLE + 1):
        remember_for(f"person {number}")
        doubled(1)
    calls.clear()
    remember_for(f"person {MOST_PEOPLE}")
    doubled(1)
    assert calls == []
    remember_for("person 0")
    doubled(1)
    assert calls == [1]


def test_each_of_many_has_less_room_than_one_alone(counted):
    doubled, _ = counted
    assert doubled.cache_info().maxsize == 16
    remember_for("ann")
    assert doubled.cache_info().maxsize == 2


def test_it_looks_like_its_function(counted):
    doubled, calls = counted
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice the number.")
    doubled(1)
    doubled.cache_clear()
    doubled(1)
    assert calls == [1, 1]
    assert copy.copy(smallest_tail_point) is smallest_tail_point
