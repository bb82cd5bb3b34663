"""Errors over HTTP: the library's own, each code with one status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from shoal.errors import QUERY_CODES, ShoalError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS = {
    **dict.fromkeys(QUERY_CODES, 400),
    "E_POLICY": 403,
    "E_BUDGET": 402,
    "E_USAGE": 400,
    "E_CATALOG": 400,
    "E_AUTH": 401,
    "E_FORBIDDEN": 403,
    "E_SUSPENDED": 403,
    "E_NOT_FOUND": 404,
    "E_CANCELLED": 409,
    "E_GONE": 410,
    "E_IDEMPOTENCY": 422,
    "E_RATE": 429,
    "E_EXECUTION": 502,
    "E_BUSY": 503,
    "E_LEDGER": 503,
    "E_SOURCE": 503,
    "E_MISSING_EXTRA": 501,
    "E_INTERNAL": 500,
}
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
RETRY_AFTER = {"E_RATE": "1", "E_BUSY": "5", "E_LEDGER": "5", "E_SOURCE": "30"}


def status_of(code: str) -> int:
    """The status of an error; an unlisted code is our bug."""
    return STATUS.get(code, 500)


def error_reply(error: ShoalError | Mapping[str, Any], status: int | None = None) -> Response:
    """`{"error": …}`, the same bytes for the same error everywhere."""
    said = error.to_dict() if isinstance(error, ShoalError) else dict(error)
    code = str(said["code"])
    headers = {"Retry-After": RETRY_AFTER[code]} if code in RETRY_AFTER else {}
    if code == "E_AUTH":
        headers["WWW-Authenticate"] = "Bearer"
    return json_reply({"error": said}, status or status_of(code), headers)


def json_reply(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that every parser accepts."""
    return Response(json_bytes(data), status, dict(headers or {}), "application/json")


def json_bytes(data: Any) -> bytes:
    """The same without a reply around it."""
    return _JSON.encode(data).encode(errors="replace")
