"""Whether it lives, whether it works, what (ε, δ) means."""

from __future__ import annotations

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.accounting.claims.meaning import meaning as meaning_of
from shoal.web.calling import call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import number, only

routes = APIRouter(prefix="/v1", tags=["health"])
READY_SECONDS = 5.0


@routes.get("/health")
async def health(request: Request) -> Response:
    """The process answers."""
    only(request, set())
    return json_reply({"health": "ok"})


@routes.get("/ready")
async def ready(request: Request) -> Response:
    """The store can be written; looked at once in five seconds."""
    only(request, set())
    state = request.app.state
    looked, found = getattr(state, "ready", (0.0, False))
    if time.monotonic() - looked > READY_SECONDS or service_of(request).ending:
        found = await call(service_of(request).ready)
        state.ready = (time.monotonic(), found)
    return json_reply({"ready": found}, 200 if found else 503)


@routes.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counts for Prometheus; no durations of private queries."""
    only(request, set())
    found = await call(service_of(request).metrics, caller_of(request))
    text = "".join(f"shoal_{name} {value}\n" for name, value in found.items())
    return Response(text.encode(), media_type="text/plain; version=0.0.4")


@routes.get("/meaning")
async def meaning(request: Request) -> Response:
    """What (ε, δ) means for a person."""
    only(request, {"epsilon", "delta", "prior"})
    epsilon, delta = number(request, "epsilon", 1.0, 1e-10, 1e6), number(request, "delta", 0.0, 0.0, 1.0)
    prior = number(request, "prior", 0.5, 0.0, 1.0)
    return json_reply(meaning_of(epsilon, delta).to_dict(prior))
