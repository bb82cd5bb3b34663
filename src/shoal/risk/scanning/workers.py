"""Shards in parallel: worker processes that read, hash and sketch, and hand their sketches back to be merged.

Threads would share one interpreter lock between thousands of short array operations and gain nothing. Workers are fresh
interpreters started by path, so a script needs no main guard and nothing is forked; the key goes to them through a
pipe, never on a command line or in the environment.

A message is a letter, a length of 8 bytes and a payload. To a worker: `P` plan, `K` key, `S` shard, `B` an
Arrow batch, `E` end. From it: `R` rows read, `D` task done, `F` final sketches, `X` an error.
"""

from __future__ import annotations

import contextlib
import json
import queue
import struct
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from shoal.errors import InternalError, ShoalError
from shoal.risk.hashing.keys import Key
from shoal.risk.scanning.sources import read_shard
from shoal.risk.scanning.table_sketches import Plan, Subject, TableSketcher
from shoal.risk.sketch.khll import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FRAME = struct.Struct("<cQ")
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.stdin.buffer.readline()); "
    "from shoal.risk.scanning.workers import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)

Task = tuple[bytes, bytes]
"""A message that gives a worker something to do."""


def _send(stream: IO[bytes], letter: bytes, payload: bytes) -> None:
    stream.write(_FRAME.pack(letter, len(payload)))
    stream.write(payload)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    head = stream.read(_FRAME.size)
    if len(head) < _FRAME.size:
        raise EOFError
    letter, length = _FRAME.unpack(head)
    payload = stream.read(length)
    if len(payload) < length:
        raise EOFError
    return letter, payload


# in the worker


def serve(commands: IO[bytes], answers: IO[bytes]) -> None:
    """The life of a worker."""
    pa.set_cpu_count(1)
    try:
        _, plan = _receive(commands)
        letter, secret = _receive(commands)
        sketcher = TableSketcher(Plan.from_dict(json.loads(plan)), Key(secret if letter == b"K" else None))
        while (command := _receive(commands))[0] != b"E":
            _work(command, sketcher, answers)
            _send(answers, b"D", b"")
        _send(answers, b"F", _packed(sketcher))
    except ShoalError as error:
        _send(answers, b"X", json.dumps(error.to_dict()).encode())
    except Exception as error:  # noqa: BLE001 - the last door of the worker: the parent reports the bug
        _send(answers, b"X", json.dumps({"bug": type(error).__name__}).encode())


def _work(command: Task, sketcher: TableSketcher, answers: IO[bytes]) -> None:
    letter, payload = command
    batches = (
        read_shard(json.loads(payload), sketcher.plan.columns) if letter == b"S" else iter(pa.ipc.open_stream(payload))
    )
    for batch in batches:
        sketcher.take(batch)
        _send(answers, b"R", struct.pack("<Q", batch.num_rows))


def _packed(sketcher: TableSketcher) -> bytes:
    packed = [sketch.to_bytes() for sketch in sketcher.sketches.values()]
    head = json.dumps({"rows": sketcher.rows, "sizes": [len(data) for data in packed]}).encode()
    return struct.pack("<Q", len(head)) + head + b"".join(packed)


def _unpacked(payload: bytes, plan: Plan) -> tuple[int, dict[Subject, Sketch]]:
    (length,) = struct.unpack_from("<Q", payload)
    head = json.loads(payload[8 : 8 + length])
    at, sketches = 8 + length, {}
    for subject, size in zip(plan.subjects, head["sizes"], strict=True):
        sketches[subject] = Sketch.from_bytes(payload[at : at + size])
        at += size
    return head["rows"], sketches


# in the parent


def shard_task(shard: dict[str, Any]) -> Task:
    """A part of a file to read."""
    return b"S", json.dumps(shard).encode()


def batch_task(batch: pa.RecordBatch) -> Task:
    """Rows that were read here."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return b"B", sink.getvalue().to_pybytes()


def sketch_in_parallel(
    into: TableSketcher,
    key: Key,
    tasks: Iterable[Task],
    workers: int,
    read: Callable[[int], None],
) -> None:
    """Spread tasks over workers and merge what they bring back; `read` hears of rows as they are read."""
    waiting: queue.Queue[Task | None] = queue.Queue(maxsize=workers)
    crew = [_Worker(into.plan, key, waiting, read) for _ in range(workers)]
    try:
        for task in tasks:
            _offer(waiting, task, crew)
        for _ in crew:
            _offer(waiting, None, crew)
        for worker in crew:
            into.absorb(*worker.result())
    finally:
        for worker in crew:
            worker.stop()
        _dismiss(waiting, crew)


def _dismiss(waiting: queue.Queue[Task | None], crew: list[_Worker]) -> None:
    """Let no thread wait for a task that will not come."""
    with contextlib.suppress(queue.Empty):
        while True:
            waiting.get_nowait()
    for _ in crew:
        waiting.put(None)
    for worker in crew:
        worker.close()


def _offer(waiting: queue.Queue[Task | None], task: Task | None, crew: list[_Worker]) -> None:
    """Hand a task over as soon as there is room, unless a worker gave up."""
    while True:
        for worker in crew:
            worker.raise_failure()
        try:
            return waiting.put(task, timeout=0.5)
        except queue.Full:
            continue


class _Worker:
    """A process, and the thread that talks to it."""

    def __init__(
        self,
        plan: Plan,
        key: Key,
        waiting: queue.Queue[Task | None],
        read: Callable[[int], None],
    ) -> None:
        self._plan, self._waiting, self._read = plan, waiting, read
        self._result: tuple[int, dict[Subject, Sketch]] | None = None
        self._failure: ShoalError | InternalError | None = None
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own words
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._orders: IO[bytes] = self._process.stdin  # type: ignore[assignment]  # a pipe was asked for
        self._answers: IO[bytes] = self._process.stdout  # type: ignore[assignment]  # same
        self._thread = threading.Thread(target=self._run, args=(key,), daemon=True)
        self._thread.start()

    def _run(self, key: Key) -> None:
        try:
            self._orders.write(json.dumps(sys.path).encode() + b"\n")
            _send(self._orders, b"P", json.dumps(self._plan.to_dict()).encode())
            _send(self._orders, b"K" if key.secret is not None else b"U", key.secret or b"")
            while (task := self._waiting.get()) is not None:
                _send(self._orders, *task)
                self._await_answer(b"D")
            _send(self._orders, b"E", b"")
            self._result = _unpacked(self._await_answer(b"F"), self._plan)
        except (ShoalError, InternalError) as error:
            self._failure = error
        except (OSError, EOFError):
            self._failure = ShoalError("E_EXECUTION", "A worker of the scan stopped early.", hint="Try --workers 1.")

    def _await_answer(self, wanted: bytes) -> bytes:
        while True:
            letter, payload = _receive(self._answers)
            if letter == b"X":
                error = json.loads(payload)
                if "bug" in error:
                    raise InternalError(f"a worker of the scan failed with {error['bug']}")
                raise ShoalError(error["code"], error["message"], hint=error["hint"])
            if letter == wanted:
                return payload
            self._read(struct.unpack("<Q", payload)[0])

    def raise_failure(self) -> None:
        """Raise what the worker died of, if it did."""
        if self._failure is not None:
            raise self._failure

    def result(self) -> tuple[int, dict[Subject, Sketch]]:
        """The rows the worker read and their sketches, when it has come to its end."""
        self._thread.join()
        self.raise_failure()
        if self._result is None:
            raise ShoalError("E_EXECUTION", "A worker of the scan stopped early.")
        return self._result

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process.poll() is None and self._result is None:
            self._process.kill()

    def close(self) -> None:
        """Wait for the end, and close the pipes."""
        self._thread.join(timeout=5)
        for stream in (self._orders, self._answers):
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()
