"""How often one person may ask: a bucket that fills at a steady rate and holds a burst."""

from __future__ import annotations

import threading
import time
from dataclasses import field

from shoal.errors import ShoalError
from shoal.frozen import dataclass

LIMITS = {"explain": (20.0, 40.0), "query": (2.0, 10.0)}
"""Requests per second, and how many at once."""
MOST_PEOPLE = 100_000


@dataclass(slots=True)
class Rates:
    """The buckets of one process."""

    on: bool = True
    _buckets: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, person: str, what: str) -> None:
        """E_RATE if the bucket is empty."""
        if not self.on:
            return
        rate, burst = LIMITS[what]
        now = time.monotonic()
        with self._lock:
            if len(self._buckets) > MOST_PEOPLE:
                self._buckets.clear()
            level, before = self._buckets.get((person, what), (burst, now))
            level = min(burst, level + (now - before) * rate)
            self._buckets[person, what] = (max(0.0, level - 1) if level >= 1 else level, now)
        if level < 1:
            raise ShoalError("E_RATE", "Too many requests in a short time.", hint="Wait a second and send it again.")
