"""An answer written into a file a few rows at a time: the same bytes as in one piece, and never an object for each cell."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv, parquet

from shoal.cli.output import for_spreadsheets, plain, rows_of
from shoal.web.errors import json_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shoal.result import Result


def tables(result: Result, level: float | None, *, bars: bool) -> Iterator[pa.Table]:
    """The rows of an answer, with error bars at a level if they are wanted."""
    for part in result.parts():
        yield part.intervals(level).to_arrow() if bars else part.to_arrow()


def write_json(
    into: IO[bytes], first: dict[str, Any], result: Result, level: float | None, last: dict[str, Any]
) -> None:
    """One object: `first`, the rows, the intervals, `last`."""
    into.write(json_bytes(first)[:-1])
    for name, bars in (("rows", False), ("intervals", True)):
        into.write(b"," + json_bytes(name) + b":[")
        _write_items(into, tables(result, level, bars=bars))
        into.write(b"]")
    into.write(b"," + json_bytes(last)[1:])


def _write_items(into: IO[bytes], parts: Iterable[pa.Table]) -> None:
    for number, part in enumerate(parts):
        text = json_bytes(plain(rows_of(part)))
        into.write(b"," if number else b"")
        into.write(memoryview(text)[1:-1])


def write_csv(into: IO[bytes], result: Result, level: float | None) -> None:
    """With one header."""
    for number, part in enumerate(tables(result, level, bars=level is not None)):
        sink = pa.BufferOutputStream()
        csv.write_csv(for_spreadsheets(part), sink, csv.WriteOptions(include_header=number == 0))
        into.write(sink.getvalue())


def write_parquet(into: IO[bytes], result: Result, level: float | None) -> None:
    """Columns as Arrow has them: no object is made of a cell, but of those of error bars."""
    parquet.write_table(_whole(result, level), into)


def write_arrow(into: IO[bytes], result: Result, level: float | None) -> None:
    """The same as a stream."""
    table = _whole(result, level)
    with pa.ipc.new_stream(into, table.schema) as writer:
        writer.write_table(table)


def _whole(result: Result, level: float | None) -> pa.Table:
    if level is None:
        return result.to_arrow()
    return pa.concat_tables(tables(result, level, bars=True)).combine_chunks()
