"""Data sources → an engine: files, folders, globs, data frames, open connections. One door for the session and the side tools."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    import duckdb

    from shoal.engines.base import Engine

SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
"""File endings that become tables."""

_WHAT_WORKS = (
    "A source is a .duckdb file, a parquet or CSV file, a glob or a folder of them, a dict of data frames, "
    "or an open DuckDB connection."
)


def open_source(source: Any) -> Engine:
    """The engine behind a source."""
    if isinstance(source, (str, Path)):
        return _open_path(str(source))
    if isinstance(source, dict):
        return _open_frames(source)
    if type(source).__name__ == "DuckDBPyConnection":
        from shoal.engines.duckdb import DuckDBEngine

        return DuckDBEngine(source, ours=False)
    if type(source).__module__.startswith("pyspark."):
        raise ShoalError("E_SOURCE", "Spark is not supported yet.", hint=_WHAT_WORKS)
    raise ShoalError("E_SOURCE", "This is not a source of data.", hint=_WHAT_WORKS)


def _open_path(text: str) -> Engine:
    if re.match(r"[A-Za-z][A-Za-z0-9+]+://", text):
        raise ShoalError("E_SOURCE", "Databases behind a URL are not supported yet.", hint=_WHAT_WORKS)
    path = Path(text)
    if path.is_file() and path.suffix.lower() in {".duckdb", ".db", ".ddb"}:
        return _open_database(path)
    return _open_files(data_files(text))


def _open_database(path: Path) -> Engine:
    import duckdb

    from shoal.engines.duckdb import DuckDBEngine

    try:
        return DuckDBEngine(duckdb.connect(str(path), read_only=True), ours=True)
    except duckdb.Error:
        raise ShoalError(
            "E_SOURCE",
            f"The DuckDB file {str(path)!r} cannot be opened for reading.",
            hint="Is it a DuckDB database, and is no other process writing to it?",
        ) from None


def data_files(text: str) -> dict[str, list[Path]]:
    """Table name → files, for a file, a folder or a glob; a folder inside a folder is one table of many files."""
    path = Path(text)
    if path.is_dir():
        found = {p.stem: [p] for p in sorted(path.iterdir()) if p.is_file() and p.suffix.lower() in SUFFIXES}
        for inner in sorted(p for p in path.iterdir() if p.is_dir()):
            parts = sorted(p for p in inner.rglob("*") if p.suffix.lower() in SUFFIXES)
            if parts:
                found.setdefault(inner.name, parts)
    else:
        names = [text] if path.is_file() else sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - patterns may be absolute
        found = {Path(n).stem: [Path(n)] for n in names if Path(n).suffix.lower() in SUFFIXES}
    if not found:
        raise ShoalError("E_SOURCE", f"No parquet or CSV file was found at {text!r}.", hint=_WHAT_WORKS)
    return found


def _open_files(files: dict[str, list[Path]]) -> Engine:
    import duckdb

    from shoal.engines.duckdb import DuckDBEngine

    connection = duckdb.connect(":memory:")
    folders = sorted({str(p.resolve().parent) for parts in files.values() for p in parts})
    try:
        for table, parts in files.items():
            connection.execute(f"CREATE VIEW {_quoted(table)} AS {_reader(connection, parts)}")
        listed = ", ".join(_text(f) for f in folders)
        connection.execute(f"SET allowed_directories = [{listed}]")
    except duckdb.Error:
        raise ShoalError(
            "E_SOURCE", "One of the files cannot be read as a table.", hint="Each file must be valid parquet or CSV."
        ) from None
    return DuckDBEngine(connection, ours=True)


def _reader(connection: duckdb.DuckDBPyConnection, parts: list[Path]) -> str:
    """SELECT over files of one kind. CSV is read as text and try-cast: a value that does not parse is NULL, not an error."""
    listed = ", ".join(_text(str(p.resolve())) for p in parts)
    if SUFFIXES[parts[0].suffix.lower()] == "parquet":
        return f"SELECT * FROM read_parquet([{listed}], union_by_name = true)"
    columns = connection.execute(f"DESCRIBE SELECT * FROM read_csv([{listed}])").fetchall()
    items = ", ".join(f"TRY_CAST({_quoted(c[0])} AS {c[1]}) AS {_quoted(c[0])}" for c in columns)
    options = "all_varchar = true, ignore_errors = true, null_padding = true, header = true"
    return f"SELECT {items} FROM read_csv([{listed}], {options})"


def _open_frames(frames: dict[str, Any]) -> Engine:
    import duckdb

    from shoal.engines.duckdb import DuckDBEngine

    connection = duckdb.connect(":memory:")
    for table, frame in frames.items():
        if not isinstance(table, str):
            raise ShoalError("E_SOURCE", "Data frames come as a dict of name → frame.", hint=_WHAT_WORKS)
        connection.register(table, as_arrow(frame))
    return DuckDBEngine(connection, ours=True)


def as_arrow(frame: Any) -> Any:
    """An Arrow table from Arrow, pandas, polars, or anything that speaks the Arrow C stream."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        if type(frame).__module__.startswith("pandas."):
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "collect") and type(frame).__module__.startswith("polars."):
            frame = frame.collect()
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        if isinstance(frame, dict):
            return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError):
        raise ShoalError("E_SOURCE", "A data frame cannot be turned into an Arrow table.", hint=_WHAT_WORKS) from None
    raise ShoalError("E_SOURCE", "Only Arrow, pandas and polars tables can be registered.", hint=_WHAT_WORKS)


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
