"""One's own jobs and answers, from the queue to the release."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from shoal.service import jobs, log
from shoal.service.acts.core import Core
from shoal.service.desk import cancelled
from shoal.service.people import not_found
from shoal.service.runners.recent import LARGEST, KeptBytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.result import Result
    from shoal.service.jobs import Job
    from shoal.service.people import Caller

_ANSWER = (
    "SELECT id, dataset, person, fingerprint, ledger, charge, created, length(free) AS free_size,"
    " created >= (SELECT kept_since FROM identity) AS is_kept FROM answers WHERE id = ?"
)
"""Without the bytes: they may be large, and are read for one request at a time."""
_SIZES_AT_ONCE = threading.BoundedSemaphore(2)
"""The size of a charged answer is known once its bytes were read."""


class Following(Core):
    """Waiting, cancelling, reading."""

    def job(self, caller: Caller, identifier: str) -> Job:
        """A job of the caller's own."""
        job = jobs.get(self.store.glance, identifier)
        if job.person != caller.name or not caller.reaches(job.dataset):
            raise not_found("job")
        return job

    def keep(self) -> None:
        """Flushes everything written so far to disk: somebody is about to hear about it."""
        self.store.keep()

    def position(self, job: Job) -> int | None:
        """Its place in the queue, counted from 1."""
        return jobs.position(self.store.glance, job)

    def wait(self, identifier: str, seconds: float) -> Job:
        """The job once it has ended, is waiting for approval, or this time has passed."""
        ends = time.monotonic() + seconds
        woken = threading.Event()
        with self.listening(identifier, lambda _: woken.set()):
            while True:
                job = jobs.get(self.store.glance, identifier)
                left = ends - time.monotonic()
                if job.ended or job.state == "approval" or left <= 0:
                    return job
                woken.wait(min(left, 0.5))  # it may be running on another machine

    def listening(self, identifier: str, told: Callable[[Job | None], None]) -> _Listening:
        """While inside the context, `told` is called when the job changes: with the job, if it ended in this process."""
        return _Listening(self._listeners, self._lock, identifier, told)

    def cancel(self, caller: Caller, identifier: str) -> Job:
        """Ends a job: free while it waits, charged once it runs. Others who wait for the same answer still get it."""
        caller.require("query")
        self.job(caller, identifier)
        with self.store.writing() as rows:
            job = jobs.get(rows, identifier)
            if job.ended:
                return job
            # One that waits for its second run may have been charged for the first.
            running = job.state == "running" or job.runs > 0
            if running:
                jobs.cancel_running(rows, job.id, cancelled())
            else:
                jobs.end(rows, job.id, "cancelled", error=cancelled())
            rows.run("UPDATE approvals SET state = 'withdrawn' WHERE job = ? AND state = 'waiting'", job.id)
            log.write(
                *(rows, caller.name, caller.via, "cancel"),
                dataset=job.dataset,
                outcome="running" if running else "waiting",
                sql=job.sql,
            )
            if not running:
                jobs.promote(rows, job.id)
        if job.state == "waiting" and running:
            self._slots.leave(job.id)
        self._changed(identifier)
        return self.job(caller, identifier)

    def answer(self, caller: Caller, identifier: str) -> tuple[dict[str, Any], bytes, Result]:
        """A released answer, for everybody who may query its data set; E_GONE once it is no longer kept."""
        found = self.found_answer(caller, identifier)
        kept = self._read(found)
        return found, kept.data, kept.result

    def found_answer(self, caller: Caller, identifier: str) -> dict[str, Any]:
        """What is noted about an answer that the caller may read, or asked for."""
        with self.store.reading() as rows:
            found = rows.one(_ANSWER, identifier)
            asked = "SELECT id FROM jobs WHERE person = ? AND answer = ?"
            if "read" not in caller.scope and (
                "query" not in caller.scope or not rows.all(asked, caller.name, identifier)
            ):
                caller.require("read")
        if found is None or not self._sees(caller, found["dataset"]):
            raise not_found("answer")
        dataset, _ = self._opened_to(caller, found["dataset"])
        if not dataset.share_answers and found["person"] != caller.name:
            raise not_found("answer")
        return found

    def is_large(self, identifier: str) -> bool:
        """Whether an answer takes so much memory that few are read at once; of small ones the bytes are cached by now."""
        if self._recent.find(identifier) is not None:
            return False
        found = self.store.glance.one(_ANSWER, identifier)
        if found is None:
            return False
        if found["free_size"] is not None:
            return bool(found["free_size"] > LARGEST)
        with _SIZES_AT_ONCE:
            return self._recent.is_large(identifier) or len(self._read(found).data) > LARGEST

    def _bytes(self, row: dict[str, Any]) -> bytes:
        if row["free_size"] is not None:
            kept = self.store.glance.one("SELECT free FROM answers WHERE id = ?", row["id"])
            return bytes(kept["free"]) if kept is not None else b""
        return self.datasets.ledger(row["ledger"]).answer_of_charge(row["charge"])

    def answer_of(self, caller: Caller, job: Job) -> KeptBytes:
        """The answer of the caller's own job: people may see what they asked for."""
        if not caller.scope & {"query", "read"}:
            caller.require("read")
        found = self.store.glance.one(_ANSWER, job.answer)
        if found is None or job.person != caller.name or not caller.reaches(job.dataset):
            raise not_found("answer")
        return self._read(found)

    def at_hand(self, caller: Caller, job: Job) -> bytes | None:
        """The same for a job that ended here a moment ago, if it can be had without looking anything up."""
        if not caller.scope & {"query", "read"} or job.person != caller.name or not caller.reaches(job.dataset):
            return None
        kept = self._recent.find(job.answer)
        return None if kept is None else kept.data

    def _read(self, row: dict[str, Any]) -> KeptBytes:
        """An answer; recent ones stay in memory while they are kept."""
        name = str(row["id"])
        if not row["is_kept"]:
            return KeptBytes(self._bytes(row))  # E_GONE, unless it was never charged
        return self._recent.find(name) or self._recent.note(name, self._bytes(row))


class _Listening:
    """A subscription to one job."""

    def __init__(
        self,
        listeners: dict[str, list[Callable[[Job | None], None]]],
        lock: threading.Lock,
        job: str,
        told: Callable[[Job | None], None],
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
