"""What a ledger is asked for when a policy's release is charged to it: the loss under the ledger's own promise."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.neighbours import OWNER, Neighbours
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.policies.policy import Policy


class Charged(Protocol):
    """A planned release that knows its losses."""

    @property
    def epsilon(self) -> Fraction:
        """Under its own policy."""

    @property
    def owner_loss(self) -> Fraction | float:
        """Under owner-level privacy."""


def opened(ledger: Ledger | str | Path | None) -> Ledger | None:
    """The ledger behind a path."""
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger.open(ledger)
    raise ShoalError("E_USAGE", "ledger is a path or a Ledger.")


def promise_of(ledger: Ledger) -> Neighbours:  # noqa: ARG001 - ledgers of this format are about owners
    """The one promise a ledger's budget is about."""
    return OWNER


def uses_public_counts(ledger: Ledger | None, rule: Policy) -> bool:
    """Whether the number of records may be used: it is no secret of the policy, and one of the owner-level promise."""
    return ledger is None or promise_of(ledger) == rule.neighbours


def loss_on(ledger: Ledger, plan: Charged, owner: str | None) -> Loss:
    """The cost of a release on this ledger; one about owners is asked for the owner-level loss, if there is one."""
    if promise_of(ledger) != OWNER:
        raise InternalError("only ledgers about owners can be made so far")
    cost = plan.owner_loss
    if owner is None or math.isinf(cost):
        why = (
            "The release names no owner, so it cannot be charged to a ledger about owners."
            if owner is None
            else "The release gives some numbers exactly: under owner-level privacy it would cost an infinite epsilon."
        )
        raise ShoalError("E_BUDGET", f"{why} Nothing was spent.", hint="Name owner=, or release without this ledger.")
    return Loss(Fraction(cost), Fraction(0))


def charged_run(
    ledger: Ledger | None, plan: Charged, owner: str | None, user: str | None, text: str, run: Callable[[], Any]
) -> Any:
    """Reserve → run → commit; a failure after the charge stays charged and says one thing only."""
    reservation = None if ledger is None else ledger.reserve(loss_on(ledger, plan, owner), user=user, description=text)
    try:
        found = run()
    except Exception:  # noqa: BLE001 - what went wrong could depend on the data, and none of it may be told
        found = None
    if found is None:
        if reservation is not None:
            reservation.fail()
        raise ShoalError(
            "E_EXECUTION",
            "The release could not be finished. A charge stays, because data may have been read.",
            hint="Details are withheld because they could reveal data. Ask the data custodian.",
        )
    if reservation is not None:
        reservation.commit()
    return found
