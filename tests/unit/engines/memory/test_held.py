"""Rows that are held are the rows that came."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from shoal.engines.memory import held as held_rows

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
