"""A service's store in one SQLite file: write-ahead log, every commit on disk."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.accounting.stores.files import when_free
from shoal.errors import ShoalError
from shoal.service.store import Keeper, moment, other_version, storable, unusable
from shoal.service.stores.tables import APPEND_ONLY, FORMAT, MIGRATIONS, REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUSY_SECONDS = 30.0
SERVING = "serving.lock"
"""Locked, with others, by every process that serves; alone, by whoever puts another store in its place."""
_TYPES = {"SERIAL": "INTEGER PRIMARY KEY AUTOINCREMENT", "BYTES": "BLOB", "FLAG": "INTEGER NOT NULL DEFAULT 0"}


class SqliteGlance:
    """See `store.Reading`; each statement takes its thread's connection."""

    def __init__(self, connection: Callable[[], sqlite3.Connection]) -> None:
        self._connection = connection

    def all(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """See `store.Reading`."""
        with _plain_words():
            return [dict(row) for row in self._execute(sql, values).fetchall()]

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """See `store.Reading`."""
        with _plain_words():
            row = self._execute(sql, values).fetchone()
        return None if row is None else dict(row)

    def _execute(self, sql: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return self._connection().execute(sql, tuple(map(storable, values)))

    def now(self) -> str:
        """See `store.Reading`."""
        found = self.one("SELECT clock FROM identity")
        latest = "" if found is None else found["clock"]
        return max(latest, moment())


class SqliteRows(SqliteGlance):
    """See `store.Rows`."""

    def run(self, sql: str, *values: Any) -> int:
        """See `store.Rows`."""
        return self._execute(sql, values).rowcount

    def tick(self) -> str:
        """See `store.Rows`."""
        now = self.now()
        self.run("UPDATE identity SET clock = ?", now)
        return now


@contextmanager
def _plain_words() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error:
        raise unusable("cannot be read and written") from None


class SqliteStore(Keeper):
    """See `store.Store`. One connection per thread and process."""

    is_near = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path.absolute()
        self._open: list[sqlite3.Connection] = []
        self._serving: int | None = None
        self._turns = (os.getpid(), threading.Lock())
        self._flushing = threading.Lock()
        self._log: tuple[int, int, tuple[int, int]] | None = None
        """The open write-ahead log: which process opened it, its number, and which file it is."""
        found = self.version()
        if found != FORMAT:
            self.close()
            raise other_version(found, FORMAT)

    @classmethod
    def create(cls, path: Path, identity: str) -> SqliteStore:
        """A new file readable only by its owner, or the existing one."""
        if not path.exists():
            scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
            with suppress(FileNotFoundError):
                scratch.unlink()
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(scratch, isolation_level=None)
            try:
                migrate(connection)
                connection.execute("INSERT INTO identity (value, clock) VALUES (?, '')", (identity,))
            finally:
                connection.close()
            with suppress(FileExistsError):
                os.link(scratch, path)  # the second process opens the file of the first
            scratch.unlink()
        return cls(path)

    @property
    def identity(self) -> str:
        """See `store.Store`."""
        with self.reading() as rows:
            return str(rows.all("SELECT value FROM identity")[0]["value"])

    @property
    def folder(self) -> Path:
        """The folder of the file: a place for what is kept next to it."""
        return self._path.parent

    @contextmanager
    def writing(self, *, at_once: bool = True) -> Iterator[SqliteRows]:
        """See `store.Store`. A commit that changes something and waits for the disk flushes what precedes it in the log, too."""
        ends = time.monotonic() + BUSY_SECONDS
        with self._turn(), self._prepared(at_once=at_once), self._transaction("IMMEDIATE", ends) as rows:
            yield rows

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Threads of this process wait for each other here: whoever is next goes on at once."""
        process, lock = self._turns
        if process != os.getpid():  # forked: whoever has the turn there is no thread of ours
            lock = threading.Lock()
            self._turns = (os.getpid(), lock)
        if not lock.acquire(timeout=BUSY_SECONDS):
            raise unusable("cannot be read and written")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _prepared(self, *, at_once: bool) -> Iterator[None]:
        """With the settings of a writer; what it committed without waiting is noted before anything else can fail."""
        with _plain_words():
            connection = self._connection()
        before = connection.total_changes
        try:
            with _plain_words():
                connection.execute("PRAGMA busy_timeout = 0")
                if not at_once:
                    connection.execute("PRAGMA synchronous = NORMAL")
            yield
        finally:
            if not at_once and connection.total_changes != before:
                self.is_behind = True
            with _plain_words():
                connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
                if not at_once:
                    connection.execute("PRAGMA synchronous = FULL")

    def keep_all(self) -> None:
        """See `store.Store`. What the write-ahead log has on disk is found there after a power failure: no writer is waited for."""
        self.is_behind = False
        try:
            with self._flushing:
                os.fsync(self._open_log())
        except OSError:
            raise unusable("cannot be read and written") from None

    def _open_log(self) -> int:
        """The write-ahead log beside the file itself, wherever a link leads to it; it is there while a connection is open.

        It stays open, so that it can be flushed also where nothing can be opened any more.
        """
        self._connection()
        path = f"{os.path.realpath(self._path)}-wal"
        found = Path(path).stat()
        which = (found.st_dev, found.st_ino)
        if self._log is None or (self._log[0], self._log[2]) != (os.getpid(), which):
            self._close_log()
            self._log = (os.getpid(), os.open(path, os.O_RDONLY | os.O_CLOEXEC), which)
        return self._log[1]

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log[1])
            self._log = None

    @contextmanager
    def reading(self) -> Iterator[SqliteRows]:
        """See `store.Store`."""
        with self._transaction("DEFERRED") as rows:
            yield rows

    @property
    def glance(self) -> SqliteGlance:
        """See `store.Store`."""
        return SqliteGlance(self._connection)

    def _changes(self) -> tuple[object, str]:
        """See `Keeper`. SQLite tells whether anybody wrote, of which this thread's connection counts its own writes.

        In the middle of a transaction nothing is remembered: it may be undone.
        """
        with _plain_words():
            connection = self._connection()
            if connection.in_transaction:
                return object(), self.glance.now()
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            mark = (id(connection), others, connection.total_changes)
            at, changes, clock = getattr(self._mine, "changes", (None, 0, ""))
            if at != mark:
                changes, clock = connection.execute("SELECT changes, clock FROM identity").fetchone()
                self._mine.changes = (mark, changes, clock)
        return changes, max(clock, moment())

    def version(self) -> int:
        """The last migration that the file has."""
        with self.reading() as rows:
            return int(rows.all("PRAGMA user_version")[0]["user_version"])

    def new_ledger(self, name: str) -> str:
        """See `store.Store`."""
        (self._path.parent / "ledgers").mkdir(mode=0o700, exist_ok=True)
        return f"ledgers/{name}.db"

    def ledger_address(self, place: str) -> str:
        """See `store.Store`."""
        return str(self._path.parent / place)

    @contextmanager
    def _transaction(self, kind: str, ends: float = 0.0) -> Iterator[SqliteRows]:
        with _plain_words():
            connection = self._connection()
            when_free(lambda: connection.execute(f"BEGIN {kind}"), ends)  # no other process writes then
            try:
                yield SqliteRows(lambda: connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _connection(self) -> sqlite3.Connection:
        kept = getattr(self._mine, "kept", None)
        if kept is not None and kept[0] == os.getpid():
            return kept[1]  # type: ignore[no-any-return]
        connection = connect(self._path)
        self._mine.kept = (os.getpid(), connection)
        self._open.append(connection)
        return connection

    def backup(self, target: Path) -> None:
        """A copy of the file as it is now."""
        copy_file(self._path, target)

    def serve(self) -> None:
        """See `store.Store`."""
        self._serving = _locked(self.folder / SERVING, fcntl.LOCK_SH)

    def close(self) -> None:
        """See `store.Store`."""
        if self._serving is not None:
            os.close(self._serving)
            self._serving = None
        self._close_log()
        while self._open:
            self._open.pop().close()
        self._mine = threading.local()


def _locked(path: Path, kind: int) -> int:
    """The lock ends with its process, however that ends."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        raise ShoalError(
            "E_USAGE", "A service runs in this folder, or is being put in place.", hint="Stop it first."
        ) from None
    return number


@contextmanager
def stopped(folder: Path) -> Iterator[None]:
    """While inside, no process serves from this folder, and none begins to."""
    number = _locked(folder / SERVING, fcntl.LOCK_EX) if folder.is_dir() else None
    try:
        yield
    finally:
        if number is not None:
            os.close(number)


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing file."""
    if not path.is_file():
        raise unusable("is missing")
    connection = sqlite3.connect(
        path.absolute().as_uri() + "?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,  # each is used by one thread; closing the store closes all of them
    )
    connection.row_factory = sqlite3.Row
    for setting in ("journal_mode = WAL", "synchronous = FULL", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def copy_file(source: Path, target: Path) -> None:
    """SQLite's online backup, readable only by its owner."""
    target.touch(mode=0o600)
    try:
        with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
            read.backup(written)
    except sqlite3.Error:
        raise unusable("cannot be copied") from None


def migrate(connection: sqlite3.Connection) -> int:
    """Applies every missing migration in one transaction; returns how many."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = _known_version(connection)
        for statements in MIGRATIONS[done:]:
            for statement in statements:
                connection.execute(_here(statement))
        for table in APPEND_ONLY:
            for act in ("UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER IF NOT EXISTS {table}_{act.lower()} BEFORE {act} ON {table}"
                    f" BEGIN SELECT RAISE(ABORT, 'append only'); END"
                )
        for table in REMEMBERED:
            for act in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER IF NOT EXISTS {table}_{act.lower()} AFTER {act} ON {table}"
                    f" BEGIN UPDATE identity SET changes = random(); END"
                )
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    return FORMAT - done


def _known_version(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise other_version(found, FORMAT)
    return int(found)


def migrate_file(path: Path) -> int:
    """The same for a service's file."""
    connection = connect(path)
    try:
        return migrate(connection)
    except sqlite3.Error:
        raise unusable("cannot be migrated") from None
    finally:
        connection.close()


def _here(statement: str) -> str:
    for word, meaning in _TYPES.items():
        statement = statement.replace(word, meaning)
    return statement
