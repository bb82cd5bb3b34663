"""Rows that are cut by bucket come back whole, and an owner is in one bucket, whatever the table."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.base import EngineFailure
from shoal.engines.spark import pieces, task
from shoal.engines.spark.pieces import Cutter, hashed, hashed_texts, joined, labels_for, narrowed, pieces_in
from shoal.engines.spark.task import cutting_function


def rows(count: int, type_: str = "int64") -> pa.Table:
    rng = np.random.default_rng(count)
    owners = pa.array(rng.integers(-50, 50, count)).cast(type_)
    values = pa.array([None if i % 7 == 0 else i * 2**40 for i in range(count)], pa.int64())
    texts = pa.array([f"ß{i}" * (i % 5) for i in range(count)])
    return pa.table({"c0": values, "c1": owners, "c2": texts, "c3": pa.array(rng.uniform(size=count))})


def by_bucket(cutter: Cutter, table: pa.Table, at_once: int = 100) -> dict[int, pa.Table]:
    """All rows of every bucket, by the label that Spark goes by."""
    found: dict[int, list[pa.Table]] = {}
    for batch in cutter.cut(table.to_batches(max_chunksize=at_once)):
        for label, (number, piece) in zip(batch.column("part").to_pylist(), pieces_in([batch]), strict=True):
            assert number == cutter.table
            found.setdefault(label, []).append(piece)
    return {label: joined(several) for label, several in found.items()}


def as_set(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=str)


@pytest.mark.parametrize("count", [0, 1, 99, 3000])
@pytest.mark.parametrize("buckets", [1, 3, 300])
def test_all_rows_come_back_and_an_owner_is_in_one_bucket_of_all_tables(count, buckets, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)
    labels = labels_for(buckets)
    tables = [rows(count), rows(count + 5, "int16")]
    cut = [by_bucket(Cutter(number, labels, 1), table) for number, table in enumerate(tables)]
    for table, found in zip(tables, cut, strict=True):
        everything = [row for part in found.values() for row in as_set(part)]
        assert sorted(everything, key=str) == as_set(table)
    homes: dict[int, int] = {}
    for found in cut:
        for label, part in found.items():
            assert label in labels
            for owner in part.column("c1").to_pylist():
                assert homes.setdefault(owner, label) == label


OWNERS = ["", "a", "b", "ab", "ba", "12345678", "123456789", "12345678\0", "ß" * 50, "ß" * 51, "日本", None]


def test_strings_have_one_hash_wherever_they_are():
    expected = dict(zip(OWNERS, hashed_texts(pa.chunked_array([OWNERS])).tolist(), strict=True))
    assert len(set(expected.values())) == len(OWNERS)
    rng = np.random.default_rng(1)
    for type_ in (pa.string(), pa.large_string()):
        many = pa.array([OWNERS[i] for i in rng.integers(0, len(OWNERS), 1000)], type_)
        cut = pa.chunked_array([many.slice(0, 0), many.slice(0, 7), many.slice(7, 500), many.slice(507)])
        assert hashed_texts(cut).tolist() == [expected[value] for value in many.to_pylist()]
    assert hashed_texts(pa.chunked_array([], pa.string())).tolist() == []


def test_strings_own_rows_in_one_bucket_of_all_tables():
    labels = labels_for(5)
    homes: dict[str | None, int] = {}
    for number, seed in enumerate((1, 2)):
        places = np.random.default_rng(seed).integers(0, len(OWNERS), 400)
        table = pa.table({"c0": [OWNERS[i] for i in places], "c1": places})
        found = by_bucket(Cutter(number, labels, 0), table, at_once=33)
        assert sorted(i for part in found.values() for i in part.column("c1").to_pylist()) == sorted(places.tolist())
        for label, part in found.items():
            for owner in part.column("c0").to_pylist():
                assert homes.setdefault(owner, label) == label
    assert len(set(homes.values())) > 1


def test_rows_go_where_their_last_column_says():
    labels = labels_for(4)
    table = rows(500).append_column("bucket_", pa.array([i % 4 for i in range(500)], pa.int32()))
    found = by_bucket(Cutter(2, labels, None), table)
    for bucket, label in enumerate(labels):
        assert as_set(found[label]) == as_set(table.drop_columns("bucket_").take(list(range(bucket, 500, 4))))


def test_pieces_are_small_also_where_one_owner_has_nearly_all_rows():
    table = pa.table({"c0": np.zeros(100_000, dtype=np.int64), "c1": np.random.default_rng(1).uniform(size=100_000)})
    for batch in Cutter(0, labels_for(2), 0).cut(table.to_batches()):
        assert max(len(piece) for piece in batch.column("rows").to_pylist()) < 3 * pieces.PIECE_BYTES


@pytest.mark.parametrize("numbers", [[-128, 127], [-129], [2**31 - 1], [-(2**31) - 1], [2**63 - 1, -(2**63)], [None]])
def test_narrow_numbers_are_the_same_numbers(numbers):
    column = pa.chunked_array([pa.array(numbers, pa.int64())])
    narrow = narrowed(pa.table({"a": column})).column("a")
    assert narrow.to_pylist() == numbers
    assert joined([pa.table({"a": narrow}), pa.table({"a": column})]).column("a").to_pylist() == numbers * 2


@pytest.mark.parametrize("buckets", [1, 2, 7, 200, 5000])
def test_every_bucket_has_a_task_of_its_own(buckets):
    labels = np.array(labels_for(buckets), dtype=np.uint32)
    assert (hashed(labels).astype(np.int64) % buckets).tolist() == list(range(buckets))


def test_a_task_with_other_packages_cuts_no_row(monkeypatch):
    run = cutting_function(Cutter(0, (0,), 0))
    monkeypatch.setattr(task, "are_ours", lambda _: False)
    with pytest.raises(EngineFailure):
        list(run([pa.RecordBatch.from_pydict({"c0": [1]})]))


def test_what_is_read_in_memory_has_the_types_of_the_table():
    stored = pa.table({"c0": pa.array([1, None], pa.int8()), "c1": [dt.date(2026, 1, 2), None], "c2": [True, False]})
    table = task.Columns("t", (("uid", "BIGINT"), ("day", "DATE"), ("flag", "BOOLEAN")))
    found = task._as_stored(table, [stored])
    assert found.schema.types == [pa.int64(), pa.date32(), pa.bool_()]
    assert found.column_names == ["uid", "day", "flag"]
    assert found.to_pydict() == {"uid": [1, None], "day": [dt.date(2026, 1, 2), None], "flag": [True, False]}
