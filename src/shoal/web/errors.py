"""Errors over HTTP: the library's own, each code with one status."""

from __future__ import annotations

import html
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


def bare_page(status: int, title: str, *sentences: str, headers: Mapping[str, str] | None = None) -> Response:
    """A page for people without template, style and links: those may be the bug, or out of reach under the name that was asked."""
    said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    fits = '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{fits}<title>{html.escape(title)} · shoal</title></head>'
    text = f"{head}<body><main><h1>{html.escape(title)}</h1>{said}</main></body></html>"
    return Response(text.encode(errors="replace"), status, dict(headers or {}), "text/html")


def error_as_page(error: ShoalError, status: int | None = None) -> Response:
    """The same error for people."""
    headers = {"Retry-After": RETRY_AFTER[error.code]} if error.code in RETRY_AFTER else {}
    sentences = [
        error.message,
        *([error.hint] if error.hint else []),
        f"Code {error.code}. Nothing was charged for this.",
    ]
    return bare_page(status or status_of(error.code), "That did not work", *sentences, headers=headers)


def json_reply(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that every parser accepts."""
    return Response(json_bytes(data), status, dict(headers or {}), "application/json")


def json_bytes(data: Any) -> bytes:
    """The same without a reply around it."""
    return _JSON.encode(data).encode(errors="replace")
