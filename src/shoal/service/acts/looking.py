"""What a caller may see: themselves, data sets, totals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.spending.report_data import amounts, entry_data, ledger_data
from shoal.params import MIN_EPSILON_PER_QUERY
from shoal.service import allowances
from shoal.service.acts.core import Core

if TYPE_CHECKING:
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet
    from shoal.service.people import Caller


class Looking(Core):
    """Free and without a trace."""

    def me(self, caller: Caller) -> dict[str, Any]:
        """Who am I, and what may I do."""
        return {
            "user": caller.name,
            "roles": sorted(caller.roles),
            "groups": sorted(caller.groups),
            "scope": sorted(caller.scope),
            "datasets": [name for name in self.datasets.names() if self._sees(caller, name)],
        }

    def list_datasets(self, caller: Caller) -> list[dict[str, Any]]:
        """Data sets that the caller may see."""
        return [self.describe(caller, name) for name in self.datasets.names() if self._sees(caller, name)]

    def describe(self, caller: Caller, name: str) -> dict[str, Any]:
        """Tables, unit, totals, and what the caller may spend."""
        dataset = self._dataset(caller, name)
        ledger = dataset.ledger
        budget = ledger.budget
        grants = self._grants(caller, name)
        remaining, left = self._standing(caller, dataset, grants)
        return {
            "name": dataset.name,
            "unit": dataset.unit,
            "version": dataset.version,
            "tables": dataset.session.tables(),
            "ledger": {
                "name": dataset.ledger_name,
                "accountant": ledger.accountant,
                "budget": amounts(None if budget is None else (budget.epsilon, budget.delta)),
                "spent": amounts(ledger.spent),
                "remaining": amounts(remaining),
            },
            "suspended": ledger.is_suspended(caller.name),
            "allowances": allowances.shown(grants, left),
        }

    def allowances_of(self, caller: Caller, name: str, person: str) -> list[dict[str, Any]]:
        """What somebody may still spend, for custodians and for themselves; E_AUTH for somebody who was retired."""
        dataset = self._dataset(caller, name)
        if person != caller.name:
            caller.require("admin")
        other = self.people.trusted(person, caller.via)
        grants = self._grants(other, name)
        return allowances.shown(grants, self._standing(other, dataset, grants)[1])

    def _standing(
        self, caller: Caller, dataset: DataSet, grants: list[Grant]
    ) -> tuple[tuple[Fraction, Fraction] | None, list[tuple[Fraction, Fraction] | None]]:
        """What is left of the ledger, and of each allowance: None if it has no limit."""
        accounts = [grant.account(caller) for grant in grants]
        standing = dataset.ledger.standing(accounts=any(accounts))
        if not any(accounts):
            return standing.remaining, [None] * len(accounts)
        return standing.remaining, allowances.left(standing, accounts, self.store.glance.now())

    def budget(self, caller: Caller, name: str) -> dict[str, Any]:
        """The ledger's object; analysts see their own entries, custodians and auditors all of them."""
        dataset = self._dataset(caller, name)
        data = ledger_data(dataset.ledger, dataset.catalog.defaults.min_epsilon_per_query or MIN_EPSILON_PER_QUERY)
        entries = dataset.ledger.entries()
        if not caller.scope & {"admin", "audit"}:
            own = [entry for entry in entries if entry.user == caller.name]
            # Numbered separately: a ledger's row count reveals when a run was resumed, which may depend on the data.
            data["entries"] = [entry_data(entry) | {"sequence": place} for place, entry in enumerate(own, start=1)]
            for hidden in ("by_user", "accounts", "suspensions", "failing", "asked", "anchor"):
                data.pop(hidden)
        data["unit"] = dataset.unit
        total = [Fraction(0), Fraction(0)]
        series = []
        for entry in entries:
            total = [total[0] + entry.epsilon, total[1] + entry.delta]
            series.append({"at": entry.noted_at, "epsilon": float(total[0]), "delta": float(total[1])})
        return data | {"series": series}

    def remaining(self, caller: Caller, name: str) -> tuple[Fraction, Fraction] | None:
        """What is left of the ledger."""
        return self._dataset(caller, name).ledger.remaining
