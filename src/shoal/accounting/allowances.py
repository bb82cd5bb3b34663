"""Allowances: limits inside a ledger's budget, for a user, a group or everyone, per period or for ever.

>>> Allowance("user:ann", "week").account_at("2026-10-05T12:00:00Z")
'week 2026-W41 user:ann'
"""

from __future__ import annotations

from dataclasses import field
from datetime import date
from typing import TYPE_CHECKING, Literal

from shoal.errors import InternalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.params import Budget

Period = Literal["day", "week", "month", "ever"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What `to` may spend in each period; without a budget the account only adds up."""

    to: str
    per: Period = "ever"
    budget: Budget | None = None
    spoken: str = field(default="", compare=False)
    """Whose it is in a sentence, where `to` is not a name that people use."""

    def __post_init__(self) -> None:
        if self.per not in {"day", "week", "month", "ever"} or not self.to.isprintable() or not self.to:
            raise InternalError("an allowance is for somebody, per day, week, month or ever")

    def __str__(self) -> str:
        """As in: the allowance of ann on visits this week."""
        when = {"ever": "", "day": " today"}.get(self.per, f" this {self.per}")
        return f"the allowance of {self.spoken or self.to}{when}"

    def account_at(self, moment: str) -> str:
        """The account of the period that this moment (UTC) falls into."""
        return f"{self.per} {_period(self.per, moment)}{self.to}"


def _period(per: Period, moment: str) -> str:
    if per == "ever":
        return ""
    if per == "week":
        year, week, _ = date.fromisoformat(moment[:10]).isocalendar()
        return f"{year}-W{week:02} "
    return f"{moment[: 10 if per == 'day' else 7]} "
