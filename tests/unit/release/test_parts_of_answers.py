"""An answer in parts: rows, intervals and notes are those of the whole, whatever is computed in it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.release import answer_bytes
from shoal.result import Result

VISITS = pa.table({
    "uid": [n // 2 for n in range(1200)],
    "g": [n // 2 % 12 for n in range(1200)],
    "x": [float(n % 40) for n in range(1200)],
})  # fmt: skip
CATALOG = {
    "tables": {"visits": {"owner": "uid", "columns": {"g": {"values": list(range(12))}}}},
    "defaults": {"epsilon": 2.0, "delta": 1e-6},
}
ASKED = [
    "SELECT g, COUNT(*) AS n, AVG(x) AS a FROM visits GROUP BY g",
    "SELECT g, MEDIAN(x) AS m, MAX(x) AS most FROM visits GROUP BY g",
    "SELECT g, ROUND(100.0 * SUM(x) / COUNT(*), 1) AS r, SUM(x) AS s FROM visits GROUP BY g",
    "SELECT g, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY g",
    "SELECT g, QUANTILE_CONT(x, [0.25, 0.75]) AS q FROM visits GROUP BY g",
    "SELECT COUNT(*) AS n FROM visits",
]


@pytest.mark.parametrize("sql", ASKED)
def test_parts_have_the_rows_intervals_and_notes_of_the_whole(sql, monkeypatch):
    with shoal.connect({"visits": VISITS}, catalog=CATALOG) as session:
        whole = session.query(sql)
    rows, notes = whole.to_dicts(), whole.notes
    intervals = {level: whole.intervals(level).to_dicts() for level in (0.5, 0.95)}
    monkeypatch.setattr(answer_bytes, "PART_CELLS", 7)
    kept = Result.from_bytes(whole.to_bytes())
    parts = list(kept.parts())
    assert len(rows) == 1 or len(parts) > 1
    assert [row for part in parts for row in part.to_dicts()] == rows
    for level, expected in intervals.items():
        assert [row for part in parts for row in part.intervals(level).to_dicts()] == expected
    assert kept.notes == notes
