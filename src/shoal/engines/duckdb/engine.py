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
import sqlglot
from sqlglot import exp

from shoal.catalog import CARRIED_OWNER, fold
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.checking.prepare import Reading
from shoal.engines.duckdb.connection import BATCH_ROWS, ROOM_SHARE, Connected, within
from shoal.engines.duckdb.line_up import lined_up
from shoal.engines.duckdb.owners_in_turn import can_take_turns, of_turn, turns_for
from shoal.engines.duckdb.rendering import render
from shoal.engines.duckdb.room import rows_at_most
from shoal.engines.duckdb.settings import LOCKDOWN, is_locked, limits, refuse_collation, refuse_other_meanings
from shoal.engines.duckdb.sound_files import refuse_changed
from shoal.engines.duckdb.views import Stored, definitions, refuse_fragile
from shoal.engines.memory import path as memory
from shoal.engines.memory.held import held
from shoal.engines.memory.rows import has_texts, rows_statement
from shoal.engines.partials import add, partials_from
from shoal.engines.python_rows.stages import has_python, rows_read, staged, stages_of, statement
from shoal.engines.python_rows.tables import PythonTables
from shoal.engines.statements.bound_owners import BoundOwners, N
from shoal.engines.statements.carried_owners import named_rows, through_reference
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
from shoal.engines.statements.relations import Compiler, aliased, call, column, name, select
from shoal.engines.statements.sum_owners import Summing
from shoal.errors import ShoalError
from shoal.plan.totals import ExactTotals, SamplingKey
from shoal.plan.types import Kind
from shoal.sql import functions
from shoal.sql.functions import type_of
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from shoal.engines.base import Asked
    from shoal.engines.deadline import Deadline
    from shoal.engines.duckdb.sound_files import Stamp
    from shoal.engines.python_rows.stages import Stage
    from shoal.plan.nodes import Node, Scan
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import TotalsQuery
    from shoal.plan.types import Type

BATCH_ROWS_OF_TEXTS = 1 << 11
NO_KEY = SamplingKey((0,))
"""For instruments that look at all rows."""


class DuckDBEngine(Connected):
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
        self._reading = Reading(LOCKDOWN)
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
            refuse_other_meanings(self._connection)
        except duckdb.Error:
            raise EngineFailure from None
        if not same:
            raise ShoalError(
                "E_SOURCE",
                "Tables of the database were changed or dropped since the session was opened. Nothing was charged.",
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

    def _refresh(self, tables: Iterable[str] | None) -> None:
        """Names and types of all tables and views, read once; `tables` are those of a database of ours, where they are known."""
        if tables is not None:
            rows = self._columns_of(tables, "memory")
        elif self._holds_frames_alone:
            rows = self._columns_of(sorted(self._frames), "temp")
        else:
            rows = self._stored_columns()
        current = self._connection.sql(
            "SELECT system.main.current_database(), system.main.current_schema()"
        ).fetchall()[0]
        ranked = sorted(rows, key=lambda row: 0 if row[:2] == current else 1 if row[0] == "temp" else 2)
        for database, schema, table, stored, data_type in ranked:
            place = self._places.setdefault(fold(table), (database, schema))
            if place == (database, schema):
                self._schemas.setdefault(fold(table), []).append((stored, data_type))
                self._sources[fold(table)] = exp.Table(this=name(table), db=name(schema), catalog=name(database))

    def _stored_columns(self) -> list[tuple[str, ...]]:
        return self._connection.sql(
            "SELECT database_name, schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns() "
            "WHERE NOT internal ORDER BY database_name, schema_name, table_name, column_index"
        ).fetchall()

    def _columns_of(self, tables: Iterable[str], database: str) -> list[tuple[str, ...]]:
        """The same of some tables of ours: to list what there is, the engine writes its whole catalogue out first."""
        found: list[tuple[str, ...]] = []
        for table in tables:
            place = exp.Table(this=name(table), db=name("main"), catalog=name(database))
            described = self._connection.sql(select([exp.Star()], place).sql(dialect="duckdb"))
            found += [
                (database, "main", table, *each)
                for each in zip(described.columns, map(str, described.types), strict=True)
            ]
        return found

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Every table and view of the connection."""
        return dict(self._schemas)

    def add_view(self, view: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """The custodian's SQL as a subquery: trusted text, parsed so that it stays one relation."""
        try:
            tree = sqlglot.parse_one(sql, dialect="duckdb")
            with self._lock:
                described = self._connection.sql(tree.sql(dialect="duckdb"))
                columns = list(zip(described.columns, map(str, described.types), strict=True))
        except (sqlglot.errors.SqlglotError, duckdb.Error):
            raise ShoalError(
                "E_CATALOG", f"The view of table {view!r} in the catalog is not a query this database can run."
            ) from None
        if not trusted:
            self._refuse_fragile(view, tree, self._stored())
        self._sources[fold(view)] = exp.Subquery(this=tree, alias=exp.TableAlias(this=name(view)))
        self._schemas[fold(view)] = columns
        return columns

    def refuse_fragile_view(self, view: str) -> None:
        """E_CATALOG where reading a table of the source computes something that could fail on single rows."""
        stored = self._stored()
        if stored.computes(fold(view)):
            self._refuse_fragile(view, exp.select("*").from_(exp.Table(this=name(fold(view)))), stored)

    def _refuse_fragile(self, view: str, tree: exp.Expr, stored: Stored) -> None:
        refuse_fragile(view, tree, self._schemas, stored, LOCKDOWN)
        for frame in sorted(stored.frames_under(tree)):
            self._refuse_unreadable_frame(frame)

    def _refuse_unreadable_frame(self, frame: str) -> None:
        """E_SOURCE for a registered data frame with a value of another type than the rest: its scan fails on that one."""
        known = [stored for stored, type_ in self._schemas[frame] if type_of(type_).kind is not Kind.UNSUPPORTED]
        try:
            for _ in self.columns(frame, known):
                pass
        except EngineFailure:
            pass
        else:
            return
        raise ShoalError(
            "E_SOURCE",
            f"The data frame {frame!r} that was registered holds values that cannot be read as its columns' types.",
            hint="Give every column one type, or pass the frame in as {name: frame}.",
        )

    def _stored(self) -> Stored:
        """What somebody else wrote; views over files are ours, and total."""
        if self._files or self._frames:
            return Stored()
        with self._lock:
            return Stored.of(self._connection, self._places)

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """The table joined with the one that knows its owners."""
        stored = [each for each, _ in self._schemas[fold(table)]]
        source, target = self._sources[fold(table)], self._sources[fold(to)]
        tree = through_reference(source, stored, through, target, key, owner)
        type_ = next(type_ for each, type_ in self._schemas[fold(to)] if fold(each) == fold(owner))
        self._add_owner(table, tree, type_)

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """The table with a name for each row."""
        usable = [(each, type_) for each, type_ in columns if type_.kind is not Kind.UNSUPPORTED]
        stored = [each for each, _ in self._schemas[fold(table)]]
        self._add_owner(table, named_rows(self._sources[fold(table)], stored, usable), "VARCHAR")

    def _add_owner(self, table: str, tree: exp.Select, type_: str) -> None:
        self._sources[fold(table)] = exp.Subquery(this=tree, alias=exp.TableAlias(this=name(table)))
        self._schemas[fold(table)] = [*self._schemas[fold(table)], (CARRIED_OWNER, type_)]

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """Sizes of public tables."""
        counts = {}
        for table in names:
            query = select([call("count_star")], self._sources[fold(table)].copy())
            counts[fold(table)] = int(self._table(query).column(0)[0].as_py())
        return counts

    def repeats(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The rows of the most frequent value of each column, values compared as queries compare them."""
        found: dict[str, int] = {}
        for column_, type_ in columns:
            if type_.kind is Kind.UNSUPPORTED:
                continue
            value = functions.key_form(functions.scan_form(column(column_), type_), type_)
            values = select([aliased(value, "v"), aliased(call("count_star"), "n")], self._sources[fold(table)].copy())
            values.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
            most = select([call("max", column("n"))], exp.Subquery(this=values, alias=exp.TableAlias(this=name("t"))))
            found[column_] = int(self._table(most).column(0)[0].as_py() or 0)
        return found

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

    def combinations(self, table: str, columns: list[str]) -> Generator[pa.RecordBatch]:
        """Every combination of some columns' values with its number of rows, for side tools that count."""
        types = dict(self._schemas[fold(table)])
        keys = [_as_bytes(exp.Column(this=name(each)), types[each]) for each in columns]
        named = [aliased(key, f"k{place}") for place, key in enumerate(keys)]
        query = select([*named, aliased(call("count_star"), N)], self._sources[fold(table)].copy())
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        yield from self._batches(query)

    def columns(self, table: str, columns: list[str]) -> Generator[pa.RecordBatch]:
        """The rows of some columns, in no order that means anything."""
        named = [aliased(exp.Column(this=name(each)), f"k{place}") for place, each in enumerate(columns)]
        yield from self._batches(select(named, self._sources[fold(table)].copy()))

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Every statement of a plan, written and read over an empty copy of the schema."""
        self._reading.check(plan, asked_of, self._schemas, lambda tree: render(tree, qualify_operators=not self._ours))
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

    def _rows_for(self, stage: Stage) -> Generator[pa.RecordBatch]:
        relation, engine = stage.input, self
        if products := self._crowded(on_its_own_stack(partial(rows_read, stage))):
            relation, engine = without_owners(relation, products), self._knowing_crowded(products)
        batch = BATCH_ROWS_OF_TEXTS if stage.reads_texts else BATCH_ROWS
        return self._batches(on_its_own_stack(lambda: statement(stage, relation, engine._sources)), batch)  # noqa: SLF001 - same

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
        listed = None
        if query.public_groups is not None:
            listed = self._table(on_its_own_stack(lambda: BoundOwners(query, key, self._sources).groups()))
        statement = on_its_own_stack(lambda: rows_statement(query, self._sources))
        batch = BATCH_ROWS_OF_TEXTS if has_texts(query) else BATCH_ROWS
        with self._lock:
            expected = rows_at_most(query, self._sources, self._frames, self._connection, is_filled=self._is_filled)
        return memory.CodedRows.of(query, key, self._rows(statement, batch, expected), listed)

    def measure_in_turns(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """Reads the rows several times, those of other owners each time, and adds up; the same integers as by SQL."""
        listed = None
        if query.public_groups is not None:
            listed = self._table(on_its_own_stack(lambda: BoundOwners(query, key, self._sources).groups()))
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


def _as_bytes(value: exp.Expr, data_type: str) -> exp.Expr:
    """A text column compared by its bytes, whatever collation it was declared with."""
    return exp.Collate(this=exp.Paren(this=value), expression=name("binary")) if data_type == "VARCHAR" else value
