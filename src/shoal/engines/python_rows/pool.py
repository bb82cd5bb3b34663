"""Processes that run functions: started for one query, watched, and ended with it.

Whatever goes wrong in one of them is `EngineFailure`, without a word of what it was. Functions that cannot be loaded are refused
before anything is charged.
"""

from __future__ import annotations

import os
import pickle
import queue
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from shoal.engines.base import EngineFailure
from shoal.engines.python_rows.worker import CLOCK_FACTOR, READY, Work, receive, send, stream_of
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from shoal.engines.deadline import Deadline

SILENCE_SECONDS = 30.0
"""So much longer than a call may take, a process may say nothing; then it hangs inside something that is not Python."""
START_SECONDS = 120.0
START = "from shoal.engines.python_rows.worker import main; main()"
MOST_PROCESSES = 8
SETTINGS = {"PYTHONHASHSEED": "0", "ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
"""Sets are ordered alike in all workers; Arrow reserves no gigabyte in advance, which would count as memory that is used; each
processor has a worker already, and threads for NumPy's algebra take a quarter of a start."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of whole owners: what functions see of them, where each owner ends, and a seed for each."""

    rows: pa.Table
    ends: NDArray[np.int64]
    seeds: NDArray[np.uint64]


class Process:
    """One worker."""

    def __init__(self, work: Work) -> None:
        self._seconds = work.seconds
        reading, writing = os.pipe()
        environment = {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own Python
                [sys.executable, "-c", START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                env=environment,
            )
        finally:
            os.close(writing)
        self._alive = reading
        self._coming = cast("BinaryIO", self._process.stdout)
        self._going = cast("BinaryIO", self._process.stdin)
        with suppress(OSError):
            send(self._going, pickle.dumps((list(sys.path), work, writing)))

    def is_ready(self) -> bool:
        """Whether the functions could be loaded."""
        ready, _, _ = select.select([self._coming], [], [], START_SECONDS)
        return bool(ready) and self._coming.read(1) == READY

    def answer(self, batch: Batch) -> pa.Table:
        """What functions make of a batch."""
        try:
            send(self._going, stream_of(batch.rows), batch.ends, batch.seeds)
            self._wait()
            stream = receive(self._coming)
            if stream is not None:
                return pa.ipc.open_stream(stream).read_all()
        except (OSError, ValueError, pa.ArrowException):
            pass
        raise EngineFailure

    def _wait(self) -> None:
        """Until the answer comes; a process that is silent for too long is ended."""
        last = time.monotonic()
        while True:
            answer = self._coming.fileno()
            ready, _, _ = select.select([answer, self._alive], [], [], 1.0)
            if answer in ready:
                return
            if self._alive in ready and os.read(self._alive, 4096):
                last = time.monotonic()
            if time.monotonic() - last > CLOCK_FACTOR * self._seconds + SILENCE_SECONDS:
                raise EngineFailure

    def end(self) -> None:
        """At once, whatever it is doing."""
        self.kill()
        for pipe in (self._going, self._coming):
            with suppress(OSError):
                pipe.close()
        os.close(self._alive)
        self._process.wait()

    def kill(self) -> None:
        """Ends what it does; `end` lets go of it."""
        with suppress(OSError):
            self._process.kill()


class _Desk:
    """Batches that wait for a worker, and answers that wait to be taken."""

    def __init__(self, work: Work, processes: list[Process], checked: Callable[[Batch, pa.Table], pa.Table]) -> None:
        self._work, self._processes, self._checked = work, processes, checked
        self._waiting: queue.Queue[Batch | None] = queue.Queue()
        self._done: queue.Queue[pa.Table | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._over = False
        self.handed = 0

    def hand(self, batch: Batch, most: int) -> None:
        """Hands a batch to whoever is free; workers are added while there are fewer than `most`."""
        if len(self._threads) < most:
            process = self._processes[0] if not self._threads else None
            self._threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
            self._threads[-1].start()
        self._waiting.put(batch)
        self.handed += 1

    def _serve(self, process: Process | None) -> None:
        while (batch := self._waiting.get()) is not None and not self._over:
            try:
                process = process or self._another()
                self._done.put(self._checked(batch, process.answer(batch)))
            except Exception:  # noqa: BLE001 - whatever it was, it says nothing
                self._done.put(None)

    def _another(self) -> Process:
        process = Process(self._work)
        self._processes.append(process)
        if not process.is_ready():
            raise EngineFailure
        return process

    def taken(self, deadline: Deadline | None) -> pa.Table:
        """The next answer; processor time that was spent on it is the query's."""
        found = self._done.get()
        if deadline is not None:
            deadline.spend(float(((found.schema.metadata if found is not None else None) or {}).get(b"seconds", 0)))
            deadline.check()
        if found is None:
            raise EngineFailure
        return found

    def close(self, *, at_once: bool) -> None:
        """No thread is left; what is still being worked on is ended where nobody will take it."""
        self._over = at_once
        for _ in self._threads:
            self._waiting.put(None)
        while at_once and any(thread.is_alive() for thread in self._threads):
            for process in list(self._processes):
                process.kill()
            for thread in self._threads:
                thread.join(0.1)
        for thread in self._threads:
            thread.join()


class Pool:
    """Some workers with the same functions."""

    def __init__(self, work: Work, size: int) -> None:
        self._work, self._size = work, max(1, min(size, MOST_PROCESSES))
        self._processes: list[Process] = []

    def start(self) -> None:
        """The first worker; E_USAGE where its Python cannot load the functions."""
        if not self._processes:
            self._processes.append(Process(self._work))
            if not self._processes[0].is_ready():
                self.close()
                raise not_loaded()

    def answers(
        self, batches: Iterable[Batch], deadline: Deadline | None, checked: Callable[[Batch, pa.Table], pa.Table]
    ) -> Iterator[pa.Table]:
        """What comes out of all batches, in any order; `checked` makes an answer out of a batch and what came back."""
        self.start()
        if deadline is None:
            yield from self._answers(batches, None, checked)
            return
        with deadline.stops(self._kill):
            yield from self._answers(batches, deadline, checked)

    def _answers(
        self, batches: Iterable[Batch], deadline: Deadline | None, checked: Callable[[Batch, pa.Table], pa.Table]
    ) -> Iterator[pa.Table]:
        """One thread for each worker hands it batches; this one reads them from the engine, and gives answers on."""
        desk = _Desk(self._work, self._processes, checked)
        given = 0
        try:
            for handed, batch in enumerate(batches):
                desk.hand(batch, self._size)
                while handed + 1 - given > 2 * self._size:
                    yield desk.taken(deadline)
                    given += 1
            while given < desk.handed:
                yield desk.taken(deadline)
                given += 1
        finally:
            desk.close(at_once=given < desk.handed)

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """Ends all workers."""
        while self._processes:
            self._processes.pop().end()


def not_loaded() -> ShoalError:
    """The refusal of functions that another process cannot load."""
    return ShoalError(
        "E_USAGE",
        "The functions of the collection cannot be loaded in another process. Nothing was read and nothing was charged.",
        hint="The modules that they use must be installed where they run, with those of pip install 'shoal[collections]'.",
    )
