"""What runs on executors: rows of whole owners arrive, the embedded engine answers for them. Nothing here knows Spark.

A task is a function of its rows: one that is tried again, or runs twice, changes nothing.
"""

from __future__ import annotations

import gc
import os
import tempfile
from contextlib import ExitStack
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from shoal.engines.base import EngineFailure
from shoal.engines.buckets import partials_of
from shoal.engines.canonical_bytes import parts_of
from shoal.engines.duckdb.arrow_columns import readable
from shoal.engines.duckdb.csv_files import quoted
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.filled import settings
from shoal.engines.group_keys import as_arrow
from shoal.engines.narrow_rows import full, narrow
from shoal.engines.partials import Partials, added, merged
from shoal.engines.python_rows.pool import Pool
from shoal.engines.python_rows.tables import PythonTables
from shoal.engines.spark.files import File, looked_at, rows_in
from shoal.engines.spark.pieces import as_stream, joined, pieces_in
from shoal.engines.spark.versions import are_ours, ours
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shoal.engines.python_rows.worker import Work
    from shoal.engines.spark.files import Part, Stored
    from shoal.engines.spark.pieces import Cutter
    from shoal.plan.totals import SamplingKey, TotalsQuery
    from shoal.plan.types import Type

BATCH_BYTES = 64 << 20
"""Rows are written into tables, which spill, whenever this many bytes of them have come."""
WAITING_ROWS = 1 << 22
"""Answers of buckets are added up whenever this many rows of them have come."""
PIECE_BYTES = 64 * 2**20
AS_STORED = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
}
"""Types whose values the embedded engine reads in memory as it would keep them itself."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The stored columns of one table, with the types that they are kept in."""

    table: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A question, by which key it is answered, and what of it comes from elsewhere than the rows of owners."""

    question: TotalsQuery
    key: SamplingKey
    owned: tuple[Columns, ...]
    public: dict[str, bytes]
    named_rows: dict[str, tuple[tuple[str, Type], ...]] = field(default_factory=dict)
    versions: tuple[str, ...] = field(default_factory=ours)
    """The packages of the driver: another engine could have other integers."""

    def measured(self, batches: Iterable[pa.RecordBatch]) -> Partials:
        """The answer for the owners whose rows come in pieces."""
        with ExitStack() as opened:
            folder = opened.enter_context(
                tempfile.TemporaryDirectory(prefix="shoal-", dir=spill_folder(), ignore_cleanup_errors=True)
            )
            database = duckdb.connect(":memory:", config=settings(folder, 1, memory_share()))
            opened.callback(database.close)
            engine = self._filled(database, batches)
            opened.callback(engine.close)
            for name, columns in self.named_rows.items():
                engine.name_rows(name, columns)
            return partials_of(self.question, self.key, engine)

    def _filled(self, database: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch]) -> DuckDBEngine:
        """The embedded engine with all rows: few rows of numbers are read where they are, others are written into tables."""
        waiting: list[list[pa.Table]] = [[] for _ in self.owned]
        size, written = 0, False
        for number, rows in pieces_in(batches):
            waiting[number].append(rows)
            size += rows.nbytes
            if size > BATCH_BYTES:
                self._write(database, waiting, create=not written)
                size, written = 0, True
        python = PythonTables(processes=1)
        public = {name: readable(in_utc(pa.ipc.open_stream(stored).read_all())) for name, stored in self.public.items()}
        if not written and not self.named_rows and all(map(_is_as_stored, self.owned, waiting)):
            frames = {table.table: _as_stored(table, pieces) for table, pieces in zip(self.owned, waiting, strict=True)}
            return DuckDBEngine(database, ours=True, python=python, frames=frames | public, only_frames=True)
        self._write(database, waiting, create=not written)
        for name, rows in public.items():
            _keep(database, name, rows)
        held = [*(table.table for table in self.owned), *public]
        return DuckDBEngine(database, ours=True, python=python, tables=held)

    def _write(self, database: duckdb.DuckDBPyConnection, waiting: list[list[pa.Table]], *, create: bool) -> None:
        for table, arrived in zip(self.owned, waiting, strict=True):
            if create:
                listed = ", ".join(f"{quoted(name)} {type_}" for name, type_ in table.columns)
                database.execute(f"CREATE TABLE {quoted(table.table)} ({listed})")
            if arrived:
                _insert(database, table, joined(arrived))
            arrived.clear()

    def packed(self, batches: Iterable[pa.RecordBatch], parts: int) -> Iterator[pa.RecordBatch]:
        """The rows of the answer, those of a group in one part, each part as bytes; none where no owner came."""
        if not are_ours(self.versions):
            raise EngineFailure
        arriving = iter(batches)
        first = next((batch for batch in arriving if batch.num_rows), None)
        if first is None:
            return
        answer = self.measured(_chained(first, arriving))
        numbers = parts_of(answer.rows.select(answer.keys.names), parts)
        for part in sorted(set(numbers.tolist())):
            yield from _pieces_of(answer.rows.take(as_arrow(np.flatnonzero(numbers == part))), part)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _is_as_stored(table: Columns, pieces: list[pa.Table]) -> bool:
    """Whether rows came, and nothing but numbers, truth values and days, which mean the same wherever they are kept."""
    return bool(pieces) and all(type_ in AS_STORED for _, type_ in table.columns)


def _as_stored(table: Columns, pieces: list[pa.Table]) -> pa.Table:
    """The rows by the names and types of the table."""
    rows = joined(pieces)
    columns = [rows.column(number).cast(AS_STORED[type_]) for number, (_, type_) in enumerate(table.columns)]
    return pa.table(columns, [name for name, _ in table.columns])


def _insert(database: duckdb.DuckDBPyConnection, table: Columns, rows: pa.Table) -> None:
    database.register("arriving_", readable(in_utc(rows)))
    values = ", ".join(f"TRY_CAST({quoted(f'c{i}')} AS {type_})" for i, (_, type_) in enumerate(table.columns))
    database.execute(f"INSERT INTO {quoted(table.table)} SELECT {values} FROM arriving_")
    database.unregister("arriving_")


def _keep(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    database.register("arriving_", rows)
    database.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM arriving_")
    database.unregister("arriving_")


def in_utc(rows: pa.Table) -> pa.Table:
    """The table with instants as timestamps in UTC: the number of microseconds stays, the zone goes."""
    for position, each in enumerate(rows.schema):
        if pa.types.is_timestamp(each.type) and each.type.tz is not None:
            rows = rows.set_column(position, each.name, rows.column(position).cast(pa.timestamp("us")))
    return rows


def spill_folder() -> str | None:
    """Where Spark lets executors write, if it says so."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return folders[0] if folders[0] and os.access(folders[0], os.W_OK) else None


def memory_share() -> str:
    """Half of the machine's memory, shared evenly among as many tasks as it has processors."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(256, total // 2 // max(1, os.cpu_count() or 1) >> 20)}MB"


def _pieces_of(rows: pa.Table, part: int) -> Iterator[pa.RecordBatch]:
    """The rows as bytes, in pieces: a value of Spark has less than 2 GiB, and long keys could be more."""
    at_once = max(1, rows.num_rows * PIECE_BYTES // max(1, rows.nbytes))
    for start in range(0, max(1, rows.num_rows), at_once):
        yield _bytes_of(rows.slice(start, at_once), part)


def _bytes_of(rows: pa.Table, part: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "rows": [as_stream(narrow(rows))]})


def answer_in(stored: bytes) -> pa.Table:
    """The rows of an answer that came as bytes."""
    return full(pa.ipc.open_stream(stored).read_all())


def added_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers of many buckets for some groups, added up."""
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting += map(answer_in, batch.column("rows").to_pylist())
        if sum(table.num_rows for table in waiting) > WAITING_ROWS:
            waiting = [merged(pa.concat_tables(waiting))]
    if waiting:
        yield from _pieces_of(added(merged(pa.concat_tables(waiting))), 0)


@cache
def settle() -> None:
    """Once in a process of an executor: what is loaded stays.

    Spark searches a process for cycles after each task. Looking through all libraries took longer than adding answers up.
    """
    gc.collect()
    gc.freeze()


def cutting_function(cutter: Cutter) -> Any:
    """The function that cuts rows before the shuffle."""
    versions = ours()

    def run(batches: Any) -> Any:
        settle()
        if not are_ours(versions):
            raise EngineFailure
        yield from cutter.cut(batches)

    return run


def reading_function(shares: tuple[tuple[Part, ...], ...], stored: Stored, cutter: Cutter) -> Any:
    """The function that reads files and cuts their rows: a task gets the numbers of its shares."""
    versions = ours()

    def run(batches: Any) -> Any:
        settle()
        if not are_ours(versions):
            raise EngineFailure
        parts = (part for batch in batches for number in batch.column(0).to_pylist() for part in shares[number])
        yield from cutter.cut(rows_in(parts, stored))

    return run


def looking_function(paths: tuple[str, ...], columns: tuple[tuple[str, str], ...], width: int) -> Any:
    """The function that looks at files on executors: each task at every `width`th one."""

    def run(batches: Any) -> Any:
        numbers = [
            n for batch in batches for first in batch.column(0).to_pylist() for n in range(first, len(paths), width)
        ]
        found = [(n, file) for n in numbers if (file := looked_at(paths[n], columns)) is not None]
        sizes = [np.array([*file.seen, *file.sizes], dtype="<i8").tobytes() for _, file in found]
        told = [pa.array([n for n, _ in found], pa.int32()), pa.array([f.digest for _, f in found], pa.binary())]
        yield pa.RecordBatch.from_arrays([*told, pa.array(sizes, pa.binary())], ["number", "digest", "sizes"])

    return run


def told_of(paths: list[str], found: pa.Table) -> tuple[File, ...]:
    """What tasks of `looking_function` found, in the order of the files."""
    rows = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
    numbers = [(n, digest, np.frombuffer(sizes, "<i8").tolist()) for n, digest, sizes in rows]
    return tuple(File(paths[n], digest, tuple(sizes), (size, time)) for n, digest, (size, time, *sizes) in numbers)


def job_function(job: Job, parts: int) -> Any:
    """The function that is sent to executors: it carries data alone, and finds this module there."""

    def run(batches: Any) -> Any:
        settle()
        yield from job.packed(batches, parts)

    return run


def adding_function() -> Any:
    """The function that adds up what tasks of `job_function` answered."""

    def run(batches: Any) -> Any:
        settle()
        yield from added_up(batches)

    return run


def loading_function(works: tuple[Work, ...]) -> Any:
    """The function that tries on executors whether the functions of a collection can be loaded there."""

    def run(batches: Any) -> Any:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"loaded": [all(map(can_load, works))]})

    return run


def can_load(work: Work) -> bool:
    """Whether a process of this machine can load some functions."""
    pool = Pool(work, 1)
    try:
        pool.start()
    except ShoalError:
        return False
    finally:
        pool.close()
    return True
