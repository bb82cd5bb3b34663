"""Connections: those whose request does not arrive in time are closed, and a reply leaves in one piece.

Many connections that send a byte now and then would keep all others out.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.web.errors import bare_page

if TYPE_CHECKING:
    import asyncio

    from shoal.web.operation.sharing import Seat

_REASONS = {
    "Missing mandatory Host: header": "it names no host",
    "Found multiple Host: headers": "it names its host more than once",
}
"""What is wrong with a request; everything else that the parser says may hold what was sent."""
_LOGGER = logging.getLogger("shoal.web")


class InOnePiece:
    """A transport that keeps the head of a reply until its first bytes follow: whoever waits for it is woken once."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Every reply ends with one more write, if only of nothing."""
        if not self._head and data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            return
        self._transport.write(self._taken() + data)

    def close(self) -> None:
        """What is kept goes first."""
        if self._head:
            self._transport.write(self._taken())
        self._transport.close()

    def _taken(self) -> bytes:
        head, self._head = self._head, b""
        return head


class PromptProtocol(H11Protocol):
    """A request's headers may take as long as a connection may be idle; then the connection is closed."""

    _late: asyncio.TimerHandle | None = None
    counted_at: ClassVar[Seat | None] = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A new connection must send a request."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", InOnePiece(transport))
        if self.counted_at is not None:
            self.counted_at.came()
        self._expect()

    def data_received(self, data: bytes) -> None:
        """The time of a request begins with its first byte, and ends with its last header."""
        if self._late is None and self._is_between_requests:
            self._expect()
        super().data_received(data)
        if not self._is_between_requests:
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._forget()
        if self.counted_at is not None:
            self.counted_at.went()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn has it
        """What cannot be read as a request: people get a page, and whoever runs the service the reason."""
        why = _REASONS.get(str(sys.exc_info()[1]), "it is not HTTP")
        _LOGGER.warning("refused (400): a request cannot be read, %s", why)
        page = bare_page(400, "That did not work", f"The request cannot be read: {why}.")
        head = [*page.raw_headers, (b"connection", b"close")]
        for event in (h11.Response(status_code=400, headers=head), h11.Data(data=page.body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
        self._late = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None
