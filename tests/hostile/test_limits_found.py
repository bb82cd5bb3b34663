"""One owner more moves every histogram of limits by one owner in one bin, whatever the owner's rows, and never the charge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.release.execute import fresh_sampling_key, measure

PLAIN = {
    "uid": np.repeat(np.arange(40), 5),
    "place": np.arange(200) % 7,
    "item": np.arange(200),
    "x": np.arange(200) / 3,
}
OUTLIERS = {
    "many rows": ([99] * 50_000, [1] * 50_000, list(range(50_000)), [1.0] * 50_000),
    "many groups": ([99] * 3000, list(range(3000)), [1] * 3000, [2.0] * 3000),
    "huge values": ([99] * 3, [1, 2, 3], [1, 2, 3], [1e300, -1e300, 1e18]),
    "no values": ([99] * 3, [None, None, 1], [None, None, None], [None, float("nan"), float("inf")]),
}
SQL = "SELECT place, COUNT(*), SUM(x), COUNT(DISTINCT item), MEDIAN(x) FROM visits GROUP BY place"


def table(rows=None):
    columns = {name: list(values) for name, values in PLAIN.items()}
    for name, values in zip(columns, rows or ([], [], [], []), strict=True):
        columns[name] += values
    types = {"uid": pa.int64(), "place": pa.int64(), "item": pa.int64(), "x": pa.float64()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def opened(rows=None):
    catalog = {"tables": {"visits": {"owner": "uid"}}, "defaults": {"epsilon": 1, "delta": 1e-6}}
    return shoal.connect({"visits": table(rows)}, catalog=catalog)


def bins(session, histogram, key):
    measured = measure(histogram, session._engine, key).measurement
    return dict(zip(measured.keys.column(0).to_pylist(), np.asarray(measured.totals[0]).tolist(), strict=True))


@pytest.mark.parametrize("who", OUTLIERS)
def test_an_owner_fills_one_bin_and_pays_what_everybody_pays(who):
    with opened() as without, opened(OUTLIERS[who]) as with_one:
        plans = [session.plan(SQL) for session in (without, with_one)]
        assert plans[0] == plans[1]
        search, key = plans[0].selects[0].search, fresh_sampling_key()
        assert [sought.kind for sought in search.sought] == ["groups", "rows", "sum", "values", "rows"]
        for histogram in search.histograms:
            before, after = (bins(session, histogram, key) for session in (without, with_one))
            moves = [abs(after[number] - before[number]) for number in before]
            assert sum(moves) <= 1
            assert sum(before.values()) == 40


@pytest.mark.parametrize("who", OUTLIERS)
def test_every_owner_is_answered_whatever_the_rows(who):
    with opened(OUTLIERS[who]) as session:
        result = session.query(SQL)
        assert session.spent == (1.0, 1e-6)
        assert result.columns[0] == "place"
