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


class Rows(Protocol):
    """One transaction. Statements are SQL that both stores understand; a question mark takes a value."""

    def run(self, sql: str, *values: Any) -> int:
        """Changes something; returns how many rows were touched."""

    def all(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Every row of a question."""

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first row, or None."""

    def now(self) -> str:
        """The store's time (UTC), which never goes backwards."""

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

    def known(self, key: tuple[str, ...], read: Callable[[Rows], T]) -> T:
        """What `read` finds; a store that can tell that nobody wrote since then need not read it again under the same key.

        Nobody changes what is found.
        """

    def known_now(self, key: tuple[str, ...], read: Callable[[Rows], T]) -> tuple[T, str]:
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

    def known(self, key: tuple[str, ...], read: Callable[[Rows], T]) -> T:  # noqa: ARG002 - for stores that remember
        """See `Store`. A server would have to be asked whether somebody wrote, which takes as long as to read."""
        with self.reading() as rows:
            return read(rows)

    def known_now(self, key: tuple[str, ...], read: Callable[[Rows], T]) -> tuple[T, str]:  # noqa: ARG002 - same
        """See `Store`."""
        with self.reading() as rows:
            return read(rows), rows.now()

    @abstractmethod
    def writing(self, *, at_once: bool = True) -> AbstractContextManager[Rows]:
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
