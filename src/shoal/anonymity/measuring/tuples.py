"""Coded rows → tuples: the distinct combinations of quasi-identifiers, their rows, their owners, the values they hold.

Owners whose rows all have one tuple are only counted. Owners with several tuples are kept as pairs, because they count
once in a class that several of their tuples fall into. After this step nothing depends on the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.rows import Column, Rows

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

RADIX_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who holds which value of one sensitive column, tuple by tuple.

    `position` (the tuple), `value`, `owners`: counts of owners with one tuple only. `pairs`: (owner, tuple, value) of the others.
    """

    column: Column
    position: Integers
    value: Integers
    owners: Integers
    pairs: tuple[Integers, Integers, Integers]
    held: Integers  # owners with each value, in the whole table

    @property
    def size(self) -> int:
        """How many values the column has."""
        return len(self.column.values)


@dataclass(frozen=True, slots=True)
class Tuples:
    """The distinct combinations of the quasi-identifiers of a table."""

    quasi: tuple[Column, ...]
    codes: Integers  # tuples × quasi-identifiers
    rows: Integers
    alone: Integers  # owners who have this tuple and no other
    pairs: tuple[Integers, Integers]  # (owner, tuple) of owners who have several
    owners: int
    sensitive: dict[str, Holdings]
    of_row: Integers  # for each combination that was read, its tuple

    @property
    def spanning(self) -> bool:
        """Whether any owner has several tuples."""
        return len(self.pairs[0]) > 0

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.rows.sum())


def tuples_of(rows: Rows, quasi: Sequence[str], sensitive: Sequence[str] = ()) -> Tuples:
    """Compress coded rows by their quasi-identifiers."""
    columns = tuple(rows.columns[name] for name in quasi)
    of_row, first = number_classes([column.codes for column in columns], [len(column.values) for column in columns])
    count = len(first)
    codes = np.stack([column.codes[first] for column in columns], axis=1) if count else _empty(0, len(columns))
    owners = _Owners.of(rows, of_row, count)
    return Tuples(
        quasi=columns,
        codes=codes,
        rows=summed(of_row, rows.count, count),
        alone=owners.alone,
        pairs=owners.pairs,
        owners=owners.total,
        sensitive={name: _holdings(rows, rows.columns[name], of_row, owners) for name in sensitive},
        of_row=of_row,
    )


def _empty(*shape: int) -> Integers:
    return np.zeros(shape, dtype=np.int64)


def number_classes(codes: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, Integers]:
    """Numbers for equal combinations of codes, in lexicographic order: for each row its number, for each number a row."""
    if not codes:
        raise ValueError("there is nothing to number by")
    key, radix = codes[0], sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if radix * max(size, 1) >= RADIX_LIMIT:
            distinct, key = np.unique(key, return_inverse=True)
            radix = len(distinct)
        key = key * size + column
        radix *= max(size, 1)
    return _numbered(key, radix)


def _numbered(key: Integers, radix: int) -> tuple[Integers, Integers]:
    if radix <= 4 * len(key) + 1024:
        return _numbered_by_table(key, radix)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return number.astype(np.int64, copy=False), first.astype(np.int64, copy=False)


def _numbered_by_table(key: Integers, radix: int) -> tuple[Integers, Integers]:
    """Where keys are dense, a table of them is quicker than sorting."""
    first = np.full(radix, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1, dtype=np.int64)
    present = first >= 0
    number = np.cumsum(present) - 1
    return number[key], first[present]


def summed(position: Integers, weights: Integers, count: int) -> Integers:
    """Sums of whole numbers by position; exact below 2⁵³, which no number of rows reaches."""
    return np.bincount(position, weights=weights, minlength=count).astype(np.int64)


def distinct_rows(*columns: Integers) -> tuple[Integers, ...]:
    """The distinct rows of equally long columns of whole numbers, in order."""
    if not len(columns[0]):
        return columns
    order = np.lexsort(columns[::-1])
    arranged = [column[order] for column in columns]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.any([column[1:] != column[:-1] for column in arranged], axis=0)
    return tuple(column[fresh] for column in arranged)


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who has which tuple: counted where an owner has one, as pairs where an owner has several."""

    alone: Integers
    pairs: tuple[Integers, Integers]
    total: int
    several: Mask | None  # of each owner; None where a row is its own owner

    @classmethod
    def of(cls, rows: Rows, of_row: Integers, count: int) -> _Owners:
        if rows.owner is None:
            return cls(summed(of_row, rows.count, count), (_empty(0), _empty(0)), rows.total, None)
        owner, position = distinct_rows(rows.owner, of_row)
        tuples_each = np.bincount(owner) if len(owner) else _empty(0)
        several = tuples_each > 1
        spanning = several[owner] if len(owner) else np.zeros(0, dtype=bool)
        alone = np.bincount(position[~spanning], minlength=count).astype(np.int64)
        return cls(alone, (owner[spanning], position[spanning]), int((tuples_each > 0).sum()), several)


def _holdings(rows: Rows, column: Column, of_row: Integers, owners: _Owners) -> Holdings:
    size, none = len(column.values), (_empty(0), _empty(0), _empty(0))
    if rows.owner is None or owners.several is None:
        position, value, count = counted(of_row, column.codes, rows.count, size)
        return Holdings(column, position, value, count, none, summed(column.codes, rows.count, size))
    owner, position, value = distinct_rows(rows.owner, of_row, column.codes)
    spanning = owners.several[owner] if len(owner) else np.zeros(0, dtype=bool)
    one = ~spanning
    cell = counted(position[one], value[one], np.ones(int(one.sum()), dtype=np.int64), size)
    _, once = distinct_rows(owner, value)
    held = np.bincount(once, minlength=size).astype(np.int64)
    return Holdings(column, *cell, (owner[spanning], position[spanning], value[spanning]), held)


def counted(position: Integers, value: Integers, weight: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Sums of weights by (position, value), those above 0, ordered by both."""
    key = position * size + value
    radix = (int(position.max()) + 1) * size if len(position) else 0
    if radix <= 8 * len(key) + 100_000:
        sums = summed(key, weight, radix)
        present = np.flatnonzero(sums)
        sums = sums[present]
    else:
        present, number = np.unique(key, return_inverse=True)
        sums = summed(number, weight, len(present))
    return present // max(size, 1), present % max(size, 1), sums
