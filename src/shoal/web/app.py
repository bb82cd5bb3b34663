"""The application: mounts the routes, and turns every error into one of ours."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from shoal.errors import ShoalError
from shoal.web import approvals, datasets, health, jobs, log, people, replies
from shoal.web.bodies import not_understood
from shoal.web.console import routes as pages
from shoal.web.console.rendering import error_page, internal_error_page
from shoal.web.errors import error_reply
from shoal.web.gate import INTERNAL, Gate, is_page
from shoal.web.operation.large import Places
from shoal.web.operation.short_way import with_short_way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from shoal.service.service import Service
    from shoal.web.operation.proxy import Proxy

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


def _parameter(name: str, kind: str, low: float, high: float) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": {"type": kind, "minimum": low, "maximum": high}}


def _within(name: str, schema: dict[str, float]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": {"type": "number", **schema}}


_IN_ADDRESS = {
    "/v1/jobs/{job}": [_parameter("wait", "number", 0, jobs.LONGEST_WAIT)],
    "/v1/answers/{answer}": [_within("level", {"exclusiveMinimum": 0, "exclusiveMaximum": 1})],
    "/v1/log": [_parameter("after", "integer", 0, 2**53), _parameter("limit", "integer", 1, 1000)],
    "/v1/meaning": [
        _parameter("epsilon", "number", 1e-10, 1e6),
        _within("delta", {"minimum": 0, "exclusiveMaximum": 1}),
        _parameter("prior", "number", 0, 1),
    ],
}
"""The query parameters of each path; `jobs.only` refuses anything else."""
_STATUS = {
    ("post", "/v1/tokens"): ("201",),
    ("post", "/v1/users"): ("201",),
    ("post", "/v1/allowances"): ("201",),
    ("post", "/v1/approvals"): ("202",),
    ("post", "/v1/datasets/{dataset}/query"): ("200", "202"),
}
"""The success statuses of requests, if not just 200."""
_CONTENT = {
    ("/v1/log/export", "200"): ("application/jsonl",),
    ("/v1/metrics", "200"): ("text/plain",),
    ("/v1/answers/{answer}", "200"): replies.FORMATS,
    ("/v1/datasets/{dataset}/query", "200"): replies.FORMATS,
}
"""What is sent, if not just JSON."""


def application(
    service: Service, hosts: Iterable[str] = LOOPBACK, *, secure: bool = False, proxy: Proxy | None = None
) -> Gate:
    """An ASGI application over a service, known under these hosts; `secure` if browsers connect over TLS."""
    app = FastAPI(
        title="shoal",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.places = Places()
    for noun in (datasets, jobs, people, approvals, log, health, *pages.NOUNS, pages):
        app.router.routes.extend(noun.routes.routes)  # flat on purpose: nested routers are tried one by one, each time
    app.add_exception_handler(ShoalError, _ours)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _bug)
    app.openapi_schema = _described(app.openapi())
    return Gate(with_short_way(app), service, frozenset(host.lower() for host in hosts), secure, proxy)


async def _ours(request: Request, error: Any) -> Response:
    return error_page(request, error) if is_page(request.url.path) else error_reply(error)


async def _bug(request: Request, _: Any) -> Response:
    """Our bug: the gate counts it, and no details are shown."""
    return internal_error_page() if is_page(request.url.path) else error_reply(INTERNAL)


async def _not_understood(_: Request, error: Any) -> Response:
    return error_reply(not_understood(each["loc"][1:] for each in error.errors()))


async def _not_there(request: Request, error: Any) -> Response:
    known = {
        404: ShoalError("E_NOT_FOUND", "There is nothing at this address."),
        405: ShoalError("E_USAGE", "This address does not know that method."),
    }
    status = error.status_code if error.status_code in known else 400
    said = known.get(status, ShoalError("E_USAGE", "The request cannot be understood."))
    reply = error_page(request, said, status) if is_page(request.url.path) else error_reply(said, status)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        reply.headers["Allow"] = ", ".join(sorted(_methods_at(request)))
    return reply


def _methods_at(request: Request) -> set[str]:
    """What the path of a request does support."""
    matching = [r for r in request.app.router.routes if r.matches(request.scope)[0] is not Match.NONE]
    return {method for route in matching for method in getattr(route, "methods", None) or ()}


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with bearer tokens, and with our errors instead of the framework's."""
    schemas = schema["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Error"] = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "hint", "position"],
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": {"type": ["string", "null"]},
                    "position": {"type": ["array", "null"], "items": {"type": "integer"}},
                },
            }
        },
    }
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    refusal = {
        "description": "Refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if method == "get" and path in _IN_ADDRESS:
                operation.setdefault("parameters", []).extend(_IN_ADDRESS[path])
            operation["responses"] = _ends_well(method, path) | {"4XX": refusal, "5XX": refusal}
            if path == "/v1/ready":
                operation["responses"]["503"] = operation["responses"]["200"]
            if path not in {"/v1/health", "/v1/ready"}:
                operation["security"] = [{"token": []}]
    return schema


def _ends_well(method: str, path: str) -> dict[str, Any]:
    return {
        status: {
            "description": "Done" if status != "202" else "It waits",
            "content": {kind: {"schema": {}} for kind in _CONTENT.get((path, status), (replies.JSON,))},
        }
        for status in _STATUS.get((method, path), ("200",))
    }
