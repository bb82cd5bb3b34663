"""One connection and the statements that are run on it: whatever goes wrong, nothing that the engine says gets out."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from sqlglot import exp

from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.rendering import render
from shoal.engines.memory.held import held
from shoal.engines.statements.relations import call, select

if TYPE_CHECKING:
    import threading
    from collections.abc import Container, Generator, Iterable, Iterator

    from shoal.engines.deadline import Deadline

CTRL_C = re.compile(
    r"Query interrupted|Invalid Input Error: [a-z ]+ the object registered as '[^']*' failed: KeyboardInterrupt: "
)
"""What the engine makes of Ctrl+C, in its own work and while it asks Python for a frame; the whole text, which has no value of
a row in it. A deadline's interrupt is another kind of error."""
BATCH_ROWS = 1 << 17
MEMORY_LIMIT = "memory_limit"
UNITS = {"KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}
ROOM_SHARE = 4
"""Rows may fill a quarter of the engine's memory limit; sorting them needs about as much again."""


class Connected:
    """What runs statements. `ours` says whether we opened the database, so that nobody can have redefined its operators."""

    _connection: duckdb.DuckDBPyConnection
    _lock: threading.RLock
    _deadline: Deadline | None
    _ours: bool
    _sizes: dict[str, int]
    """What was asked once of a database that is ours: its settings are locked, and its data cannot change."""

    def _rows(
        self, tree: exp.Expr, batch_rows: int = BATCH_ROWS, expected: int = 0, narrow: Container[str] = ()
    ) -> pa.Table:
        """Rows as Arrow columns; MemoryError when they pass their share of the engine's memory limit."""
        room = self._memory_limit() // ROOM_SHARE
        with closing(self._batches(tree, batch_rows)) as batches:
            return held(next(batches).schema, within(room, batches), expected, narrow)

    def _batches(self, tree: exp.Expr, batch_rows: int = BATCH_ROWS) -> Generator[pa.RecordBatch]:
        """The rows of one statement as they come, one empty batch at least."""
        try:
            with self._lock:
                self._check_deadline()
                reader = self._connection.sql(render(tree, qualify_operators=not self._ours)).to_arrow_reader(
                    batch_rows
                )
                yield pa.RecordBatch.from_pylist([], reader.schema)
                yield from reader
        except Exception as error:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
            raise failure_of(error) from None

    def _check_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.check()

    def _memory_limit(self) -> int:
        """The engine's memory limit in bytes."""
        if self._ours and MEMORY_LIMIT in self._sizes:
            return self._sizes[MEMORY_LIMIT]
        setting = self._table(select([call("current_setting", exp.Literal.string(MEMORY_LIMIT))]))
        number, unit = setting.column(0)[0].as_py().split()
        self._sizes[MEMORY_LIMIT] = int(float(number) * 1024 ** UNITS.get(unit, 0))
        return self._sizes[MEMORY_LIMIT]

    def _table(self, tree: exp.Expr) -> pa.Table:
        """Runs one statement; whatever goes wrong, nothing of it gets out."""
        try:
            with self._lock:
                self._check_deadline()
                return self._connection.sql(render(tree, qualify_operators=not self._ours)).to_arrow_table()
        except Exception as error:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
            raise failure_of(error) from None


def within(room: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; MemoryError when they take more bytes than there are."""
    for batch in batches:
        room -= batch.nbytes
        if room < 0:
            raise MemoryError
        yield batch


def failure_of(error: Exception) -> BaseException:
    """What is said about an error: Ctrl+C, which the engine turns into an error of its own, is Ctrl+C; else that it failed."""
    of_ctrl_c = type(error) in {RuntimeError, duckdb.InvalidInputException} and CTRL_C.fullmatch(str(error))
    return KeyboardInterrupt() if of_ctrl_c else EngineFailure()
