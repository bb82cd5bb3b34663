from __future__ import annotations

import datetime as dt
import io
import json
import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli import output
from shoal.cli.output import as_json, check_writable, csv_bytes, parquet_bytes, rows_of
from shoal.errors import ShoalError


@pytest.fixture
def answer():
    return pa.table({"day": [dt.date(2025, 1, 2), None], "n": [3, -1], "share": [0.5, float("nan")]})


def test_json_has_no_nan_and_dates_are_iso_text(answer):
    assert json.loads(as_json(rows_of(answer))) == [
        {"day": "2025-01-02", "n": 3, "share": 0.5},
        {"day": None, "n": -1, "share": None},
    ]


def test_whole_decimals_stay_whole_in_json():
    assert as_json([Decimal(10**30), Decimal("2.50")]).split() == ["[", f"{10**30},", "2.5", "]"]


def test_two_columns_of_one_name_both_survive():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert rows_of(twice) == [{"n": 1, "n_2": 2}]


def test_csv_has_a_header_and_empty_cells(answer):
    assert csv_bytes(answer).decode().splitlines()[:2] == ['"day","n","share"', "2025-01-02,3,0.5"]


def test_parquet_reads_back(answer):
    assert pq.read_table(io.BytesIO(parquet_bytes(answer))).column_names == ["day", "n", "share"]


def test_a_place_is_checked_without_touching_it(tmp_path):
    (tmp_path / "there").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere-yet")
    for name in ("there", "not-there", "link"):
        check_writable(tmp_path / name)
    assert (tmp_path / "there").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]


def test_a_pipe_is_not_opened_before_the_answer_is_there(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)  # would wait for a reader, or tell one that the answer is over


@pytest.mark.parametrize("place", ["", "no-such-folder/x", "there/x", "loop"])
def test_a_place_that_is_none_is_refused(tmp_path, place):
    (tmp_path / "there").write_text("kept")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ShoalError) as refused:
        check_writable(tmp_path / place)
    assert refused.value.code == "E_USAGE"


def test_texts_that_a_spreadsheet_would_run_are_marked_in_csv():
    table = pa.table({"=a": ["=1+1", "+x", "-x", "@x", "\tx", "x", None], "n": [-1, 2, 3, 4, 5, 6, 7]})
    marked = output.for_spreadsheets(table)
    assert marked.column_names == ["'=a", "n"]
    assert marked.column(0).to_pylist() == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "x", None]
    assert marked.column(1).to_pylist() == [-1, 2, 3, 4, 5, 6, 7]
    numbers, others = (
        ["-5", "+1", "-.5", "+1.", "-1.5e-3"],
        ["-", "+1+1", "-5\n", "-1e", "--5", "-٣", "-1 ", "-.", "=1"],
    )
    assert output.for_spreadsheets(pa.table({"a": numbers})).column(0).to_pylist() == numbers
    assert output.for_spreadsheets(pa.table({"a": others})).column(0).to_pylist() == [f"'{each}" for each in others]


def test_a_terminal_is_spared_control_characters_of_csv():
    table = pa.table({"a": ["\x1b]0;title\x07", "line\nbreak", "żółw\x9b"]})
    assert output.for_terminals(table).column(0).to_pylist() == ["\\x1b]0;title\\x07", "line\\x0abreak", "żółw\\x9b"]
