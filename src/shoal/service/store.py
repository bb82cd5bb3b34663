"""Where a service keeps everything but its ledgers: one SQLite file, write-ahead log, every commit on the disk.

with store.writing() as rows:
    rows.run("INSERT INTO groups_of VALUES (?, ?)", "ann", "research")
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = 1
BUSY_SECONDS = 30.0

_TABLES = """
CREATE TABLE identity (value TEXT NOT NULL, clock TEXT NOT NULL);
CREATE TABLE people (name TEXT PRIMARY KEY, roles TEXT NOT NULL, groups TEXT NOT NULL, created TEXT NOT NULL,
                     retired TEXT NOT NULL DEFAULT '');
CREATE TABLE tokens (id TEXT PRIMARY KEY, person TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE, scope TEXT NOT NULL,
                     datasets TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, revoked TEXT NOT NULL DEFAULT '');
CREATE TABLE links (sha256 TEXT PRIMARY KEY, person TEXT NOT NULL, expires TEXT NOT NULL, used TEXT NOT NULL DEFAULT '');
CREATE TABLE ledgers (name TEXT PRIMARY KEY, place TEXT NOT NULL, kinds TEXT NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY, source TEXT NOT NULL, catalog TEXT NOT NULL, catalog_path TEXT NOT NULL,
                       ledger TEXT NOT NULL, unit TEXT NOT NULL, version INTEGER NOT NULL, created TEXT NOT NULL,
                       retired TEXT NOT NULL DEFAULT '');
CREATE TABLE allowances (dataset TEXT NOT NULL, whom TEXT NOT NULL, per TEXT NOT NULL, epsilon TEXT NOT NULL,
                         delta TEXT NOT NULL, max_epsilon TEXT NOT NULL, approve_above TEXT NOT NULL, created TEXT NOT NULL,
                         PRIMARY KEY (dataset, whom, per));
CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL,
                   dataset TEXT NOT NULL, request TEXT NOT NULL UNIQUE, body TEXT NOT NULL, question TEXT NOT NULL,
                   fingerprint TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, state TEXT NOT NULL,
                   leader TEXT NOT NULL DEFAULT '', runs INTEGER NOT NULL DEFAULT 0, process TEXT NOT NULL DEFAULT '',
                   lease TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '', charged INTEGER NOT NULL DEFAULT 0,
                   error TEXT NOT NULL DEFAULT '', created TEXT NOT NULL, via TEXT NOT NULL);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_fingerprint ON jobs (fingerprint, state);
CREATE TABLE answers (id TEXT PRIMARY KEY, dataset TEXT NOT NULL, person TEXT NOT NULL, fingerprint TEXT NOT NULL,
                      ledger TEXT NOT NULL, charge INTEGER NOT NULL, free BLOB, created TEXT NOT NULL);
CREATE INDEX answers_by_fingerprint ON answers (fingerprint, created);
CREATE UNIQUE INDEX answers_by_charge ON answers (ledger, charge) WHERE charge > 0;
CREATE TABLE approvals (id TEXT PRIMARY KEY, job TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, asker TEXT NOT NULL,
                        fingerprint TEXT NOT NULL, sql TEXT NOT NULL, reason TEXT NOT NULL, explanation TEXT NOT NULL,
                        state TEXT NOT NULL, decided_by TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
                        created TEXT NOT NULL, expires TEXT NOT NULL);
CREATE TABLE late (person TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE log (n INTEGER PRIMARY KEY, line TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE logged_charges (ledger TEXT NOT NULL, charge INTEGER NOT NULL, anchor TEXT NOT NULL,
                             PRIMARY KEY (ledger, charge));
CREATE TABLE counts (person TEXT NOT NULL, hour TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL,
                     PRIMARY KEY (person, hour, what));
CREATE TRIGGER log_stays BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""


class Rows:
    """One transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: Any) -> int:
        """Change something; how many rows were touched."""
        return self._connection.execute(sql, values).rowcount

    def all(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Every row of a question."""
        return [dict(row) for row in self._connection.execute(sql, values).fetchall()]

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first row, or None."""
        row = self._connection.execute(sql, values).fetchone()
        return None if row is None else dict(row)

    def now(self) -> str:
        """The store's time (UTC), which never goes back."""
        found = self.one("SELECT clock FROM identity")
        latest = "" if found is None else found["clock"]
        return max(latest, moment())

    def tick(self) -> str:
        """The same, noted: no later transaction is earlier."""
        now = self.now()
        self.run("UPDATE identity SET clock = ?", now)
        return now


class Store:
    """The file; any number of threads and processes may hold it."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._mine = threading.local()
        self._open: list[sqlite3.Connection] = []
        with self.reading() as rows:
            (found,) = rows.all("PRAGMA user_version")
            if found["user_version"] != FORMAT:
                raise _unusable("was made by another version of shoal")

    @classmethod
    def create(cls, path: Path, identity: str) -> Store:
        """A new file for its owner's eyes only, or the one that is there."""
        if not path.exists():
            scratch = path.with_name(f".{path.name}.new")
            with suppress(FileNotFoundError):
                scratch.unlink()
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(scratch, isolation_level=None)
            try:
                connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
                connection.execute("INSERT INTO identity VALUES (?, '')", (identity,))
            finally:
                connection.close()
            scratch.rename(path)
        return cls(path)

    @property
    def identity(self) -> str:
        """A random name of this store, under which its log begins."""
        with self.reading() as rows:
            return str(rows.all("SELECT value FROM identity")[0]["value"])

    @contextmanager
    def writing(self) -> Iterator[Rows]:
        """A transaction that no other writer can overlap: all of it is kept durably, or nothing."""
        with self._transaction("IMMEDIATE") as rows:
            yield rows

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """A transaction that sees one state."""
        with self._transaction("DEFERRED") as rows:
            yield rows

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[Rows]:
        try:
            connection = self._connection()
            connection.execute(f"BEGIN {kind}")
            try:
                yield Rows(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error:
            raise _unusable("cannot be read and written") from None

    def _connection(self) -> sqlite3.Connection:
        """One connection a thread and process."""
        kept = getattr(self._mine, "kept", None)
        if kept is not None and kept[0] == os.getpid():
            return kept[1]  # type: ignore[no-any-return]
        if not self._path.is_file():
            raise _unusable("is missing")
        connection = sqlite3.connect(
            self._path.as_uri() + "?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # each is used by one thread; whoever closes the store closes all of them
        )
        connection.row_factory = sqlite3.Row
        for setting in ("journal_mode = WAL", "synchronous = FULL", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
        self._mine.kept = (os.getpid(), connection)
        self._open.append(connection)
        return connection

    def close(self) -> None:
        """Lets go of every connection, once no thread uses one."""
        while self._open:
            self._open.pop().close()
        self._mine = threading.local()


def moment() -> str:
    """Now, as 2026-10-31T23:59:59Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unusable(why: str) -> ShoalError:
    return ShoalError("E_LEDGER", f"The service's store {why}, so nothing can be spent.", hint="Ask whoever runs it.")
