"""Large answers on their way out: few at once for each person, whose readers may be slow.

Reading an answer is free, and an open stream keeps its answer in memory for as long as its reader likes.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow.flight as fl

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

OPEN_AT_ONCE = 2
"""Of one person, until the last row has left or the reader is gone."""
MOST_WAITING = 4
"""Of one person; each of them keeps a thread."""
LONGEST_WAIT = 20.0
ROWS_AT_ONCE = 8192


class Places:
    """Who reads a large answer now, in one process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[str, int] = {}
        self._waiting: dict[str, int] = {}

    @contextmanager
    def one_of(self, person: str) -> Iterator[None]:
        """A place among this person's own; E_RATE if too many wait for one, E_BUSY if none becomes free."""
        self._take(person)
        try:
            yield
        finally:
            self._leave(person)

    def stream(self, person: str, read: Callable[[], pa.Table]) -> Any:
        """An answer that is read when there is a place for it, which it keeps until its stream ends."""
        self._take(person)
        try:
            table = read()
            rows = (batch for batch in table.to_batches(ROWS_AT_ONCE))
            ended = weakref.finalize(rows, self._leave, person)  # nothing but the stream keeps them
            ended.atexit = False
        except BaseException:
            self._leave(person)
            raise
        return fl.GeneratorStream(table.schema, rows)

    def _take(self, person: str) -> None:
        with self._changed:
            if self._waiting.get(person, 0) >= MOST_WAITING:
                hint = "Read one after the other."
                raise ShoalError("E_RATE", "Too many large answers are read at once.", hint=hint)
            _count(self._waiting, person, 1)
            try:
                if not self._changed.wait_for(lambda: self._open.get(person, 0) < OPEN_AT_ONCE, LONGEST_WAIT):
                    hint = "Send it again in a few seconds."
                    raise ShoalError("E_BUSY", "Other large answers are being read.", hint=hint)
                _count(self._open, person, 1)
            finally:
                _count(self._waiting, person, -1)

    def _leave(self, person: str) -> None:
        with self._changed:
            _count(self._open, person, -1)
            self._changed.notify_all()


def _count(people: dict[str, int], person: str, more: int) -> None:
    people[person] = people.get(person, 0) + more
    if not people[person]:
        del people[person]
