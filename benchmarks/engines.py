"""What a private query costs on every engine, beside the plain GROUP BY of the same engine: processor seconds of all processes.

    python -m benchmarks engines [--rows N …] [--server postgresql://…] [--spark] [--write]

COUNT and SUM by group, five groups per owner, one tenth as many owners as rows, 20,000 groups. The server must run on this
machine (Linux), where its processor time can be read. Spark runs as local[2]. Only the exact half of the private query is
measured: reading, bounding and adding. Prints a table and writes benchmarks/results/engines-DATE.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure
from shoal.session import Session, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = (1_000_000, 5_000_000)
RUNS = 5
GROUPS = 20_000
CATALOG = {"tables": {"job": {"owner": "uid"}}}
PLAIN = "SELECT grp, count(*), sum(x) FROM job GROUP BY grp"
PRIVATE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 5) grp, "
    "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n, SUM(x, contribution_bounds_per_group => (0, 100)) AS s "
    "FROM job GROUP BY grp"
)
TWO_STAGES = """
    WITH rows AS (SELECT uid, grp, CAST(round(x * 1048576) AS BIGINT) AS steps FROM job WHERE uid IS NOT NULL DISTRIBUTE BY uid),
    partials AS (
      SELECT uid, grp, least(count(*), 5) AS n, least(greatest(sum(steps), 0), 104857600) AS s FROM rows GROUP BY uid, grp),
    ranked AS (
      SELECT grp, n, s, row_number() OVER (PARTITION BY uid ORDER BY xxhash64(42, uid, grp), grp) AS place FROM partials)
    SELECT grp, count(*), sum(n), sum(s & 2147483647), sum(s >> 31) FROM ranked WHERE place <= 5 GROUP BY grp
"""
"""The bounding as Spark SQL: owners brought together, numbers as whole steps, sums as two limbs."""
SAME_AS_FUNCTIONS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 5) grp, "
    "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n, SUM(y, contribution_bounds_per_group => (0, 100)) AS s "
    "FROM (SELECT uid, grp, x / 2 AS y FROM job WHERE x > 10) GROUP BY grp"
)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The median of processor seconds of some runs, plain and private, and the seconds by the clock of the private run."""

    engine: str
    rows: int
    plain: float
    private: float
    clock: float

    @property
    def ratio(self) -> float:
        """How many times the plain query."""
        return self.private / self.plain


def table(rows: int) -> pa.Table:
    """The rows, the same ones every time."""
    rng = np.random.default_rng(1)
    owners, groups = rng.integers(0, rows // 10, rows), rng.integers(0, GROUPS, rows, dtype=np.int32)
    return pa.table({"uid": owners, "grp": groups, "x": np.round(rng.uniform(0, 100, rows), 2)})


def used_by(process: int) -> float:
    """Processor seconds of a process and of all below it, those that ended included."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    tree, found = {process}, 0.0
    while found != len(tree):
        found = len(tree)
        tree |= {pid for pid, (parent, _) in parents.items() if parent in tree}
    return sum(parents[pid][1] for pid in tree if pid in parents)


def measured(session: Session, elsewhere: Callable[[Any], float]) -> tuple[float, float]:
    """Processor and clock seconds of the exact half of the private query; `elsewhere` reads those of other processes."""
    plan, began, clock = session.plan(PRIVATE).selects[0], time.process_time(), time.perf_counter()
    with session._engine.snapshot(Deadline(3600)) as taken:  # noqa: SLF001 - benchmarks look inside
        before = elsewhere(taken)
        measure(plan, taken, fresh_sampling_key())
        away = elsewhere(taken) - before
    return time.process_time() - began + away, time.perf_counter() - clock


def cost(engine: str, rows: int, plain: Callable[[], float], private: Callable[[], tuple[float, float]]) -> Cost:
    """The median of some runs, in turn; the first two of Java are its compiler's."""
    warm = 2 if engine.startswith("Spark") else 0
    taken = [(plain(), *private()) for _ in range(RUNS + warm)][warm:]
    return Cost(engine, rows, *(statistics.median(column) for column in zip(*taken, strict=True)))


def collection(rows: int) -> Cost:
    """One filter and one map in Python beside the SQL of the same meaning, whole queries, worker processes included."""
    from shoal import aggregates as agg

    with connect({"job": table(rows)}, CATALOG) as session:
        made = session.collection("job").filter(lambda r: r.x > 10)
        halved = made.map(lambda r: {"grp": r.grp, "y": r.x / 2}, {"grp": "bigint", "y": "double"})
        groups = halved.group_by("grp", max_groups_per_owner=5)

        def used(work: Callable[[], object]) -> tuple[float, float]:
            before, clock = used_by(os.getpid()), time.perf_counter()
            work()
            return used_by(os.getpid()) - before, time.perf_counter() - clock

        def functions() -> object:
            return groups.release(n=agg.count(upper=5), s=agg.sum("y", bounds=(0, 100)), epsilon=1, delta=1e-6)

        return cost("DuckDB", rows, lambda: used(lambda: session.query(SAME_AS_FUNCTIONS))[0], lambda: used(functions))


def embedded(rows: int) -> Cost:
    """DuckDB in this process."""
    data = table(rows)
    with connect({"job": data}, CATALOG) as session, duckdb.connect() as database:
        database.register("job", data)

        def plain() -> float:
            began = time.process_time()
            database.sql(PLAIN).to_arrow_table()
            return time.process_time() - began

        return cost("DuckDB", rows, plain, lambda: measured(session, lambda _: 0.0))


def postgresql(url: str, rows: int) -> Cost:
    """A server on this machine."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url, autocommit=True) as opened, opened.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS job")
        cursor.adbc_ingest("job", table(rows), mode="create")
        cursor.execute("ANALYZE job")
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid() AS pid")
        process = int(cursor.fetch_arrow_table().column(0)[0].as_py())

        def plain() -> float:
            before = used_by(process)
            cursor.execute(PLAIN)
            cursor.fetch_arrow_table()
            return used_by(process) - before

        def served(taken: Any) -> float:
            return used_by(int(taken._reader.rows("SELECT pg_backend_pid() AS pid")[0]["pid"]))  # noqa: SLF001 - same

        with connect(url, CATALOG) as session:
            return cost("PostgreSQL", rows, plain, lambda: measured(session, served))


@contextmanager
def spark_session() -> Iterator[Any]:
    """A local Spark with two threads."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # where executors find what this process has
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def spark(rows: int, folder: Path) -> list[Cost]:
    """Spark over a parquet file: tasks that read it, tasks that get rows from Spark, and the bounding as SQL."""
    import pyarrow.parquet as pq

    pq.write_table(table(rows), folder / "job.parquet")
    with spark_session() as opened:
        opened.read.parquet(str(folder / "job.parquet")).createOrReplaceTempView("job")
        process = int(opened._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001 - same

        def asked(sql: str) -> tuple[float, float]:
            before, clock = used_by(process), time.perf_counter()
            opened.sql(sql).toArrow()
            return used_by(process) - before, time.perf_counter() - clock

        def private(session: Session) -> tuple[float, float]:
            return measured(session, lambda _: used_by(process))

        def plain() -> float:
            return asked(PLAIN)[0]

        buckets = max(4, rows // 1_250_000)
        with connect(opened, CATALOG, buckets=buckets) as reading, connect(opened, CATALOG, buckets=buckets) as handed:
            handed._engine._parts = lambda _: None  # type: ignore[attr-defined]  # noqa: SLF001 - as for files that are elsewhere
            return [
                cost("Spark, tasks read files", rows, plain, lambda: private(reading)),
                cost("Spark hands rows over", rows, plain, lambda: private(handed)),
                cost("Spark SQL in two stages", rows, plain, lambda: asked(TWO_STAGES)),
            ]


def report(costs: list[Cost], functions: list[Cost]) -> list[str]:
    """Two tables in Markdown."""
    lines = ["| engine | rows | plain GROUP BY | private | of plain | µs a row |", "|---|---:|---:|---:|---:|---:|"]
    lines += [_line(each) for each in costs]
    heads = "| collection on | rows | the same as SQL | a filter and a map in Python | of SQL | µs a row |"
    return [*lines, "", heads, "|---|---:|---:|---:|---:|---:|", *map(_line, functions)]


def _line(c: Cost) -> str:
    times = f"{c.plain:.2f} s | {c.private:.2f} s | {c.ratio:.1f} × | {1e6 * c.private / c.rows:.2f}"
    return f"| {c.engine} | {c.rows:,} | {times} |"


def main(argv: list[str]) -> int:
    """Measures every engine that can be reached."""
    import tempfile

    parser = argparse.ArgumentParser(prog="python -m benchmarks engines", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--server", help="a PostgreSQL database that may be written to, on this machine")
    parser.add_argument("--spark", action="store_true", help="start a local Spark")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/benchmarks.md")
    asked = parser.parse_args(argv)
    load, costs = os.getloadavg(), [embedded(rows) for rows in asked.rows]
    if asked.server is not None:
        costs += [postgresql(asked.server, rows) for rows in asked.rows]
    if asked.spark:
        with tempfile.TemporaryDirectory() as folder:
            costs += [each for rows in asked.rows for each in spark(rows, Path(folder))]
    functions = [collection(min(asked.rows))]
    shown(report(costs, functions), "engines", load, write=asked.write)
    numbers = {name: [asdict(c) for c in each] for name, each in (("costs", costs), ("collections", functions))}
    print(f"\n{write_record('engines', {'load_before': load, **numbers}, asked.results)}")
    return 0
