"""Instants, days and times that no calendar has: one owner's row decides neither about an answer nor about an error."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines.duckdb.arrow_columns import readable, refuse_unreadable

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.01, max_groups_contributed=1)"
ROWS = "COUNT(*, contribution_bounds_per_group => (0, 2)) AS n"
CATALOG = {"tables": {"v": {"owner": "uid"}}}
FAR = [-(2**63), 2**63 - 1, 10**15, -(10**18)]
TYPES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
TYPES += [pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")]
QUERIES = [
    f"{PRIVATE} COUNT(DISTINCT uid) AS n FROM v",
    f"{PRIVATE} COUNT(DISTINCT t) AS n FROM v",
    f"{PRIVATE} CAST(t AS VARCHAR) AS k, {ROWS} FROM v GROUP BY 1",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.01) t, COUNT(*) AS n FROM v GROUP BY t",
    f"{PRIVATE} EXTRACT(YEAR FROM t) AS k, {ROWS} FROM v GROUP BY 1",
    f"{PRIVATE} EXTRACT(HOUR FROM t) AS k, {ROWS} FROM v GROUP BY 1",
    f"{PRIVATE} {ROWS} FROM v WHERE CAST(t AS DATE) > DATE '2020-01-01'",
    f"{PRIVATE} {ROWS} FROM (SELECT uid, MAX(t) AS t FROM v GROUP BY uid) WHERE CAST(t AS VARCHAR) <> ''",
    f"{PRIVATE} {ROWS} FROM v WHERE t + INTERVAL 1 DAY IS NOT NULL",
]
"""Limits are given in all but one: finding them takes ten times as long as the rest, and is no question of times."""


def table(type_, last):
    """Twenty owners at 0 and one more with the number given."""
    narrow = type_ in {pa.date32(), pa.time32("s"), pa.time32("ms")}
    number = max(min(last, 2**31 - 1), -(2**31)) if narrow else last
    numbers = np.array([0] * 20 + [number], np.int32 if narrow else np.int64)
    return pa.table({"uid": range(21), "t": pa.array(numbers).view(type_)})


def faces(source):
    """What an analyst sees of every query: its verdict, and what it cost."""
    with shoal.connect(source, catalog=CATALOG) as session:
        return [(*face(session, sql), session.spent) for sql in QUERIES]


def face(session, sql):
    try:
        answer = session.query(sql).to_arrow()
    except shoal.ShoalError as error:
        return error.code, str(error)
    return "answered", str(answer.schema)


@pytest.mark.parametrize(
    "type_", [TYPES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in TYPES[1:])], ids=str
)
def test_a_frame_with_a_time_that_is_none_looks_like_one_without_it(type_):
    expected = faces({"v": table(type_, 0).slice(0, 20)})
    assert all(code != "E_EXECUTION" for code, *_ in expected)
    for number in FAR:
        assert faces({"v": table(type_, number)}) == expected, number


@pytest.mark.parametrize("type_", [pa.timestamp("us"), pa.timestamp("ns"), pa.date32(), pa.time64("us")], ids=str)
def test_a_stored_table_with_a_time_that_is_none_looks_like_one_without_it(type_):
    def stored(number, rows):
        connection = duckdb.connect()
        connection.register("frame", table(type_, number).slice(0, rows))
        connection.execute("CREATE TABLE v AS SELECT * FROM frame")
        return connection

    expected = faces(stored(0, 20))
    for number in FAR:
        assert faces(stored(number, 21)) == expected, number


@pytest.mark.parametrize(
    ("type_", "encoding"),
    [
        (pa.timestamp("s", "UTC"), "dictionary"),
        (pa.timestamp("ms", "UTC"), "dictionary"),
        (pa.date64(), "dictionary"),
        (pa.time64("us"), "dictionary"),
        (pa.timestamp("s", "UTC"), "runs"),
        (pa.timestamp("ms", "UTC"), "runs"),
    ],
    ids=str,
)
def test_a_time_that_is_none_hides_in_no_encoding(type_, encoding):
    def encoded(rows):
        plain = table(type_, 10**18).slice(0, rows)
        times = plain.column("t").combine_chunks()
        if encoding == "dictionary":
            return plain.set_column(1, "t", times.dictionary_encode())
        ends = pa.array(range(1, rows + 1), pa.int32())
        return plain.set_column(1, "t", pa.RunEndEncodedArray.from_arrays(ends, times))

    assert faces({"v": encoded(21)}) == faces({"v": encoded(20)})


def test_times_that_exist_stay_what_they_are():
    for type_, number in [
        (pa.timestamp("s", "UTC"), 1_700_000_000),
        (pa.timestamp("ms"), -1),
        (pa.date64(), 86_400_000),
        (pa.time32("s"), 86_399),
        (pa.time64("ns"), 5),
    ]:
        before = table(type_, number)
        assert readable(before).column("t").to_pylist() == before.column("t").to_pylist()


def test_times_that_do_not_are_missing():
    for type_ in (pa.timestamp("s", "UTC"), pa.timestamp("ms"), pa.date64(), pa.time32("ms"), pa.time64("us")):
        for number in FAR:
            (last,) = readable(table(type_, number)).column("t").slice(20).to_pylist()
            assert last is None


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "type_", [pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.time32("ms"), pa.time64("us")], ids=str
)
def test_a_parquet_file_that_its_reader_would_fail_on_is_not_opened(tmp_path, type_, statistics):
    path = tmp_path / "v.parquet"
    pq.write_table(table(type_, 5), path, write_statistics=statistics)
    assert all(code != "E_EXECUTION" for code, *_ in faces(str(path)))
    pq.write_table(table(type_, 2**62), path, write_statistics=statistics)
    with pytest.raises(shoal.ShoalError, match="invalid times"):
        shoal.connect(str(path), catalog=CATALOG)


def test_parquet_files_without_a_value_and_with_structures_are_read(tmp_path):
    path = tmp_path / "v.parquet"
    nothing = pa.array([None, None], pa.timestamp("ms"))
    inside = pa.array([{"t": None}, {"t": None}], pa.struct([("t", pa.time32("ms"))]))
    for statistics in (True, False):
        pq.write_table(pa.table({"uid": [1, 2], "t": nothing, "s": inside}), path, write_statistics=statistics)
        refuse_unreadable(path)
        assert all(code != "E_EXECUTION" for code, *_ in faces(str(path)))


def test_a_database_that_died_is_not_paid_for():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT range AS uid, NULL::TIMESTAMP AS t FROM range(20)")
    with shoal.connect(connection, catalog=CATALOG, budget=(3, 0.1)) as session:
        session.query(QUERIES[0])
        connection.close()
        with pytest.raises(shoal.ShoalError, match="Nothing was charged"):
            session.query(QUERIES[0])
        assert session.spent[0] == 1
