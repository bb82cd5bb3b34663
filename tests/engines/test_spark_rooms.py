"""What a Spark session may be handed in with: executors without packages, readers that fail on single rows, names alike."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

import shoal
from shoal.engines.deadline import Deadline
from shoal.engines.reading import Need
from shoal.engines.spark.pieces import labels_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 50) "
EXACT = "COUNT(*, contribution_bounds_per_group => (0, 1000)) AS n"


@pytest.fixture(scope="module")
def numbers(spark):
    spark.range(50).selectExpr("id AS uid", "id AS x").createOrReplaceTempView("numbers")
    return {"tables": {"numbers": {"owner": "uid"}}}


def test_executors_without_packages_are_told_what_to_install(spark, numbers, tmp_path, monkeypatch):
    """A Python of its own for executors: first an empty one, then one with Arrow and another DuckDB."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bin" / "python"))
    with pytest.raises(shoal.ShoalError, match="have no duckdb, no pyarrow, no shoal") as caught:
        shoal.connect(spark, numbers)
    assert caught.value.code == "E_SOURCE"
    assert "pip install 'shoal[spark]'" in str(caught.value)
    assert caught.value.__context__ is None

    there = next((tmp_path / "lib").glob("python3*")) / "site-packages"
    here = Path(metadata.distribution("pyarrow").locate_file(""))
    for package in ("pyarrow", "numpy"):
        for found in here.glob(f"{package}[-.]*"):
            (there / found.name).symlink_to(found)
        (there / package).symlink_to(here / package)
    for package, version in (("duckdb", "0.9.2"), ("shoal", metadata.version("shoal"))):
        (there / f"{package}-{version}.dist-info").mkdir()
        told = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        (there / f"{package}-{version}.dist-info" / "METADATA").write_text(told, encoding="utf-8")
    with pytest.raises(shoal.ShoalError, match=r"have duckdb 0\.9\.2, and the driver") as caught:
        shoal.connect(spark, numbers)
    assert caught.value.code == "E_SOURCE"

    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "nowhere"))
    with pytest.raises(shoal.ShoalError, match="cannot run Python functions over Arrow"):
        shoal.connect(spark, numbers)


def test_readers_that_fail_on_single_rows_must_be_trusted_and_no_condition_steers_around_the_row(spark, tmp_path):
    (tmp_path / "lines.csv").write_text("1,1,5\n2,oops,6\n3,3,7\n", encoding="utf-8")
    reader = spark.read.schema("uid int, x int, z int").option("mode", "FAILFAST")
    reader.csv(str(tmp_path / "lines.csv")).createOrReplaceTempView("lines")
    with pytest.raises(shoal.ShoalError, match="values are converted") as caught:
        shoal.connect(spark, {"tables": {"lines": {"owner": "uid"}}})
    assert caught.value.code == "E_CATALOG"
    told = set()
    for condition in ("z > 0", "x > 0 AND z > 6"):
        with shoal.connect(spark, {"tables": {"lines": {"owner": "uid", "trusted_view": True}}}, buckets=2) as session:
            with pytest.raises(shoal.ShoalError) as caught:
                session.query(PRIVATE + f"{EXACT} FROM lines WHERE {condition}")
            told.add(str(caught.value))
    (only,) = told
    assert only.startswith("E_EXECUTION")
    assert "oops" not in only


@pytest.mark.parametrize("item", ["-x AS y", "x / 2 AS y", "CAST(x AS INT) AS y", "array(x)[0] AS y"])
def test_views_that_compute_must_be_trusted_however_they_are_written(spark, numbers, item):
    view = f"SELECT uid, {item} FROM numbers"
    with pytest.raises(shoal.ShoalError, match="it is a view that computes") as caught:
        shoal.connect(spark, {"tables": {**numbers["tables"], "v": {"owner": "uid", "view": view}}})
    assert caught.value.code == "E_CATALOG"


def test_columns_of_one_name_are_refused_with_the_name(spark, numbers):
    view = "SELECT uid, x AS Site, uid AS site FROM numbers"
    with pytest.raises(shoal.ShoalError, match="several columns called 'site'") as caught:
        shoal.connect(spark, {"tables": {**numbers["tables"], "v": {"owner": "uid", "view": view}}})
    assert caught.value.code == "E_CATALOG"


def test_a_table_that_is_not_there_and_a_view_that_is_no_query_are_told_without_javas_words(spark, numbers):
    for entry, word in (({"owner": "uid"}, "does not have it"), ({"owner": "uid", "view": "SELEC 1"}, "not a query")):
        with pytest.raises(shoal.ShoalError, match=word) as caught:
            shoal.connect(spark, {"tables": {**numbers["tables"], "missing": entry}})
        assert caught.value.code == "E_CATALOG"
        assert caught.value.__context__ is None


def test_a_text_that_no_calendar_has_is_no_date(spark, numbers):
    with shoal.connect(spark, numbers, buckets=2) as session:
        asked = PRIVATE + f"{EXACT} FROM numbers WHERE CAST('infinity' AS DATE) IS NOT NULL"
        assert session.query(asked).to_dicts() == [{"n": 0}]


def test_buckets_go_to_tasks_of_their_own(spark):
    for buckets in (1, 4, 31):
        labels = labels_for(buckets)
        frame = spark.createDataFrame([(label,) for label in labels], "part int").repartition(buckets, "part")
        assert sorted(row[0] for row in frame.selectExpr("spark_partition_id()").collect()) == list(range(buckets))


def test_little_data_is_cut_into_few_buckets_and_much_into_as_many_as_spark_shuffles_into(spark, numbers, monkeypatch):
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions"))
    with shoal.connect(spark, numbers) as session:
        engine, need = session._engine, [Need("numbers", ("uid",), "uid")]
        assert 0 < engine._size(engine._scanned(need[0])) < 1 << 20
        assert engine._bucket_count(need) == 2 * spark.sparkContext.defaultParallelism
        monkeypatch.setattr("shoal.engines.spark.engine.BUCKET_BYTES", 1)
        assert engine._bucket_count(need) == max(shuffled, 2 * spark.sparkContext.defaultParallelism)
        monkeypatch.setattr(engine, "_size", lambda _: None)
        assert engine._bucket_count(need) == max(shuffled, 2 * spark.sparkContext.defaultParallelism)


def test_settings_of_ours_are_in_a_copy_of_the_session_and_not_needed(spark, numbers, monkeypatch):
    before = dict(spark.conf.getAll)
    with shoal.connect(spark, numbers, buckets=2) as session:
        for rows in (4096, 512):
            copied = session._engine._copied_session(rows)
            assert copied.conf().get("spark.sql.execution.arrow.maxRecordsPerBatch") == str(rows)
        assert dict(spark.conf.getAll) == before
        moved = session._engine._without_sizes(spark.table("numbers"), 512)
        assert moved._jdf.sparkSession().equals(copied)
        assert moved.count() == 50
        (row,) = session.query(PRIVATE + f"{EXACT} FROM numbers").to_dicts()
        monkeypatch.setattr(session._engine, "_copies", {4096: None})
        assert session.query(PRIVATE + f"{EXACT} FROM numbers").to_dicts() == [row] == [{"n": 50}]
        assert dict(spark.conf.getAll) == before


def test_ctrl_c_cancels_the_jobs_of_the_query_and_no_others(spark, numbers):
    from pyspark import InheritableThread

    ended = []

    def sleeping(group):
        spark.sparkContext.setJobGroup(group, "test", interruptOnCancel=True)
        frame = spark.range(0, 1, 1, 1).selectExpr("reflect('java.lang.Thread', 'sleep', 60000L)")
        try:
            frame.collect()
        except Exception:  # noqa: BLE001 - of whatever kind: the job was ended
            ended.append(group)

    def interrupted():
        raise KeyboardInterrupt

    tracker = spark.sparkContext.statusTracker()
    with shoal.connect(spark, numbers) as session, session._engine.snapshot(Deadline(600)) as taken:
        threads = [InheritableThread(target=sleeping, args=(group,)) for group in (taken._group, "of somebody else")]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(tracker.getJobIdsForGroup(g) for g in (taken._group, "of somebody else")))
        with pytest.raises(KeyboardInterrupt):
            taken._ask(interrupted)
        threads[0].join(timeout=300)
        assert ended == [taken._group]
        assert threads[1].is_alive()
        spark.sparkContext.cancelJobGroup("of somebody else")
        threads[1].join(timeout=300)


def wait_until(done, seconds=300):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_public_tables_that_are_too_large_for_every_task_are_refused_before_the_charge(spark, numbers, monkeypatch):
    spark.range(5_000).createOrReplaceTempView("kinds")
    tables = {**numbers["tables"], "kinds": {"public": True}}
    with shoal.connect(spark, {"tables": tables}, budget=(10**7, 1e-3), buckets=2) as session:
        before = session.spent
        monkeypatch.setattr("shoal.engines.spark.engine.MOST_PUBLIC_BYTES", 5_000)
        with pytest.raises(shoal.ShoalError, match="too large to be sent to every task") as caught:
            session.query(PRIVATE + f"{EXACT} FROM numbers JOIN kinds ON x = id")
        assert caught.value.code == "E_LIMITS"
        assert session.spent == before
