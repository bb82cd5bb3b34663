"""A ledger in PostgreSQL: any number of machines on one budget.

A charge is one transaction that locks the ledger's head row, so that no other writer comes between; it waits for the disk
whatever the server's settings are. A server that would not keep what it confirms is refused when the ledger is opened.
"""

from __future__ import annotations

import os
import select
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.accounting.stores.fork_lock import NO_FORK_INSIDE
from shoal.accounting.stores.postgresql_server import (
    connect,
    last_migration,
    plain_words,
    require_keeping,
    require_one_owner,
    timeline_of,
    with_safe_transport,
)
from shoal.accounting.stores.postgresql_tables import MIGRATIONS
from shoal.accounting.stores.rows import (
    FORMAT,
    Amounts,
    Head,
    Header,
    PlacedRow,
    Row,
    State,
    amounts_of,
    damaged,
    spent_of,
    too_new,
)
from shoal.accounting.stores.sqlite import first_head
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

MIGRATING = 0x53484F4C
"""The advisory lock under which tables are made."""
LOCK_SECONDS = 60
MADE = "shoal.migrations"
_COLUMNS = (
    'sequence, kind, noted_at, reservation, epsilon, delta, rho, rho_delta, "user", description, key,'
    " answer_sha256, hash, about, request, details"
)
_HEAD = "sequence, hash, epsilon, delta, rho, rho_delta, seal"
_STATE = "budget_epsilon, budget_delta, latest, covers, accounts, suspensions, kept_since"


class PostgresStore:
    """See `base.Store`. One connection, made anew after a fork or a failure, and where the server has ended it meanwhile."""

    def __init__(self, url: str, *, has_anchor: bool = False) -> None:
        self._address, self._ledger = _split(url)
        self._held = _Held()
        weakref.finalize(self, self._held.close)
        with NO_FORK_INSIDE, plain_words(), self._connected() as connection, connection.transaction():
            _require_tables(connection)
            require_keeping(connection)
            _require_timeline(connection, self._ledger, has_anchor=has_anchor)

    @contextmanager
    def writing(self) -> Iterator[PostgresTransaction]:
        """See `base.Store`."""
        with NO_FORK_INSIDE, plain_words(), self._connected() as connection, connection.transaction():
            connection.execute(f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            connection.execute("SELECT 1 FROM shoal.head WHERE ledger = %s FOR UPDATE", (self._ledger,))
            yield PostgresTransaction(connection, self._ledger)

    @contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        """See `base.Store`."""
        with NO_FORK_INSIDE, plain_words(), self._connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield PostgresTransaction(connection, self._ledger)

    def turn(self) -> AbstractContextManager[object]:
        """See `base.Store`."""
        return NO_FORK_INSIDE

    def confirm(self) -> None:
        """See `base.Store`. From now on the server's new timeline is the known one."""
        with NO_FORK_INSIDE, plain_words(), self._connected() as connection, connection.transaction():
            values = (timeline_of(connection), self._ledger)
            connection.execute("UPDATE shoal.head SET timeline = %s WHERE ledger = %s", values)

    def mark(self) -> object | None:
        """See `base.Store`. Nothing is known without asking the server."""
        return None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """The one connection; one that failed is not used again."""
        held = self._held
        if held.process != os.getpid():
            # The other process still uses its connection: closing this copy of it would close that one.
            _LEFT_ALONE.append(held.connection)
            held.connection, held.process = None, os.getpid()
        if held.connection is not None and _has_news(held.connection):
            held.close()
        if held.connection is None:
            held.connection = connect(self._address)
        try:
            yield held.connection
        finally:
            if held.connection is not None and held.connection.broken:
                held.close()


def _has_news(connection: Connection) -> bool:
    """Whether a server that was asked nothing has said something: that it ends, or nothing any more."""
    watched = select.poll()
    watched.register(connection.fileno(), select.POLLIN)
    return bool(watched.poll(0))


class _Held:
    """A connection, and the process that made it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.process = os.getpid()

    def close(self) -> None:
        """Let go of it, if it is ours."""
        if self.connection is not None and self.process == os.getpid():
            self.connection.close()
            self.connection = None


_LEFT_ALONE: list[Connection | None] = []


class PostgresTransaction:
    """See `base.Transaction`."""

    format = FORMAT

    def __init__(self, connection: Connection, ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger

    # --- reading ---

    def header(self) -> Header:
        """See `base.Transaction`."""
        rows = self._all(
            "SELECT identity, epsilon, delta, accountant, promise, written FROM shoal.header WHERE ledger = %s"
        )
        if len(rows) != 1:
            raise _missing()
        return Header(*rows[0])

    def head(self) -> tuple[Head, str]:
        """See `base.Transaction`."""
        rows = self._all(f"SELECT {_HEAD}, {_STATE} FROM shoal.head WHERE ledger = %s")
        if len(rows) != 1:
            raise damaged("its head is missing")
        sequence, last_hash, epsilon, delta, rho, rho_delta, seal, *state = rows[0]
        spent = spent_of((epsilon, delta, rho, rho_delta))
        return Head(sequence, last_hash, spent, State((state[0], state[1]), *state[2:])), seal

    def clock(self) -> str:
        """See `base.Transaction`."""
        query = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        ((moment,),) = self._connection.execute(query).fetchall()
        return str(moment)

    def rows(self) -> Iterator[PlacedRow]:
        """See `base.Transaction`."""
        with self._connection.cursor(name="rows") as cursor:
            cursor.itersize = 10_000
            cursor.execute(f"SELECT {_COLUMNS} FROM shoal.entries WHERE ledger = %s ORDER BY sequence", (self._ledger,))
            yield from map(_placed, cursor)

    def row(self, sequence: int) -> PlacedRow | None:
        """See `base.Transaction`."""
        return self._one_row("sequence = %s", sequence)

    def last(self) -> tuple[int, str] | None:
        """See `base.Transaction`."""
        query = "SELECT sequence, hash FROM shoal.entries WHERE ledger = %s ORDER BY sequence DESC LIMIT 1"
        return next(iter(self._all(query)), None)

    def end_of(self, spend: int) -> PlacedRow | None:
        """See `base.Transaction`."""
        return self._one_row("reservation = %s AND reservation > 0", spend)

    def ended_spends(self) -> list[int]:
        """See `base.Transaction`."""
        query = "SELECT reservation FROM shoal.entries WHERE ledger = %s AND reservation > 0"
        return [number for (number,) in self._all(query)]

    def spends_with_key(self, key: str) -> list[int]:
        """See `base.Transaction`."""
        condition = "key = %s AND key <> '' AND kind = 'spend'"
        query = f"SELECT sequence FROM shoal.entries WHERE ledger = %s AND {condition} ORDER BY sequence"
        return [number for (number,) in self._all(query, key)]

    def spends_with_request(self, request: str) -> list[int]:
        """See `base.Transaction`."""
        condition = "request = %s AND request <> ''"
        query = f"SELECT sequence FROM shoal.entries WHERE ledger = %s AND {condition} ORDER BY sequence"
        return [number for (number,) in self._all(query, request)]

    def is_resumed(self, spend: int) -> bool:
        """See `base.Transaction`."""
        return bool(self._one_row("about = %s AND about > 0 AND kind = 'resume'", spend))

    def account(self, name: str) -> Amounts | None:
        """See `base.Transaction`."""
        query = "SELECT epsilon, delta, rho, rho_delta FROM shoal.accounts WHERE ledger = %s AND name = %s"
        return next(iter(self._all(query, name)), None)

    def accounts(self) -> list[tuple[str, Amounts]]:
        """See `base.Transaction`."""
        query = "SELECT name, epsilon, delta, rho, rho_delta FROM shoal.accounts WHERE ledger = %s ORDER BY name"
        return [(name, (epsilon, delta, rho, last)) for name, epsilon, delta, rho, last in self._all(query)]

    def suspended(self) -> dict[str, int]:
        """See `base.Transaction`."""
        return dict(self._all('SELECT "user", sequence FROM shoal.suspensions WHERE ledger = %s'))

    def running(self, user: str | None = None) -> list[tuple[int, str, str]]:
        """See `base.Transaction`."""
        query = 'SELECT sequence, "user", process FROM shoal.running WHERE ledger = %s'
        return self._all(query) if user is None else self._all(f'{query} AND "user" = %s', user)

    def answer(self, spend: int) -> list[bytes]:
        """See `base.Transaction`."""
        query = "SELECT body FROM shoal.pieces WHERE ledger = %s AND reservation = %s ORDER BY number"
        return [bytes(body) for (body,) in self._all(query, spend)]

    def is_whole(self) -> bool:
        """See `base.Transaction`. The server looks after its own files."""
        return True

    # --- writing ---

    def append(self, placed: PlacedRow) -> None:
        """See `base.Transaction`."""
        row = placed.row
        values = (self._ledger, placed.sequence, row.reservation, *row.texts, row.about, row.request, row.details)
        places = ", ".join(["%s"] * (len(values) + 1))
        self._connection.execute(f"INSERT INTO shoal.entries VALUES ({places})", (*values, placed.hash))

    def put_head(self, head: Head) -> None:
        """See `base.Transaction`."""
        names = ", ".join(f"{name} = %s" for name in f"{_HEAD}, {_STATE}".split(", "))
        values = (head.sequence, head.hash, *amounts_of(head.spent), head.seal(), *head.state.texts)
        self._connection.execute(f"UPDATE shoal.head SET {names} WHERE ledger = %s", (*values, self._ledger))

    def put_account(self, name: str, amounts: Amounts) -> None:
        """See `base.Transaction`."""
        self._connection.execute(
            "INSERT INTO shoal.accounts VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (ledger, name) DO UPDATE SET"
            " epsilon = excluded.epsilon, delta = excluded.delta, rho = excluded.rho, rho_delta = excluded.rho_delta",
            (self._ledger, name, *amounts),
        )

    def put_suspended(self, user: str, sequence: int) -> None:
        """See `base.Transaction`."""
        self._run('DELETE FROM shoal.suspensions WHERE ledger = %s AND "user" = %s', user)
        if sequence:
            self._run("INSERT INTO shoal.suspensions VALUES (%s, %s, %s)", user, sequence)

    def start(self, spend: int, user: str, process: str) -> None:
        """See `base.Transaction`."""
        self.finish(spend)
        self._run("INSERT INTO shoal.running VALUES (%s, %s, %s, %s)", spend, user, process)

    def finish(self, spend: int) -> None:
        """See `base.Transaction`."""
        self._run("DELETE FROM shoal.running WHERE ledger = %s AND sequence = %s", spend)

    def put_answer(self, spend: int, pieces: Sequence[bytes]) -> None:
        """See `base.Transaction`."""
        for number, body in enumerate(pieces):
            self._run("INSERT INTO shoal.pieces VALUES (%s, %s, %s, %s)", spend, number, body)

    def drop_answers(self, before: str) -> int:
        """See `base.Transaction`."""
        self._connection.execute("SET LOCAL shoal.dropping = 'on'")
        deleted = self._all(
            "DELETE FROM shoal.pieces p USING shoal.entries e WHERE p.ledger = %s AND e.ledger = p.ledger"
            " AND e.reservation = p.reservation AND e.kind = 'answer' AND e.noted_at < %s RETURNING p.reservation",
            before,
        )
        self._connection.execute("SET LOCAL shoal.dropping = 'off'")
        return len(set(deleted))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """See `base.Transaction`."""
        with self._connection.transaction():
            yield

    def _run(self, query: str, *values: object) -> None:
        self._connection.execute(query, (self._ledger, *values))

    def _all(self, query: str, *values: object) -> list[Any]:
        found: list[Any] = self._connection.execute(query, (self._ledger, *values)).fetchall()
        return found

    def _one_row(self, condition: str, value: int) -> PlacedRow | None:
        found = self._all(f"SELECT {_COLUMNS} FROM shoal.entries WHERE ledger = %s AND {condition} LIMIT 1", value)
        return _placed(found[0]) if found else None


def _placed(found: Any) -> PlacedRow:
    sequence, kind, noted_at, reservation, *amounts, user, description, key, digest, hash_, about, request, body = found
    row = Row(kind, noted_at, reservation, tuple(amounts), user, description, key, digest, about, request, body)
    return PlacedRow(sequence, row, hash_)


# --- making one -------------------------------------------------------------------------------------------------------


def create(url: str, header: Header) -> None:
    """A new ledger, in tables that are made if they are missing; an existing one is never replaced."""
    address, ledger = _split(url)
    with plain_words(), connect(address) as connection, connection.transaction():
        require_keeping(connection)
        make_tables(connection)
        require_one_owner(connection, beginning=True)
        values = (header.identity, header.epsilon, header.delta, header.accountant, header.promise, header.written)
        made = connection.execute(
            "INSERT INTO shoal.header VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING ledger",
            (ledger, *values),
        ).fetchall()
        if not made:
            raise ShoalError(
                "E_LEDGER",
                "A ledger of this name already exists, and ledgers are never overwritten.",
                hint="Choose another name.",
            )
        head = first_head(header)
        kept = (head.sequence, head.hash, *amounts_of(head.spent), head.seal(), *head.state.texts)
        places = ", ".join(["%s"] * (len(kept) + 2))
        connection.execute(f"INSERT INTO shoal.head VALUES ({places})", (ledger, *kept, timeline_of(connection)))


def exists_in(url: str) -> bool:
    """Whether the database has a ledger of this name."""
    address, ledger = _split(url)
    with plain_words(), connect(address) as connection, connection.transaction():
        ((tables,),) = connection.execute("SELECT to_regclass('shoal.header') IS NOT NULL").fetchall()
        query = "SELECT 1 FROM shoal.header WHERE ledger = %s"
        return bool(tables) and bool(connection.execute(query, (ledger,)).fetchall())


def make_tables(connection: Connection) -> None:
    """Every migration that is missing, under one lock, in the transaction of the caller."""
    if last_migration(connection, MADE) == len(MIGRATIONS):
        return  # a role that may make nothing can still begin a ledger
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
    connection.execute("CREATE SCHEMA IF NOT EXISTS shoal")
    connection.execute("CREATE TABLE IF NOT EXISTS shoal.migrations (number INTEGER PRIMARY KEY)")
    done = {number for (number,) in connection.execute("SELECT number FROM shoal.migrations").fetchall()}
    if max(done, default=0) > len(MIGRATIONS):
        raise too_new()
    for number, statements in enumerate(MIGRATIONS, start=1):
        if number not in done:
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO shoal.migrations VALUES (%s)", (number,))


# --- checking the server ----------------------------------------------------------------------------------------------


def _require_tables(connection: Connection) -> None:
    newest = last_migration(connection, MADE)
    if not newest:
        raise _missing()
    if newest != len(MIGRATIONS):
        raise too_new()
    require_one_owner(connection)


def _require_timeline(connection: Connection, ledger: str, *, has_anchor: bool) -> None:
    """A failover may have lost the last charges: the ledger is opened with an anchor, once, before it goes on."""
    found = connection.execute("SELECT timeline FROM shoal.head WHERE ledger = %s", (ledger,)).fetchall()
    if not found:
        raise _missing()
    if found[0][0] == timeline_of(connection):
        return
    if not has_anchor:
        raise ShoalError(
            "E_LEDGER",
            "The database server failed over or was restored since the ledger was last used.",
            hint="Check that no charge was lost: shoal budget --ledger URL --anchor N:HASH",
        )


def _missing() -> ShoalError:
    return ShoalError(
        "E_LEDGER",
        "There is no ledger of this name in the database.",
        hint="Create one with: shoal budget --ledger URL#NAME --create EPSILON,DELTA",
    )


# --- connections ------------------------------------------------------------------------------------------------------


def _split(url: str) -> tuple[str, str]:
    """The server's address and the ledger's name (after #; 'ledger' where there is none)."""
    address, _, name = url.partition("#")
    if name and not all(c.isalnum() or c in "-_." for c in name):
        raise ShoalError("E_USAGE", "A ledger's name has letters, digits, and - _ . only.")
    return with_safe_transport(address), name or "ledger"
