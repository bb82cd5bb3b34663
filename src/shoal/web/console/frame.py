"""The frame of every page: who is signed in, and what is waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.web.calling import call, service_of
from shoal.web.console.forms import Refused
from shoal.web.console.rendering import page, session_of
from shoal.web.errors import RETRY_AFTER, status_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def framed(
    request: Request, template: str, status: int = 200, refused: Refused | None = None, **context: Any
) -> Response:
    """A page for somebody who is signed in; after a refused form with its error, and what was typed."""
    error = None if refused is None else refused.error
    status = status if error is None else status_of(error.code)
    service, caller = service_of(request), session_of(request).caller
    waiting = len(await call(service.approvals, caller)) if caller.is_custodian else 0
    found = await call(page, request, template, status, waiting=waiting, refused=refused or Refused(), **context)
    if error is not None and error.code in RETRY_AFTER:
        found.headers["Retry-After"] = RETRY_AFTER[error.code]
    return found
