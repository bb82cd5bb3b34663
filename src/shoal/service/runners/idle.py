"""Threads that have nothing to do: one is called for each thing to do, the one that worked last first.

Its process, and what the processor still has of it, are warm; the others sleep on.
"""

from __future__ import annotations

import threading


class Idle:
    """Whoever waits here; the one at the end is called first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[threading.Event] = []
        self._called = 0
        """Calls that found nobody waiting: whoever comes next has looked before the call, perhaps, and looks again."""

    def wait(self, seconds: float, *, has_worked: bool) -> None:
        """Until one is called, or this time has passed. Whoever has not worked since they waited last stands behind the others."""
        called = threading.Event()
        with self._lock:
            if self._called:
                self._called = 0
                return
            self._waiting.insert(len(self._waiting) if has_worked else 0, called)
        if called.wait(seconds):
            return
        with self._lock:
            if called in self._waiting:
                self._waiting.remove(called)

    def call_one(self) -> None:
        """One of them; nobody is called twice."""
        with self._lock:
            if self._waiting:
                self._waiting.pop().set()
            else:
                self._called = 1

    def call_all(self) -> None:
        """Everybody who waits now, and whoever comes next."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().set()
            self._called = 1
