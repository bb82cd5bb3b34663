"""Group commit: charges that wait at one ledger share one transaction, each checked against the sums of those before it.

Whoever comes first leads: opens the transaction, then serves everybody who waits by then. Nobody hears of an outcome before it is
durable.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from shoal.accounting.spending.refusals import MayBeStoredError
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.accounting.spending.pen import Pen
    from shoal.accounting.stores.base import Store, Transaction
    from shoal.accounting.stores.rows import Head

MOST_AT_ONCE = 256
MOST_PAUSES = 5
PAUSE_SECONDS = 0.001
"""A wait for the disk is several times as long."""


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Wish:
    works: tuple[Callable[[Pen], Any], ...]
    asleep: threading.Lock = field(default_factory=_locked)
    """Let go when it is done, or when its thread is to lead. An Event does the same in several times the time."""
    done: bool = False
    value: Any = None
    error: Exception | None = None

    def try_with(self, pen: Pen) -> None:
        """Each step is kept or undone by itself; the last one's value, or the first error, is the outcome."""
        self.value, self.error = None, None
        for work in self.works:
            before = pen.head
            try:
                with pen.transaction.savepoint():
                    self.value = work(pen)
            except (ShoalError, InternalError) as error:
                pen.head, self.error = before, error
                return

    def end(self, error: Exception | None = None) -> None:
        """Its thread may go on."""
        self.error, self.done = error or self.error, True
        self.wake()

    def wake(self) -> None:
        """Its thread goes on; one that is awake finds out before it sleeps next."""
        with suppress(RuntimeError):  # it was let go already
            self.asleep.release()


class _NothingChangedError(Exception):
    """Undoes a transaction in which every wish was refused."""


def _require_change(before: Head, after: Head) -> None:
    if before == after:
        raise _NothingChangedError


class Turns:
    """The queue of one ledger in one process."""

    def __init__(self, store: Store, opened: Callable[[Transaction], Pen], remember: Callable[[Head], None]) -> None:
        self._store = store
        self._opened = opened
        self._remember = remember
        self._start_anew()

    def _start_anew(self) -> None:
        """Also in a forked process: those who waited there are threads of the other one."""
        self._process = os.getpid()
        self._waiting: deque[_Wish] = deque()
        self._leading = threading.Lock()
        self._company = 0
        self._is_put = False
        """Whether everything of the last transaction was written, and it may be stored whatever is said of it."""
        self._complete = threading.Event()

    def do(self, *works: Callable[[Pen], Any]) -> Any:
        """The works in turn, in one transaction that no other writer overlaps; the last one's value."""
        if self._process != os.getpid():
            self._start_anew()
        wish = _Wish(works)
        self._waiting.append(wish)
        if len(self._waiting) >= self._company:
            self._complete.set()
        try:
            while not wish.done:
                self._lead_or_wait(wish)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(wish)
            self._wake_next()
            raise
        if wish.error is not None:
            raise wish.error
        return wish.value

    def _lead_or_wait(self, wish: _Wish) -> None:
        if not self._leading.acquire(blocking=False):
            wish.asleep.acquire()
            return
        try:
            if not wish.done:
                self._serve()
        finally:
            self._leading.release()
            self._wake_next()

    def _wake_next(self) -> None:
        """Whoever waits longest leads next. Who comes later finds the lead free, or is seen here."""
        with suppress(IndexError):
            self._waiting[0].wake()

    def _serve(self) -> None:
        """One transaction for those who wait; a ledger that cannot be written refuses all of them."""
        batch: list[_Wish] = []
        self._gather()
        try:
            with suppress(_NothingChangedError):
                self._remember(self._commit(batch))
        except Exception as error:  # noqa: BLE001 - told to whoever wished for it
            told = error
            if self._is_put and isinstance(error, ShoalError):
                told = MayBeStoredError(error.code, error.message, hint=error.hint)
            for wish in batch or self._taken(batch):
                wish.end(told)
        except BaseException:
            self._waiting.extendleft(reversed(batch))
            raise
        self._company = len(batch)
        for wish in batch:
            wish.end()

    def _gather(self) -> None:
        """Those who were served together come back together: until they are there, or nobody comes, no transaction is opened."""
        for _ in range(MOST_PAUSES if self._company > 1 else 0):
            self._complete.clear()
            before = len(self._waiting)
            if before >= self._company or self._complete.wait(PAUSE_SECONDS):
                return
            if len(self._waiting) == before:
                return

    def _commit(self, batch: list[_Wish]) -> Head:
        self._is_put = False
        with self._store.turn(), self._store.writing() as transaction:
            pen = self._opened(transaction)
            before = pen.head
            for wish in self._taken(batch):
                wish.try_with(pen)
            _require_change(before, pen.head)
            transaction.put_head(pen.head)
            self._is_put = True
        return pen.head

    def _taken(self, batch: list[_Wish]) -> list[_Wish]:
        """Those who wait now. They are taken late, when the transaction is open, so that it serves many."""
        while self._waiting and len(batch) < MOST_AT_ONCE:
            batch.append(self._waiting.popleft())
        return batch
