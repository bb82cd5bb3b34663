"""Connections: those whose request does not arrive in time are closed, and a reply leaves in one piece.

Many connections that send a byte now and then would keep all others out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


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

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A new connection must send a request."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", InOnePiece(transport))
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
        super().connection_lost(exc)

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
        self._late = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None
