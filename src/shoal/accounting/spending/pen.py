"""The pen: what may be written into a ledger, inside one transaction. Every rule of spending is here, whatever keeps the rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from shoal.accounting.accountants import Accountant, Loss, Spent, accountant
from shoal.accounting.promises import VALUE, Promise, cost_of
from shoal.accounting.spending.processes import is_gone, this_process
from shoal.accounting.spending.refusals import (
    ended_without_an_answer,
    no_longer_kept,
    not_raised,
    not_suspended,
    other_request,
    over_budget,
)
from shoal.accounting.stores.base import CHUNK
from shoal.accounting.stores.rows import (
    FORMAT,
    Amounts,
    Head,
    PlacedRow,
    Row,
    amount_of,
    amount_text,
    amounts_of,
    canonical,
    damaged,
    digest_of_suspended,
    digest_with,
    row_hash,
    spent_of,
)
from shoal.accounting.suspension import suspended
from shoal.errors import InternalError
from shoal.exact import ceil_to_binary_digits
from shoal.frozen import dataclass
from shoal.params import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.allowances import Allowance
    from shoal.accounting.spending.asking import Ask
    from shoal.accounting.stores.base import Transaction
    from shoal.accounting.stores.rows import Header

MOST_BITS_OF_A_SUM = 4096
"""Past it, a charge is rounded up to 128 binary digits, so that sums of unrelated fractions stay short."""
LARGEST_STORED_ANSWER = 1024 * 1024 * 1024

Fate = Literal["never charged", "open", "taken up", "answered", "ended"]
"""Of a request: an open charge may still be taken up, one that was taken up may not."""

DEATH = "death"
CANCELLED = "cancelled"
TOO_LARGE = "too large"
INNOCENT = frozenset({CANCELLED, TOO_LARGE})
"""Ends that suspend nobody: the user's own doing, an ordered shutdown, or a function of released rows."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A spend that is durable, or (`answer` is not None) was answered before."""

    sequence: int
    answer: bytes | None = None
    hash: str = ""
    """Of its row, where it was written just now."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How a spend ended: the row's kind, why, and the stored answer where there is one."""

    kind: str
    why: str = ""
    answer: bytes | None = None


class Pen:
    """One writing transaction. `head` follows each row that is written."""

    def __init__(self, transaction: Transaction, header: Header, head: Head) -> None:
        self.transaction = transaction
        self.head = head
        self._header = header
        self._now = ""
        self._buried: set[str] = set()
        self._rule: Accountant = accountant(header.accountant)

    # --- charging ---

    def charge(self, ask: Ask) -> Charge:
        """Charge durably, hand out the answer that was stored under a key, or refuse."""
        known = self._under_request(ask) or self._replay(ask.fingerprint)
        if known is not None:
            return known
        cost = cost_of(self.promise, ask.promise, ask.asked, ask.cost)
        charge, accounts = self.fitting(cost, ask.user, ask.accounts)
        covers = VALUE if ask.promise.kind in {"local", "shuffled"} else ""
        for name in accounts:
            self._add_to_account(name, charge)
        spend = self._append(_spend_row(ask, charge, list(accounts), covers), charge, covers=covers)
        self.transaction.start(spend, ask.user, this_process())
        return Charge(spend, hash=self.head.hash)

    def _under_request(self, ask: Ask) -> Charge | None:
        """What became of the same request before; None where it is to be charged."""
        if ask.request is None:
            return None
        earlier = self.transaction.spends_with_request(ask.request.key)
        if not earlier:
            return None
        if any(self._spend(spend).more.get("body") != ask.request.body_sha256 for spend in earlier):
            raise other_request()
        ends = [self.transaction.end_of(spend) for spend in earlier]
        for spend, end in zip(earlier, ends, strict=True):
            if end is not None and end.row.kind == "answer":
                return Charge(spend, self._stored(spend, end))
        if ends[-1] is not None:
            raise suspended() if ends[-1].row.kind == "withheld" else ended_without_an_answer()
        if not ask.resume or self.transaction.is_resumed(earlier[-1]) or not self._pays_for(earlier[-1], ask):
            if ask.request.is_charged_once:
                raise ended_without_an_answer()
            return None
        return self._resume(earlier[-1], ask.user)

    def _pays_for(self, spend: int, ask: Ask) -> bool:
        """Whether a charge is enough for what is asked now: a plan may cost more than it did when it was cut short."""
        charged = spent_of(self._spend(spend).amounts)
        needed = Spent().plus(cost_of(self.promise, ask.promise, ask.asked, ask.cost))
        return all(getattr(needed, name) <= getattr(charged, name) for name in ("epsilon", "delta", "rho", "rho_delta"))

    def _resume(self, spend: int, user: str) -> Charge:
        """The same charge once more: nothing of the first run was shown."""
        if self.is_suspended(user):
            raise suspended()
        self._append(Row("resume", user=user, about=spend))
        self.transaction.start(spend, user, this_process())
        return Charge(spend)

    def _replay(self, fingerprint: str) -> Charge | None:
        answer = self.answer_of(fingerprint)
        return None if answer is None else Charge(0, answer)

    def fitting(self, cost: Loss, user: str, allowances: Sequence[Allowance]) -> tuple[Loss, dict[str, Allowance]]:
        """What would be charged to which accounts; refused if the user is suspended or one of them has no room."""
        if self.is_suspended(user):
            raise suspended()
        accounts = {one.account_at(self.moment): one for one in allowances}
        charge = _short_enough([self.head.spent, *map(self._sums_of, accounts)], cost)
        self._require_fit(charge, accounts)
        return charge, accounts

    def _require_fit(self, charge: Loss, accounts: dict[str, Allowance]) -> None:
        limit = self.budget
        if limit is not None and not self._rule.fits(self.head.spent, charge, limit):
            raise over_budget(self._rule, self.head.spent, charge, limit)
        for name, allowance in accounts.items():
            spent = self._sums_of(name)
            if allowance.budget is not None and not self._rule.fits(spent, charge, allowance.budget):
                raise over_budget(self._rule, spent, charge, allowance.budget, str(allowance))

    def _sums_of(self, account: str) -> Spent:
        amounts = self.transaction.account(account)
        return Spent() if amounts is None else spent_of(amounts)

    def _add_to_account(self, name: str, charge: Loss) -> None:
        before = self.transaction.account(name)
        after = amounts_of(self._sums_of(name).plus(charge))
        self.transaction.put_account(name, after)
        digest = digest_with(self.head.state.accounts, name, before, after)
        self.head = replace(self.head, state=replace(self.head.state, accounts=digest))

    # --- settling ---

    def settle(self, spend: int, kind: str, pieces: list[bytes] | None = None, why: str = "") -> Settled:
        """How a spend ends. Whoever finds it ended gets the first outcome, and drops their own."""
        user = self._spend(spend).user
        end = self.transaction.end_of(spend)
        if end is not None:
            return self._earlier_outcome(spend, end)
        if self.is_suspended(user):
            kind, pieces, why = "withheld", None, ""
        elif pieces is not None and sum(map(len, pieces)) > LARGEST_STORED_ANSWER:
            kind, pieces, why = "failure", None, TOO_LARGE
        kept = None if pieces is None else _cut(pieces)
        digest = "" if kept is None else _digest(kept)
        self._append(Row(kind, reservation=spend, answer_sha256=digest, details=canonical({"why": why})))
        self.transaction.finish(spend)
        if kept is not None:
            self.transaction.put_answer(spend, kept)
        if kind == "failure" and why not in INNOCENT:
            self.suspend(user, spend, why)
        return Settled(kind, why, None if kept is None else b"".join(kept))

    def _earlier_outcome(self, spend: int, end: PlacedRow) -> Settled:
        answer = None
        if end.row.kind == "answer" and end.row.answer_sha256:
            answer = self._stored(spend, end)
        return Settled(end.row.kind, end.row.more.get("why", ""), answer)

    def end_unseen(self, spend: int) -> None:
        """A run whose end could not be written had no answer, and is a failure; a first run that may be resumed is left."""
        if not self._may_be_resumed(spend):
            self.settle(spend, "failure")

    def end_request(self, request: str, *, died: bool = False) -> int:
        """End what is open of a request; its last spend, 0 if it has none. One that was taken up `died` a second time."""
        spends = self.transaction.spends_with_request(request)
        for spend in spends:
            if self.transaction.end_of(spend) is None:
                self.settle(spend, "failure", why=DEATH if died and not self._may_be_resumed(spend) else CANCELLED)
        return spends[-1] if spends else 0

    def fate_of(self, request: str) -> Fate:
        """What became of a request."""
        spends = self.transaction.spends_with_request(request)
        ends = {spend: self.transaction.end_of(spend) for spend in spends}
        if any(end is not None and end.row.kind == "answer" for end in ends.values()):
            return "answered"
        still = [self._may_be_resumed(spend) for spend, end in ends.items() if end is None]
        if not still:
            return "ended" if spends else "never charged"
        return "open" if all(still) else "taken up"

    def bury(self, user: str) -> None:
        """End the user's runs whose process is surely gone. A first run that may be resumed is left.

        Once in a transaction is enough, however many of the user's charges share it.
        """
        if user in self._buried:
            return
        for spend, _, process in self.transaction.running(user):
            if process and is_gone(process) and not self._may_be_resumed(spend):
                self.settle(spend, "failure", why=DEATH)
        self._buried.add(user)

    def bury_others(self, spend: int) -> None:
        """The same for whoever's spend this is."""
        self.bury(self._spend(spend).user)

    def _may_be_resumed(self, spend: int) -> bool:
        row = self._spend(spend)
        return bool(row.request) and not row.more.get("runs_once") and not self.transaction.is_resumed(spend)

    # --- suspension ---

    def is_suspended(self, user: str) -> bool:
        """Whether nothing of this user's may be answered."""
        return user in self.transaction.suspended()

    def suspend(self, user: str, spend: int, why: str = "") -> None:
        """Suspend a user because of a spend; a user who is suspended already stays so."""
        if not self.is_suspended(user):
            self._put_suspended(user, self.head.sequence + 1)
            self._append(Row("suspend", user=user, about=spend, details=canonical({"why": why})))

    def lift(self, user: str, because: str) -> None:
        """End a suspension that is in force."""
        if not self.is_suspended(user):
            raise not_suspended()
        self._put_suspended(user, 0)
        self._append(Row("lift", user=user, description=because))

    def _put_suspended(self, user: str, sequence: int) -> None:
        """The digest goes into the head with the row that follows."""
        self.transaction.put_suspended(user, sequence)
        digest = digest_of_suspended(self.transaction.suspended())
        self.head = replace(self.head, state=replace(self.head.state, suspensions=digest))

    # --- acts of the custodian ---

    def raise_budget(self, budget: Budget, because: str) -> None:
        """A larger budget, from now on: no smaller than the one in force when it is written, whoever raised that."""
        before = self.budget
        if before is None or budget.epsilon < before.epsilon or budget.delta < before.delta:
            raise not_raised()
        texts = amount_text(budget.epsilon), amount_text(budget.delta)
        self.head = replace(self.head, state=replace(self.head.state, budget=texts))
        details = canonical({"epsilon": texts[0], "delta": texts[1]})
        self._append(Row("raise", description=because, details=details))

    def book_loss(self, loss: Loss, anchor: str, because: str) -> None:
        """What a restored copy lacks, charged whether or not it fits."""
        charge = _short_enough([self.head.spent], loss)
        row = Row("loss", amounts=_amounts(charge), description=because, details=canonical({"anchor": anchor}))
        self._append(row, charge)

    # --- looking ---

    @property
    def promise(self) -> Promise:
        """What the budget is about."""
        return promise_of(self._header)

    @property
    def budget(self) -> Budget | None:
        """The header's budget, or what it was raised to."""
        return budget_of(self._header, self.head)

    @property
    def moment(self) -> str:
        """The store's time, which never goes back: a clock set back stays where it was."""
        self._now = self._now or self.transaction.clock()
        return max(self._now, self.head.state.latest)

    def answer_of(self, fingerprint: str) -> bytes | None:
        """The first answer that is kept under a fingerprint."""
        for spend in self.transaction.spends_with_key(fingerprint) if fingerprint else ():
            end = self.transaction.end_of(spend)
            if end is None or not end.row.answer_sha256:
                continue
            if not self._is_dropped(spend, end):
                return _checked_answer(self.transaction.answer(spend), end.row.answer_sha256)
        return None

    def answer_of_charge(self, spend: int) -> bytes:
        """The bytes kept for one charge; E_GONE where none are."""
        end = self.transaction.end_of(spend)
        if end is None:
            raise no_longer_kept()
        return self._stored(spend, end)

    def _stored(self, spend: int, end: PlacedRow) -> bytes:
        if not end.row.answer_sha256 or self._is_dropped(spend, end):
            raise no_longer_kept()
        return _checked_answer(self.transaction.answer(spend), end.row.answer_sha256)

    def _is_dropped(self, spend: int, end: PlacedRow) -> bool:
        return end.row.noted_at < self.head.state.kept_since and not self.transaction.answer(spend)

    def drop_answers(self, before: str) -> int:
        """Forget the bytes of answers that were given before a moment; their digests stay."""
        self.head = replace(
            self.head, state=replace(self.head.state, kept_since=max(before, self.head.state.kept_since))
        )
        return self.transaction.drop_answers(before)

    def _spend(self, sequence: int) -> Row:
        found = self.transaction.row(sequence)
        if found is None or found.row.kind != "spend":
            raise InternalError("only a spend can be settled")
        return found.row

    # --- writing ---

    def _append(self, row: Row, loss: Loss | None = None, covers: str = "") -> int:
        """One more row: numbered, timed, chained; the head follows, and is put when all is written."""
        number, timed = self.head.sequence + 1, replace(row, noted_at=self.moment)
        entry = PlacedRow(number, timed, row_hash(self.head.hash, number, timed, FORMAT))
        spent = self.head.spent if loss is None else self.head.spent.plus(loss)
        state = replace(self.head.state, latest=timed.noted_at, covers=covers or self.head.state.covers)
        self.head = Head(number, entry.hash, spent, state)
        self.transaction.append(entry)
        return number


def promise_of(header: Header) -> Promise:
    """What a ledger's budget is about."""
    return Promise.from_data(json.loads(header.promise))


def budget_of(header: Header, head: Head) -> Budget | None:
    """A ledger's budget: the header's, or the last one it was raised to."""
    epsilon, delta = head.state.budget if any(head.state.budget) else (header.epsilon, header.delta)
    return Budget(amount_of(epsilon), amount_of(delta)) if epsilon or delta else None


def _spend_row(ask: Ask, charge: Loss, accounts: list[str], covers: str) -> Row:
    details: dict[str, Any] = {"accounts": sorted(accounts), "covers": covers}
    if ask.promise.kind != "owner" or (ask.asked.epsilon, ask.asked.delta) != (charge.epsilon, charge.delta):
        details["promise"] = ask.promise.to_data()
        details["asked"] = {"epsilon": amount_text(ask.asked.epsilon), "delta": amount_text(ask.asked.delta)}
    if ask.request is not None:
        details["body"] = ask.request.body_sha256
        if not ask.request.may_resume:
            details["runs_once"] = True
    return Row(
        "spend",
        amounts=_amounts(charge),
        user=ask.user,
        description=ask.description,
        key=ask.fingerprint,
        request="" if ask.request is None else ask.request.key,
        details=canonical(details),
    )


def _amounts(charge: Loss) -> Amounts:
    return amounts_of(Spent().plus(charge))


def _cut(pieces: list[bytes]) -> list[bytes]:
    """The same bytes in pieces of the size that is kept; an empty answer is one empty piece."""
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return [whole[start : start + CHUNK] for start in range(0, max(1, len(whole)), CHUNK)]


def _digest(pieces: list[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _checked_answer(pieces: list[bytes], digest: str) -> bytes:
    if not all(isinstance(piece, bytes) for piece in pieces) or _digest(pieces) != digest or not pieces:
        raise damaged("a stored answer was changed or removed")
    return b"".join(pieces)


def _short_enough(sums: list[Spent], loss: Loss) -> Loss:
    """The loss itself, or, where exact sums would grow too long to keep, one that is a little larger."""
    totals = [spent.plus(loss) for spent in sums]
    amounts = [x for total in totals for x in (total.epsilon, total.delta, total.rho, total.rho_delta)]
    if max(x.denominator.bit_length() for x in amounts) <= MOST_BITS_OF_A_SUM:
        return loss
    rho, rho_delta = loss.zcdp
    return Loss(*(ceil_to_binary_digits(amount, 128) for amount in (loss.epsilon, loss.delta, rho, rho_delta)))
