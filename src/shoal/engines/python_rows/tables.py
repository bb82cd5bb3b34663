"""The tables that functions fill, for as long as one query runs."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from shoal.engines.python_rows.batches import batches_of
from shoal.engines.python_rows.pool import MOST_PROCESSES, Pool
from shoal.engines.python_rows.spooled import spooled
from shoal.engines.python_rows.stages import checked
from shoal.engines.python_rows.worker import LEAST_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from shoal.engines.deadline import Deadline
    from shoal.engines.python_rows.stages import Stage
    from shoal.engines.python_rows.worker import Work
    from shoal.plan.totals import SamplingKey


class PythonTables:
    """Runs stages, each once for a sampling key: bounds that are found first read the same rows as what follows."""

    def __init__(self, processes: int | None = None, deadline: Deadline | None = None) -> None:
        self._processes = max(1, min(processes or os.cpu_count() or 1, MOST_PROCESSES))
        self._deadline = deadline
        self._pools: dict[Work, Pool] = {}
        self._filled: dict[tuple[Any, SamplingKey], pa.Table] = {}
        self._names: dict[tuple[int, int], str] = {}
        self._opened = ExitStack()

    def start(self, stages: Iterable[Stage]) -> None:
        """Processes that have loaded the functions; E_USAGE where they cannot be loaded."""
        for stage in stages:
            self._pool(stage).start()

    def filled(self, stage: Stage, key: SamplingKey, rows: Callable[[], Iterator[pa.RecordBatch]]) -> pa.Table:
        """The table of a stage; `rows` reads what its first function sees, sorted by owner."""
        if (stage.steps, key) not in self._filled:
            self._filled[stage.steps, key] = self._fill(stage, key, rows())
        return self._filled[stage.steps, key]

    def held(self, rows: pa.Table, connection: Any) -> str:
        """The name by which a connection knows a table, until we close."""
        known = id(rows), id(connection)
        if known not in self._names:
            self._names[known] = held = f"(python rows {len(self._names)})"
            connection.register(held, rows)
            self._opened.callback(_forget, connection, held)
        return self._names[known]

    def _fill(self, stage: Stage, key: SamplingKey, rows: Iterator[pa.RecordBatch]) -> pa.Table:
        first = next(rows)
        batches = batches_of(stage, _again(first, rows), key)
        answers = self._pool(stage).answers(batches, self._deadline, partial(checked, stage))
        return spooled(answers, stage.schema(first.schema.field(0).type), self._opened)

    def _pool(self, stage: Stage) -> Pool:
        work = stage.work(self._memory())
        if work not in self._pools:
            self._pools[work] = Pool(work, self._processes)
            self._opened.callback(self._pools[work].close)
        return self._pools[work]

    def _memory(self) -> int:
        """Half of the machine's memory, shared among the processes."""
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return max(LEAST_MEMORY, total // 2 // self._processes)

    def close(self) -> None:
        """Ends processes and lets go of rows."""
        self._filled.clear()
        self._pools.clear()
        self._opened.close()


def _forget(connection: Any, held: str) -> None:
    with suppress(Exception):  # a connection that is closed knows no names
        connection.unregister(held)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
