"""A ledger for machines: the object of `shoal budget --json`, also what the service answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.accounting.ledger import Ledger
    from shoal.accounting.spending.reports import Entry


def ledger_data(book: Ledger, least_epsilon: Fraction) -> dict[str, Any]:
    """The whole ledger; exact amounts are beside the rounded ones. No query costs less than `least_epsilon`."""
    limit = (book.budget.epsilon, book.budget.delta) if book.budget is not None else None
    return {
        "accountant": book.accountant,
        "promise": book.promise.to_data(),
        "covers": book.covers or "rows",
        "budget": amounts(limit),
        "spent": amounts(book.spent),
        "remaining": amounts(book.remaining),
        "anchor": "{}:{}".format(*book.anchor),
        "asked": {promise: amounts(asked) for promise, asked in book.asked_by_promise().items()},
        "accounts": {account: amounts(sums) for account, sums in book.accounts().items()},
        "raises": [
            {"noted_at": each.noted_at, **(amounts((each.epsilon, each.delta)) or {}), "because": each.because}
            for each in book.raises()
        ],
        "suspensions": [asdict(suspension) for suspension in book.suspensions()],
        "failing": asdict(book.told_by_failures(least_epsilon)),
        "by_user": {user: amounts(spent) for user, spent in book.spent_by_user().items()},
        "entries": [entry_data(entry) for entry in book.entries()],
    }


def entry_data(entry: Entry) -> dict[str, Any]:
    """One charge for machines."""
    return {
        "sequence": entry.sequence,
        "noted_at": entry.noted_at,
        "user": entry.user,
        "query": entry.description,
        "state": entry.state,
        **(amounts((entry.epsilon, entry.delta)) or {}),
        "promise": entry.promise,
        "asked": amounts(entry.asked),
        "covers": entry.covers or "rows",
        "accounts": list(entry.accounts),
        "why": entry.why,
    }


def amounts(both: tuple[Fraction, Fraction] | None) -> dict[str, Any] | None:
    """(ε, δ) as numbers, and exactly as strings such as 1/3."""
    if both is None:
        return None
    epsilon, delta = both
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "exact": {"epsilon": str(epsilon), "delta": str(delta)},
    }
