"""A ledger as a person reads it: its charges and how they ended, its suspensions and lifts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from shoal.accounting.promises import Promise
from shoal.accounting.stores.rows import amount_of
from shoal.accounting.suspension import Suspension
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shoal.accounting.stores.base import Transaction
    from shoal.accounting.stores.rows import PlacedRow

State = Literal["reserved", "answered", "failed", "cancelled", "withheld", "booked"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge. All are paid for; only 'answered' had an answer.

    One that stays 'reserved' is running, or was cut short. 'withheld': it ended while its user was suspended. 'booked': a loss
    that the custodian wrote down. `epsilon` and `delta` are what it costs here, `asked` what was asked under its own promise.
    """

    sequence: int
    noted_at: str
    user: str
    description: str
    epsilon: Fraction
    delta: Fraction
    state: State
    promise: str = "owner"
    asked: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    covers: str = ""
    accounts: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Raise:
    """A larger lifetime budget, and why."""

    noted_at: str
    epsilon: Fraction
    delta: Fraction
    because: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How a ledger stands at one moment: (ε, δ) left of its budget, and the plain sums (Σε, Σδ) of accounts."""

    remaining: tuple[Fraction, Fraction] | None
    accounts: dict[str, tuple[Fraction, Fraction]]


def accounts_in(transaction: Transaction) -> dict[str, tuple[Fraction, Fraction]]:
    """Plain sums (Σε, Σδ) of every account."""
    return {name: (amount_of(sums[0]), amount_of(sums[1])) for name, sums in transaction.accounts()}


def entries_of(transaction: Transaction) -> list[Entry]:
    """Every charge with its end, oldest first."""
    found: dict[int, Entry] = {}
    for placed in transaction.rows():
        if placed.row.kind in {"spend", "loss"}:
            found[placed.sequence] = _charge(placed)
        elif placed.row.reservation in found:
            found[placed.row.reservation] = _ended(found[placed.row.reservation], placed)
    return list(found.values())


def _charge(placed: PlacedRow) -> Entry:
    row, said = placed.row, placed.row.more
    epsilon, delta = amount_of(row.amounts[0]), amount_of(row.amounts[1])
    asked = said.get("asked")
    return Entry(
        placed.sequence,
        row.noted_at,
        row.user,
        row.description,
        epsilon,
        delta,
        "booked" if row.kind == "loss" else "reserved",
        Promise.from_data(said["promise"]).label if "promise" in said else "owner",
        (amount_of(asked["epsilon"]), amount_of(asked["delta"])) if asked else (epsilon, delta),
        said.get("covers", ""),
        tuple(said.get("accounts", ())),
    )


def _ended(entry: Entry, end: PlacedRow) -> Entry:
    states: dict[str, State] = {"answer": "answered", "failure": "failed", "withheld": "withheld"}
    why = end.row.more.get("why", "")
    return replace(entry, state="cancelled" if why == "cancelled" else states[end.row.kind], why=why)


def suspensions_of(transaction: Transaction) -> list[Suspension]:
    """Every suspension with its statement, and the lift that ended it."""
    found: list[Suspension] = []
    in_force: dict[str, int] = {}
    for placed in transaction.rows():
        row = placed.row
        if row.kind == "suspend":
            spend = transaction.row(row.about)
            statement = "" if spend is None else spend.row.description
            in_force[row.user] = len(found)
            found.append(Suspension(row.user, row.noted_at, row.about, statement, why=row.more.get("why", "")))
        elif row.kind == "lift" and row.user in in_force:
            number = in_force.pop(row.user)
            found[number] = replace(found[number], lifted_at=row.noted_at, because=row.description)
    return found


def raises_of(transaction: Transaction) -> list[Raise]:
    """Every time the budget was raised, oldest first."""
    return [
        Raise(row.noted_at, amount_of(row.more["epsilon"]), amount_of(row.more["delta"]), row.description)
        for row in (placed.row for placed in transaction.rows())
        if row.kind == "raise"
    ]


def sums_by(
    entries: Iterable[Entry], part: Callable[[Entry], tuple[str, Fraction, Fraction]]
) -> dict[str, tuple[Fraction, Fraction]]:
    """Plain sums of amounts by name, the largest first."""
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for entry in entries:
        name, epsilon, delta = part(entry)
        before = sums.get(name, (Fraction(0), Fraction(0)))
        sums[name] = (before[0] + epsilon, before[1] + delta)
    return dict(sorted(sums.items(), key=lambda item: item[1], reverse=True))
