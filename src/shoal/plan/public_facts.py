"""What a session knows about public tables before any query: how many rows, how often values repeat, how long strings are.

All of it is public, so plans may depend on it. It bounds how many rows one private row can become in a join, and what they cost.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """Sizes of public tables, by folded name.

    Of (table, column), `repeats` has the rows of the most frequent value and `texts` the bytes of the longest string.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    repeats: Mapping[tuple[str, str], int] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def is_counted(self, table: str) -> bool:
        """Whether the table existed and could be counted."""
        return table in self.rows

    def size(self, table: str) -> int:
        """Rows of a table; an uncounted table is assumed to have one row, since without a source there is nothing to read."""
        return self.rows.get(table, 1)

    def most_rows(self, table: str, column: str) -> int:
        """The largest number of rows that share a value of this column."""
        return min(self.size(table), self.repeats.get((table, column), self.size(table)))

    def longest_text(self, table: str, column: str) -> int | None:
        """Bytes of the longest string of this column; None where nobody has looked."""
        return self.texts.get((table, column)) if self.is_counted(table) else 0
