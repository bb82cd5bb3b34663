"""What a ledger is asked for when a policy's release is charged to it: the loss under the ledger's own promise.

| the ledger is about | a release under a policy costs |
|---|---|
| owners | its owner-level loss: rows per owner · max over x of Σ abs(v_i(x))/scale_i |
| the same policy | the ε that is asked |
| another policy R | R.moves · max over R's edges of Σ abs(v_i(x) − v_i(y))/scale_i, times the rows per owner |

What none of them bounds is infinite, refused with E_BUDGET before anything is read.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.accounting.spending.asking import NO_TERMS
from shoal.accounting.spending.interrupts import HeldInterrupts
from shoal.errors import ShoalError
from shoal.params import MIN_EPSILON_PER_QUERY
from shoal.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.accounting.ledger import Reservation
    from shoal.accounting.spending.asking import Terms


class Charged(Protocol):
    """A planned release that knows its losses."""

    @property
    def rule(self) -> Policy:
        """Its own policy."""

    @property
    def rows_per_owner(self) -> int:
        """How many rows of an owner are kept."""

    @property
    def epsilon(self) -> Fraction:
        """The loss under its own policy."""

    @property
    def owner_loss(self) -> Fraction | float:
        """The loss under owner-level privacy."""

    def loss_under(self, other: Policy) -> Fraction | float:
        """The loss under another policy."""


def opened(ledger: Ledger | str | Path | None) -> Ledger | None:
    """The ledger behind a path."""
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger.open(ledger)
    raise ShoalError("E_USAGE", "ledger is a path or a Ledger.")


def promise_of(rule: Policy, rows_per_owner: int = 1) -> Promise:
    """A policy as ledgers keep it."""
    return Promise("policy", rule.canonical, rule.moves, rows_per_owner)


def policy_of(ledger: Ledger) -> Policy | None:
    """The policy that a ledger's budget is about; None where it is about owners."""
    return Policy.from_dict(json.loads(ledger.promise.policy)) if ledger.promise.kind == "policy" else None


def uses_public_counts(ledger: Ledger | None) -> bool:
    """Whether the number of records may be used: no policy hides it, and owner-level privacy does."""
    return ledger is None or ledger.promise.kind == "policy"


def uses_known_totals(ledger: Ledger | None, rule: Policy) -> bool:
    """Whether known counts may be read from the data: on a ledger of the same policy, or on none."""
    return ledger is None or ledger.promise.policy == rule.canonical


def loss_on(ledger: Ledger, plan: Charged, owner: str | None) -> Loss:
    """The cost of a release under the promise of this ledger; one without a budget notes what was asked, and adds nothing."""
    if not ledger.has_budget:
        return Loss(Fraction(0), Fraction(0))
    about = policy_of(ledger)
    if about is None:
        cost = plan.owner_loss if owner is not None else math.inf
    else:
        cost = plan.loss_under(about)
        # Without an owner column, an owner's rows are records of their own, and all of them may move.
        cost = cost if owner is not None else cost * ledger.promise.rows_per_owner
    if math.isinf(cost):
        raise _infinite(owner, about)
    return Loss(Fraction(cost), Fraction(0))


def _infinite(owner: str | None, about: Policy | None) -> ShoalError:
    if about is not None:
        why = f"Under policy {about.name}, which the ledger is about, it would cost an infinite epsilon."
    elif owner is None:
        why = "The release names no owner, so it cannot be charged to a ledger about owners."
    else:
        why = "The release gives some numbers exactly: under owner-level privacy it would cost an infinite epsilon."
    hint = "Use a ledger of the same policy: shoal budget --create EPS,0 --policy TABLE.POLICY."
    return ShoalError("E_BUDGET", f"{why} Nothing was spent.", hint=hint)


def require_floor(ledger: Ledger | None, epsilon: Fraction) -> None:
    """E_POLICY for a release that is cheaper than any query on a ledger with a budget: cheap releases are many chances."""
    if ledger is not None and ledger.has_budget and epsilon < MIN_EPSILON_PER_QUERY:
        raise ShoalError(
            "E_POLICY",
            f"A release on a ledger with a budget costs at least epsilon = {float(MIN_EPSILON_PER_QUERY):g}.",
            hint="Give it a larger epsilon, or ask several questions in one release.",
        )


def charged_run(
    ledger: Ledger | None,
    plan: Charged,
    owner: str | None,
    user: str | None,
    text: str,
    run: Callable[[], Any],
    terms: Terms = NO_TERMS,
    written: Callable[[Any], bytes] | None = None,
) -> Any:
    """Reserve → run → commit; a failure after the charge stays charged and says one thing only.

    With `written`, what is found is kept as bytes, and the bytes that are kept come back.
    """
    held = HeldInterrupts()
    try:
        reservation = _reserved(ledger, plan, owner, user, text, terms)
        if reservation is not None and reservation.answer is not None:
            return reservation.answer
        found = _run_or_none(run if written is None else lambda: written(run()), reservation, held)
    finally:
        held.let_go()
    if found is None:
        if reservation is not None:
            reservation.fail()
        raise ShoalError(
            "E_EXECUTION",
            "The release failed. Any charge stays, because data may have been read.",
            hint="Details are withheld because they could reveal data. Ask the data custodian.",
        )
    if reservation is None:
        return found
    kept = reservation.commit(None if written is None else found)
    return found if written is None else kept


def _reserved(
    ledger: Ledger | None, plan: Charged, owner: str | None, user: str | None, text: str, terms: Terms
) -> Reservation | None:
    if ledger is None:
        return None
    return ledger.reserve(
        Loss(plan.epsilon, Fraction(0)),
        user=user,
        description=text,
        promise=promise_of(plan.rule, plan.rows_per_owner),
        cost=loss_on(ledger, plan, owner),
        fingerprint=terms.fingerprint,
        request=terms.request,
        accounts=terms.accounts,
        resume=terms.resume,
    )


def _run_or_none(run: Callable[[], Any], reservation: Reservation | None, held: HeldInterrupts) -> Any:
    """What is found, or None whatever went wrong: it could depend on the data, and none of it may be revealed."""
    try:
        held.let_go()
        return run()
    except Exception:  # noqa: BLE001 - see above
        return None
    except BaseException:
        # Ctrl+C or an ordered exit: the user's own doing, which suspends nobody.
        if reservation is not None:
            with suppress(ShoalError):
                reservation.cancel()
        raise
