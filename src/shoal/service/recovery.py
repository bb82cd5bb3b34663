"""What a death or a store that could not be written left without an end: it runs once more, or ends.

A job is left if no slot has it: its process is gone or silent, or its slot here could not record how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.service import jobs
from shoal.service.endings import ended_by_death, log_charge

if TYPE_CHECKING:
    from collections.abc import Collection

    from shoal.accounting.ledger import Anchor
    from shoal.service.datasets import DataSets
    from shoal.service.jobs import Job
    from shoal.service.store import Store


def recover(store: Store, datasets: DataSets, held: Collection[str], *, at_start: bool) -> list[str]:
    """Jobs that were left run once more under the same charge; a second time ends them, charged. Returns those that ended.

    A cancelled job whose run was left is at its end: its charge ends, and the first of those who wait for its answer runs.
    """
    ended, cancelled = [], []
    with store.writing() as rows:
        for job in jobs.left(rows, held, at_start=at_start):
            if job.state == "cancelled":
                cancelled.append(job)
            elif job.runs < jobs.MOST_RUNS:
                jobs.wait_again(rows, job.id)
            else:
                if jobs.end(rows, job.id, "failed", error=ended_by_death(), charged=True):
                    log_charge(rows, job, None, None, ended_by_death().code)
                jobs.promote(rows, job.id)
                ended.append(job.id)
    for job in cancelled:  # outside of the transaction: a ledger has its own
        ledger, anchor = end_open_charge(datasets, job)
        with store.writing() as rows:
            if anchor is not None:
                log_charge(rows, job, ledger, anchor, "cancelled")
            jobs.end(rows, job.id, "cancelled")
            jobs.promote(rows, job.id)
    return ended


def end_open_charge(datasets: DataSets, job: Job) -> tuple[str, Anchor | None]:
    """Ends what an earlier run of a job was charged, which nobody takes up again; suspends nobody. None if there is no charge."""
    name = datasets.ledger_of(job.dataset)
    return name, datasets.ledger(name).end_request(job.request)
