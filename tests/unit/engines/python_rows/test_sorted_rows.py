"""Rows that are sorted in memory come in the order of the engine's own statement, owner by owner."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engines.python_rows import sorted_rows
from shoal.engines.python_rows.sorted_rows import Order, Sortable, TooManyBits, in_order, sorted_batches
from shoal.engines.python_rows.worker import pieces

TYPES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    pa.int32(): st.integers(-3, 3),
    pa.float64(): st.floats(allow_nan=False) | st.sampled_from([0.0, 1.5, -1.5]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3) | st.sampled_from(["", "a", "ß", "日本", "A"]),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.time64("us"): st.times(),
    pa.decimal128(9, 2): st.decimals(-9, 9, places=2).map(lambda each: each + Decimal(0)),
}


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 40))
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    owners = draw(st.sampled_from([st.integers(0, 3), st.sampled_from(["", "x", "xy"])]))
    columns = {"o": pa.array(draw(st.lists(owners, min_size=rows, max_size=rows)))}
    for number, type_ in enumerate(types):
        values = draw(st.lists(TYPES[type_] | st.none(), min_size=rows, max_size=rows))
        columns[f"a{number}"] = pa.array(values, type_)
    return pa.table(columns)


def of_owners(rows):
    """What each owner's rows are, in order; owners come together once."""
    found = {}
    last = None
    for owner, *seen in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        assert owner == last or owner not in found
        found.setdefault(owner, []).append([each or 0.0 if isinstance(each, float) else each for each in seen])
        last = owner
    return found


def sorted_by_engine(rows):
    texts = {field.name for field in rows.schema if pa.types.is_string(field.type)}
    keys = [f'{name} COLLATE "binary"' if name in texts else name for name in rows.column_names]
    return duckdb.sql("SELECT * FROM rows ORDER BY " + ", ".join(f"{key} NULLS FIRST" for key in keys)).to_arrow_table()


@settings(deadline=None, max_examples=150)
@given(tables(), st.sampled_from([2, 7, 1 << 15]))
def test_the_order_is_the_engines(rows, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_rows, "PIECE_ROWS", piece)
        try:
            found = pa.Table.from_batches(in_order(rows), rows.schema)
        except TooManyBits:
            return
    assert of_owners(found) == of_owners(sorted_by_engine(rows))


def test_rows_that_agree_in_their_leading_bits_are_looked_at_again():
    rng = np.random.default_rng(3)
    # 54 bits are left beside owner and row for 64 of the first column, and none for the second
    near = rng.integers(0, 4, 300) + np.where(rng.random(300) < 0.5, -(2**62), 2**62)
    rows = pa.table({"o": rng.integers(0, 3, 300), "a0": near, "a1": rng.integers(0, 5, 300)})
    assert of_owners(pa.Table.from_batches(in_order(rows))) == of_owners(sorted_by_engine(rows))


def test_owners_that_leave_no_room_for_rows_are_sorted_by_the_engine():
    rows = pa.table({"o": pa.array([-(2**63), 2**63 - 1]), "a0": pa.array([1, 2])})
    with pytest.raises(TooManyBits):
        in_order(rows)
    assert list(sorted_batches(lambda: rows, lambda: iter(["sorted"]))) == ["sorted"]


def test_rows_that_outgrow_memory_are_sorted_by_the_engine():
    def outgrown():
        raise MemoryError

    assert list(sorted_batches(outgrown, lambda: iter(["sorted"]))) == ["sorted"]


def test_a_nan_is_left_to_the_engine():
    with pytest.raises(TooManyBits):
        Sortable.of(pa.chunked_array([[1.0, float("nan")]]))


def test_the_schema_comes_first_even_without_rows():
    rows = pa.table({"o": pa.array([], pa.int64()), "a0": pa.array([], pa.date32())})
    first, *rest = sorted_batches(lambda: rows, lambda: iter([]))
    assert (first.num_rows, first.schema, rest) == (0, rows.schema, [])


def test_words_hold_all_there_is_where_there_is_room():
    columns = [Sortable.of(pa.chunked_array([[1, 0, 1]])), Sortable.of(pa.chunked_array([[dt.date(2024, 1, 2)] * 3]))]
    assert [each.bits for each in columns] == [1, 0]
    assert [rows.tolist() for rows in Order.of(columns, 3).pieces()] == [[1, 0, 2]]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 20))
def test_a_worker_looks_at_whole_owners_a_few_at_a_time(sizes, few):
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    rows = int(ends[-1]) if sizes else 0
    column = pa.array(range(rows), pa.int64())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.engines.python_rows.worker.PIECE_ROWS", few)
        found = list(pieces([column], ends))
    assert found
    assert [each for part in found for each in part.columns[0].to_pylist()] == list(range(rows))
    assert [each for part in found for each in part.origin.tolist()] == list(range(rows))
    assert [each for part in found for each in part.owner.tolist()] == np.repeat(range(len(sizes)), sizes).tolist()
    assert all(set(a.owner.tolist()).isdisjoint(b.owner.tolist()) for a, b in pairwise(found))
