"""How much room the rows of a question take, where that is known before they are read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.memory.rows import only_table, width_of_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from shoal.plan.totals import TotalsQuery

STORED_ROWS = """
    SELECT estimated_size FROM system.main.duckdb_tables()
    WHERE database_name = ? AND schema_name = ? AND table_name = ?
"""


def size_of_rows(
    query: TotalsQuery,
    sources: Mapping[str, exp.Expr],
    frames: Mapping[str, pa.Table],
    connection: duckdb.DuckDBPyConnection,
) -> int | None:
    """Bytes at most, for numbers and days of one stored table; None for texts, joins, views and files."""
    table, width = only_table(query), width_of_row(query)
    if table is None or width is None:
        return None
    held = {fold(name): frame.num_rows for name, frame in frames.items()}
    rows = held[fold(table)] if fold(table) in held else _stored_rows(sources[fold(table)], connection)
    return None if rows is None else rows * width


def _stored_rows(source: exp.Expr, connection: duckdb.DuckDBPyConnection) -> int | None:
    if not isinstance(source, exp.Table):
        return None
    with suppress(duckdb.Error):
        found = connection.execute(STORED_ROWS, [source.catalog, source.db, source.name]).fetchall()
        return int(found[0][0]) if found else None
    return None
