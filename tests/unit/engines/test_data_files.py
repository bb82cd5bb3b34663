"""Which files are which table: one list of endings for queries and scans."""

from __future__ import annotations

import gzip

import pytest

from shoal.engines.data_files import FORMATS, ending, format_of, stem, tables_at
from shoal.engines.sources import open_source
from shoal.errors import ShoalError
from shoal.risk.scanning.sources import open_tables

ROWS = "uid,day\n1,2025-01-01\n2,2025-01-02\n3,\n"


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_an_ending_is_taken_off_whole_and_in_any_case(tmp_path, name):
    path = tmp_path / f"visits.2025{name.upper()}"
    assert (ending(path), stem(path)) == (name, "visits.2025")


def test_a_folder_has_a_table_for_every_name_and_every_folder_inside(tmp_path):
    for name in ("a.csv", "a.parquet", "b.jsonl", "_tmp.csv", ".hidden.csv", "notes.txt", "parts/1.pq", "parts/x/2.pq"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = {name: [path.name for path in files] for name, files in tables_at(str(tmp_path)).items()}
    assert found == {"a": ["a.csv", "a.parquet"], "b": ["b.jsonl"], "parts": ["1.pq", "2.pq"]}


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz"])
def test_queries_and_scans_open_the_same_csv_with_the_same_columns(tmp_path, name):
    content = ROWS.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    queried = open_source(str(tmp_path / name)).tables()["visits"]
    assert [column for column, _ in queried] == open_tables(tmp_path / name)[0].schema.names == ["uid", "day"]


def test_a_compressed_file_that_is_cut_off_is_refused_when_it_is_opened(tmp_path):
    (tmp_path / "visits.csv.gz").write_bytes(gzip.compress((ROWS * 100).encode())[:-9])
    with pytest.raises(ShoalError, match="damaged or cut off") as refused:
        open_source(str(tmp_path))
    assert refused.value.code == "E_SOURCE"


def test_lines_of_json_are_scanned_and_queried(tmp_path):
    path = tmp_path / "visits.jsonl"
    path.write_text('{"uid": 1}\n{"uid": 2}\n', encoding="utf-8")
    assert format_of(path) == "JSON lines"
    assert open_tables(path)[0].schema.names == ["uid"]
    assert open_source(str(path)).tables() == {"visits": [("uid", "BIGINT")]}
