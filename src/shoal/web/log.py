"""The log, for custodians and auditors."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.web.calling import call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import only, whole

routes = APIRouter(prefix="/v1/log", tags=["log"])


@routes.get("")
async def lines(request: Request) -> Response:
    """Lines after a number."""
    only(request, {"after", "limit"})
    after, limit = whole(request, "after", 0, 0, 2**53), whole(request, "limit", 100, 1, 1000)
    return json_reply({"log": await call(service_of(request).log, caller_of(request), after, limit)})


@routes.get("/export")
async def export(request: Request) -> Response:
    """The whole log as JSON lines."""
    only(request, set())
    found = await call(service_of(request).export_log, caller_of(request))
    return Response("".join(found).encode(), media_type="application/jsonl")


@routes.get("/anchor")
async def anchor(request: Request) -> Response:
    """Number and hash of the last line, to be noted elsewhere."""
    only(request, set())
    return json_reply({"anchor": await call(service_of(request).log_anchor, caller_of(request))})
