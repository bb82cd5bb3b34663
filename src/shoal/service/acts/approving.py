"""Expensive questions wait for a custodian who is not the asker."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.service import jobs, log
from shoal.service.acts.core import Core
from shoal.service.people import later, not_found

if TYPE_CHECKING:
    from shoal.service.people import Caller

APPROVAL_DAYS = 7


class Approving(Core):
    """What is waiting, and what was decided."""

    def approvals(self, caller: Caller) -> list[dict[str, Any]]:
        """What is waiting for a custodian; analysts see their own."""
        with self.store.reading() as rows:
            found = rows.all(
                "SELECT approvals.*, datasets.unit FROM approvals JOIN datasets ON datasets.name = approvals.dataset"
                " WHERE approvals.state = 'waiting' ORDER BY approvals.created, approvals.id"
            )
        return [
            {
                "id": row["id"],
                "job": row["job"],
                "dataset": row["dataset"],
                "asker": row["asker"],
                "sql": row["sql"],
                "reason": row["reason"],
                "explanation": json.loads(row["explanation"]),
                "unit": row["unit"],
                "created": row["created"],
            }
            for row in found
            if caller.reaches(row["dataset"]) and (caller.is_custodian or row["asker"] == caller.name)
        ]

    def decision(self, caller: Caller, identifier: str) -> dict[str, Any]:
        """What a custodian decided, and the question's job: what became of it since."""
        caller.require("admin")
        with self.store.reading() as rows:
            found = rows.one("SELECT * FROM approvals WHERE id = ?", identifier)
            if found is None or not self._sees(caller, found["dataset"]):
                raise not_found("approval")
            job = jobs.get(rows, found["job"])
        told = {name: found[name] for name in ("id", "dataset", "asker", "state", "decided_by", "note")}
        return told | {"job": job}

    def decide(self, caller: Caller, identifier: str, decision: str, note: str = "") -> dict[str, Any]:
        """Approve or refuse; nobody may decide their own question."""
        caller.require("admin")
        if decision not in {"approve", "refuse"}:
            raise ShoalError("E_USAGE", "A decision is 'approve' or 'refuse'.")
        with self.store.writing() as rows:
            found = rows.one("SELECT * FROM approvals WHERE id = ?", identifier)
            if found is None or not self._sees(caller, found["dataset"]):
                raise not_found("approval")
            if found["asker"] == caller.name:
                raise ShoalError("E_FORBIDDEN", "Nobody approves their own question.", hint="Ask another custodian.")
            if found["state"] != "waiting":
                raise ShoalError("E_USAGE", "This was decided already.")
            state = "approved" if decision == "approve" else "refused"
            expires = later(rows.now(), timedelta(days=APPROVAL_DAYS))
            rows.run(
                "UPDATE approvals SET state = ?, decided_by = ?, note = ?, expires = ? WHERE id = ?",
                *(state, caller.name, note[:4096], expires, identifier),
            )
            if decision == "approve":
                jobs.admit(rows, found["job"])
            else:
                jobs.end(rows, found["job"], "failed", error=_not_approved(note))
            log.write(
                *(rows, caller.name, caller.via, "approval"),
                dataset=found["dataset"],
                outcome=state,
                sql=found["sql"],
                detail=note or None,
            )
        self._slots.wake()
        self._changed(found["job"])
        return {"id": identifier, "decision": decision}


def _not_approved(note: str) -> ShoalError:
    said = f" They say: {log.harmless(note[:1000])}" if note else ""
    return ShoalError("E_POLICY", f"The data custodian refused this question. Nothing was charged.{said}")
