"""Where a service keeps everything but its ledgers: what a store can do. `stores/` has one in a file and one in PostgreSQL.

with store.writing() as rows:
    rows.run("INSERT INTO late VALUES (?, ?)", "ann", rows.now())
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")

MOST_KNOWN = 256
"""What one thread remembers: strangers' tokens are looked up, too."""


class Reading(Protocol):
    """What can be looked up. Statements are SQL that both stores understand; a question mark takes a value."""

    def all(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Every row of a question."""

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first row, or None."""

    def now(self) -> str:
        """The store's time (UTC), which never goes backwards."""


class Rows(Reading, Protocol):
    """One transaction."""

    def run(self, sql: str, *values: Any) -> int:
        """Changes something; returns how many rows were touched."""

    def tick(self) -> str:
        """The same, recorded: no later transaction gets an earlier time."""


class Store(Protocol):
    """Any number of threads and processes may hold the same one."""

    @property
    def identity(self) -> str:
        """A random name of this store, under which its log begins."""

    def writing(self, *, at_once: bool = True) -> AbstractContextManager[Rows]:
        """A transaction that no other writer can overlap: all of it is stored durably, or nothing.

        What charges nothing need not be on disk at once (`at_once=False`): a process crash loses none of it, a power failure at
        most a second's worth, and never anything written before something that was kept.
        """

    is_near: bool
    """Whether what is known is looked up in less time than it takes to hand that to another thread."""

    is_behind: bool
    """Whether this process wrote something without waiting for the disk."""

    def keep(self) -> None:
        """Everything this process wrote so far is on disk when this returns."""

    def keep_all(self) -> None:
        """Flushes everything written so far, by any process, to disk."""

    def reading(self) -> AbstractContextManager[Rows]:
        """A transaction that sees one consistent state."""

    @property
    def glance(self) -> Reading:
        """Lookups outside of a transaction: each statement sees the state of its own moment, in a third of the time."""

    def known(self, key: tuple[str, ...], read: Callable[[Reading], T]) -> T:
        """What `read` finds about people, tokens, data sets and allowances.

        It is not read again under the same key until one of these changes. Nobody changes what is found.
        """

    def known_now(self, key: tuple[str, ...], read: Callable[[Reading], T]) -> tuple[T, str]:
        """The same, with the store's time."""

    def new_ledger(self, name: str) -> str:
        """Where a new ledger will be, as recorded: without a password."""

    def ledger_address(self, place: str) -> str:
        """What opens a ledger from its recorded place."""

    def serve(self) -> None:
        """From now on this process serves from the store: nothing else is put in its place until it is closed."""

    def close(self) -> None:
        """Closes every connection, once no thread uses one."""


class Keeper(ABC):
    """What stores have in common.

    A thread that wants to `keep` while another waits for the disk waits too, and writes only what is left.
    """

    is_near = False

    def __init__(self) -> None:
        self.is_behind = False
        self._mine = threading.local()
        self._keeping = threading.Lock()

    def keep(self) -> None:
        """See `Store`."""
        with self._keeping:
            if self.is_behind:
                try:
                    self.keep_all()
                except BaseException:
                    self.is_behind = True
                    raise

    def keep_all(self) -> None:
        """See `Store`."""
        self.is_behind = False
        with self.writing() as rows:
            rows.tick()

    def known(self, key: tuple[str, ...], read: Callable[[Reading], T]) -> T:
        """See `Store`."""
        return self.known_now(key, read)[0]

    def known_now(self, key: tuple[str, ...], read: Callable[[Reading], T]) -> tuple[T, str]:
        """See `Store`. The number of changes is read first: what changes meanwhile is found, and found again."""
        changes, now = self._changes()
        kept: dict[tuple[str, ...], Any]
        at, kept = getattr(self._mine, "known", (None, {}))
        if at != changes or len(kept) > MOST_KNOWN:
            kept = {}
            self._mine.known = (changes, kept)
        if key not in kept:
            kept[key] = read(self.glance)
        return kept[key], now

    @abstractmethod
    def _changes(self) -> tuple[object, str]:
        """What is another one after each change of the tables `REMEMBERED`, whoever made it; and the store's time."""

    @abstractmethod
    def writing(self, *, at_once: bool = True) -> AbstractContextManager[Rows]:
        """See `Store`."""

    @property
    @abstractmethod
    def glance(self) -> Reading:
        """See `Store`."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Rows]:
        """See `Store`."""


def moment() -> str:
    """Now, as 2026-10-31T23:59:59Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def storable(value: Any) -> Any:
    """A string that every store can hold: no NUL, no lone surrogates."""
    if isinstance(value, str) and not value.isprintable():
        return value.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    return value


def unusable(why: str, hint: str = "Ask whoever runs it.") -> ShoalError:
    """Without a store nothing can be spent."""
    return ShoalError("E_LEDGER", f"The service's store {why}, so nothing can be spent.", hint=hint)


def other_version(found: int, known: int) -> ShoalError:
    """A store of another version is not touched."""
    if found > known:
        return unusable("was made by a newer shoal", "Upgrade shoal.")
    return unusable("was made by an older shoal", "Stop the service, then run: shoal service migrate")
