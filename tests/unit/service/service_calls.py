"""How tests call a service: by the name of a caller, until the job has ended."""

from __future__ import annotations

import pytest

import shoal
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
