"""The log: read it, verify it, note its anchor, download it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.errors import ShoalError
from shoal.web.calling import call, service_of
from shoal.web.console.forms import form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only, whole

routes = APIRouter(include_in_schema=False)
LINES = 50


@routes.get("/log")
async def log(request: Request) -> Response:
    """The last lines, newest first, or those after a number."""
    only(request, {"after"})
    return await _lines(request, None)


@routes.post("/log/verify")
async def verify(request: Request) -> Response:
    """Verifies every line and every charge, and that they agree."""
    await form_of(request, set())
    session_of(request).caller.require_everywhere("audit")
    try:
        lines, charges = await call(service_of(request).check)
        found: dict[str, Any] = {"lines": lines, "charges": charges, "wrong": None}
    except ShoalError as error:
        found = {"wrong": error.to_dict()}
    return await _lines(request, found)


@routes.post("/log/export")
async def export(request: Request) -> Response:
    """The whole log as JSON lines; the export is logged too."""
    await form_of(request, set())
    found = await call(service_of(request).export_log, session_of(request).caller)
    headers = {"Content-Disposition": 'attachment; filename="shoal-log.jsonl"'}
    return Response("".join(found).encode(), headers=headers, media_type="application/jsonl")


async def _lines(request: Request, verified: dict[str, Any] | None) -> Response:
    service, caller = service_of(request), session_of(request).caller
    anchor = await call(service.log_anchor, caller)
    last = int(anchor.partition(":")[0])
    after = min(whole(request, "after", max(0, last - LINES), 0, 2**53), last)
    lines = await call(service.log, caller, after, LINES)
    return await framed(
        request,
        "log.html",
        here="log",
        lines=list(reversed(lines)),
        anchor=anchor,
        older=max(0, after - LINES) if after else None,
        newer=after + LINES if after + LINES < last else None,
        verified=verified,
    )
