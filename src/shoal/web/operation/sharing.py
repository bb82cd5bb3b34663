"""Connections are shared evenly between the processes that listen at one socket.

Whichever process woke first would take every connection that waits, and plan for all of them, while the others run what it planned.
A process that has more connections than another leaves a new one to that one, for a moment: should it not come, whoever is there
takes it.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections import deque
from typing import Any

MOMENT_SECONDS = 0.005
NAP_SECONDS = 0.0002
COMING_SECONDS = 10.0
_NUMBER = struct.Struct("=q")
_NOBODY = 2**62


class Seats:
    """How many connections each of some processes has: in memory that they share, made before they are forked."""

    def __init__(self, number: int) -> None:
        self._memory = mmap.mmap(-1, number * _NUMBER.size)
        self._number = number
        for seat in range(number):
            self.leave(seat)

    def of(self, seat: int) -> int:
        """How many the process in this seat has; very many if nobody sits there."""
        return int(_NUMBER.unpack_from(self._memory, seat * _NUMBER.size)[0])

    def put(self, seat: int, connections: int) -> None:
        """It has so many now."""
        _NUMBER.pack_into(self._memory, seat * _NUMBER.size, connections)

    def leave(self, seat: int) -> None:
        """Nobody sits there any more: nothing is left to them."""
        self.put(seat, _NOBODY)

    def fewest_beside(self, seat: int) -> int:
        """How many that of the others has that has the fewest."""
        return min((self.of(other) for other in range(self._number) if other != seat), default=_NOBODY)


class Seat:
    """One process's: it counts its own connections, from none when it sits down.

    One that was accepted counts at once, for as long as it may take to be made: one that fails while it agrees on TLS is never
    heard of again.
    """

    def __init__(self, seats: Seats, number: int) -> None:
        self._seats, self._number = seats, number
        self._connections = 0
        self._coming: deque[float] = deque()
        self._left_at = float("-inf")
        self._tell()

    def accepted(self) -> None:
        """One more is coming."""
        self._coming.append(time.monotonic())
        self._tell()

    def came(self) -> None:
        """One more connection."""
        if self._coming:
            self._coming.popleft()
        self._connections += 1
        self._tell()

    def went(self) -> None:
        """One less."""
        self._connections -= 1
        self._tell()

    def _tell(self) -> int:
        while self._coming and time.monotonic() - self._coming[0] > COMING_SECONDS:
            self._coming.popleft()
        number = self._connections + len(self._coming)
        self._seats.put(self._number, number)
        return number

    def leaves(self) -> bool:
        """Whether the next connection is left to another process, which has fewer and may come for it any moment."""
        if self._tell() <= self._seats.fewest_beside(self._number):
            return False
        now = time.monotonic()
        if now - self._left_at > 2 * MOMENT_SECONDS:  # another one than before
            self._left_at = now
        return now - self._left_at < MOMENT_SECONDS


class SharedListener(socket.socket):
    """A listening socket that several processes accept from; each sits down after it was forked."""

    seat: Seat | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """As `socket.accept`; a connection that is left to another process is none that waits here."""
        if self.seat is not None and self.seat.leaves():
            time.sleep(NAP_SECONDS)
            raise BlockingIOError
        found = super().accept()
        if self.seat is not None:
            self.seat.accepted()
        return found
