"""What a death or a store that could not be written left without an end: it runs once more, or ends.

A job is left if no slot has it: its process is gone or silent, or its slot here could not record how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.service import jobs
from shoal.service.upkeep.endings import ended_by_death, log_charge

if TYPE_CHECKING:
    from collections.abc import Collection

    from shoal.accounting.ledger import Anchor
    from shoal.service.datasets import DataSets
    from shoal.service.jobs import Job
    from shoal.service.store import Store


def recover(store: Store, datasets: DataSets, held: Collection[str], unbegun: set[str], *, at_start: bool) -> list[str]:
    """Jobs that were left run once more under the same charge; a second time ends them, charged. Returns those that ended.

    A second run that is `unbegun` took up no charge, and does not count. A cancelled job whose run was left is at its end: its
    charge ends, and the first of those who wait for its answer runs.
    """
    ended, cancelled = [], []
    again = _may_run_again(store, datasets, unbegun)
    with store.writing() as rows:
        for job in jobs.left(rows, held, at_start=at_start):
            if job.state == "cancelled":
                cancelled.append(job)
            elif job.runs < jobs.MOST_RUNS or job.id in again:
                jobs.wait_again(rows, job.id)
                unbegun.discard(job.id)
            else:
                if jobs.end(rows, job.id, "failed", error=ended_by_death(), charged=True):
                    log_charge(rows, job, None, None, ended_by_death().code)
                jobs.promote(rows, job.id)
                unbegun.discard(job.id)
                ended.append(job.id)
    for job in cancelled:  # outside of the transaction: a ledger has its own
        ledger, anchor = end_open_charge(datasets, job)
        with store.writing() as rows:
            if anchor is not None:
                log_charge(rows, job, ledger, anchor, "cancelled")
            jobs.end(rows, job.id, "cancelled")
            jobs.promote(rows, job.id)
    return ended


def _may_run_again(store: Store, datasets: DataSets, unbegun: set[str]) -> set[str]:
    """A charge is taken up once: where that was noted, though nobody was told so, it is over."""
    with store.reading() as rows:
        found = [jobs.get(rows, identifier) for identifier in tuple(unbegun)]
    unbegun.difference_update(job.id for job in found if job.ended)
    asked = [job for job in found if not job.ended]
    ledgers = {job.id: datasets.ledger(datasets.ledger_of(job.dataset)) for job in asked}
    return {job.id for job in asked if ledgers[job.id].may_run_again(job.request)}


def end_open_charge(datasets: DataSets, job: Job) -> tuple[str, Anchor | None]:
    """Ends what an earlier run of a job was charged, which nobody takes up again; suspends nobody. None if there is no charge."""
    name = datasets.ledger_of(job.dataset)
    return name, datasets.ledger(name).end_request(job.request)
