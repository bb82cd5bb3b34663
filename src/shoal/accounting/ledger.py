"""The ledger: one budget, every spend remembered, charged durably before any data is read, never given back.

One ledger is one budget for one kind of owner. Whoever can reach the same owners (users, sessions, services, views and
copies of the tables) must share it: two ledgers over the same people are two budgets.

    >>> from fractions import Fraction
    >>> from shoal.accounting.accountants import Loss
    >>> from shoal.params import Budget
    >>> ledger = Ledger.in_memory(Budget(Fraction(1), Fraction(0)))
    >>> reservation = ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), user="ann", description="SELECT …")
    >>> reservation.commit(b"rows")
    >>> ledger.spent, ledger.remaining
    ((Fraction(1, 10), Fraction(0, 1)), (Fraction(9, 10), Fraction(0, 1)))
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shoal.accounting import ledger_file
from shoal.accounting.accountants import Accountant, Loss, Spent, accountant
from shoal.accounting.ledger_file import FileStore, Head, Header, MemoryStore, Row, Store, amount_of, amount_text
from shoal.accounting.suspension import Suspension, Told, suspended, told_by_failures
from shoal.errors import InternalError, ShoalError
from shoal.params import Budget

if TYPE_CHECKING:
    import os
    import sqlite3

LONGEST_DESCRIPTION = 4096
LONGEST_USER = 256
LONGEST_KEY = 256
LARGEST_STORED_ANSWER = 64 * 1024 * 1024
MOST_BITS_OF_A_SUM = 4096
"""Past it, a charge is rounded up to 128 binary digits, so that sums of unrelated fractions stay short."""

CANCELLED = "cancelled"
"""What stands in the row of a run that was ended on request."""
_WHO = "shoal budget --ledger FILE shows who is."

State = Literal["reserved", "answered", "failed", "cancelled", "withheld"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend, as a person reads it. All are charged; only 'answered' had an answer.

    One that stays 'reserved' was cut short. 'withheld': it ended while its user was suspended.
    """

    sequence: int
    noted_at: str
    user: str
    description: str
    epsilon: Fraction
    delta: Fraction
    state: State


class Reservation:
    """A charge that is already durable, waiting for its answer.

    `answer` is not None when the idempotency key was answered before: then nothing was charged, and this is the reply.
    """

    def __init__(self, ledger: Ledger, sequence: int, answer: bytes | None = None) -> None:
        self._ledger = ledger
        self.sequence = sequence
        self.answer = answer

    def commit(self, answer: bytes | None = None) -> None:
        """Record that the release was made, and keep its bytes for replay, before it is handed out.

        E_SUSPENDED where the user was suspended meanwhile: then the answer must not be handed out.
        """
        self._ledger._settle(self, "answer", answer)  # noqa: SLF001 - one class in two halves

    def fail(self) -> None:
        """Record that no release was made, and suspend the user. The charge stays: data may have been read.

        E_SUSPENDED where the user was suspended before: one more failure must look like an answer that is withheld.
        """
        self._ledger._settle(self, "failure", None)  # noqa: SLF001 - one class in two halves

    def cancel(self) -> None:
        """Record that the user, or an ordered shutdown, ended the run. The charge stays; nobody is suspended."""
        self._ledger._settle(self, "failure", None, CANCELLED)  # noqa: SLF001 - one class in two halves


class Ledger:
    """An append-only record of spends against one budget; make it with `create`, `open` or `in_memory`.

    Any number of threads and processes may hold the same file. All checks of one spend, and its row, are one
    transaction that no other writer overlaps.
    """

    def __init__(self, store: Store, anchor: tuple[int, str] | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        with store.reading() as connection:
            self._header, head = ledger_file.check_everything(connection)
            if not store.is_whole(connection):
                raise ledger_file.damaged("its length is not what it should be")
            self._last_seen = (0, self._header.hash)
            if anchor is not None:
                self._require_row(connection, anchor)
        self._accountant: Accountant = accountant(self._header.accountant)
        self.budget = _budget_of(self._header)
        self._remember(head)

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: Budget, accountant: str = "basic") -> Ledger:
        """A new ledger file, for its owner's eyes only (mode 0600); an existing file is refused."""
        _check_accountant(accountant, budget)
        ledger_file.create_file(Path(path), amount_text(budget.epsilon), amount_text(budget.delta), accountant)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], anchor: tuple[int, str] | None = None) -> Ledger:
        """An existing ledger, every row of it checked.

        `anchor` is a `Ledger.anchor` noted earlier, somewhere else: with it, a file that was replaced by an older copy
        is found out.
        """
        return cls(FileStore(Path(path)), anchor)

    @classmethod
    def in_memory(cls, budget: Budget | None = None, accountant: str = "basic") -> Ledger:
        """A ledger that ends with its process; without a budget it only adds up."""
        _check_accountant(accountant, budget)
        store = MemoryStore(may_fork=budget is None)
        with store.writing() as connection:
            amounts = ("", "") if budget is None else (amount_text(budget.epsilon), amount_text(budget.delta))
            ledger_file.make_tables(connection, *amounts, accountant)
        return cls(store)

    # --- spending ---

    def reserve(
        self, loss: Loss, *, user: str | None = None, description: str = "", idempotency_key: str | None = None
    ) -> Reservation:
        """Charge the loss durably, or refuse with E_BUDGET or E_SUSPENDED; one conditional write.

        Call it before data is read. `idempotency_key` stands for everything that determines the answer (plan, catalog
        version, options; never a fingerprint of the data): where it was answered before, that answer comes back and
        nothing is charged; where it was charged but not answered, it is charged again.
        """
        key = _checked_key(idempotency_key)
        with self._store.writing() as connection:
            head = self._checked_head(connection)
            replay = self._answer(connection, key)
            if replay is not None:
                return Reservation(self, 0, replay)
            if ledger_file.is_suspended(connection, _user(user)):
                raise suspended()
            charge = _short_enough(head.spent, loss)
            self._require_fit(head.spent, charge)
            after = ledger_file.append(
                connection, head, _spend_row(charge, user, description, key), head.spent.plus(charge)
            )
        self._remember(after)
        return Reservation(self, after.sequence)

    def _settle(self, reservation: Reservation, kind: str, answer: bytes | None, note: str = "") -> None:
        if reservation.answer is not None:
            raise InternalError("a replayed answer has nothing to settle")
        kept = answer if answer is not None and len(answer) <= LARGEST_STORED_ANSWER else None
        with self._store.writing() as connection:
            head = self._checked_head(connection)
            user = _unsettled_user(connection, reservation.sequence)
            withheld = ledger_file.is_suspended(connection, user)
            if withheld:
                kind, kept, note = "withheld", None, ""
            digest = "" if kept is None else hashlib.sha256(kept).hexdigest()
            row = Row(kind, _now(), reservation=reservation.sequence, description=note, answer_sha256=digest)
            after = ledger_file.append(connection, head, row, head.spent)
            if kind == "failure" and note != CANCELLED:
                tripped = Row("suspend", _now(), user=user, description=f"charge {reservation.sequence}")
                after = ledger_file.append(connection, after, tripped, after.spent)
            if kept is not None:
                connection.execute("INSERT INTO answers VALUES (?, ?)", (reservation.sequence, kept))
        self._remember(after)
        if withheld:
            raise suspended()

    # --- suspension ---

    def lift(self, user: str | None, *, because: str) -> None:
        """Let a suspended user ask again; the reason is kept."""
        if not because.strip():
            raise ShoalError("E_USAGE", "Lifting a suspension needs a reason.", hint="Add --because TEXT.")
        with self._store.writing() as connection:
            head = self._checked_head(connection)
            if not ledger_file.is_suspended(connection, _user(user)):
                raise ShoalError("E_USAGE", "This user is not suspended on this ledger.", hint=_WHO)
            row = Row("lift", _now(), user=_user(user), description=_escaped(because, LONGEST_DESCRIPTION))
            after = ledger_file.append(connection, head, row, head.spent)
        self._remember(after)

    def is_suspended(self, user: str | None) -> bool:
        """Whether this user's queries are refused."""
        with self._store.reading() as connection:
            self._checked_head(connection)
            return ledger_file.is_suspended(connection, _user(user))

    def told_by_failures(self, least_epsilon: Fraction) -> Told:
        """What failing queries can have told, and can still tell where none costs less than this."""
        left = None
        if self.remaining is not None and self.accountant == "basic":
            left = int(self.remaining[0] / least_epsilon)
        return told_by_failures(self.entries(), self.suspensions(), left)

    def suspensions(self) -> list[Suspension]:
        """Every suspension, oldest first; those in force have no `lifted_at`."""
        with self._store.reading() as connection:
            self._checked_head(connection)
            return ledger_file.suspensions(connection)

    def _require_fit(self, spent: Spent, request: Loss) -> None:
        if self.budget is None or self._accountant.fits(spent, request, self.budget):
            return
        raise _over_budget(self._accountant, spent, request, self.budget)

    # --- reading ---

    @property
    def accountant(self) -> str:
        """How charges are added up: 'basic' or 'zcdp'."""
        return self._accountant.name

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """(ε, δ) of all charges together."""
        return self._accountant.total(self._head().spent, self.budget)

    @property
    def remaining(self) -> tuple[Fraction, Fraction] | None:
        """The budget minus what is spent, or None without a budget; δ is what further queries may take."""
        if self.budget is None:
            return None
        spent = self._head().spent
        epsilon, _ = self._accountant.total(spent, self.budget)
        return max(Fraction(0), self.budget.epsilon - epsilon), self._accountant.delta_left(spent, self.budget)

    @property
    def anchor(self) -> tuple[int, str]:
        """Number and hash of the last row. Noted elsewhere, it lets `open` find out an older copy."""
        head = self._head()
        return head.sequence, head.hash

    def stored_answer(self, key: str) -> bytes | None:
        """The bytes kept for this idempotency key, if it was answered."""
        with self._store.reading() as connection:
            self._checked_head(connection)
            return self._answer(connection, _checked_key(key))

    def entries(self) -> list[Entry]:
        """Every spend, oldest first."""
        with self._store.reading() as connection:
            self._checked_head(connection)
            rows = connection.execute(
                "SELECT s.sequence, s.noted_at, s.user, s.description, s.epsilon, s.delta,"
                " COALESCE(e.kind, ''), COALESCE(e.description, '')"
                " FROM entries s LEFT JOIN entries e ON e.reservation = s.sequence AND e.reservation > 0"
                " WHERE s.kind = 'spend' ORDER BY s.sequence"
            ).fetchall()
        return [_entry(*row) for row in rows]

    def spent_by_user(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Plain sums (Σε, Σδ) of each user's charges, the largest first; '' is nobody in particular."""
        sums: dict[str, tuple[Fraction, Fraction]] = {}
        for entry in self.entries():
            epsilon, delta = sums.get(entry.user, (Fraction(0), Fraction(0)))
            sums[entry.user] = (epsilon + entry.epsilon, delta + entry.delta)
        return dict(sorted(sums.items(), key=lambda item: item[1], reverse=True))

    def _answer(self, connection: sqlite3.Connection, key: str) -> bytes | None:
        """The first answer stored under a key, its digest checked against the chained row."""
        row = connection.execute(
            "SELECT e.answer_sha256, a.body FROM entries s"
            " JOIN entries e ON e.reservation = s.sequence AND e.reservation > 0"
            " LEFT JOIN answers a ON a.reservation = s.sequence"
            " WHERE s.key = ? AND s.key <> '' AND e.answer_sha256 <> '' ORDER BY e.sequence LIMIT 1",
            (key,),
        ).fetchone()
        if row is None:
            return None
        digest, body = row
        if not isinstance(body, bytes) or hashlib.sha256(body).hexdigest() != digest:
            raise ledger_file.damaged("a stored answer was changed or removed")
        return body

    # --- continuity ---

    def _head(self) -> Head:
        with self._store.reading() as connection:
            return self._checked_head(connection)

    def _checked_head(self, connection: sqlite3.Connection) -> Head:
        """The head of the same ledger that was opened, grown since then and not replaced or rolled back."""
        if ledger_file.read_header(connection) != self._header:
            raise ledger_file.damaged("another ledger was put in its place")
        head = ledger_file.read_head(connection, self._header)
        self._require_row(connection, self._last_seen)
        return head

    def _require_row(self, connection: sqlite3.Connection, anchor: tuple[int, str]) -> None:
        sequence, expected = anchor
        if ledger_file.hash_at(connection, self._header, sequence) != expected:
            raise ledger_file.damaged("it is older than it was, or another history took its place")

    def _remember(self, head: Head) -> None:
        with self._lock:
            self._last_seen = max(self._last_seen, (head.sequence, head.hash))


# --- rows -------------------------------------------------------------------------------------------------------------


def _check_accountant(name: str, budget: Budget | None) -> None:
    rule = accountant(name)
    if budget is not None:
        rule.check(budget)


def _budget_of(header: Header) -> Budget | None:
    if not header.epsilon and not header.delta:
        return None
    return Budget(amount_of(header.epsilon), amount_of(header.delta))


def _spend_row(charge: Loss, user: str | None, description: str, key: str) -> Row:
    rho, rho_delta = charge.zcdp
    return Row(
        "spend",
        _now(),
        epsilon=amount_text(charge.epsilon),
        delta=amount_text(charge.delta),
        rho=amount_text(rho),
        rho_delta=amount_text(rho_delta),
        user=_user(user),
        description=_escaped(description, LONGEST_DESCRIPTION),
        key=key,
    )


_STATES: dict[str, State] = {"": "reserved", "answer": "answered", "failure": "failed", "withheld": "withheld"}


def _entry(
    sequence: int, noted_at: str, user: str, description: str, epsilon: str, delta: str, ended: str, note: str
) -> Entry:
    state: State = "cancelled" if note == CANCELLED else _STATES[ended]
    return Entry(sequence, noted_at, user, description, amount_of(epsilon), amount_of(delta), state)


def _unsettled_user(connection: sqlite3.Connection, sequence: int) -> str:
    """Whose spend it is; a spend that has ended, or was never made, cannot be settled."""
    query = (
        "SELECT s.user, e.sequence FROM entries s LEFT JOIN entries e ON e.reservation = s.sequence"
        " AND e.reservation > 0 WHERE s.sequence = ? AND s.kind = 'spend'"
    )
    found = connection.execute(query, (sequence,)).fetchone()
    if found is None or found[1] is not None:
        raise InternalError("a reservation is settled once")
    return str(found[0])


def _user(user: str | None) -> str:
    """The name as it is kept; nobody in particular is one user."""
    return _escaped(user or "", LONGEST_USER)


def _now() -> str:
    """For people only: order and safety come from the sequence, never from a clock."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _escaped(text: str, longest: int) -> str:
    """Printable text of at most so many bytes: no control, bidirectional or terminal characters get through."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:longest]
    )
    encoded = shown.encode()
    if len(encoded) <= longest and len(text) <= longest:
        return shown
    return encoded[: longest - 3].decode(errors="ignore") + "…"


def _checked_key(key: str | None) -> str:
    if key is None:
        return ""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise ShoalError(
            "E_USAGE",
            f"An idempotency key is a printable text of 1 to {LONGEST_KEY} characters.",
            hint="Use a hash of the request, or a UUID.",
        )
    return key


def _short_enough(spent: Spent, loss: Loss) -> Loss:
    """The loss itself, or, where the exact sums would grow too long to keep, one that is a little larger."""
    total = spent.plus(loss)
    if (
        max(x.denominator.bit_length() for x in (total.epsilon, total.delta, total.rho, total.rho_delta))
        <= MOST_BITS_OF_A_SUM
    ):
        return loss
    rho, rho_delta = loss.zcdp
    return Loss(*(_rounded_up(amount) for amount in (loss.epsilon, loss.delta, rho, rho_delta)))


def _rounded_up(amount: Fraction) -> Fraction:
    """The next number with 128 binary digits."""
    places = 128 + amount.denominator.bit_length() - amount.numerator.bit_length()
    unit = Fraction(1, 2**places) if places >= 0 else Fraction(2**-places)
    return -(-amount // unit) * unit


# --- refusing ---------------------------------------------------------------------------------------------------------


def _over_budget(rule: Accountant, spent: Spent, request: Loss, budget: Budget) -> ShoalError:
    """What is left, what was asked, what would fit: numbers of the ledger and the query, none of the data."""
    epsilon, _ = rule.total(spent, budget)
    left = _shown(max(Fraction(0), budget.epsilon - epsilon)), _shown(rule.delta_left(spent, budget))
    asked = _shown(request.epsilon, ROUND_CEILING), _shown(request.delta, ROUND_CEILING)
    message = (
        f"The query asks for epsilon {asked[0]} and delta {asked[1]};"
        f" the budget has epsilon {left[0]} and delta {left[1]} left."
    )
    fits = rule.largest_epsilon_that_fits(spent, request, budget)
    if fits > 0:
        hint = f"epsilon = {_shown(fits)} would fit. Nothing was spent on this query."
    else:
        hint = "No query with this delta fits, whatever its epsilon. Nothing was spent on this query."
        affordable = replace(request, delta=Fraction(0), rho_delta=None if request.rho is None else Fraction(0))
        if rule.largest_epsilon_that_fits(spent, affordable, budget) > 0:
            hint = f"delta = {left[1]} or less would fit. Nothing was spent on this query."
    return ShoalError("E_BUDGET", message, hint=hint)


def _shown(amount: Fraction, rounding: str = ROUND_FLOOR) -> str:
    """Six digits, rounded as asked."""
    context = Context(prec=6, rounding=rounding, Emin=-999999, Emax=999999, traps=[])
    short = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize()
    return f"{short:f}" if -5 <= short.adjusted() <= 12 else f"{short:e}"
