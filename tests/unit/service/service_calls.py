"""How tests call a service: by the name of a caller, until the job has ended."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from service_shop import counting

import shoal
from shoal.accounting.accountants import Loss
from shoal.accounting.spending.asking import Request
from shoal.service import jobs, running
from shoal.service.questions import Question


def caller(service, name):
    return service.people.trusted(name, "test")


def ask(service, name, sql, key=None, seconds=300.0, **more):
    job = service.ask(caller(service, name), "visits", Question(sql, **more), key)
    return service.wait(job.id, seconds)


def refused(code):
    return pytest.raises(shoal.ShoalError, match=code)


def spent(service):
    return service.datasets.get("visits").ledger.spent[0]


def soon_left(monkeypatch):
    """Leases are over when they begin, and a heart beats fast."""
    monkeypatch.setattr(jobs, "LEASE_SECONDS", -1)
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)


def is_running(rows):
    return [row["state"] for row in rows.all("SELECT state FROM jobs")] == ["running"]


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def left_by_a_dead_process(service, key="k", *, charged=True, **more):
    """A question of ann's that a process took, and was perhaps charged, before it died."""
    job = service.ask(caller(service, "ann"), "visits", Question(counting(), **more), key)
    with service.store.writing() as rows:
        jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = '' WHERE id = ?", job.id)
    if charged:
        options = {"user": "ann", "description": job.sql, "request": Request(job.request, job.body)}
        service.datasets.get("visits").ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), **options)
    return job


def out_of_reach(*_):
    raise shoal.ShoalError("E_LEDGER", "The database with the ledger cannot be reached.")
