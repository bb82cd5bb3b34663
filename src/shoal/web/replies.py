"""An answer in the requested format; its cost is in the object, or in headers next to the rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from starlette.responses import Response

from shoal.cli.output import csv_bytes, for_spreadsheets, parquet_bytes, plain, rows_of
from shoal.errors import ShoalError
from shoal.release.answer_bytes import MEDIA_TYPE
from shoal.web.errors import error_reply, json_reply
from shoal.web.operation import pieces

if TYPE_CHECKING:
    from fractions import Fraction

    from starlette.requests import Request

    from shoal.result import Result
    from shoal.service.jobs import Job

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv"
MOST_CELLS = 1_000_000
"""For an answer written cell by cell: each cell takes a hundred times the memory it takes in Arrow."""
SMALL = 1000
MANY_CELLS = 20_000
"""An answer of more is written a few rows at a time, however few bytes it takes."""
MOST_REMEMBERED = 256
_REMEMBERED: OrderedDict[tuple[str, float | None], dict[str, Any]] = OrderedDict()
"""Keyed by the answer's name, which is random and never reused."""
_LOCK = threading.Lock()
FORMATS = (JSON, ARROW, PARQUET, CSV, MEDIA_TYPE)


def wanted_format(request: Request) -> str:
    """The first format of `Accept` that we know; JSON otherwise."""
    asked = [part.split(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return next((kind for kind in asked if kind in FORMATS), JSON)


def job_data(job: Job, position: int | None) -> dict[str, Any]:
    """A job as it is shown."""
    return {
        "job": job.id,
        "state": job.state,
        "position": position,
        "answer": job.answer or None,
        "error": job.error,
    }


def ended_reply(job: Job) -> Response:
    """The error of a job that has no answer."""
    return error_reply(job.error or {"code": "E_INTERNAL", "message": "The job has no answer."})


def answer_reply(
    kind: str,
    identifier: str,
    dataset: str,
    result: Result,
    data: bytes,
    *,
    charged: tuple[float, float] | None,
    replayed: bool,
    remaining: tuple[Fraction, Fraction] | None,
    level: float | None,
    into: IO[bytes] | None = None,
) -> Response:
    """A released answer; a large one is written into a file, and this is its head."""
    cost = charged or (0.0, 0.0)
    if kind in {JSON, CSV} and len(result) * max(1, len(result.columns)) > MOST_CELLS:
        raise ShoalError(
            "E_LIMITS",
            f"The answer has more than {MOST_CELLS:,} cells, too many for JSON or CSV.",
            hint=f"Read it as Arrow or parquet: GET /v1/answers/{identifier} with Accept: {ARROW}",
        )
    if kind == JSON:
        left = None if remaining is None else {"epsilon": float(remaining[0]), "delta": float(remaining[1])}
        first = {"answer": identifier, "dataset": dataset}
        last = {
            "level": result.level if level is None else level,
            "epsilon": result.epsilon,
            "delta": result.delta,
            "charged": {"epsilon": cost[0], "delta": cost[1]},
            "replayed": replayed,
            "promise": result.promise,
            "notes": [*result.warnings, *result.notes],
            "remaining": left,
        }
        if into is None:
            return json_reply({**first, **_shown(identifier, result, level), **last})
        pieces.write_json(into, {**first, "columns": _columns(result)}, result, level, last)
        return Response(b"", 200, {}, JSON)
    headers = _headers(identifier, cost, replayed=replayed)
    if kind == CSV:
        headers["Shoal-Csv"] = "a cell that a spreadsheet would run begins with an apostrophe"
    if into is None:
        return Response(_encoded(kind, result, data, level), 200, headers, kind)
    _write(into, kind, result, data, level)
    return Response(b"", 200, headers, kind)


def has_many_cells(kind: str, result: Result) -> bool:
    """Whether an answer takes much more memory in this format than its bytes do."""
    return kind in {JSON, CSV} and len(result) * max(1, len(result.columns)) > MANY_CELLS


def bytes_reply(identifier: str, data: bytes, charged: tuple[float, float]) -> Response:
    """An answer that was just paid for, as stored: nothing in it has to be decoded."""
    return Response(data, 200, _headers(identifier, charged, replayed=False), MEDIA_TYPE)


def _headers(identifier: str, cost: tuple[float, float], *, replayed: bool) -> dict[str, str]:
    return {
        "Shoal-Answer": identifier,
        "Shoal-Epsilon": repr(cost[0]),
        "Shoal-Delta": repr(cost[1]),
        "Shoal-Replayed": "true" if replayed else "false",
    }


def _shown(identifier: str, result: Result, level: float | None) -> dict[str, Any]:
    """Columns, rows and intervals as JSON. Recently read small answers are cached."""
    with _LOCK:
        known = _REMEMBERED.get((identifier, level))
    if known is None:
        known = {
            "columns": _columns(result),
            "rows": plain(rows_of(result.to_arrow())),
            "intervals": plain(rows_of(result.intervals(level).to_arrow())),
        }
        if len(result) * len(result.columns) <= SMALL:
            with _LOCK:
                _REMEMBERED[identifier, level] = known
                while len(_REMEMBERED) > MOST_REMEMBERED:
                    _REMEMBERED.popitem(last=False)
    return known


def _columns(result: Result) -> list[dict[str, str]]:
    return [{"name": f.name, "type": str(f.type)} for f in result.to_arrow().schema]


def _write(into: IO[bytes], kind: str, result: Result, data: bytes, level: float | None) -> None:
    if kind == MEDIA_TYPE:
        into.write(data)
    else:
        {CSV: pieces.write_csv, PARQUET: pieces.write_parquet, ARROW: pieces.write_arrow}[kind](into, result, level)


def _encoded(kind: str, result: Result, data: bytes, level: float | None) -> bytes:
    if kind == MEDIA_TYPE:
        return data
    table = result.to_arrow() if level is None else result.intervals(level).to_arrow()
    if kind == CSV:
        return csv_bytes(for_spreadsheets(table))
    if kind == PARQUET:
        return parquet_bytes(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
