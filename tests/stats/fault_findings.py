"""What must hold after everything went wrong: charges, answers, the log and what people heard; for `service_faults.py`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.service import jobs, log

if TYPE_CHECKING:
    from shoal.accounting.ledger import Ledger
    from shoal.accounting.spending.reports import Entry
    from shoal.service.jobs import Job
    from shoal.service.service import Service

CUSTODIANS = {"carla", "clara"}
RESEARCH = {"ann", "bob", "emil"}


@dataclass
class Seen:
    """What people heard, and what was wrong with that at once."""

    asked: dict[tuple[str, str, str, bool], str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    """Jobs that were said to be cancelled and not charged."""
    read: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Who read which answer between which lines of the log."""
    shared: dict[int, bool] = field(default_factory=lambda: {1: True})
    """Whether answers were shared, by version of the data set."""
    wrong: list[str] = field(default_factory=list)

    def note_asked(self, words: dict[str, Any], job: dict[str, Any]) -> None:
        """The same request is the same job, and has one answer."""
        if words["key"] is not None:
            request = (words["who"], words["key"], words["sql"], words["fresh"])
            if self.asked.setdefault(request, job["id"]) != job["id"]:
                self.wrong.append(f"one request, two jobs: {request}")
        if job["answer"] and self.answers.setdefault(job["id"], job["answer"]) != job["answer"]:
            self.wrong.append(f"another answer for {job['id']}")

    def note_cancelled(self, job: dict[str, Any]) -> None:
        """It may have been answered before."""
        if job["state"] == "cancelled" and not job["charged"]:
            self.free.add(job["id"])


def findings(service: Service, seen: Seen) -> dict[str, Any]:
    """What is wrong, and how much of everything there is."""
    wrong = list(seen.wrong)
    try:
        service.check()
    except ShoalError as error:
        wrong.append(f"check: {error}")
    ledger = service.datasets.ledger("visits")
    with service.store.reading() as rows:
        every = [jobs.read(row) for row in rows.all("SELECT * FROM jobs ORDER BY number")]
        answers = {row["id"]: row for row in rows.all("SELECT id, person, charge, free FROM answers")}
        approved = {
            (row["asker"], row["fingerprint"])
            for row in rows.all("SELECT * FROM approvals WHERE state = 'approved' AND decided_by <> asker")
        }
    lines = []
    while found := log.lines(service.store, len(lines)):
        lines += found
    entries = {entry.sequence: entry for entry in ledger.entries()}
    charges = charges_of(ledger, every)
    wrong += wrong_charges(ledger, entries, every, charges)
    paid = {ledger.answer_of_charge(number) for number, entry in entries.items() if entry.state == "answered"}
    wrong += wrong_answers(every, answers, entries, charges, paid)
    wrong += wrong_lines(lines, entries, every, charges)
    wrong += wrong_permissions(lines, every, answers, seen)
    wrong += over_allowances(lines, ledger)
    for job in every:
        if job.id in seen.answers and job.answer != seen.answers[job.id]:
            wrong.append(f"{job.id} was answered with {seen.answers[job.id]}, and now with {job.answer}")
        was_shared = any(seen.shared[version] for version in seen.shared if version >= job.question["version"])
        if job.answer and answers[job.answer]["person"] != job.person and not was_shared:
            wrong.append(f"{job.id} has somebody else's answer, and answers were not shared since it was asked")
        if job.id in seen.free and (job.state != "cancelled" or job.charged or charges[job.id]):
            wrong.append(f"{job.id} was cancelled and free, and now {job.state}, {charges[job.id]}")
        is_dear = job.epsilon > Fraction(2, 5) and job.person not in CUSTODIANS
        if is_dear and charges[job.id] and (job.person, job.fingerprint) not in approved:
            wrong.append(f"{job.id} was charged without an approval")
    counted = Counter(job.state for job in every) + Counter(f"charge {entry.state}" for entry in entries.values())
    return {"wrong": wrong, "found": dict(sorted(counted.items()))}


def charges_of(ledger: Ledger, every: list[Job]) -> dict[str, list[int]]:
    """The charges of each job."""
    with ledger._store.reading() as transaction:
        return {job.id: transaction.spends_with_request(job.request) for job in every}


def wrong_charges(
    ledger: Ledger, entries: dict[int, Entry], every: list[Job], charges: dict[str, list[int]]
) -> list[str]:
    """Each request is charged once at most; what is charged has ended, and says so."""
    wrong = [f"charged twice: {job.id}, {charges[job.id]}" for job in every if len(charges[job.id]) > 1]
    # Where the ledger did not take the end of a second run, its user's next charge ends it first.
    owed = {number for job in every if (job.error or {}).get("code") == "E_LEDGER" for number in charges[job.id]}

    def whose(number: int) -> list[tuple[str, str, int]]:
        return [(job.id, job.state, job.runs) for job in every if number in charges[job.id]]

    open_ones = (e for e in entries.values() if e.state == "reserved" and e.sequence not in owed)
    wrong += [f"never ended: charge {e.sequence} of {e.user}, {whose(e.sequence)}" for e in open_ones]
    nobodys = entries.keys() - {number for found in charges.values() for number in found}
    wrong += [f"charged for nothing: {number}" for number in sorted(nobodys)]
    if ledger.spent[0] != sum(entry.epsilon for entry in entries.values()):
        wrong.append("the sum of the charges is another")
    if ledger.budget is not None and ledger.spent[0] > ledger.budget.epsilon:
        wrong.append("more was spent than there is")
    for job in every:
        if charges[job.id] and not job.charged:
            wrong.append(f"{job.id} is {job.state} and said to be free: {entries[charges[job.id][-1]]}")
        # Whoever cancels a run is not told whether it had been charged: that would tell how far it had come.
        if job.charged and not charges[job.id] and job.state != "cancelled":
            wrong.append(f"{job.id} is {job.state} and said to be charged")
    return wrong


def wrong_answers(
    every: list[Job],
    answers: dict[str, dict[str, Any]],
    entries: dict[int, Entry],
    charges: dict[str, list[int]],
    paid: set[bytes],
) -> list[str]:
    """Each answer is paid for or public; each charge that was answered is some job's."""
    charged = [(name, entries[row["charge"]]) for name, row in answers.items() if row["charge"]]
    wrong = [f"{name} has the charge {entry}" for name, entry in charged if entry.state != "answered"]
    for number in (entry.sequence for entry in entries.values() if entry.state == "answered"):
        if not any(row["charge"] == number for row in answers.values()):
            whose = [job for job in every if number in charges[job.id]]
            # At the last moment it was cancelled, or whoever asked lost their allowance.
            if not all(job.state == "cancelled" or (job.state, job.runs) == ("failed", 2) for job in whose):
                wrong.append(f"nobody has the answer of charge {number}: {whose}")
    for job in every:
        if job.state not in {"answered", "failed", "cancelled", "approval"}:
            wrong.append(f"{job.id} of {job.person} is {job.state}, {job.leader or 'alone'}, run {job.runs}")
        if (job.state == "answered") != bool(job.answer) or (job.answer and job.answer not in answers):
            wrong.append(f"{job.id} is {job.state} with the answer {job.answer!r}")
        elif job.answer:
            number = answers[job.answer]["charge"]
            # The ledger may have handed it out before its own job was recorded as answered.
            if not number and job.epsilon and bytes(answers[job.answer]["free"]) not in paid:
                wrong.append(f"{job.id} is private and has a free answer")
            if job.charged and [number] != charges[job.id]:
                wrong.append(f"{job.id} has the answer of charge {number}, and was charged {charges[job.id]}")
            if job.question["fresh"] and job.epsilon and not job.charged:
                wrong.append(f"{job.id} was to be fresh, and is free")
    return wrong


def wrong_lines(
    lines: list[dict[str, Any]], entries: dict[int, Entry], every: list[Job], charges: dict[str, list[int]]
) -> list[str]:
    """Each charge has one line, of its person, that says how it ended."""
    logged = Counter(int(line["charge"].split(":")[0]) for line in lines if line["charge"])
    wrong = [f"charge {number} has {logged[number]} lines" for number in entries | logged if logged[number] != 1]
    about = {int(line["charge"].split(":")[0]): line for line in lines if line["charge"]}
    for number, line in about.items():
        entry = entries.get(number)
        if entry is None:
            continue
        if (line["actor"], Fraction(line["epsilon"])) != (entry.user, entry.epsilon):
            wrong.append(f"the line of charge {number} is about something else")
        # An answer that is stored may not be given any more when it could be: its asker lost their allowance.
        is_withheld = (line["outcome"], entry.state) in {("E_EXECUTION", "answered"), ("cancelled", "answered")}
        if (line["outcome"] == "answered") != (entry.state == "answered") and not is_withheld:
            wrong.append(f"charge {number} is {entry.state}, and its line says {line['outcome']}")
    return wrong


class Permissions:
    """Who may have what, by the lines of the log."""

    def __init__(self) -> None:
        self.grants: set[tuple[str, str]] = set()
        self.retired: set[str] = set()

    def note(self, line: dict[str, Any]) -> None:
        """What changes with a line."""
        said = json.loads(line["detail"]) if line["action"] == "allowance" else {}
        if line["action"] == "user retired":
            self.retired.add(line["detail"])
        elif line["outcome"] == "withdrawn":
            self.grants.discard((said["to"], said["per"]))
        elif line["action"] == "allowance":
            self.grants.add((said["to"], said["per"]))

    def may_ask(self, who: str) -> bool:
        """Whether an allowance, or their role, lets them."""
        groups = {"everyone", who} | ({"group:research"} if who in RESEARCH else set())
        return who not in self.retired and (who in CUSTODIANS or any(to in groups for to, _ in self.grants))


def wrong_permissions(
    lines: list[dict[str, Any]], every: list[Job], answers: dict[str, dict[str, Any]], seen: Seen
) -> list[str]:
    """Nobody was given what others paid for without being allowed to have it at that line of the log."""
    found, wrong, may = Permissions(), [], {0: set()}
    people = {job.person for job in every} | {who for who, _, _, _ in seen.read}
    for line in lines:
        found.note(line)
        may[line["n"]] = {who for who in people if found.may_ask(who)}
        is_replay = (line["action"], line["outcome"]) == ("query", "replayed")
        if is_replay and line["actor"] not in may[line["n"]]:
            wrong.append(f"line {line['n']}: {line['actor']} was given an answer without an allowance")
    for who, answer, before, after in seen.read:
        if not any(who in may[n] for n in range(before, after + 1)):
            wrong.append(f"{who} read {answer} without an allowance, at line {after}")
    return wrong


def over_allowances(lines: list[dict[str, Any]], ledger: Ledger) -> list[str]:
    """No account has more than its limit ever was; one without a limit adds nothing up."""
    most: dict[tuple[str, str], Fraction] = {}
    for line in lines:
        if line["action"] == "allowance" and line["outcome"] == "done" and line["epsilon"]:
            said = json.loads(line["detail"])
            account = said["to"] if said["to"].startswith("group:") else f"user:{said['to']}"
            key = (said["per"], account)
            most[key] = max(most.get(key, Fraction(0)), Fraction(line["epsilon"]))
    wrong = []
    for name, (epsilon, _) in ledger.accounts().items():
        per, account = name.split()[0], name.split()[-1]
        if epsilon > most.get((per, account), Fraction(0)):
            wrong.append(f"the account {name} has {epsilon}, and its limit was {most.get((per, account))}")
    return wrong
