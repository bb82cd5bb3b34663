"""A ledger in SQLite: each operation of a transaction is a statement or two."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shoal.accounting.stores.check import checked_head
from shoal.accounting.stores.rows import (
    FORMAT,
    Amounts,
    Head,
    Header,
    PlacedRow,
    Row,
    State,
    amounts_of,
    canonical,
    damaged,
    row_hash,
    spent_of,
)
from shoal.accounting.stores.sqlite_tables import SCHEMA_SHA256, checked_format, make_tables, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FIRST_FORMAT = (
    "s.kind, s.noted_at, s.reservation, s.epsilon, s.delta, s.rho, s.rho_delta, s.user, s.description, s.key,"
    " s.answer_sha256, s.hash"
)
_SELECT = {
    1: f"SELECT s.sequence, {_FIRST_FORMAT}, 0, '', '{{}}' FROM entries s",
    2: (
        f"SELECT s.sequence, {_FIRST_FORMAT}, COALESCE(d.about, 0), COALESCE(d.request, ''), COALESCE(d.body, '{{}}')"
        " FROM entries s LEFT JOIN details d ON d.sequence = s.sequence"
    ),
}


def now() -> str:
    """This machine's time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SqliteTransaction:
    """See `base.Transaction`."""

    def __init__(self, connection: sqlite3.Connection, is_whole: Callable[[sqlite3.Connection], bool]) -> None:
        self._connection = connection
        self._is_whole = is_whole
        self._savepoint = ""
        self.format = checked_format(connection)

    # --- reading ---

    def header(self) -> Header:
        """See `base.Transaction`."""
        return read_header(self._connection, self.format)

    def head(self) -> tuple[Head, str]:
        """See `base.Transaction`."""
        rows = self._all("SELECT sequence, hash, epsilon, delta, rho, rho_delta, seal FROM head")
        states = [("",) * 7]
        if self.format > 1:
            states = self._all("SELECT epsilon, delta, latest, covers, accounts, suspensions, kept_since FROM state")
        if len(rows) != 1 or len(states) != 1 or not isinstance(rows[0][0], int):
            raise damaged("its head is missing")
        if not all(isinstance(text, str) for text in (*rows[0][1:], *states[0])):
            raise damaged("its head is missing")
        sequence, last_hash, *amounts, seal = rows[0]
        epsilon, delta, *others = states[0]
        state = State((epsilon, delta), *others) if self.format > 1 else State()
        return Head(sequence, last_hash, spent_of((amounts[0], amounts[1], amounts[2], amounts[3])), state), seal

    def clock(self) -> str:
        """See `base.Transaction`."""
        return now()

    def rows(self) -> Iterator[PlacedRow]:
        """See `base.Transaction`."""
        return map(_entry, self._connection.execute(f"{_SELECT[self.format]} ORDER BY s.sequence"))

    def row(self, sequence: int) -> PlacedRow | None:
        """See `base.Transaction`."""
        return self._one_entry("s.sequence = ?", sequence)

    def last(self) -> tuple[int, str] | None:
        """See `base.Transaction`."""
        found: tuple[int, str] | None = self._connection.execute(
            "SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        return found

    def end_of(self, spend: int) -> PlacedRow | None:
        """See `base.Transaction`."""
        return self._one_entry("s.reservation = ? AND s.reservation > 0", spend)

    def ended_spends(self) -> list[int]:
        """See `base.Transaction`."""
        return [number for (number,) in self._all("SELECT reservation FROM entries WHERE reservation > 0")]

    def spends_with_key(self, key: str) -> list[int]:
        """See `base.Transaction`."""
        query = "SELECT sequence FROM entries WHERE key = ? AND key <> '' AND kind = 'spend' ORDER BY sequence"
        return [number for (number,) in self._all(query, key)]

    def spends_with_request(self, request: str) -> list[int]:
        """See `base.Transaction`."""
        if self.format == 1:
            return []
        query = "SELECT sequence FROM details WHERE request = ? AND request <> '' ORDER BY sequence"
        return [number for (number,) in self._all(query, request)]

    def is_resumed(self, spend: int) -> bool:
        """See `base.Transaction`."""
        query = (
            "SELECT 1 FROM details d JOIN entries s ON s.sequence = d.sequence"
            " WHERE d.about = ? AND d.about > 0 AND s.kind = 'resume'"
        )
        return self.format > 1 and bool(self._all(query, spend))

    def account(self, name: str) -> Amounts | None:
        """See `base.Transaction`."""
        if self.format == 1:
            return None
        found: Amounts | None = self._connection.execute(
            "SELECT epsilon, delta, rho, rho_delta FROM accounts WHERE name = ?", (name,)
        ).fetchone()
        return found

    def accounts(self) -> list[tuple[str, Amounts]]:
        """See `base.Transaction`."""
        if self.format == 1:
            return []
        rows = self._all("SELECT name, epsilon, delta, rho, rho_delta FROM accounts ORDER BY name")
        return [(name, (epsilon, delta, rho, rho_delta)) for name, epsilon, delta, rho, rho_delta in rows]

    def suspended(self) -> dict[str, int]:
        """See `base.Transaction`."""
        return {} if self.format == 1 else dict(self._all("SELECT user, sequence FROM suspensions"))

    def running(self, user: str | None = None) -> list[tuple[int, str, str]]:
        """See `base.Transaction`."""
        if self.format == 1:
            query = (
                "SELECT s.sequence, s.user, '' FROM entries s LEFT JOIN entries e ON e.reservation = s.sequence"
                " AND e.reservation > 0 WHERE s.kind = 'spend' AND e.sequence IS NULL"
            )
            return [row for row in self._all(query) if user in {None, row[1]}]
        query = "SELECT sequence, user, process FROM running"
        return self._all(query) if user is None else self._all(f"{query} WHERE user = ?", user)

    def answer(self, spend: int) -> list[bytes]:
        """See `base.Transaction`."""
        found = self._all("SELECT body FROM answers WHERE reservation = ?", spend)
        if not found and self.format > 1:
            found = self._all("SELECT body FROM pieces WHERE reservation = ? ORDER BY number", spend)
        return [body for (body,) in found]

    def is_whole(self) -> bool:
        """See `base.Transaction`."""
        return self._is_whole(self._connection)

    # --- writing ---

    def _change(self, query: str, values: Sequence[object]) -> None:
        """A savepoint begins with the first change inside it: most steps look and change nothing."""
        if self._savepoint == "wanted":
            self._connection.execute("SAVEPOINT one_of_many")
            self._savepoint = "begun"
        self._connection.execute(query, values)

    def append(self, entry: PlacedRow) -> None:
        """See `base.Transaction`."""
        row = entry.row
        self._change(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.sequence, row.reservation, *row.texts, entry.hash),
        )
        if (row.about, row.request, row.details) != (0, "", "{}"):
            details = (entry.sequence, row.about, row.request, row.details)
            self._change("INSERT INTO details VALUES (?, ?, ?, ?)", details)

    def put_head(self, head: Head) -> None:
        """See `base.Transaction`."""
        self._change(
            "UPDATE head SET sequence = ?, hash = ?, epsilon = ?, delta = ?, rho = ?, rho_delta = ?, seal = ?",
            (head.sequence, head.hash, *amounts_of(head.spent), head.seal()),
        )
        self._change(
            "UPDATE state SET epsilon = ?, delta = ?, latest = ?, covers = ?, accounts = ?, suspensions = ?,"
            " kept_since = ?",
            head.state.texts,
        )

    def put_account(self, name: str, amounts: Amounts) -> None:
        """See `base.Transaction`."""
        self._change("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?)", (name, *amounts))

    def put_suspended(self, user: str, sequence: int) -> None:
        """See `base.Transaction`."""
        self._change("DELETE FROM suspensions WHERE user = ?", (user,))
        if sequence:
            self._change("INSERT INTO suspensions VALUES (?, ?)", (user, sequence))

    def start(self, spend: int, user: str, process: str) -> None:
        """See `base.Transaction`."""
        self._change("INSERT OR REPLACE INTO running VALUES (?, ?, ?)", (spend, user, process))

    def finish(self, spend: int) -> None:
        """See `base.Transaction`."""
        self._change("DELETE FROM running WHERE sequence = ?", (spend,))

    def put_answer(self, spend: int, pieces: Sequence[bytes]) -> None:
        """See `base.Transaction`."""
        for number, body in enumerate(pieces):
            self._change("INSERT INTO pieces VALUES (?, ?, ?)", (spend, number, body))

    def drop_answers(self, before: str) -> int:
        """See `base.Transaction`. Answers of format 1 stay: their table refuses it."""
        given = "SELECT reservation FROM entries WHERE kind = 'answer' AND noted_at < ?"
        dropped = self._all(f"SELECT DISTINCT reservation FROM pieces WHERE reservation IN ({given})", before)
        self._change(f"DELETE FROM pieces WHERE reservation IN ({given})", (before,))
        return len(dropped)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """See `base.Transaction`."""
        self._savepoint = "wanted"
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has undone the whole transaction already
                self._leave_savepoint("ROLLBACK TO one_of_many")
            raise
        self._leave_savepoint()

    def _leave_savepoint(self, *first: str) -> None:
        begun, self._savepoint = self._savepoint == "begun", ""
        for statement in (*first, "RELEASE one_of_many") if begun else ():
            self._connection.execute(statement)

    # --- making and upgrading ---

    def upgrade(self) -> None:
        """From format 1 to 2: tables beside the old ones, and a row that chains the two."""
        header = self.header()
        head, open_spends = checked_head(self, header), self.running()
        make_tables(self._connection, header, found=1)
        self.format = FORMAT
        for spend, user, _ in open_spends:
            self.start(spend, user, "")
        row = Row("format", now(), details=canonical({"schema_sha256": SCHEMA_SHA256}))
        state = State(budget=(header.epsilon, header.delta), latest=row.noted_at)
        number = head.sequence + 1
        entry = PlacedRow(number, row, row_hash(head.hash, number, row, FORMAT))
        self.append(entry)
        self.put_head(Head(number, entry.hash, head.spent, state))

    def _all(self, query: str, *values: object) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def _one_entry(self, condition: str, value: int) -> PlacedRow | None:
        found = self._connection.execute(f"{_SELECT[self.format]} WHERE {condition}", (value,)).fetchone()
        return None if found is None else _entry(found)


def start_ledger(connection: sqlite3.Connection, header: Header) -> None:
    """Tables, header and an empty head, in a new database."""
    make_tables(connection, header)
    transaction = SqliteTransaction(connection, lambda _: True)
    transaction.put_head(first_head(header))


def first_head(header: Header) -> Head:
    """Where the chain begins."""
    return Head(0, header.hash, state=State(budget=(header.epsilon, header.delta)))


def _entry(found: Any) -> PlacedRow:
    (
        sequence,
        kind,
        noted_at,
        reservation,
        *amounts,
        user,
        description,
        key,
        digest,
        row_hash_,
        about,
        request,
        details,
    ) = found
    row = Row(kind, noted_at, reservation, tuple(amounts), user, description, key, digest, about, request, details)
    return PlacedRow(sequence, row, row_hash_)
