"""Room for recursion: work that follows trees gets its own stack, so that how deep the caller is changes nothing.

Plans are bounded in depth when they are made (`rewrite/check_limits`); what is inside those bounds must never fail for want
of stack once data was read.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Outcome = TypeVar("Outcome")

LEVELS = 10_000
STACK_BYTES = 128 * 2**20

_lock = threading.Lock()
_running = 0
_usual_levels = 0
_here = threading.local()


def on_its_own_stack(work: Callable[[], Outcome], *, shared: bool = False) -> Outcome:
    """What `work` gives or raises, run in a thread that may call ten thousand levels deep.

    Work that is `shared` asks for room several times, never from deep down, and has it all on this one stack.

    >>> def depth(n: int) -> int:
    ...     return 1 + depth(n - 1) if n else 0
    >>> on_its_own_stack(lambda: depth(5000))
    5000
    """
    if getattr(_here, "shared", False):
        return work()
    kept: _DeepThread | None = getattr(_here, "kept", None)
    if kept is not None:
        return kept.run(work, shared=shared)
    with one_stack():
        return on_its_own_stack(work, shared=shared)


@contextmanager
def one_stack() -> Iterator[None]:
    """All that asks for room inside, from this thread, has it in one and the same deep thread."""
    if getattr(_here, "kept", None) is not None:
        yield
        return
    _here.kept = _DeepThread()
    try:
        yield
    finally:
        _here.kept.close()
        _here.kept = None


class _DeepThread:
    """A thread with a large stack, started when there is work and doing one piece after the other."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], bool] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], Outcome], *, shared: bool) -> Outcome:
        if self._thread is None:
            self._thread = self._start()
        with _room():
            try:
                self._asked.put((work, shared))
                outcome, failure = self._done.get()
            except BaseException:  # interrupted: what is still running there gives its outcome to nobody
                self._asked.put(None)
                self._forget()
                raise
        if failure is not None:
            raise failure
        return outcome  # type: ignore[no-any-return]

    def close(self) -> None:
        """Wait for the thread to end, so that a process that forks next has one less."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()

    def _start(self) -> threading.Thread:
        """The size of stacks belongs to the whole process: raised for as long as it takes to start."""
        thread = threading.Thread(target=_serve, args=(self._asked, self._done), name="shoal-deep", daemon=True)
        with _lock:
            usual_bytes = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(usual_bytes)
        return thread


def _serve(asked: SimpleQueue[Any], done: SimpleQueue[Any]) -> None:
    while (task := asked.get()) is not None:
        work, _here.shared = task
        try:
            done.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where the caller is
            done.put((None, error))
        del task, work  # nothing of a query stays behind while the next one is awaited


@contextmanager
def _room() -> Iterator[None]:
    """The interpreter's limit of levels is global too: raised for as long as anybody needs it."""
    global _running, _usual_levels  # noqa: PLW0603 - the interpreter's own limit is global
    with _lock:
        if _running == 0:
            _usual_levels = sys.getrecursionlimit()
            sys.setrecursionlimit(max(LEVELS, _usual_levels))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0 and sys.getrecursionlimit() == max(LEVELS, _usual_levels):
                sys.setrecursionlimit(_usual_levels)
