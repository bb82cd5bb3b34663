"""A source → coded rows: each column as numbers into its sorted distinct values, each combination with how often it occurs.

NULL is a separate value and sorts first. Equal values are equal as text too (`-0.0` is `0`), so that a hierarchy and the
data always mean the same value.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.anonymity.hierarchies.values import Kind, kind_of, text_of
from shoal.catalog import fold
from shoal.engines.base import EngineFailure
from shoal.engines.sources import frame_table, open_source
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from shoal.engines.base import Engine

    Integers = NDArray[np.int64]

BARE = "table"
"""What a frame without a name is called."""

NEEDS_NO_ENGINE = 100_000
"""Rows of a frame that are quicker read directly than handed to an engine."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its distinct values in order (NULL first), and for each combination the position of its value."""

    name: str
    kind: Kind
    values: pa.Array
    codes: Integers

    @property
    def texts(self) -> list[str | None]:
        """The distinct values as a hierarchy writes them."""
        return [text_of(value) for value in self.values.to_pylist()]


@dataclass(frozen=True, slots=True)
class Rows:
    """Combinations of the named columns: their codes, their owner's number (None: a row is its own owner), their count."""

    table: str
    columns: dict[str, Column]
    owner: Integers | None
    count: Integers
    left_out: tuple[str, ...]
    ownerless: int = 0  # rows whose owner is NULL; together they count as one owner

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.count.sum())

    def where(self, kept: NDArray[np.bool_]) -> Rows:
        """Some of the combinations; the distinct values stay as they are."""
        columns = {
            name: Column(name, column.kind, column.values, column.codes[kept]) for name, column in self.columns.items()
        }
        owner = None if self.owner is None else self.owner[kept]
        return Rows(self.table, columns, owner, self.count[kept], self.left_out, self.ownerless)


def read_rows(
    source: Any,
    columns: Sequence[str],
    *,
    owner: str | None = None,
    table: str | None = None,
    prefer: str | None = None,
) -> Rows:
    """The combinations of some columns (and the owner) of a table of a source, read in one pass."""
    if table is None and is_bare(source):
        small = frame_table(BARE, source)
        if small.num_rows <= NEEDS_NO_ENGINE:
            return _rows_of_frame(small, columns, owner)
    with _opened(source) as engine:
        chosen = _choose_table(engine, table, prefer)
        known = [name for name, _ in engine.tables()[chosen]]
        wanted, positions, owner_position = _positions(known, columns, owner)
        batches = _batches(engine, chosen, wanted)
    left_out = tuple(name for name in known if name not in wanted)
    return coded_rows(pa.Table.from_batches(batches), positions, owner=owner_position, table=chosen, left_out=left_out)


def _positions(
    known: Sequence[str], columns: Sequence[str], owner: str | None
) -> tuple[list[str], dict[str, int], int | None]:
    """The columns to read, where each one asked for is among them, and where the owner is."""
    names = [find_column(known, name) for name in columns]
    owner_name = None if owner is None else find_column(known, owner)
    wanted = list(dict.fromkeys([*names, *([] if owner_name is None else [owner_name])]))
    positions = {asked: wanted.index(name) for asked, name in zip(columns, names, strict=True)}
    return wanted, positions, None if owner_name is None else wanted.index(owner_name)


def _rows_of_frame(frame: pa.Table, columns: Sequence[str], owner: str | None) -> Rows:
    """Each row a combination that occurs once; equal ones meet when tuples are counted."""
    wanted, positions, owner_position = _positions(frame.column_names, columns, owner)
    once = pa.array(np.ones(frame.num_rows, dtype=np.int64))
    chosen = frame.select(wanted).append_column("rows", once)
    left_out = tuple(name for name in frame.column_names if name not in wanted)
    return coded_rows(chosen, positions, owner=owner_position, left_out=left_out)


def is_bare(source: Any) -> bool:
    """Whether a source is one data frame without a name."""
    if isinstance(source, (str, dict)) or hasattr(source, "__fspath__"):
        return False
    return type(source).__name__ != "DuckDBPyConnection" and not type(source).__module__.startswith("pyspark.")


def table_names(source: Any) -> list[str]:
    """The tables of a source, in order."""
    with _opened(source) as engine:
        return sorted(engine.tables())


@contextmanager
def _opened(source: Any) -> Iterator[Engine]:
    engine = open_source({BARE: source} if is_bare(source) else source)
    try:
        yield engine
    finally:
        engine.close()


def _choose_table(engine: Engine, table: str | None, prefer: str | None) -> str:
    known = sorted(engine.tables())
    if table is not None:
        if fold(table) not in known:
            raise ShoalError(
                "E_UNKNOWN_TABLE", f"There is no table {table!r} in the source.", hint=f"It has: {', '.join(known)}."
            )
        return fold(table)
    if len(known) == 1:
        return known[0]
    if prefer is not None and prefer in known:
        return prefer
    if not known:
        raise ShoalError("E_SOURCE", "The source has no tables.")
    raise ShoalError(
        "E_USAGE", "The source has several tables; choose one.", hint=f"table= (--table) one of: {', '.join(known)}."
    )


def find_column(known: Sequence[str], wanted: str) -> str:
    """A column by name, ignoring case."""
    for name in known:
        if fold(name) == fold(wanted):
            return name
    raise ShoalError(
        "E_UNKNOWN_COLUMN", f"There is no column {wanted!r} in the table.", hint=f"It has: {', '.join(known)}."
    )


def _batches(engine: Engine, table: str, columns: list[str]) -> list[pa.RecordBatch]:
    """The combinations, strings as numbers into a dictionary for each batch: what is kept is small."""
    try:
        return [_encoded(batch) for batch in engine.combinations(table, columns)]
    except EngineFailure:
        raise ShoalError(
            "E_SOURCE", f"The table {table!r} could not be read to the end.", hint="Check that no file is truncated."
        ) from None


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        array.dictionary_encode() if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def coded_rows(
    combinations: pa.Table,
    positions: dict[str, int],
    *,
    owner: int | None = None,
    table: str = BARE,
    left_out: tuple[str, ...] = (),
) -> Rows:
    """Combinations as Arrow columns (their count last) → codes; `positions` says which column a name means."""
    coded = {name: _column(name, combinations.column(position)) for name, position in positions.items()}
    count = np.asarray(combinations.column(combinations.num_columns - 1).to_numpy(), dtype=np.int64)
    if owner is None:
        return Rows(table, coded, None, count, left_out)
    whose = combinations.column(owner)
    nobody = int(count[np.asarray(whose.is_null().to_numpy(), dtype=bool)].sum())
    return Rows(table, coded, _distinct(whose)[1], count, left_out, nobody)


def _column(name: str, column: pa.ChunkedArray) -> Column:
    kind = kind_of(column.type)
    distinct, codes = _distinct(column)
    order, position = _sorted_positions(distinct, kind)
    return Column(name, kind, distinct.take(pa.array(order)), position[codes])


def _distinct(column: pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """The distinct values of a column, NULL among them if it occurs, and the position of each row's value."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # a column without rows
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    values, indices = whole.dictionary, whole.indices
    nulls = indices.null_count > 0
    codes = np.asarray(indices.fill_null(len(values)).to_numpy(zero_copy_only=False), dtype=np.int64)
    if nulls:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return values, codes


def _sorted_positions(values: pa.Array, kind: Kind) -> tuple[Integers, Integers]:
    """Which values to keep, in order and each once, and for every value its position among those kept."""
    if kind == "text":
        texts = [text_of(value) for value in values.to_pylist()]
        order = np.array(sorted(range(len(texts)), key=lambda at: (texts[at] is not None, texts[at] or "")), np.int64)
    else:
        order = np.asarray(pc.array_sort_indices(values, null_placement="at_start").to_numpy(), dtype=np.int64)
        texts = [text_of(values[int(at)].as_py()) for at in range(len(values))] if kind == "number" else []
    if not len(order):
        return order, order
    fresh = np.ones(len(order), dtype=bool)
    if texts:
        fresh[1:] = [texts[a] != texts[b] for a, b in zip(order[:-1].tolist(), order[1:].tolist(), strict=True)]
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.cumsum(fresh) - 1
    return order[fresh], position
