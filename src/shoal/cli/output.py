"""How answers leave the program: tables for people, CSV, JSON and Parquet for machines."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.errors import ShoalError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from shoal.result import Result, Rows


class Format(StrEnum):
    """What `--format` may be."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def write_answer(result: Result | Rows, chosen: Format, path: Path | None, level: float | None) -> None:
    """Write a released answer to a file or to the terminal; with a level, intervals stand beside the values."""
    if chosen is Format.table:
        return write_text(repr(result) + "\n", path)
    answer = (result if level is None else with_intervals(result, level)).to_arrow()
    if chosen is Format.json:
        return write_text(as_json(rows_of(answer)) + "\n", path)
    return write_bytes(csv_bytes(answer) if chosen is Format.csv else parquet_bytes(answer), path, chosen)


def with_intervals(result: Result | Rows, level: float | None) -> Rows:
    """The rows with intervals beside the values; an explanation has none and stays as it is."""
    from shoal.result import Result

    return result.intervals(level) if isinstance(result, Result) else result


def write_json(data: object, path: Path | None = None) -> None:
    """Write data for machines."""
    write_text(as_json(data) + "\n", path)


def write_text(text: str, path: Path | None) -> None:
    """Write text to a file, or to the terminal without one."""
    if path is None:
        return typer.echo(text, nl=False)
    return write_bytes(text.encode(), path, Format.table)


def write_bytes(data: bytes, path: Path | None, chosen: Format) -> None:
    """Write bytes to a file, or through a pipe without one; a terminal is spared binary files."""
    if path is None:
        if chosen is Format.parquet and sys.stdout.isatty():
            raise ShoalError("E_USAGE", "A parquet file is not for a terminal.", hint="Name a file: -o answer.parquet")
        sys.stdout.buffer.write(data)
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise ShoalError("E_USAGE", f"The file {str(path)!r} was not written: {reason}.") from None


def check_writable(path: Path | None) -> None:
    """Refuse a place that cannot be written before anything is spent on an answer for it."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ShoalError(
            "E_USAGE", f"The file {str(path)!r} cannot be written.", hint="Name a file in a folder that exists."
        )


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table; a column name that occurs twice gets a number, so that no value is lost."""
    names: list[str] = []
    for name in table.column_names:
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    rows: list[dict[str, Any]] = table.rename_columns(names).to_pylist()
    return rows


def as_json(data: object) -> str:
    """JSON that every reader accepts: no NaN, exact decimals as numbers where they fit, dates as ISO text."""
    return json.dumps(plain(data), ensure_ascii=False, indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """A value in the types that JSON knows."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def csv_bytes(table: pa.Table) -> bytes:
    """A table as CSV with a header."""
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return bytes(sink.getvalue())


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as one Parquet file, its dictionaries and statistics made from these rows alone."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def console() -> Console:
    """Where people read: colours on a terminal, plain text through a pipe."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(highlight=False, width=None if terminal else 110)
