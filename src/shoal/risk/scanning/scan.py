"""Scan tables: all columns in one pass, and combinations of the most unique ones.

>>> report = scan({"visits": {"uid": [1, 1, 2, 3], "city": ["Oslo", "Oslo", "Oslo", "Riga"]}}, owner="uid")
>>> report.sketches["visits.city"].share_below(2)
Estimate(value=0.5, low=0.5, high=0.5)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, Any

from shoal.catalog.owner_names import worth_a_look
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.hashing.canonical import has_canonical_form
from shoal.risk.hashing.keys import PROCESS_KEY, Key, KeyLike, ProcessKey, as_key
from shoal.risk.reports.report import Report
from shoal.risk.scanning.owner_guesses import described_candidates
from shoal.risk.scanning.sources import Table, open_tables
from shoal.risk.scanning.table_sketches import Plan, Subject, TableSketcher
from shoal.risk.scanning.workers import batch_task, shard_task, sketch_in_parallel
from shoal.risk.sketch.binary_format import check_sizes
from shoal.risk.sketch.files import SketchedDataset

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COMBINATIONS = 50
"""How many combinations of columns a scan sketches of one table unless asked otherwise."""

_WORTH_WORKERS = 20_000_000  # cells (or bytes, where rows are unknown), below which one process is faster

Columns = Sequence[str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a scan is."""

    dataset: str
    rows: int
    total: int | None


def scan(
    source: Any,
    owner: str | Mapping[str, str] | None = None,
    columns: Columns | None = None,
    combine: int = 1,
    key: KeyLike = PROCESS_KEY,
    *,
    k: int = 2048,
    m: int = 512,
    tables: Sequence[str] | None = None,
    max_combinations: int = MAX_COMBINATIONS,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Sketch every column of every table of a source in one pass.

    Args:
        source: a parquet, CSV or JSON lines file, a folder or glob of them, a DuckDB file, connection or relation, a
        data
            frame, or a dict of name → data frame.
        owner: the column that says whose a row is, for all tables or by table; tables without it count each row as an
            owner of its own, and say so.
        columns: what to sketch, by default every column; a tuple of names is a combination.
        combine: 2 adds all pairs of the most unique columns, 3 all triples too, `max_combinations` of them at most.
        key: the operator's secret. By default a secret of this process, which is never stored: sketches can then be
            compared with each other only.
        k: values sampled per column.
        m: registers per sampled value.
        tables: only these tables.
        max_combinations: the most combinations to sketch of one table.
        workers: processes; by default one for each core when there is enough to do.
        progress: is called with how far the scan is, from time to time.
    """
    check_sizes(k, m)
    if isinstance(combine, bool) or not isinstance(combine, int) or not 1 <= combine <= 4:
        raise ShoalError("E_USAGE", "combine is 1 (columns alone) to 4.")
    secret, short_lived = as_key(key), isinstance(key, ProcessKey)
    found = open_tables(source, None if tables is None else list(tables))
    owners = _owners_of_tables(owner, found)
    wanted = _wanted(columns, found)
    settings = _Settings(secret, combine, k, m, max_combinations, workers, progress)
    scanned = [_scan_table(table, owners[table.name], wanted, settings) for table in found]
    return Report(tuple(scanned), key_thrown_away=short_lived)


@dataclass(frozen=True, slots=True)
class _Settings:
    key: Key
    combine: int
    k: int
    m: int
    max_combinations: int
    workers: int | None
    progress: Callable[[Progress], None] | None


def _owners_of_tables(owner: str | Mapping[str, str] | None, tables: list[Table]) -> dict[str, str | None]:
    if isinstance(owner, Mapping):
        strange = set(owner) - {table.name for table in tables}
        if strange:
            raise ShoalError("E_UNKNOWN_TABLE", f"There is no table {min(strange)!r} in the source.")
        for table in tables:
            if table.name in owner and owner[table.name] not in table.schema.names:
                raise _no_such_owner(owner[table.name], [table])
        return {table.name: owner.get(table.name) for table in tables}
    if owner is not None and not any(owner in table.schema.names for table in tables):
        raise _no_such_owner(owner, tables)
    return {table.name: owner if owner in table.schema.names else None for table in tables}


def _no_such_owner(owner: str, tables: list[Table]) -> ShoalError:
    guesses = list(dict.fromkeys(chain.from_iterable(worth_a_look(table.schema.names) for table in tables)))[:5]
    hint = (
        f"Columns that look like an owner: {', '.join(guesses)}." if guesses else "Without an owner, rows are counted."
    )
    return ShoalError("E_UNKNOWN_COLUMN", f"There is no column {owner!r}.", hint=hint)


def _wanted(columns: Columns | None, tables: list[Table]) -> list[Subject] | None:
    """The named columns and combinations; each column must be in some table."""
    if columns is None:
        return None
    subjects = [(entry,) if isinstance(entry, str) else tuple(entry) for entry in columns]
    known = set(chain.from_iterable(table.schema.names for table in tables))
    for column in chain.from_iterable(subjects):
        if column not in known:
            raise ShoalError("E_UNKNOWN_COLUMN", f"There is no column {column!r}.")
    return list(dict.fromkeys(subjects))


def _scan_table(table: Table, owner: str | None, wanted: list[Subject] | None, settings: _Settings) -> SketchedDataset:
    usable = [field.name for field in table.schema if has_canonical_form(field.type)]
    skipped = [name for name in table.schema.names if name not in usable]
    every: list[Subject] = [(name,) for name in usable]
    subjects = every if wanted is None else [subject for subject in wanted if set(subject) <= set(usable)]
    notes = [f"The column {name!r} was left out: its type has no canonical form." for name in skipped]
    if settings.combine > 1:
        added, note = _combinations(table, owner, subjects, settings)
        subjects += [subject for subject in added if subject not in subjects]
        notes.append(note)
    plan = Plan(owner, tuple(subjects), settings.k, settings.m)
    sketcher = _sketched(table, plan, settings)
    notes += _notes_on_owner(owner, sketcher)
    types = {s: str(table.schema.field(s[0]).type) if len(s) == 1 else "combination" for s in subjects}
    candidates = () if owner is not None else tuple(described_candidates(table.schema, sketcher))
    return SketchedDataset(table.name, owner, sketcher.rows, sketcher.sketches, types, tuple(notes), candidates)


def _notes_on_owner(owner: str | None, sketcher: TableSketcher) -> list[str]:
    if owner is None:
        return ["No owner column: every row counts as its own owner."]
    owned = max((sketch.rows for sketch in sketcher.sketches.values()), default=sketcher.rows)
    lost = sketcher.rows - owned
    return [f"{lost:,} rows have no owner and were left out."] if lost else []


# combinations


def _combinations(
    table: Table, owner: str | None, subjects: list[Subject], settings: _Settings
) -> tuple[list[Subject], str]:
    """Combinations of the most unique columns, as many columns as the limit allows."""
    columns = [subject[0] for subject in subjects if len(subject) == 1 and subject[0] != owner]
    count = _columns_within(settings.max_combinations, settings.combine, len(columns))
    chosen = sorted(_most_unique(table, owner, columns, settings)[:count])
    sizes = range(2, settings.combine + 1)
    made: list[Subject] = list(chain.from_iterable(combinations(chosen, size) for size in sizes))
    limit = "" if count == len(columns) else f" (of {len(columns)}; at most {settings.max_combinations} combinations)"
    noun = "combination" if len(made) == 1 else "combinations"
    return made, f"{len(made)} {noun} of the {len(chosen)} most unique columns{limit}."


def _columns_within(limit: int, combine: int, available: int) -> int:
    fitting = [n for n in range(available + 1) if sum(comb(n, size) for size in range(2, combine + 1)) <= limit]
    return fitting[-1]


def _most_unique(table: Table, owner: str | None, columns: list[str], settings: _Settings) -> list[str]:
    """By the first batch: columns by share of values with few owners; those that identify by themselves come last."""
    plan = Plan(owner, tuple((column,) for column in columns), settings.k, settings.m)
    sketcher = TableSketcher(plan, settings.key)
    for batch in table.source.batches(plan.columns):
        sketcher.take(batch)
        break
    ranks = {}
    for (column,), sketch in sketcher.sketches.items():
        alone = sketch.share_below(2, of="owners").value
        ranks[column] = (
            alone >= 0.9,
            -sketch.share_below(10, of="owners").value,
            -sketch.distinct_values().value,
            column,
        )
    return sorted(ranks, key=lambda column: ranks[column])


# reading


def _sketched(table: Table, plan: Plan, settings: _Settings) -> TableSketcher:
    sketcher = TableSketcher(plan, settings.key)
    if not plan.subjects:
        return sketcher
    told = _Telling(table, settings.progress)
    workers = settings.workers or (_cores() if table.size >= _WORTH_WORKERS else 1)
    if workers == 1:
        for batch in table.source.batches(plan.columns):
            sketcher.take(batch)
            told(batch.num_rows)
        return sketcher
    shards = table.source.shards()
    tasks = (shard_task(shard) for shard in shards) if shards else _batch_tasks(table, plan)
    sketch_in_parallel(sketcher, settings.key, tasks, min(workers, len(shards) or workers), told)
    return sketcher


def _batch_tasks(table: Table, plan: Plan) -> Iterator[tuple[bytes, bytes]]:
    batches: Iterator[pa.RecordBatch] = table.source.batches(plan.columns)
    return (batch_task(batch) for batch in batches)


def _cores() -> int:
    if not sys.executable:  # embedded in another program: nothing to start workers with
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Telling:
    """Adds up rows and reports them to whoever wants to know."""

    def __init__(self, table: Table, progress: Callable[[Progress], None] | None) -> None:
        self._table, self._progress, self._rows = table, progress, 0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress(Progress(self._table.name, self._rows, self._table.rows))
