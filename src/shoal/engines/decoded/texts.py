"""Columns of strings → columns of types, guessed as for CSV files: nearly all values decide, what does not fit is NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.engines.duckdb.csv_files import Spellings, quoted, typed_relation

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def with_types(texts: pa.Table, declared: Mapping[str, str]) -> pa.Table:
    """The same rows; `declared` types are taken as they are, by the small letters of a column's name."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.register("texts", texts)
        relation = typed_relation(connection, quoted("texts"), texts.column_names, Spellings(declared=declared))
        return connection.sql(relation).to_arrow_table()
