"""A grade for a column, and the reason in one sentence.

The grade goes by owners, the people behind the numbers: what share of them has a value that nobody else has (k = 2),
or that fewer than 5 or 10 share. It is a ranking aid, not a guarantee: a column graded minimal can still identify
together with another.

| grade | when |
|---|---|
| critical | at least half of the owners are alone with a value |
| high | at least 5% are alone, or at least 20% are among fewer than 5 |
| medium | anybody is alone, or at least 1% are among fewer than 5 |
| low | some values have fewer than 10 owners |
| minimal | every value seen has 10 owners or more |
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.risk.sketch.measures import Measures


class Grade(IntEnum):
    """How identifying a column is, or how joinable a pair."""

    MINIMAL = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Graded:
    """A grade and why."""

    grade: Grade
    reason: str


def percent(share: float) -> str:
    """A share for people: 0%, <0.1%, 0.4%, 12%, >99.9%, 100%."""
    if share in {0.0, 1.0}:
        return f"{share:.0%}"
    if share < 0.001:
        return "<0.1%"
    if share > 0.999:
        return ">99.9%"
    return f"{share:.1%}" if share < 0.1 or share > 0.9 else f"{share:.0%}"


def grade_column(measures: Measures, *, is_owner: bool) -> Graded:
    """The grade of a column or combination by the shares of its owners."""
    if not measures.sampled_values:
        return Graded(Grade.MINIMAL, "There are no rows.")
    if is_owner:
        return Graded(Grade.CRITICAL, "This is the owner itself: every value is one owner.")
    alone, few, some = (measures.shares[k]["owners"].value for k in (2, 5, 10))
    who = "rows" if measures.counts_rows else "owners"
    # where owners have several values each, the share of owners is an upper bound
    most = "" if measures.values_per_owner < 1.2 else "up to "
    if alone >= 0.5:
        return Graded(Grade.CRITICAL, _sentence(f"{most}{percent(alone)} of {who} have a value that nobody else has."))
    if alone >= 0.05 or few >= 0.2:
        return Graded(Grade.HIGH, _reason(who, most, alone, few))
    if alone > 0 or few >= 0.01:
        return Graded(Grade.MEDIUM, _reason(who, most, alone, few))
    if some > 0:
        return Graded(Grade.LOW, _sentence(f"{most}{percent(some)} of {who} share a value with at most 8 others."))
    return Graded(Grade.MINIMAL, f"The rarest value seen has {measures.minimum:,} {who}.")


def _reason(who: str, most: str, alone: float, few: float) -> str:
    if alone > 0:
        return _sentence(
            f"{most}{percent(alone)} of {who} are alone with a value, {percent(few)} share one with at most 3 others."
        )
    return f"Nobody is alone, but {most}{percent(few)} of {who} share a value with at most 3 others."


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
