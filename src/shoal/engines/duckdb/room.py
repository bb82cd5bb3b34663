"""How many rows a relation has at most, where that is known before they are read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.memory.rows import only_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from shoal.plan.nodes import Node

STORED_ROWS = """
    SELECT estimated_size FROM system.main.duckdb_tables()
    WHERE database_name = ? AND schema_name = ? AND table_name = ?
"""


def rows_at_most(
    relation: Node,
    sources: Mapping[str, exp.Expr],
    frames: Mapping[str, pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    is_filled: bool = False,
) -> int:
    """The rows of the one stored table that is read; 0 for joins, views and files. All that we filled ourselves is tables."""
    table = only_table(relation)
    if table is None:
        return 0
    held = {fold(name): frame.num_rows for name, frame in frames.items()}
    if fold(table) in held:
        return int(held[fold(table)])
    source = sources[fold(table)]
    if not isinstance(source, exp.Table):
        return 0
    return _counted_rows(source, connection) if is_filled else _stored_rows(source, connection)


def _counted_rows(source: exp.Table, connection: duckdb.DuckDBPyConnection) -> int:
    """The engine knows how long a table in memory is; to list all tables takes it longer."""
    counted = exp.select(exp.Count(this=exp.Star())).from_(source.copy())
    with suppress(duckdb.Error):
        return int(connection.execute(counted.sql(dialect="duckdb")).fetchall()[0][0])
    return 0


def _stored_rows(source: exp.Table, connection: duckdb.DuckDBPyConnection) -> int:
    with suppress(duckdb.Error):
        found = connection.execute(STORED_ROWS, [source.catalog, source.db, source.name]).fetchall()
        return int(found[0][0]) if found else 0
    return 0
