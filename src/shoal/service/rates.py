"""How often one person may ask: a bucket that fills at a steady rate and holds a burst."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import struct
import tempfile
import threading
import time
from dataclasses import field
from pathlib import Path
from typing import Protocol

from shoal.errors import ShoalError
from shoal.frozen import dataclass

LIMITS = {"explain": (20.0, 40.0), "query": (2.0, 10.0), "token": (1.0, 40.0), "sign-in": (1.0, 40.0)}
"""Requests per second, and how many at once. New tokens and sessions cost a row and a line of the log, which stay."""
MOST_PEOPLE = 100_000


class Buckets(Protocol):
    """One bucket for each name."""

    def take(self, name: str, rate: float, burst: float) -> bool:
        """Takes one from a bucket; False if it is empty."""


class OwnBuckets:
    """Those of one process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str, rate: float, burst: float) -> bool:
        """See `Buckets`."""
        now = time.monotonic()
        with self._lock:
            if len(self._kept) > MOST_PEOPLE:
                self._kept.clear()
            level, before = self._kept.get(name, (burst, now))
            taken, level = _taken(level, now - before, rate, burst)
            self._kept[name] = level, now
        return taken


@dataclass(slots=True)
class Rates:
    """The limits of one process, or of all processes of a service where these share their buckets."""

    on: bool = True
    buckets: Buckets = field(default_factory=OwnBuckets)

    def take(self, person: str, what: str) -> None:
        """E_RATE if the bucket is empty."""
        if self.on and not self.buckets.take(f"{what} {person}", *LIMITS[what]):
            raise ShoalError("E_RATE", "Too many requests in a short time.", hint="Wait a second and send it again.")


class SharedBuckets:
    """Those of processes that are forked from this one, in memory that they share.

    A bucket lies in one of the few places that its name points to. Where all of these are taken, the one that was not used for
    longest is forgotten. A lock on a file guards them, because that of a process that dies is let go.
    """

    SETS, PLACES = 4096, 8
    _KEPT = struct.Struct("=16sdd")
    _KEY = slice(0, 16)

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self.SETS * self.PLACES * self._KEPT.size)
        self._file, name = tempfile.mkstemp(prefix="shoal-")  # open for as long as the process runs
        Path(name).unlink()
        self._lock = threading.Lock()

    def take(self, name: str, rate: float, burst: float) -> bool:
        """See `Buckets`."""
        key = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
        number = int.from_bytes(key[16:20], "big") % self.SETS
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, number)
            try:
                return self._take(key[self._KEY], number, rate, burst)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    def _take(self, key: bytes, number: int, rate: float, burst: float) -> bool:
        now, size = time.monotonic(), self._KEPT.size
        places = range(number * self.PLACES * size, (number + 1) * self.PLACES * size, size)
        kept = {place: self._KEPT.unpack_from(self._memory, place) for place in places}
        place = next((each for each, (of, _, _) in kept.items() if of == key), None)
        if place is None:
            place = min(kept, key=lambda each: float(kept[each][2]))
            kept[place] = key, burst, now
        _, level, before = kept[place]
        taken, level = _taken(level, now - before, rate, burst)
        self._KEPT.pack_into(self._memory, place, key, level, now)
        return taken


def _taken(level: float, seconds: float, rate: float, burst: float) -> tuple[bool, float]:
    """Whether there is one to take, and what is left."""
    level = min(burst, level + max(0.0, seconds) * rate)
    return (True, level - 1) if level >= 1 else (False, level)
