"""Apache Spark as an engine: one shuffle brings the rows of every owner together, and the embedded engine answers for each bucket.

    scan      the needed columns of every private table, of rows that have an owner
    cut       tasks cut rows by the bucket of their owner, into pieces of bytes (`pieces`)
    shuffle   (bucket, number of the table, piece), repartitioned by bucket
    task      pieces stream into a DuckDB of the task, which answers the question (`task`)
    add       answers of buckets, as bytes, are brought together by group and added up by further tasks (`partials`)

The session that was handed in is never reconfigured and never stopped. No text of an analyst reaches Spark.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.catalog import fold
from shoal.catalog.defaults import LONGEST_QUERY_SECONDS
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.checking.prepare import PlanChecker
from shoal.engines.duckdb.filled import filled
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.engines.partials import added, total_of
from shoal.engines.python_rows.pool import not_loaded
from shoal.engines.python_rows.stages import stages_of
from shoal.engines.python_rows.worker import LEAST_MEMORY
from shoal.engines.reading import Need, narrowed, needs_of, needs_of_scans
from shoal.engines.spark.decoding import ticked
from shoal.engines.spark.jobs import rows_at_once
from shoal.engines.spark.pieces import PIECES, Cutter, as_stream, labels_for
from shoal.engines.spark.stored import StoredTables
from shoal.engines.spark.task import (
    Job,
    adding_function,
    answer_in,
    cutting_function,
    in_utc,
    job_function,
    loading_function,
    reading_function,
)
from shoal.engines.spark.types import is_read
from shoal.engines.spark.versions import check, detached, installed, installed_here
from shoal.errors import ShoalError, missing_extra
from shoal.mechanisms.entropy import SYSTEM
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.plan.types import Kind
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shoal.catalog import Catalog
    from shoal.engines.base import Asked
    from shoal.engines.deadline import Deadline
    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.engines.python_rows.stages import Stage
    from shoal.engines.python_rows.worker import Work
    from shoal.engines.spark.files import Part
    from shoal.plan.nodes import Node
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.plan.types import Type

Shares = tuple[tuple["Part", ...], ...]
"""For each task the parts of files that it reads."""
MOST_PUBLIC_BYTES = 256 << 20
PACKED = "part int, rows binary"
MOST_PARTS = 256
"""Into this many parts the groups are cut at most, where answers of buckets are added up."""
BUCKET_BYTES = 32 << 20
"""Of stored columns, about two million rows."""
LONGEST_SECONDS = 6 * 3600.0
"""On the clock, where the catalog does not say how long a query may take."""


class SparkEngine(StoredTables):
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
        self._made_of_rows: dict[str, bool] = {}
        self._decoded: dict[str, tuple[Any, tuple[str, ...], object]] = {}
        self._public: dict[Need, pa.Table] = {}
        self._loaded: set[Work] = set()
        self._looked, self._seen_here = {}, set()
        self._named_rows: dict[str, tuple[tuple[str, Type], ...]] = {}
        self._copies = {}
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

    # ---- what there is -------------------------------------------------------------------------------------------

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

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Every statement of a plan, read over an empty copy of the schema; public tables, which every task gets, are small."""
        asked = asked_of(plan)
        self._plan_checker.check(plan, lambda _: asked, self.tables())
        self._refuse_unloadable(stages_of(plan))
        for query in asked.totals:
            needs = needs_of(narrowed(query))
            self._public_tables(needs)
            for need in needs:
                self._parts(need)
                self._decode_new_files(need.table)

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
        buckets = self._bucket_count(owned)
        parts = min(buckets, self._parallelism(), MOST_PARTS)
        shares: list[Shares | None] = self._ask(lambda: [self._parts(need) for need in owned])
        answers = self._shuffled(small, owned, shares, buckets).mapInArrow(job_function(job, parts), PACKED)
        totals = answers.repartition(parts, "part").mapInArrow(adding_function(), PACKED)
        handed_over = [need for need, share in zip(owned, shares, strict=True) if share is None]
        packed = self._ask(self._without_sizes(totals, self._rows_at_once(handed_over)).toArrow)
        none = added(nobody.rows)
        rows = [answer_in(stored).select(none.column_names) for stored in packed.column("rows").to_pylist()]
        return total_of(pa.concat_tables([none, *rows]), nobody)

    def _shuffled(self, query: TotalsQuery, owned: list[Need], shares: list[Shares | None], count: int) -> Any:
        """One frame with the rows of all tables in pieces, those of an owner in one partition."""
        labels = labels_for(count)
        cut_there = self._are_cut_by_tasks(query, owned)
        pieces: list[Any] = []
        for number, (need, share) in enumerate(zip(owned, shares, strict=True)):
            cutter = Cutter(number, labels, self._read(need).index(str(need.owner)) if cut_there else None)
            stored = self._stored(need)
            if cut_there and share is not None and stored is not None:
                tasks = self._spark.range(0, len(share), 1, len(share))
                pieces.append(tasks.mapInArrow(reading_function(share, stored, cutter), PIECES))
                continue
            columns = [self._f.col(ticked(name)).alias(f"c{i}") for i, name in enumerate(self._read(need))]
            if not cut_there:
                columns.append(self._bucket(query, need, owned, count).alias("bucket_"))
            pieces.append(self._scanned(need).select(*columns).mapInArrow(cutting_function(cutter), PIECES))
        return reduce(lambda all_, more: all_.unionAll(more), pieces).repartition(count, "part")

    def _bucket(self, query: TotalsQuery, need: Need, owned: list[Need], count: int) -> Any:
        if len(owned) > 1 and any(each.table in self._named_rows for each in owned):
            return self._f.lit(0)  # rows of two tables may have one name, and no columns in common
        return self._f.pmod(self._f.xxhash64(*self._owner(query, need)), self._f.lit(count)).cast("int")

    def _rows_at_once(self, handed_over: Iterable[Need]) -> int:
        """How many rows of any of these tables Spark may hand over at once."""
        texts = (sum(type_ == "VARCHAR" for _, type_ in self._columns(need).columns) for need in handed_over)
        return rows_at_once(max(texts, default=0), LONGEST_TEXT)

    def _bucket_count(self, owned: list[Need]) -> int:
        """As many as were asked for, else as many as Spark shuffles into; fewer where little is read: each costs a start."""
        if self._buckets is not None:
            return self._buckets
        shuffled = self._quietly(lambda: int(self._spark.conf.get("spark.sql.shuffle.partitions"))) or 1
        fewest = 2 * self._parallelism()
        sizes = [self._size(self._scanned(need)) for need in owned]
        if any(size is None for size in sizes):
            return max(shuffled, fewest)
        return max(fewest, min(shuffled, sum(size or 0 for size in sizes) // BUCKET_BYTES + 1))

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
