"""An answer: rows with error bars at any level, a chart, what it cost and means, downloads."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.accounting.claims.meaning import meaning
from shoal.cli.output import rows_of
from shoal.errors import ShoalError
from shoal.params import percent
from shoal.release.answer_bytes import MEDIA_TYPE
from shoal.release.answer_notes import WITHOUT_INTERVAL
from shoal.result import shown
from shoal.service.browser.listings import approval_of, last_time
from shoal.service.people import not_found
from shoal.web.calling import call, service_of
from shoal.web.console import charts
from shoal.web.console.explaining import for_people, sentences
from shoal.web.console.frame import framed
from shoal.web.console.rendering import aligned, cell, number, session_of
from shoal.web.jobs import level_of, only, places_of, stored_reply
from shoal.web.replies import ARROW, CSV, JSON, PARQUET

if TYPE_CHECKING:
    from shoal.result import Result

routes = APIRouter(include_in_schema=False)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MOST_ROWS = 200
MOST_LISTED = 800
"""Numbers of lists in one table: a page stays small."""
MOST_POINTS = 30
MOST_CHARTED = 20_000
MOST_PLAIN = 1e15
FORMATS = {"csv": CSV, "arrow": ARROW, "parquet": PARQUET, "json": JSON, "shoal": MEDIA_TYPE}


@routes.get("/a/{answer}")
async def answer(request: Request, answer: str) -> Response:
    """The stored answer, which can be shared, reloaded and reopened."""
    only(request, {"level", "column"})
    service, caller = service_of(request), session_of(request).caller
    level = level_of(request)
    column = request.query_params.get("column")
    found = await call(service.found_answer, caller, answer)
    described = await call(service.describe, caller, found["dataset"])
    asked = await call(last_time, service.store, caller, answer)

    def viewed() -> dict[str, Any]:
        _, _, result = service.answer(caller, answer)
        return answer_view(result, result.level if level is None else level, column, described["unit"])

    if await call(service.is_large, answer):
        places = places_of(request)
        async with places.one_of(caller.name), places.making():
            view = await places.made(viewed)
    else:
        view = await call(viewed)
    return await framed(
        request,
        "answer.html",
        here="datasets",
        tab="ask",
        dataset=described,
        answer=answer,
        created=found["created"],
        asked=asked,
        approved=await call(approval_of, service.store, caller, found["fingerprint"]),
        levels=[(each, percent(each)) for each in LEVELS],
        host=str(request.base_url).rstrip("/"),
        **view,
    )


@routes.get("/a/{answer}/{kind}")
async def download(request: Request, answer: str, kind: str) -> Response:
    """The same as a file."""
    only(request, {"level"})
    if kind not in FORMATS:
        raise not_found("answer")
    service, caller = service_of(request), session_of(request).caller
    level = level_of(request)
    found = await call(service.found_answer, caller, answer)
    reply = await stored_reply(request, caller, answer, FORMATS[kind], level)
    reply.headers["Content-Disposition"] = f'attachment; filename="{found["dataset"]}-{answer[2:10]}.{kind}"'
    return reply


def answer_view(result: Result, level: float, column: str | None, unit: str) -> dict[str, Any]:
    """Everything that `answer.html` shows about a result."""
    rows = rows_of(next(result.parts()).intervals(level).to_arrow().slice(0, MOST_ROWS))
    names = result.columns
    numbers = [name for name in names if rows and f"{name}_low" in rows[0]]
    table = result.to_arrow()
    charted = [name for name in numbers if not pa.types.is_list(table.schema.field(name).type)]
    if column is not None and column not in charted:
        raise ShoalError("E_USAGE", "There is no such number in this answer.", hint="Choose one of its columns.")
    right = {name for name in names[1:] if rows and all(_is_plain_number(row[name]) for row in rows)}
    places = {name: _places([row[name] for row in rows]) for name in names}
    lists = set(numbers) - set(charted)
    most = max(1, MOST_LISTED // max(1, len(rows) * len(lists)))
    means = meaning(result.epsilon, result.delta).to_dict(unit=unit) if result.epsilon else None
    return {
        "columns": [(name, name in charted, name in numbers or name in right, name in lists) for name in names],
        "rows": [
            [
                _listed(row, name, most)
                if name in lists
                else _shown(row, name, places[name], is_number=name in charted)
                for name in names
            ]
            for row in rows
        ],
        "total": len(result),
        "level": level,
        "level_text": percent(level),
        "numbers": numbers,
        "charted": charted,
        "chart": _chart(result, level, column or next(iter(charted), None), numbers),
        "column": column or next(iter(charted), None),
        "epsilon": result.epsilon,
        "delta": result.delta,
        "cost": result.cost,
        "promise": result.promise,
        "warnings": [shown(each, None) for each in result.warnings],
        "notes": [shown(each, None) for each in for_people(result.notes, unit)],
        "sentences": sentences(means) if means else [],
    }


def _shown(row: dict[str, Any], name: str, places: int | None, *, is_number: bool) -> tuple[str, str]:
    """A cell, and its error bar."""
    value = row[name]
    written = aligned(value, places) if places is not None and isinstance(value, float) else cell(value)
    if not is_number or isinstance(value, str):
        return written, ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if value is None or low is None or high is None:
        return written, ""
    return written, _bar(value, low, high, places)


def _listed(row: dict[str, Any], name: str, most: int) -> tuple[list[tuple[str, str]], int]:
    """The first numbers of a list, each with its error bar, and how many more there are."""
    found = row[name] or []
    nothing = [None] * len(found)
    ends = zip(row[f"{name}_low"] or nothing, row[f"{name}_high"] or nothing, strict=True)
    parts = [
        {name: value, f"{name}_low": low, f"{name}_high": high} for value, (low, high) in zip(found, ends, strict=True)
    ]
    places = _places(found)
    return [_shown(part, name, places, is_number=True) for part in parts[:most]], max(0, len(found) - most)


def _bar(value: Any, low: float, high: float, places: int | None) -> str:
    below, above = float(value) - low, high - float(value)
    if places and below + above < 10 * 0.1**places:
        places = None
    if abs(below - above) <= 1e-9 * max(1.0, abs(above)):
        return f"± {_end(above, places, up=True)}"
    return f"{_end(low, places, up=False)} to {_end(high, places, up=True)}"


def _end(value: float, places: int | None, *, up: bool) -> str:
    """The end of an interval, with as many places as its number has; of whole numbers it is whole, and never nearer."""
    if places is None or not abs(value) < MOST_PLAIN:
        return number(value)
    if places == 0:
        return f"{math.ceil(value - 1e-9) if up else math.floor(value + 1e-9):,}"
    return aligned(value, places)


def _places(values: list[Any]) -> int | None:
    """How many decimal places the numbers of a column have in common; None where they have to differ."""
    found = [value for value in values if value is not None]
    if found and all(isinstance(value, int) and not isinstance(value, bool) for value in found):
        return 0
    if not found or not all(isinstance(value, float) and math.isfinite(value) for value in found):
        return None
    sizes = sorted(abs(value) for value in found if value)
    if not sizes or sizes[-1] >= 1e4 or sizes[0] < sizes[-1] / 100:
        return None
    return max(0, 3 - math.floor(math.log10(sizes[-1]))) if sizes[-1] >= 1e-3 else None


# ---- which chart --------------------------------------------------------------------------------------------------


def _chart(result: Result, level: float, column: str | None, numbers: list[str]) -> dict[str, Any] | None:
    """Bars for categories, a line for time and numbers, dots for a single row."""
    if column is None or not 0 < len(result) <= MOST_CHARTED:
        return None
    rows = rows_of(result.intervals(level).to_arrow())
    computed = {name for name in result.columns if f"{name}{WITHOUT_INTERVAL}" in result.notes}
    keys = [name for name in result.columns if name not in {*numbers, *computed}]
    title = f"{column} with {percent(level)} error bars"
    if len(rows) == 1:
        points = [found for name in [column] if (found := _point(rows[0], name, name)) is not None]
        return {"svg": charts.dots(points, title), "title": title, "left_out": 0} if points else None
    if not keys:
        return None
    days = _days(rows, keys)
    points = [found for row in rows if (found := _point(row, column, _label(row, keys, days))) is not None]
    if not points:
        return None
    ordered = len(keys) == 1 and all(_is_scale(row[keys[0]]) for row in rows)
    if ordered:
        order = sorted((row for row in rows if row[column] is not None), key=lambda row: row[keys[0]])
        points = [found for row in order if (found := _point(row, column, _label(row, keys, days))) is not None]
        return {"svg": charts.line(points, title), "title": title, "left_out": 0}
    largest = sorted(points, key=lambda point: point.value, reverse=True)[:MOST_POINTS]
    return {
        "svg": charts.bars(largest, title),
        "title": title,
        "shown": len(largest),
        "left_out": len(points) - len(largest),
    }


def _point(row: dict[str, Any], column: str, label: str) -> charts.Point | None:
    value, low, high = row[column], row[f"{column}_low"], row[f"{column}_high"]
    if value is None or isinstance(value, (str, list, bool)):
        return None
    return charts.Point(label, float(value), None if low is None else float(low), None if high is None else float(high))


def _label(row: dict[str, Any], keys: list[str], days: frozenset[str]) -> str:
    """The keys of a group; times that are days or months lose their hours."""
    return ", ".join(cell(row[key].date() if key in days and row[key] is not None else row[key]) for key in keys)


def _days(rows: list[dict[str, Any]], keys: list[str]) -> frozenset[str]:
    """The keys whose times are all midnights."""
    times = {key: [row[key] for row in rows if row[key] is not None] for key in keys}
    return frozenset(
        key
        for key, found in times.items()
        if found and all(isinstance(each, dt.datetime) and each.time() == dt.time() for each in found)
    )


def _is_plain_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))


def _is_scale(value: Any) -> bool:
    return isinstance(value, (int, float, dt.date)) and not isinstance(value, bool)
