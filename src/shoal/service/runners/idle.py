"""Idle threads: one is called for each piece of work, the most recently active first.

Its process and processor caches are warm; the others sleep on.
"""

from __future__ import annotations

import threading


class Idle:
    """The waiting threads; the last one is called first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[threading.Event] = []
        self._called = 0
        """Calls that found nobody waiting: the next thread may have looked before the call, so it looks again."""

    def wait(self, seconds: float, *, has_worked: bool) -> bool:
        """Waits for a call, or until this time has passed: whether it was called. A thread that has not worked queues last."""
        called = threading.Event()
        with self._lock:
            if self._called:
                self._called = 0
                return True
            self._waiting.insert(len(self._waiting) if has_worked else 0, called)
        if called.wait(seconds):
            return True
        with self._lock:
            if called not in self._waiting:
                return True
            self._waiting.remove(called)
        return False

    def call_one(self) -> bool:
        """Calls one of them, and says whether one was waiting; nobody is called twice."""
        with self._lock:
            if self._waiting:
                self._waiting.pop().set()
                return True
            self._called = 1
            return False

    def call_all(self) -> None:
        """Calls every waiting thread, and the next one to arrive."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().set()
            self._called = 1
