"""What a ledger is made of, whatever keeps it: header, rows chained by hashes, and a sealed head.

Row n carries hash(n) = SHA-256(hash(n − 1) ‖ its fields); hash(0) covers the header. The head repeats the last number and
hash with the running sums and the state that follows from the rows, under a seal, so that a spend reads a few rows and not
the whole chain. Rows of format 2 have details, which their hash covers too.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from shoal.accounting.accountants import Spent
from shoal.errors import ShoalError
from shoal.frozen import dataclass

FORMAT = 2
SEPARATOR = "\x1f"

ENDS = frozenset({"answer", "failure", "withheld"})
"""Rows that end a spend."""
CHARGES = frozenset({"spend", "loss"})
"""Rows with amounts."""
NOTES = frozenset({"resume", "format", "raise", "suspend", "lift"})
"""Rows with neither."""

OWNER = '{"kind":"owner"}'
"""The promise of a ledger that names none: one owner's rows added or removed."""


def damaged(what: str) -> ShoalError:
    """The refusal for a ledger that is not what was written."""
    return ShoalError(
        "E_LEDGER",
        f"The ledger is damaged or was edited: {what}.",
        hint="Nothing can be spent on it. Restore the newest intact copy, or make a new ledger with what is left.",
    )


def too_new() -> ShoalError:
    """The refusal for a ledger of a later version: nothing is wrong with it."""
    return ShoalError("E_LEDGER", "The ledger was made by a newer shoal.", hint="Upgrade shoal to use it.")


# --- amounts ----------------------------------------------------------------------------------------------------------


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


Amounts = tuple[str, str, str, str]
"""ε, δ, ρ and its δ as strings."""
NOTHING: Amounts = ("", "", "", "")


def amounts_of(spent: Spent) -> Amounts:
    """Sums as strings."""
    return (
        amount_text(spent.epsilon),
        amount_text(spent.delta),
        amount_text(spent.rho),
        amount_text(spent.rho_delta),
    )


def spent_of(amounts: Amounts) -> Spent:
    """The sums that `amounts_of` wrote."""
    return Spent(*map(amount_of, amounts))


# --- header and rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Header:
    """What never changes. A budget of '' means none: the ledger only adds up. `written` is the format it was made in."""

    identity: str
    epsilon: str
    delta: str
    accountant: str
    promise: str = OWNER
    written: int = FORMAT

    @property
    def hash(self) -> str:
        """The start of the chain, by the rule of the format that the header was written in."""
        promise = () if self.written == 1 else (self.promise,)
        texts = ("shoal ledger", str(self.written), self.identity, self.epsilon, self.delta, self.accountant, *promise)
        return hashlib.sha256(SEPARATOR.join(texts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the ledger, as strings.

    A spend; with `reservation` > 0, how that spend ended; or a note. `about` is the spend that a note is about, `request`
    the key under which a spend was asked for, `details` canonical JSON. Rows of format 1 have none of the three.
    """

    kind: str
    noted_at: str = ""
    reservation: int = 0
    amounts: Amounts = NOTHING
    user: str = ""
    description: str = ""
    key: str = ""
    answer_sha256: str = ""
    about: int = 0
    request: str = ""
    details: str = "{}"

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns of format 1, in the order of the table."""
        return (self.kind, *self.amounts, self.user, self.description, self.key, self.noted_at, self.answer_sha256)

    @property
    def more(self) -> dict[str, Any]:
        """What the details say."""
        found: dict[str, Any] = json.loads(self.details)
        return found


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row in its place."""

    sequence: int
    row: Row
    hash: str


def canonical(details: dict[str, Any]) -> str:
    """Details as one text: sorted keys, no spaces, what is absent left out."""
    said = {key: value for key, value in details.items() if value not in (None, "", [], {})}
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def row_hash(previous: str, sequence: int, row: Row, row_format: int) -> str:
    """SHA-256 over the previous hash and all fields; the count of separators makes the joined text unambiguous."""
    texts = row.texts if row_format == 1 else (*row.texts, str(row.about), row.request, row.details)
    try:
        joined = SEPARATOR.join(texts)
    except TypeError:
        raise damaged("a field is not a string") from None
    if joined.count(SEPARATOR) != len(texts) - 1:
        raise damaged("a string contains a control character")
    return hashlib.sha256(f"{previous}\x1f{sequence}\x1f{row.reservation}\x1f{joined}".encode()).hexdigest()


# --- the head ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """What follows from the rows, and is looked up with every spend; format 1 has none of it.

    `budget`: the header's, or the last one it was raised to. `latest`: the latest moment seen. `covers`: 'value' once an
    entry protects values only. `accounts`, `suspensions`: digests of the two tables.
    `kept_since`: the bytes of earlier answers may be gone; this one alone does not follow from the rows.
    """

    budget: tuple[str, str] = ("", "")
    latest: str = ""
    covers: str = ""
    accounts: str = "0"
    suspensions: str = ""
    kept_since: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """In the order of the table."""
        return (*self.budget, self.latest, self.covers, self.accounts, self.suspensions, self.kept_since)


@dataclass(frozen=True, slots=True)
class Head:
    """The last row's number and hash, the sums up to it, and the state."""

    sequence: int
    hash: str
    spent: Spent = field(default_factory=Spent)
    state: State = field(default_factory=State)

    def seal(self, head_format: int = FORMAT) -> str:
        """A hash over the whole head."""
        state = self.state.texts if head_format > 1 else ()
        texts = (str(self.sequence), self.hash, *amounts_of(self.spent), *state)
        return hashlib.sha256(SEPARATOR.join(texts).encode()).hexdigest()


def digest_of_suspended(suspended: dict[str, int]) -> str:
    """A hash over the users who are suspended, each with the row that says so; there are few."""
    texts = sorted(f"{user}\x1f{sequence}" for user, sequence in suspended.items())
    return hashlib.sha256("\x1e".join(texts).encode()).hexdigest() if texts else ""


def digest_with(digest: str, name: str, before: Amounts | None, after: Amounts | None) -> str:
    """The digest of all accounts after one changed: a sum over accounts, so that the others need not be read."""
    total = int(digest, 16) - _account_hash(name, before) + _account_hash(name, after)
    return f"{total % 2**256:x}"


def _account_hash(name: str, amounts: Amounts | None) -> int:
    if amounts is None:
        return 0
    return int(hashlib.sha256(SEPARATOR.join((name, *amounts)).encode()).hexdigest(), 16)
