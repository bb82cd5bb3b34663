"""One deadline for the whole of a query, in processor seconds, enforced by interrupting whatever the engine is doing.

A query that never ends is an answer: it says that something held for the row it hung on. Time on the clock alone would make
a busy machine look like a hanging query, so processor time counts, shared evenly among the queries that run at the moment;
the clock has four times as long and catches what waits without working.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shoal.engines.base import EngineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_SECONDS = 300.0
"""Of processor time; a catalog may say otherwise (`max_seconds_per_query`)."""
CLOCK_FACTOR = 4
TICK_SECONDS = 0.1


class Deadline:
    """How long one query may still work; `check` raises once it has passed, and the watch interrupts the engine."""

    def __init__(self, processor_seconds: float) -> None:
        self._processor_left = processor_seconds
        self._ends = time.monotonic() + CLOCK_FACTOR * processor_seconds
        self.passed = False

    def check(self) -> None:
        """Raises `EngineFailure` once the deadline has passed."""
        if self.passed:
            raise EngineFailure

    @property
    def clock_seconds_left(self) -> float:
        """How long the clock may still run; what works elsewhere is held to it."""
        return max(0.0, self._ends - time.monotonic())

    def allow(self, clock_seconds: float) -> None:
        """Gives a query as long as this on the clock, where most of its work is done elsewhere."""
        self._ends = time.monotonic() + clock_seconds

    def spend(self, processor_seconds: float) -> None:
        """Takes this query's share of the processor time of the last tick."""
        self._processor_left -= processor_seconds
        self.passed = self.passed or self._processor_left <= 0 or time.monotonic() >= self._ends

    @contextmanager
    def stops(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While inside, `interrupt` is called as soon as the deadline has passed, and again until the work gives in."""
        entry = (self, interrupt)
        _WATCH.add(entry)
        try:
            yield
        finally:
            _WATCH.remove(entry)


class _Watch:
    """One thread for all running queries; it ends when there are none."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew: a forked child has neither the thread nor the queries, and its lock may be held by nobody."""
        self._lock = threading.Lock()
        self._watched: list[tuple[Deadline, Callable[[], None]]] = []
        self._thread: threading.Thread | None = None

    def add(self, entry: tuple[Deadline, Callable[[], None]]) -> None:
        with self._lock:
            self._watched.append(entry)
            if self._thread is None or not self._thread.is_alive():  # a forked child has the object without the thread
                self._thread = threading.Thread(target=self._run, name="shoal-deadline", daemon=True)
                self._thread.start()

    def remove(self, entry: tuple[Deadline, Callable[[], None]]) -> None:
        with self._lock:
            self._watched.remove(entry)

    def _run(self) -> None:
        before = time.process_time()
        while True:
            time.sleep(TICK_SECONDS)
            now = time.process_time()
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                self._tick(now - before)
            before = now

    def _tick(self, processor_seconds: float) -> None:
        running = {id(deadline): deadline for deadline, _ in self._watched}
        for deadline in running.values():
            deadline.spend(processor_seconds / len(running))
        for deadline, interrupt in self._watched:
            if deadline.passed:
                with suppress(Exception):  # a connection that was closed meanwhile has nothing to interrupt
                    interrupt()


_WATCH = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)
