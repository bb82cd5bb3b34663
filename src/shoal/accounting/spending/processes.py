"""Which process runs a charge, and whether it is surely gone: a run that died is an end without an answer, too."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def this_process() -> str:
    """This process, distinct from every other, including a later one with the same number."""
    return _token(os.getpid())


@lru_cache(maxsize=4)
def _token(pid: int) -> str:
    return f"{_machine()} {pid} {_started(pid)}"


def is_gone(process: str) -> bool:
    """Whether a process of this machine has ended; False wherever that cannot be known."""
    if process == this_process():
        return False
    machine, _, rest = process.rpartition(" ")[0].rpartition(" ")
    started = process.rpartition(" ")[2]
    if machine != _machine() or not rest.isdigit():
        return False
    return _started(int(rest)) != started


def _machine() -> str:
    """The machine since its last start, as this process sees it: containers count their processes apart."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - a name, not a path
    return socket.gethostname()


def _started(pid: int) -> str:
    """When the process was started, in the kernel's own ticks; '' where there is none."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return "" if state in {"Z", "X"} else fields[18]
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "running"
    return "running"
