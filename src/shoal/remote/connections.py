"""HTTP/1.1 to one service, over connections that are kept.

Written on the standard library: a small request takes a quarter of the time that a general client needs. If the environment
names a proxy for the address, httpx speaks to it.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import urllib.request
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from shoal.errors import ShoalError, missing_extra
from shoal.frozen import dataclass
from shoal.remote.replies import NotWhole, read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 90.0


class Lost(Exception):  # noqa: N818 - sending again usually mends it
    """No reply arrived."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and a body."""

    status_code: int
    content: bytes = b""

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.content)


class Client(Protocol):
    """What a session needs of HTTP."""

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        parameters: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Reply:
        """The reply to one request, with `body` as JSON; `Lost` if there is none."""

    def close(self) -> None:
        """Lets go of connections."""


def client_of(base: str) -> Client:
    """A client for a service at this address."""
    parts = urlsplit(base)
    return Proxied(base) if parts.scheme == "https" and _has_proxy(parts.hostname or "") else Direct(parts)


def _has_proxy(host: str) -> bool:
    """Whether the environment names a proxy for a host elsewhere; what is sent to this machine never leaves it."""
    named = urllib.request.getproxies()
    return ("https" in named or "all" in named) and not urllib.request.proxy_bypass(host)


class Direct:
    """Connections of our own; any number of threads may ask."""

    def __init__(self, base: SplitResult) -> None:
        self._base = base
        self._idle: deque[socket.socket] = deque()
        self._tls = _trusting() if base.scheme == "https" else None

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        parameters: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Reply:
        """See `Client`."""
        message = _message(method, self._base.netloc, _target(self._base.path + path, parameters), headers, body)
        try:
            connection = self._taken()
            try:
                return self._asked(connection, message)
            except BaseException:
                connection.close()
                raise
        except ssl.SSLCertVerificationError as error:
            raise _not_trusted(error) from None
        except (OSError, NotWhole):
            raise Lost from None

    def _asked(self, connection: socket.socket, message: bytes) -> Reply:
        connection.sendall(message)  # in one piece: the service is woken once
        with connection.makefile("rb") as stream:
            reply = read_reply(stream)
        if reply.is_last:
            connection.close()
        else:
            self._idle.append(connection)
        return Reply(reply.status, reply.body)

    def _taken(self) -> socket.socket:
        """The connection used last, unless the service has closed it; else a new one."""
        with suppress(IndexError):
            while True:
                kept = self._idle.pop()
                if not _has_something(kept):
                    return kept
                kept.close()
        return self._opened()

    def _opened(self) -> socket.socket:
        host = self._base.hostname or ""
        connection = socket.create_connection((host, self._base.port or (443 if self._tls else 80)), TIMEOUT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """See `Client`."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class Proxied:
    """Through the proxy that the environment names."""

    def __init__(self, base: str) -> None:
        try:
            import httpx
        except ImportError:
            raise missing_extra("client", "A session over HTTP through a proxy") from None
        self._base, self._lost = base, httpx.TransportError
        self._client = httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False)

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        parameters: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Reply:
        """See `Client`."""
        _require_printable(*headers.values())
        url = self._base + _target(path, parameters)
        try:
            reply = self._client.request(method, url, headers=dict(headers), json=body)
        except self._lost:
            raise Lost from None
        return Reply(reply.status_code, reply.content)

    def close(self) -> None:
        """See `Client`."""
        self._client.close()


def _target(path: str, parameters: Mapping[str, str] | None) -> str:
    return quote(path, safe="/%") + (f"?{urlencode(parameters)}" if parameters else "")


def _message(method: str, host: str, target: str, headers: Mapping[str, str], body: object) -> bytes:
    """A whole request."""
    _require_printable(host, *headers.values())
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if body is None:
        return "\r\n".join([*lines, "", ""]).encode()
    content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content


def _require_printable(*texts: str) -> None:
    """A line break in a header would begin another."""
    if not all(text.isascii() and text.isprintable() for text in texts):
        raise ShoalError("E_USAGE", "Tokens, keys and addresses have printable ASCII characters only.")


def _has_something(connection: socket.socket) -> bool:
    """Whether a connection that should be silent has been closed, or speaks out of turn."""
    watched = select.poll()
    watched.register(connection, select.POLLIN)
    return bool(watched.poll(0))


def _not_trusted(error: ssl.SSLCertVerificationError) -> ShoalError:
    """Asking again would change nothing."""
    return ShoalError(
        "E_SOURCE",
        f"The certificate of the service is not trusted: {error.verify_message.rstrip('.')}.",
        hint="Set SSL_CERT_FILE to the certificate of the authority that issued it.",
    )


def _trusting() -> ssl.SSLContext:
    """The authorities that the system trusts, and those of certifi if it is installed."""
    context = ssl.create_default_context()
    with suppress(ImportError):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
