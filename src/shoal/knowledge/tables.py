"""A table of counts that are to be published: the same question for each row."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.knowledge.guarantee import Guarantee, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ("name", "count", "people")
_HINT = "The first line must be name,count,people; then one line for each count."
_MOST_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class PublishedCount:
    """One row: how many of how many said yes."""

    name: str
    count: int
    people: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.people or self.people < 1:
            raise ShoalError("E_USAGE", f"In the row {self.name!r} the count is not from 0 to people.", hint=_HINT)

    @property
    def reveals(self) -> bool:
        """Everybody said the same: whoever is known to be counted is known altogether."""
        return self.count in {0, self.people}


@dataclass(frozen=True, slots=True)
class CountTable:
    """Rows and what each of them keeps."""

    rows: tuple[tuple[PublishedCount, Guarantee], ...]

    def to_dict(self, *, epsilon: float | None = None, delta: float | None = None) -> dict[str, Any]:
        """For machines."""
        return {
            "assumptions": list(self.rows[0][1].assumptions),
            "rows": [
                {
                    "name": row.name,
                    "count": row.count,
                    "people": row.people,
                    "reveals": row.reveals,
                    **kept.to_dict(epsilon=epsilon, delta=delta),
                }
                for row, kept in self.rows
            ],
        }

    def to_text(self, *, epsilon: float | None = None, delta: float | None = None) -> str:
        """Assumptions, then a line for each row."""
        first = self.rows[0][1]
        lines = [
            f"{first.release} in each row. This holds only if:",
            *(f"  - {sentence}" for sentence in first.assumptions),
        ]
        width = max(len(row.name) for row, _ in self.rows)
        for row, kept in self.rows:
            at_epsilon, at_delta = kept.at(epsilon=epsilon, delta=1e-6 if epsilon is None and delta is None else delta)
            number = f"ε = {rounded_up(at_epsilon)}" if math.isfinite(at_epsilon) else "no ε"
            mark = "   REVEALS: everybody said the same" if row.reveals else ""
            lines.append(
                f"{row.name:<{width}}  {row.count:>9,} of {row.people:<9,}  {number}, δ = {rounded_up(at_delta)}{mark}"
            )
        lines.append(f"Against somebody who knows all other answers: {first.worst_words}.")
        return "\n".join(lines)


def count_table(path: str | Path, release: Callable[[int], Guarantee]) -> CountTable:
    """Read a table of counts and ask what each row keeps; `release` gets the number of people in it.

    For bare counts: count_table("table.csv", lambda people: knowledge.count(people, uncertainty=0.1)).
    """
    rows = read_counts(path)
    sizes = {people: release(people) for people in sorted({row.people for row in rows})}
    return CountTable(tuple((row, sizes[row.people]) for row in rows))


def read_counts(path: str | Path) -> tuple[PublishedCount, ...]:
    """The rows of a CSV file with the columns name, count and people."""
    try:
        data = Path(path).read_bytes()[: _MOST_BYTES + 1]
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} is not UTF-8 text.", hint=_HINT) from None
    if len(data) > _MOST_BYTES:
        raise ShoalError("E_USAGE", "The file has more than 10 MB.", hint="Ask about a part of the table.")
    reader = csv.DictReader(text.splitlines())
    if not set(COLUMNS) <= set(reader.fieldnames or ()):
        raise ShoalError("E_USAGE", f"The file {str(path)!r} lacks one of the columns name, count, people.", hint=_HINT)
    try:
        rows = tuple(_row(entry) for entry in reader)
    except csv.Error:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} is not a CSV file.", hint=_HINT) from None
    if not rows:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} has no rows.", hint=_HINT)
    return rows


def _row(entry: dict[str, str]) -> PublishedCount:
    try:
        return PublishedCount(entry["name"] or "", int(entry["count"]), int(entry["people"]))
    except (TypeError, ValueError):
        raise ShoalError("E_USAGE", "count and people must be whole numbers in every row.", hint=_HINT) from None
