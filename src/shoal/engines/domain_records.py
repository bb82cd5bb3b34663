"""Rows of a table → positions in a policy's domain, and counts of them: all that a policy ever asks the data for.

Where counts are enough (`read_counts`), rows pass through memory a batch at a time. At most so many of each owner are drawn by
an engine of our own, under its memory limit, and what is kept has the size of the domain.

Values of an ordered attribute are rounded down, then clamped to its range: two values that are an edge apart stay an edge apart
or become equal (rounding to even would not do). A row with NULL, NaN or an unknown value in any attribute is dropped; that it is
dropped is not hidden. Rows per owner are drawn uniformly, by fresh randomness that looks at no value: a pick keyed by content
would jump when the content moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.catalog import fold
from shoal.engines.duckdb.filled import COUNT, OWNER, PRIORITY, drawn_rows
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM, Entropy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from shoal.engines.base import Engine
    from shoal.engines.deadline import Deadline
    from shoal.policies.domain import Attribute, Domain

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "U")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")

LONGEST_NAME = 1 << 16
"""Bytes of an owner's name, and of a value that an attribute lists: as in queries, longer strings are missing."""


@dataclass(frozen=True)
class Records:
    """The kept rows, attribute by attribute, as positions."""

    domain: Domain
    positions: tuple[NDArray[np.int64], ...]

    @property
    def n(self) -> int:
        """How many rows are kept."""
        return len(self.positions[0])

    def at(self, name: str) -> NDArray[np.int64]:
        """The positions of one attribute."""
        return self.positions[self.domain.axis(name)]

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """How many rows have each value of these attributes."""
        seen = self.domain.projected(names).require_enumerable()
        index = np.ravel_multi_index([self.at(name) for name in seen.names], seen.shape)
        return np.bincount(index, minlength=seen.size).astype(np.int64, copy=False)


@dataclass(frozen=True)
class Counted:
    """How many rows are kept, and how many have each value of the attributes that were asked about."""

    domain: Domain
    n: int
    histograms: Mapping[tuple[str, ...], NDArray[np.int64]]

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """How many rows have each value of these attributes."""
        return self.histograms[self.domain.projected(names).names]


@dataclass(frozen=True)
class Inside:
    """Rows whose values of some attributes are among listed ones."""

    names: tuple[str, ...]
    passes: NDArray[np.bool_]


def check_columns(engine: Engine, table: str, domain: Domain, owner: str | None) -> list[str]:
    """The table's names of the attributes (and of the owner, last); a column that does not fit is refused."""
    known = {fold(column): (column, kind) for column, kind in engine.tables().get(fold(table), [])}
    wanted = [*domain.names, *([owner] if owner is not None else [])]
    for name in wanted:
        if fold(name) not in known:
            raise ShoalError(
                "E_USAGE", f"The data has no column {name!r}.", hint=f"Attributes: {', '.join(domain.names)}."
            )
    for attribute in domain.attributes:
        kind = known[fold(attribute.name)][1].upper()
        if not _fits(attribute, kind):
            wants = "numbers" if attribute.ordered else "the type of its listed values"
            raise ShoalError("E_USAGE", f"The column {attribute.name!r} is {kind}; the attribute takes {wants}.")
    return [known[fold(name)][0] for name in wanted]


def _fits(attribute: Attribute, kind: str) -> bool:
    if attribute.ordered:
        # Arrow has no number as wide as UHUGEINT: its upper half would arrive below zero.
        return kind.startswith(_NUMBERS) and not kind.startswith(("UUID", "UNION", "UHUGEINT"))
    first = attribute.values[0]
    if isinstance(first, bool):
        return kind == "BOOLEAN"
    return kind.startswith(_WHOLE) if isinstance(first, int) else kind.startswith(("VARCHAR", "ENUM"))


def read_records(
    engine: Engine,
    table: str,
    domain: Domain,
    owner: str | None = None,
    rows_per_owner: int = 1,
    entropy: Entropy = SYSTEM,
) -> Records:
    """The rows of a table as positions in the domain; with an owner, at most this many rows of each."""
    columns = check_columns(engine, table, domain, owner)
    kept: list[list[NDArray[np.int64]]] = []
    owners: list[pa.Array] = []
    for batch in engine.columns(table, columns):
        positions, owned = _placed(batch, domain, owner is not None)
        kept.append(positions)
        owners.extend(owned)
    joined = tuple(np.concatenate([batch[axis] for batch in kept]) for axis in range(len(domain.attributes)))
    if owner is None:
        return Records(domain, joined)
    chosen = sampled_rows(pa.chunked_array(owners), rows_per_owner, entropy)
    return Records(domain, tuple(axis[chosen] for axis in joined))


def read_counts(
    engine: Engine,
    table: str,
    domain: Domain,
    owner: str,
    rows_per_owner: int,
    wanted: Iterable[tuple[str, ...]],
    deadline: Deadline,
    inside: Inside | None = None,
    entropy: Entropy = SYSTEM,
) -> tuple[Counted, Counted]:
    """Rows counted by the attributes that are wanted, at most this many rows of an owner: all of them, and those inside."""
    columns = check_columns(engine, table, domain, owner)
    sets = [domain.projected(names).require_enumerable() for names in dict.fromkeys(wanted)]
    used = {name for each in sets for name in each.names} | set(inside.names if inside is not None else ())
    seen = domain.projected(tuple(name for name in domain.names if name in used))
    every, some = _Counting(seen, sets), _Counting(seen, sets)
    arriving = _placed_batches(engine.columns(table, columns, LONGEST_NAME), domain, seen.names, entropy)
    for batch in drawn_rows(arriving, rows_per_owner, deadline):
        deadline.check()
        positions = [np.asarray(batch.column(f"p{i}"), dtype=np.int64) for i in range(len(seen.names))]
        rows = np.asarray(batch.column(COUNT), dtype=np.int64)
        every.add(positions, rows)
        if inside is not None:
            some.add(positions, np.where(inside.passes[_index(seen, inside.names, positions)], rows, 0))
    return every.counted(domain), (every if inside is None else some).counted(domain)


class _Counting:
    """Histograms of some sets of attributes, filled batch by batch."""

    def __init__(self, seen: Domain, sets: list[Domain]) -> None:
        self._seen = seen
        self._n = 0
        self._histograms = {each.names: np.zeros(each.size, dtype=np.int64) for each in sets}

    def add(self, positions: list[NDArray[np.int64]], rows: NDArray[np.int64]) -> None:
        self._n += int(rows.sum())
        for names, histogram in self._histograms.items():
            np.add.at(histogram, _index(self._seen, names, positions), rows)

    def counted(self, domain: Domain) -> Counted:
        return Counted(domain, self._n, self._histograms)


def _index(seen: Domain, names: tuple[str, ...], positions: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The number of a value in the domain of some of the attributes that are seen."""
    axes = [positions[seen.axis(name)] for name in names]
    return np.asarray(np.ravel_multi_index(axes, seen.projected(names).shape), dtype=np.int64)


def _placed_batches(
    batches: Iterable[pa.RecordBatch], domain: Domain, names: tuple[str, ...], entropy: Entropy
) -> Iterator[pa.RecordBatch]:
    """Rows inside of the domain: the owner, a random number, and positions of some attributes."""
    columns = [OWNER, PRIORITY, *(f"p{i}" for i in range(len(names)))]
    for batch in batches:
        positions, (owners,) = _placed(batch, domain, owned=True)
        random = pa.array(entropy.uint64(len(owners)), pa.uint64())
        kept = (pa.array(positions[domain.axis(name)], pa.int64()) for name in names)
        yield pa.RecordBatch.from_arrays([owners, random, *kept], names=columns)


def _placed(batch: pa.RecordBatch, domain: Domain, owned: bool) -> tuple[list[NDArray[np.int64]], list[pa.Array]]:
    """One batch as positions, rows outside of the domain (and without an owner) left out."""
    found = [position_of(attribute, batch.column(i)) for i, attribute in enumerate(domain.attributes)]
    inside = np.logical_and.reduce([positions >= 0 for positions in found])
    owners = []
    if owned:
        last = batch.column(len(domain.attributes))
        inside &= np.asarray(pc.is_valid(last).to_numpy(zero_copy_only=False), dtype=bool)
        owners = [last.filter(pa.array(inside))]
    return [positions[inside] if not inside.all() else positions for positions in found], owners


def position_of(attribute: Attribute, column: pa.Array) -> NDArray[np.int64]:
    """Positions in an attribute; −1 where a value is missing or unknown."""
    if isinstance(attribute.values, range):
        return _rounded_down(column, attribute.values[0], attribute.values[-1])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
        known = pa.array([v if -(2**63) <= v < 2**63 else None for v in attribute.values], type=pa.int64())
    else:
        known = pa.array(attribute.values, type=column.type)
    found = pc.index_in(column, value_set=known, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _rounded_down(column: pa.Array, low: int, high: int) -> NDArray[np.int64]:
    missing = np.asarray(pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False), dtype=bool)
    if pa.types.is_decimal(column.type):
        # Rounded down, −99.5 has more digits than its own type may have.
        column = pc.floor(column.cast(pa.decimal256(76, column.type.scale))).cast(pa.float64())
    filled = pc.fill_null(column, 0) if column.null_count else column
    numbers = np.asarray(filled.to_numpy(zero_copy_only=False))
    if numbers.dtype.kind == "f":
        numbers = np.floor(np.where(missing, 0.0, numbers.astype(np.float64)))
        clamped = np.clip(numbers, low, high).astype(np.int64)
    elif numbers.dtype == np.uint64:
        clamped = np.maximum(np.minimum(numbers, np.uint64(max(high, 0))).astype(np.int64), low)
        clamped = np.minimum(clamped, high)
    else:
        clamped = np.clip(numbers.astype(np.int64), low, high)
    return np.where(missing, -1, clamped - low)


def sampled_rows(owners: pa.ChunkedArray, rows_per_owner: int, entropy: Entropy) -> NDArray[np.int64]:
    """At most this many rows of every owner, each set of rows of an owner equally likely; owners with few keep all of theirs."""
    code = _codes(owners)
    many = (np.bincount(code) > rows_per_owner)[code] if len(code) else np.zeros(0, dtype=bool)
    drawn_from = np.flatnonzero(many)
    if not len(drawn_from):
        return np.arange(len(code), dtype=np.int64)
    shuffled = drawn_from[entropy.permutation(len(drawn_from))]
    order = shuffled[np.argsort(code[shuffled], kind="stable")]
    by_owner = code[order]
    starts = np.flatnonzero(np.diff(by_owner, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.concatenate([np.flatnonzero(~many), order[rank < rows_per_owner]])


def _codes(owners: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for every owner; whole numbers that lie close together are numbers already."""
    if pa.types.is_integer(owners.type) and len(owners):
        numbers = owners.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= 4 * len(numbers):
            wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64)
            return np.asarray(wide - wide.dtype.type(low), dtype=np.int64)
    chunks = owners.dictionary_encode().unify_dictionaries().chunks
    parts = [np.asarray(chunk.indices.to_numpy(zero_copy_only=False), dtype=np.int64) for chunk in chunks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
