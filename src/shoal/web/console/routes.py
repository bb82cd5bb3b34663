"""Every page of the console, and the three files they load."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.service.people import not_found
from shoal.web.console import answers, asking, budget, datasets, meaning, signing_in
from shoal.web.console.custodian import approvals, keeping, log, people, tuning
from shoal.web.console.rendering import static_file

routes = APIRouter(include_in_schema=False)
NOUNS = (signing_in, datasets, asking, answers, budget, tuning, keeping, approvals, people, log, meaning)
"""One module per page."""
FILES = {
    "shoal.css": "text/css; charset=utf-8",
    "shoal.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@routes.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """Only our own files, the same for everybody."""
    del request
    if name not in FILES:
        raise not_found("file")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_file(name), headers=headers, media_type=FILES[name])
