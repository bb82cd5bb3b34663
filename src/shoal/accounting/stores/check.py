"""Checking a ledger: the head with every transaction, everything when it is opened."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Spent
from shoal.accounting.stores.rows import (
    CHARGES,
    ENDS,
    NOTES,
    Amounts,
    Head,
    Row,
    State,
    amount_of,
    amounts_of,
    damaged,
    digest_of_suspended,
    digest_with,
    row_hash,
)
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.accounting.stores.base import Transaction
    from shoal.accounting.stores.rows import Header

Anchor = tuple[int, str]
"""Number and hash of a row."""


def checked_head(transaction: Transaction, header: Header) -> Head:
    """The head, after checking its seal, the last row, and who is suspended."""
    head, seal = transaction.head()
    if head.seal(transaction.format) != seal or (head.sequence, head.hash) != (transaction.last() or (0, header.hash)):
        raise damaged("its head does not fit its last row")
    if digest_of_suspended(transaction.suspended()) != head.state.suspensions:
        raise damaged("its suspensions do not fit its head")
    return head


def check_everything(transaction: Transaction) -> tuple[Header, Head]:
    """Header, head, and every row: numbers without a gap, hashes that follow, settlements of earlier spends, sums."""
    header = transaction.header()
    head = checked_head(transaction, header)
    told = Tale(header)
    for entry in transaction.rows():
        told.add(entry.sequence, entry.row, entry.hash)
    if told.head(head.state.kept_since) != head:
        raise damaged("its sums do not fit its rows")
    if transaction.format > 1 and (
        told.sums_of_accounts() != dict(transaction.accounts())
        or told.open_spends != {sequence: user for sequence, user, _ in transaction.running()}
    ):
        raise damaged("its accounts or its open charges do not fit its rows")
    return header, head


class Tale:
    """What the rows say when they are read from the beginning."""

    def __init__(self, header: Header) -> None:
        self._format = header.written
        self._sequence, self._hash = 0, header.hash
        self._state = State(budget=(header.epsilon, header.delta)) if self._format > 1 else State()
        self._budget = (header.epsilon, header.delta)
        self._charges: Counter[Amounts] = Counter()
        self._accounts: dict[str, Counter[Amounts]] = {}
        self._suspended: dict[str, int] = {}
        self.open_spends: dict[int, str] = {}

    def add(self, sequence: int, row: Row, found: str) -> None:
        """The next row."""
        if row.kind == "format" and self._format == 1:
            self._format = 2
            self._state = State(budget=self._budget)
        self._hash = row_hash(self._hash, self._sequence + 1, row, self._format)
        if sequence != self._sequence + 1 or found != self._hash:
            raise damaged("a row was changed, moved or removed")
        self._sequence = sequence
        if row.kind in CHARGES:
            self._charge(sequence, row)
        elif row.kind in ENDS and row.reservation in self.open_spends:
            del self.open_spends[row.reservation]
        elif row.kind in NOTES and not row.reservation and self._format > 1:
            self._note(sequence, row)
        else:
            raise damaged("a row is of an unknown kind, or ends no spend")
        if self._format > 1:
            self._state = replace(self._state, latest=max(self._state.latest, row.noted_at))

    def _charge(self, sequence: int, row: Row) -> None:
        self._charges[row.amounts] += 1
        if row.kind == "spend":
            self.open_spends[sequence] = row.user
        if row.details == "{}":
            return
        said = row.more
        for name in said.get("accounts", ()):
            self._accounts.setdefault(name, Counter())[row.amounts] += 1
        if "covers" in said:
            self._state = replace(self._state, covers=said["covers"])

    def _note(self, sequence: int, row: Row) -> None:
        if row.kind == "suspend":
            self._suspended[row.user] = sequence
        elif row.kind == "lift":
            self._suspended.pop(row.user, None)
        elif row.kind == "raise":
            said = row.more
            self._state = replace(self._state, budget=(said["epsilon"], said["delta"]))

    def sums_of_accounts(self) -> dict[str, Amounts]:
        """Each account's sums, from its spends."""
        return {name: amounts_of(_sum(charges)) for name, charges in self._accounts.items()}

    def head(self, kept_since: str) -> Head:
        """The head that follows."""
        state = self._state
        if self._format > 1:
            digest = "0"
            for name, amounts in self.sums_of_accounts().items():
                digest = digest_with(digest, name, None, amounts)
            suspended = digest_of_suspended(self._suspended)
            state = replace(state, accounts=digest, suspensions=suspended, kept_since=kept_since)
        return Head(self._sequence, self._hash, _sum(self._charges), state)


def _sum(charges: Counter[Amounts]) -> Spent:
    """The running sums, each distinct charge parsed once."""
    spent = Spent()
    for texts, count in charges.items():
        amounts = [amount_of(text) * count for text in texts]
        spent = Spent(
            spent.epsilon + amounts[0],
            spent.delta + amounts[1],
            spent.rho + amounts[2],
            spent.rho_delta + amounts[3],
        )
    return spent


def anchor_text(anchor: Anchor) -> str:
    """An anchor as it is written down: number:hash."""
    return f"{anchor[0]}:{anchor[1]}"


def _has_row(transaction: Transaction, anchor: Anchor) -> bool:
    sequence, expected = anchor
    found = transaction.row(sequence) if sequence else None
    return expected == (transaction.header().hash if not sequence else found and found.hash)


def require_row(transaction: Transaction, anchor: Anchor) -> None:
    """E_LEDGER unless the row is there."""
    if not _has_row(transaction, anchor):
        raise damaged("it is older than it was, or another history took its place")


def require_anchor(transaction: Transaction, anchor: Anchor) -> None:
    """The row is there, or what was lost with it is booked."""
    booked = (r.row.more.get("anchor") for r in transaction.rows() if r.row.kind == "loss")
    if not _has_row(transaction, anchor) and anchor_text(anchor) not in booked:
        raise ShoalError(
            "E_LEDGER",
            "The ledger is older than its anchor: what was charged since is missing.",
            hint="Restore the newest copy, or record what is missing:"
            " shoal budget --ledger FILE --anchor N:HASH --loss EPS,DELTA --because TEXT",
        )
