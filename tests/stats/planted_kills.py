"""Points at which a service kills itself when a plan says so; for `service_kills.py`, and loaded by its runners.

The plan is a file that every process of a trial reads: point, before or after, at which call, and the process that serves. Queries
run in processes of their own: at a point of theirs it is the service that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from shoal.release import execute

PLAN = "SHOAL_KILL_PLAN"


def plan() -> dict[str, object] | None:
    """What is to happen; None where nothing is."""
    with suppress(OSError, ValueError):
        return json.loads(Path(os.environ[PLAN]).read_text())
    return None


def is_the_call(said: dict[str, object]) -> bool:
    """Whether this is the call at which the process dies; calls are counted over all processes."""
    number = 1
    while True:
        try:
            os.close(os.open(f"{os.environ[PLAN]}.{said['trial']}.{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            number += 1
        else:
            return number == said["call"]


def dies(pid: int) -> None:
    """The signal is on its way."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    time.sleep(60)


def kill_at(owner: object, name: str, point: str, when: str, within: str = "") -> None:
    """Before or after a call of a function, where the plan says so; `within` is the side of the function that is meant."""
    original = getattr(owner, name)

    def wrapped(*args: object, **options: object) -> object:
        said = plan()
        meant = said is not None and (said["point"], said["when"]) == (point, when) and is_the_call(said)
        if meant and (within or when) == "before":
            dies(said["pid"])
        value = original(*args, **options)
        if meant and (within or when) == "after":
            dies(said["pid"])
        return value

    setattr(owner, name, wrapped)


if PLAN in os.environ:  # not where a test merely collects this file
    for _when in ("before", "after"):
        kill_at(execute, "_run", "run", _when)
        kill_at(execute, "release", "noise", _when)
