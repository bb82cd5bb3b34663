"""A short way for the request that is sent most: explanations follow typing.

The framework takes as long to find, check and call its handler as the service takes to explain a question it has seen. The
handler, and what it replies, are the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from shoal.web import datasets
from shoal.web.bodies import ExplainBody, read

if TYPE_CHECKING:
    from shoal.web.gate import Application, Receive, Scope, Send


def with_short_way(app: Any) -> Application:
    """The application; it describes the request too, and takes all others."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        name = _explained(scope)
        if name is None:
            await app(scope, receive, send)
            return
        scope["app"] = app
        request = Request(scope, receive)
        reply = await datasets.explain(request, name, read(ExplainBody, await request.body()))
        await reply(scope, receive, send)

    return called


def _explained(scope: Scope) -> str | None:
    """The data set of `POST /v1/datasets/{dataset}/explain`; None for every other request."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    parts = scope["path"].split("/")
    is_it = len(parts) == 5 and parts[:3] == ["", "v1", "datasets"] and parts[3] and parts[4] == "explain"
    return parts[3] if is_it else None
