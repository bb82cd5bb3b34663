"""The ledger's file: an append-only SQLite table whose rows are chained by hashes; how it is opened, locked, checked.

Row n carries hash(n) = SHA-256(hash(n − 1) ‖ its fields); hash(0) covers the header (identity, budget, accountant).
A `head` row repeats the last number and hash with the running sums, sealed by a hash of its own, so that a spend reads
one row and not the whole table. Every transaction checks head and last row; opening a ledger checks everything.

Durable: a rollback journal with `synchronous = EXTRA`. When a transaction has returned, its rows survive kill -9 and
loss of power, in one file: there is no write-ahead log that could be left behind or deleted. Each transaction opens and
closes its own connection and no fork can happen inside one, so processes and threads share nothing of SQLite's state.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
import stat
import threading
import weakref
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from shoal.accounting.accountants import Spent
from shoal.accounting.suspension import Suspension
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APPLICATION_ID = 0x53484F4C  # "SHOL"
FORMAT_VERSION = 1
BUSY_SECONDS = 60.0
SEPARATOR = "\x1f"

ENDS = frozenset({"answer", "failure", "withheld"})
"""Rows that end a spend."""
NOTES = frozenset({"suspend", "lift"})
"""Rows about a user, with no amount."""

SCHEMA = (
    """CREATE TABLE header (
    one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, accountant TEXT NOT NULL)""",
    """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, rho_delta TEXT NOT NULL, seal TEXT NOT NULL)""",
    """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, reservation INTEGER NOT NULL, kind TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, rho_delta TEXT NOT NULL,
    user TEXT NOT NULL, description TEXT NOT NULL, key TEXT NOT NULL, noted_at TEXT NOT NULL,
    answer_sha256 TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE TABLE answers (reservation INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE INDEX entries_by_key ON entries (key) WHERE key <> ''",
    "CREATE UNIQUE INDEX a_reservation_is_settled_once ON entries (reservation) WHERE reservation > 0",
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
        for table, verbs in (
            ("header", ("UPDATE", "DELETE")),
            ("head", ("DELETE",)),
            ("entries", ("UPDATE", "DELETE")),
            ("answers", ("UPDATE", "DELETE")),
        )
        for verb in verbs
    ),
)


def damaged(what: str) -> ShoalError:
    """The refusal for a file that is not what was written."""
    return ShoalError(
        "E_LEDGER",
        f"The ledger is damaged or was edited: {what}.",
        hint="Nothing can be spent on it. Restore the newest intact copy, or make a new ledger with what is left.",
    )


@dataclass(frozen=True, slots=True)
class Header:
    """What never changes. A budget of '' is no budget: the ledger only adds up."""

    identity: str
    epsilon: str
    delta: str
    accountant: str

    @property
    def hash(self) -> str:
        """The start of the chain."""
        text = SEPARATOR.join(("shoal ledger", str(FORMAT_VERSION), *(getattr(self, f.name) for f in fields(self))))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the ledger, as text: a spend; with `reservation` > 0, how that spend ended; or a note about a user."""

    kind: str
    noted_at: str
    reservation: int = 0
    epsilon: str = ""
    delta: str = ""
    rho: str = ""
    rho_delta: str = ""
    user: str = ""
    description: str = ""
    key: str = ""
    answer_sha256: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns in the order of the table."""
        amounts = (self.epsilon, self.delta, self.rho, self.rho_delta)
        return (self.kind, *amounts, self.user, self.description, self.key, self.noted_at, self.answer_sha256)


@dataclass(frozen=True, slots=True)
class Head:
    """The last row's number and hash, and the sums up to it."""

    sequence: int
    hash: str
    spent: Spent

    @property
    def amounts(self) -> tuple[str, str, str, str]:
        """The sums as text."""
        spent = self.spent
        return (
            amount_text(spent.epsilon),
            amount_text(spent.delta),
            amount_text(spent.rho),
            amount_text(spent.rho_delta),
        )

    @property
    def seal(self) -> str:
        """A hash over the whole head."""
        return hashlib.sha256(SEPARATOR.join((str(self.sequence), self.hash, *self.amounts)).encode()).hexdigest()


def amount_text(amount: Fraction) -> str:
    """An exact amount as "p/q"."""
    return f"{amount.numerator}/{amount.denominator}"


_AMOUNT = re.compile(r"[0-9]{1,4000}/[0-9]{1,4000}", re.ASCII)


@lru_cache(maxsize=4096)
def amount_of(text: str) -> Fraction:
    """The amount that `amount_text` wrote."""
    if not _AMOUNT.fullmatch(text):
        raise damaged("an amount is not a fraction")
    numerator, denominator = text.split("/")
    if not int(denominator):
        raise damaged("an amount is not a fraction")
    return Fraction(int(numerator), int(denominator))


# --- connections ------------------------------------------------------------------------------------------------------

_NO_FORK_INSIDE = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK_INSIDE.acquire,
        after_in_parent=_NO_FORK_INSIDE.release,
        after_in_child=_NO_FORK_INSIDE.release,
    )


class Store(Protocol):
    """Where the tables live. Both contexts are transactions that see one state; only `writing` changes it."""

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other writer can overlap: all of it is kept durably, or nothing."""

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that changes nothing."""

    def is_whole(self, connection: sqlite3.Connection) -> bool:
        """Whether nothing is cut off, and nothing appended."""


class FileStore:
    """The tables in a file, through a fresh connection per transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """See `Store`."""
        with _NO_FORK_INSIDE, _plain_words(), self._connected() as connection, _transaction(connection, "IMMEDIATE"):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See `Store`."""
        with _NO_FORK_INSIDE, _plain_words(), self._connected() as connection, _transaction(connection, "DEFERRED"):
            yield connection

    def is_whole(self, connection: sqlite3.Connection) -> bool:
        """See `Store`."""
        pages, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
        return self._path.stat().st_size == pages * size

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        _require_regular_file(self._path)
        address = self._path.as_uri() + "?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _make_durable(connection)
            yield connection
        finally:
            connection.close()


class MemoryStore:
    """The same tables without a file, for one process: a forked copy of a budget would be a second budget."""

    def __init__(self, *, may_fork: bool) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._only_process = None if may_fork else os.getpid()
        weakref.finalize(self, self._connection.close)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """See `Store`."""
        if self._only_process not in {None, os.getpid()}:
            raise ShoalError(
                "E_LEDGER",
                "A budget without a ledger file cannot be shared with a forked process.",
                hint="Give the session a ledger file, which any number of processes can share.",
            )
        with _NO_FORK_INSIDE, _plain_words(), _transaction(self._connection, "IMMEDIATE"):
            yield self._connection

    reading = writing

    def is_whole(self, connection: sqlite3.Connection) -> bool:  # noqa: ARG002 - one protocol
        """See `Store`."""
        return True


def _require_regular_file(path: Path) -> None:
    """Anything else could block, or be something SQLite would happily make into a database."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        raise ShoalError(
            "E_LEDGER",
            "There is no ledger at this path, or it cannot be reached.",
            hint="Make one with: shoal budget --ledger PATH --create EPSILON,DELTA",
        ) from None
    if not stat.S_ISREG(mode):
        raise ShoalError("E_LEDGER", "The ledger's path is not a file.", hint="Name the file that holds the ledger.")


def _make_durable(connection: sqlite3.Connection) -> None:
    """Settings of every connection; a file that will not take them is not written to."""
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "synchronous = EXTRA"):
        connection.execute(f"PRAGMA {setting}")
    if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
        raise damaged("its journal is not the kind that this program writes")
    if connection.execute("PRAGMA synchronous").fetchone()[0] != 3:
        raise InternalError("SQLite did not accept the durable setting")


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


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
            hint="Check free space, and that this account may read and write the file and its folder.",
        )
    return damaged("it cannot be read as one")


# --- making one -------------------------------------------------------------------------------------------------------


def make_tables(connection: sqlite3.Connection, epsilon: str, delta: str, accountant: str) -> None:
    """Tables, header and an empty head, in a new database."""
    header = Header(secrets.token_hex(16), epsilon, delta, accountant)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO header VALUES (1, ?, ?, ?, ?)", (header.identity, header.epsilon, header.delta, header.accountant)
    )
    head = Head(0, header.hash, Spent())
    connection.execute(
        "INSERT INTO head VALUES (1, ?, ?, ?, ?, ?, ?, ?)", (head.sequence, head.hash, *head.amounts, head.seal)
    )


def create_file(path: Path, epsilon: str, delta: str, accountant: str) -> None:
    """A new ledger appears whole or not at all, readable by its owner only; an existing file is never replaced."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            with FileStore(scratch).writing() as connection:
                make_tables(connection, epsilon, delta, accountant)
            os.link(scratch, path)
        finally:
            scratch.unlink()
        _sync_folder(path.parent)
    except FileExistsError:
        raise ShoalError(
            "E_LEDGER", "A file is already there, and a ledger is never replaced.", hint="Choose another path."
        ) from None
    except (OSError, ValueError):
        raise ShoalError(
            "E_LEDGER",
            "The ledger cannot be made at this path.",
            hint="Check that the folder exists and may be written, on a file system that supports links.",
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


# --- reading, checking, appending -------------------------------------------------------------------------------------

_COLUMNS = "kind, epsilon, delta, rho, rho_delta, user, description, key, noted_at, answer_sha256"


def _row_hash(previous: str, sequence: int, reservation: int, texts: tuple[str, ...]) -> str:
    """SHA-256 over the previous hash and all fields; the count of separators makes the joined text unambiguous."""
    try:
        joined = SEPARATOR.join(texts)
    except TypeError:
        raise damaged("a field is not a text") from None
    if joined.count(SEPARATOR) != len(texts) - 1:
        raise damaged("a text holds a control character")
    return hashlib.sha256(f"{previous}\x1f{sequence}\x1f{reservation}\x1f{joined}".encode()).hexdigest()


def append(connection: sqlite3.Connection, head: Head, row: Row, spent: Spent) -> Head:
    """One more row, and the head that follows from it."""
    sequence = head.sequence + 1
    after = Head(sequence, _row_hash(head.hash, sequence, row.reservation, row.texts), spent)
    connection.execute(
        f"INSERT INTO entries (sequence, reservation, {_COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (sequence, row.reservation, *row.texts, after.hash),
    )
    connection.execute(
        "UPDATE head SET sequence = ?, hash = ?, epsilon = ?, delta = ?, rho = ?, rho_delta = ?, seal = ?",
        (sequence, after.hash, *after.amounts, after.seal),
    )
    return after


def read_header(connection: sqlite3.Connection) -> Header:
    """The header of a file whose schema is, to the letter, the one written here."""
    identifiers = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if identifiers != [APPLICATION_ID, FORMAT_VERSION]:
        raise damaged("it is not a ledger of this version")
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master LIMIT 100")}
    if found != set(SCHEMA):
        raise damaged("its tables or its safeguards were changed")
    rows = connection.execute("SELECT identity, epsilon, delta, accountant FROM header").fetchall()
    if len(rows) != 1 or not all(isinstance(text, str) for text in rows[0]):
        raise damaged("its header is missing")
    return Header(*rows[0])


def read_head(connection: sqlite3.Connection, header: Header) -> Head:
    """The head, after checking its seal, and that it and the table's last row are the same."""
    rows = connection.execute("SELECT sequence, hash, epsilon, delta, rho, rho_delta, seal FROM head").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], int) or not all(isinstance(text, str) for text in rows[0][1:]):
        raise damaged("its head is missing")
    sequence, last_hash, *amounts, seal = rows[0]
    head = Head(sequence, last_hash, Spent(*map(amount_of, amounts)))
    last = connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    if head.seal != seal or (head.sequence, head.hash) != (last or (0, header.hash)):
        raise damaged("its head does not fit its last row")
    return head


def hash_at(connection: sqlite3.Connection, header: Header, sequence: int) -> str | None:
    """hash(n), or None where there is no such row."""
    if sequence == 0:
        return header.hash
    row = connection.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
    return None if row is None else str(row[0])


def is_suspended(connection: sqlite3.Connection, user: str) -> bool:
    """Whether the last note about the user is a suspension."""
    last = connection.execute(
        "SELECT kind FROM entries WHERE kind IN ('suspend', 'lift') AND user = ? ORDER BY sequence DESC LIMIT 1",
        (user,),
    ).fetchone()
    return last is not None and last[0] == "suspend"


def suspensions(connection: sqlite3.Connection) -> list[Suspension]:
    """Every suspension with its statement, and the lift that ended it."""
    found: list[Suspension] = []
    in_force: dict[str, int] = {}
    notes = connection.execute(
        "SELECT kind, user, noted_at, description FROM entries WHERE kind IN ('suspend', 'lift') ORDER BY sequence"
    ).fetchall()
    for kind, user, noted_at, description in notes:
        if kind == "suspend":
            charge = int(description.removeprefix("charge "))
            (statement,) = connection.execute(
                "SELECT description FROM entries WHERE sequence = ?", (charge,)
            ).fetchone()
            in_force[user] = len(found)
            found.append(Suspension(user, noted_at, charge, statement))
        else:
            number = in_force.pop(user)
            found[number] = replace(found[number], lifted_at=noted_at, because=description)
    return found


def check_everything(connection: sqlite3.Connection) -> tuple[Header, Head]:
    """Header, head, and every row: numbers without a gap, hashes that follow, settlements of earlier spends, sums."""
    header = read_header(connection)
    head = read_head(connection, header)
    charges: Counter[tuple[str, ...]] = Counter()
    open_reservations: set[int] = set()
    expected, previous = 1, header.hash
    rows = connection.execute(f"SELECT sequence, reservation, hash, {_COLUMNS} FROM entries ORDER BY sequence")
    for row in rows:
        sequence, reservation, found, kind = row[:4]
        previous = _row_hash(previous, expected, reservation, row[3:])
        if sequence != expected or found != previous:
            raise damaged("a row was changed, moved or removed")
        if kind == "spend":
            charges[row[4:8]] += 1
            open_reservations.add(sequence)
        elif kind in ENDS and reservation in open_reservations:
            open_reservations.discard(reservation)
        elif kind not in NOTES or reservation:
            raise damaged("a row is of an unknown kind, or ends no spend")
        expected += 1
    if (expected - 1, previous) != (head.sequence, head.hash) or _sum(charges) != head.spent:
        raise damaged("its sums do not fit its rows")
    return header, head


def _sum(charges: Counter[tuple[str, ...]]) -> Spent:
    """The running sums, each distinct charge parsed once."""
    spent = Spent()
    for texts, count in charges.items():
        amounts = [amount_of(text) * count for text in texts]
        spent = replace(
            spent,
            epsilon=spent.epsilon + amounts[0],
            delta=spent.delta + amounts[1],
            rho=spent.rho + amounts[2],
            rho_delta=spent.rho_delta + amounts[3],
        )
    return spent
