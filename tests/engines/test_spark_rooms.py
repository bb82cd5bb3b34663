"""What a Spark session may be handed in with: executors without packages, readers that fail on single rows, names alike."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import shoal

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
