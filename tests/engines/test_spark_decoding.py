"""Values that a reader of Spark refuses are told when a session opens or before a charge, never after it: on neighbours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import shoal

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 1) "
COUNTED = PRIVATE + "COUNT(v) AS n FROM t"
CATALOG = {"tables": {"t": {"owner": "uid"}}}
ROWS, VICTIM = 3_000, 2_300
BUDGET = (10**7, 1e-3)


def neighbours(value, type_, usual=5, number=np.int64):
    """A table with one value of the victim, and the same without the victim."""
    values = np.full(ROWS, usual, dtype=number)
    values[VICTIM] = value
    whole = pa.table({"uid": np.arange(ROWS), "v": pa.array(values, type_)})
    return whole, pa.concat_tables([whole.slice(0, VICTIM), whole.slice(VICTIM + 1)])


def registered(spark, table, place, write=pq.write_table, kind="parquet"):
    write(table, place)
    spark.read.format(kind).load(str(place)).createOrReplaceTempView("t")


FAR = {
    "milliseconds": (2**62, pa.timestamp("ms")),
    "milliseconds before": (-(2**62), pa.timestamp("ms")),
    "instants": (2**62, pa.timestamp("ms", "UTC")),
    "the first that does not fit": ((2**63 - 1) // 1000 + 1, pa.timestamp("ms")),
}


@pytest.mark.parametrize("name", FAR)
def test_a_time_beyond_microseconds_is_told_when_a_session_opens(spark, tmp_path, name):
    told, sound = neighbours(*FAR[name])
    registered(spark, told, tmp_path / "told.parquet")
    with pytest.raises(shoal.ShoalError, match="cannot read the table 't' to its end: 'v'") as refused:
        shoal.connect(spark, CATALOG)
    assert refused.value.code == "E_SOURCE"
    assert refused.value.__context__ is None
    registered(spark, sound, tmp_path / "sound.parquet")
    with shoal.connect(spark, CATALOG, buckets=2) as session:
        assert session.query(COUNTED).to_dicts() == [{"n": ROWS - 1}]


def test_the_last_millisecond_that_fits_is_read(spark, tmp_path):
    registered(spark, neighbours((2**63 - 1) // 1000, pa.timestamp("ms"))[0], tmp_path / "t.parquet")
    with shoal.connect(spark, CATALOG, buckets=2) as session:
        assert session.query(COUNTED + " WHERE uid = 5").to_dicts() == [{"n": 1}]


def test_far_seconds_in_orc_are_told(spark, tmp_path):
    told, sound = neighbours(2**62, pa.timestamp("ms"))
    registered(spark, told, tmp_path / "told.orc", orc.write_table, "orc")
    with pytest.raises(shoal.ShoalError, match="'v'"):
        shoal.connect(spark, CATALOG)
    registered(spark, sound, tmp_path / "sound.orc", orc.write_table, "orc")
    shoal.connect(spark, CATALOG).close()


def test_old_days_are_told_where_the_session_refuses_them(spark, tmp_path):
    told, sound = neighbours(-200_000, pa.date32(), number=np.int32)
    name = "spark.sql.parquet.datetimeRebaseModeInRead"
    spark.conf.set(name, "EXCEPTION")
    try:
        registered(spark, told, tmp_path / "told.parquet")
        with pytest.raises(shoal.ShoalError, match="rebase mode"):
            shoal.connect(spark, CATALOG)
        registered(spark, sound, tmp_path / "sound.parquet")
        shoal.connect(spark, CATALOG).close()
    finally:
        spark.conf.unset(name)
    registered(spark, told, tmp_path / "again.parquet")
    with shoal.connect(spark, CATALOG, buckets=2) as session:
        assert session.query(COUNTED).to_dicts() == [{"n": ROWS}]


def test_a_view_of_the_catalog_is_looked_at_as_well(spark, tmp_path):
    told, _ = neighbours(2**62, pa.timestamp("ms"))
    pq.write_table(told, tmp_path / "told.parquet")
    view = f"SELECT uid, v AS seen FROM parquet.`{tmp_path / 'told.parquet'}`"
    with pytest.raises(shoal.ShoalError, match="'seen'") as refused:
        shoal.connect(spark, {"tables": {"w": {"owner": "uid", "view": view}}})
    assert refused.value.code == "E_SOURCE"


def test_a_file_that_comes_later_is_read_before_the_charge(spark, tmp_path):
    told, sound = neighbours(2**62, pa.timestamp("ms"))
    for name, rows in (("a", sound), ("b", told), ("c", sound)):
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "rows.parquet")
    spark.sql("DROP VIEW IF EXISTS t")
    spark.sql("CREATE TABLE t (uid BIGINT, v TIMESTAMP_NTZ, part STRING) USING parquet PARTITIONED BY (part)")
    try:
        spark.sql(f"ALTER TABLE t ADD PARTITION (part = 'a') LOCATION '{tmp_path / 'a'}'")
        with shoal.connect(spark, CATALOG, buckets=2, budget=BUDGET) as session:
            session.query(COUNTED)
            spark.sql(f"ALTER TABLE t ADD PARTITION (part = 'c') LOCATION '{tmp_path / 'c'}'")
            session.query(COUNTED)
            before = session.spent
            spark.sql(f"ALTER TABLE t ADD PARTITION (part = 'b') LOCATION '{tmp_path / 'b'}'")
            for condition in ("", " WHERE uid < 100"):  # no second answer, and nobody is suspended
                with pytest.raises(shoal.ShoalError) as refused:
                    session.query(COUNTED + condition)
                assert refused.value.code == "E_SOURCE"
            assert session.spent == before
    finally:
        spark.sql("DROP TABLE t")


def test_rows_that_a_program_makes_are_read_when_a_session_opens(spark):
    def rows(victim):
        return spark.sparkContext.range(100).map(lambda n: (n, 1 if n != 7 else victim()))

    spark.createDataFrame(rows(lambda: 1 // 0), "uid bigint, v bigint").createOrReplaceTempView("t")
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(spark, CATALOG)
    assert refused.value.code == "E_SOURCE"
    spark.createDataFrame(rows(lambda: 2), "uid bigint, v bigint").createOrReplaceTempView("t")
    with shoal.connect(spark, CATALOG, buckets=2) as session:
        assert session.query(COUNTED).to_dicts() == [{"n": 100}]


@pytest.mark.parametrize("stored_as_integer", [True, False])
def test_a_decimal_with_more_digits_than_its_type_is_missing(spark, tmp_path, stored_as_integer):
    """Spark reads it and cannot hand it over: a query failed if it read the column."""
    said = set()
    for value in (2 * 10**6, 500):
        numbers = np.zeros((100, 2), dtype=np.int64)
        numbers[:, 0] = 5
        numbers[7, 0] = value
        column = pa.Decimal128Array.from_buffers(pa.decimal128(5, 2), 100, [None, pa.py_buffer(numbers.tobytes())])
        table = pa.table({"uid": np.arange(100), "v": column})
        pq.write_table(table, tmp_path / f"{value}.parquet", store_decimal_as_integer=stored_as_integer)
        spark.read.parquet(str(tmp_path / f"{value}.parquet")).createOrReplaceTempView("t")
        with shoal.connect(spark, CATALOG, buckets=2) as session:
            said.add(session.query(COUNTED).to_dicts()[0]["n"])
            bounded = PRIVATE + "SUM(v, contribution_bounds_per_group => (0, 9)) AS s FROM t WHERE uid <> 7"
            assert session.query(bounded).to_dicts()[0]["s"] == pytest.approx(99 * 0.05, abs=0.01)
    assert said == {99, 100}
