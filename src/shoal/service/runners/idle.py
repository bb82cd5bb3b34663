"""Idle threads: one is called for each piece of work, the most recently active first.

Its process and processor caches are warm; the others sleep on.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Work = TypeVar("Work")


class Sleeper(Generic[Work]):
    """One waiting thread."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self.given: Work | None = None

    def call(self, work: Work | None = None) -> None:
        """It goes on: with this piece of work, or to look for some."""
        self.given = work
        self._called.set()

    def sleep(self, seconds: float | None = None) -> bool:
        """Whether it was called within this time."""
        return self._called.wait(seconds)


class Idle(Generic[Work]):
    """The waiting threads; the last one is called first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Sleeper[Work]] = []
        self._called = 0
        """Calls that found nobody waiting: the next thread may have looked before the call, so it looks again."""

    def wait(self, seconds: float, *, has_worked: bool) -> tuple[bool, Work | None]:
        """Waits for a call, or until this time has passed: whether it was called, and the work that it was given.

        A thread that has not worked queues last.
        """
        sleeper: Sleeper[Work] = Sleeper()
        with self._lock:
            if self._called:
                self._called = 0
                return True, None
            self._waiting.insert(len(self._waiting) if has_worked else 0, sleeper)
        if not sleeper.sleep(seconds):
            with self._lock:
                if sleeper in self._waiting:
                    self._waiting.remove(sleeper)
                    return False, None
            sleeper.sleep()  # somebody took it, and calls it in a moment
        return True, sleeper.given

    def take(self) -> Sleeper[Work] | None:
        """One of them, for whoever has work for it and will call it; None if none is waiting."""
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def call_one(self) -> bool:
        """Calls one of them, and says whether one was waiting; nobody is called twice."""
        with self._lock:
            if self._waiting:
                self._waiting.pop().call()
                return True
            self._called = 1
            return False

    def call_all(self) -> None:
        """Calls every waiting thread, and the next one to arrive."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().call()
            self._called = 1
