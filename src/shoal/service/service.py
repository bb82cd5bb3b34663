"""`Service`: what people may ask of a budget service. HTTP, the command line and pages call these methods and nothing else.

service = Service.open(home)                     # what is there, or a new one
caller = service.people.caller(token)            # E_AUTH for any other text
job = service.ask(caller, "visits", {"sql": "SELECT …"}, key="k1")
job = service.wait(job.id, 30)
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.claims.meaning import meaning
from shoal.accounting.spending.asking import Request
from shoal.accounting.spending.report_data import amounts, entry_data, ledger_data
from shoal.errors import ShoalError
from shoal.params import MIN_EPSILON_PER_QUERY
from shoal.result import Result
from shoal.service import allowances, jobs, log
from shoal.service.datasets import DataSets, NewDataSet
from shoal.service.people import Caller, People, later, not_found, random_id
from shoal.service.rates import Rates
from shoal.service.running import Slots, cancelled, key_of
from shoal.service.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from shoal import params
    from shoal.accounting.allowances import Allowance
    from shoal.plan.releases import StatementPlan
    from shoal.release.policy_clause.plan import PolicyPlan
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet
    from shoal.service.jobs import Job
    from shoal.service.questions import Question

APPROVAL_DAYS = 7
FIRST = "custodian"
END_SECONDS = 30.0
COUNT_SECONDS = 1.0
OPERATOR = Caller(
    "operator", frozenset({"custodian"}), frozenset(), frozenset({"admin", "audit", "tune"}), None, via="command line"
)
"""Whoever runs commands on the machine: may administer, and has no name under which to ask."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a service runs."""

    slots: int = 0
    answer_time: float = 1.0
    rates: bool = True

    @property
    def number_of_slots(self) -> int:
        """Twice the cores, unless said otherwise."""
        return self.slots or 2 * (os.cpu_count() or 1)


class Service:
    """One budget service over one store; any number of processes may open the same."""

    def __init__(self, store: Store, home: Path, limits: Limits) -> None:
        self.store = store
        self.people = People(store)
        self.datasets = DataSets(store, home)
        self._rates = Rates(on=limits.rates)
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._started = False
        self._ending = False
        self._explained: dict[str, int] = {}
        self._counted_at = 0.0
        self._slots = Slots(
            store, self.people, self.datasets, limits.number_of_slots, limits.answer_time, self._changed
        )

    @classmethod
    def open(cls, home: Path, limits: Limits | None = None) -> Service:
        """The service in a folder, for its owner's eyes only; made where there is none."""
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise ShoalError("E_USAGE", f"The folder {str(home)!r} cannot be made.") from None
        service = cls(Store.create(home / "service.db", random_id("", 16)), home.absolute(), limits or Limits())
        service._write_missing_lines()
        return service

    def start(self) -> None:
        """Begins to run jobs."""
        self._started = True
        self._slots.start()

    @property
    def ending(self) -> bool:
        """Whether no new work is taken."""
        return self._ending

    def use_link(self, secret: str) -> dict[str, Any]:
        """A token for whom a link was made; the link is used up."""
        with self.store.writing() as rows:
            person = self.people.use_link(rows, secret)
            made = self.people.create_token(rows, person)
            log.write(rows, person, "link", "sign-in", detail=made["id"])
        return made

    def first_link(self) -> str | None:
        """A link for the first custodian, made while there is none."""
        if self.people.has_custodian():
            return None
        with self.store.writing() as rows:
            self.people.add(rows, FIRST, ["custodian"], [])
            log.write(rows, OPERATOR.name, OPERATOR.via, "user added", detail=f"{FIRST}: custodian")
            return self.people.create_link(rows, FIRST)

    def refuse_new_work(self) -> None:
        """From now on E_BUSY; what runs goes on."""
        self._ending = True

    def close(self, seconds: float = END_SECONDS) -> bool:
        """No new work; running queries get this long. What waits stays for the next start. Whether all ended."""
        self._ending = True
        ended = not self._started or self._slots.stop(seconds)
        if ended:
            self._write_counts()
            self.datasets.close()
            self.store.close()
        return ended

    def _write_missing_lines(self) -> None:
        """Charges that a death left out of the log are written from their ledger."""
        for name, ledger in self.datasets.ledgers().items():
            with self.store.reading() as rows:
                logged = {row["charge"] for row in rows.all("SELECT charge FROM logged_charges WHERE ledger = ?", name)}
            missing = [
                e for e in ledger.entries() if e.sequence not in logged and e.state not in {"reserved", "booked"}
            ]
            for entry in missing:
                with self.store.writing() as rows:
                    log.write(
                        *(rows, entry.user, "ledger", "query"),
                        outcome=entry.state,
                        sql=entry.description,
                        cost=(entry.epsilon, entry.delta),
                        ledger=name,
                        charge=ledger.anchor_of(entry.sequence),
                        detail="written from the ledger",
                    )

    # ---- what a caller may see -----------------------------------------------------------------------------------

    def me(self, caller: Caller) -> dict[str, Any]:
        """Who am I, and what may I do."""
        return {
            "user": caller.name,
            "roles": sorted(caller.roles),
            "groups": sorted(caller.groups),
            "scope": sorted(caller.scope),
            "datasets": [name for name in self.datasets.names() if self._sees(caller, name)],
        }

    def _sees(self, caller: Caller, name: str) -> bool:
        if caller.datasets is not None and name not in caller.datasets:
            return False
        if caller.scope & {"admin", "audit"}:
            return True
        return any(grant.applies_to(caller) for grant in allowances.grants(self.store, name))

    def _dataset(self, caller: Caller, name: str) -> DataSet:
        """The same refusal for what does not exist and for what is not the caller's."""
        if not isinstance(name, str) or name not in self.datasets.names() or not self._sees(caller, name):
            raise not_found("data set")
        return self.datasets.get(name)

    def _grants(self, caller: Caller, name: str) -> list[Grant]:
        return [grant for grant in allowances.grants(self.store, name) if grant.applies_to(caller)]

    def _accounts(self, caller: Caller, name: str) -> list[Allowance]:
        found = (grant.account(caller) for grant in self._grants(caller, name))
        return [account for account in found if account is not None]

    def list_datasets(self, caller: Caller) -> list[dict[str, Any]]:
        """Data sets that the caller may see."""
        return [self.describe(caller, name) for name in self.datasets.names() if self._sees(caller, name)]

    def describe(self, caller: Caller, name: str) -> dict[str, Any]:
        """Tables, unit, totals, and what the caller may spend."""
        dataset = self._dataset(caller, name)
        ledger = dataset.ledger
        budget = ledger.budget
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
                "remaining": amounts(ledger.remaining),
            },
            "allowances": self._allowances_left(caller, dataset),
        }

    def _allowances_left(self, caller: Caller, dataset: DataSet) -> list[dict[str, Any]]:
        with self.store.reading() as rows:
            now = rows.now()
        found = []
        for grant in self._grants(caller, dataset.name):
            account = grant.account(caller)
            left = allowances.left(dataset.ledger, [account], now) if account is not None else []
            found.append(grant.to_dict() | {"left": amounts(left[0]) if left else None})
        return found

    def budget(self, caller: Caller, name: str) -> dict[str, Any]:
        """The ledger's object; analysts see their own entries, custodians and auditors all of them."""
        dataset = self._dataset(caller, name)
        data = ledger_data(dataset.ledger, dataset.catalog.defaults.min_epsilon_per_query or MIN_EPSILON_PER_QUERY)
        entries = dataset.ledger.entries()
        if not caller.scope & {"admin", "audit"}:
            own = [entry for entry in entries if entry.user == caller.name]
            data["entries"] = [entry_data(entry) for entry in own]
            for hidden in ("by_user", "accounts", "suspensions", "failing", "asked"):
                data.pop(hidden)
        data["unit"] = dataset.unit
        total = [Fraction(0), Fraction(0)]
        series = []
        for entry in entries:
            total = [total[0] + entry.epsilon, total[1] + entry.delta]
            series.append({"at": entry.noted_at, "epsilon": float(total[0]), "delta": float(total[1])})
        return data | {"series": series}

    # ---- asking --------------------------------------------------------------------------------------------------

    def explain(
        self, caller: Caller, name: str, sql: str, epsilon: float | None = None, composition: str = "basic"
    ) -> dict[str, Any]:
        """The plan in words and numbers, what it would cost the caller, and whether it is there already. Free."""
        caller.require("explain")
        self._rates.take(caller.name, "explain")
        dataset = self._dataset(caller, name)
        self._count_explain(caller.name)
        found = dataset.session.explain(sql, epsilon=epsilon, composition=composition)
        explained = found.to_dict() | {"text": str(found)}
        plan, _ = dataset.session.asked(sql, composition=composition)
        replay = (
            None
            if epsilon is not None
            else self._released(dataset, caller, self._key(dataset, caller, plan, composition))
        )
        cost = (Fraction(str(explained["epsilon"])), Fraction(str(explained["delta"])))
        approve = allowances.smallest([grant.approve_above for grant in self._grants(caller, name)])
        return explained | {
            "affordable": self._affordable(caller, dataset, cost),
            "replay": replay if dataset.share_answers else None,
            "needs_approval": approve is not None and cost[0] > approve and replay is None,
            "allowances": self._allowances_left(caller, dataset),
            "meaning": meaning(max(explained["epsilon"], 1e-10), explained["delta"]).to_dict(),
            "unit": dataset.unit,
            "advice": _advice(explained),
        }

    def _count_explain(self, person: str) -> None:
        """Explanations cost nothing: their counts are written in batches, once a second at most."""
        with self._lock:
            self._explained[person] = self._explained.get(person, 0) + 1
            due = time.monotonic() - self._counted_at > COUNT_SECONDS
        if due:
            self._write_counts()

    def _write_counts(self) -> None:
        with self._lock:
            counted, self._explained, self._counted_at = self._explained, {}, time.monotonic()
        if counted:
            with self.store.writing() as rows:
                for person, number in counted.items():
                    log.count(rows, person, "explain", number)

    def _affordable(self, caller: Caller, dataset: DataSet, cost: tuple[Fraction, Fraction]) -> bool:
        with self.store.reading() as rows:
            now = rows.now()
        limits = allowances.left(dataset.ledger, self._accounts(caller, dataset.name), now)
        if dataset.ledger.remaining is not None:
            limits.append(dataset.ledger.remaining)
        return all(cost[0] <= limit[0] and cost[1] <= limit[1] for limit in limits)

    def epsilon_for(
        self, caller: Caller, name: str, sql: str, error: float, level: float = 0.95, owners: int | None = None
    ) -> float:
        """The smallest ε at which no interval is wider than ± error."""
        caller.require("explain")
        self._rates.take(caller.name, "explain")
        return self._dataset(caller, name).session.epsilon_for(sql, error, level, owners)

    def ask(self, caller: Caller, name: str, question: Question, key: str | None = None) -> Job:
        """A job for a question: answered at once where the answer was released before, else waiting or to be approved."""
        caller.require("query")
        if self._ending:
            raise ShoalError("E_BUSY", "The service is ending.", hint="Send it again in a minute.")
        dataset = self._dataset(caller, name)
        request = Request.of(caller.name, name, key or random_id("none-"), question.canonical)
        with self.store.reading() as rows:
            known = jobs.under_request(rows, request.key)
        if known is not None:
            return _same(known, request)
        self._rates.take(caller.name, "query")
        try:
            job = self._new_job(caller, dataset, question, request)
        except ShoalError as error:
            self._log_refusal(caller, name, question.sql, error)
            raise
        if job.state == "waiting":
            self._slots.wake()
        return job

    def _new_job(self, caller: Caller, dataset: DataSet, question: Question, request: Request) -> Job:
        plan, is_explain = dataset.session.asked(question.sql, composition=question.composition)
        if is_explain:
            raise ShoalError("E_USAGE", "EXPLAIN PRIVACY is not a query here.", hint="Ask for its explanation instead.")
        grants = self._grants(caller, dataset.name)
        limit = allowances.smallest([grant.max_epsilon for grant in grants])
        if limit is not None and plan.epsilon > limit and _is_private(plan):
            raise ShoalError(
                "E_POLICY",
                f"A query of yours on this data set may cost at most epsilon = {float(limit):g}.",
                hint="Ask with a smaller epsilon.",
            )
        fingerprint = self._key(dataset, caller, plan, question.composition)
        cost = _cost(plan)
        said = question.to_dict() | {"version": dataset.version}
        job = jobs.Job(
            *(
                random_id("j_"),
                0,
                caller.name,
                dataset.name,
                request.key,
                request.body_sha256,
                said,
                fingerprint,
                *cost,
            ),
            *("waiting", "", 0, "", "", "", False, None, caller.via),
        )
        with self.store.writing() as rows:
            known = jobs.under_request(rows, request.key)
            if known is not None:
                return _same(known, request)
            return self._put(rows, caller, dataset, job, plan, grants)

    def _put(
        self,
        rows: Any,
        caller: Caller,
        dataset: DataSet,
        job: Job,
        plan: StatementPlan | PolicyPlan,
        grants: list[Grant],
    ) -> Job:
        """The job in its first state: answered before, to be approved, behind another that asks the same, or waiting."""
        from dataclasses import replace

        fresh = job.question["fresh"]
        released = None if fresh else _released_in(rows, dataset, caller, job.fingerprint)
        if released is not None:
            jobs.put(rows, job)
            jobs.end(rows, job.id, "answered", answer=released)
            log.write(*(rows, caller.name, caller.via, "query"), dataset=dataset.name, outcome="replayed", sql=job.sql)
            return jobs.get(rows, job.id)
        jobs.require_room(rows, caller.name)
        approve = allowances.smallest([grant.approve_above for grant in grants])
        if approve is not None and job.epsilon > approve and _is_private(plan) and not _approved(rows, caller, job):
            jobs.put(rows, replace(job, state="approval"))
            explanation = dataset.session.explain(job.sql, composition=job.question["composition"]).to_dict()
            rows.run(
                "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', '', '', ?, '')",
                *(random_id("p_"), job.id, dataset.name, caller.name, job.fingerprint, job.sql),
                *(job.question["reason"], json.dumps(explanation), rows.now()),
            )
            log.write(
                *(rows, caller.name, caller.via, "approval asked"),
                dataset=dataset.name,
                sql=job.sql,
                cost=job.cost,
                detail=job.question["reason"] or None,
            )
            return jobs.get(rows, job.id)
        leader = "" if fresh else jobs.leader_of(rows, job, shared=dataset.share_answers)
        jobs.put(rows, replace(job, leader=leader))
        return jobs.get(rows, job.id)

    def _key(self, dataset: DataSet, caller: Caller, plan: StatementPlan | PolicyPlan, composition: str) -> str:
        return key_of(plan, dataset, caller.name, composition)

    def _released(self, dataset: DataSet, caller: Caller, fingerprint: str) -> str | None:
        with self.store.reading() as rows:
            return _released_in(rows, dataset, caller, fingerprint)

    def _log_refusal(self, caller: Caller, name: str, sql: str, error: ShoalError) -> None:
        with self.store.writing() as rows:
            if log.count(rows, caller.name, "refusal") <= log.REFUSALS_IN_FULL:
                log.write(rows, caller.name, caller.via, "query", dataset=name, outcome=error.code, sql=sql)

    # ---- jobs and answers ----------------------------------------------------------------------------------------

    def job(self, caller: Caller, identifier: str) -> Job:
        """A job of the caller's own."""
        with self.store.reading() as rows:
            job = jobs.get(rows, identifier)
        if job.person != caller.name:
            raise not_found("job")
        return job

    def position(self, job: Job) -> int | None:
        """How many wait before it, itself counted."""
        with self.store.reading() as rows:
            return jobs.position(rows, job)

    def wait(self, identifier: str, seconds: float) -> Job:
        """The job when it has ended, waits for approval, or this time has passed."""
        ends = time.monotonic() + seconds
        woken = threading.Event()
        with self.listening(identifier, woken.set):
            while True:
                with self.store.reading() as rows:
                    job = jobs.get(rows, identifier)
                left = ends - time.monotonic()
                if job.ended or job.state == "approval" or left <= 0:
                    return job
                woken.wait(min(left, 0.5))  # another process may be the one that runs it

    def listening(self, identifier: str, told: Callable[[], None]) -> _Listening:
        """While inside, `told` is called when the job changes in this process."""
        return _Listening(self._listeners, self._lock, identifier, told)

    def _changed(self, identifier: str) -> None:
        with self._lock:
            told = list(self._listeners.get(identifier, ()))
        for each in told:
            each()

    def cancel(self, caller: Caller, identifier: str) -> Job:
        """Ends a job: free while it waits, charged once it runs. Others who wait for the same answer still get it."""
        self.job(caller, identifier)
        with self.store.writing() as rows:
            job = jobs.get(rows, identifier)
            if job.ended:
                return job
            running = job.state == "running"
            jobs.end(rows, job.id, "cancelled", error=cancelled(), charged=running)
            rows.run("UPDATE approvals SET state = 'withdrawn' WHERE job = ? AND state = 'waiting'", job.id)
            log.write(
                *(rows, caller.name, caller.via, "cancel"),
                dataset=job.dataset,
                outcome="running" if running else "waiting",
            )
            if not running:
                jobs.promote(rows, job.id)
        self._changed(identifier)
        return self.job(caller, identifier)

    def answer_bytes(self, caller: Caller, identifier: str) -> tuple[dict[str, Any], bytes]:
        """A released answer, for everybody who may ask its data set; E_GONE once it is no longer kept."""
        caller.require("read")
        with self.store.reading() as rows:
            found = rows.one("SELECT * FROM answers WHERE id = ?", identifier)
        if found is None or not self._sees(caller, found["dataset"]):
            raise not_found("answer")
        dataset = self._dataset(caller, found["dataset"])
        if not dataset.share_answers and found["person"] != caller.name:
            raise not_found("answer")
        return found, self._bytes(found)

    def _bytes(self, row: dict[str, Any]) -> bytes:
        if row["free"] is not None:
            return bytes(row["free"])
        return self.datasets.ledger(row["ledger"]).answer_of_charge(row["charge"])

    def answer(self, caller: Caller, identifier: str) -> tuple[dict[str, Any], bytes, Result]:
        """The same, and as a `Result`."""
        found, data = self.answer_bytes(caller, identifier)
        return found, data, Result.from_bytes(data)

    def answer_of(self, caller: Caller, job: Job) -> tuple[Result, bytes]:
        """The answer of the caller's own job: who may ask may see what they asked for."""
        with self.store.reading() as rows:
            found = rows.one("SELECT * FROM answers WHERE id = ?", job.answer)
        if found is None or job.person != caller.name:
            raise not_found("answer")
        data = self._bytes(found)
        return Result.from_bytes(data), data

    def remaining(self, caller: Caller, name: str) -> tuple[Fraction, Fraction] | None:
        """What is left of the ledger."""
        return self._dataset(caller, name).ledger.remaining

    # ---- approvals -----------------------------------------------------------------------------------------------

    def approvals(self, caller: Caller) -> list[dict[str, Any]]:
        """What waits for a custodian; analysts see their own."""
        with self.store.reading() as rows:
            found = rows.all("SELECT * FROM approvals WHERE state = 'waiting' ORDER BY created, id")
        return [
            {
                "id": row["id"],
                "job": row["job"],
                "dataset": row["dataset"],
                "asker": row["asker"],
                "sql": row["sql"],
                "reason": row["reason"],
                "explanation": json.loads(row["explanation"]),
                "created": row["created"],
            }
            for row in found
            if (caller.is_custodian and self._sees(caller, row["dataset"])) or row["asker"] == caller.name
        ]

    def decide(self, caller: Caller, identifier: str, decision: str, note: str = "") -> dict[str, Any]:
        """Approve or refuse; nobody decides on their own question."""
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
                rows.run("UPDATE jobs SET state = 'waiting' WHERE id = ? AND state = 'approval'", found["job"])
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

    # ---- the custodian -------------------------------------------------------------------------------------------

    def add_dataset(self, caller: Caller, new: NewDataSet) -> None:
        """A new data set, and a ledger for its people where they have none."""
        caller.require("admin")
        added = self.datasets.add(new)
        with self.store.writing() as rows:
            detail = f"ledger {added.ledger_name}" + (", other people than any before" if new.new_people else "")
            log.write(rows, caller.name, caller.via, "dataset added", dataset=new.name, detail=detail)

    def refresh(self, caller: Caller, name: str) -> None:
        """The data changed: its answers are new from now on."""
        caller.require("admin")
        with self.store.writing() as rows:
            self.datasets.refresh(rows, name)
            log.write(rows, caller.name, caller.via, "dataset refreshed", dataset=name)

    def retire_dataset(self, caller: Caller, name: str) -> None:
        """Nobody can ask it any more."""
        caller.require("admin")
        with self.store.writing() as rows:
            self.datasets.retire(rows, name)
            log.write(rows, caller.name, caller.via, "dataset retired", dataset=name)

    def raise_budget(self, caller: Caller, name: str, budget: params.Budget, because: str) -> None:
        """A larger budget for life, with a reason."""
        caller.require("admin")
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
        """A data set whose raw figures a custodian looks at; never reachable by an analyst."""
        caller.require("tune")
        return self._dataset(caller, name)

    def note_look(self, caller: Caller, name: str, sql: str, settings: int) -> int:
        """How many settings of this question were looked at, this look included; each look is a line of the log."""
        caller.require("tune")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "tune", dataset=name, sql=sql, detail=str(settings))
            found = rows.all(
                "SELECT json_extract(line, '$.detail') AS number FROM log WHERE json_extract(line, '$.action') = 'tune'"
                " AND json_extract(line, '$.dataset') = ? AND json_extract(line, '$.sql') = ?",
                *(name, log.harmless(sql[: log.LONGEST_SQL])),
            )
        return sum(int(row["number"]) for row in found)

    def allow(self, caller: Caller, grant: Grant) -> None:
        """Who may ask a data set, and within which limits."""
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

    def add_user(self, caller: Caller, name: str, roles: Sequence[str], groups: Sequence[str] = ()) -> None:
        """A new person."""
        caller.require("admin")
        with self.store.writing() as rows:
            self.people.add(rows, name, roles, groups)
            detail = f"{name}: {', '.join(sorted(set(roles)))}"
            log.write(rows, caller.name, caller.via, "user added", detail=detail)

    def retire_user(self, caller: Caller, name: str) -> None:
        """A person's tokens are worth nothing from now on."""
        caller.require("admin")
        with self.store.writing() as rows:
            self.people.retire(rows, name)
            log.write(rows, caller.name, caller.via, "user retired", detail=name)

    def create_token(
        self,
        caller: Caller,
        person: str | None = None,
        scope: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        days: float = 90,
    ) -> dict[str, Any]:
        """A token: one's own, within the scope of the token at hand, or anybody's for a custodian."""
        whose = person or caller.name
        if whose != caller.name:
            caller.require("admin")
        elif scope is None or not frozenset(scope) <= caller.scope:
            if scope is not None:
                raise ShoalError("E_FORBIDDEN", "A token cannot make one that can do more.")
            scope = sorted(caller.scope)
        if whose == caller.name and caller.datasets is not None:
            datasets = sorted(caller.datasets if datasets is None else caller.datasets & set(datasets))
        with self.store.writing() as rows:
            made = self.people.create_token(rows, whose, scope, datasets, days)
            log.write(rows, caller.name, caller.via, "token", detail=f"{made['id']} for {whose}")
        return made

    def tokens(self, caller: Caller) -> list[dict[str, Any]]:
        """One's own tokens; a custodian's list has everybody's."""
        return self.people.tokens(None if caller.is_custodian else caller.name)

    def revoke_token(self, caller: Caller, identifier: str) -> None:
        """Ends a token at once."""
        with self.store.writing() as rows:
            self.people.revoke(rows, identifier, None if caller.is_custodian else caller.name)
            log.write(rows, caller.name, caller.via, "token revoked", detail=identifier)

    # ---- the log -------------------------------------------------------------------------------------------------

    def log(self, caller: Caller, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Lines of the log, for custodians and auditors."""
        caller.require("audit")
        return log.lines(self.store, after, limit)

    def log_anchor(self, caller: Caller) -> str:
        """Number and hash of the last line."""
        caller.require("audit")
        return log.anchor(self.store)

    def export_log(self, caller: Caller) -> list[str]:
        """The whole log as JSON lines, the export itself noted."""
        caller.require("audit")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "log exported")
        return list(log.export(self.store))

    def check(self) -> tuple[int, int]:
        """Lines of the log and charges of the ledgers, all verified and in agreement; E_LEDGER otherwise."""
        number = log.verify(log.export(self.store), log.anchor(self.store))
        with self.store.reading() as rows:
            logged = {(row["ledger"], row["charge"], row["anchor"]) for row in rows.all("SELECT * FROM logged_charges")}
        found = {
            (name, *ledger.anchor_of(entry.sequence))
            for name, ledger in self.datasets.ledgers().items()
            for entry in ledger.entries()
            if entry.state not in {"reserved", "booked"}
        }
        if not found <= logged:
            raise ShoalError("E_LEDGER", "A charge is missing in the log.", hint="The next start writes it; look why.")
        return number, len(found)

    def forget_answers(self, caller: Caller, days: int) -> int:
        """Forget the rows of answers older than this; their digests stay, and what they cost."""
        caller.require("admin")
        with self.store.reading() as rows:
            before = later(rows.now(), timedelta(days=-days))
        dropped = sum(ledger.drop_answers(before) for ledger in self.datasets.ledgers().values())
        with self.store.writing() as rows:
            rows.run("UPDATE answers SET fingerprint = '' WHERE created < ?", before)
            log.write(rows, caller.name, caller.via, "answers forgotten", detail=f"{dropped} before {before}")
        return dropped

    # ---- health --------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether the store can be written and work is taken."""
        if self._ending:
            return False
        try:
            with self.store.writing() as rows:
                rows.tick()
        except ShoalError:
            return False
        return True

    def metrics(self, caller: Caller) -> dict[str, int]:
        """Counts; no durations of private queries."""
        caller.require("admin")
        with self.store.reading() as rows:
            states = {
                row["state"]: row["n"] for row in rows.all("SELECT state, count(*) AS n FROM jobs GROUP BY state")
            }
            (lines,) = rows.all("SELECT count(*) AS n FROM log")
        return {
            f"jobs_{state}": states.get(state, 0) for state in ("waiting", "approval", "running", *sorted(jobs.ENDED))
        } | {"log_lines": lines["n"]}


class _Listening:
    """A subscription to one job."""

    def __init__(
        self, listeners: dict[str, list[Callable[[], None]]], lock: threading.Lock, job: str, told: Callable[[], None]
    ) -> None:
        self._listeners, self._lock, self._job, self._told = listeners, lock, job, told

    def __enter__(self) -> None:
        with self._lock:
            self._listeners.setdefault(self._job, []).append(self._told)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            listening = self._listeners[self._job]
            listening.remove(self._told)
            if not listening:
                del self._listeners[self._job]


def _same(known: Job, request: Request) -> Job:
    """The job of the same request; another body under the key is refused."""
    if known.body != request.body_sha256:
        raise ShoalError(
            "E_IDEMPOTENCY",
            "This key was already used for another request.",
            hint="Use a new key for a new request.",
        )
    return known


def _is_private(plan: StatementPlan | PolicyPlan) -> bool:
    return bool(getattr(plan, "selects", True))


def _cost(plan: StatementPlan | PolicyPlan) -> tuple[Fraction, Fraction]:
    from shoal.plan.releases import StatementPlan
    from shoal.release.execute import charge_of

    if isinstance(plan, StatementPlan):
        if not plan.selects:
            return Fraction(0), Fraction(0)
        charge = charge_of(plan)
        return charge.epsilon, charge.delta
    return plan.epsilon, Fraction(0)


def _released_in(rows: Any, dataset: DataSet, caller: Caller, fingerprint: str) -> str | None:
    """An answer that was released under this fingerprint and is still kept."""
    found = rows.one(
        "SELECT id, ledger, charge, free FROM answers WHERE fingerprint = ? AND dataset = ? AND (? OR person = ?)"
        " ORDER BY created LIMIT 1",
        *(fingerprint, dataset.name, dataset.share_answers, caller.name),
    )
    return None if found is None else str(found["id"])


def _approved(rows: Any, caller: Caller, job: Job) -> bool:
    found = rows.one(
        "SELECT id FROM approvals WHERE asker = ? AND fingerprint = ? AND state = 'approved' AND expires > ?",
        *(caller.name, job.fingerprint, rows.now()),
    )
    return found is not None


def _not_approved(note: str) -> ShoalError:
    said = f" They say: {log.harmless(note[:1000])}" if note else ""
    return ShoalError("E_POLICY", f"The data custodian refused this question. Nothing was charged.{said}")


def _advice(explained: dict[str, Any]) -> list[str]:
    """What would make the question better, from the plan alone."""
    found = []
    for select in explained.get("selects", ()):
        owners = select["selection"].get("owners_for_even_chance")
        if owners is not None:
            found.append(f"Groups of fewer than about {owners:,} people are likely to be left out.")
        if any(column["bounds_source"] == "inferred" for column in select["columns"]):
            found.append("Bounds are found at the cost of a part of epsilon: give them if you know them.")
    return found
