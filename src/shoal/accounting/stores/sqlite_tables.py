"""The tables of a ledger's file, to the letter; and how a file of format 1 becomes one of format 2.

Format 2 adds tables and leaves everything of format 1 where it is. The row of kind `format` chains the two.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from shoal.accounting.stores.rows import FORMAT, OWNER, Header, damaged, too_new

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53484F4C  # "SHOL"


def _append_only(tables: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    return tuple(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
        for table, verbs in tables
        for verb in verbs
    )


FORMAT_1 = (
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
    *_append_only(
        (
            ("header", ("UPDATE", "DELETE")),
            ("head", ("DELETE",)),
            ("entries", ("UPDATE", "DELETE")),
            ("answers", ("UPDATE", "DELETE")),
        )
    ),
)

FORMAT_2 = (
    """CREATE TABLE header_2 (
    one INTEGER PRIMARY KEY CHECK (one = 1), written INTEGER NOT NULL, promise TEXT NOT NULL)""",
    """CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, latest TEXT NOT NULL,
    covers TEXT NOT NULL, accounts TEXT NOT NULL, suspensions TEXT NOT NULL, kept_since TEXT NOT NULL)""",
    """CREATE TABLE details (
    sequence INTEGER PRIMARY KEY, about INTEGER NOT NULL, request TEXT NOT NULL, body TEXT NOT NULL)""",
    """CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, rho_delta TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE suspensions (
    user TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE running (sequence INTEGER PRIMARY KEY, user TEXT NOT NULL, process TEXT NOT NULL)",
    "CREATE TABLE pieces (reservation INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE UNIQUE INDEX pieces_by_reservation ON pieces (reservation, number)",
    "CREATE INDEX running_by_user ON running (user)",
    "CREATE INDEX details_by_request ON details (request) WHERE request <> ''",
    "CREATE INDEX details_by_about ON details (about) WHERE about > 0",
    *_append_only(
        (
            ("header_2", ("UPDATE", "DELETE")),
            ("state", ("DELETE",)),
            ("details", ("UPDATE", "DELETE")),
            ("pieces", ("UPDATE",)),
        )
    ),
)
SCHEMA_SHA256 = hashlib.sha256("\n".join(FORMAT_2).encode()).hexdigest()


def make_tables(connection: sqlite3.Connection, header: Header, *, found: int = 0) -> None:
    """All tables in a new database, or those that a database of format 1 lacks; the header, and an empty state."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in FORMAT_2 if found else FORMAT_1 + FORMAT_2:
        connection.execute(statement)
    if not found:
        kept = (header.identity, header.epsilon, header.delta, header.accountant)
        connection.execute("INSERT INTO header VALUES (1, ?, ?, ?, ?)", kept)
        connection.execute("INSERT INTO head VALUES (1, 0, '', '', '', '', '', '')")
    connection.execute("INSERT INTO header_2 VALUES (1, ?, ?)", (header.written, header.promise))
    connection.execute("INSERT INTO state VALUES (1, '', '', '', '', '', '', '')")


def checked_format(connection: sqlite3.Connection) -> int:
    """Which format the file has; E_LEDGER where it is not one of ours, to the letter."""
    ours, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if ours != APPLICATION_ID or version < 1:
        raise damaged("it is not a ledger")
    if version > FORMAT:
        raise too_new()
    expected = FORMAT_1 if version == 1 else FORMAT_1 + FORMAT_2
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 200"
    if {sql for (sql,) in connection.execute(query)} != set(expected):
        raise damaged("its tables or its safeguards were changed")
    return int(version)


def read_header(connection: sqlite3.Connection, version: int) -> Header:
    """The header, in the format it was written in."""
    rows = connection.execute("SELECT identity, epsilon, delta, accountant FROM header").fetchall()
    more = [(1, OWNER)] if version == 1 else connection.execute("SELECT written, promise FROM header_2").fetchall()
    if len(rows) != 1 or len(more) != 1 or not all(isinstance(text, str) for text in (*rows[0], more[0][1])):
        raise damaged("its header is missing")
    if more[0][0] not in {1, 2}:
        raise damaged("its header is of no format")
    identity, epsilon, delta, accountant = rows[0]
    return Header(identity, epsilon, delta, accountant, promise=more[0][1], written=more[0][0])
