"""Ledgers in files and in memory: how they are opened, locked and made, and that a commit is durable.

A rollback journal with `synchronous = EXTRA`: when a transaction has returned, its rows survive kill -9 and loss of power,
in one file; there is no write-ahead log that could be left behind or deleted. Each transaction opens and closes its own
connection and no fork can happen inside one, so processes and threads share nothing of SQLite's state. A process that serves
keeps its connection for as long as the file is the same: opening one takes a third of the time of a small transaction.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import time
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shoal.accounting.stores.fork_lock import NO_FORK_INSIDE
from shoal.accounting.stores.rows import damaged
from shoal.accounting.stores.sqlite import SqliteTransaction, start_ledger
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from shoal.accounting.stores.rows import Header

BUSY_SECONDS = 60.0
AGAIN_SECONDS = 0.0005
"""How soon to look again whether another process is done writing: SQLite by itself would wait for up to a tenth of a second."""
STILL_NANOSECONDS = 300_000_000
"""Many times what a file system takes for one moment."""

# --- connections ------------------------------------------------------------------------------------------------------


class _Kept:
    """A connection between two transactions, which holds no lock then; whoever forked leaves that of the other process alone."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._about: object = None

    def take(self, about: object) -> sqlite3.Connection | None:
        """The connection, for one at a time; None unless there is one of this process, about the same file."""
        found, self._connection = self._connection, None
        if found is None or self._about == (os.getpid(), about):
            return found
        self._end(found)
        return None

    def put(self, connection: sqlite3.Connection, about: object) -> None:
        """For the next transaction."""
        self.close()
        self._connection, self._about = connection, (os.getpid(), about)

    def close(self) -> None:
        """No longer."""
        found, self._connection = self._connection, None
        if found is not None:
            self._end(found)

    def _end(self, connection: sqlite3.Connection) -> None:
        if isinstance(self._about, tuple) and self._about[0] == os.getpid():
            connection.close()
        else:
            _LEFT_ALONE.append(connection)


_LEFT_ALONE: list[sqlite3.Connection] = []


class FileStore:
    """The tables in a file, through a fresh connection per transaction, or one that it `keeps`."""

    def __init__(self, path: Path, *, keeps: bool = False) -> None:
        self._path = path.absolute()
        self._keeps = keeps
        self._kept = _Kept()
        weakref.finalize(self, self._kept.close)

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        """See `base.Store`."""
        with NO_FORK_INSIDE, _plain_words(), self._connected() as connection, _transaction(connection, "IMMEDIATE"):
            yield _upgraded(SqliteTransaction(connection, self._is_whole))

    @contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        """See `base.Store`."""
        with NO_FORK_INSIDE, _plain_words(), self._connected() as connection, _transaction(connection, "DEFERRED"):
            yield SqliteTransaction(connection, self._is_whole)

    def turn(self) -> AbstractContextManager[object]:
        """See `base.Store`."""
        return NO_FORK_INSIDE

    def confirm(self) -> None:
        """See `base.Store`. Nothing to note."""

    def mark(self) -> object | None:
        """See `base.Store`. Two changes in a row may have one time: only what has been still for a while is marked by it.

        The file is not opened: closing it would let go of every lock that this process has on it.
        """
        try:
            found = self._path.stat()
        except (OSError, ValueError):
            return None
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < STILL_NANOSECONDS:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def start(self, header: Header) -> None:
        """The tables of a new ledger, in a file that is still empty."""
        with NO_FORK_INSIDE, _plain_words(), self._connected() as connection, _transaction(connection, "IMMEDIATE"):
            start_ledger(connection, header)

    def backup(self, target: Path) -> None:
        """A copy of one moment, made by SQLite while others may spend; an existing file is never replaced."""
        with _whole_or_not_at_all(target) as scratch, NO_FORK_INSIDE, _plain_words(), self._connected() as connection:
            copy = sqlite3.connect(scratch.as_uri(), uri=True, isolation_level=None)
            try:
                _make_durable(copy)
                connection.backup(copy)
            finally:
                copy.close()

    def _is_whole(self, connection: sqlite3.Connection) -> bool:
        pages, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
        return self._path.stat().st_size == pages * size

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        about = _require_regular_file(self._path)
        connection = self._kept.take(about) or self._opened()
        try:
            when_free(lambda: _make_durable(connection), time.monotonic() + BUSY_SECONDS)
            yield connection
        except BaseException:
            connection.close()
            raise
        if self._keeps:
            self._kept.put(connection, about)
        else:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        address = self._path.as_uri() + "?mode=rw"
        # A connection that is kept is used by one thread at a time, as every transaction is.
        return sqlite3.connect(address, uri=True, timeout=0.0, isolation_level=None, check_same_thread=not self._keeps)


class MemoryStore:
    """The same tables without a file, for one process: a forked copy of a budget would be a second budget."""

    def __init__(self, *, may_fork: bool) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._only_process = None if may_fork else os.getpid()
        weakref.finalize(self, self._connection.close)

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        """See `base.Store`."""
        if self._only_process not in {None, os.getpid()}:
            raise ShoalError(
                "E_LEDGER",
                "A budget without a ledger file cannot be shared with a forked process.",
                hint="Give the session a ledger file, which any number of processes can share.",
            )
        with NO_FORK_INSIDE, _plain_words(), _transaction(self._connection, "IMMEDIATE"):
            yield SqliteTransaction(self._connection, lambda _: True)

    reading = writing

    def turn(self) -> AbstractContextManager[object]:
        """See `base.Store`."""
        return NO_FORK_INSIDE

    def confirm(self) -> None:
        """See `base.Store`. Nothing to note."""

    def mark(self) -> object | None:
        """See `base.Store`. A look takes no longer."""
        return None

    def start(self, header: Header) -> None:
        """The tables of a new ledger."""
        with NO_FORK_INSIDE, _transaction(self._connection, "IMMEDIATE"):
            start_ledger(self._connection, header)


def _upgraded(transaction: SqliteTransaction) -> SqliteTransaction:
    """The first write to a file of format 1 makes it one of format 2."""
    if transaction.format == 1:
        transaction.upgrade()
    return transaction


def _require_regular_file(path: Path) -> tuple[int, int]:
    """Which file it is. Anything else could block, or be something SQLite would happily make into a database."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        raise ShoalError(
            "E_LEDGER",
            "There is no ledger at this path, or it cannot be reached.",
            hint="Create one with: shoal budget --ledger PATH --create EPSILON,DELTA",
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise ShoalError("E_LEDGER", "The ledger's path is not a file.", hint="Name the file that holds the ledger.")
    return found.st_dev, found.st_ino


def _make_durable(connection: sqlite3.Connection) -> None:
    """Settings of every transaction; a file that will not take them is not written to."""
    for setting in (
        "busy_timeout = 0",
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "synchronous = EXTRA",
    ):
        connection.execute(f"PRAGMA {setting}")
    if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
        raise damaged("its journal is not the kind that this program writes")
    if connection.execute("PRAGMA synchronous").fetchone()[0] != 3:
        raise InternalError("SQLite did not accept the durable setting")


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    _begin(connection, kind)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _begin(connection: sqlite3.Connection, kind: str) -> None:
    when_free(lambda: connection.execute(f"BEGIN {kind}"), time.monotonic() + BUSY_SECONDS)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")  # what is waited for later is over soon


def when_free(act: Callable[[], object], ends: float) -> None:
    """Does what another process may keep from being done while it writes, until this moment at most."""
    while True:
        try:
            act()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            return


@contextmanager
def _plain_words() -> Iterator[None]:
    """What SQLite says never passes through."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_plain_words(getattr(error, "sqlite_errorcode", None)) from None


def _in_plain_words(extended_code: int | None) -> ShoalError:
    code = None if extended_code is None else extended_code & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return ShoalError("E_LEDGER", "The ledger is locked by another process.", hint="Try again in a minute.")
    unwritable = {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_NOLFS,
    }
    if code in unwritable:
        return ShoalError(
            "E_LEDGER",
            "The ledger cannot be read and written, so nothing can be spent on it.",
            hint="Check the free space, and that this account can read and write the file and its folder.",
        )
    return damaged("it cannot be read as one")


# --- making one -------------------------------------------------------------------------------------------------------


def create_file(path: Path, header: Header) -> None:
    """A new ledger appears whole or not at all, readable only by its owner; an existing file is never overwritten."""
    with _whole_or_not_at_all(path) as scratch:
        FileStore(scratch).start(header)


@contextmanager
def _whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """A file beside the path, for its owner's eyes only, which gets the name when everything is in it."""
    path = path.absolute()
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            yield scratch
            os.link(scratch, path)
        finally:
            scratch.unlink()
        _sync_folder(path.parent)
    except FileExistsError:
        raise ShoalError(
            "E_LEDGER", "A file already exists there, and ledgers are never overwritten.", hint="Choose another path."
        ) from None
    except (OSError, ValueError):
        raise ShoalError(
            "E_LEDGER",
            "The ledger cannot be created at this path.",
            hint="Check that the folder exists, is writable, and is on a file system that supports hard links.",
        ) from None


def _sync_folder(folder: Path) -> None:
    """The name of the new file survives a loss of power too."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
