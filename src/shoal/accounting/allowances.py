"""Allowances: limits inside a ledger's budget, for a user, a group or everyone, per period or for ever.

>>> Allowance("user:ann", "week").account_at("2026-10-05T12:00:00Z")
'week 2026-W41 user:ann'
"""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        if self.per not in {"day", "week", "month", "ever"} or not self.to.isprintable() or not self.to:
            raise InternalError("an allowance is for somebody, per day, week, month or ever")

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
