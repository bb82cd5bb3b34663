"""The socket that strangers reach: counts what they send, before the library behind it has read it.

That library (gRPC, as pyarrow builds it) reads a message of any size before anybody can look at its token, and has no setting for
it. So it listens on a socket of this process's own, and everything passes here. HTTP/2 says in nine bytes before each frame which
call it belongs to and how long it is; nothing else is looked at. A call ends when its last reply has left.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterator

MOST_BYTES = 2 * 2**20
"""Of all open calls of a connection together: twice what HTTP takes in a body."""
MOST_CALLS = 100
MOST_CONNECTIONS = 128
"""Where all are taken, a new one takes the place of the one that has waited longest for nothing."""
HANDSHAKE_SECONDS = 10.0
FIRST_CALL_SECONDS = 30.0
"""Who connects and asks nothing does not stay."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_READ = 65_536
_DATA, _HEADERS, _RESET, _CONTINUED = 0, 1, 3, 9
_LAST = 0x1
_LOGGER = logging.getLogger("shoal.web")


class TooMuchError(Exception):
    """The connection is closed."""


class Frames:
    """The heads of frames in one direction of a connection, from pieces of any size."""

    def __init__(self, preface: bytes = b"") -> None:
        self._preface = preface
        self._head = bytearray()
        self._left = 0

    def read(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """(type, flags, call, length) of each frame that begins here."""
        at = 0
        if self._preface:
            at = min(len(self._preface), len(data))
            if data[:at] != self._preface[:at]:
                raise TooMuchError
            self._preface = self._preface[at:]
        while at < len(data):
            if self._left:
                passed = min(self._left, len(data) - at)
                self._left -= passed
                at += passed
                continue
            needed = data[at : at + 9 - len(self._head)]
            self._head += needed
            at += len(needed)
            if len(self._head) == 9:
                head, self._head = bytes(self._head), bytearray()
                self._left = int.from_bytes(head[:3], "big")
                yield head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFF_FFFF, self._left


class Calls:
    """The open calls of one connection, and how many bytes each has sent."""

    def __init__(self) -> None:
        self._asked, self._replied = Frames(_PREFACE), Frames()
        self._open: dict[int, int] = {}
        self._whole: set[int] = set()
        self.has_asked = False
        self.idle_since = time.monotonic()

    def asked(self, data: bytes) -> None:
        """What a stranger sent; `TooMuchError` as soon as a frame announces more than there is room for."""
        for kind, flags, call, length in self._asked.read(data):
            if kind in {_DATA, _HEADERS, _CONTINUED}:
                self._open[call] = self._open.get(call, 0) + length
                self.has_asked = True
                if kind != _CONTINUED and flags & _LAST:
                    self._whole.add(call)
            elif kind == _RESET:
                self._end(call)
            if len(self._open) > MOST_CALLS or max(length, sum(self._open.values())) > MOST_BYTES:
                raise TooMuchError

    def replied(self, data: bytes) -> None:
        """What the library sent."""
        for kind, flags, call, _ in self._replied.read(data):
            if kind == _RESET or (kind in {_DATA, _HEADERS} and flags & _LAST):
                self._end(call)

    def _end(self, call: int) -> None:
        self._open.pop(call, None)
        if call in self._whole:
            self._whole.discard(call)
            self.idle_since = time.monotonic()

    @property
    def is_answered(self) -> bool:
        """Whether nothing that was asked to its end still has to be answered."""
        return not self._whole


class Front:
    """Accepts connections in a thread of its own, and passes them on to a socket of this machine."""

    def __init__(self, listening: socket.socket, inner: str, tls: ssl.SSLContext | None) -> None:
        self._listening, self._inner, self._tls = listening, inner, tls
        self._connections: dict[asyncio.Task[None], Calls] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="shoal-flight-front", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        patience = None if self._tls is None else HANDSHAKE_SECONDS
        server = self._loop.run_until_complete(
            asyncio.start_server(
                self._accepted, sock=self._listening, ssl=self._tls, limit=_READ, ssl_handshake_timeout=patience
            )
        )
        self._loop.run_forever()
        server.close()
        for task in self._connections:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._connections, return_exceptions=True))
        self._loop.close()

    def close(self) -> None:
        """No new connections, and no replies to old ones."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or not self._has_room():
            writer.close()
            return
        calls = self._connections[task] = Calls()
        try:
            await self._passed_on(reader, writer, calls)
        except (TooMuchError, TimeoutError):
            _LOGGER.warning("a connection to Flight SQL sent too much, or nothing, and was closed")
        except (OSError, asyncio.CancelledError):
            pass  # either side went away
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _has_room(self) -> bool:
        """Whether one more connection may stay. A stranger who holds all of them and asks nothing shuts nobody out."""
        if len(self._connections) < MOST_CONNECTIONS:
            return True
        idle = [task for task, calls in self._connections.items() if calls.is_answered]
        if not idle:
            return False
        longest = min(idle, key=lambda task: self._connections[task].idle_since)
        del self._connections[longest]
        longest.cancel()
        return True

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: Calls) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._inner, limit=_READ)
        ways = [
            asyncio.ensure_future(_passed(reader, inner_writer, calls.asked)),
            asyncio.ensure_future(_passed(inner_reader, writer, calls.replied)),
        ]
        try:
            done, _ = await asyncio.wait(ways, timeout=FIRST_CALL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done and not calls.has_asked:
                raise TimeoutError
            if not done:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            inner_writer.close()


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], None]) -> None:
    while data := await reader.read(_READ):
        seen(data)
        writer.write(data)
        await writer.drain()
