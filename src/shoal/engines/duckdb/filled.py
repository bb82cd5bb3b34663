"""A locked DuckDB of our own, filled with rows that came from elsewhere, for one question or one query.

Tables that are in memory are read where they are; streams are written into tables, which spill into a folder of our own when they
do not fit. Nothing is left of either when the context ends.

`empty_database` holds nothing: a statement over released rows runs there, and sees nothing else. Opening a database takes 20 ms of
processor time, more than a small query takes for everything else. A process that runs one query after the other keeps one
(`keep_one`). Each has one user at a time; a statement has a connection of its own, and what was registered goes with it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from shoal.engines.duckdb.arrow_columns import readable
from shoal.engines.duckdb.connection import BATCH_ROWS, failure_of
from shoal.engines.duckdb.csv_files import quoted
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.settings import LOCKDOWN, limits
from shoal.engines.python_rows.private_folder import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from shoal.engines.deadline import Deadline


@contextmanager
def filled(
    tables: Mapping[str, pa.Table | pa.RecordBatchReader],
    *,
    threads: int | None = None,
    memory_limit: str | None = None,
    spill_under: str | Path | None = None,
) -> Iterator[DuckDBEngine]:
    """The engine over these tables: name → rows."""
    with tempfile.TemporaryDirectory(dir=spill_under or private_folder(), ignore_cleanup_errors=True) as folder:
        connection = duckdb.connect(":memory:", config=settings(folder, threads, memory_limit))
        try:
            frames = {}
            for name, rows in tables.items():
                if isinstance(rows, pa.Table):
                    frames[name] = readable(rows)
                else:
                    write(connection, name, rows)
            yield DuckDBEngine(connection, ours=True, frames=frames, only_frames=len(frames) == len(tables))
        finally:
            connection.close()


OWNER, PRIORITY, COUNT = "o", "u", "n"
"""Columns of rows that are drawn: whose a row is, and a random number; and how many rows have the same other columns."""
DRAWN = """
    SELECT {seen}, count(*) AS n FROM (
        SELECT {seen} FROM arrived WHERE NOT EXISTS (SELECT 1 FROM many WHERE many.o = arrived.o)
        UNION ALL SELECT {seen} FROM (
            SELECT {seen}, row_number() OVER (PARTITION BY o ORDER BY u, arrived.rowid) AS place
            FROM arrived WHERE EXISTS (SELECT 1 FROM many WHERE many.o = arrived.o)
        ) WHERE place <= {most}
    ) GROUP BY ALL
"""
"""Of owners with few rows all of them, of others those with the smallest random numbers: each set of rows is equally likely."""


def drawn_rows(rows: Iterator[pa.RecordBatch], rows_per_owner: int, deadline: Deadline) -> Iterator[pa.RecordBatch]:
    """At most this many rows of every owner, equal ones counted; an engine of ours holds them, on disk where they are many."""
    first = next(rows)
    seen = ", ".join(quoted(name) for name in first.schema.names if name not in {OWNER, PRIORITY})
    with tempfile.TemporaryDirectory(dir=private_folder(), ignore_cleanup_errors=True) as folder:
        try:
            with duckdb.connect(":memory:", config=settings(folder, None, None)) as connection:
                for statement in (*limits(), "SET preserve_insertion_order = false", *LOCKDOWN):
                    connection.execute(statement)
                with deadline.stops(connection.interrupt):
                    write(connection, "arrived", first)
                    for batch in rows:  # read in this thread, which holds the lock of where they come from
                        write(connection, "arrived", batch, "INSERT INTO {}")
                        deadline.check()
                    connection.execute(
                        "CREATE TABLE many AS SELECT o FROM arrived GROUP BY o HAVING count(*) > ?", [rows_per_owner]
                    )
                    deadline.check()
                    yield from connection.sql(DRAWN.format(seen=seen, most=int(rows_per_owner))).to_arrow_reader(
                        BATCH_ROWS
                    )
        except Exception as error:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
            raise failure_of(error) from None


def settings(
    folder: str, threads: int | None, memory_limit: str | None
) -> dict[str, str | bool | int | float | list[str]]:
    """How a database of ours is opened: what does not fit goes into the folder, and nowhere else."""
    chosen: dict[str, str | bool | int | float | list[str]] = {"temp_directory": folder}
    if threads is not None:
        chosen["threads"] = str(threads)
    if memory_limit is not None:
        chosen["memory_limit"] = memory_limit
    return chosen


def write(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    rows: pa.RecordBatchReader | pa.RecordBatch,
    how: str = "CREATE TABLE {} AS",
) -> None:
    """Rows as a table, or added to one."""
    connection.register("arriving_", rows)
    connection.execute(f"{how.format(quoted(name))} SELECT * FROM arriving_")
    connection.unregister("arriving_")


# ---- databases that hold nothing ----------------------------------------------------------------------------------

EMPTY: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "25%",
    "temp_directory": "",
}
"""One thread, so that nothing depends on how work is split; a quarter of the memory, and nothing in the working folder."""
MOST_USED = 1000
"""Statements that one database may run: whatever it gathers goes with it."""


class _Database:
    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config=EMPTY)
        self.used = 0
        for statement in LOCKDOWN:
            self.connection.execute(statement)

    def close(self) -> None:
        with suppress(Exception):
            self.connection.close()


class _Kept:
    """The databases of this process that nobody uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Database] = []
        self.most = 0

    def take(self) -> _Database:
        with self._lock:
            found = self._idle.pop() if self._idle else None
        return found or _Database()

    def put(self, database: _Database) -> None:
        database.used += 1
        with self._lock:
            keep = database.used < MOST_USED and len(self._idle) < self.most
            if keep:
                self._idle.append(database)
        if not keep:
            database.close()


_kept = _Kept()
_of_the_parent: list[_Kept] = []


def _forget() -> None:
    """In a forked child: databases of the parent have no threads here, and closing one could wait for them for ever."""
    global _kept  # noqa: PLW0603 - one for all sessions of a process
    _of_the_parent.append(_kept)
    _kept = _Kept()


os.register_at_fork(after_in_child=_forget)


def keep_one() -> None:
    """From now on this process keeps a database for the next statement."""
    _kept.most = 1


@contextmanager
def empty_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database that holds nothing and that nobody else uses; one in which something failed is not used again."""
    kept = _kept
    database = kept.take()
    try:
        cursor = database.connection.cursor()
        try:
            yield cursor
        finally:
            with suppress(Exception):  # after a failure there may be nothing to close
                cursor.close()
    except BaseException:
        database.close()
        raise
    kept.put(database)
