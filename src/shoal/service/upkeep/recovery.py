"""What a death or a store that could not be written left without an end: it runs once more, or ends.

A job is left if no slot has it: its process is gone or silent, or its slot here could not record how it ended. Whether its charge
can still be taken up, or has an answer, only the ledger says: while that cannot be reached, the job waits.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.accounting.spending.processes import this_process
from shoal.errors import ShoalError
from shoal.service import jobs
from shoal.service.upkeep.endings import died_uncharged, ended_by_death, log_charge

if TYPE_CHECKING:
    from collections.abc import Collection

    from shoal.accounting.stores.check import Anchor
    from shoal.service.datasets import DataSets
    from shoal.service.jobs import Job
    from shoal.service.store import Store


def recover(store: Store, datasets: DataSets, held: Collection[str], left: set[str], *, at_start: bool) -> list[str]:
    """Jobs that were left run once more under the same charge; a second time ends them. Returns those that ended.

    Runs that this process `left` for later took up no charge, and do not count: they wait for their ledger and their source. A
    cancelled job whose run was left is at its end: its charge ends, and the first of those who wait for its answer runs.
    """
    ended: list[str] = []
    over: list[Job] = []
    again = _decided(store, datasets, left)
    with store.writing() as rows:
        for job in jobs.left(rows, held, again, at_start=at_start):
            if job.state != "cancelled" and job.id in left and job.id not in again:
                continue
            if job.state == "cancelled" or not again.get(job.id, job.runs < jobs.MOST_RUNS):
                over.append(job)
                continue
            jobs.wait_again(rows, job.id)
            left.discard(job.id)
    for job in over:  # outside of the transaction: a ledger has its own
        with suppress(ShoalError):  # one that cannot be written keeps nobody from the others
            if job.state == "cancelled":
                _end_cancelled(store, datasets, job)
            elif _end_twice_dead(store, datasets, job):
                ended.append(job.id)
            left.discard(job.id)
    return ended


def _end_cancelled(store: Store, datasets: DataSets, job: Job) -> None:
    ledger, anchor = end_open_charge(datasets, job)
    with store.writing() as rows:
        if anchor is not None:
            log_charge(rows, job, ledger, anchor, "cancelled")
        jobs.end(rows, job.id, "cancelled")
        jobs.promote(rows, job.id)


def _end_twice_dead(store: Store, datasets: DataSets, job: Job) -> bool:
    """Whether it ended. Where the ledger has its answer, which its last run could not record, another fetches that."""
    name, anchor = end_open_charge(datasets, job, died=True)
    is_answered = datasets.ledger(name).fate_of(job.request) == "answered"
    with store.writing() as rows:
        if not jobs.is_as_it_was(rows, job):
            return False  # another process was faster
        if is_answered:
            jobs.wait_again(rows, job.id)
            return False
        error = died_uncharged() if anchor is None else ended_by_death()
        jobs.end(rows, job.id, "failed", error=error, charged=anchor is not None)
        log_charge(rows, job, name, anchor, error.code)
        jobs.promote(rows, job.id)
    return True


def _decided(store: Store, datasets: DataSets, left: set[str]) -> dict[str, bool]:
    """Which of them run again. A charge is taken up once: where that was noted, though nobody was told so, it is over.

    Not among them: those whose ledger or source cannot be reached yet.
    """
    known = tuple(left)
    with store.reading() as rows:
        found = [job for job in (jobs.get(rows, identifier) for identifier in known) if job.process == this_process()]
    left.difference_update(set(known) - {job.id for job in found})  # ended, or taken over by another process
    again = {job.id: False for job in found if job.state == "cancelled"}
    for job in found:
        with suppress(ShoalError):
            if not job.ended and not datasets.is_awaited(job.dataset):
                ledger = datasets.ledger(datasets.ledger_of(job.dataset))
                again[job.id] = ledger.fate_of(job.request) != "taken up"
    return again


def end_open_charge(datasets: DataSets, job: Job, *, died: bool = False) -> tuple[str, Anchor | None]:
    """Ends what an earlier run of a job was charged, which nobody takes up again. None if there is no charge.

    Suspends nobody, unless a run that had taken the charge up `died` a second time.
    """
    name = datasets.ledger_of(job.dataset)
    return name, datasets.ledger(name).end_request(job.request, died=died)
