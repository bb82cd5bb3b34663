"""What a store can do: operations on rows, in transactions that see one state. The rules of spending are above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from shoal.accounting.stores.rows import Amounts, Head, Header, PlacedRow

CHUNK = 16 * 1024 * 1024
"""Answers are kept in pieces of this many bytes."""


class Transaction(Protocol):
    """One transaction. Those that change something are found in `writing` only."""

    format: int
    """1 or 2. A ledger that is written to has format 2: it is upgraded first."""

    # --- reading ---

    def header(self) -> Header:
        """The header of a store whose tables are, to the letter, the ones written here."""

    def head(self) -> tuple[Head, str]:
        """The head and its seal, as they were found."""

    def clock(self) -> str:
        """The store's time, as 2026-10-31T23:59:59Z."""

    def rows(self) -> Iterator[PlacedRow]:
        """Every row, oldest first."""

    def row(self, sequence: int) -> PlacedRow | None:
        """One row."""

    def last(self) -> tuple[int, str] | None:
        """Number and hash of the last row."""

    def end_of(self, spend: int) -> PlacedRow | None:
        """The row that ended a spend."""

    def ended_spends(self) -> list[int]:
        """Every spend that has ended."""

    def spends_with_key(self, key: str) -> list[int]:
        """Spends with this fingerprint, oldest first."""

    def spends_with_request(self, request: str) -> list[int]:
        """Spends under this request key, oldest first."""

    def is_resumed(self, spend: int) -> bool:
        """Whether a row of kind `resume` is about this spend."""

    def account(self, name: str) -> Amounts | None:
        """The sums of an account."""

    def accounts(self) -> list[tuple[str, Amounts]]:
        """All accounts, by name."""

    def suspended(self) -> dict[str, int]:
        """Users who are suspended, with the row that says so."""

    def running(self, user: str | None = None) -> list[tuple[int, str, str]]:
        """Spends that have not ended, of everybody or of one user: number, user, process."""

    def answer(self, spend: int) -> list[bytes]:
        """The pieces of a stored answer; none where it is not kept."""

    def is_whole(self) -> bool:
        """Whether nothing is cut off, and nothing appended."""

    # --- writing ---

    def append(self, entry: PlacedRow) -> None:
        """One more row; the head that follows from it is put before the end."""

    def put_head(self, head: Head) -> None:
        """The head that follows from all rows and changes of the transaction."""

    def put_account(self, name: str, amounts: Amounts) -> None:
        """New sums of an account."""

    def put_suspended(self, user: str, sequence: int) -> None:
        """A user is suspended by this row; 0: not any more."""

    def start(self, spend: int, user: str, process: str) -> None:
        """A spend is running in this process."""

    def finish(self, spend: int) -> None:
        """A spend has ended."""

    def put_answer(self, spend: int, pieces: Sequence[bytes]) -> None:
        """Keep an answer."""

    def drop_answers(self, before: str) -> int:
        """Forget the bytes of answers that were given before this moment; how many were."""

    def savepoint(self) -> AbstractContextManager[None]:
        """What happens inside is undone when it raises."""


class Store(Protocol):
    """Where the rows are."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer can overlap: all of it is kept durably, or nothing."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes nothing."""

    def turn(self) -> AbstractContextManager[object]:
        """The place at the head of this process's queue; no fork happens while it is held."""

    def confirm(self) -> None:
        """The history was checked against an anchor."""

    def mark(self) -> object | None:
        """Differs after every change, and is much cheaper than a look; None where no such mark is known right now."""
