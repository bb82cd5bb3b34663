"""Limits inside a budget: to a user, a group or everyone (each), per day, week, month or ever.

A charge must fit the ledger and every allowance that applies, in the ledger's one conditional write.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.allowances import Allowance
from shoal.accounting.spending.report_data import amounts
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.params import Budget
from shoal.service.people import checked_name, known_person, not_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.spending.reports import Standing
    from shoal.service.people import Caller
    from shoal.service.store import Reading, Rows, Store

PERIODS = ("day", "week", "month", "ever")
EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Grant:
    """One `allow`: who may query a data set, and within which limits."""

    dataset: str
    to: str
    per: str = "ever"
    budget: Budget | None = None
    max_epsilon: Fraction | None = None
    approve_above: Fraction | None = None

    def __post_init__(self) -> None:
        if self.per not in PERIODS:
            raise ShoalError("E_USAGE", "An allowance is per day, week, month or ever.")
        if self.to != EVERYONE:
            checked_name(self.to.removeprefix("group:"), "user or group")

    def applies_to(self, caller: Caller) -> bool:
        """Whether this applies to the caller."""
        if self.to.startswith("group:"):
            return self.to.removeprefix("group:") in caller.groups
        return self.to in {EVERYONE, caller.name}

    def account(self, caller: Caller) -> Allowance | None:
        """Where the caller's charges are added up; a group shares one account, everyone has their own."""
        if self.budget is None:
            return None
        is_shared = self.to.startswith("group:")
        whom = self.to if is_shared else f"user:{caller.name}"
        kind = " each" if self.to == EVERYONE else ""
        spoken = f"{self.to.replace(':', ' ') if is_shared else caller.name} on {self.dataset}"
        return Allowance(f"{self.dataset} {whom}{kind}", self.per, self.budget, spoken)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """As the service shows it."""
        return {
            "dataset": self.dataset,
            "to": self.to,
            "per": self.per,
            "budget": None
            if self.budget is None
            else {"epsilon": float(self.budget.epsilon), "delta": float(self.budget.delta)},
            "max_epsilon_per_query": None if self.max_epsilon is None else float(self.max_epsilon),
            "approve_above": None if self.approve_above is None else float(self.approve_above),
        }


def put(rows: Rows, grant: Grant) -> None:
    """A new allowance; it replaces the previous one for the same people and period."""
    texts = ("", "") if grant.budget is None else (str(grant.budget.epsilon), str(grant.budget.delta))
    limits = ("" if limit is None else str(limit) for limit in (grant.max_epsilon, grant.approve_above))
    rows.run(
        "INSERT INTO allowances VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (dataset, whom, per) DO UPDATE SET"
        " epsilon = excluded.epsilon, delta = excluded.delta, max_epsilon = excluded.max_epsilon,"
        " approve_above = excluded.approve_above, created = excluded.created",
        *(grant.dataset, grant.to, grant.per, *texts, *limits, rows.now()),
    )


def withdraw(rows: Rows, dataset: str, to: str, per: str) -> None:
    """The allowance for these people and this period ends."""
    if not rows.run("DELETE FROM allowances WHERE dataset = ? AND whom = ? AND per = ?", dataset, to, per):
        raise not_found("allowance")


def grants(store: Store, dataset: str) -> tuple[Grant, ...]:
    """Every allowance of a data set."""
    return store.known(("allowances", dataset), lambda rows: _stored(rows, dataset))


def may_still_ask(rows: Reading, dataset: str, person: str) -> bool:
    """Whether somebody who asked may ask now, too: nobody retired them, and an allowance is left."""
    caller = known_person(rows, person, "")
    if caller is None:
        return False
    return caller.is_custodian or any(grant.applies_to(caller) for grant in _stored(rows, dataset))


def require_may_still_ask(rows: Reading, dataset: str, person: str) -> None:
    """The same refusal as for a data set that is not there, also where it was taken from them a moment ago."""
    if not may_still_ask(rows, dataset, person):
        raise not_found("data set")


def _stored(rows: Reading, dataset: str) -> tuple[Grant, ...]:
    found = rows.all("SELECT * FROM allowances WHERE dataset = ? ORDER BY whom, per", dataset)
    return tuple(map(_grant, found))


def _grant(row: dict[str, Any]) -> Grant:
    budget = Budget(Fraction(row["epsilon"]), Fraction(row["delta"])) if row["epsilon"] else None
    limits = (Fraction(row[name]) if row[name] else None for name in ("max_epsilon", "approve_above"))
    return Grant(row["dataset"], row["whom"], row["per"], budget, *limits)


def smallest(limits: list[Fraction | None]) -> Fraction | None:
    """The tightest of the limits that are set."""
    return min((limit for limit in limits if limit is not None), default=None)


def most_of_one(grants: Sequence[Grant]) -> Fraction | None:
    """What one question may cost."""
    return smallest([grant.max_epsilon for grant in grants])


def are_within(grants: Sequence[Grant], epsilon: Fraction) -> bool:
    """Whether one question may cost this much."""
    limit = most_of_one(grants)
    return limit is None or epsilon <= limit


def too_dear(grants: Sequence[Grant]) -> ShoalError:
    """The error for a question that costs more than one may."""
    return ShoalError(
        "E_POLICY",
        f"A query of yours on this data set may cost at most epsilon = {float(most_of_one(grants) or 0):g}.",
        hint="Ask with a smaller epsilon.",
    )


def left(
    standing: Standing, accounts: Sequence[Allowance | None], moment: str
) -> list[tuple[Fraction, Fraction] | None]:
    """What each account may still spend in the current period; None if there is no limit."""
    spent = standing.accounts
    found: list[tuple[Fraction, Fraction] | None] = []
    for account in accounts:
        if account is None or account.budget is None:
            found.append(None)
            continue
        epsilon, delta = spent.get(account.account_at(moment), (Fraction(0), Fraction(0)))
        limit = account.budget
        found.append((max(Fraction(0), limit.epsilon - epsilon), max(Fraction(0), limit.delta - delta)))
    return found


def shown(grants: Sequence[Grant], remaining: Sequence[tuple[Fraction, Fraction] | None]) -> list[dict[str, Any]]:
    """Allowances with what is left of each."""
    return [grant.to_dict() | {"left": amounts(of)} for grant, of in zip(grants, remaining, strict=True)]
