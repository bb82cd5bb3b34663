"""How much memory one runner may use: an even share of the machine's or container's, with a part left for the service."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

LEAST = 512 * 2**20
"""The programs themselves need a part of it."""
KEPT_SHARE = 16
"""What earlier queries leave for later ones is this part of a runner's memory at most: the rest is each query's own."""
_CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def share(runners: int) -> int:
    """Bytes for each of this many runners."""
    return max(LEAST, int(machine() * 0.8) // max(1, runners))


def machine() -> int:
    """Bytes that this machine, or its container, has."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER:
        with suppress(OSError, ValueError):
            found = min(found, int(path.read_text(encoding="ascii")))
    return found


def keep_within(size: int) -> None:
    """Limits this process to this much; allocations beyond it fail, and the engine spills to disk before that.

    What makes the next query faster is kept within it.
    """
    import resource

    from shoal.engines.duckdb import filled, settings
    from shoal.engines.memory import held

    settings.keep_within(size // 2)
    filled.keep_one()
    held.KEPT.keep_at_most(size // KEPT_SHARE)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def processor_seconds(pid: int) -> float:
    """What a process has used so far; 0 if unknown."""
    if pid and sys.platform == "linux":
        with suppress(OSError):
            return time.clock_gettime(_clock_of(pid))
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _clock_of(pid: int) -> int:
    """The number of the clock that counts a process's processor time, as Linux makes it: reading it takes a microsecond."""
    return (~pid << 3) | 2
