"""Which tables of Spark may be narrowed, told by its plans; and which executors are like the driver."""

from __future__ import annotations

import pytest

from shoal.engines.base import EngineFailure
from shoal.engines.spark.plans import COMPUTES, CONVERTS, fragile_part, reads_files, size_in
from shoal.engines.spark.task import Job
from shoal.engines.spark.versions import PACKAGES, check, installed_here, ours
from shoal.errors import ShoalError


def explained(*lines: str, physical: str = "FileScan") -> str:
    """A plan as Spark writes it."""
    return "\n".join(
        ["== Analyzed Logical Plan ==", "uid: int, x: int", *lines, "", "== Optimized Logical Plan ==", physical]
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["Relation [uid#3,x#4] parquet"],
        ["SubqueryAlias spark_catalog.default.saved", "+- Relation spark_catalog.default.saved[uid#3,x#4L] orc"],
        [
            "Project [uid#6, x#7 AS my x#9]",
            "+- SubqueryAlias v",
            "   +- View (`v`, [uid#6, x#7])",
            "      +- Relation [uid#6] parquet",
        ],
        ["RelationV2[uid#0, x#1] lake.db.visits lake.db.visits"],
        [
            "HiveTableRelation [`c`.`d`.`t`, org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe, Data Cols: [uid#1]]"
        ],
        ["LogicalRDD [uid#0L, x#1L], false"],
    ],
)
def test_stored_columns_may_be_narrowed(lines):
    assert fragile_part(explained(*lines)) is None


@pytest.mark.parametrize(
    "item",
    ["(100 / x#3) AS y#5", "-x#3 AS y#5", "x#3[0] AS y#5", "x#3.part AS y#5", "cast(x#3 as int) AS y#5", "~x#3 AS y#5"],
)
def test_what_a_view_computes_may_not(item):
    assert fragile_part(explained(f"Project [uid#6, {item}]", "+- Relation [uid#6,x#3] parquet")) == COMPUTES


def test_other_operators_and_plans_that_are_not_understood_compute():
    assert fragile_part(explained("Filter (x#3 > 1)", "+- Relation [uid#6,x#3] parquet")) == COMPUTES
    assert fragile_part("") == COMPUTES


@pytest.mark.parametrize(
    ("line", "physical"),
    [
        ("Relation [uid#3,x#4] csv", "FileScan"),
        ("Relation [uid#3,x#4] JDBCRelation(public.risky) [numPartitions=1]", "FileScan"),
        ("Relation [uid#3,x#4] json", "FileScan"),
        (
            "RelationV2[uid#0, x#1] shop.public.risky",
            "Scan org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCScan",
        ),
        ("RelationV2[uid#0, x#1] csv file:/a", "BatchScan csv file:/a CSVScan DataFilters: []"),
        ("HiveTableRelation [`c`.`d`.`t`, org.apache.hive.hcatalog.data.JsonSerDe, Data Cols: [uid#1]]", "FileScan"),
    ],
)
def test_readers_that_convert_or_ask_another_database_may_not(line, physical):
    assert fragile_part(explained(line, physical=physical)) == CONVERTS


@pytest.mark.parametrize(
    ("told", "size"),
    [("12.0 B", 12), ("1.5 KiB", 1536), ("10.0 MiB", 10 << 20), ("8.0 EiB", 8 << 60), ("1.2E+3 B", 1200)],
)
def test_sizes_are_read_off_plans_with_costs(told, size):
    lines = [
        f"Project [uid#0L], Statistics(sizeInBytes={told})",
        "+- Relation [uid#0L] parquet, Statistics(sizeInBytes=1.0 B)",
    ]
    assert size_in("\n".join(["== Optimized Logical Plan ==", *lines])) == size


def test_a_plan_without_costs_has_no_size():
    assert size_in("None") is None


FILES = """== Physical Plan ==
* ColumnarToRow (2)
+- Scan parquet  (1)


(1) Scan parquet{}
Output [2]: [uid#0L, x#2]
Batched: true
Location: InMemoryFileIndex [file:/data/a b.parquet]
ReadSchema: struct<uid:bigint,x:double>

(2) ColumnarToRow [codegen id : 1]
Input [2]: [uid#0L, x#2]

""".format(" ")


def test_a_plan_that_reads_files_and_nothing_else():
    schema = "struct<uid:bigint,x:double>"
    assert reads_files(FILES, schema)
    assert reads_files(FILES.replace("Scan parquet ", "Scan parquet spark_catalog.default.saved"), schema)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("InMemoryFileIndex", "PreparedDeltaFileIndex"),
        ("InMemoryFileIndex", "CatalogFileIndex"),
        ("Scan parquet", "Scan orc"),
        ("Batched: true", "Batched: false"),
        ("Location", "PushedFilters: [IsNotNull(x)]\nLocation"),
        ("struct<uid:bigint,x:double>", "struct<uid:bigint>"),
        ("struct<uid:bigint,x:double>", "struct<uid:bigint,x:double,... 3 more fields>"),
        ("* ColumnarToRow (2)", "* Project (3)\n+- * ColumnarToRow (2)"),
        ("* ColumnarToRow (2)\n+- ", "Scan In-memory table job (1)\n   +- InMemoryRelation (2)\n      +- "),
        ("== Physical Plan ==", "== Physical Plan ==\nAdaptiveSparkPlan (4)"),
    ],
)
def test_plans_that_read_something_else(part, other):
    assert part in FILES
    assert not reads_files(FILES.replace(part, other), "struct<uid:bigint,x:double>")


def test_executors_like_the_driver_pass():
    check([installed_here(0)])


@pytest.mark.parametrize(
    ("found", "told", "wanted"),
    [
        (("", "", ""), "have no duckdb, no pyarrow, no shoal", "'shoal[spark]' duckdb=="),
        ((ours()[0], ours()[1], ""), "have no shoal", "'shoal[spark]' on executors"),
        (("0.1.9", *ours()[1:]), f"have duckdb 0.1.9, and the driver {ours()[0]}", "duckdb=="),
    ],
)
def test_executors_unlike_the_driver_are_told_what_to_install(found, told, wanted):
    with pytest.raises(ShoalError, match=told) as caught:
        check([",".join(ours()), ",".join(found)])
    assert caught.value.code == "E_SOURCE"
    assert wanted in str(caught.value)


def test_a_task_with_other_packages_reads_no_row():
    def rows():
        raise AssertionError
        yield

    job = Job(None, None, (), {}, versions=("0.1.9",) * len(PACKAGES))
    with pytest.raises(EngineFailure):
        list(job.packed(rows(), 1))
