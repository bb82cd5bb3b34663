"""Answers of buckets are added up in any order and in several steps, with the same result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.canonical_bytes import parts_of, to_bytes
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
    assert sorted_rows(pa.ipc.open_stream(stored).read_all()) == sorted_rows(added(pa.concat_tables(tables)))
    assert list(task.added_up([])) == []


def test_equal_keys_are_in_one_part_and_others_are_spread():
    keys = [None, b"", b"a", b"a" * 100, b"a" * 101, *(bytes([i, j]) for i in range(50) for j in range(40))]
    table = pa.table({"k0": pa.array(keys, pa.binary()), "k1": pa.array([b"x"] * len(keys), pa.binary())})
    parts = parts_of(table, 8)
    assert parts_of(pa.concat_tables([table.slice(1000), table]), 8).tolist() == [*parts[1000:], *parts]
    assert np.bincount(parts, minlength=8).min() > len(keys) / 16
