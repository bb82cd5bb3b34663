"""Answers of buckets are added up in any order and in several steps, with the same result."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.canonical_bytes import BYTES, from_bytes, parts_of, to_bytes
from shoal.engines.narrow_rows import full, narrow
from shoal.engines.partials import LIMBS, added, limbs_of, merged
from shoal.engines.spark import task


def answers(seed, rows=300):
    """Rows of totals and of values, as buckets answer."""
    rng = np.random.default_rng(seed)
    counted = rng.random(rows) < 0.3
    numbers = np.where(counted, 1, rng.integers(-(2**62), 2**62, rows))
    keys = [None if k == 0 else int(k) for k in rng.integers(0, 9, rows)]
    values = [int(v) if c else None for v, c in zip(rng.integers(0, 5, rows), counted, strict=True)]
    columns = {
        "k0": to_bytes(pa.chunked_array([pa.array(keys, pa.int64())])),
        "slot": pa.array(np.where(counted, 1, rng.integers(2, 4, rows)).astype(np.int32)),
        "leaf": pa.array(np.zeros(rows, dtype=np.int64)),
        "value": to_bytes(pa.chunked_array([pa.array(values, pa.int64())])),
    }
    return pa.table(columns | dict(zip(LIMBS, limbs_of(numbers), strict=True)))


def sorted_rows(table):
    return sorted(map(str, table.to_pylist()))


def test_merging_first_changes_nothing():
    tables = [answers(seed) for seed in range(4)]
    whole = pa.concat_tables(tables)
    step = merged(pa.concat_tables([merged(pa.concat_tables(tables[:2])), *tables[2:]]))
    assert sorted_rows(added(step)) == sorted_rows(added(whole))


@pytest.mark.parametrize("waiting", [1, 500, 1 << 22])
def test_answers_that_come_as_bytes_are_added_up(waiting, monkeypatch):
    monkeypatch.setattr(task, "WAITING_ROWS", waiting)
    tables = [answers(seed) for seed in range(3)]
    (batch,) = task.added_up(task._bytes_of(table, 0) for table in tables)
    (stored,) = batch.column("rows").to_pylist()
    found, wanted = task.answer_in(stored), added(pa.concat_tables(tables))
    assert sorted_rows(found.select(wanted.column_names)) == sorted_rows(wanted)
    assert list(task.added_up([])) == []


def test_long_answers_travel_in_pieces(monkeypatch):
    monkeypatch.setattr(task, "PIECE_BYTES", 500)
    tables = [answers(seed) for seed in range(3)]
    batches = [batch for table in tables for batch in task._pieces_of(table, 4)]
    assert len(batches) > 2 * len(tables)
    assert {part for batch in batches for part in batch.column("part").to_pylist()} == {4}
    come = [task.answer_in(stored) for b in task.added_up(batches) for stored in b.column("rows").to_pylist()]
    assert len(come) > 1
    wanted = added(pa.concat_tables(tables))
    assert sorted_rows(pa.concat_tables(come).select(wanted.column_names)) == sorted_rows(wanted)
    (empty,) = task._pieces_of(tables[0].slice(0, 0), 0)
    assert task.answer_in(empty.column("rows")[0].as_py()).schema == tables[0].schema


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=3) | st.none(),
            st.integers(0, 300),
            st.integers(-1, 2**40),
            st.binary(max_size=2) | st.none(),
            st.sampled_from([0, 1, -1, 127, 128, 2**31, -(2**31) - 1, 2**62, -(2**100), 2**120]),
        ),
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_answers_are_the_same_after_they_were_narrow(rows, keys):
    keyed, slots, leaves, values, numbers = zip(*rows, strict=True) if rows else ((),) * 5
    columns = {f"k{i}": pa.array(keyed, BYTES) for i in range(keys)} | {
        "slot": pa.array(slots, pa.int32()),
        "leaf": pa.array(leaves, pa.int64()),
        "value": pa.array(values, BYTES),
    }
    table = pa.table(columns | dict(zip(LIMBS, limbs_of(np.array(numbers, dtype=object)), strict=True)))
    assert full(narrow(table)).equals(table)
    assert task.answer_in(task.as_stream(narrow(table))).equals(table)


def test_plain_answers_travel_in_a_third_of_their_bytes():
    count = 1000
    keys = to_bytes(pa.chunked_array([pa.array(range(count), pa.int64())]))
    nothing = pa.array(np.zeros(count, dtype=np.int64))
    columns = {"k0": keys, "slot": pa.array(np.ones(count, dtype=np.int32)), "leaf": nothing}
    limbs = dict(zip(LIMBS, limbs_of(np.arange(count) << 20), strict=True))
    table = pa.table(columns | {"value": pa.nulls(count, BYTES)} | limbs)
    assert 3 * len(task.as_stream(narrow(table))) < len(task.as_stream(table))


@pytest.mark.slow
def test_keys_of_more_than_two_gib_are_bytes_too():
    """Whoever knows all keys but one could make that one key the one that does not fit."""
    size, count = 64 * 2**20, 36
    stored = pa.py_buffer(mmap.mmap(-1, size * count))  # pages that nobody writes to take no memory
    borders = pa.py_buffer(np.arange(count + 1, dtype=np.int64) * size)
    keys = pa.Array.from_buffers(pa.large_string(), count, [None, borders, stored])
    coded = to_bytes(pa.chunked_array([keys]))
    assert coded.type == pa.large_binary()
    assert coded.nbytes > 2**31
    assert from_bytes(coded, pa.large_string()).chunk(0).buffers()[2].size == size * count


@pytest.mark.parametrize("type_", [pa.string(), pa.int64(), pa.bool_(), pa.null()], ids=str)
def test_bytes_of_every_kind_have_room(type_):
    column = pa.chunked_array([pa.nulls(3, type_)])
    assert to_bytes(column).type == pa.large_binary()
    assert from_bytes(to_bytes(column), type_).to_pylist() == [None] * 3


def test_equal_keys_are_in_one_part_and_others_are_spread():
    keys = [None, b"", b"a", b"a" * 100, b"a" * 101, *(bytes([i, j]) for i in range(50) for j in range(40))]
    table = pa.table({"k0": pa.array(keys, pa.binary()), "k1": pa.array([b"x"] * len(keys), pa.binary())})
    parts = parts_of(table, 8)
    assert parts_of(pa.concat_tables([table.slice(1000), table]), 8).tolist() == [*parts[1000:], *parts]
    assert np.bincount(parts, minlength=8).min() > len(keys) / 16
