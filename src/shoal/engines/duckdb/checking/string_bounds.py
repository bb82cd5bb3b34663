"""How many bytes the strings of a relation's rows have, at the most.

A join hands a string to every partner of its row, and a window to every row of its partition. Where something sorts or groups such
rows afterwards, each of them has the string: 2 MB of one owner, who has 20,000 rows, become 40 GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Json = dict[str, Any]
    Counted = Callable[[tuple[str, ...], tuple[str, ...], bool], int]
    """For a table and some of its columns, the rows of the most frequent values, or all rows; and whether NULL is a value."""
    Measured = Callable[[tuple[str, ...], tuple[str, ...]], "Strings"]
    """For a table and some of its columns, how long the strings of its rows are."""

MOST_BYTES = 1 << 30
"""The copies of one row's strings may have as many bytes, and those of all rows however few are stored."""
LONG = 1024
"""Rows with more bytes of strings than this are counted apart: a few of them say nothing of the others."""
A_VALUE = 16
"""Bytes that a stored row counts for, at the least."""
_FIXED = frozenset({
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "UUID", "ENUM", "NULL"),
})  # fmt: skip


@dataclass(frozen=True)
class Strings:
    """Bytes of the strings in the rows of a relation: of the longest row, of all rows, and of those with many.

    `short`: what a row has at the most that is not among those with many.
    """

    longest: int = 0
    whole: int = 0
    long: int = 0
    short: int = 0

    def __add__(self, other: Strings) -> Strings:
        """Side by side in the same rows."""
        return Strings(
            self.longest + other.longest, self.whole + other.whole, self.long + other.long, self.short + other.short
        )

    def repeated(self, copies: int, rows: int) -> Strings:
        """Where every row is there so many times, and there are so many rows in all."""
        long = min(rows * self.longest, self.long * copies)
        whole = min(rows * self.longest, self.whole * copies, rows * self.short + long)
        return Strings(self.longest, whole, long, self.short)


def one_of(parts: Iterable[Strings]) -> Strings:
    """Rows that come from several relations."""
    each = [*parts]
    return Strings(
        max((p.longest for p in each), default=0),
        sum(p.whole for p in each),
        sum(p.long for p in each),
        max((p.short for p in each), default=0),
    )


@dataclass(frozen=True)
class Statistics:
    """What is asked about tables."""

    rows: Counted
    strings: Measured


def has_any_size(type_: Json) -> bool:
    """Whether values of a type can be of any length: strings, lists and the like."""
    return not any(type_["id"] == fixed or type_["id"].startswith(f"{fixed} ") for fixed in _FIXED)


def hands_on_strings(window: Json) -> bool:
    """Whether a window may hand one string to many rows; LAG and LEAD hand each to one."""
    return has_any_size(window["return_type"]) and window["type"] not in {"WINDOW_LAG", "WINDOW_LEAD"}
