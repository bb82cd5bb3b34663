"""Ctrl+C and orders to end that wait a moment: from before a charge is written until whoever settles it is ready for them.

A charge that nobody settles looks like a process that died, and that suspends its user. Python raises Ctrl+C anywhere, also
after a commit has reached the disk and before its caller knows; so it is noted, and raised where it can be answered.
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], Any]

HELD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class HeldInterrupts:
    """Notes signals from its making until `let_go`, which passes them on. One that comes again meanwhile is not held.

    Signals reach Python's main thread alone: in any other there is nothing to hold.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._usual: dict[int, Handler] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in HELD:
            usual = signal.getsignal(number)
            if callable(usual):
                self._usual[number] = usual
                with suppress(ValueError):  # another interpreter's main thread may not
                    signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in self._came:
            self._usual[number](number, frame)
        else:
            self._came.append(number)

    def let_go(self) -> None:
        """Signals are what they were; those that came are raised here."""
        usual, self._usual = self._usual, {}
        for number, handler in usual.items():
            with suppress(ValueError):
                signal.signal(number, handler)
        came, self._came = self._came, []
        for number in came:
            usual[number](number, None)
