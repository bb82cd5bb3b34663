from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import ShoalError
from shoal.risk import Report, Sketch, UnkeyedSketchWarning, scan
from shoal.risk.scanning.sources import open_tables

KEY = b"0123456789abcdef"


def visits(rows: int = 2_000) -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "uid": rng.integers(0, rows // 4, rows),
            "city": pa.array(rng.zipf(1.6, rows) % 300).cast(pa.string()),
            "age": rng.integers(18, 90, rows).astype(np.int8),
            "spend": np.round(rng.gamma(2, 20, rows), 2),
        }
    )


def packed(report: Report) -> dict[str, bytes]:
    return {name: sketch.to_bytes() for name, sketch in report.sketches.items()}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return visits()


@pytest.fixture(scope="module")
def expected(table) -> dict[str, bytes]:
    return packed(scan({"visits": table}, owner="uid", key=KEY))


def test_a_scan_sketches_every_column_like_an_update_would(table, expected):
    assert list(expected) == [f"visits.{name}" for name in table.column_names]
    for name in table.column_names:
        sketch = Sketch(key=KEY)
        sketch.update(table.column(name), table.column("uid"))
        assert sketch.to_bytes() == expected[f"visits.{name}"]


def write_parquet(folder, table):
    pq.write_table(table, folder / "visits.parquet", row_group_size=300)
    return folder / "visits.parquet"


def write_csv(folder, table):
    table.to_pandas().to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv"


def write_json_lines(folder, table):
    (folder / "visits.jsonl").write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
    return folder / "visits.jsonl"


def write_duckdb(folder, table):
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.register("source", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM source")
    return folder / "shop.duckdb"


def write_sharded_folder(folder, table):
    (folder / "data" / "visits" / "day=1").mkdir(parents=True)
    pq.write_table(table.slice(0, 700), folder / "data" / "visits" / "day=1" / "a.parquet")
    pq.write_table(table.slice(700), folder / "data" / "visits" / "b.parquet")
    return folder / "data"


def write_globbed(folder, table):
    for place, start in enumerate((0, 900)):
        (folder / f"day-{place}").mkdir()
        pq.write_table(table.slice(start, 900 if not place else None), folder / f"day-{place}" / "visits.parquet")
    return f"{folder}/day-*/visits.parquet"


@pytest.mark.parametrize(
    "write",
    [write_parquet, write_json_lines, write_duckdb, write_sharded_folder, write_globbed],
    ids=lambda f: f.__name__[6:],
)
def test_every_kind_of_source_gives_the_same_sketches(write, tmp_path, table, expected):
    assert packed(scan(write(tmp_path, table), owner="uid", key=KEY)) == expected


def test_csv_gives_the_same_sketches_of_columns_whose_type_it_can_tell(tmp_path, table, expected):
    found = packed(scan(write_csv(tmp_path, table), owner="uid", columns=["uid", "age", "spend"], key=KEY))
    assert found == {name: data for name, data in expected.items() if name != "visits.city"}


def test_data_frames_give_the_same_sketches(table, expected):
    for frame in (table, table.to_pandas(), pl.from_arrow(table), table.to_batches()[0], duckdb.from_arrow(table)):
        found = packed(scan(frame, owner="uid", key=KEY))
        assert list(found.values()) == list(expected.values())


def test_an_open_connection_is_scanned_and_left_as_it_is(tmp_path, table, expected):
    with duckdb.connect(str(write_duckdb(tmp_path, table))) as connection:
        connection.execute("CREATE VIEW v AS SELECT * FROM visits")
        report = scan(connection, owner="uid", key=KEY, tables=["visits"])
        assert packed(report) == expected
        assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(2_000,)]


@pytest.mark.slow
def test_workers_give_the_bytes_of_one_process(tmp_path, table, expected):
    path = write_parquet(tmp_path, table)
    assert packed(scan(path, owner="uid", key=KEY, workers=2)) == expected
    assert packed(scan({"visits": table}, owner="uid", key=KEY, workers=2)) == expected
    alone = packed(scan(path, key=KEY, combine=2, workers=1))
    assert packed(scan(path, key=KEY, combine=2, workers=3)) == alone


def test_a_script_without_a_main_guard_can_use_workers(tmp_path, table):
    path = write_parquet(tmp_path, table)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from shoal.risk import scan
        print("started")
        print(scan({str(path)!r}, owner="uid", workers=2).datasets[0].rows)
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["started", "2000"]


def test_a_damaged_shard_is_a_clear_error_also_from_a_worker(tmp_path, table):
    path = write_parquet(tmp_path, table)
    data = bytearray(path.read_bytes())
    data[100:400] = os.urandom(300)
    path.write_bytes(data)
    for workers in (1, 2):
        with pytest.raises(ShoalError) as caught:
            scan(path, owner="uid", key=KEY, workers=workers)
        assert caught.value.code == "E_SOURCE"


def test_progress_is_told_with_rows_and_total(table, tmp_path):
    for workers in (1, 2):
        seen = []
        scan(write_parquet(tmp_path, table), owner="uid", key=KEY, workers=workers, progress=seen.append)
        assert seen[-1].rows == seen[-1].total == 2_000
        assert seen[0].dataset == "visits"


def test_combinations_are_of_the_most_unique_columns_within_the_limit(table):
    report = scan({"visits": table}, owner="uid", combine=2, key=KEY)
    assert {name for name in report.sketches if "+" in name} == {
        "visits.age+city", "visits.age+spend", "visits.city+spend",
    }  # fmt: skip
    few = scan({"visits": table}, owner="uid", combine=2, key=KEY, max_combinations=1)
    assert sum("+" in name for name in few.sketches) == 1
    assert "at most 1 combinations" in few.datasets[0].notes[0]
    triple = scan({"visits": table}, owner="uid", combine=3, key=KEY)
    assert "visits.age+city+spend" in triple.sketches


def test_a_wide_table_keeps_to_the_limit_and_says_so():
    rng = np.random.default_rng(0)
    wide = pa.table({f"c{n:02}": rng.integers(0, 2 + 3 * n, 500) for n in range(30)})
    report = scan({"wide": wide}, combine=2, key=KEY)
    assert sum("+" in name for name in report.sketches) == 45
    assert "of 30" in report.datasets[0].notes[0]


def test_named_combinations_and_columns_are_all_there_is(table):
    report = scan({"visits": table}, owner="uid", columns=["age", ("city", "age")], key=KEY)
    assert list(report.sketches) == ["visits.age", "visits.city+age"]
    sketch = Sketch(key=KEY)
    sketch.update_combination([table.column("city"), table.column("age")], table.column("uid"))
    assert report.sketches["city+age"].to_bytes() == sketch.to_bytes()


def test_without_an_owner_rows_are_counted_and_candidates_shown(table):
    report = scan({"visits": table}, key=KEY)
    (dataset,) = report.datasets
    assert dataset.owner is None
    assert any("every row counts" in note for note in dataset.notes)
    assert dataset.owner_candidates[0].startswith("uid (")
    assert report.sketches["age"].owners().value == 2_000


def test_tables_without_the_owner_count_rows_and_the_others_do_not(table):
    report = scan({"visits": table, "regions": pa.table({"region": ["n", "s"]})}, owner="uid", key=KEY)
    assert {dataset.name: dataset.owner for dataset in report.datasets} == {"visits": "uid", "regions": None}


def test_owners_can_be_named_by_table(table):
    people = pa.table({"email": ["a", "b"], "age": [1, 2]})
    report = scan({"visits": table, "people": people}, owner={"visits": "uid", "people": "email"}, key=KEY)
    assert {dataset.name: dataset.owner for dataset in report.datasets} == {"visits": "uid", "people": "email"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"owner": "nobody"}, "E_UNKNOWN_COLUMN"),
        ({"owner": {"visits": "nobody"}}, "E_UNKNOWN_COLUMN"),
        ({"owner": {"nothing": "uid"}}, "E_UNKNOWN_TABLE"),
        ({"columns": ["nothing"]}, "E_UNKNOWN_COLUMN"),
        ({"tables": ["nothing"]}, "E_UNKNOWN_TABLE"),
        ({"combine": 0}, "E_USAGE"),
        ({"combine": True}, "E_USAGE"),
        ({"k": 1}, "E_USAGE"),
        ({"key": b""}, "E_USAGE"),
    ],
    ids=str,
)
def test_wrong_requests_are_refused(table, options, code):
    with pytest.raises(ShoalError) as caught:
        scan({"visits": table}, **({"key": KEY} | options))
    assert caught.value.code == code


def test_an_unknown_owner_hints_at_columns_that_look_like_one(table):
    with pytest.raises(ShoalError) as caught:
        scan({"visits": table}, owner="user", key=KEY)
    assert "uid" in caught.value.hint


@pytest.mark.parametrize(
    "source", ["/nowhere/at/all", "/nowhere/*.csv", 7, {}, {"t": 7}, {"t": {"a": [1], "b": [1, 2]}}], ids=str
)
def test_what_cannot_be_read_is_refused(source):
    with pytest.raises(ShoalError) as caught:
        scan(source, key=KEY)
    assert caught.value.code == "E_SOURCE"


def test_files_that_are_not_what_their_name_says_are_refused(tmp_path):
    for name in ("a.parquet", "b.duckdb", "c.jsonl"):
        (tmp_path / name).write_bytes(b"\x00\x01 this is not it")
        with pytest.raises(ShoalError) as caught:
            scan(tmp_path / name, key=KEY)
        assert caught.value.code == "E_SOURCE"


def test_shards_with_different_columns_are_refused(tmp_path):
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t" / "1.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "t" / "2.parquet")
    with pytest.raises(ShoalError, match="different columns"):
        scan(tmp_path, key=KEY)


def test_file_names_and_columns_may_be_strange(tmp_path):
    strange = 'it\'s; a "file"--'
    pd.DataFrame({"a \"b\" 'c'": [1, 2]}).to_csv(tmp_path / f"{strange}.csv", index=False)
    (found,) = open_tables(tmp_path)
    assert found.name == strange
    assert scan(tmp_path, key=KEY).datasets[0].rows == 2


def test_rows_without_an_owner_are_left_out_and_counted():
    report = scan({"t": {"uid": [1, None, 2, None], "v": ["a", "a", "b", "c"]}}, owner="uid", key=KEY)
    assert "2 rows have no owner and were left out." in report.datasets[0].notes
    assert report.sketches["v"].rows == 2
    assert report.datasets[0].rows == 4


def test_columns_without_a_canonical_form_are_named_and_skipped():
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    report = scan({"t": pa.table({"u": union, "v": [1, 2]})}, key=KEY)
    assert list(report.sketches) == ["t.v"]
    assert "'u' was left out" in report.datasets[0].notes[0]


def test_an_empty_table_has_a_report():
    report = scan({"t": pa.table({"a": pa.array([], pa.string())})}, key=KEY)
    assert report.datasets[0].columns[0].graded.reason == "There are no rows."
    assert "t" in report.to_html()
    assert str(report)


def test_nested_columns_are_scanned():
    report = scan({"t": pa.table({"tags": [["a"], ["a", "b"], ["a"]], "who": [{"x": 1}, {"x": 1}, None]})}, key=KEY)
    assert report.sketches["tags"].distinct_values().value == 2
    assert report.sketches["who"].distinct_values().value == 2


def test_a_scan_is_keyed_unless_told_otherwise(table):
    report = scan({"visits": table}, owner="uid")
    assert report.key_thrown_away
    assert report.key_ids != ["none"]
    with pytest.warns(UnkeyedSketchWarning) as warned:
        assert scan({"visits": table}, owner="uid", key=None).key_ids == ["none"]
    assert len(warned) == 1


def test_sketches_are_found_by_long_and_by_clear_short_names(table):
    report = scan({"visits": table, "again": table}, owner="uid", key=KEY, columns=["city"])
    assert report.sketches["visits.city"].to_bytes() == report.sketches["again.city"].to_bytes()
    with pytest.raises(KeyError):
        report.sketches["city"]
    assert len(report.sketches) == 2


def test_csv_with_leading_zeros_stays_text(tmp_path):
    (tmp_path / "t.csv").write_text("zip\n01234\n99999\n")
    sketch = Sketch(key=KEY)
    sketch.update(["01234", "99999"])
    assert scan(tmp_path / "t.csv", key=KEY).sketches["zip"].to_bytes() == sketch.to_bytes()


def test_odd_values_in_csv_and_json_lines_do_not_stop_a_scan(tmp_path):
    (tmp_path / "t.csv").write_text("n,m\n" + "".join(f"{n},x\n" for n in range(30_000)) + "oops,y\n")
    report = scan(tmp_path / "t.csv", key=KEY)
    assert report.datasets[0].rows >= 30_000
    assert 0.9 < report.sketches["n"].distinct_values().value / 30_001 < 1.1
    rows = [{"n": n} for n in range(25_000)] + [{"n": "odd"}, {"other": [1]}]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    assert scan(tmp_path / "t.jsonl", key=KEY).datasets[0].rows == 25_002


def test_compressed_csv_is_read(tmp_path):
    import gzip

    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"n\n1\n2\n"))
    assert scan(tmp_path / "t.csv.gz", key=KEY).datasets[0].name == "t"
    assert scan(tmp_path, key=KEY).sketches["n"].distinct_values().value == 2
