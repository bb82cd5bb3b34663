"""DuckDB, embedded: connections that cannot be redefined, exact integers out, nothing of what it says passed on."""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.checking.prepare import PlanChecker
from shoal.engines.duckdb.connection import BATCH_ROWS, ROOM_SHARE, within
from shoal.engines.duckdb.line_up import lined_up
from shoal.engines.duckdb.room import rows_at_most
from shoal.engines.duckdb.settings import LOCKDOWN, is_locked, limits, refuse_collation, refuse_other_meanings
from shoal.engines.duckdb.sound_files import refuse_changed
from shoal.engines.duckdb.tables import KnownTables
from shoal.engines.duckdb.views import definitions, macros
from shoal.engines.memory import path as memory
from shoal.engines.memory.held import held
from shoal.engines.memory.rows import has_texts, only_table, rows_statement
from shoal.engines.owners_in_turn import can_take_turns, of_turn, turns_for
from shoal.engines.partials import add, partials_from
from shoal.engines.python_rows.sorted_rows import sorted_batches
from shoal.engines.python_rows.stages import has_python, rows_read, rows_seen, staged, stages_of, statement
from shoal.engines.python_rows.tables import PythonTables
from shoal.engines.statements.bound_owners import BoundOwners
from shoal.engines.statements.crowded_owners import (
    CROWDED,
    MAX_JOINED_ROWS,
    Most,
    Product,
    crowded_source,
    limits_of,
    may_crowd,
    most_rows_statement,
    owner_and_texts,
    products_of,
    without_owners,
)
from shoal.engines.statements.pruned import read_input
from shoal.engines.statements.relations import Compiler, call, name, select
from shoal.engines.statements.sum_owners import Summing
from shoal.errors import ShoalError
from shoal.plan.totals import ExactTotals, SamplingKey
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from shoal.engines.base import Asked
    from shoal.engines.deadline import Deadline
    from shoal.engines.duckdb.sound_files import Stamp
    from shoal.engines.python_rows.stages import Stage
    from shoal.plan.nodes import Node, Scan
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import TotalsQuery

BATCH_ROWS_OF_TEXTS = 1 << 11
NO_KEY = SamplingKey((0,))
"""For instruments that look at all rows."""


class DuckDBEngine(KnownTables):
    """One DuckDB database. `ours` says whether we opened it (and may lock it) or it was handed in (and is left alone).

    Each query works on its own connection (`snapshot`). Registered frames are registered there again; temporary tables
    of a connection that was handed in are seen by that connection alone, so queries take turns on it. Where a database of ours
    holds nothing but its frames (`only_frames`) or named tables, their columns are asked for one by one: the engine's list of
    all columns takes longer than opening it.
    """

    name = "DuckDB"
    warnings: tuple[str, ...] = ()

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        ours: bool,
        frames: Mapping[str, pa.Table] | None = None,
        files: Mapping[Path, Stamp] | None = None,
        python: PythonTables | None = None,
        for_one_query: bool = False,
        tables: Iterable[str] | None = None,
        only_frames: bool = False,
    ) -> None:
        self._python = python or PythonTables()
        self._handed = connection
        self._connection = connection.cursor()
        self._frames = dict(frames or {})
        self._files = dict(files or {})
        self._holds_frames_alone = only_frames
        self._ours = ours
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._deadline: Deadline | None = None
        self._most_owned: dict[tuple[str, tuple[str, ...], int | None], Most] = {}
        self._sizes = {}
        self._sources: dict[str, exp.Expr] = {}
        self._schemas: dict[str, list[tuple[str, str]]] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self._plan_checker = PlanChecker(LOCKDOWN, qualify_operators=not ours)
        self._rows_kept = memory.KeptRows() if for_one_query else None
        if ours and not is_locked(self._connection):
            with suppress(duckdb.Error):  # off already in a notebook that has no ipywidgets, where it cannot be set
                self._connection.execute("SET enable_progress_bar = false")
            for statement in (*limits(), *LOCKDOWN):
                self._connection.execute(statement)
        for table, frame in self._frames.items():
            self._connection.register(table, frame)
        self._shares_connection = not ours and self._has_temporary_tables()
        if self._shares_connection:
            self._connection = connection
        refuse_collation(self._connection)
        refuse_other_meanings(self._connection)
        self._is_filled = tables is not None
        self._refresh(tables)
        self._definitions = frozenset() if ours else definitions(self._connection)
        self._macros = frozenset() if ours else macros(self._connection)

    def _has_temporary_tables(self) -> bool:
        """Whether the connection that was handed in has tables or views that no other connection sees."""
        try:
            found = self._handed.sql(
                "SELECT 1 FROM system.main.duckdb_tables() WHERE temporary UNION ALL "
                "SELECT 1 FROM system.main.duckdb_views() WHERE temporary AND NOT internal LIMIT 1"
            ).fetchall()
        except duckdb.Error:
            # An unfinished result keeps the connection busy; what can be seen from another one is all there is.
            return False
        return bool(found)

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[DuckDBEngine]:
        """This engine for one query: all its statements see the same data, and end with the deadline."""
        self._refuse_other_process()
        refuse_changed(self._files)
        taken = copy(self)
        taken._deadline = deadline  # noqa: SLF001 - a copy of ourselves
        taken._python = PythonTables(deadline=deadline)  # noqa: SLF001 - same
        taken._rows_kept = memory.KeptRows()  # noqa: SLF001 - same
        with closing(taken._python), self._snapshot(taken, deadline):  # noqa: SLF001 - same
            yield taken

    @contextmanager
    def _snapshot(self, taken: DuckDBEngine, deadline: Deadline) -> Iterator[None]:
        """A copy of ourselves gets a connection."""
        if self._shares_connection:
            with self._lock, deadline.stops(self._connection.interrupt):
                taken._table(select([exp.Literal.number(1)]))
                taken._refuse_redefined()
                yield
            return
        with self._opened() as cursor, deadline.stops(cursor.interrupt):
            taken._connection, taken._lock = cursor, threading.RLock()
            taken._refuse_redefined()
            yield

    def _refuse_redefined(self) -> None:
        """E_SOURCE when a table, a view or a setting of a connection that was handed in is not what the session opened."""
        if self._ours:
            return
        try:
            same = self._definitions <= definitions(self._connection)
            if self._macros:  # listing them takes ten milliseconds, and most databases have none
                same = same and self._macros <= macros(self._connection)
            refuse_other_meanings(self._connection)
        except duckdb.Error:
            raise EngineFailure from None
        if not same:
            raise ShoalError(
                "E_SOURCE",
                "Tables, views or macros were changed or dropped since the session was opened. Nothing was charged.",
                hint="Open a new session.",
            )

    def _refuse_other_process(self) -> None:
        """A forked child has the database without its threads: the first statement would end the process."""
        if os.getpid() != self._process:
            raise ShoalError(
                "E_SOURCE",
                "The session was opened by another process. Nothing was charged.",
                hint="Open a session in every process, after the fork.",
            )

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Its own connection, inside one transaction that only reads."""
        try:
            cursor = self._connection.cursor()
            for table, frame in self._frames.items():
                cursor.register(table, frame)
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            cursor.execute("SELECT 1").fetchall()  # after an internal error of its own the database refuses everything
        except Exception:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
            raise EngineFailure from None
        try:
            yield cursor
        finally:
            with suppress(Exception):  # after a failure there may be nothing to roll back
                cursor.close()

    def close(self) -> None:
        """Closes what is ours; a connection that was handed in stays open."""
        self._python.close()
        if not self._shares_connection:
            self._connection.close()
        if self._ours:
            self._handed.close()

    def fetch(self, node: Node) -> pa.Table:
        """The rows of a public relation; for instruments that look at raw data, of a private one."""
        if has_python(node):
            engine, (node,) = self._with_python([node], NO_KEY)
            return engine.fetch(node)
        return self._table(on_its_own_stack(lambda: Compiler(self._sources, whole_texts=True).relation(node)))

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Every statement of a plan, written and read over an empty copy of the schema."""
        self._plan_checker.check(plan, asked_of, self._schemas)
        self._python.start(stages_of(plan))

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """The exact integers of a contribution query: in memory where rows fit and can be handled, else by SQL."""
        if has_python(query.input):
            engine, (relation,) = self._with_python([query.input], key)
            return engine.totals(replace(query, input=relation), key)
        engine, query = self._without_crowded_owners(query)
        return engine._uncrowded_totals(query, key)  # noqa: SLF001 - a copy of ourselves

    def _uncrowded_totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        outgrown = False
        try:
            return self.measure_in_memory(query, key)
        except MemoryError:
            outgrown = True
            if self._rows_kept is not None:
                self._rows_kept.drop()
        except memory.NEEDS_SQL:
            pass
        if outgrown and can_take_turns(query):  # out here nothing holds the rows that were read
            with suppress(*memory.NEEDS_SQL):
                return self.measure_in_turns(query, key)
        return self.measure_by_sql(query, key)

    def _without_crowded_owners(self, query: TotalsQuery) -> tuple[DuckDBEngine, TotalsQuery]:
        """The query without owners who have more than their share of rows, and who answers it; usually there are none."""
        products = self._crowded(on_its_own_stack(partial(read_input, query)))
        if not products:
            return self, query
        return self._knowing_crowded(products), replace(query, input=without_owners(query.input, products))

    def _crowded(self, read: Node) -> list[Product]:
        """The products in which some owner has too much; `read` has the columns that are read."""
        found = [
            product
            for product in products_of(read)
            if may_crowd([self._most_of_one(scan) for scan in product], limits_of(product, MAX_JOINED_ROWS))
        ]
        # Nobody has most in all tables of a product, as a rule.
        return [
            product for product in found if self._has_rows(crowded_source([product], self._sources, MAX_JOINED_ROWS))
        ]

    def _has_rows(self, source: exp.Subquery) -> bool:
        return bool(self._table(select([call("count_star")], source)).column(0)[0].as_py())

    def _knowing_crowded(self, products: list[Product]) -> DuckDBEngine:
        taken = copy(self)
        there = crowded_source(products, self._sources, MAX_JOINED_ROWS)
        taken._sources = {**self._sources, CROWDED: there}  # noqa: SLF001 - a copy of ourselves
        return taken

    def _with_python(self, roots: list[Node], key: SamplingKey) -> tuple[DuckDBEngine, list[Node]]:
        """An engine that holds what functions make, and relations that read it there."""
        found, stages = staged(roots)
        taken = copy(self)
        taken._sources, taken._most_owned = dict(self._sources), {}  # noqa: SLF001 - same
        for stage in stages:
            rows = self._python.filled(stage, key, partial(taken._rows_for, stage))  # noqa: SLF001 - a copy of ourselves
            held = self._python.held(rows, self._connection)
            there = exp.Table(this=name(held), db=name("main"), catalog=name("temp"))
            taken._sources[stage.table] = there  # noqa: SLF001 - same
        return taken, found

    def _rows_for(self, stage: Stage) -> Iterator[pa.RecordBatch]:
        relation, engine = stage.input, self
        if products := self._crowded(on_its_own_stack(partial(rows_read, stage))):
            relation, engine = without_owners(relation, products), self._knowing_crowded(products)
        batch = BATCH_ROWS_OF_TEXTS if stage.reads_texts else BATCH_ROWS
        expected = self._rows_at_most(stage.input)
        seen, sorted_ = (
            on_its_own_stack(partial(write, stage, relation, engine._sources))  # noqa: SLF001 - same
            for write in (rows_seen, statement)
        )
        return sorted_batches(partial(self._rows, seen, batch, expected), partial(self._batches, sorted_, batch))

    def _most_of_one(self, scan: Scan) -> Most:
        """The most that any owner has in a table; what is known of data that cannot change is kept."""
        texts = owner_and_texts(scan)
        asked = texts.table, texts.columns, texts.longest_text
        known = self._most_owned.get(asked) if self._ours else None
        if known is None:
            statement = on_its_own_stack(partial(most_rows_statement, scan, self._sources))
            rows, counted, size = (int(found[0].as_py() or 0) for found in self._table(statement).columns)
            known = self._most_owned[asked] = rows, counted, size
        return known

    def kept_values(self, query: TotalsQuery, key: SamplingKey) -> dict[int, pa.Table]:
        """For every COUNT(DISTINCT x), by its number: keys and the different values that owners keep there."""
        counted = [i for i, task in enumerate(query.tasks) if not task.measure.additive]
        if counted and has_python(query.input):
            engine, (relation,) = self._with_python([query.input], key)
            return engine.kept_values(replace(query, input=relation), key)
        engine, query = self._without_crowded_owners(query) if counted else (self, query)
        return {
            index: self._table(on_its_own_stack(partial(engine._kept_values, query, key, index)))  # noqa: SLF001 - a copy of ourselves
            for index in counted
        }

    def _kept_values(self, query: TotalsQuery, key: SamplingKey, index: int) -> exp.Query:
        return Summing(query, key, self._sources).kept_values(query.tasks[index])

    def measure_by_sql(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """Runs the statements of a contribution query and lines their groups up."""
        statements = on_its_own_stack(lambda: Summing(query, key, self._sources).statements())
        return lined_up(query, statements, self._table)

    def measure_in_memory(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """Reads the rows as Arrow columns and bounds them here; the same integers as by SQL.

        What one question of a query has read, the next one about the same rows uses.
        """
        if self._rows_kept is None:
            return memory.measure_coded(query, self._coded(query, key))
        return memory.measure_coded(query, self._rows_kept.of(query, key, lambda: self._coded(query, key)))

    def _coded(self, query: TotalsQuery, key: SamplingKey) -> memory.CodedRows:
        listed = self._listed(query, key)
        statement = on_its_own_stack(lambda: rows_statement(query, self._sources))
        batch = BATCH_ROWS_OF_TEXTS if has_texts(query) else BATCH_ROWS
        keys = [f"k{position}" for position in range(len(query.keys))]
        rows = self._rows(statement, batch, self._rows_at_most(query.input), keys)
        return memory.CodedRows.of(query, key, rows, listed, ours=True)

    def _rows_at_most(self, relation: Node) -> int:
        """Asked once of each table of ours: to ask takes as long as to read a few thousand rows."""
        table = only_table(relation)
        known = f"rows of {table}"
        if known not in self._sizes:
            with self._lock:
                rows = rows_at_most(relation, self._sources, self._frames, self._connection, is_filled=self._is_filled)
            if not self._ours or table is None or fold(table) not in self._schemas:
                return rows
            self._sizes[known] = rows
        return self._sizes[known]

    def _listed(self, query: TotalsQuery, key: SamplingKey) -> pa.Table | None:
        """The groups that a query lists, where it lists them."""
        if query.public_groups is None:
            return None
        return self._table(on_its_own_stack(lambda: BoundOwners(query, key, self._sources).groups()))

    def measure_in_turns(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """Reads the rows several times, those of other owners each time, and adds up; the same integers as by SQL."""
        listed = self._listed(query, key)
        statement = on_its_own_stack(lambda: rows_statement(query, self._sources))
        batch_rows = BATCH_ROWS_OF_TEXTS if has_texts(query) else BATCH_ROWS
        room = self._memory_limit() // ROOM_SHARE
        with closing(self._batches(statement, batch_rows)) as batches:
            turns = turns_for(batches, room)

        def measured(turn: int) -> ExactTotals:
            with closing(self._batches(statement, batch_rows)) as batches:
                schema = next(batches).schema
                rows = held(schema, within(room, of_turn(batches, turn, turns)))
            return memory.measure_in_memory(query, key, rows, listed)

        return add([partials_from(query, measured(turn), {}) for turn in range(turns)])
