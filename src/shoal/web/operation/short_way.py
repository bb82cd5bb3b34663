"""A short way for the requests that are sent most: explanations follow typing, and dashboards ask again.

The framework takes as long to find, check and call a handler as the service takes to explain a question it has seen. The
handlers, and what they reply, are the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from shoal.web import datasets
from shoal.web.bodies import ExplainBody, QueryBody, read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from shoal.web.gate import Application, Receive, Scope, Send


def with_short_way(app: Any) -> Application:
    """The application; it describes these requests too, and takes all others."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        found = _found(scope)
        if found is None:
            await app(scope, receive, send)
            return
        handler, name = found
        scope["app"] = app
        reply = await handler(Request(scope, receive), name)
        await reply(scope, receive, send)

    return called


async def _explain(request: Request, name: str) -> Response:
    return await datasets.explain(request, name, read(ExplainBody, await request.body()))


async def _query(request: Request, name: str) -> Response:
    body = read(QueryBody, await request.body())
    return await datasets.query(request, name, body, request.headers.get("idempotency-key"))


_HANDLERS: dict[str, Callable[[Request, str], Awaitable[Response]]] = {"explain": _explain, "query": _query}


def _found(scope: Scope) -> tuple[Callable[[Request, str], Awaitable[Response]], str] | None:
    """Who handles `POST /v1/datasets/{dataset}/{verb}`, and the data set; None for every other request."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    parts = scope["path"].split("/")
    if len(parts) != 5 or parts[:3] != ["", "v1", "datasets"] or not parts[3]:
        return None
    handler = _HANDLERS.get(parts[4])
    return None if handler is None else (handler, parts[3])
