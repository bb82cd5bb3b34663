"""What every request passes before it is processed: host, sizes, a token; and the headers of every reply.

A plain ASGI application around the other one: a request that stops here costs no thread and touches no data set.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import field
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.browser.sessions import MOST_SECONDS
from shoal.service.people import unknown_caller
from shoal.web.calling import call
from shoal.web.console.rendering import internal_error_page
from shoal.web.errors import error_as_page, error_reply
from shoal.web.operation.proxy import caller_named, refuse_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.responses import Response

    from shoal.service.people import Caller
    from shoal.service.service import Service
    from shoal.web.operation.proxy import Proxy

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_SECONDS = 10
"""How long a request may take to arrive."""
LARGEST_BODY = 1024 * 1024
SHORT_BODY = 16 * 1024
"""Read in less time than it takes to hand it to a thread, nearly."""
MOST_HEADERS = 100
LARGEST_HEADERS = 16 * 1024
DEEPEST = 20
LONGEST_NAME = 100
MOST_REASONS = 100
"""Reasons for refusals that the process log has: unknown hosts, requests that a proxy did not send."""
PROBES = frozenset({"/v1/health", "/v1/ready"})
"""Paths for whoever watches the process, from anywhere."""
OPEN = PROBES | {"/openapi.json"}
"""Paths that need no token."""
COOKIES = {False: "shoal_session", True: "__Host-shoal_session"}
"""The cookie of a session, without and with TLS."""
HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        b" form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
_LOGGER = logging.getLogger("shoal.web")


@dataclass(frozen=True)
class Gate:
    """The application behind its gate."""

    inner: Application
    service: Service
    hosts: frozenset[str]
    secure: bool = False
    """Whether browsers connect over TLS."""
    proxy: Proxy | None = None
    """The proxy that may name people."""
    _refused: set[str] = field(default_factory=set)
    """Reasons for refusals that the process log has."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        sent = _Sent(send)
        try:
            body = await self._checked(scope, receive)
            sent.cookie = scope.get("state", {}).get("new_cookie")
            await self.inner(scope, _again(body, receive), sent)
        except ShoalError as error:
            await _refusal(scope["path"], error)(scope, receive, sent)
        except Exception as error:  # noqa: BLE001 - a bug of ours: counted, never told
            self.service.bugs += 1
            _LOGGER.error("%s %s: %s", scope["method"], scope["path"], type(error).__name__)  # noqa: TRY400 - same
            if not sent.started:
                reply = internal_error_page() if is_page(scope["path"]) else error_reply(INTERNAL)
                await reply(scope, receive, sent)

    async def _checked(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that may proceed; its caller is in the scope's state."""
        headers = scope["headers"]
        if len(headers) > MOST_HEADERS or sum(len(n) + len(v) for n, v in headers) > LARGEST_HEADERS:
            raise ShoalError("E_LIMITS", TOO_MANY_HEADERS)
        self._require_known_host([value for name, value in headers if name == b"host"])
        if not scope.get("query_string", b"").isascii():
            raise ShoalError("E_USAGE", "An address has ASCII characters only; others are written as %XX.")
        named = None if scope["path"] in PROBES else self._named(scope, headers)
        try:
            await self._admit(scope, headers, named)
        except ShoalError as error:
            if named is not None and error.code == "E_AUTH":
                self._warn(
                    401, f"the proxy names {named[:LONGEST_NAME]!r}, who has no account here, or another's token"
                )
            raise
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                body = await _body(receive)
        except TimeoutError:
            raise ShoalError("E_USAGE", TOO_SLOW) from None
        if body and not is_page(scope["path"]):
            await self._read(headers, body)
        return body

    async def _admit(self, scope: Scope, headers: list[tuple[bytes, bytes]], named: str | None) -> None:
        """Puts the caller into the scope's state; E_AUTH for whoever needs to be known and is not."""
        if is_page(scope["path"]):
            await self._sign_in(scope, headers, named)
        elif scope["path"] not in OPEN:
            scope.setdefault("state", {})["caller"] = await self._called_by(headers, named)

    def _require_known_host(self, hosts: list[bytes]) -> None:
        """421 for any other name."""
        if len(hosts) == 1 and _host_of(hosts[0]) in self.hosts:
            return
        name = ", ".join(host.decode("latin-1") for host in hosts)[:LONGEST_NAME]
        self._warn(421, f"the host {name!r} is unknown; --public-url or --allow-host names it")
        raise ShoalError("E_USAGE", WRONG_HOST, hint="Whoever runs it names it: --public-url URL or --allow-host NAME.")

    def _warn(self, status: int, why: str) -> None:
        """Why somebody was refused, for whoever runs the service: one line of the process log for each reason."""
        if why and why not in self._refused and len(self._refused) < MOST_REASONS:
            self._refused.add(why)
            _LOGGER.warning("refused (%d): %s", status, why)

    async def _called_by(self, headers: list[tuple[bytes, bytes]], named: str | None) -> Caller:
        """The caller; a database may take its time, and nobody else waits for that."""
        if self.service.store.is_near:
            return self._caller(headers, named)
        return await call(self._caller, headers, named)

    @staticmethod
    async def _read(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Long bodies are read in a thread: nobody else waits for that."""
        if len(body) <= SHORT_BODY:
            check_json(headers, body)
        else:
            await call(check_json, headers, body)

    def _named(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> str | None:
        """The person that a proxy names."""
        if self.proxy is None:
            refuse_names(headers)
            return None
        self._warn(401, self.proxy.complaint(scope.get("client"), headers))
        return self.proxy.named(scope.get("client"), headers)

    def _caller(self, headers: list[tuple[bytes, bytes]], named: str | None) -> Caller:
        if named is None:
            return self.service.people.caller(_bearer(headers))
        has_token = any(name == b"authorization" and value.startswith(b"Bearer shoal_") for name, value in headers)
        token = self.service.people.caller(_bearer(headers)) if has_token else None
        return caller_named(self.service.people, named, token)

    async def _sign_in(self, scope: Scope, headers: list[tuple[bytes, bytes]], named: str | None) -> None:
        """A page belongs to the person the cookie names; a token in a header has no effect here, and a cookie has none under /v1.

        A person named by a proxy is signed in with their first page.
        """
        secret = _cookie(headers, COOKIES[self.secure])
        found = await call(self.service.sessions.find, secret) if secret else None
        state = scope.setdefault("state", {})
        if (
            named is not None
            and not scope["path"].startswith("/static/")
            and (found is None or found.caller.name != named)
        ):
            secret = await call(self.service.sessions.begin_with_proxy, named)
            found = await call(self.service.sessions.find, secret)
            state["new_cookie"] = cookie_header(secret, secure=self.secure)
        state["secret"], state["session"], state["secure"] = secret, found, self.secure
        state["proxy"] = None if named is None else self.proxy
        if found is not None:
            state["caller"] = found.caller


def cookie_header(secret: str, *, secure: bool) -> bytes:
    """What makes a browser keep the secret of a session."""
    flags = f"Max-Age={MOST_SECONDS}; Path=/; HttpOnly; SameSite=strict" + ("; Secure" if secure else "")
    return f"{COOKIES[secure]}={secret}; {flags}".encode()


def is_page(path: str) -> bool:
    """Whether a path belongs to the console, for people; the others are for programs."""
    return path not in OPEN and path != "/v1" and not path.startswith("/v1/")


WRONG_HOST = "This service is not known under that name."
TOO_MANY_HEADERS = "The request has too many headers."
TOO_SLOW = "The request took too long to arrive."
TOO_LARGE = "The body of a request has at most 1 MiB."
NOT_JSON = "The body is not JSON: send it as application/json."
_STATUS_AT_THE_GATE = {WRONG_HOST: 421, TOO_MANY_HEADERS: 431, TOO_LARGE: 413, NOT_JSON: 415, TOO_SLOW: 408}
NOT_NAMED = ShoalError(
    "E_AUTH",
    "You are not signed in here: requests come through a proxy that names somebody who is known here, or without one.",
    hint="Ask the data custodian whether you were added, and under which name.",
)
"""The same sentence whatever is missing; people who look at a page have no use for a word about tokens."""
_ROUND = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
INTERNAL = ShoalError("E_INTERNAL", "Something went wrong in the service, which is a bug in shoal.", hint="Report it.")


def _refusal(path: str, error: ShoalError) -> Response:
    """What is sent instead of going on: a page for people, JSON for programs."""
    status = _STATUS_AT_THE_GATE.get(error.message)
    if not is_page(path):
        return error_reply(error, status)
    return error_as_page(NOT_NAMED if error.code == "E_AUTH" else error, status)


class _Sent:
    """Sends a reply with the headers that every reply has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.cookie: bytes | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            known = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *((n, v) for n, v in HEADERS.items() if n not in known)]
            if self.cookie is not None and b"set-cookie" not in known:
                message["headers"].append((b"set-cookie", self.cookie))
        await self._send(message)


def _host_of(value: bytes) -> str:
    """The name without its port."""
    text = value.decode("latin-1").lower()
    return text[: text.index("]") + 1] if text.startswith("[") and "]" in text else text.partition(":")[0]


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or not found[0].startswith(b"Bearer "):
        raise unknown_caller()
    return found[0].removeprefix(b"Bearer ").decode("latin-1")


def _cookie(headers: list[tuple[bytes, bytes]], name: str) -> str:
    """The one cookie of this name; '' if there is none, or more than one."""
    pairs = [pair.strip() for key, value in headers if key == b"cookie" for pair in value.split(b";")]
    found = [pair.partition(b"=")[2] for pair in pairs if pair.partition(b"=")[0] == name.encode()]
    return found[0].decode("latin-1") if len(found) == 1 else ""


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ShoalError("E_USAGE", "The request ended early.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > LARGEST_BODY:
            raise ShoalError("E_LIMITS", TOO_LARGE)
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Replays the body for the application, then passes on whatever follows."""
    given = False

    async def next_message() -> MutableMapping[str, Any]:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return next_message


def check_json(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """JSON of bounded depth, without duplicate keys or NaN: anything parsers could read in different ways is refused."""
    kinds = [value for name, value in headers if name == b"content-type"]
    if len(kinds) != 1 or kinds[0].split(b";")[0].strip().lower() != b"application/json":
        raise ShoalError("E_USAGE", NOT_JSON)
    if _is_deep(body):
        raise ShoalError("E_USAGE", f"The body nests more than {DEEPEST} deep.")
    try:
        json.loads(body, object_pairs_hook=_once, parse_constant=_none_of)
    except (ValueError, RecursionError):
        raise ShoalError("E_USAGE", "The body cannot be read as JSON.", hint="One object, no key twice.") from None


def _is_deep(body: bytes) -> bool:
    """Whether it nests more than is read, counting brackets in strings too.

    Each pass takes away the innermost pairs, as many of them as there are, without a step of ours for each byte.
    """
    brackets, before = body.translate(_ROUND, _NO_BRACKETS), -1
    for _ in range(DEEPEST):
        if len(brackets) in {0, before}:
            break
        before = len(brackets)
        brackets = brackets.replace(b"()", b"")
    return b"()" in brackets or brackets.count(b"(") > DEEPEST


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _none_of(_: str) -> Any:
    raise ValueError
