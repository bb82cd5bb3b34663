"""As many short runs compute at once as there are processors: a dozen that take turns every millisecond take a quarter longer.

A run that takes longer than a moment gives up its place and goes on: long ones, and those that wait for another server, keep nobody
waiting, and there are as many of them at once as there are slots.
"""

from __future__ import annotations

import threading

MOMENT_SECONDS = 0.05


class Processors:
    """The places of one process of the service."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._charged_waiting = 0
        self._changed = threading.Condition()

    def take(self, *, charged: bool) -> None:
        """Waits for a place. A run that is charged comes first: its reply has a time."""
        with self._changed:
            self._charged_waiting += charged
            self._changed.wait_for(lambda: self._free and (charged or not self._charged_waiting))
            self._charged_waiting -= charged
            self._free -= 1

    def give(self) -> None:
        """Somebody else's turn."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()


class Turn:
    """One run's: it has a place while it computes, unless that takes long."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors
        self._has_place = False

    def begin(self, *, charged: bool = False) -> None:
        """Waits until the run may go on computing."""
        if not self._has_place:
            self._processors.take(charged=charged)
            self._has_place = True

    def end(self) -> None:
        """It waits for something else, has computed for long enough, or has ended."""
        if self._has_place:
            self._has_place = False
            self._processors.give()
