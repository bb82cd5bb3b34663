"""Where rows come from: files, folders, globs, DuckDB files and tables, data frames, all as tables of Arrow batches.

A folder or a glob is a table for each file stem (files of one stem are shards of one table), a subfolder with data
files is a separate table. Parquet is read by Arrow, row group by row group; CSV, JSON lines and databases by
DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines.base import Engine, EngineFailure
from shoal.engines.data_files import CSV, DATABASES, JSON_LINES, PARQUET, WORKBOOKS, ending, format_of, tables_at
from shoal.engines.decoded.sqlite_files import is_sqlite, read_sqlite
from shoal.engines.decoded.workbooks import read_workbook
from shoal.engines.duckdb.csv_files import csv_relation, quoted, text
from shoal.engines.duckdb.settings import spill_privately
from shoal.engines.postgresql.types import UNSUPPORTED
from shoal.engines.sources import is_postgresql, is_web_address, not_the_data, open_source
from shoal.errors import ShoalError
from shoal.frozen import dataclass

BATCH_ROWS = 1 << 17
_BATCH_BYTES = 64 << 20  # wide rows come in fewer at a time
Shard = dict[str, Any]
"""A part of a parquet file that a worker can open by itself: path, row groups."""


class Rows(Protocol):
    """Rows that can be read once or more."""

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""

    def shards(self) -> list[Shard]:
        """The rows in parts for workers; empty where they can only be read here."""


@dataclass(frozen=True, slots=True)
class Table:
    """A named table: its columns, and its number of rows where that is known beforehand."""

    name: str
    schema: pa.Schema
    rows: int | None
    size: int  # an estimate of cells where rows are known, of bytes where they are not
    source: Rows


def unreadable(what: str) -> ShoalError:
    """The error for a source that cannot be read."""
    return ShoalError(
        "E_SOURCE",
        f"{what} cannot be read.",
        hint="Give a parquet, CSV or JSON lines file, a folder or glob of them, a DuckDB, SQLite or Excel file, or a data frame.",
    )


def open_tables(source: Any, names: list[str] | None = None) -> list[Table]:
    """The tables of a source, in order of name; with `names`, only these."""
    found = sorted(_tables_of(source), key=lambda table: table.name)
    if names is not None:
        missing = set(names) - {table.name for table in found}
        if missing:
            raise ShoalError("E_UNKNOWN_TABLE", f"There is no table {min(missing)!r} in the source.")
        found = [table for table in found if table.name in names]
    if not found:
        raise unreadable("The source has no tables and")
    return found


def _tables_of(source: Any) -> list[Table]:
    if isinstance(source, (str, Path)):
        return _of_path(str(source))
    if isinstance(source, Mapping):
        return [_of_frame(str(name), frame) for name, frame in source.items()]
    if isinstance(source, duckdb.DuckDBPyConnection):
        return _of_database(source)
    if isinstance(source, duckdb.DuckDBPyRelation):
        return [_of_relation("table", source, None)]
    return [_of_frame("table", source)]


# files


def _of_path(path: str) -> list[Table]:
    if is_postgresql(path):
        return _of_server(path)
    if Path(path).is_file() and ending(Path(path)) in DATABASES:
        return _of_sqlite(Path(path)) if is_sqlite(Path(path)) else _of_database(_open_database(path))
    if Path(path).is_file() and ending(Path(path)) in WORKBOOKS:
        return [_of_frame(name, table) for name, table in read_workbook(Path(path)).items()]
    files = tables_at(path)
    if not files and Path(path).is_file():
        raise unreadable(f"The table {Path(path).stem!r} is of an unknown format and")
    if not files and not Path(path).is_dir():
        if is_web_address(path):
            raise not_the_data()
        raise unreadable(f"There is no data at {path!r}: it")
    return _of_files(files)


def _of_files(grouped: dict[str, list[Path]]) -> list[Table]:
    return [_of_shards(name, files) for name, files in grouped.items()]


def _of_shards(name: str, files: list[Path]) -> Table:
    formats = {format_of(file) for file in files}
    if len(formats) > 1:
        raise unreadable(f"The table {name!r} mixes file formats and")
    readers = {PARQUET: _of_parquet, CSV: _of_csv, JSON_LINES: _of_json_lines}
    return readers[formats.pop() or PARQUET](name, files)


@dataclass(frozen=True, slots=True)
class _ParquetRows:
    files: tuple[Path, ...]

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for shard in self.shards():
            yield from read_shard(shard, columns)

    def shards(self) -> list[Shard]:
        return [
            {"path": str(file), "row_group": group}
            for file in self.files
            for group in range(pq.read_metadata(file).num_row_groups)
        ]


def _of_parquet(name: str, files: list[Path]) -> Table:
    try:
        found = [pq.read_metadata(file) for file in files]
        schema = pq.read_schema(files[0])
        names = [set(pq.read_schema(file).names) for file in files]
    except (OSError, pa.ArrowException):
        raise unreadable(f"A parquet file of the table {name!r}") from None
    if any(other != names[0] for other in names):
        raise unreadable(f"The table {name!r} has files with different columns and")
    rows = sum(metadata.num_rows for metadata in found)
    return Table(name, schema, rows, rows * len(schema), _ParquetRows(tuple(files)))


def read_shard(shard: Shard, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of one row group; text whose values repeat stays encoded by the file's own dictionary."""
    try:
        group = pq.read_metadata(shard["path"]).row_group(shard["row_group"])
        with pq.ParquetFile(
            shard["path"], read_dictionary=_dictionaries(group), memory_map=True, pre_buffer=False
        ) as file:
            yield from file.iter_batches(
                batch_size=_batch_rows(group.num_rows, group.total_byte_size),
                row_groups=[shard["row_group"]],
                columns=columns,
                use_threads=False,
            )
    except (OSError, pa.ArrowException):
        raise unreadable(f"A part of the file {Path(shard['path']).name!r}") from None


def _dictionaries(group: pq.RowGroupMetaData) -> list[str]:
    """Text columns that take less than 4 bytes a value: where a writer gave its dictionary up, text takes more."""
    columns = (group.column(position) for position in range(group.num_columns))
    return [
        column.path_in_schema
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.has_dictionary_page
        and column.total_uncompressed_size < 4 * column.num_values
    ]


def _batch_rows(rows: int, size: int) -> int:
    return max(1024, min(BATCH_ROWS, _BATCH_BYTES * rows // max(size, 1)))


def _of_csv(name: str, files: list[Path]) -> Table:
    """CSV with the types that queries would see: those of nearly all values; digits with leading zeros are text."""
    connection = duckdb.connect()
    spill_privately(connection)
    try:
        relation = connection.sql(csv_relation(connection, files))
    except duckdb.Error:
        raise unreadable(f"The table {name!r}") from None
    return _of_relation(name, relation, _total_size(files), connection)


def _of_json_lines(name: str, files: list[Path]) -> Table:
    """JSON lines; types are those of all rows."""
    return _of_duckdb_reader(name, files, "read_json", ", format = 'newline_delimited', sample_size = -1")


def _of_duckdb_reader(name: str, files: list[Path], function: str, options: str) -> Table:
    connection = duckdb.connect()
    spill_privately(connection)
    listed = ", ".join(text(str(file)) for file in files)
    try:
        relation = connection.sql(f"SELECT * FROM {function}([{listed}], union_by_name = true{options})")
    except duckdb.Error:
        raise unreadable(f"The table {name!r}") from None
    return _of_relation(name, relation, _total_size(files), connection)


def _total_size(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


# databases


def _of_sqlite(path: Path) -> list[Table]:
    """Tables as queries would see them."""
    return [_of_frame(name, table) for name, table in read_sqlite(path).items()]


def _open_database(path: str) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(path, read_only=True)
        spill_privately(connection)
    except duckdb.Error:
        raise unreadable(f"The database {Path(path).name!r}") from None
    return connection


@dataclass(frozen=True, slots=True)
class _ServerRows:
    engine: Engine
    table: str

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.engine.columns(self.table, columns):
                yield batch.rename_columns(columns)
        except EngineFailure:
            raise unreadable("A part of the table") from None

    def shards(self) -> list[Shard]:
        return []


def _of_server(url: str) -> list[Table]:
    """Tables of a server, through the reader that queries have too; columns that queries cannot name are left out."""
    engine = open_source(url)
    tables = []
    for name, described in engine.tables().items():
        columns = [column for column, type_ in described if not type_.endswith(UNSUPPORTED)]
        if not columns:
            continue
        (counted,) = engine.row_counts([name]).values()
        rows = _ServerRows(engine, name)
        schema = _typed(dict(described), columns)
        tables.append(Table(name, schema, counted, counted * len(columns), rows))
    return tables


def _typed(described: dict[str, str], columns: list[str]) -> pa.Schema:
    """The columns as the embedded engine hands them over."""
    listed = ", ".join(f"CAST(NULL AS {described[column]}) AS {quoted(column)}" for column in columns)
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT {listed}").to_arrow_table().schema


def _of_database(connection: duckdb.DuckDBPyConnection) -> list[Table]:
    names = connection.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() "
        "AND table_catalog = current_database()"
    ).fetchall()
    tables = []
    for (name,) in names:
        relation = connection.sql(f"SELECT * FROM {quoted(name)}")
        tables.append(_of_relation(name, relation, None, connection))
    return tables


@dataclass(frozen=True, slots=True)
class _RelationRows:
    relation: duckdb.DuckDBPyRelation
    connection: duckdb.DuckDBPyConnection | None  # kept open

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(quoted(column) for column in columns)
        try:
            yield from self.relation.select(listed).to_arrow_reader(BATCH_ROWS)
        except (duckdb.Error, OSError, pa.ArrowException):
            raise unreadable("A part of the table") from None

    def shards(self) -> list[Shard]:
        return []


def _of_relation(
    name: str, relation: duckdb.DuckDBPyRelation, size: int | None, connection: duckdb.DuckDBPyConnection | None = None
) -> Table:
    try:
        schema = relation.limit(0).to_arrow_table().schema
        rows = None if size is not None else int(relation.aggregate("count(*)").fetchall()[0][0])
    except duckdb.Error:
        raise unreadable(f"The table {name!r}") from None
    cells = size if size is not None else (rows or 0) * len(schema)
    return Table(name, schema, rows, cells, _RelationRows(relation, connection))


# data frames


@dataclass(frozen=True, slots=True)
class _FrameRows:
    table: pa.Table

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        rows = _batch_rows(max(self.table.num_rows, 1), self.table.nbytes)
        yield from self.table.select(columns).to_batches(max_chunksize=rows)

    def shards(self) -> list[Shard]:
        return []


def _of_frame(name: str, frame: Any) -> Table:
    table = _as_arrow_table(frame)
    return Table(name, table.schema, table.num_rows, table.num_rows * table.num_columns, _FrameRows(table))


def _as_arrow_table(frame: Any) -> pa.Table:
    """Arrow, pandas and polars tables, and whatever speaks Arrow's stream protocol."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, Mapping):
        return _from_mapping(frame)
    if type(frame).__module__.startswith("pandas."):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise unreadable(f"A source of the type {type(frame).__name__!r}")


def _from_mapping(columns: Mapping[str, Any]) -> pa.Table:
    try:
        return pa.table(dict(columns))
    except (pa.ArrowException, TypeError, ValueError):
        raise unreadable("A table of columns that differ in length or have no type") from None
