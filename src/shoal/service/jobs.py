"""Jobs: one request of one person, from waiting to its end. Each change of state is one transaction with its log line."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.spending.processes import is_gone, this_process
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.datasets import shares_answers_now
from shoal.service.people import later, not_found, random_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from shoal.service.datasets import DataSet
    from shoal.service.people import Caller
    from shoal.service.store import Reading, Rows

WAITING_PER_PERSON = 16
WAITING_IN_ALL = 1000
LEASE_SECONDS = 15
LEFT_TO_OTHERS = 32
"""After how many newer ones a job no longer waits for the process that it came to."""
MOST_RUNS = 2
"""A run cut short by a crash is retried once."""
_NAMES_NO_TIME = '%"answer_time": null%'
"""A question as it is stored; quotation marks in its statement are escaped there, so no statement can look like this."""
ENDED = frozenset({"answered", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is stored."""

    id: str
    number: int
    person: str
    dataset: str
    request: str
    body: str
    question: dict[str, Any]
    fingerprint: str
    epsilon: Fraction
    delta: Fraction
    state: str
    leader: str
    runs: int
    process: str
    lease: str
    answer: str
    charged: bool
    error: dict[str, Any] | None
    via: str

    @property
    def ended(self) -> bool:
        """Whether it is final."""
        return self.state in ENDED

    @property
    def is_free(self) -> bool:
        """Whether it queries only public tables."""
        return self.epsilon == 0

    @property
    def sql(self) -> str:
        """The statement."""
        return str(self.question["sql"])

    @property
    def epsilon_asked(self) -> float | None:
        """The ε that replaces the statement's own."""
        found = self.question.get("epsilon")
        return None if found is None else float(found)

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """What it is, or would be, charged."""
        return self.epsilon, self.delta


def read(row: dict[str, Any] | None) -> Job:
    """A row as a job; E_NOT_FOUND without one."""
    if row is None:
        raise not_found("job")
    return Job(
        row["id"],
        row["number"],
        row["person"],
        row["dataset"],
        row["request"],
        row["body"],
        json.loads(row["question"]),
        row["fingerprint"],
        Fraction(row["epsilon"]),
        Fraction(row["delta"]),
        row["state"],
        row["leader"],
        row["runs"],
        row["process"],
        row["lease"],
        row["answer"],
        bool(row["charged"]),
        json.loads(row["error"]) if row["error"] else None,
        row["via"],
    )


def new_id() -> str:
    """The id of a new job."""
    return random_id("j_")


def answer_id(job: str) -> str:
    """The id of the answer that a job finds; whoever runs it, and however often, it is the same."""
    return f"a_{job.removeprefix('j_')}"


def get(rows: Reading, identifier: str) -> Job:
    """A job by its id."""
    return read(rows.one("SELECT * FROM jobs WHERE id = ?", identifier))


def is_cancelled(rows: Reading, identifier: str) -> bool:
    """Whether its asker cancelled it, and nobody else is waiting for the same answer."""
    found = rows.one("SELECT state FROM jobs WHERE id = ?", identifier)
    return found is not None and found["state"] == "cancelled" and not followers(rows, identifier)


def under_request(rows: Reading, request: str) -> Job | None:
    """The existing job for this request."""
    row = rows.one("SELECT * FROM jobs WHERE request = ?", request)
    return None if row is None else read(row)


def put(rows: Rows, job: Job) -> None:
    """A new job."""
    rows.run(
        "INSERT INTO jobs (id, person, dataset, request, body, question, fingerprint, epsilon, delta, state, leader, runs,"
        " process, lease, answer, created, via, came_to) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(job.id, job.person, job.dataset, job.request, job.body, json.dumps(job.question), job.fingerprint),
        *(str(job.epsilon), str(job.delta), job.state, job.leader, job.runs, job.process, job.lease),
        *(job.answer, rows.now(), job.via, this_process()),
    )


def require_room(rows: Rows, person: str) -> None:
    """E_BUSY if too much is waiting, for a slot or for a custodian."""
    found = rows.all(
        "SELECT person, count(*) AS number FROM jobs WHERE state IN ('waiting', 'approval') GROUP BY person"
    )
    waiting = {row["person"]: row["number"] for row in found}
    if waiting.get(person, 0) >= WAITING_PER_PERSON or sum(waiting.values()) >= WAITING_IN_ALL:
        raise ShoalError("E_BUSY", "Too many jobs are waiting.", hint="Send it again when some of yours have ended.")


def leader_of(rows: Rows, job: Job, *, shared: bool) -> str:
    """An unfinished job with the same question: its answer serves both, unless it was asked to leave later."""
    found = rows.all(
        "SELECT * FROM jobs WHERE fingerprint = ? AND state IN ('waiting', 'running') AND leader = ''"
        " AND dataset = ? AND (? OR person = ?) ORDER BY number",
        *(job.fingerprint, job.dataset, shared, job.person),
    )
    asked = map(read, found)
    return next((a.id for a in asked if not a.question["fresh"] and _reply_after(a) <= _reply_after(job)), "")


def _reply_after(job: Job) -> float:
    """The reply time that a question names; 0 if it uses the service's own."""
    return float(job.question.get("answer_time") or 0.0)


def admit(rows: Rows, identifier: str) -> None:
    """A job that waited for a custodian now waits for a slot, or behind one with the same question; a cancelled one stays so."""
    job = get(rows, identifier)
    if job.state == "approval":
        # If answers are not shared, each person has their own fingerprint.
        leader = "" if job.question["fresh"] else leader_of(rows, job, shared=True)
        rows.run("UPDATE jobs SET state = 'waiting', leader = ? WHERE id = ?", leader, identifier)


def is_approved(rows: Rows, job: Job) -> bool:
    """Whether a custodian approved this question of its asker's, and that still holds."""
    found = rows.one(
        "SELECT id FROM approvals WHERE asker = ? AND fingerprint = ? AND state = 'approved' AND expires > ?",
        *(job.person, job.fingerprint, rows.now()),
    )
    return found is not None


def position(rows: Reading, job: Job) -> int | None:
    """Its place in the queue, counted from 1; None unless it is waiting."""
    if job.state != "waiting":
        return None
    found = rows.all("SELECT count(*) AS number FROM jobs WHERE state = 'waiting' AND number <= ?", job.number)
    return max(1, int(found[0]["number"]))  # a slot may have taken it since it was read, and then it was the first


def take_next(rows: Rows, free_slots: int = 1, held: Collection[str] = ()) -> Job | None:
    """The next job to run: the oldest one of the person with the fewest running.

    Of the newest, first those that came to this process: it has their plans, and their askers.

    Questions over public tables cost nothing, so only this keeps them from taking every slot: each person runs one at a time, and
    one process runs no more than `free_slots`. A question that names a longer time for its reply holds its slot for that time,
    whatever it costs: no more than `free_slots` of these either.

    `held`: the jobs in the slots of this process. One that was cancelled while it ran stays in its slot until its end, so it
    counts as running; otherwise whoever cancels could take one slot after the other.
    """
    places = ", ".join("?" * len(held)) or "''"
    (here,) = rows.all(
        "SELECT count(CASE WHEN epsilon = '0' THEN 1 END) AS free, count(CASE WHEN question NOT LIKE ? THEN 1 END) AS long"
        f" FROM jobs WHERE (state = 'running' AND process = ?) OR id IN ({places})",
        *(_NAMES_NO_TIME, this_process(), *held),
    )
    found = rows.one(
        "SELECT w.* FROM jobs w WHERE w.state = 'waiting' AND w.leader = '' AND (w.epsilon <> '0' OR (? AND NOT EXISTS"
        f" (SELECT 1 FROM jobs f WHERE (f.state = 'running' OR f.id IN ({places}))"
        " AND f.epsilon = '0' AND f.person = w.person)))"
        " AND (? OR w.question LIKE ?)"
        " ORDER BY (SELECT count(*) FROM jobs r WHERE"
        f" (r.state = 'running' OR r.id IN ({places})) AND r.person = w.person),"
        " CASE WHEN w.came_to = ? OR w.number < (SELECT max(number) FROM jobs) - ? THEN 0 ELSE 1 END, w.number LIMIT 1",
        *(here["free"] < free_slots, *held, here["long"] < free_slots, _NAMES_NO_TIME, *held),
        *(this_process(), LEFT_TO_OTHERS),
    )
    if found is None:
        return None
    job = begun(rows, read(found))
    rows.run(
        "UPDATE jobs SET state = ?, process = ?, lease = ?, runs = ? WHERE id = ?",
        *(job.state, job.process, job.lease, job.runs, job.id),
    )
    return job


def begun(rows: Rows, job: Job) -> Job:
    """The job as one that runs in this process."""
    return replace(job, state="running", process=this_process(), lease=_lease(rows), runs=job.runs + 1)


def may_begin(rows: Rows, job: Job) -> bool:
    """Whether it would be the next one to run: nobody waits, and it is not of those that few slots are for (`take_next`)."""
    return bool(job.epsilon) and not _reply_after(job) and not is_one_waiting(rows)


def is_one_waiting(rows: Reading) -> bool:
    """Whether there is a job for an idle slot."""
    return rows.one("SELECT id FROM jobs WHERE state = 'waiting' AND leader = '' LIMIT 1") is not None


def _lease(rows: Rows) -> str:
    return later(rows.now(), timedelta(seconds=LEASE_SECONDS))


def renew(rows: Rows, held: Collection[str]) -> None:
    """Records that these runs of this process are alive."""
    if held:
        places = ", ".join("?" * len(held))
        lease = _lease(rows)
        rows.run(f"UPDATE jobs SET lease = ? WHERE id IN ({places}) AND process = ?", lease, *held, this_process())


def left(rows: Rows, held: Collection[str], given_up: Collection[str] = (), *, at_start: bool) -> list[Job]:
    """Jobs that no slot has any more: neither those of this process, nor one of a process that lives and was not silent for long.

    `given_up`: those that this process says are left, whatever their lease, which keeps other processes from them.
    Also cancelled ones: at a start all of them, later those that others wait behind.
    """
    places = ", ".join("?" * len(given_up)) or "''"
    found = rows.all(
        f"SELECT * FROM jobs WHERE state = 'running' OR (state = 'cancelled' AND ((? AND process <> '') OR id IN ({places})"
        " OR id IN (SELECT leader FROM jobs WHERE state = 'waiting' AND leader <> '')))",
        *(at_start, *given_up),
    )
    now = rows.now()
    asked = [job for job in map(read, found) if job.id not in held]
    ours = {job.id for job in asked if job.id in given_up and job.process == this_process()}
    return [job for job in asked if job.id in ours or not job.process or is_gone(job.process) or job.lease < now]


def is_as_it_was(rows: Rows, job: Job) -> bool:
    """Whether nobody took it or ended it since it was read."""
    found = get(rows, job.id)
    return (found.state, found.process, found.runs) == (job.state, job.process, job.runs)


def wait_again(rows: Rows, identifier: str) -> None:
    """Back to the queue, for its last run."""
    rows.run(
        "UPDATE jobs SET state = 'waiting', process = '', leader = '', runs = ? WHERE id = ?", MOST_RUNS - 1, identifier
    )


def uncount(rows: Rows, identifier: str) -> None:
    """Its second run here took up no charge, and does not count: whichever process takes it runs it as if there had been none."""
    rows.run(
        "UPDATE jobs SET runs = ? WHERE id = ? AND state = 'running' AND process = ?",
        *(MOST_RUNS - 1, identifier, this_process()),
    )


def run_again(rows: Rows, identifier: str) -> bool:
    """Its runner died: the second run begins, invisibly to everyone. False if another process has it by now."""
    return rows.run("UPDATE jobs SET runs = runs + 1 WHERE id = ? AND process = ?", identifier, this_process()) == 1


def is_elsewhere(job: Job) -> bool:
    """Whether a job that was taken here waits again, or runs in another process, which took this one for dead."""
    return job.state == "waiting" or (job.state == "running" and job.process != this_process())


def end(
    rows: Rows, identifier: str, state: str, *, answer: str = "", error: ShoalError | None = None, charged: bool = False
) -> bool:
    """Ends a job; False if it had already ended. The run of one that was cancelled is over, too."""
    text = "" if error is None else json.dumps(error.to_dict())
    touched = rows.run(
        "UPDATE jobs SET state = ?, answer = ?, error = ?, charged = ?, process = ''"
        " WHERE id = ? AND state NOT IN ('answered', 'failed', 'cancelled')",
        *(state, answer, text, charged, identifier),
    )
    if not touched:
        rows.run("UPDATE jobs SET process = '' WHERE id = ?", identifier)
    return touched == 1


def cancel_running(rows: Rows, identifier: str, error: ShoalError) -> None:
    """Ends a job whose run goes on until its own end: the process that has it stays known.

    One that waits for its second run gets this process, which ends the charge of the first.
    """
    rows.run(
        "UPDATE jobs SET state = 'cancelled', error = ?, charged = ?, process = CASE WHEN state = 'waiting' THEN ? ELSE"
        " process END WHERE id = ? AND state IN ('waiting', 'running')",
        *(json.dumps(error.to_dict()), True, this_process(), identifier),
    )


def followers(rows: Reading, identifier: str) -> list[Job]:
    """Jobs that wait for this one's answer, oldest first."""
    found = rows.all("SELECT * FROM jobs WHERE leader = ? AND state = 'waiting' ORDER BY number", identifier)
    return [read(row) for row in found]


def on_its_own(rows: Rows, identifier: str) -> None:
    """A follower that waits for a slot now, not for the answer of another job."""
    rows.run("UPDATE jobs SET leader = '' WHERE id = ?", identifier)


def promote(rows: Rows, identifier: str) -> None:
    """A job ended without an answer: its first follower with the earliest reply time runs, and the others follow that one."""
    waiting = sorted(followers(rows, identifier), key=_reply_after)
    for number, job in enumerate(waiting):
        rows.run("UPDATE jobs SET leader = ? WHERE id = ?", "" if number == 0 else waiting[0].id, job.id)


def released(rows: Reading, dataset: DataSet, caller: Caller, fingerprint: str) -> str | None:
    """A released answer with this fingerprint that is still kept."""
    found = rows.one(
        "SELECT id FROM answers WHERE fingerprint = ? AND dataset = ? AND (? OR person = ?)"
        " AND created >= (SELECT kept_since FROM identity) ORDER BY created, id LIMIT 1",
        *(fingerprint, dataset.name, shares_answers_now(rows, dataset), caller.name),
    )
    return None if found is None else str(found["id"])
