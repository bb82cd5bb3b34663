"""Generated queries on Spark: the refusals and the integers of the embedded engine; and one failure is all that is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from generated import compared
from questions import suspends_after_one_failure

import shoal

sys.path.append(str(Path(__file__).parent.parent / "hostile"))
import nasty_data

pytestmark = [pytest.mark.spark, pytest.mark.slow]

IN_CI = 40
"""A query takes Spark seconds where it takes the embedded engine milliseconds."""


@pytest.fixture(scope="module")
def sessions(spark, tmp_path_factory):
    folder, tables = tmp_path_factory.mktemp("generated"), nasty_data.everything_at_once()
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    with (
        shoal.connect(tables, catalog=nasty_data.CATALOG) as here,
        shoal.connect(spark, catalog=nasty_data.CATALOG, buckets=2) as there,
    ):
        yield here, there


def test_generated_queries_have_the_integers_of_the_embedded_engine(sessions):
    assert sum(compared(seed, *sessions) for seed in range(IN_CI)) > IN_CI // 10


def test_a_failure_in_a_task_is_told_once_and_then_the_user_is_suspended(spark):
    spark.range(50).selectExpr("id AS uid", "id * 100 AS income").createOrReplaceTempView("people")
    view = "SELECT uid, income, 1 / (income - 1200) AS y FROM people"
    catalog = {"tables": {"earners": {"owner": "uid", "view": view, "trusted_view": True}}}
    with shoal.connect(spark, catalog, budget=(3, 1e-6), buckets=2) as session:
        suspends_after_one_failure(session, "earners")
