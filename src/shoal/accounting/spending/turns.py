"""Group commit: charges that wait at one ledger share one transaction, each checked against the sums of those before it.

Whoever comes first serves everybody who waits. Nobody hears of an outcome before it is durable.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.accounting.spending.pen import Pen
    from shoal.accounting.stores.base import Store, Transaction
    from shoal.accounting.stores.rows import Head

MOST_AT_ONCE = 256


@dataclass(slots=True, eq=False)
class _Wish:
    works: tuple[Callable[[Pen], Any], ...]
    process: int = field(default_factory=os.getpid)
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
        self._waiting: deque[_Wish] = deque()

    def do(self, *works: Callable[[Pen], Any]) -> Any:
        """The works in turn, in one transaction that no other writer overlaps; the last one's value."""
        wish = _Wish(works)
        self._waiting.append(wish)
        try:
            with self._store.turn():
                while not wish.done:
                    self._serve()
        except BaseException:
            if wish in self._waiting:
                self._waiting.remove(wish)
            raise
        if wish.error is not None:
            raise wish.error
        return wish.value

    def _serve(self) -> None:
        """One transaction for those who wait; wishes that a fork copied belong to the other process."""
        batch: list[_Wish] = []
        while self._waiting and len(batch) < MOST_AT_ONCE:
            wish = self._waiting.popleft()
            if wish.process == os.getpid():
                batch.append(wish)
        if not batch:
            raise InternalError("a wish was lost")
        try:
            self._commit(batch)
        except Exception as error:  # noqa: BLE001 - a ledger that cannot be written refuses everybody
            for wish in batch:
                wish.error = error
        except BaseException:
            self._waiting.extendleft(reversed(batch))
            raise
        for wish in batch:
            wish.done = True

    def _commit(self, batch: list[_Wish]) -> None:
        try:
            with self._store.writing() as transaction:
                pen = self._opened(transaction)
                before = pen.head
                for wish in batch:
                    wish.try_with(pen)
                _require_change(before, pen.head)
        except _NothingChangedError:
            return
        self._remember(pen.head)
