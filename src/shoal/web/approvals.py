"""Questions that wait for a custodian."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.web.bodies import DecisionBody
from shoal.web.calling import call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import only

routes = APIRouter(prefix="/v1", tags=["approvals"])


@routes.get("/approvals")
async def approvals(request: Request) -> Response:
    """What waits."""
    only(request, set())
    return json_reply({"approvals": await call(service_of(request).approvals, caller_of(request))})


@routes.post("/approvals/{approval}")
async def decide(request: Request, approval: str, body: DecisionBody) -> Response:
    """Approve or refuse."""
    only(request, set())
    return json_reply(await call(service_of(request).decide, caller_of(request), approval, body.decision, body.note))
