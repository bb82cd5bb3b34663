"""Asking: a job for a question, finished at once if its answer was released before."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.accounting.spending.asking import Request
from shoal.errors import ShoalError
from shoal.service import allowances, jobs, log
from shoal.service.acts.core import Core
from shoal.service.acts.planned import Asked
from shoal.service.people import random_id
from shoal.service.questions import only_explained

if TYPE_CHECKING:
    from shoal.service.acts.planned import Planned
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet
    from shoal.service.jobs import Job
    from shoal.service.people import Caller
    from shoal.service.questions import Question


class Asking(Core):
    """The acts that cost something."""

    def ask_for_approval(self, caller: Caller, name: str, question: Question, key: str | None = None) -> Job:
        """A job that waits for a custodian; E_USAGE if the question needs none."""
        return self.ask(caller, name, question, key, only_for_approval=True)

    def ask(
        self,
        caller: Caller,
        name: str,
        question: Question,
        key: str | None = None,
        *,
        only_for_approval: bool = False,
        at_once: bool = True,
        identifier: str = "",
    ) -> Job:
        """A job for a question: answered at once if the answer was released before, otherwise waiting or to be approved.

        A caller that reports the job to nobody before it has ended need not wait until it is on disk (`at_once=False`): the slot
        that takes it waits for that, before anything is charged. With an `identifier` from `jobs.new_id` a caller can listen for
        the job before it exists; one that was asked for earlier has another.
        """
        caller.require("query")
        if self._ending:
            raise ShoalError("E_BUSY", "The service is ending.", hint="Send it again in a minute.")
        dataset, grants = self._opened_to(caller, name)
        request = Request.of(caller.name, name, random_id("none-") if key is None else key, question.canonical)
        if key is not None:
            known = jobs.under_request(self.store.glance, request.key)
            if known is not None:
                return _same(known, request)
        self._rates.take(caller.name, "query")
        try:
            options = {"only_for_approval": only_for_approval, "at_once": at_once}
            new = identifier or jobs.new_id()
            job = self._new_job(new, caller, dataset, grants, question, request, **options)
        except ShoalError as error:
            self._log_refusal(caller, name, question.sql, error)
            raise
        if job.state == "waiting":
            self._slots.wake()
        return job

    def _new_job(
        self,
        identifier: str,
        caller: Caller,
        dataset: DataSet,
        grants: list[Grant],
        question: Question,
        request: Request,
        *,
        only_for_approval: bool,
        at_once: bool,
    ) -> Job:
        asked = Asked(dataset, caller.name, question.sql, question.epsilon, question.composition)
        planned = self._plans.asked(asked)
        if planned.only_explained:
            raise only_explained()
        cost = planned.cost
        said = question.to_dict() | {"version": dataset.version}
        job = jobs.Job(
            *(
                identifier,
                0,
                caller.name,
                dataset.name,
                request.key,
                request.body_sha256,
                said,
                planned.key,
                *cost,
            ),
            *("waiting", "", 0, "", "", "", False, None, caller.via),
        )
        if not allowances.are_within(grants, cost[0]) and not self._is_released(dataset, caller, job):
            raise allowances.too_dear(grants)
        approve = allowances.smallest([grant.approve_above for grant in grants])
        # Planning may take seconds, during which nobody else could write.
        explanation = None
        if approve is not None and job.epsilon > approve:
            explanation = _explanation(self._plans.explained(asked), job)
            self._require_room_for_approval(caller, dataset, job, planned)
        # A free job need not be on disk at once.
        at_once = at_once and not self._is_released(dataset, caller, job)
        with ExitStack() as after, self.store.writing(at_once=at_once) as rows:
            known = jobs.under_request(rows, request.key)
            if known is not None:
                return _same(known, request)
            needs_none = explanation is None or not self._waits_for_approval(rows, caller, dataset, job)
            if only_for_approval and needs_none:
                raise ShoalError("E_USAGE", "This question needs no approval.", hint="Ask it.")
            return self._put(rows, caller, dataset, job, explanation, after)

    def _require_room_for_approval(self, caller: Caller, dataset: DataSet, job: Job, planned: Planned) -> None:
        """What could not be charged now need not wait for a custodian; an answer that exists costs nothing."""
        with self.store.reading() as rows:
            waits = self._waits_for_approval(rows, caller, dataset, job)
        if waits:
            accounts = self._accounts(caller, dataset.name)
            dataset.ledger.require_room(planned.price, user=caller.name, accounts=accounts)

    def _waits_for_approval(self, rows: Any, caller: Caller, dataset: DataSet, job: Job) -> bool:
        """Whether a question that needs approval has neither that nor an answer."""
        if jobs.is_approved(rows, job):
            return False
        return bool(job.question["fresh"]) or jobs.released(rows, dataset, caller, job.fingerprint) is None

    def _is_released(self, dataset: DataSet, caller: Caller, job: Job) -> bool:
        if job.question["fresh"]:
            return False
        return jobs.released(self.store.glance, dataset, caller, job.fingerprint) is not None

    def _put(
        self,
        rows: Any,
        caller: Caller,
        dataset: DataSet,
        job: Job,
        explanation: str | None,
        after: ExitStack,
    ) -> Job:
        """The job in its first state: answered before, to be approved, behind another that asks the same, running, or waiting.

        A slot that takes it begins `after` it is in the store.
        """
        fresh = job.question["fresh"]
        released = None if fresh else jobs.released(rows, dataset, caller, job.fingerprint)
        if released is not None:
            allowances.require_may_still_ask(rows, dataset.name, caller.name)
            ended = replace(job, state="answered", answer=released)
            jobs.put(rows, ended)
            log.write(*(rows, caller.name, caller.via, "query"), dataset=dataset.name, outcome="replayed", sql=job.sql)
            return ended
        jobs.require_room(rows, caller.name)
        if explanation is not None and not jobs.is_approved(rows, job):
            jobs.put(rows, replace(job, state="approval"))
            rows.run(
                "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', '', '', ?, '')",
                *(random_id("p_"), job.id, dataset.name, caller.name, job.fingerprint, job.sql),
                *(job.question["reason"], explanation, rows.now()),
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
        take = None
        if not leader and jobs.may_begin(rows, job):
            take = after.enter_context(self._slots.offered())
        jobs.put(rows, replace(job, leader=leader) if take is None else jobs.begun(rows, job))
        found = jobs.get(rows, job.id)
        if take is not None:
            take(found)
        return found

    def _log_refusal(self, caller: Caller, name: str, sql: str, error: ShoalError) -> None:
        with self.store.writing() as rows:
            if log.count(rows, caller.name, "refusal") <= log.REFUSALS_IN_FULL:
                log.write(rows, caller.name, caller.via, "query", dataset=name, outcome=error.code, sql=sql)


def _same(known: Job, request: Request) -> Job:
    """The job of the same request; a different body under the same key is refused."""
    if known.body != request.body_sha256:
        raise ShoalError(
            "E_IDEMPOTENCY",
            "This key was already used for another request.",
            hint="Use a new key for a new request.",
        )
    return known


def _explanation(planned: Planned, job: Job) -> str:
    """What a custodian reads before deciding, including what the ledger would be charged."""
    price = {"epsilon": float(job.epsilon), "delta": float(job.delta)}
    return json.dumps(planned.explained(None) | {"price": price})
