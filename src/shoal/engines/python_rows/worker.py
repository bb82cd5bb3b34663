"""The process in which an analyst's functions run: batches of whole owners come in, rows with places go out.

It never learns who an owner is: it gets numbers and seeds. Nothing that functions print goes anywhere. A byte a second on the third
pipe says that Python still moves; when one call takes too long the process ends, which is all that anybody learns.

    parent → worker   the steps (pickled), then batches: Arrow stream, ends of owners, seeds of owners
    worker → parent   ready (1 byte), then for each batch: an Arrow stream of `row` and what was made
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import sys
import time
from contextlib import suppress
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from shoal.engines.python_rows.draws import Draws
from shoal.engines.python_rows.records import Progress, Rows, Step, run_step
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LEAST_MEMORY = 1 << 30
"""Bytes that a worker may have at least, whatever the machine has."""
TICK_SECONDS = 1.0
CLOCK_FACTOR = 4
"""A call has its seconds of processor time, and four times as long on the clock, like a query."""
PIECE_ROWS = 1 << 13
_LENGTH = struct.Struct("<Q")
SELDOM = (50_000, 10, 10)
"""New objects between two searches for cycles, which functions may leave behind: a batch of records is none."""
READY, NOT_LOADED = b"\1", b"\2"


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker knows before rows come."""

    steps: tuple[Step, ...]
    functions: tuple[bytes, ...]
    seconds: float
    memory: int


def pieces(columns: list[pa.Array], ends: NDArray[np.int64]) -> Iterator[Rows]:
    """The rows of some owners at a time, one piece at least. Records of few rows lie in the processor's caches."""
    sizes, first, start, more = np.diff(ends, prepend=0), 0, 0, True
    while more:
        last = min(int(np.searchsorted(ends, start + PIECE_ROWS)) + 1, len(ends))
        end = int(ends[last - 1]) if last else 0
        owners = np.repeat(np.arange(first, last), sizes[first:last])
        yield Rows([column.slice(start, end - start) for column in columns], owners, np.arange(start, end))
        first, start, more = last, end, last < len(ends)


def send(pipe: BinaryIO, *parts: Any) -> None:
    """Parts with their lengths in front."""
    for part in parts:
        view = memoryview(part).cast("B")
        pipe.write(_LENGTH.pack(len(view)))
        pipe.write(view)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """One part; None where the other side has closed the pipe."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    length = _LENGTH.unpack(head)[0]
    part = pipe.read(length)
    return part if len(part) == length else None


def stream_of(table: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """Rows as one message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


class Worker:
    """Runs the steps over batches until no more come."""

    def __init__(self, coming: BinaryIO, going: BinaryIO, alive: int) -> None:
        self._coming, self._going, self._alive = coming, going, alive
        self._draws, self._progress = Draws(), Progress()
        self._finished, self._busy = 0, False
        self._before, self._since = (0, 0), _times()

    def run(self, work: Work) -> None:
        """Until the parent closes its side."""
        before = set(sys.modules)
        try:
            functions = [pickle.loads(function) for function in work.functions]  # noqa: S301 - what the session itself pickled
        except BaseException:  # noqa: BLE001 - a function that cannot be loaded is a refusal, and says no more
            self._going.write(NOT_LOADED)
            self._going.flush()
            return
        self._draws.look_at(work.functions, before)
        if not self._draws.apart and not any(b"pandas" in each or b"pyarrow" in each for each in work.functions):
            without_pandas()
        gc.freeze()  # what is loaded stays: looking through it again and again for cycles takes longer than the functions
        gc.set_threshold(*SELDOM)
        limit_memory(work.memory)
        self._watch(work.seconds)
        self._going.write(READY)
        self._going.flush()
        while (stream := receive(self._coming)) is not None:
            ends = np.frombuffer(receive(self._coming) or b"", dtype=np.int64)
            seeds = np.frombuffer(receive(self._coming) or b"", dtype=np.uint64)
            batch = pa.ipc.open_stream(stream).read_all()
            self._busy = True
            answer = self._answered(work, functions, batch, ends, seeds)
            self._busy = False
            send(self._going, answer)

    def _answered(
        self, work: Work, functions: list[Any], batch: pa.Table, ends: NDArray[np.int64], seeds: NDArray[np.uint64]
    ) -> pa.Buffer:
        began = time.process_time()
        columns = [column.combine_chunks() for column in batch.columns]
        self._draws.take(seeds)
        made = [self._made(work, functions, rows) for rows in pieces(columns, ends)]
        names = ["row", *(f"m{position}" for position in range(len(work.steps[-1].made)))]
        table = pa.table([pa.chunked_array(parts) for parts in zip(*made, strict=True)], names)
        spent = str(time.process_time() - began)
        return stream_of(table.replace_schema_metadata({"seconds": spent}))

    def _made(self, work: Work, functions: list[Any], rows: Rows) -> list[pa.Array]:
        """Where rows come from, and what functions make of them."""
        for number, (step, function) in enumerate(zip(work.steps, functions, strict=True)):
            rows = run_step(step, function, rows, self._draws, number, self._progress)
            self._finished += 1
        return [pa.array(rows.origin, pa.int64()), *rows.written()]

    def _watch(self, seconds: float) -> None:
        """Once a second, between two steps of Python: still moving, or over."""

        def tick(*_: object) -> None:
            at = (self._finished, length_hint(self._progress.waiting, -1))
            if at != self._before or not self._busy:
                self._before, self._since = at, _times()
            worked, waited = (now - then for now, then in zip(_times(), self._since, strict=True))
            if worked > seconds or waited > CLOCK_FACTOR * seconds:
                os._exit(3)
            with suppress(OSError):
                os.write(self._alive, b".")

        os.set_blocking(self._alive, False)
        signal.signal(signal.SIGALRM, tick)
        tick_seconds = min(TICK_SECONDS, seconds / 4)
        signal.setitimer(signal.ITIMER_REAL, tick_seconds, tick_seconds)


def _times() -> tuple[float, float]:
    """Seconds that this process has worked, and that have passed: a busy machine must not look like a slow function."""
    return time.process_time(), time.monotonic()


def limit_memory(most: int) -> None:
    """So many bytes more than what is loaded already; a call that needs more ends the process (see `records`)."""
    import resource

    with suppress(OSError, ValueError, AttributeError):
        limit = most + _in_use()
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _in_use() -> int:
    """Bytes that count towards the limit now: libraries alone can have reserved more than a small machine's share."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class _NoPandas:
    """Finds no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuses pandas, and leaves everything else to the usual finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def without_pandas() -> None:
    """Arrow looks for pandas once, when it first makes a column; loading it takes longer than ten batches, so it finds none."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    sys.meta_path.remove(finder)


def main() -> None:
    """Standard streams are for the parent alone; what functions write goes nowhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    coming, going = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    told = receive(coming)
    if told is not None:
        paths, work, alive = pickle.loads(told)  # noqa: S301 - what the session itself pickled
        sys.path[:] = paths
        Worker(coming, going, alive).run(work)
    os._exit(0)  # functions may have left threads behind


if __name__ == "__main__":
    main()
