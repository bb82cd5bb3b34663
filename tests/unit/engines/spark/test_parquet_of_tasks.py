"""Files that tasks read themselves: which ones, shared out how, and that every row arrives as Spark would have handed it over."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.engines.base import EngineFailure
from shoal.engines.reading import Conjunct
from shoal.engines.spark.files import File, Stored, looked_at, rows_in, shared_out, sound

SPARK = {b"org.apache.spark.version": b"4.0.0"}
LEGACY = {b"org.apache.spark.version": b"3.1.2", b"org.apache.spark.legacyDateTime": b""}
DAYS = pa.array([dt.date(1, 1, 1), dt.date(2026, 11, 18), None])


def written(folder, columns, metadata=None, **options):
    """The path of a file with some columns."""
    place = folder / "rows.parquet"
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), place, **options)
    return str(place)


@pytest.mark.parametrize(
    ("values", "type_", "metadata"),
    [
        (pa.array([1], pa.int8()), "tinyint", None),
        (pa.array([1], pa.int16()), "smallint", None),
        (pa.array([1], pa.int32()), "int", None),
        (pa.array([1], pa.int64()), "bigint", None),
        (pa.array([1], pa.float32()), "float", None),
        (pa.array([1.0]), "double", None),
        (pa.array([True]), "boolean", None),
        (pa.array(["a"]), "string", None),
        (pa.array(["a"], pa.large_string()), "string", None),
        (DAYS, "date", SPARK),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp", SPARK),
        (pa.array([1], pa.timestamp("us")), "timestamp_ntz", None),
    ],
)
def test_columns_that_are_kept_in_the_type_that_spark_says_are_read(values, type_, metadata, tmp_path):
    found = looked_at(written(tmp_path, {"a": values}, metadata), [("a", type_)])
    assert found is not None
    (batch,) = rows_in(shared_out([found], 1)[0], Stored((("a", type_),), "a", 100))
    assert batch.column_names == ["c0"]
    assert batch.column(0).cast(values.type).to_pylist() == values.drop_null().to_pylist()


@pytest.mark.parametrize(
    ("values", "type_", "metadata"),
    [
        (pa.array([1], pa.int32()), "bigint", None),
        (pa.array([1], pa.int64()), "int", None),
        (pa.array([1], pa.uint32()), "bigint", None),
        (pa.array([1], pa.uint8()), "smallint", None),
        (pa.array([1], pa.float32()), "double", None),
        (pa.array([b"a"]), "string", None),
        (pa.array(["a"]).dictionary_encode(), "string", None),
        (pa.array([[1]]), "bigint", None),
        (pa.array([{"a": 1}]), "bigint", None),
        (pa.array([1]).cast(pa.decimal128(19, 0)), "decimal(19,0)", None),
        (DAYS, "date", None),
        (DAYS, "date", LEGACY),
        (DAYS, "date", {b"org.apache.spark.version": b"2.4.8"}),
        (DAYS, "int", SPARK),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp", None),
        (pa.array([1], pa.timestamp("us")), "timestamp", SPARK),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp_ntz", SPARK),
        (pa.array([1], pa.timestamp("ms", "UTC")), "timestamp", SPARK),
        (pa.array([1], pa.timestamp("ns")), "timestamp_ntz", None),
        (pa.array([1], pa.time64("us")), "bigint", None),
        (pa.array([1], pa.duration("us")), "bigint", None),
    ],
)
def test_columns_that_are_kept_in_another_way_are_left_to_spark(values, type_, metadata, tmp_path):
    assert looked_at(written(tmp_path, {"a": values}, metadata), [("a", type_)]) is None


@pytest.mark.parametrize(
    ("metadata", "is_read"),
    [
        (SPARK, True),
        ({b"org.apache.spark.version": b"3.1.0"}, True),
        ({b"org.apache.spark.version": b"3.0.3"}, False),
        ({**SPARK, b"org.apache.spark.legacyINT96": b""}, False),
        ({**SPARK, b"org.apache.spark.legacyDateTime": b""}, True),
        ({b"org.apache.spark.version": b"new"}, False),
        (None, False),
    ],
)
def test_instants_in_twelve_bytes_are_read_where_the_file_says_by_which_calendar(metadata, is_read, tmp_path):
    instants = pa.array([0, -1, 1_799_999_999_123_456, None], pa.timestamp("us"))
    path = written(tmp_path, {"a": instants, "b": [1] * 4}, metadata, use_deprecated_int96_timestamps=True)
    columns = (("a", "timestamp"), ("b", "bigint"))
    found = looked_at(path, columns)
    assert (found is not None) == is_read
    assert looked_at(path, [("a", "timestamp_ntz")]) is None
    if found is not None:
        (batch,) = rows_in(shared_out([found], 1)[0], Stored(columns, "b", 100))
        assert batch.column(0).equals(instants)


def test_files_without_the_column_with_two_of_the_name_or_that_cannot_be_read_are_left_to_spark(tmp_path):
    bigint = [("a", "bigint")]
    assert looked_at(written(tmp_path, {"A": [1]}), bigint) is None
    assert looked_at(written(tmp_path, {"a": [1], "A": [1]}), bigint) is None
    assert looked_at(written(tmp_path, {"a.b": [1]}), [("a.b", "bigint")]) is None
    assert looked_at(written(tmp_path, {"a": [1]}, compression="brotli"), bigint) is None
    assert looked_at(written(tmp_path, {"a": [1]}, compression="brotli"), []) is not None
    assert looked_at(str(tmp_path / "nowhere"), bigint) is None
    assert looked_at(str(tmp_path), bigint) is None
    for content in (b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1" + bytes(20) + b"\x14\0\0\0PAR1", b"x" * 99):
        (tmp_path / "other").write_bytes(content)
        assert looked_at(str(tmp_path / "other"), bigint) is None


def test_all_rows_of_all_files_are_read_once_however_they_are_shared_out(tmp_path):
    files, values = [], []
    for number, count in enumerate((0, 1, 1000, 37)):
        mine = [1000 * number + i for i in range(count)]
        (tmp_path / str(number)).mkdir()
        path = written(tmp_path / str(number), {"a": pa.array(mine, pa.int64())}, row_group_size=10)
        files.append(looked_at(path, [("a", "bigint")]))
        values += mine
    for tasks in (1, 2, 3, 7, 1000):
        shares = shared_out(files, tasks)
        assert len(shares) == max(1, min(tasks, 1 + 1 + 100 + 4))
        batches = [batch for share in shares for batch in rows_in(share, STORED)]
        assert sorted(value for batch in batches for value in batch.column(0).to_pylist()) == values


STORED = Stored((("a", "bigint"),), "a", 100)


def test_much_is_read_by_many_tasks_about_the_same_each():
    sizes = tuple(np.random.default_rng(1).integers(1 << 20, 64 << 20, 200).tolist())
    shares = shared_out([File("a", b"", sizes, (0, 0))], 2)
    each = [sum(sizes[group] for part in share for group in part.groups) for share in shares]
    assert len(shares) == -(-sum(sizes) // (128 << 20))
    assert max(each) <= (128 + 64) << 20


def test_a_file_that_was_written_anew_is_not_read(tmp_path):
    found = looked_at(written(tmp_path, {"a": [1, 2]}), STORED.columns)
    (share,) = shared_out([found], 1)
    assert [batch.num_rows for batch in rows_in(share, STORED)] == [2]
    written(tmp_path, {"a": [1, 3]})
    with pytest.raises(EngineFailure):
        list(rows_in(share, STORED))


def test_rows_without_an_owner_stay_and_so_do_those_that_meet_no_condition(tmp_path):
    columns = {
        "uid": ["a", None, "b", "ß", "d", "e" * 200],
        "n": pa.array([1, 2, 3, None, -5, 6], pa.int16()),
        "day": pa.array([dt.date(2026, 1, n) for n in range(1, 7)]),
        "flag": [True, False, None, True, True, True],
    }
    found = looked_at(written(tmp_path, columns, SPARK), [])
    (share,) = shared_out([File(found.path, found.digest, (1,), found.seen)], 1)
    types = (("n", "smallint"), ("uid", "string"), ("day", "date"), ("flag", "boolean"))

    def kept(*conjuncts):
        batches = rows_in(share, Stored(types, "uid", 100, conjuncts))
        return [uid for batch in batches for uid in batch.column(1).to_pylist()]

    assert kept() == ["a", "b", "ß", "d"]
    assert kept(Conjunct("n", ">", (-(2**60),))) == ["a", "b", "d"]
    assert kept(Conjunct("n", "between", (-5, 1))) == ["a", "d"]
    assert kept(Conjunct("n", "in", (3, 2**60))) == ["b"]
    assert kept(Conjunct("n", "<=", (1,)), Conjunct("flag", "=", (True,))) == ["a", "d"]
    assert kept(Conjunct("n", ">=", (3,))) == ["b"]
    assert kept(Conjunct("n", "<", (3,))) == ["a", "d"]
    assert kept(Conjunct("uid", "=", ("ß",))) == ["ß"]
    assert kept(Conjunct("day", ">=", (dt.date(2026, 1, 4),))) == ["ß", "d"]
    assert kept(Conjunct("n", "is not null")) == ["a", "b", "ß", "d"]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_strings_that_no_query_reads_are_null(type_):
    values = [b"ok", b"\xff", None, b"\xed\xa0\x80", b"\xc0\xaf", "日本".encode(), b"12345678901", b""]
    stored = pa.array(values, pa.binary() if type_ == pa.string() else pa.large_binary())
    texts = pa.Array.from_buffers(type_, len(values), stored.buffers())
    assert sound(texts, 10).to_pylist() == ["ok", None, None, None, None, "日本", None, ""]
