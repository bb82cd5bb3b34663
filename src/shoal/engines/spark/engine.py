"""Apache Spark as an engine: one shuffle brings the rows of every owner together, and the embedded engine answers for each bucket.

    scan      the needed columns of every private table, of rows that have an owner
    shuffle   the columns of the one table, or (number of the table, one struct for each table), repartitioned by owner
    task      rows stream into a DuckDB of the task, which answers the question (`task`)
    add       answers of buckets, as bytes, are brought together by group and added up by further tasks (`partials`)

The session that was handed in is never reconfigured and never stopped. No text of an analyst reaches Spark.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.catalog import CARRIED_OWNER, fold
from shoal.catalog.defaults import LONGEST_QUERY_SECONDS
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.checking.prepare import PlanChecker
from shoal.engines.duckdb.filled import filled
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.engines.partials import added, total_of
from shoal.engines.python_rows.pool import not_loaded
from shoal.engines.python_rows.stages import stages_of
from shoal.engines.python_rows.worker import LEAST_MEMORY
from shoal.engines.reading import Need, is_private, narrowed, needs_of, needs_of_scans
from shoal.engines.spark.plans import fragile_part
from shoal.engines.spark.task import (
    Columns,
    Job,
    adding_function,
    answer_in,
    as_stream,
    in_utc,
    job_function,
    loading_function,
)
from shoal.engines.spark.types import compared, is_collated, is_read, named, narrowing, sound_text
from shoal.engines.spark.versions import check, detached, installed, installed_here
from shoal.errors import ShoalError, missing_extra
from shoal.mechanisms.entropy import SYSTEM
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.plan.types import Kind
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shoal.catalog import Catalog, Table
    from shoal.engines.base import Asked
    from shoal.engines.deadline import Deadline
    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.engines.python_rows.stages import Stage
    from shoal.engines.python_rows.worker import Work
    from shoal.plan.nodes import Node
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.plan.types import Type

MOST_PUBLIC_BYTES = 256 << 20
LABELS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
KEY = "(key)"
PACKED = "part int, rows binary"
MOST_PARTS = 256
"""Into this many parts the groups are cut at most, where answers of buckets are added up."""
LONGEST_SECONDS = 6 * 3600.0
"""On the clock, where the catalog does not say how long a query may take."""


class SparkEngine:
    """The tables of one Spark session, classic or Connect, that a catalog names."""

    name = "Spark"
    warnings: tuple[str, ...] = ()

    def __init__(self, spark: Any, catalog: Catalog | None = None, buckets: int | None = None) -> None:
        try:
            from pyspark.sql import functions
        except ImportError:
            raise missing_extra("spark", "A Spark session") from None
        if buckets is not None and (not isinstance(buckets, int) or isinstance(buckets, bool) or buckets < 1):
            raise ShoalError("E_USAGE", "buckets is a whole number from 1.")
        self._spark, self._f = spark, functions
        self._catalog = catalog
        self._buckets = buckets
        self._frames: dict[str, Any] = {}
        self._fragile: dict[str, str | None] = {}
        self._public: dict[Need, pa.Table] = {}
        self._loaded: set[Work] = set()
        self._named_rows: dict[str, tuple[tuple[str, Type], ...]] = {}
        self._group = ""
        self._plan_checker = PlanChecker(LOCKDOWN)
        self._check_executors()
        for key, table in self._named(catalog).items():
            frame = self._quietly(partial(self._spark.table, table))
            if frame is not None:
                self._keep(key, frame)
        if catalog is not None:
            for table_ in catalog.tables.values():
                self._refuse_alike(table_.name, "E_SOURCE")
                self._refuse_loose_owner(table_)
        if not self._frames and not any(t.view for t in (catalog.tables.values() if catalog else ())):
            raise ShoalError(
                "E_SOURCE", "The Spark session has no table of the catalog.", hint="Register it as a view."
            )

    def __repr__(self) -> str:
        return "SparkEngine()"

    def _named(self, catalog: Catalog | None) -> dict[str, str]:
        if catalog is not None:
            return {key: t.source or t.name for key, t in catalog.tables.items() if t.view is None}
        found = self._quietly(self._spark.catalog.listTables) or []
        return {fold(table.name): table.name for table in found}

    def _keep(self, key: str, frame: Any) -> None:
        if self._quietly(lambda: frame.schema) is None:
            return
        self._frames[key] = frame
        self._fragile[key] = fragile_part(self._quietly(lambda: explained(frame)) or "")

    @staticmethod
    def _quietly(action: Callable[[], Any]) -> Any:
        """What an action gives, or None: nothing that Spark says about a failure goes any further."""
        with suppress(Exception):
            return action()
        return None

    def _ask(self, action: Callable[[], Any]) -> Any:
        """What an action gives; `EngineFailure` without a context where it fails. Ctrl+C cancels our jobs."""
        with suppress(Exception):
            try:
                return action()
            except KeyboardInterrupt:
                self._cancel()
                raise
        raise EngineFailure

    def _check_executors(self) -> None:
        """One tiny job asks what executors have; where that fails, one without Arrow says what they lack."""
        width = self._parallelism()
        numbers = self._spark.range(0, width, 1, width)
        job = numbers.mapInArrow(detached(installed), "versions string")
        found = self._quietly(lambda: [row[0] for row in job.collect()])
        if found is None:
            plain = self._f.udf(detached(installed_here), "string", useArrow=False)
            found = self._quietly(lambda: [row[0] for row in numbers.select(plain("id")).collect()])
        check(found or [])
        if not found:
            raise ShoalError(
                "E_SOURCE",
                "The executors of Spark cannot run Python functions over Arrow.",
                hint="pip install 'shoal[spark]' on executors, or ship an environment by spark.archives.",
            )

    def _parallelism(self) -> int:
        default = self._quietly(lambda: int(self._spark.sparkContext.defaultParallelism))
        return default or 2

    def _refuse_alike(self, table: str, code: str) -> None:
        """Two columns of one name: no query could say which one it means."""
        frame = self._frames.get(fold(table))
        names = [fold(field.name) for field in frame.schema.fields] if frame is not None else []
        for name in names:
            if names.count(name) > 1:
                raise ShoalError(
                    code,
                    f"The table {table!r} has several columns called {name!r} (names are compared without case).",
                    hint="Give each a name of its own in the table's view: SELECT a AS first, b AS second FROM …",
                )

    def _refuse_loose_owner(self, table: Table) -> None:
        frame = self._frames.get(fold(table.name))
        for field in frame.schema.fields if frame is not None and table.owner is not None else ():
            if fold(field.name) == fold(table.owner or "") and is_collated(field.dataType):
                raise ShoalError(
                    "E_SOURCE",
                    f"The owner column of {table.name!r} has a collation under which different strings are equal.",
                    hint="Cast it to a plain string in the table's view.",
                )

    # ---- what there is -------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """The catalog's tables."""
        found = {key: [(f.name, named(f.dataType)) for f in frame.schema.fields] for key, frame in self._frames.items()}
        for table in self._named_rows:
            found[table].append((CARRIED_OWNER, "VARCHAR"))
        return found

    def add_view(self, view: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """The custodian's Spark SQL."""
        frame = self._quietly(lambda: self._spark.sql(sql))
        schema = None if frame is None else self._quietly(lambda: frame.schema)
        if schema is None:
            raise ShoalError(
                "E_CATALOG", f"The view of table {view!r} in the catalog is not a query this Spark session can run."
            )
        self._keep(fold(view), frame)
        self._refuse_alike(view, "E_CATALOG")
        if not trusted:
            self.refuse_fragile_view(view)
        return self.tables()[fold(view)]

    def refuse_fragile_view(self, name: str) -> None:
        """E_CATALOG for what computes or converts anything: Spark says of no expression that it cannot fail."""
        found = self._fragile[fold(name)]
        if found is None:
            return
        raise ShoalError(
            "E_CATALOG",
            f"Reading {name!r} can fail on single rows: {found}.",
            hint="Store it as parquet, or keep it to columns of such tables. If no row can fail, say trusted_view = true.",
        )

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """Spark joins the owner in, where values are sure to be compared as queries compare them."""
        frames = self._frames[fold(table)], self._frames[fold(to)]
        pairs = zip(frames, (through, key), strict=True)
        mine, other = (
            compared(self._f, frame.schema[name].dataType, _tick(name), type_) for frame, (name, type_) in pairs
        )
        if mine is None or other is None or through[1].kind is not key[1].kind or fold(to) in self._named_rows:
            raise ShoalError(
                "E_CATALOG",
                f"The owner of {table!r} cannot be carried over on Spark, except by whole numbers, dates or strings.",
                hint="Join the owner in by the table's view, or write the table with it.",
            )
        known = frames[1].select(other.alias(KEY), self._f.col(_tick(owner)).alias(CARRIED_OWNER))
        self._frames[fold(table)] = frames[0].join(known, mine == self._f.col(_tick(KEY)), "inner").drop(KEY)
        self._fragile[fold(table)] = self._fragile[fold(table)] or self._fragile[fold(to)]

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """Rows are named where they are measured; equal ones come there together."""
        self._named_rows[fold(table)] = tuple(each for each in columns if each[1].kind is not Kind.UNSUPPORTED)

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """Sizes of public tables."""
        return {fold(name): int(self._ask(self._frames[fold(name)].count)) for name in names}

    def repeats(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The rows of the most frequent value of each column, values compared as queries compare them."""
        wanted = list(columns)
        with self._holding([self._whole(table, [name for name, _ in wanted])]) as engine:
            return engine.repeats(table, wanted)

    def longest_texts(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The bytes of the longest string of each column."""
        wanted = [each for each in columns if each[1].kind is Kind.TEXT]
        if not wanted:
            return {}
        with self._holding([self._whole(table, [name for name, _ in wanted])]) as engine:
            return engine.longest_texts(table, wanted)

    def combinations(self, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Every combination of some columns' values, and in the last column its number of rows."""
        with self._holding([self._whole(table, columns)]) as engine:
            yield from engine.combinations(table, columns)

    def columns(self, table: str, columns: list[str], longest_text: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some columns as they are stored."""
        with self._holding([self._whole(table, columns)]) as engine:
            yield from engine.columns(table, columns, longest_text)

    def _whole(self, table: str, columns: list[str]) -> Need:
        types = dict(self.tables()[fold(table)])
        return Need(fold(table), tuple(name for name in columns if is_read(types[name])), None)

    # ---- one query -----------------------------------------------------------------------------------------------

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[SparkEngine]:
        """The engine for one query: its jobs have their own group, which the deadline cancels."""
        defaults = self._catalog.defaults if self._catalog is not None else None
        if defaults is not None and defaults.max_seconds_per_query == LONGEST_QUERY_SECONDS:
            deadline.allow(LONGEST_SECONDS)
        taken = copy(self)
        taken._public = {}  # noqa: SLF001 - a copy of ourselves
        taken._group = f"shoal-{int(SYSTEM.uint64(1)[0]):016x}"  # noqa: SLF001 - same
        if self._quietly(lambda: self._spark.range(1).schema) is None:
            raise EngineFailure
        with deadline.stops(taken._cancel), taken._labelled():  # noqa: SLF001 - same
            yield taken

    @contextmanager
    def _labelled(self) -> Iterator[None]:
        """Jobs of this thread belong to our group; what was set before is set again. Descriptions hold no SQL."""
        context = self._quietly(lambda: self._spark.sparkContext)
        if context is None:  # Connect has tags instead
            self._quietly(lambda: self._spark.addTag(self._group))
        before = {
            name: self._quietly(partial(context.getLocalProperty, name)) for name in LABELS if context is not None
        }
        try:
            if context is not None:
                self._quietly(lambda: context.setJobGroup(self._group, "shoal", interruptOnCancel=True))
            yield
        finally:
            for name, value in before.items():
                self._quietly(partial(context.setLocalProperty, name, value))
            if context is None:
                self._quietly(lambda: self._spark.removeTag(self._group))

    def _cancel(self) -> None:
        """Stops our jobs, and no others."""
        context = self._quietly(lambda: self._spark.sparkContext)
        if context is not None and self._group:
            self._quietly(lambda: context.cancelJobGroup(self._group))
        elif self._group:
            self._quietly(lambda: self._spark.interruptTag(self._group))

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Every statement of a plan, read over an empty copy of the schema; public tables, which every task gets, are small."""
        asked = asked_of(plan)
        self._plan_checker.check(plan, lambda _: asked, self.tables())
        self._refuse_unloadable(stages_of(plan))
        for query in asked.totals:
            self._public_tables(needs_of(narrowed(query)))

    def _refuse_unloadable(self, stages: tuple[Stage, ...]) -> None:
        """E_USAGE where executors cannot load the functions of a collection; asked by a tiny job, once for each function."""
        works = tuple(work for stage in stages if (work := stage.work(LEAST_MEMORY)) not in self._loaded)
        if not works:
            return
        job = self._spark.range(0, 1, 1, 1).mapInArrow(loading_function(works), "loaded boolean")
        found = self._quietly(lambda: [bool(row[0]) for row in job.collect()])
        if not found or not all(found):
            raise not_loaded()
        self._loaded.update(works)

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """The exact integers of a contribution query."""
        small = narrowed(query)
        needs = needs_of(small)
        owned = [need for need in needs if need.owner is not None]
        public = self._public_tables(needs)
        described = tuple(self._columns(need) for need in owned)
        rows_named = {need.table: self._named_rows[need.table] for need in owned if need.table in self._named_rows}
        job = Job(small, key, described, {name: as_stream(table) for name, table in public.items()}, rows_named)
        nobody = job.measured(())
        parts = min(self._bucket_count(), self._parallelism(), MOST_PARTS)
        answers = self._shuffled(small, owned).mapInArrow(job_function(job, parts), PACKED)
        totals = answers.repartition(parts, "part").mapInArrow(adding_function(), PACKED)
        packed = self._ask(totals.toArrow)
        none = added(nobody.rows)
        rows = [answer_in(stored).select(none.column_names) for stored in packed.column("rows").to_pylist()]
        return total_of(pa.concat_tables([none, *rows]), nobody)

    def _shuffled(self, query: TotalsQuery, owned: list[Need]) -> Any:
        """One frame with the rows of all tables, those of an owner in one partition."""
        f, count = self._f, self._bucket_count()
        scans = [self._scanned(need) for need in owned]
        named = [[f.col(_tick(c)).alias(f"c{i}") for i, c in enumerate(self._read(need))] for need in owned]
        owners = [f.xxhash64(*self._owner(query, need)) for need in owned]
        if len(owned) > 1 and any(need.table in self._named_rows for need in owned):
            owners = [f.lit(0)] * len(owned)  # rows of two tables may have one name, and no columns in common
        if len(owned) == 1:  # plain columns: structs would cost as much again as the rows
            return scans[0].repartition(count, owners[0]).select(*named[0])
        structs = [f.struct(*columns) for columns in named]
        types = [
            scan.select(struct.alias("t")).schema["t"].dataType for scan, struct in zip(scans, structs, strict=True)
        ]
        parts = []
        for number, (scan, owner) in enumerate(zip(scans, owners, strict=True)):
            others = [
                (structs[i] if i == number else f.lit(None).cast(type_)).alias(f"t{i}") for i, type_ in enumerate(types)
            ]
            parts.append(scan.select(owner.alias("owner_"), f.lit(number).alias("table_"), *others))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        return whole.repartition(count, "owner_").drop("owner_")

    def _bucket_count(self) -> int:
        if self._buckets is not None:
            return self._buckets
        shuffled = self._quietly(lambda: int(self._spark.conf.get("spark.sql.shuffle.partitions"))) or 1
        return max(shuffled, 2 * self._parallelism())

    def _owner(self, query: TotalsQuery, need: Need) -> list[Any]:
        """The owner in a form that is the same in all tables; whole numbers that are stored as reals are read as such."""
        if need.table in self._named_rows:
            return self._content(need.table)
        scan = next(
            n
            for n in all_nodes(query.input)
            if isinstance(n, nodes.Scan) and n.table == need.table and n.owner is not None
        )
        type_ = nodes.field_of(scan, scan.owner or "").type
        column = self._f.col(_tick(str(need.owner)))
        forms = {"integer": "bigint", "date": "date", "boolean": "boolean"}
        target = str(type_) if type_.kind.value == "decimal" else forms.get(type_.kind.value)
        if type_.kind.value == "timestamp":
            return [self._f.lit(0)]  # instants with and without a zone have no common text
        return [column.try_cast(target) if target else column.cast("string")]

    def _content(self, table: str) -> list[Any]:
        """Something that is equal for rows that queries cannot tell apart."""
        schema = self._frames[table].schema
        forms = [
            compared(self._f, schema[name].dataType, _tick(name), type_) for name, type_ in self._named_rows[table]
        ]
        return [form for form in forms if form is not None] or [self._f.lit(0)]

    def _read(self, need: Need) -> list[str]:
        """The needed columns; of a view all of them, so that no query decides what is computed."""
        if need.table in self._named_rows:
            return [name for name, _ in self._named_rows[need.table]]
        if self._fragile[need.table] is None:
            return list(need.columns)
        return [name for name, type_ in self.tables()[need.table] if is_read(type_)]

    def _columns(self, need: Need) -> Columns:
        types = dict(self.tables()[need.table])
        return Columns(need.table, tuple((name, types[name]) for name in self._read(need)))

    def _scanned(self, need: Need) -> Any:
        frame = self._frames[need.table]
        if need.owner is not None and need.table not in self._named_rows:
            frame = frame.where(self._f.col(_tick(need.owner)).isNotNull())
        if self._fragile[need.table] is None:
            for conjunct in need.conjuncts:
                stored = frame.schema[conjunct.column].dataType
                condition = narrowing(self._f, stored, _tick(conjunct.column), conjunct)
                frame = frame if condition is None else frame.where(condition)
        return frame.select(*(self._handed_over(frame, need.table, column) for column in self._read(need)))

    def _handed_over(self, frame: Any, table: str, name: str) -> Any:
        """A column; strings of private rows that no query would read stay where they are: tasks get rows in blocks of 2 GiB."""
        if named(frame.schema[name].dataType) != "VARCHAR":
            return self._f.col(_tick(name))
        longest = LONGEST_TEXT if is_private(self._catalog, table) else None
        return sound_text(self._f, _tick(name), longest).alias(name)

    # ---- public rows ---------------------------------------------------------------------------------------------

    def _public_tables(self, needs: Iterable[Need]) -> dict[str, pa.Table]:
        found = {}
        for need in needs:
            if need.owner is None:
                if need not in self._public:
                    self._public[need] = self._collected(need)
                found[need.table] = self._public[need]
        if sum(table.nbytes for table in found.values()) > MOST_PUBLIC_BYTES:
            raise ShoalError(
                "E_LIMITS",
                "The public tables of the query are too large to be sent to every task.",
                hint="Join a smaller table, or one with fewer columns; 256 MB is the limit.",
            )
        return found

    def _collected(self, need: Need) -> pa.Table:
        """Rows that the driver holds: of public tables, or for tools of the custodian."""
        plain = replace(need, conjuncts=())
        columns = self._columns(plain).columns
        table = in_utc(self._ask(lambda: self._scanned(plain).toArrow()))
        return table.rename_columns([name for name, _ in columns])

    @contextmanager
    def _holding(self, needs: Iterable[Need]) -> Iterator[DuckDBEngine]:
        with ExitStack() as opened:
            yield opened.enter_context(filled({need.table: self._collected(need) for need in needs}))

    def fetch(self, node: Node) -> pa.Table:
        """The rows of a public relation."""
        scans = [part for part in all_nodes(node) if isinstance(part, nodes.Scan)]
        with self._holding(needs_of_scans(scans)) as engine:
            return engine.fetch(node)

    def close(self) -> None:
        """The session was handed in, and stays as it is."""


def explained(frame: Any) -> str:
    """The plans of a frame, as Spark prints them."""
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().toString())  # noqa: SLF001 - the classic frame has no other way
    return str(frame._explain_string(extended=True))  # noqa: SLF001 - nor has that of Connect


def _tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
