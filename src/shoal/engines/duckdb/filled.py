"""A locked DuckDB of our own, filled with rows that came from elsewhere, for one question or one query.

Tables that are in memory are read where they are; streams are written into tables, which spill into a folder of our own when they
do not fit. Nothing is left of either when the context ends.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from shoal.engines.duckdb.arrow_columns import readable
from shoal.engines.duckdb.csv_files import quoted
from shoal.engines.duckdb.engine import DuckDBEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def filled(
    tables: Mapping[str, pa.Table | pa.RecordBatchReader],
    *,
    threads: int | None = None,
    memory_limit: str | None = None,
    spill_under: str | Path | None = None,
) -> Iterator[DuckDBEngine]:
    """The engine over these tables: name → rows."""
    with tempfile.TemporaryDirectory(prefix="shoal-", dir=spill_under, ignore_cleanup_errors=True) as folder:
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


def write(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.RecordBatchReader) -> None:
    """A stream of rows as a table."""
    connection.register("arriving_", rows)
    connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM arriving_")
    connection.unregister("arriving_")
