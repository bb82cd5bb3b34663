"""Post-processing: HAVING, ORDER BY, LIMIT, expressions, outer queries.

Touches released rows and public tables only, on a separate embedded DuckDB that sees nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from shoal.engines.duckdb.connection import failure_of
from shoal.engines.duckdb.filled import empty_database
from shoal.engines.duckdb.rendering import render
from shoal.engines.group_keys import as_arrow
from shoal.engines.statements.relations import Compiler
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.plan import nodes
from shoal.plan.expressions import Column as ColumnOf
from shoal.plan.nodes import Field, Node
from shoal.plan.traverse import all_nodes, rebuilt
from shoal.release.computed.carried import PUBLIC, Carried, Source, carry
from shoal.release.computed.columns import (
    all_symbols,
    computed_columns,
    computed_in_parts,
    passing_on,
)
from shoal.release.computed.draws import LookedAt
from shoal.release.computed.scalars import with_scalars_joined
from shoal.release.stored_rows import StoredRows, arrow_type, distinct_names
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from shoal.engines.base import Engine
    from shoal.engines.deadline import Deadline
    from shoal.plan.aggregates import NoisyMeasure
    from shoal.plan.releases import StatementPlan
    from shoal.release.computed.columns import Computed, Groups

LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of a relation over released rows and public tables: a few joins of a small table with itself would take all memory."""
BATCH_ROWS = 8192


class AnswerTooLargeError(Exception):
    """The result is larger than an answer may be. Its size follows from released and public rows alone."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Computed columns whose windows look at the same groups: the numbers of these groups, and which one each row shows."""

    computed: Mapping[int, Computed]
    components: pa.Table
    inputs: Mapping[str, Source]
    others: pa.Table
    groups: LookedAt


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that come from one part of a UNION ALL, such as one grouping of a ROLLUP, and the numbers behind them."""

    computed: Mapping[int, Computed]
    rows: NDArray[np.int64]
    """Which rows of the answer they are."""
    components: pa.Table
    inputs: Mapping[str, Source]
    others: pa.Table


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's rows; `carried` says which columns are plain copies of private aggregates, for intervals."""

    table: pa.Table
    components: pa.Table
    carried: Mapping[int, tuple[Source, ...]]
    released: Mapping[int, StoredRows]
    notes: tuple[str, ...] = ()
    computed: Mapping[int, Computed] = field(default_factory=dict)
    """Columns that are computed from private aggregates row by row, and what they read."""
    inputs: Mapping[str, Source] = field(default_factory=dict)
    others: pa.Table | None = None
    """What computed columns read besides private aggregates, row by row."""
    windows: tuple[Windows, ...] = ()
    """For computed columns that look at several groups: these groups."""
    parts: tuple[Part, ...] = ()
    """For columns that are computed in the parts of a UNION ALL: the rows of each part."""

    @property
    def row_by_row(self) -> list[Computed]:
        """The columns that are computed row by row, in every part of a UNION ALL."""
        in_first = self.parts[0].computed if self.parts else {}
        everywhere = [c for position, c in in_first.items() if all(position in part.computed for part in self.parts)]
        return [*self.computed.values(), *everywhere]


def public_rows(root: Node, engine: Engine) -> dict[str, pa.Table]:
    """The public tables an outer query reads, fetched from the engine; table name → rows with the catalog's columns."""
    return {scan.table: engine.fetch(scan) for scan in public_scans(root)}


def public_scans(root: Node) -> list[nodes.Scan]:
    """The public tables that an outer query reads."""
    return [node for node in all_nodes(root) if isinstance(node, nodes.Scan)]


def finish(
    plan: StatementPlan,
    released: dict[int, StoredRows],
    public: dict[str, pa.Table],
    deadline: Deadline,
    *,
    ordered: bool = False,
    entropy: Entropy = SYSTEM,
) -> Answer:
    """The answer of a statement, its rows in random order unless ORDER BY says otherwise."""
    tables: dict[str, pa.Table] = {f"released_{n}": r.table for n, r in released.items()}
    query, carried = on_its_own_stack(lambda: _compiled(plan, public, tables))
    rows = _run(query, tables, deadline)
    if not (ordered or is_ordered(plan.root)):
        rows = rows.take(as_arrow(entropy.permutation(rows.num_rows)))
    shown = plan.root.fields
    columns = [rows.column(f.symbol).combine_chunks() for f in shown]
    answer = pa.Table.from_arrays(
        [typed(c, f) for c, f in zip(columns, shown, strict=True)], names=distinct_names([f.name for f in shown])
    )
    extra = [number for sources in carried.values() for source in sources for number in source.numbers]
    every = computed_columns(plan)
    computed = {position: column for position, column in every.items() if column.groups is None}
    windows = tuple(_windows(plan, rows, every, (tables, released), deadline)) if len(computed) < len(every) else ()
    read = all_symbols(computed)
    inputs = {symbol: carried[symbol][0] for symbol in sorted(read & carried.keys())}
    by_position = {i: carried[f.symbol] for i, f in enumerate(shown) if f.symbol in carried}
    notes = tuple(note for r in released.values() for note in r.notes)
    others = rows.select(sorted(read - inputs.keys()))
    components = rows.select(list(dict.fromkeys(extra)))
    parts = tuple(_part(rows, columns, carried) for columns in computed_in_parts(plan))
    return Answer(answer, components, by_position, released, notes, computed, inputs, others, windows, parts)


def _part(rows: pa.Table, columns: Mapping[int, Computed], carried: Carried) -> Part:
    """The rows of one part of a UNION ALL: those that have all the numbers which its columns are computed from."""
    read = all_symbols(columns)
    inputs = {symbol: carried[symbol][0] for symbol in sorted(read & carried.keys())}
    numbers = list(dict.fromkeys(n for source in inputs.values() for n in source.numbers))
    present = np.ones(rows.num_rows, dtype=np.bool_)
    for name in numbers:
        present &= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
    own = np.flatnonzero(present)
    chosen = rows.take(as_arrow(own))
    return Part(dict(columns), own, chosen.select(numbers), inputs, chosen.select(sorted(read - inputs.keys())))


def _windows(
    plan: StatementPlan,
    rows: pa.Table,
    columns: Mapping[int, Computed],
    stored: tuple[dict[str, pa.Table], dict[int, StoredRows]],
    deadline: Deadline,
) -> Iterator[Windows]:
    """The groups that windows of columns look at, with the numbers behind them; rows of the answer are found by their keys."""
    tables, released = stored
    looked_at = {id(c.groups.rows): c.groups for c in columns.values() if c.groups is not None}
    for name, groups in looked_at.items():
        own = {position: c for position, c in columns.items() if c.groups is not None and id(c.groups.rows) == name}
        read = all_symbols(own)
        root, carried = carry(passing_on(groups.rows, read), plan)
        everything = evaluated(root, tables, deadline)
        keys = sorted(groups.keys)
        positions = {key: position for position, key in enumerate(_keys(everything, keys))}
        inputs = {symbol: carried[symbol][0] for symbol in sorted(read & carried.keys())}
        yield Windows(
            own,
            everything.select(list(dict.fromkeys(n for source in inputs.values() for n in source.numbers))),
            inputs,
            everything.select(sorted(read - inputs.keys())),
            LookedAt(
                everything.num_rows,
                np.array([positions.get(key, 0) for key in _keys(rows, keys)], dtype=np.int64),
                _sizes(plan, groups, everything, released),
                groups.even_chance,
                groups.of_sum is None,
            ),
        )


def _sizes(
    plan: StatementPlan, groups: Groups, everything: pa.Table, released: dict[int, StoredRows]
) -> NDArray[np.float64] | None:
    """How many owners each group has; if only a sum is known, as many as it takes if each adds the most that counts."""
    if not groups.size:
        return None
    numbers = np.asarray(everything.column(groups.size).to_numpy(zero_copy_only=False), dtype=np.float64)
    if groups.of_sum is None:
        return numbers
    select, column = groups.of_sum
    ran = released[select].columns or plan.selects[select].columns
    most = max(map(_most_of_one, (released[select].readings[0][release] for release in ran[column].releases)))
    return np.abs(np.nan_to_num(numbers)) / (most or 1.0)


def _most_of_one(taken: NoisyMeasure) -> float:
    """The most that one owner adds."""
    if taken.bounds is not None:
        return float(max(abs(taken.bounds.lower), abs(taken.bounds.upper)))
    return 0.0 if taken.measure.needs_bounds else float(taken.measure.delta(None))


def _keys(rows: pa.Table, names: list[str]) -> list[tuple[str, ...]]:
    """What identifies groups, as a string: NaN equals itself there."""
    columns = [list(map(repr, rows.column(name).to_pylist())) for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _compiled(plan: StatementPlan, public: dict[str, pa.Table], tables: dict[str, pa.Table]) -> tuple[str, Carried]:
    """The statement over stored rows; public tables that it reads are added to `tables`."""
    wanted = all_symbols(computed_columns(plan)).union(*(all_symbols(part) for part in computed_in_parts(plan)))
    passed_on = passing_on(with_scalars_joined(plan), wanted)
    root, carried = carry(_with_public(passed_on, public, tables), plan)
    return render(Compiler({}).relation(root)), carried


def statement_over_nulls(plan: StatementPlan, released: Mapping[int, pa.Table]) -> str:
    """The statement as it will run, over rows of NULLs that have the same types."""
    tables = {f"released_{number}": table for number, table in released.items()}
    public = {scan.table: _null_rows(scan) for scan in public_scans(plan.root)}
    query, _ = on_its_own_stack(lambda: _compiled(plan, public, tables))
    listed = ", ".join(f'"{name}" AS (SELECT {_typed_nulls(table)})' for name, table in tables.items())
    return f"WITH {listed} {query}"


def _null_rows(scan: nodes.Scan) -> pa.Table:
    return pa.table({f.symbol: pa.nulls(1, arrow_type(f.type)) for f in scan.fields})


def _typed_nulls(table: pa.Table) -> str:
    return ", ".join(f'CAST(NULL AS {_in_engine(field.type)}) AS "{field.name}"' for field in table.schema)


_IN_ENGINE = {
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.time64("us"): "TIME",
    pa.list_(pa.float64()): "DOUBLE[]",
}


def _in_engine(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _IN_ENGINE.get(type_, "INTEGER")


def is_ordered(node: Node) -> bool:
    """Whether the outermost relation is ordered."""
    while isinstance(node, nodes.Project):
        node = node.input
    return isinstance(node, nodes.Sort) and bool(node.order)


def typed(column: pa.Array, f: Field) -> pa.Array:
    """A column in its declared type; group keys leave as they were stored, if they fit there."""
    stored = STORED.get(f.type.storage)
    if stored is not None:
        with suppress(pa.ArrowInvalid):  # a value listed in the catalog may not fit the column
            return column.cast(stored)
    return column.cast(arrow_type(f.type), safe=False)


STORED: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "FLOAT": pa.float32(),
}


def schema_of(fields: Sequence[Field]) -> pa.Schema:
    """The columns of an answer, known from its plan: `typed` gives them these types."""
    types = [STORED.get(f.type.storage) or arrow_type(f.type) for f in fields]
    return pa.schema(list(zip(distinct_names([f.name for f in fields]), types, strict=True)))


def _with_public(root: Node, public: dict[str, pa.Table], tables: dict[str, pa.Table]) -> Node:
    """The tree with public scans replaced by the rows that were fetched; each scan has its own symbols."""
    numbers: dict[str, int] = {}

    def stored(node: Node) -> Node:
        if isinstance(node, nodes.Scan):
            if node.owner is not None:
                raise InternalError("a private table reached the post-processing")
            number = numbers.setdefault(node.table, PUBLIC + len(numbers))
            rows = public[node.table]
            tables[f"released_{number}"] = rows
            fetched = tuple(Field(f.name, name, f.type) for f, name in zip(node.fields, rows.column_names, strict=True))
            base = nodes.StoredRows(number, fetched)
            return nodes.Project(
                base, tuple((f, ColumnOf(b.symbol, b.type)) for f, b in zip(node.fields, fetched, strict=True))
            )
        return rebuilt(node, stored)

    return stored(root)


def evaluated(root: Node, tables: dict[str, pa.Table], deadline: Deadline) -> pa.Table:
    """The rows of a relation over stored rows alone, columns named by symbols."""
    return _run(on_its_own_stack(lambda: render(Compiler({}).relation(root))), tables, deadline)


def _run(query: str, tables: dict[str, pa.Table], deadline: Deadline) -> pa.Table:
    """The rows of a public relation, as long as they fit an answer."""
    deadline.check()
    try:
        with empty_database() as connection, deadline.stops(connection.interrupt):
            for name, table in tables.items():
                connection.register(name, table)
            return _read(connection.sql(query).to_arrow_reader(BATCH_ROWS))
    except (duckdb.Error, RuntimeError) as error:
        raise failure_of(error) from None


def _read(batches: pa.RecordBatchReader) -> pa.Table:
    """All rows; no more of them are held than an answer may have."""
    taken, size = [], 0
    for batch in batches:
        size += batch.nbytes
        if size > LARGEST_ANSWER:
            raise AnswerTooLargeError
        taken.append(batch)
    return pa.Table.from_batches(taken, batches.schema)
