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
from typing import Any

MOMENT_SECONDS = 0.005
NAP_SECONDS = 0.0002
_NUMBER = struct.Struct("=q")


class Seats:
    """How many connections each of some processes has: in memory that they share, made before they are forked."""

    def __init__(self, number: int) -> None:
        self._memory = mmap.mmap(-1, number * _NUMBER.size)
        self._number = number

    def of(self, seat: int) -> int:
        """How many the process in this seat has."""
        return int(_NUMBER.unpack_from(self._memory, seat * _NUMBER.size)[0])

    def put(self, seat: int, connections: int) -> None:
        """It has so many now."""
        _NUMBER.pack_into(self._memory, seat * _NUMBER.size, connections)

    def fewest_beside(self, seat: int) -> int:
        """How many that of the others has that has the fewest."""
        return min((self.of(other) for other in range(self._number) if other != seat), default=self.of(seat))


class Seat:
    """One process's: it counts its own connections, from none when it sits down."""

    def __init__(self, seats: Seats, number: int) -> None:
        self._seats, self._number = seats, number
        self._connections = 0
        self._left_at = float("-inf")
        self._count(0)

    def came(self) -> None:
        """One more connection."""
        self._count(1)

    def went(self) -> None:
        """One less."""
        self._count(-1)

    def _count(self, more: int) -> None:
        self._connections += more
        self._seats.put(self._number, self._connections)

    def leaves(self) -> bool:
        """Whether the next connection is left to another process, which has fewer and may come for it any moment."""
        if self._connections <= self._seats.fewest_beside(self._number):
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
        return super().accept()
