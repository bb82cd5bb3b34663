"""Room for recursion: work that follows trees gets a stack of its own, so that how deep the caller stands changes nothing.

Plans are bounded in depth when they are made (`rewrite/check_limits`); what is inside those bounds must never fail for want
of stack once data was read.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = TypeVar("Outcome")

LEVELS = 10_000
STACK_BYTES = 128 * 2**20

_lock = threading.Lock()
_running = 0
_usual_levels = 0
_shared = threading.local()


def on_its_own_stack(work: Callable[[], Outcome], *, shared: bool = False) -> Outcome:
    """What `work` gives or raises, run in a thread that may call ten thousand levels deep.

    Work that is `shared` asks for room several times, never from deep down, and has it all on this one stack.

    >>> def depth(n: int) -> int:
    ...     return 1 + depth(n - 1) if n else 0
    >>> on_its_own_stack(lambda: depth(5000))
    5000
    """
    if getattr(_shared, "by_all", False):
        return work()
    outcome: list[Outcome] = []
    failure: list[BaseException] = []

    def run() -> None:
        _shared.by_all = shared
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the caller is
            failure.append(error)

    thread = _started(run)
    try:
        thread.join()
    finally:
        _finished()
    if failure:
        raise failure[0]
    return outcome[0]


def _started(run: Callable[[], None]) -> threading.Thread:
    """A running thread with a large stack. Both sizes belong to the whole process: raised for as long as anybody needs it."""
    global _running, _usual_levels  # noqa: PLW0603 - the interpreter's own limit is global too
    thread = threading.Thread(target=run, name="shoal-deep", daemon=True)
    with _lock:
        if _running == 0:
            _usual_levels = sys.getrecursionlimit()
            sys.setrecursionlimit(max(LEVELS, _usual_levels))
        _running += 1
        usual_bytes = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual_bytes)
    return thread


def _finished() -> None:
    global _running  # noqa: PLW0603 - see above
    with _lock:
        _running -= 1
        if _running == 0 and sys.getrecursionlimit() == max(LEVELS, _usual_levels):
            sys.setrecursionlimit(_usual_levels)
