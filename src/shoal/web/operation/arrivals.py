"""Closes connections whose request does not arrive in time: many that send a byte now and then would keep all others out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


class PromptProtocol(H11Protocol):
    """A request's headers may take as long as a connection may be idle; then the connection is closed."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A new connection must send a request."""
        super().connection_made(transport)
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
