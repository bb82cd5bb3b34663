"""A PostgreSQL server as an engine: it hands rows over, and an embedded engine of our own computes what they mean.

For every query one transaction reads, from one snapshot, the columns that the query needs. They stream into a locked database
of our own, which answers like every other. No function has a second meaning, and no text of an analyst reaches the server: it
is sent names of the schema, and constants of a few types.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from shoal.catalog import CARRIED_OWNER, fold
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import DEFAULT_SECONDS, Deadline
from shoal.engines.duckdb.checking.prepare import PlanChecker
from shoal.engines.duckdb.checking.string_bounds import LONG, Statistics, Strings
from shoal.engines.duckdb.connection import failure_of
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.duckdb.filled import settings
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.engines.postgresql.joins import ROWS_OF, UNCOUNTED, UNIQUE, most_alike, refuse_many_pairs, string_sizes
from shoal.engines.postgresql.relations import Contents, Relation, StoredColumn, located, warnings_of
from shoal.engines.postgresql.server import Connection, Server, snapshot
from shoal.engines.postgresql.statements import quoted, rows_statement
from shoal.engines.postgresql.types import Stored
from shoal.engines.postgresql.views import refuse_fragile
from shoal.engines.python_rows.private_folder import private_folder
from shoal.engines.python_rows.stages import stages_of
from shoal.engines.python_rows.tables import PythonTables
from shoal.engines.reading import Need, is_private, narrowed, needs_of, needs_of_scans
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.plan.types import Kind
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shoal.catalog import Catalog
    from shoal.engines.base import Asked
    from shoal.plan.nodes import Node
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.plan.types import Type


@dataclass(frozen=True)
class AddedOwner:
    """An owner column that the embedded engine adds to a table, and the columns that it takes for it."""

    table: str
    type: str
    reads: dict[str, tuple[str, ...]]
    add_to: Callable[[DuckDBEngine], None]


class PostgreSQLEngine:
    """One database of a server, seen by one role. With a catalog, its tables are looked up when the engine opens."""

    name = "PostgreSQL"

    def __init__(self, url: str, catalog: Catalog | None = None) -> None:
        private_folder()  # where there is none, a query that needs it would fail
        self._server = Server(url)
        self._catalog = catalog
        self._contents = self._read_contents()
        self._relations = located(self._contents, catalog)
        if not self._contents.relations:
            raise ShoalError(
                "E_SOURCE",
                f"The PostgreSQL server at {self._server.where} has no table that this role can see.",
                hint="Is it the right database? GRANT SELECT on its tables to the role.",
            )
        self.warnings = () if catalog is None else warnings_of(self._contents, self._relations)
        self._added: list[AddedOwner] = []
        self._plan_checker = PlanChecker(LOCKDOWN)
        self._connection: Connection | None = None
        self._deadline = Deadline(DEFAULT_SECONDS)
        self._planned: dict[str, Need] = {}
        self._loaded: dict[tuple[Need, ...], DuckDBEngine] = {}
        self._opened = ExitStack()
        self._python = PythonTables()

    def __repr__(self) -> str:
        return f"PostgreSQLEngine({self._server.where})"

    def _read_contents(self) -> Contents:
        try:
            connection = self._server.connect()
        except EngineFailure:
            connection = None
        if connection is None:
            raise self._server.unreachable()
        try:
            return Contents.of(connection)
        except EngineFailure:
            pass
        finally:
            connection.close()
        raise self._server.unreachable()

    # ---- what there is -------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """The catalog's tables; without a catalog everything that the role may read."""
        found = self._schemas()
        if self._catalog is None:
            return found
        others = {fold(r.name): r.described() for r in self._contents.relations if r.readable}
        return {name: found.get(name, columns) for name, columns in (others | found).items()}

    def _schemas(self) -> dict[str, list[tuple[str, str]]]:
        """The tables that queries may name, owners that are added included."""
        found = {name: relation.described() for name, relation in self._relations.items()}
        for added in self._added:
            found[added.table].append((CARRIED_OWNER, added.type))
        return found

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """Rows of both tables are handed over, and joined where values are compared as queries compare them."""
        type_ = next(type_ for name, type_ in self._schemas()[fold(to)] if fold(name) == fold(owner))
        reads = {fold(table): (through[0],), fold(to): (key[0], owner)}
        self._added.append(
            AddedOwner(fold(table), type_, reads, lambda engine: engine.carry_owner(table, through, to, key, owner))
        )

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """Rows are handed over whole, and named by what queries see of them."""
        named = [(name, type_) for name, type_ in columns if type_.kind is not Kind.UNSUPPORTED]
        reads = {fold(table): tuple(name for name, _ in named)}
        self._added.append(AddedOwner(fold(table), "VARCHAR", reads, lambda engine: engine.name_rows(table, named)))

    def add_view(self, view: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """The custodian's SQL, in the words of the server; it is read whole, whatever a query asks."""
        query = sql.strip().rstrip(";")
        relation = Relation("", view, "q", definition=query)
        try:
            connection = self._server.connect()
        except EngineFailure:
            raise self._server.unreachable() from None
        try:
            schema = connection.schema(f"SELECT * FROM {relation.source}")
        except EngineFailure:
            raise ShoalError(
                "E_CATALOG",
                f"The view of table {view!r} in the catalog is not a query this database can run.",
                hint="Tables are written with their schema: FROM public.visits.",
            ) from None
        finally:
            connection.close()
        relation = replace(relation, columns=tuple(self._described(field) for field in schema))
        if relation.alike:
            raise ShoalError(
                "E_CATALOG",
                f"The view of table {view!r} in the catalog has several columns called {fold(relation.alike[0])!r}.",
                hint="Names are compared without case: give each column a different name, SELECT a AS first, b AS second.",
            )
        if not trusted:
            self._refuse_unsound(view, relation)
        self._relations[fold(view)] = relation
        return relation.described()

    def _described(self, field: pa.Field) -> StoredColumn:
        known = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        type_ = known.get("POSTGRESQL:type") or known.get("ADBC:postgresql:typname", "unknown")
        is_enum = type_ in self._contents.enums
        return StoredColumn(field.name, Stored(type_, int(known.get("POSTGRESQL:typmod", -1)), is_enum))

    def refuse_fragile_view(self, name: str) -> None:
        """E_CATALOG where a table of the server is a view that could fail on single rows, or look at all pairs of some."""
        relation = self._relations[fold(name)]
        whole = self._contents.at(relation.schema, relation.name)
        self._refuse_unsound(name, relation if whole is None else whole)

    def _refuse_unsound(self, name: str, relation: Relation) -> None:
        refuse_fragile(name, relation, self._contents)
        refuse_many_pairs(name, relation, self._contents, Statistics(self._most_alike, self._strings))

    def _most_alike(self, place: tuple[str, ...], columns: tuple[str, ...], nulls: bool) -> int:
        """The rows of the most frequent values of some columns of a table; of none, all rows. A key needs no counting."""
        schema, table = place[-2], place[-1].removeprefix(ROWS_OF)
        if columns and any(
            key <= set(columns) and (primary or not nulls) for key, primary in self._keys(schema, table)
        ):
            return 1
        try:
            with self._now() as taken:
                source = f"{quoted(schema)}.{quoted(table)}"
                (row,) = taken._reader.rows(most_alike(source, columns, nulls=nulls))  # noqa: SLF001 - a copy of ourselves
        except EngineFailure:
            return UNCOUNTED
        return int(row["n"] or 0)

    def _strings(self, place: tuple[str, ...], columns: tuple[str, ...]) -> Strings:
        """How long strings of a table are; those of a table that the role cannot read are not known."""
        source = f"{quoted(place[-2])}.{quoted(place[-1].removeprefix(ROWS_OF))}"
        try:
            with self._now() as taken:
                (row,) = taken._reader.rows(string_sizes(source, columns))  # noqa: SLF001 - a copy of ourselves
        except EngineFailure:
            return Strings()
        longest = int(row["longest"])
        return Strings(longest, int(row["whole"]), int(row["long"]), min(longest, LONG))

    def _keys(self, schema: str, table: str) -> list[tuple[set[str], bool]]:
        """The columns of every key that the server keeps, and whether it is the primary one."""
        found: dict[int, tuple[set[str], bool]] = {}
        with self._now() as taken:
            for row in taken._reader.rows(UNIQUE):  # noqa: SLF001 - a copy of ourselves
                if (row["schema"], row["name"]) == (schema, table):
                    found.setdefault(row["key"], (set(), bool(row["is_primary"])))[0].add(row["part"])
        return list(found.values())

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """Sizes of public tables."""
        with self._now() as taken:
            counts = {}
            for name in names:
                source = taken._relations[fold(name)].source  # noqa: SLF001 - a copy of ourselves
                (row,) = taken._reader.rows(f"SELECT pg_catalog.count(*) AS n FROM {source}")  # noqa: SLF001 - same
                counts[fold(name)] = int(row["n"])
            return counts

    def repeats(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The rows of the most frequent value of each column, values compared as queries compare them."""
        wanted = list(columns)
        with self._now() as taken:
            return taken._holding([self._whole(table, [name for name, _ in wanted])]).repeats(table, wanted)  # noqa: SLF001 - a copy of ourselves

    def longest_texts(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The bytes of the longest string of each column."""
        wanted = [each for each in columns if each[1].kind is Kind.TEXT]
        if not wanted:
            return {}
        with self._now() as taken:
            return taken._holding([self._whole(table, [name for name, _ in wanted])]).longest_texts(table, wanted)  # noqa: SLF001 - a copy of ourselves

    def combinations(self, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Every combination of some columns' values, and in the last column its number of rows."""
        with self._now() as taken:
            yield from taken._holding([self._whole(table, columns)]).combinations(table, columns)  # noqa: SLF001 - a copy of ourselves

    def columns(self, table: str, columns: list[str], longest_text: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some columns as they are stored."""
        with self._now() as taken:
            yield from taken._holding([self._whole(table, columns)]).columns(table, columns, longest_text)  # noqa: SLF001 - a copy of ourselves

    def _whole(self, table: str, columns: list[str]) -> Need:
        known = {column.name for column in self._relations[fold(table)].columns if column.stored.is_read}
        return Need(fold(table), tuple(name for name in columns if name in known), None)

    # ---- one query -----------------------------------------------------------------------------------------------

    def is_alive(self) -> bool:
        """Whether the server answers now; a connection that was lost is opened again."""
        with suppress(EngineFailure), self._now():
            return True
        return False

    @contextmanager
    def _now(self) -> Iterator[PostgreSQLEngine]:
        """The snapshot that is open, or one for what a session asks outside of queries."""
        if self._connection is not None:
            yield self
            return
        with self.snapshot(Deadline(DEFAULT_SECONDS)) as taken:
            yield taken

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[PostgreSQLEngine]:
        """The engine for one query: one transaction of the server, and a database of our own for its rows."""
        connection = snapshot(self._server, deadline)
        taken = copy(self)
        taken._connection, taken._deadline = connection, deadline  # noqa: SLF001 - a copy of ourselves
        taken._planned, taken._loaded, taken._opened = {}, {}, ExitStack()  # noqa: SLF001 - same
        taken._python = PythonTables(deadline=deadline)  # noqa: SLF001 - same
        taken._opened.callback(taken._python.close)  # noqa: SLF001 - same
        try:
            with deadline.stops(connection.cancel), taken._opened:  # noqa: SLF001 - same
                taken._refuse_redefined()  # noqa: SLF001 - same
                yield taken
        finally:
            connection.close()

    def _refuse_redefined(self) -> None:
        """E_SOURCE when a table, a view or a right is not what the session opened."""
        now = Contents.of(self._reader)
        same = {(r.schema, r.name): r for r in now.relations}
        before = [r for r in self._contents.relations if self._catalog is not None and self._is_used(r)]
        if all(same.get((r.schema, r.name)) == r for r in before):
            return
        raise ShoalError(
            "E_SOURCE",
            "Tables of the database, or the rights to read them, were changed since the session was opened. "
            "Nothing was charged.",
            hint="Open a new session.",
        )

    def _is_used(self, relation: Relation) -> bool:
        """Views may read any view: where there are some, all of them count."""
        used = {(r.schema, r.name) for r in self._relations.values()}
        computes = any(r.kind in {"v", "q"} for r in self._relations.values())
        return (relation.schema, relation.name) in used or (computes and relation.kind == "v")

    @property
    def _reader(self) -> Connection:
        if self._connection is None:
            raise EngineFailure
        return self._connection

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Every statement of a plan, written and read over an empty copy of the schema; and what all of them will need."""
        asked = asked_of(plan)
        self._plan_checker.check(plan, lambda _: asked, self._schemas())
        self._python.start(stages_of(plan))
        self._planned = _together([need for query in asked.totals for need in needs_of(narrowed(query))])

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """The exact integers of a contribution query."""
        small = narrowed(query)
        return self._holding(needs_of(small)).totals(small, key)

    def fetch(self, node: Node) -> pa.Table:
        """The rows of a public relation."""
        with self._now() as taken:
            scans = [part for part in all_nodes(node) if isinstance(part, nodes.Scan)]
            return taken._holding(needs_of_scans(scans)).fetch(node)  # noqa: SLF001 - a copy of ourselves

    def close(self) -> None:
        """Every query has its own connection: there is nothing to let go of."""

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _holding(self, needs: Iterable[Need]) -> DuckDBEngine:
        """An embedded engine that holds what is needed; rows that the whole query needs are read once."""
        wanted = tuple(_widened(need, self._planned.get(need.table)) for need in needs)
        if wanted not in self._loaded:
            self._loaded[wanted] = self._load(wanted)
        return self._loaded[wanted]

    def _load(self, needs: tuple[Need, ...]) -> DuckDBEngine:
        place = tempfile.TemporaryDirectory(dir=private_folder(), ignore_cleanup_errors=True)
        folder = self._opened.enter_context(place)
        database = duckdb.connect(":memory:", config=settings(folder, None, None))
        self._opened.callback(database.close)
        self._opened.enter_context(self._deadline.stops(database.interrupt))
        stored = with_added(needs, self._added)
        for need in stored:
            self._copy(database, need)
        held = [need.table for need in stored]
        engine = DuckDBEngine(database, ours=True, python=self._python, for_one_query=True, tables=held)
        self._opened.callback(engine.close)
        for added in self._added:
            if added.reads.keys() <= {need.table for need in stored}:
                added.add_to(engine)
        return engine

    def _copy(self, database: duckdb.DuckDBPyConnection, need: Need) -> None:
        relation = self._relations[need.table]
        readable = [column for column in relation.columns if column.stored.is_read]
        # Of a view every column is read: which of them are computed must not follow from the query.
        columns = [column for column in readable if column.name in need.columns or not relation.is_base]
        listed = ", ".join(f"{quoted(column.name)} {column.stored.kept_as}" for column in columns)
        database.execute(f"CREATE TABLE {quoted(need.table)} ({listed or 'nothing INTEGER'})")
        values = ", ".join(f"TRY_CAST({quoted(column.name)} AS {column.stored.kept_as})" for column in columns)
        longest = LONGEST_TEXT if is_private(self._catalog, need.table) else None
        for batch in self._reader.batches(rows_statement(relation, columns, need.owner, need.conjuncts, longest)):
            self._deadline.check()
            _insert(database, f"INSERT INTO {quoted(need.table)} SELECT {values or 'nothing'} FROM arriving_", batch)


def with_added(needs: Iterable[Need], added: list[AddedOwner]) -> tuple[Need, ...]:
    """The stored columns that are needed, where owners are added: these are made from all rows of the tables they read."""
    found = {need.table: need for need in needs}
    for one in reversed(added):
        if one.table not in found:
            continue
        for table, columns in one.reads.items():
            before = found[table].columns if table in found else ()
            own = {CARRIED_OWNER} if table == one.table else set()
            found[table] = Need(table, tuple(sorted({*before, *columns} - own)), None)
    return tuple(found.values())


def _insert(database: duckdb.DuckDBPyConnection, statement: str, batch: pa.RecordBatch) -> None:
    try:
        database.register("arriving_", pa.Table.from_batches([batch]))
        database.execute(statement)
        database.unregister("arriving_")
    except Exception as error:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
        raise failure_of(error) from None


def _together(needs: list[Need]) -> dict[str, Need]:
    """For each table the columns that some question needs, of the rows that all of them need."""
    found: dict[str, Need] = {}
    for need in needs:
        before = found.get(need.table, need)
        columns = tuple(sorted({*before.columns, *need.columns}))
        shared = tuple(c for c in before.conjuncts if c in need.conjuncts)
        found[need.table] = replace(need, columns=columns, conjuncts=shared)
    return found


def _widened(need: Need, planned: Need | None) -> Need:
    """What the whole query needs of a table, where that is no less."""
    if planned is None or not (
        set(need.columns) <= set(planned.columns) and set(planned.conjuncts) <= set(need.conjuncts)
    ):
        return need
    return replace(planned, owner=planned.owner if need.owner is not None else None)
