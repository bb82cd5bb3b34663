"""Replies with large answers: few at once, written to a file a few rows at a time, and sent from there.

Reading an answer is free, so nothing else would bound how much memory and time one person takes from all others. Whoever reads
slowly keeps a file and one of their own places, no thread, and nobody else's turn. Limits depend on released bytes alone.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.web.calling import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shoal.web.gate import Receive, Scope, Send

T = TypeVar("T")
MADE_AT_ONCE = 2
"""In one process, whoever asked."""
OPEN_AT_ONCE = 2
"""Of one person, from the first byte read to the last one sent."""
MOST_WAITING = 16
"""Of one person; they wait without a thread."""
LONGEST_WAIT = 60.0
PIECE = 256 * 1024
PIECES_BETWEEN_LOOKS = 64
"""To look whether a reader is still there reads what else they have sent, which is kept in memory."""


@dataclass(slots=True)
class _Queue:
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPEN_AT_ONCE))
    inside: int = 0


class Places:
    """Who reads a large answer now, in one process; used on its event loop alone."""

    def __init__(self) -> None:
        self._people: dict[str, _Queue] = {}
        self._making = asyncio.Semaphore(MADE_AT_ONCE)
        self._makers = ThreadPoolExecutor(MADE_AT_ONCE, thread_name_prefix="shoal-large")

    @asynccontextmanager
    async def one_of(self, person: str) -> AsyncIterator[None]:
        """A place among this person's own; E_RATE if too many wait for one, E_BUSY if none becomes free."""
        queue = self._people.setdefault(person, _Queue())
        if queue.inside >= OPEN_AT_ONCE + MOST_WAITING:
            hint = "Read one after the other."
            raise ShoalError("E_RATE", "Too many large answers are read at once.", hint=hint)
        queue.inside += 1
        try:
            async with _taken(queue.room):
                yield
        finally:
            queue.inside -= 1
            if not queue.inside:
                self._people.pop(person, None)

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """A turn to decode and write one."""
        async with _taken(self._making):
            yield

    async def made(self, make: Callable[..., T], *args: Any) -> T:
        """Decodes or writes one, in threads of its own: each thread keeps the memory that its largest answer took."""
        return await asyncio.get_running_loop().run_in_executor(self._makers, partial(make, *args))


@asynccontextmanager
async def _taken(room: asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        await asyncio.wait_for(room.acquire(), LONGEST_WAIT)
    except TimeoutError:
        raise ShoalError(
            "E_BUSY", "Other large answers are being read.", hint="Send it again in a few seconds."
        ) from None
    try:
        yield
    finally:
        room.release()


class LargeReply(Response):
    """A reply that is made when it is sent: `make` writes the body into a file and returns the head."""

    def __init__(self, places: Places, person: str, make: Callable[[IO[bytes]], Response]) -> None:
        super().__init__()
        self.raw_headers: list[tuple[bytes, bytes]] = []  # those of the head, and whatever is added to these
        self._places, self._person, self._make = places, person, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """An error before the first byte is an error as everywhere."""
        async with self._places.one_of(self._person):
            with tempfile.TemporaryFile() as body:
                async with self._places.making():
                    if await _is_gone(receive):
                        return
                    head, size = await self._places.made(self._made, body)
                head.headers["content-length"] = str(size)
                headers = [*head.raw_headers, *self.raw_headers]
                await send({"type": "http.response.start", "status": head.status_code, "headers": headers})
                for number in range(-(-size // PIECE)):
                    if number % PIECES_BETWEEN_LOOKS == 1 and await _is_gone(receive):
                        return
                    piece = await call(body.read, PIECE)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _made(self, body: IO[bytes]) -> tuple[Response, int]:
        head = self._make(body)
        size = body.tell()
        body.seek(0)
        return head, size


async def _is_gone(receive: Receive) -> bool:
    """Whether nobody is there any more; does not wait."""
    try:
        async with asyncio.timeout(0):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True
