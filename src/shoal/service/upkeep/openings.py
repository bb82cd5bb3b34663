"""Data sets on their way to being open, each in a thread of its own: a source that hangs keeps nobody from the others."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long after its beginning somebody who needs it waits for it: nobody waits again for what took longer."""
LONG_SECONDS = 5.0
MOST_WAITING = 16
"""For one that takes long. Each holds a thread of the service, and others need some too."""


class NotYetError(Exception):
    """It is not open, and may never be."""


class Opening(Generic[T]):
    """One attempt."""

    def __init__(self, version: int, work: Callable[[], T], *, is_first: bool) -> None:
        self.version = version
        self.is_first = is_first
        """Whether this version was never tried before."""
        self._work = work
        self._began = time.monotonic()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._waiting = 0
        self._opened: list[T] = []
        self._error: Exception | None = None

    def start(self) -> None:
        """Begins, elsewhere."""
        threading.Thread(target=self._run, name="shoal-opening", daemon=True).start()

    def _run(self) -> None:
        try:
            self._opened.append(self._work())
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error
        finally:
            self._done.set()

    @property
    def is_over(self) -> bool:
        """Whether it is open, or cannot be opened."""
        return self._done.is_set()

    def wait(self, seconds: float) -> None:
        """Until it is over, or this long after its beginning."""
        self._done.wait(max(0.0, self._began + seconds - time.monotonic()))

    def result(self) -> T:
        """What was opened, or the error; `NotYetError` if that takes too long, or too many wait for it already."""
        with self._lock:
            if self._waiting >= MOST_WAITING and time.monotonic() - self._began > LONG_SECONDS:
                raise NotYetError
            self._waiting += 1
        try:
            self.wait(PATIENCE_SECONDS)
            if not self.is_over:
                raise NotYetError
        finally:
            with self._lock:
                self._waiting -= 1
        if isinstance(self._error, ShoalError):
            raise ShoalError(self._error.code, self._error.message, hint=self._error.hint) from None
        if self._error is not None:
            raise self._error
        return self._opened[0]
