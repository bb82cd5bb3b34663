"""The tripwire: a charged run that ends in anything but an answer suspends its user, so that no oracle can be asked twice.

Whether a run fails may depend on the data: one failure is at most one surprise. Until the custodian has looked at the
statement and lifted the suspension, the user's queries are refused and their running queries are withheld, in the same
words.

    >>> round(most_bits(300), 1), round(most_bits(3000), 1)
    (8.2, 11.6)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.spending.reports import Entry


@dataclass(frozen=True, slots=True)
class Suspension:
    """Since when a user is suspended, for which charge, and how it ended ('' while it is in force)."""

    user: str
    noted_at: str
    charge: int
    statement: str
    lifted_at: str = ""
    because: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """The most that failing queries can have revealed so far."""

    charges: int
    users: int
    failures: int
    lifts: int
    bits: float
    bits_by_the_end: float | None
    """When all that is left is spent at the least ε by the same users; None where no ε bounds the number of charges."""


def told_by_failures(
    entries: Sequence[Entry], suspensions: Sequence[Suspension], charges_left: int | None = None
) -> Told:
    """Every user may fail once, and once more for every lift."""
    users, lifts = len({entry.user for entry in entries}), sum(bool(s.lifted_at) for s in suspensions)
    chances = users + lifts
    by_the_end = None if charges_left is None else most_bits(len(entries) + charges_left, max(1, chances))
    return Told(len(entries), users, len(suspensions), lifts, most_bits(len(entries), chances), by_the_end)


def suspended() -> ShoalError:
    """The one refusal, before the charge and after it, whatever happened."""
    return ShoalError(
        "E_SUSPENDED",
        "This user's queries are suspended on this ledger: a charged query did not end in an answer, or too many were late.",
        hint="Ask the data custodian, who can look at the query and lift it: shoal budget --ledger FILE --lift USER, or in a "
        "service: shoal service lift DATASET USER",
    )


def most_bits(charges: int, failures: int = 1) -> float:
    """What an oracle that fails on demand can reveal, rounded up: log₂ of the ways to have at most this many failures.

    Precondition: `failures` ≥ the number of suspensions that may happen (users, plus lifts). Formula: with N charged
    queries in a known order, the failures reveal which of them failed: Σ_{j ≤ k} C(N, j) possibilities.
    """
    ways = sum(math.comb(charges, j) for j in range(min(charges, failures) + 1))
    return math.nextafter(math.log2(ways), math.inf) if ways > 1 else 0.0
