"""Columns of frames are asked for one table at a time, and are those that the engine lists itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.engines.sources import open_source

ROWS = 3
FRAMES = {
    "visits": pa.table(
        {
            "uid": range(ROWS),
            'odd "name': ["a", "b", None],
            "price": pa.nulls(ROWS, pa.decimal128(9, 2)),
            "seen": pa.nulls(ROWS, pa.timestamp("ns", "UTC")),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "parts": [[1], [], None],
            "pair": [{"a": 1}] * ROWS,
        }
    ),
    "Zed": pa.table({"uid": range(ROWS)}),
    "a b": pa.table({"UID": range(ROWS), "day": pa.nulls(ROWS, pa.date32())}),
    "empty": pa.table({"uid": pa.array([], pa.int64())}),
}


@pytest.fixture
def engine():
    opened = open_source(FRAMES)
    yield opened
    opened.close()


def test_columns_types_and_their_order_are_those_of_the_engines_own_list(engine):
    asked = [("temp", "main", table, *column) for table in sorted(FRAMES) for column in engine.tables()[table.lower()]]
    assert asked == engine._stored_columns()
    assert list(engine.tables()) == [table.lower() for table in sorted(FRAMES)]
