"""Loaded into a nursery before it forks: queries whose column is named after a misfortune meet it once their data is read,
or while they are planned.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from shoal.release import execute
from shoal.service.runners import runner
from shoal.session import Session

_run = execute._run


def unlucky(plan, *rest):
    found = _run(plan, *rest)
    if "AS dies_once" in plan.sql:
        mark = Path(os.environ["SHOAL_TEST_MARK"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if "AS dies" in plan.sql and "AS dies_once" not in plan.sql:
        os.abort()
    if "AS sleeps" in plan.sql:
        time.sleep(600)
    if "AS burns" in plan.sql:
        while True:
            pass
    if "AS hogs" in plan.sql:
        return bytearray(8 * 2**30)
    return found


execute._run = unlucky

_planned = runner.planned


def unplannable(opened, errand, basis):
    if "AS plan_dies" in errand.sql:
        os.abort()
    if "AS plan_burns" in errand.sql:
        while True:
            pass
    if "AS plan_hogs" in errand.sql:
        bytearray(8 * 2**30)
    return _planned(opened, errand, basis)


runner.planned = unplannable

_query_under = Session.query_under


def replanned(self, sql, *rest, **options):
    if "AS plans_again" in sql:
        raise RuntimeError
    return _query_under(self, sql, *rest, **options)


Session.query_under = replanned

_open = runner.Runner.open


def slow_to_open(self, place):
    if place.name.startswith("hangs"):
        time.sleep(600)
    _open(self, place)


runner.Runner.open = slow_to_open
