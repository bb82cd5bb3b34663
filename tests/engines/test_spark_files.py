"""Tables of Spark that are files of the machine: tasks read them, and every integer is the one that Spark's rows give."""

from __future__ import annotations

import datetime as dt
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from questions import by_keys

import shoal
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import Deadline
from shoal.engines.reading import Need
from shoal.engines.spark.stored import LEFT_TO_SPARK
from shoal.release.execute import fresh_sampling_key, measure

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 50) "
EXACT = "COUNT(*, contribution_bounds_per_group => (0, 1000)) AS n"
CATALOG = {"tables": {"kept": {"owner": "uid"}}}


class BothRoads:
    """Asks tasks that read files, then Spark for its rows, and compares."""

    def __init__(self, engine, monkeypatch):
        self._engine, self._monkeypatch, self.asked = engine, monkeypatch, 0

    def totals(self, query, key):
        direct = self._engine.totals(query, key)
        with self._monkeypatch.context() as patched:
            patched.setattr(type(self._engine), "_parts", lambda *_: None)
            handed_over = self._engine.totals(query, key)
        assert by_keys(direct) == by_keys(handed_over)
        assert direct.keys.schema.types == handed_over.keys.schema.types
        assert by_keys(direct)
        self.asked += 1
        return direct


@pytest.fixture
def kept(spark, tmp_path):
    """`kept(table)` writes files by Spark and names them `kept`."""

    def write(rows, **options):
        place = tmp_path / f"t{time.monotonic_ns()}"
        frame = spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows
        writer = frame.repartition(3).write
        writer = writer.partitionBy(options["by"]) if "by" in options else writer
        writer.parquet(str(place))
        spark.read.parquet(str(place)).createOrReplaceTempView("kept")
        return place

    return write


def values(spark):
    """Four hundred rows of every type that tasks read, with what is hard about each."""
    return spark.range(400).selectExpr(
        "IF(id % 13 = 0, NULL, 'u' || (id % 40)) AS uid",
        "CAST(id % 5 AS TINYINT) AS tiny",
        "CAST(id % 7 - 3 AS SMALLINT) AS small",
        "IF(id % 11 = 0, NULL, CAST(id % 3 AS INT)) AS n",
        "CASE WHEN id % 10 = 0 THEN -9223372036854775807 - 1 WHEN id % 10 = 1 THEN 9223372036854775807 ELSE id END AS big",
        "CAST(id / 7 AS FLOAT) AS real_",
        "CASE id % 9 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') WHEN 2 THEN -0.0D ELSE id / 3 END AS x",
        "id % 2 = 0 AS flag",
        "CASE id % 6 WHEN 0 THEN CAST(unhex('FF41') AS STRING) WHEN 1 THEN '' WHEN 2 THEN NULL "
        "WHEN 3 THEN repeat('ß', 40000) ELSE '日本' || id % 3 END AS t",
        "CASE id % 5 WHEN 0 THEN DATE'0044-03-15' WHEN 1 THEN DATE'1582-10-10' ELSE DATE'2026-11-18' END AS day",
        "IF(id % 3 = 0, TIMESTAMP'1500-01-01 00:00:00Z', TIMESTAMP'2026-11-01 05:30:00.123456Z') "
        "+ make_interval(0, 0, 0, 0, id) AS at",
        "TIMESTAMP_NTZ'1500-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) AS local_",
    )


SUMS = (
    "COUNT(*), SUM(big, contribution_bounds_per_group => (-100, 100)), AVG(x, contribution_bounds_per_group => (-9, 9))"
)
HOURS = "DATE_TRUNC('hour', at) AS h, DATE_TRUNC('hour', local_) AS i"
QUESTIONS = (
    f"tiny, small, flag, COUNT(real_), {SUMS} FROM kept GROUP BY tiny, small, flag",
    "t, day, COUNT(*), COUNT(DISTINCT uid) FROM kept GROUP BY t, day",
    f"{HOURS}, COUNT(*) FROM kept WHERE n BETWEEN 1 AND 2 AND flag GROUP BY h, i",
    "a.n, COUNT(*) FROM kept AS a JOIN kept AS b ON a.uid = b.uid WHERE b.t = '日本1' AND a.day > DATE '1600-01-01' GROUP BY a.n",
)


def test_tasks_that_read_files_and_tasks_that_get_rows_from_spark_have_the_same_integers(spark, kept, monkeypatch):
    kept(values(spark))
    with shoal.connect(spark, CATALOG, buckets=3) as session, session._engine.snapshot(Deadline(600)) as taken:
        roads = BothRoads(taken, monkeypatch)
        for number, asked in enumerate(QUESTIONS, 1):
            (plan,) = session.plan(PRIVATE + asked).selects
            measure(plan, roads, fresh_sampling_key())
            assert len(taken._looked) == number
    assert roads.asked >= len(QUESTIONS)


def found(spark, columns=("n", "uid")):
    with shoal.connect(spark, {"tables": {"kept": {"owner": "uid", "trusted_view": True}}}) as session:
        return session._engine._parts(Need("kept", columns, "uid"))


def test_what_is_not_just_files_is_left_to_spark(spark, kept):
    rows = spark.range(50).selectExpr("id AS uid", "id % 3 AS n", "CAST(id AS DECIMAL(9, 2)) AS price")
    place = kept(rows)
    shares = found(spark)
    assert shares is not None
    assert len(shares) == spark.sparkContext.defaultParallelism
    assert found(spark, ("n", "price", "uid")) is None
    spark.table("kept").createOrReplaceTempView("same")
    spark.catalog.cacheTable("kept")
    assert found(spark) is None
    spark.catalog.uncacheTable("kept")
    assert found(spark) is not None
    spark.read.schema("uid BIGINT, n INT").parquet(str(place)).createOrReplaceTempView("kept")
    assert found(spark) is None
    spark.read.parquet(str(place)).selectExpr("n AS uid", "uid AS n").createOrReplaceTempView("kept")
    assert found(spark) is None
    spark.read.parquet(str(place)).where("n > 0").createOrReplaceTempView("kept")
    assert found(spark) is None
    kept(rows, by="n")
    assert found(spark) is None
    assert found(spark, ("uid",)) is None


def test_settings_that_change_what_files_mean_leave_them_to_spark(spark, kept):
    kept(spark.range(50).selectExpr("id AS uid", "id % 3 AS n"))
    for name in LEFT_TO_SPARK:
        spark.conf.set(name, "true")
        try:
            assert found(spark) is None
        finally:
            spark.conf.unset(name)
    assert found(spark) is not None


def test_files_that_change_are_looked_at_again_and_never_read_by_halves(spark, tmp_path, monkeypatch):
    place = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"uid": range(50), "n": [1] * 50}), place)
    spark.read.parquet(str(place)).createOrReplaceTempView("kept")
    with shoal.connect(spark, CATALOG, buckets=2) as session:
        asked = PRIVATE + f"{EXACT} FROM kept"
        assert session.query(asked).to_dicts() == [{"n": 50}]
        pq.write_table(pa.table({"uid": range(70), "n": [1] * 70}), place)
        assert session.query(asked).to_dicts() == [{"n": 70}]
        stale = session._engine._parts(Need("kept", ("uid",), "uid"))
        pq.write_table(pa.table({"uid": range(60), "n": [1] * 60}), place)
        with session._engine.snapshot(Deadline(600)) as taken:
            monkeypatch.setattr(taken, "_parts", lambda _: stale)
            (plan,) = session.plan(asked).selects
            with pytest.raises(EngineFailure) as caught:
                measure(plan, taken, fresh_sampling_key())
    assert caught.value.__context__ is None


def test_files_that_are_gone_are_told_before_the_charge(spark, tmp_path):
    place = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"uid": range(50)}), place)
    spark.read.parquet(str(place)).createOrReplaceTempView("kept")
    with shoal.connect(spark, CATALOG, budget=(2 * 10**6, 1e-5), buckets=2) as session:
        asked = PRIVATE + f"{EXACT} FROM kept"
        assert session.query(asked).to_dicts() == [{"n": 50}]
        left = session.remaining
        place.unlink()
        with pytest.raises(shoal.ShoalError, match="no longer there") as caught:
            session.query(asked)
        assert caught.value.code == "E_SOURCE"
        assert session.remaining == left
        pq.write_table(pa.table({"uid": range(60)}), place)
        assert session.query(asked).to_dicts() == [{"n": 60}]


def test_a_condition_decides_nothing_about_a_damaged_page(spark, tmp_path):
    """A reader that skipped row groups by their statistics would answer where the condition holds nowhere near the damage."""
    place = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"uid": range(4000), "n": range(4000)}), place, row_group_size=1000, compression="none")
    group = pq.ParquetFile(place).metadata.row_group(3).column(1)
    whole = bytearray(place.read_bytes())
    start = group.dictionary_page_offset or group.data_page_offset
    whole[start : start + 20] = bytes(20)
    place.write_bytes(whole)
    spark.read.parquet(str(place)).createOrReplaceTempView("kept")
    faces = set()
    for condition in ("n < 10", "n > 3500", "n = 2500", "n >= 0"):
        with shoal.connect(spark, CATALOG, buckets=2) as session, pytest.raises(shoal.ShoalError) as caught:
            session.query(PRIVATE + f"{EXACT} FROM kept WHERE {condition}")
        faces.add((caught.value.code, str(caught.value)))
    assert len(faces) == 1


def test_the_day_of_a_file_of_an_unknown_calendar_is_left_to_spark(spark, tmp_path):
    place = tmp_path / "days.parquet"
    pq.write_table(pa.table({"uid": [1], "day": [dt.date(1500, 1, 1)]}), place)
    spark.read.parquet(str(place)).createOrReplaceTempView("kept")
    assert found(spark, ("day", "uid")) is None
    assert found(spark, ("uid",)) is not None
