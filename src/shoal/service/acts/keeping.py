"""What a custodian does with data sets: add, refresh, retire, raise, lift, look, allow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from shoal.service import allowances, log
from shoal.service.acts.core import Core
from shoal.service.people import not_found

if TYPE_CHECKING:
    from shoal import params
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet, NewDataSet
    from shoal.service.people import Caller


class Keeping(Core):
    """Each act is a line of the log."""

    def add_dataset(self, caller: Caller, new: NewDataSet) -> None:
        """A new data set, and a ledger for its people if they have none."""
        caller.require_everywhere("admin")
        added = self.datasets.add(new)
        with self.store.writing() as rows:
            detail = f"ledger {added.ledger_name}" + (", other people than any before" if new.new_people else "")
            log.write(rows, caller.name, caller.via, "dataset added", dataset=new.name, detail=detail)

    def refresh(self, caller: Caller, name: str) -> None:
        """The data changed: its answers are new from now on."""
        self._keeps(caller, name)
        with self.store.writing() as rows:
            self.datasets.refresh(rows, name)
            log.write(rows, caller.name, caller.via, "dataset refreshed", dataset=name)

    @staticmethod
    def _keeps(caller: Caller, name: str) -> None:
        """Not through `_dataset`: a data set that cannot be opened can be refreshed, retired, and taken from people."""
        caller.require("admin")
        if not caller.reaches(name):
            raise not_found("data set")

    def retire_dataset(self, caller: Caller, name: str) -> None:
        """Nobody can query it any more."""
        self._keeps(caller, name)
        with self.store.writing() as rows:
            self.datasets.retire(rows, name)
            log.write(rows, caller.name, caller.via, "dataset retired", dataset=name)

    def raise_budget(self, caller: Caller, name: str, budget: params.Budget, because: str) -> None:
        """A larger lifetime budget, with a reason; other data sets may share it."""
        caller.require_everywhere("admin")
        dataset = self._dataset(caller, name)
        dataset.ledger.raise_budget(budget, because=because)
        with self.store.writing() as rows:
            log.write(
                *(rows, caller.name, caller.via, "budget raised"),
                dataset=name,
                cost=(budget.epsilon, budget.delta),
                ledger=dataset.ledger_name,
                detail=because,
            )

    def lift(self, caller: Caller, name: str, person: str, because: str) -> None:
        """Ends a suspension, with a reason."""
        caller.require("admin")
        dataset = self._dataset(caller, name)
        dataset.ledger.lift(person, because=because)
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "lift", dataset=name, detail=f"{person}: {because}")

    def looking(self, caller: Caller, name: str) -> DataSet:
        """A data set whose raw figures a custodian inspects; never reachable by an analyst."""
        caller.require("tune")
        return self._dataset(caller, name)

    def note_look(self, caller: Caller, name: str, sql: str, settings: int) -> int:
        """How many settings of this question were inspected, including this one; each look is a line of the log."""
        caller.require("tune")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "tune", dataset=name, sql=sql, detail=str(settings))
        with self.store.reading() as rows:  # the log may be long, and nobody waits for those who read it
            found = rows.all("SELECT line FROM log WHERE line LIKE ?", '%"action":"tune"%')
        about = ("tune", name, log.harmless(sql[: log.LONGEST_SQL]))
        looks = (json.loads(row["line"]) for row in found)
        return sum(int(look["detail"]) for look in looks if (look["action"], look["dataset"], look["sql"]) == about)

    def allow(self, caller: Caller, grant: Grant) -> None:
        """Who may query a data set, and within which limits."""
        caller.require("admin")
        self._dataset(caller, grant.dataset)
        with self.store.writing() as rows:
            if grant.to != allowances.EVERYONE and not grant.to.startswith("group:"):
                known = rows.one("SELECT name FROM people WHERE name = ? AND retired = ''", grant.to)
                if known is None:
                    raise not_found("user")
            allowances.put(rows, grant)
            cost = None if grant.budget is None else (grant.budget.epsilon, grant.budget.delta)
            detail = json.dumps(grant.to_dict(), sort_keys=True)
            log.write(rows, caller.name, caller.via, "allowance", dataset=grant.dataset, cost=cost, detail=detail)

    def withdraw(self, caller: Caller, dataset: str, to: str, per: str = "ever") -> None:
        """An allowance ends; whoever has no other no longer sees the data set, and what they asked and still waits is refused."""
        self._keeps(caller, dataset)
        with self.store.writing() as rows:
            allowances.withdraw(rows, dataset, to, per)
            detail = json.dumps({"to": to, "per": per}, sort_keys=True)
            log.write(
                *(rows, caller.name, caller.via, "allowance"), dataset=dataset, outcome="withdrawn", detail=detail
            )
