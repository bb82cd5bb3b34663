from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.output import as_json, csv_bytes, parquet_bytes, rows_of


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
