"""The ledger: one budget, every spend remembered, charged durably before any data is read, never given back.

One ledger is one budget for one kind of owner. Whoever can reach the same owners (users, sessions, services, views and
copies of the tables) must share it: two ledgers over the same people are two budgets.

    >>> from fractions import Fraction
    >>> from shoal.accounting.accountants import Loss
    >>> from shoal.params import Budget
    >>> ledger = Ledger.in_memory(Budget(Fraction(1), Fraction(0)))
    >>> reservation = ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), user="ann", description="SELECT …")
    >>> reservation.commit(b"rows")
    b'rows'
    >>> ledger.spent, ledger.remaining
    ((Fraction(1, 10), Fraction(0, 1)), (Fraction(9, 10), Fraction(0, 1)))
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Accountant, Loss, accountant
from shoal.accounting.promises import Promise
from shoal.accounting.spending.asking import LONGEST_DESCRIPTION, Ask, checked_key, escaped, kept_user
from shoal.accounting.spending.opening import exists, new_header, open_store, start_in_memory, start_store
from shoal.accounting.spending.pen import CANCELLED, TOO_LARGE, Pen, budget_of, promise_of
from shoal.accounting.spending.refusals import ended_without_an_answer, too_large_to_keep
from shoal.accounting.spending.reports import (
    Entry,
    Raise,
    Standing,
    accounts_in,
    entries_of,
    raises_of,
    sums_by,
    suspensions_of,
)
from shoal.accounting.spending.turns import Turns
from shoal.accounting.stores.check import (
    Anchor,
    anchor_text,
    check_everything,
    checked_head,
    require_anchor,
    require_row,
)
from shoal.accounting.stores.rows import Head, damaged
from shoal.accounting.suspension import Suspension, Told, suspended, told_by_failures
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from shoal.accounting.allowances import Allowance
    from shoal.accounting.spending.asking import Request
    from shoal.accounting.spending.pen import Charge, Fate, Settled
    from shoal.accounting.stores.base import Store, Transaction
    from shoal.params import Budget


class Reservation:
    """A charge that is already durable, waiting for its answer.

    `answer` is not None when the key was answered before: then nothing was charged, and this is the reply.
    """

    def __init__(self, ledger: Ledger, charge: Charge) -> None:
        self._ledger = ledger
        self.sequence = charge.sequence
        self.answer = charge.answer
        self._hash = charge.hash

    @property
    def anchor(self) -> Anchor:
        """Number and hash of the charge's row."""
        return (self.sequence, self._hash) if self._hash else self._ledger.anchor_of(self.sequence)

    def commit(self, answer: bytes | Sequence[bytes] | None = None) -> bytes | None:
        """Record that the release was made, keep its bytes, and return what is to be handed out: what was stored.

        A charge has one answer: where another run of it was faster, that run's answer comes back. E_SUSPENDED where the
        user was suspended meanwhile, E_LIMITS where the answer is too large to keep: then nothing may be handed out.
        """
        pieces = [answer] if isinstance(answer, bytes) else None if answer is None else list(answer)
        settled = self._settle("answer", pieces)
        if settled.why == TOO_LARGE:
            raise too_large_to_keep()
        if settled.kind == "failure":
            raise ended_without_an_answer()
        return settled.answer

    def fail(self, why: str = "") -> None:
        """Record that no release was made, and suspend the user. The charge stays: data may have been read.

        E_SUSPENDED where the user was suspended before: one more failure must look like an answer that is withheld.
        """
        self._settle("failure", None, why)

    def cancel(self) -> None:
        """Record that the user, or an ordered shutdown, ended the run. The charge stays; nobody is suspended."""
        self._settle("failure", None, CANCELLED)

    def _settle(self, kind: str, pieces: list[bytes] | None, why: str = "") -> Settled:
        if self.answer is not None:
            raise InternalError("a replayed answer has nothing to settle")
        settled = self._ledger._settle(self.sequence, kind, pieces, why)  # noqa: SLF001 - one class in two halves
        if settled.kind == "withheld":
            raise suspended()
        return settled


class Ledger:
    """An append-only record of spends against one budget; make it with `create`, `open` or `in_memory`.

    Any number of threads and processes may hold the same one. All checks of one spend, and its row, are one
    transaction that no other writer overlaps.
    """

    def __init__(self, store: Store, anchor: Anchor | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._standings: dict[bool, tuple[object | None, Standing]] = {}
        self._unsettled: list[int] = []
        with store.reading() as transaction:
            self._header, head = check_everything(transaction)
            if not transaction.is_whole():
                raise damaged("its length is not what it should be")
            self._last_seen: Anchor = (0, self._header.hash)
            if anchor is not None:
                require_anchor(transaction, anchor)
        if anchor is not None:
            store.confirm()
        self._accountant: Accountant = accountant(self._header.accountant)
        self._remember(head)
        self._turns = Turns(store, self._pen, self._remember)

    def __repr__(self) -> str:
        limit, spent = self.budget, self.spent
        of = (
            "no budget"
            if limit is None
            else f"a budget of ε = {float(limit.epsilon):.4g}, δ = {float(limit.delta):.3g}"
        )
        return f"<shoal ledger: ε = {float(spent[0]):.4g}, δ = {float(spent[1]):.3g} spent of {of} ({self.accountant})>"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Budget,
        accountant: str = "basic",
        promise: Promise | None = None,
    ) -> Ledger:
        """A new ledger: a file for its owner's eyes only (mode 0600), or a name in PostgreSQL; never replaces one."""
        start_store(path, new_header(budget, accountant, promise))
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], anchor: Anchor | None = None, *, keeps: bool = False) -> Ledger:
        """An existing ledger, every row of it checked.

        `anchor` is a `Ledger.anchor` noted earlier, somewhere else: with it, a file that was replaced by an older copy
        is found out. One that `keeps` its file open takes less time for a charge; it is for processes that serve.
        """
        return cls(open_store(path, anchor, keeps=keeps), anchor)

    @classmethod
    def create_or_open(cls, path: str | os.PathLike[str], budget: Budget, accountant: str = "basic") -> Ledger:
        """The ledger at the path, made if it is missing. Where another process makes it meanwhile, that one is opened."""
        if not exists(path):
            try:
                return cls.create(path, budget, accountant)
            except ShoalError:
                if not exists(path):
                    raise
        return cls.open(path)

    @classmethod
    def in_memory(
        cls, budget: Budget | None = None, accountant: str = "basic", promise: Promise | None = None
    ) -> Ledger:
        """A ledger that ends with its process; without a budget it only adds up."""
        return cls(start_in_memory(new_header(budget, accountant, promise)))

    # --- spending ---

    def reserve(
        self,
        loss: Loss,
        *,
        user: str | None = None,
        description: str = "",
        fingerprint: str | None = None,
        request: Request | None = None,
        promise: Promise | None = None,
        cost: Loss | None = None,
        accounts: Sequence[Allowance] = (),
        resume: bool = False,
    ) -> Reservation:
        """Charge the loss durably, or refuse with E_BUDGET or E_SUSPENDED; one conditional write.

        Call it before data is read. `fingerprint` identifies everything that determines the answer (plan, catalog
        version, options; never the data): an answer that was stored under it comes back and nothing is charged. `request`
        is one user's request, however often it is sent: its answer comes back, and another body under its key is
        E_IDEMPOTENCY. A charge that was cut short is charged again, or, with `resume`, taken up again, once.

        `loss` is what is asked under `promise` (the owner's, unless named); `cost` what a policy release loses under the
        ledger's own promise. `accounts` are the allowances that must have room for it too.
        """
        ask = Ask(
            loss,
            kept_user(user),
            escaped(description, LONGEST_DESCRIPTION),
            checked_key(fingerprint),
            request,
            promise or Promise.owner(),
            cost,
            tuple(accounts),
            resume,
        )
        return Reservation(self, self._charge(ask))

    def require_room(self, cost: Loss, *, user: str | None = None, accounts: Sequence[Allowance] = ()) -> None:
        """Refuse what `reserve` would refuse now, with E_BUDGET or E_SUSPENDED. Nothing is charged, and nothing is promised."""
        with self._looking() as (transaction, head):
            Pen(transaction, self._header, head).fitting(cost, kept_user(user), accounts)

    def _charge(self, ask: Ask) -> Charge:
        """Runs that ended unseen are ended first, unless they may be taken up again, and stay so when the charge is refused."""
        owed = tuple(self._unsettled)
        try:
            charge: Charge = self._turns.do(
                *([lambda pen: [pen.end_unseen(sequence) for sequence in owed]] if owed else ()),
                lambda pen: pen.bury(ask.user),
                lambda pen: pen.charge(ask),
            )
        except ShoalError as error:
            if error.code != "E_LEDGER":
                self._forget(owed)
            raise
        self._forget(owed)
        return charge

    def _forget(self, owed: tuple[int, ...]) -> None:
        with self._lock:
            self._unsettled = [sequence for sequence in self._unsettled if sequence not in owed]

    def _settle(self, sequence: int, kind: str, pieces: list[bytes] | None, why: str) -> Settled:
        try:
            settled: Settled = self._turns.do(
                lambda pen: pen.bury_others(sequence), lambda pen: pen.settle(sequence, kind, pieces, why)
            )
        except ShoalError as error:
            if error.code == "E_LEDGER":
                # A run whose end cannot be written had no answer: the next charge ends it first, as a failure.
                self._unsettled.append(sequence)
            raise
        return settled

    def end_request(self, request: str, *, died: bool = False) -> Anchor | None:
        """End a request's open charges, which no run will take up: the anchor of the last one, if any.

        Suspends nobody, unless a run that was taken up `died` a second time.
        """
        sequence: int = self._turns.do(lambda pen: pen.end_request(request, died=died))
        return self.anchor_of(sequence) if sequence else None

    def fate_of(self, request: str) -> Fate:
        """What became of a request: unless it was 'taken up', a run with `resume` charges nothing that was charged before."""
        with self._looking() as (transaction, head):
            return Pen(transaction, self._header, head).fate_of(request)

    # --- suspension and other acts of the custodian ---

    def lift(self, user: str | None, *, because: str) -> None:
        """Let a suspended user ask again; the reason is kept."""
        reason = _reason(because, "Lifting a suspension")
        self._turns.do(lambda pen: pen.lift(kept_user(user), reason))

    def suspend(self, user: str | None, charge: int, why: str) -> None:
        """Suspend a user because of a charge, for instance for late replies."""
        self._turns.do(lambda pen: pen.suspend(kept_user(user), charge, escaped(why, LONGEST_DESCRIPTION)))

    def raise_budget(self, budget: Budget, *, because: str) -> None:
        """A larger lifetime budget; the reason is kept."""
        reason = _reason(because, "Raising a budget")
        self._accountant.check(budget)
        self._turns.do(lambda pen: pen.raise_budget(budget, reason))

    def book_loss(self, loss: Loss, *, because: str, anchor: Anchor | None = None) -> None:
        """Charge what a restored copy lacks, whether or not it fits; then the anchor that it lacks is accepted."""
        reason = _reason(because, "Booking a loss")
        self._turns.do(lambda pen: pen.book_loss(loss, anchor_text(anchor) if anchor else "", reason))

    def drop_answers(self, before: str) -> int:
        """Forget the bytes of answers given before a moment such as 2026-01-31T00:00:00Z; their digests stay."""
        dropped: int = self._turns.do(lambda pen: pen.drop_answers(before))
        return dropped

    def backup(self, target: Path) -> Anchor:
        """A copy of the file as it is now, and its anchor."""
        copy = getattr(self._store, "backup", None)
        if copy is None:
            raise ShoalError(
                "E_USAGE", "Only a ledger in a file can be copied this way.", hint="PostgreSQL: use pg_dump."
            )
        copy(target)
        return Ledger.open(target).anchor

    # --- reading ---

    @property
    def accountant(self) -> str:
        """How charges are added up: 'basic' or 'zcdp'."""
        return self._accountant.name

    @property
    def promise(self) -> Promise:
        """What the budget is about."""
        return promise_of(self._header)

    @property
    def has_budget(self) -> bool:
        """Whether there is a limit at all, which never changes."""
        return bool(self._header.epsilon)

    @property
    def budget(self) -> Budget | None:
        """The lifetime (ε, δ), or None: the ledger only adds up."""
        return budget_of(self._header, self._head())

    @property
    def covers(self) -> str:
        """'value' once an entry hides what somebody answered and not that they took part; else ''."""
        return self._head().state.covers

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """(ε, δ) of all charges together."""
        head = self._head()
        return self._accountant.total(head.spent, budget_of(self._header, head))

    def spent_with(self, loss: Loss) -> tuple[Fraction, Fraction]:
        """What `spent` would be with one more loss."""
        head = self._head()
        return self._accountant.total(head.spent.plus(loss), budget_of(self._header, head))

    @property
    def remaining(self) -> tuple[Fraction, Fraction] | None:
        """The budget minus what is spent, or None without a budget; δ is what further queries may take."""
        return self.budget_and_remaining()[1]

    def budget_and_remaining(self) -> tuple[Budget | None, tuple[Fraction, Fraction] | None]:
        """Both of one moment, for one look at the store."""
        return self._left(self._head())

    def _left(self, head: Head) -> tuple[Budget | None, tuple[Fraction, Fraction] | None]:
        budget = budget_of(self._header, head)
        if budget is None:
            return None, None
        epsilon, _ = self._accountant.total(head.spent, budget)
        return budget, (max(Fraction(0), budget.epsilon - epsilon), self._accountant.delta_left(head.spent, budget))

    def standing(self, *, accounts: bool = True) -> Standing:
        """What is left of the budget and, if asked for, the sums of every account; nothing is charged by it.

        Where the store shows that nothing was written since the last time, it is what was found then. `reserve` looks for itself.
        """
        mark, known = self._store.mark(), self._standings.get(accounts)
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        with self._looking() as (transaction, head):
            found = Standing(self._left(head)[1], accounts_in(transaction) if accounts else {})
            self._standings[accounts] = (self._store.mark(), found)
        return found

    @property
    def anchor(self) -> Anchor:
        """Number and hash of the last row. Noted elsewhere, it lets `open` find out an older copy."""
        head = self._head()
        return head.sequence, head.hash

    def anchor_of(self, sequence: int) -> Anchor:
        """Number and hash of one row."""
        with self._looking() as (transaction, _):
            found = transaction.row(sequence)
        if found is None:
            raise InternalError("there is no such row")
        return sequence, found.hash

    def stored_answer(self, fingerprint: str) -> bytes | None:
        """The bytes kept for this fingerprint, if it was answered."""
        with self._looking() as (transaction, head):
            return Pen(transaction, self._header, head).answer_of(checked_key(fingerprint))

    def answer_of_charge(self, sequence: int) -> bytes:
        """The bytes kept for one charge; E_GONE where none are."""
        with self._looking() as (transaction, head):
            return Pen(transaction, self._header, head).answer_of_charge(sequence)

    def entries(self) -> list[Entry]:
        """Every charge, oldest first."""
        with self._looking() as (transaction, _):
            return entries_of(transaction)

    def ended(self) -> set[int]:
        """The numbers of all charges that have ended: answered, failed, cancelled or withheld."""
        with self._looking() as (transaction, _):
            return set(transaction.ended_spends())

    def accounts(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Plain sums (Σε, Σδ) of every account."""
        with self._looking() as (transaction, _):
            return accounts_in(transaction)

    def spent_by_user(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Plain sums (Σε, Σδ) of each user's charges, the largest first; '' means that no user was given."""
        return sums_by(self.entries(), lambda entry: (entry.user, entry.epsilon, entry.delta))

    def asked_by_promise(self) -> dict[str, tuple[Fraction, Fraction]]:
        """What was asked under each promise: side by side, never to be added."""
        return sums_by(self.entries(), lambda entry: (entry.promise, *entry.asked))

    def is_suspended(self, user: str | None) -> bool:
        """Whether this user's queries are refused."""
        with self._looking() as (transaction, head):
            return Pen(transaction, self._header, head).is_suspended(kept_user(user))

    def suspensions(self) -> list[Suspension]:
        """Every suspension, oldest first; those in force have no `lifted_at`."""
        with self._looking() as (transaction, _):
            return suspensions_of(transaction)

    def raises(self) -> list[Raise]:
        """Every time the budget was raised, with the reason, oldest first."""
        with self._looking() as (transaction, _):
            return raises_of(transaction)

    def told_by_failures(self, least_epsilon: Fraction) -> Told:
        """What failing queries may have revealed, and can still reveal if none costs less than this."""
        remaining = self.remaining
        left = int(remaining[0] / least_epsilon) if remaining is not None and self.accountant == "basic" else None
        return told_by_failures(self.entries(), self.suspensions(), left)

    def _head(self) -> Head:
        with self._looking() as (_, head):
            return head

    @contextmanager
    def _looking(self) -> Iterator[tuple[Transaction, Head]]:
        with self._store.reading() as transaction:
            yield transaction, self._checked_head(transaction)

    def _pen(self, transaction: Transaction) -> Pen:
        return Pen(transaction, self._header, self._checked_head(transaction))

    def _checked_head(self, transaction: Transaction) -> Head:
        """The head of the same ledger that was opened, grown since then and not replaced or rolled back."""
        if transaction.header() != self._header:
            raise damaged("another ledger was put in its place")
        head = checked_head(transaction, self._header)
        require_row(transaction, self._last_seen)
        return head

    def _remember(self, head: Head) -> None:
        with self._lock:
            self._last_seen = max(self._last_seen, (head.sequence, head.hash))


def _reason(because: str, what: str) -> str:
    if not because.strip():
        raise ShoalError("E_USAGE", f"{what} needs a reason.", hint="Add --because TEXT.")
    return escaped(because, LONGEST_DESCRIPTION)
