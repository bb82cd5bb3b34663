"""Data sources → an engine: files, folders, globs, data frames, open connections. One door for the session and the side tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.catalog import fold
from shoal.engines.data_files import CSV, DATABASES, JSON_LINES, PARQUET, WORKBOOKS, ending, format_of, tables_at
from shoal.engines.decoded.json_lines import read_json_lines
from shoal.engines.decoded.sqlite_files import is_sqlite, read_sqlite
from shoal.engines.decoded.workbooks import read_workbook
from shoal.engines.duckdb.csv_files import (
    Misfits,
    Spellings,
    csv_delimiter,
    csv_relation,
    misfits,
    quoted,
    reading_refused,
    text,
)
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from shoal.catalog import Catalog, Table
    from shoal.engines.base import Engine

_ASKED_OF_A_SERVICE = (
    "A data set of a service is asked by query, shell, explain, tables and budget, with --db https://host/d/NAME; whatever looks "
    "at the data runs where the data is."
)
_WHAT_WORKS = (
    "A source is a DuckDB, SQLite or Excel file, a parquet, CSV or JSON lines file, a glob or a folder of them, a dict of data "
    "frames, an open DuckDB connection, the URL of a PostgreSQL database, or a Spark session."
)


_OF_WORKBOOKS = (
    "Excel files are opened one at a time, by their own names; an .xls file has to be saved as .xlsx or CSV first."
)


def is_web_address(source: object) -> bool:
    """Whether it is the address of a service, or of a page."""
    return isinstance(source, str) and source.lower().startswith(("https://", "http://"))


def not_the_data() -> ShoalError:
    """An address where data was expected."""
    return ShoalError("E_SOURCE", "This needs the data itself, and was given an address.", hint=_ASKED_OF_A_SERVICE)


def open_source(source: Any, catalog: Catalog | None = None, buckets: int | None = None) -> Engine:
    """The engine behind a source. With a catalog, a server is asked for the catalog's tables, and for what they allow.

    `buckets` is how many parts Spark cuts the owners into.
    """
    if type(source).__module__.startswith("pyspark.") and type(source).__name__ == "SparkSession":
        from shoal.engines.spark.engine import SparkEngine

        return SparkEngine(source, catalog, buckets)
    if buckets is not None:
        raise ShoalError("E_USAGE", "buckets is for Spark sessions.")
    if isinstance(source, str) and is_postgresql(source):
        from shoal.engines.postgresql.engine import PostgreSQLEngine

        return PostgreSQLEngine(source, catalog)
    if is_web_address(source):
        raise not_the_data()
    if isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+]+://", source):
        raise ShoalError(
            "E_SOURCE", "Of databases behind a URL, PostgreSQL is supported: postgresql://…", hint=_WHAT_WORKS
        )
    _refuse_named_sources(catalog)
    if isinstance(source, (str, Path)):
        try:
            return _open_path(str(source), catalog)
        except OSError as error:  # it was there a moment ago
            raise ShoalError("E_SOURCE", f"The file {str(error.filename or source)!r} cannot be read.") from None
    if isinstance(source, dict):
        return _open_frames(source)
    if type(source).__name__ == "DuckDBPyConnection":
        from shoal.engines.duckdb.engine import DuckDBEngine

        return DuckDBEngine(source, ours=False)
    raise ShoalError("E_SOURCE", "This is not a source of data.", hint=_WHAT_WORKS)


def is_postgresql(place: str) -> bool:
    """Whether a string is the URL of a PostgreSQL database."""
    return place.startswith(("postgresql://", "postgres://"))


def without_password(place: str) -> str:
    """A source as it may be shown: the URL of a database without what is secret in it.

    >>> without_password("postgresql://me:secret@db:5433/shop?sslmode=require"), without_password("data/visits.csv")
    ('postgresql://me@db:5433/shop?sslmode=require', 'data/visits.csv')
    >>> without_password("postgresql://me:1/secret@db/shop"), without_password("postgresql://db/shop?password=secret")
    ('postgresql://…', 'postgresql://db/shop')
    """
    if not is_postgresql(place):
        return place
    scheme, _, rest = place.partition("://")
    where, slash, more = rest.partition("/")
    login, at, host = where.rpartition("@")
    if "@" in more or "@" in login:  # a password with / or @ that is not escaped: nothing tells where it ends
        return f"{scheme}://…"
    shown = f"{scheme}://{login.partition(':')[0]}{at}{host}{slash}{more}"
    return shown.partition("?")[0] if "password" in shown.partition("?")[2] else shown


def _refuse_named_sources(catalog: Catalog | None) -> None:
    for table in catalog.tables.values() if catalog is not None else ():
        if table.source is not None:
            raise ShoalError(
                "E_CATALOG",
                f"The catalog names a source of the table {table.name!r}, and tables of this kind of data have none.",
                hint="source is for databases with schemas, such as PostgreSQL. Leave it out.",
            )


def _open_path(place: str, catalog: Catalog | None = None) -> Engine:
    path = Path(place)
    if path.is_file() and ending(path) in DATABASES:
        return _open_decoded(read_sqlite, path, catalog) if is_sqlite(path) else _open_database(path)
    if path.is_file() and ending(path) in WORKBOOKS:
        return _open_decoded(read_workbook, path, catalog)
    return _open_files(data_files(place), catalog)


def _open_decoded(read: Callable[..., dict[str, Any]], path: Path, catalog: Catalog | None) -> Engine:
    """A file of several tables that is read once, here."""
    from shoal.engines.duckdb.sound_files import stamps

    opened = stamps([path])
    declared = {key: declared_types(catalog, key) for key in (catalog.tables if catalog is not None else ())}
    return _open_frames(dict(read(path, declared)), files=opened)


def declared_types(catalog: Catalog | None, table: str) -> dict[str, str]:
    """Column → the engine's name of the type that the catalog gives, where it knows it."""
    from shoal.plan.types import Kind
    from shoal.sql.functions import type_of
    from shoal.sql.functions.values import ENGINE_TYPES, engine_type

    known = catalog.table(table) if catalog is not None else None
    given = {name: type_of(facts.type.upper()) for name, facts in known.columns.items() if facts.type} if known else {}
    return {
        name: engine_type(type_)
        for name, type_ in given.items()
        if type_.kind in ENGINE_TYPES or type_.kind is Kind.DECIMAL
    }


def _open_database(path: Path) -> Engine:
    import duckdb

    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.engines.duckdb.settings import spill_privately

    try:
        connection = duckdb.connect(str(path), read_only=True)
        spill_privately(connection)
        return DuckDBEngine(connection, ours=True)
    except duckdb.Error:
        raise ShoalError(
            "E_SOURCE",
            f"The DuckDB file {str(path)!r} cannot be opened for reading.",
            hint="Check that it is a DuckDB database and that no other process is writing to it.",
        ) from None


def data_files(place: str) -> dict[str, list[Path]]:
    """Table name → the files that queries read."""
    tables = tables_at(place)
    if not tables:
        raise ShoalError(
            "E_SOURCE",
            f"No parquet, CSV or JSON lines file was found at {place!r}.",
            hint=_OF_WORKBOOKS if _has_workbooks(Path(place)) else _WHAT_WORKS,
        )
    _refuse_clashes(tables)
    return tables


def _has_workbooks(path: Path) -> bool:
    return path.is_dir() and any(ending(entry) in {*WORKBOOKS, ".xls"} for entry in path.iterdir())


def _refuse_clashes(tables: dict[str, list[Path]]) -> None:
    """Two names that differ in case, or files of two kinds, would make it unclear what a table holds."""
    folded: set[str] = set()
    for name, files in tables.items():
        if fold(name) in folded or len({format_of(p) for p in files}) > 1:
            raise ShoalError(
                "E_SOURCE",
                f"Several files map to the table {name!r}.",
                hint="Table names come from file names (without the extension, ignoring case): rename or move one of the files.",
            )
        folded.add(fold(name))


def _open_files(files: dict[str, list[Path]], catalog: Catalog | None = None) -> Engine:
    import duckdb

    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.engines.duckdb.settings import spill_privately
    from shoal.engines.duckdb.sound_files import (
        NO_BELIEFS,
        refuse_broken_lines,
        refuse_damaged,
        refuse_narrowing,
        refuse_twins,
        stamps,
    )

    connection = duckdb.connect(":memory:")
    spill_privately(connection)
    folders = sorted({str(p.resolve().parent) for parts in files.values() for p in parts})
    opened = stamps(p for parts in files.values() for p in parts)
    frames = {name: _decoded(name, parts, catalog) for name, parts in files.items() if _is_decoded(parts)}
    for table, parts in files.items():
        if table in frames:
            continue
        spellings = spellings_of(catalog, table)
        if format_of(parts[0]) == CSV:
            refuse_broken_lines(connection, parts, spellings)
        try:
            connection.execute(f"CREATE VIEW {quoted(table)} AS {_reader(connection, parts, spellings)}")
            doubtful = _with_fragile_times(connection, parts)
        except duckdb.Error:
            raise _unreadable(connection, table, parts) from None
        for path in doubtful:
            from shoal.engines.duckdb.arrow_columns import refuse_unreadable

            refuse_unreadable(path)
        if format_of(parts[0]) == PARQUET:
            refuse_twins(connection, table, parts)
            refuse_narrowing(connection, table, parts)
            refuse_damaged(connection, parts)
    listed = ", ".join(text(f) for f in folders)
    connection.execute(f"SET allowed_directories = [{listed}]")
    connection.execute(NO_BELIEFS)
    return DuckDBEngine(connection, ours=True, frames=frames, files=opened)


def csv_delimiters_at(place: str) -> dict[str, str]:
    """Table → what separates the columns of its CSV files."""
    return {fold(table): csv_delimiter(parts[0]) for table, parts in _csv_files_at(place)}


def _csv_files_at(place: str) -> list[tuple[str, list[Path]]]:
    path = Path(place)
    if is_postgresql(place) or (path.is_file() and ending(path) in DATABASES | WORKBOOKS):
        return []
    return [(table, parts) for table, parts in data_files(place).items() if format_of(parts[0]) == CSV]


def misfits_at(place: str) -> dict[str, dict[str, Misfits]]:
    """Table → column → strings of CSV files that the guessed type leaves out."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        return {fold(table): misfits(connection, parts) for table, parts in _csv_files_at(place)}


def _is_decoded(parts: list[Path]) -> bool:
    return format_of(parts[0]) == JSON_LINES


def _decoded(name: str, parts: list[Path], catalog: Catalog | None) -> Any:
    """A table that is read once, here."""
    known = catalog.table(name) if catalog is not None else None
    columns = _named(known) if known is not None and known.columns else []
    return frame_table(name, read_json_lines(parts, declared_types(catalog, name), columns))


def _named(table: Table) -> list[str]:
    """Every column that the catalog names, each once: the owner, what leads to other tables, and what it knows something of."""
    owner = [table.owner] if table.owner and not table.carries_owner else []
    leads = [reference.column for reference in (*filter(None, [table.through]), *table.references, *table.lookups)]
    named: dict[str, str] = {}
    for column in (*owner, *table.columns, *leads):
        named.setdefault(fold(column), column)
    return list(named.values())


def spellings_of(catalog: Catalog | None, table: str) -> Spellings:
    """What the catalog says about the strings of a table."""
    known = catalog.table(table) if catalog is not None else None
    options = known.csv if known is not None else None
    declared = declared_types(catalog, table)
    return Spellings(declared) if options is None else Spellings(declared, options)


def _unreadable(connection: duckdb.DuckDBPyConnection, table: str, parts: list[Path]) -> ShoalError:
    """Which file is to blame for a table that cannot be opened, and whether the system or its content forbids it."""
    import duckdb

    for path in parts:
        refused = reading_refused(path)
        if refused is not None:
            return refused
        try:
            connection.execute(f"DESCRIBE {_reader(connection, [path], Spellings())}")
        except duckdb.Error:
            return ShoalError(
                "E_SOURCE",
                f"The file {str(path)!r} cannot be read as a table.",
                hint=f"Its name says it is a {format_of(path)} file: check that it is one, and complete.",
            )
    return ShoalError(
        "E_SOURCE",
        f"The files of the table {table!r} do not fit together.",
        hint="The same column must be of the same type in all of them.",
    )


def _reader(connection: duckdb.DuckDBPyConnection, parts: list[Path], spellings: Spellings) -> str:
    """SELECT over files of one kind."""
    if format_of(parts[0]) == CSV:
        return csv_relation(connection, parts, spellings)
    from shoal.engines.duckdb.sound_files import AS_TEXTS

    listed = ", ".join(text(str(p.resolve())) for p in parts)
    return f"SELECT * FROM read_parquet([{listed}], union_by_name = true, {AS_TEXTS})"


def _with_fragile_times(connection: duckdb.DuckDBPyConnection, parts: list[Path]) -> list[Path]:
    """The parquet files with a column of times that the engine has to convert while it reads."""
    if format_of(parts[0]) == CSV:
        return []
    listed = ", ".join(text(str(p.resolve())) for p in parts)
    found = connection.sql(
        f"SELECT DISTINCT file_name FROM parquet_schema([{listed}]) WHERE logical_type LIKE 'TimeType%' "
        "OR logical_type LIKE 'TimestampType%MILLIS=Milli%' "
        "OR converted_type IN ('TIME_MILLIS', 'TIME_MICROS', 'TIMESTAMP_MILLIS')"
    ).fetchall()
    return [Path(name) for (name,) in sorted(found)]


def _open_frames(frames: dict[str, Any], files: dict[Path, tuple[int, int]] | None = None) -> Engine:
    import duckdb

    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.engines.duckdb.settings import spill_privately

    connection = duckdb.connect(":memory:")
    spill_privately(connection)
    if len({fold(name) if isinstance(name, str) else name for name in frames}) < len(frames):
        raise ShoalError("E_SOURCE", "Two data frames have the same name (names are case-insensitive).")
    sound: dict[str, Any] = {}
    for table, frame in frames.items():
        if not isinstance(table, str):
            raise ShoalError("E_SOURCE", "Pass data frames as a dict of name → frame.", hint=_WHAT_WORKS)
        sound[table] = frame_table(table, frame)
        if not sound[table].column_names:
            raise ShoalError("E_SOURCE", f"The table {table!r} has no columns.")
        try:
            connection.register(table, sound[table])
        except duckdb.Error:
            raise _unread(
                table, [n for n in sound[table].column_names if not _registers(connection, sound[table], n)]
            ) from None
        connection.unregister(table)
    return DuckDBEngine(connection, ours=True, frames=sound, files=files, only_frames=True)


def _registers(connection: Any, table: Any, column: str) -> bool:
    import duckdb

    try:
        connection.register("one_column", table.select([column]))
    except duckdb.Error:
        return False
    connection.unregister("one_column")
    return True


def _unread(table: str, columns: list[str]) -> ShoalError:
    """Columns that are not of one type that the engine knows; their names are public, their values are not shown."""
    of = f" of the table {table!r}" if table else ""
    names = ", ".join(map(repr, columns)) or "a column"
    return ShoalError(
        "E_SOURCE",
        f"The data frame{of} cannot be read: {names} {'has' if len(columns) < 2 else 'have'} no type that queries know, "
        "or values of several types.",
        hint="Give it one type, such as frame[column].astype(str), or leave it out.",
    )


def frame_table(name: str, frame: Any) -> Any:
    """A data frame as an Arrow table that an engine can read whatever it holds; side tools read small ones directly."""
    from shoal.engines.duckdb.sound_files import twins

    if len({fold(str(column)) for column in _columns(frame)}) < len(_columns(frame)):
        raise twins(name)
    return _sound(name, as_arrow(frame, name))


def _sound(name: str, table: Any) -> Any:
    """The table, its buffers checked: text that is none, or an index out of range, would fail in the middle of a query."""
    import pyarrow as pa

    from shoal.engines.duckdb.arrow_columns import readable

    try:
        table = readable(table)
        table.validate(full=True)
    except pa.ArrowInvalid:
        raise ShoalError(
            "E_SOURCE", f"The table {name!r} is damaged, or holds text that is not UTF-8.", hint="Decode it first."
        ) from None
    return table


def as_arrow(frame: Any, name: str = "") -> Any:
    """An Arrow table from Arrow, pandas, polars, or anything that speaks the Arrow C stream."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "collect") and _is_of(frame, "polars"):
        frame = frame.collect()
    try:
        return _converted(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise _unread(name, [str(column) for column in _columns(frame) if not _converts(frame, column)]) from None


def _converted(frame: Any) -> Any:
    import pyarrow as pa

    if _is_of(frame, "pandas"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(frame, dict) or hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise ShoalError("E_SOURCE", "Only Arrow, pandas and polars tables can be registered.", hint=_WHAT_WORKS)


def _is_of(frame: Any, package: str) -> bool:
    return type(frame).__module__.partition(".")[0] == package


def _columns(frame: Any) -> list[Any]:
    """The names of a frame's columns, as far as it has them."""
    if isinstance(frame, dict):
        return list(frame)
    if hasattr(frame, "collect_schema"):  # of polars: to ask a query for its columns is slow, and warns
        return list(frame.collect_schema().names())
    return list(getattr(frame, "column_names", getattr(frame, "columns", ())))


def _converts(frame: Any, column: Any) -> bool:
    import pyarrow as pa

    try:
        pa.array(frame[column])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
