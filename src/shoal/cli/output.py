"""How answers leave the program: tables for people, CSV, JSON and Parquet for machines."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Write a released answer, every row of it, with intervals beside the values: a number without its ± says too much.

    What it cost and what should be known about it is part of the table; beside other formats it goes to stderr.
    """
    if chosen is Format.table:
        return write_text(table_text(result, level) + "\n", path)
    answer = with_intervals(result, level).to_arrow()
    if chosen is Format.json:
        write_text(as_json(rows_of(answer)) + "\n", path)
    else:
        if chosen is Format.csv:
            answer = for_spreadsheets(answer)
            answer = for_terminals(answer) if path is None and sys.stdout.isatty() else answer
        write_bytes(csv_bytes(answer) if chosen is Format.csv else parquet_bytes(answer), path)
    for line in remarks(result):
        typer.echo(line, err=True)
    return None


def table_text(result: Result | Rows, level: float | None) -> str:
    """The whole table, error bars at the level that was asked for."""
    from shoal.result import Result

    return result.to_text(level) if isinstance(result, Result) else result.to_text()


def remarks(result: Result | Rows) -> list[str]:
    """A weaker promise, what it cost, what to beware of, and the notes; an explanation has none of them."""
    from shoal.result import PolicyResult, Result

    if not isinstance(result, Result):
        return []
    promise = result.promise if isinstance(result, PolicyResult) else ""
    return [
        line for line in (promise, result.cost, *result.warnings, *(f"note: {note}" for note in result.notes)) if line
    ]


def with_intervals(result: Result | Rows, level: float | None) -> Rows:
    """The rows with intervals beside the values; an explanation has none and stays as it is."""
    from shoal.result import Result

    return result.intervals(level) if isinstance(result, Result) else result


def write_json(data: object, path: Path | None = None) -> None:
    """Write data for machines."""
    write_text(as_json(data) + "\n", path)


def write_result(result: Any, plot: Path | None, *, json: bool) -> None:
    """What a tool found, as JSON or in words, and as a picture where one was asked for."""
    if plot is not None:
        result.plot(plot)
    if json:
        write_json(result.to_dict())
    else:
        typer.echo(str(result))


def write_text(text: str, path: Path | None) -> None:
    """Write text to a file, or to the terminal without one."""
    if path is None:
        return typer.echo(text, nl=False)
    return write_bytes(text.encode(), path)


def write_bytes(data: bytes, path: Path | None) -> None:
    """Write bytes to a file, or through a pipe without one."""
    if path is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()  # a full disk is reported here, not when the interpreter ends
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} was not written: {reason_of(error)}.") from None


def check_terminal(chosen: Format, path: Path | None) -> None:
    """A terminal is spared binary files."""
    if chosen is Format.parquet and path is None and sys.stdout.isatty():
        raise ShoalError("E_USAGE", "A parquet file is not for a terminal.", hint="Name a file: -o answer.parquet")


def check_writable(path: Path | None) -> None:
    """Refuse a place that cannot be written before anything is spent on an answer for it, by really opening it.

    A file that is there keeps its bytes; one that is not there is not left behind. The reader of a pipe would take an open
    and a close for the whole answer, so pipes and devices are not opened.
    """
    if path is None:
        return
    try:
        place = path.resolve()
        if not place.exists():
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            place.unlink()
        elif place.is_file() or place.is_dir():
            os.close(os.open(place, os.O_WRONLY))
    except (OSError, ValueError, RuntimeError) as error:
        raise ShoalError(
            "E_USAGE",
            f"The file {str(path)!r} cannot be written: {reason_of(error)}.",
            hint="Name a file in a folder that exists and that you may write to.",
        ) from None


def reason_of(error: Exception) -> str:
    """What the system has against it, such as 'Permission denied'."""
    return getattr(error, "strerror", None) or "this is not the name of a file"


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


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins like this, unless it is a number."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNSEEN = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would run as a formula begin with an apostrophe, which marks text."""
    return _with_texts(table, lambda value: f"'{value}" if is_formula(value) else value)


def is_formula(value: str) -> bool:
    """Whether a spreadsheet would run a text."""
    return value.startswith(FORMULA_STARTS) and _NUMBER.fullmatch(value) is None


def for_terminals(table: pa.Table) -> pa.Table:
    """Control characters written out, so that no text of the data moves the cursor or sets a title."""
    return _with_texts(table, lambda value: value.translate(_UNSEEN))


def _with_texts(table: pa.Table, change: Callable[[str], str]) -> pa.Table:
    """A table with every text changed, column names included."""
    import pyarrow as pa

    columns = [
        pa.array([None if v is None else change(v) for v in column.to_pylist()], column.type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=[change(name) for name in table.column_names])


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
