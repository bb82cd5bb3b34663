"""Rows that are held are the rows that came; memory is used again once nobody can see it any more, and no sooner."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.memory import held as held_rows
from shoal.engines.memory.held import Kept

ROWS = {
    "number": [1, None, 3, 4, 5, -(2**63)],
    "real": [0.5, -0.0, None, 1e300, 2.0, 3.0],
    "day": [dt.date(2026, 1, day) for day in range(1, 7)],
    "moment": [dt.datetime.fromisoformat(f"2026-01-01 05:04:0{second}") for second in range(6)],
    "text": ["a", None, "", "é", "b", "c"],
    "flag": [True, False, None, True, True, False],
}


@pytest.mark.parametrize("expected", [0, 1, 6, 100])
@pytest.mark.parametrize("at_once", [1, 2, 4, 6])
@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_every_row_is_held_once_and_in_order(expected, at_once, block, monkeypatch):
    monkeypatch.setattr(held_rows, "HELD_ROWS", block)
    table = pa.table(ROWS)
    batches = [batch.slice(0) for batch in table.slice(1).to_batches(at_once)]
    assert held_rows.held(table.schema, batches, expected).to_pylist() == table.slice(1).to_pylist()


def test_no_rows_are_held_as_none():
    table = pa.table(ROWS)
    assert held_rows.held(table.schema, []).equals(table.slice(0, 0))


@pytest.mark.parametrize("last", [7, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, None])
def test_numbers_are_held_in_half_of_the_bits_where_all_of_them_fit(last):
    table = pa.table({"k": pa.array([1, -5, 3, last], pa.int64()), "other": [1, 2, 3, 4]})
    found = held_rows.held(table.schema, table.to_batches(2), narrow={"k"})
    assert found.to_pylist() == table.to_pylist()
    fits = last is not None and -(2**31) <= last < 2**31
    assert found.schema.types == [pa.int32() if fits else pa.int64(), pa.int64()]


WORDS = np.dtype(np.int64)


@pytest.fixture
def few_bytes(monkeypatch):
    """Everything from a page on is large."""
    monkeypatch.setattr(held_rows, "LARGE", 1 << 12)


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.usefixtures("few_bytes")
def test_memory_comes_back_when_the_last_array_over_it_is_gone():
    kept = Kept()
    first = kept.empty(1000, WORDS)
    first[:] = 7
    column = pa.Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(first)])
    where, part = address(first), column.slice(3, 2)
    del first, column
    assert len(kept) == 0  # a slice still sees it
    assert part.to_pylist() == [7, 7]
    del part
    assert len(kept) == 1
    assert address(kept.empty(900, WORDS)) == where


@pytest.mark.usefixtures("few_bytes")
def test_arrays_that_live_at_the_same_time_share_nothing():
    kept = Kept()
    arrays = [kept.empty(1000, WORDS) for _ in range(3)]
    for number, array in enumerate(arrays):
        array[:] = number
    assert [set(array.tolist()) for array in arrays] == [{0}, {1}, {2}]
    del arrays, array
    assert len(kept) == 3


@pytest.mark.usefixtures("few_bytes")
def test_what_waits_is_bounded():
    kept = Kept(most=1 << 14)
    arrays = [kept.empty(1000, WORDS) for _ in range(5)]
    del arrays
    assert len(kept) == 2


def test_small_arrays_are_nobodys_business():
    kept = Kept()
    array = kept.empty(10, WORDS)
    del array
    assert len(kept) == 0


@pytest.mark.usefixtures("few_bytes")
def test_where_memory_is_short_nothing_waits(monkeypatch):
    kept = Kept()
    kept.empty(1000, WORDS)
    assert len(kept) == 1

    def none_left(size):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(held_rows, "_from_system", none_left)
    with pytest.raises(MemoryError):
        kept.empty(100_000, WORDS)
    assert len(kept) == 0


@pytest.mark.usefixtures("few_bytes")
def test_a_smaller_limit_lets_go_of_what_waits():
    kept = Kept()
    arrays = [kept.empty(1000, WORDS) for _ in range(5)]
    del arrays
    kept.keep_at_most(1 << 13)
    assert len(kept) == 1
