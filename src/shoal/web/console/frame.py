"""The frame of every page: who is signed in, and what is waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.web.calling import call, service_of
from shoal.web.console.rendering import page, session_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def framed(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A page for somebody who is signed in."""
    service, caller = service_of(request), session_of(request).caller
    waiting = len(await call(service.approvals, caller)) if caller.is_custodian else 0
    return await call(page, request, template, status, waiting=waiting, **context)
