"""Slots: threads that take waiting jobs, run them under their charge, and record how they ended.

Each slot runs queries in its own process (`runners/`): whatever happens to that process affects one job.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from shoal.accounting.spending.asking import Request, Terms
from shoal.engines.python_rows.private_folder import remove_left_behind
from shoal.errors import InternalError, ShoalError
from shoal.service import allowances, jobs, log
from shoal.service.acts.planned import Asked
from shoal.service.desk import Desk, Ladder
from shoal.service.people import later, not_found
from shoal.service.runners import nursery
from shoal.service.runners.bells import A_JOB_WAITS
from shoal.service.runners.errand import Errand, facts_of
from shoal.service.runners.hired import Died, Hired, TooLong
from shoal.service.runners.idle import Idle
from shoal.service.runners.processors import Processors
from shoal.service.upkeep.endings import (
    as_told,
    changed_meanwhile,
    ended_by_death,
    ended_with,
    internal,
    kept_answer,
    log_charge,
    may_have,
    require_may_have,
    taken_over,
)
from shoal.service.upkeep.recovery import end_open_charge, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.service.acts.planned import Plans
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet, DataSets
    from shoal.service.jobs import Job
    from shoal.service.limits import Limits
    from shoal.service.people import People
    from shoal.service.runners.bells import Bell
    from shoal.service.runners.recent import RecentAnswers
    from shoal.service.store import Rows, Store

HEARTBEAT_SECONDS = 5.0
KEEP_SECONDS = 0.8
"""How long a log line that charges nothing may wait for the disk."""
IDLE_SECONDS = 1.0
SOON_SECONDS = 0.1
"""The next question of somebody who asks one after the other comes sooner."""
LATE_REPLIES = 3
LATE_DAYS = 30
FREE_SECONDS = 30.0
"""Seconds of processor time for a question over public tables, which costs nothing else."""
_LOGGER = logging.getLogger("shoal.service")


@dataclass(slots=True)
class After:
    """What a slot does when it is done with a job."""

    job: Job | None = None
    """The next one, which it has taken."""
    has_looked: bool = False
    """Whether it knows by now that no other job waits."""


class Slots:
    """The running half of a service; `changed` is called with the id of every job whose state changed here."""

    def __init__(
        self,
        store: Store,
        people: People,
        datasets: DataSets,
        limits: Limits,
        changed: Callable[[str, Job | None], None],
        share: int,
        plans: Plans,
        recent: RecentAnswers,
        bell: Bell,
    ) -> None:
        self._bell = bell
        self._plans = plans
        self._recent = recent
        self._store = store
        self._people = people
        self._datasets = datasets
        self._limits = limits
        self._changed = changed
        self._idle: Idle[Job] = Idle()
        self._ending = False
        self._ended = threading.Event()
        self._held: set[str] = set()
        """Jobs in slots here, also those that were cancelled meanwhile; one is added in the transaction that takes it."""
        self._left: set[str] = set()
        """Jobs whose run here is left for later: whether their charge can still be taken up is for the ledger to say."""
        processors = Processors(limits.number_of_places)
        self.runners = [Hired(share, processors) for _ in range(limits.number_of_slots)]
        self._threads = [
            threading.Thread(target=self._work, args=(runner,), name=f"shoal-slot-{number}", daemon=True)
            for number, runner in enumerate(self.runners)
        ]
        self._heart = threading.Thread(target=self._beat, name="shoal-heartbeat", daemon=True)
        self._keeper = threading.Thread(target=self._keep_planners, name="shoal-planners", daemon=True)

    def start(self) -> None:
        """Resumes what an earlier process left, and begins."""
        nursery.start()
        self.recover(at_start=True)
        for thread in (*self._threads, self._heart, self._keeper):
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Takes no new work; whether running jobs ended within this time. Waiting jobs stay in the store."""
        self._ending = True
        self._idle.call_all()
        ends = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self._ended.set()  # until now its runs were alive, and no other process took them over
        self._heart.join(max(KEEP_SECONDS, ends - time.monotonic()))
        remove_left_behind()
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def running(self) -> int:
        """How many jobs run here."""
        return len(self._held)

    def wake(self) -> None:
        """One job is waiting. A slot that finishes a job looks for the next without being called."""
        if not self._idle.call_one():
            self._bell.ring(A_JOB_WAITS)

    @contextmanager
    def offered(self) -> Iterator[Callable[[Job], None] | None]:
        """An idle slot takes the job that it is told of here, which is on its way to the store, as running: nobody waits for it.

        The slot begins when the context ends, and without a job where that fails. None if no slot is idle.
        """
        slot = None if self._ending else self._idle.take()
        if slot is None:
            yield None
            return
        taken: list[Job] = []

        def take(job: Job) -> None:
            self._held.add(job.id)
            taken.append(job)

        try:
            yield take
        except BaseException:
            self._held.difference_update(job.id for job in taken)
            slot.call()
            raise
        slot.call(*taken)

    def leave(self, identifier: str) -> None:
        """A job that no slot has was cancelled, and may have been charged: `recover` ends it."""
        self._left.add(identifier)

    def hear_of_waiting(self) -> None:
        """A job is waiting that came to another process, where no slot is idle."""
        self._idle.call_one()

    # ---- the loop ------------------------------------------------------------------------------------------------

    def _work(self, runner: Hired) -> None:
        has_worked = called = False
        given: Job | None = None
        after = After()
        while given is not None or after.job is not None or not self._ending:
            job = given or after.job or (None if after.has_looked else self._taken(looks_first=not called))
            given, after = None, After()
            if job is not None:
                self._run_noted(job, runner, after)
                has_worked, called = True, False
                continue
            if not has_worked:  # whoever got an answer may ask again at once, and whoever reads it needs the processor
                self._make_ready(runner)
            if not self._ending:
                called, given = self._idle.wait(SOON_SECONDS if has_worked else IDLE_SECONDS, has_worked=has_worked)
            has_worked = False
        runner.close()

    def _taken(self, *, looks_first: bool) -> Job | None:
        """The next job, now running; looking first is for those whom nobody called, as it keeps nobody from writing."""
        job = None
        try:
            if looks_first:
                with self._store.reading() as rows:
                    if rows.one("SELECT id FROM jobs WHERE state = 'waiting' AND leader = '' LIMIT 1") is None:
                        return None
            with self._store.writing(at_once=False) as rows:  # on disk before it is charged
                job = jobs.take_next(rows, self._limits.free_slots, tuple(self._held))
                if job is not None:
                    self._held.add(job.id)
        except ShoalError:
            _LOGGER.exception("the store cannot be read")
            if job is not None:  # taken, and not written: it waits for whoever takes it next
                self._held.discard(job.id)
            time.sleep(IDLE_SECONDS)
            return None
        return job

    def _make_ready(self, runner: Hired) -> None:
        """While nothing is waiting: keeps a process alive, with the newest data sets open and no older ones."""
        with suppress(ShoalError, InternalError):
            places = [each.place(self._limits.time_limit) for each in self._datasets.newest()]
            if not runner.is_ready({place.name: place.version for place in places}):
                runner.make_ready(places)

    def _run_noted(self, job: Job, runner: Hired, after: After) -> None:
        try:
            self._run(job, runner, after)
        except Exception:  # a slot outlives every job; what happened stays in the process log, without the statement
            _LOGGER.exception("job %s could not be ended", job.id)
        finally:
            self._held.discard(job.id)

    def _beat(self) -> None:
        seen = trusted = time.monotonic()
        due, renewed = seen + HEARTBEAT_SECONDS, ""
        while not self._ended.wait(KEEP_SECONDS):
            try:
                with suppress(ShoalError):  # others take over what does not say that it lives, wherever it writes to
                    self._store.keep()
                if time.monotonic() > due:
                    due = time.monotonic() + HEARTBEAT_SECONDS
                    remove_left_behind()
                    with self._store.writing() as rows:
                        jobs.renew(rows, tuple(self._held | self._left))
                        before, renewed = renewed, rows.now()  # by the clock of leases: others stop with their machine
                    silence, since, seen = jobs.LEASE_SECONDS - HEARTBEAT_SECONDS, seen, time.monotonic()
                    if seen - since > silence or (before and renewed > later(before, timedelta(seconds=silence))):
                        # Cut off from the store, as others may be: they have that long to say that they live.
                        trusted = seen + jobs.LEASE_SECONDS
                    if seen >= trusted:
                        self.recover()
            except ShoalError:
                pass  # the store cannot be reached
            except Exception:  # whatever it was: without a heart, others take the runs of this process over
                _LOGGER.exception("the heart missed a beat")

    def _keep_planners(self) -> None:
        """In its own thread: opening a source may take long, and neither jobs nor the heartbeat may wait for it."""
        while not self._ended.is_set():
            with suppress(ShoalError, InternalError):
                self._plans.make_ready(self._datasets)
            self._ended.wait(IDLE_SECONDS)

    def recover(self, *, at_start: bool = False) -> None:
        """What was left without an end, by dead processes or by this one, ends or runs once more."""
        for identifier in recover(self._store, self._datasets, self._held, self._left, at_start=at_start):
            self._changed(identifier, None)
        self._idle.call_all()

    # ---- one job -------------------------------------------------------------------------------------------------

    def _run(self, job: Job, runner: Hired, after: After) -> None:
        ladder = Ladder(self._answer_time(job, None))
        dataset = None
        desk = None
        try:
            dataset = self._datasets.get(job.dataset)
            job = self._of_this_version(job, dataset)
            ladder = Ladder(self._answer_time(job, dataset))
            desk = Desk(dataset.ledger, ladder, lambda: self._is_cancelled(job), self._store.keep)
            self._answered(job, dataset, desk, self._answer(job, dataset, desk, runner), ladder, after)
        except ShoalError as error:
            self._refused(job, error, dataset, desk, ladder)
        except Exception as error:  # noqa: BLE001 - ours, and nothing of it may travel
            _LOGGER.error("job %s: %s", job.id, type(error).__name__)  # noqa: TRY400 - a traceback may hold data
            self._refused(job, ended_with(desk, internal()), dataset, desk, ladder)

    def _answer_time(self, job: Job, dataset: DataSet | None) -> float:
        """When the reply leaves: the data set's time, or else the service's, or a longer requested one."""
        own = self._limits.answer_time
        if own and dataset is not None and dataset.answer_time is not None:
            own = dataset.answer_time
        return max(own, job.question.get("answer_time") or 0.0) if own else 0.0

    def _answer(self, job: Job, dataset: DataSet, desk: Desk, runner: Hired) -> bytes:
        """A run whose process died is retried once under the same charge, invisibly."""
        errand = self._errand(job, dataset)
        terms = self._terms(job, dataset)
        plan = self._plans.made(_asked(job, dataset))
        for run in range(job.runs, jobs.MOST_RUNS + 1):
            try:
                return runner.run(errand, replace(terms, resume=run > 1), desk, plan)
            except Died:
                _LOGGER.warning("job %s: its process died in run %d", job.id, run)
                if run < jobs.MOST_RUNS:
                    with self._store.writing() as rows:
                        if not jobs.run_again(rows, job.id):
                            raise taken_over() from None
            except TooLong:
                _LOGGER.warning("job %s: its process was ended after its deadline", job.id)
                break
        raise ended_with(desk, ended_by_death() if desk.charge else internal())

    def _errand(self, job: Job, dataset: DataSet) -> Errand:
        limit = self._limits.time_limit
        seconds = min(float(dataset.catalog.defaults.max_seconds_per_query), limit)
        if job.is_free:
            seconds = min(seconds, FREE_SECONDS)
        return Errand(
            dataset.place(limit),
            job.person,
            job.sql,
            job.question["composition"],
            job.epsilon_asked,
            seconds,
            *facts_of(dataset.ledger),
        )

    def _is_cancelled(self, job: Job) -> bool:
        """The same in any process."""
        return jobs.is_cancelled(self._store.glance, job.id)

    def _terms(self, job: Job, dataset: DataSet) -> Terms:
        caller = self._people.trusted(job.person, job.via)
        granted = [g for g in allowances.grants(self._store, job.dataset) if g.applies_to(caller)]
        if not granted and not caller.is_custodian:  # it was withdrawn while the question waited
            raise not_found("data set")
        if job.runs == 1 or dataset.ledger.fate_of(job.request) == "never charged":  # else it was allowed before
            self._require_allowed(job, granted)
        accounts = tuple(account for g in granted if (account := g.account(caller)) is not None)
        key = None if job.question["fresh"] else job.fingerprint
        return Terms(key, Request(job.request, job.body, is_charged_once=True), accounts)

    def _require_allowed(self, job: Job, granted: list[Grant]) -> None:
        """E_POLICY where limits were set while the question waited."""
        if not allowances.are_within(granted, job.epsilon):
            raise allowances.too_dear(granted)
        approve = allowances.smallest([grant.approve_above for grant in granted])
        if approve is not None and job.epsilon > approve:
            with self._store.reading() as rows:
                if not jobs.is_approved(rows, job):
                    raise changed_meanwhile()

    def _of_this_version(self, job: Job, dataset: DataSet) -> Job:
        """The job with a new fingerprint, if data or catalog changed while it waited.

        Its cost was checked against limits, and perhaps approved, for the previous version: at another price, or without an
        approval for this version, it is refused.
        """
        if job.question["version"] == dataset.version:
            return job
        planned = self._plans.asked(_asked(job, dataset))
        caller = self._people.trusted(job.person, job.via)
        granted = [g for g in allowances.grants(self._store, job.dataset) if g.applies_to(caller)]
        approve = allowances.smallest([grant.approve_above for grant in granted])
        if planned.cost != job.cost or (approve is not None and planned.cost[0] > approve):
            raise changed_meanwhile()
        return replace(job, fingerprint=planned.key)

    def _answered(self, job: Job, dataset: DataSet, desk: Desk, data: bytes, ladder: Ladder, after: After) -> None:
        """A charged answer is in the ledger, and its job was on disk before that.

        So nobody waits for the disk once more: after a power failure the job is taken up again, gets what the ledger keeps, and
        gives it the same id. A job that was taken up before would not be.
        """
        digest = hashlib.sha256(data).hexdigest()
        charge = desk.anchor
        with self._then_taken(job, after) as take, self._store.writing(at_once=not desk.charge or desk.resumed) as rows:
            if desk.replayed and not desk.charge:
                require_may_have(rows, job, dataset)
            answer = kept_answer(rows, job, dataset, desk, data)
            touched = [job.id]
            ended = jobs.end(rows, job.id, "answered", answer=answer, charged=bool(desk.charge))
            if ended or charge is not None:
                outcome = "answered" if desk.charge or not desk.replayed else "replayed"
                log_charge(rows, job, dataset.ledger_name, charge, outcome, digest)
            for follower in jobs.followers(rows, job.id):
                if not may_have(rows, follower, job, dataset):
                    jobs.on_its_own(rows, follower.id)
                    continue
                jobs.end(rows, follower.id, "answered", answer=answer)
                log.write(
                    *(rows, follower.person, follower.via, "query"),
                    dataset=job.dataset,
                    outcome="replayed",
                    sql=follower.sql,
                    answer_sha256=digest,
                )
                touched.append(follower.id)
            take(rows)
        if desk.charge and not desk.replayed:
            self._recent.note(answer, data)
        self._note_late(job, dataset, desk, ladder)
        self._tell(touched, replace(job, state="answered", answer=answer, charged=bool(desk.charge)) if ended else None)

    @contextmanager
    def _then_taken(self, job: Job, after: After) -> Iterator[Callable[[Rows], None]]:
        """The slot takes its next job in the transaction that ends this one, if another is waiting."""

        def take(rows: Rows) -> None:
            if not self._ending and jobs.is_one_waiting(rows):
                after.job = jobs.take_next(rows, self._limits.free_slots, tuple(self._held - {job.id}))
            if after.job is not None:
                self._held.add(after.job.id)

        try:
            yield take
        except BaseException:  # nothing was written: it waits for whoever takes it next
            if after.job is not None:
                self._held.discard(after.job.id)
            after.job = None
            raise
        after.has_looked = True

    def _refused(self, job: Job, error: ShoalError, dataset: DataSet | None, desk: Desk | None, ladder: Ladder) -> None:
        charge = desk.charge if desk is not None else 0
        anchor = None if desk is None else desk.anchor
        stored = self._as_stored(job)
        if jobs.is_elsewhere(stored):
            _LOGGER.warning("job %s: another process took it over", job.id)
            return
        if self._is_left(job, error, desk, is_cancelled=stored.state == "cancelled"):
            _LOGGER.warning("job %s: it is left for later, %s", job.id, error.code)
            return
        ledger = None if dataset is None else dataset.ledger_name
        if (not charge and job.runs > 1) or (desk is not None and desk.is_open):
            ledger, anchor = end_open_charge(self._datasets, job)
            charge = 0 if anchor is None else anchor[0]
        error = as_told(job, error, was_charged_here=desk is not None and bool(desk.charge), charged=bool(charge))
        with self._store.writing() as rows:
            state = "cancelled" if error.code == "E_CANCELLED" else "failed"
            if jobs.end(rows, job.id, state, error=error, charged=bool(charge)) or anchor is not None:
                log_charge(rows, job, ledger, anchor, error.code if state == "failed" else state)
            jobs.promote(rows, job.id)
        if dataset is not None and desk is not None:
            self._note_late(job, dataset, desk, ladder)
        self._tell([job.id])
        self.wake()

    def _as_stored(self, job: Job) -> Job:
        """The job as others see it; as it was taken, where the store cannot be read."""
        with suppress(ShoalError), self._store.reading() as rows:
            return jobs.get(rows, job.id)
        return job

    def _is_left(self, job: Job, error: ShoalError, desk: Desk | None, *, is_cancelled: bool) -> bool:
        """Whether nothing was shown, and `recover` lets it run once more, when ledger and source can be reached again."""
        is_ahead = desk is not None and desk.is_ahead
        if desk is not None and desk.charge:
            may_follow = not desk.resumed
            is_left = (error.code == "E_LEDGER" and (is_ahead or is_cancelled or may_follow)) or (
                error.code == "E_SOURCE" and may_follow  # its runner died, and the next one found no source
            )
        else:
            is_left = error.code in {"E_LEDGER", "E_SOURCE"} and (is_ahead or job.runs > 1)
        if is_left and error.code == "E_SOURCE":  # for sure before it took up its charge
            with suppress(ShoalError), self._store.writing() as rows:
                jobs.uncount(rows, job.id)
        if is_left:
            self._left.add(job.id)
        return is_left

    def _note_late(self, job: Job, dataset: DataSet, desk: Desk, ladder: Ladder) -> None:
        """A reply that misses its time is a surprise; the third in thirty days suspends."""
        if not ladder.late or not desk.charge or desk.replayed:
            return
        with self._store.writing() as rows:
            now = rows.now()
            rows.run("INSERT INTO late VALUES (?, ?)", job.person, now)
            since = later(now, timedelta(days=-LATE_DAYS))
            found = rows.all("SELECT count(*) AS number FROM late WHERE person = ? AND at > ?", job.person, since)
            too_many = found[0]["number"] >= LATE_REPLIES
            if too_many:
                rows.run("DELETE FROM late WHERE person = ?", job.person)
                log.write(
                    rows, "service", "service", "suspension", dataset=job.dataset, detail=f"{job.person}: late replies"
                )
        if too_many:
            dataset.ledger.suspend(job.person, desk.charge, "late replies")

    def _tell(self, touched: list[str], ended: Job | None = None) -> None:
        """The first of them `ended`, where that is known."""
        for number, identifier in enumerate(touched):
            self._changed(identifier, None if number else ended)


def _asked(job: Job, dataset: DataSet) -> Asked:
    return Asked(dataset, job.person, job.sql, job.epsilon_asked, job.question["composition"])
