"""A hierarchy: what the values of a column may be replaced by, level by level, up to `*`.

>>> ages = Hierarchy.intervals([5, 10])
>>> ages.label(34, 1), ages.label(34, 2), ages.label(34, 3)
('[30, 34]', '[30, 39]', '*')
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies import automatic, listed
from shoal.anonymity.hierarchies.rules import TOP, Dates, Flat, Intervals, Mask, Rule, SortedGroups, Table, wrong
from shoal.anonymity.hierarchies.values import text_of
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.anonymity.hierarchies.values import Kind
    from shoal.exact import Number


@dataclass(frozen=True)
class Hierarchy:
    """Labels for the values of a column; `automatic` says that it was made from the data."""

    rule: Rule
    automatic: bool = False
    known: tuple[str | None, ...] = ()

    # how one is made

    @classmethod
    def read(cls, path: str | Path, column: str | None = None) -> Hierarchy:
        """A file with a line for each value: `value;level 1;…;*`; the column is for messages."""
        return cls(listed.read_table(Path(path), column))

    @classmethod
    def intervals(
        cls, widths: Sequence[Number], origin: Number = 0, low: Number | None = None, high: Number | None = None
    ) -> Hierarchy:
        """Stretches of numbers or days; each width divides the next."""
        try:
            grid = tuple(as_fraction(width) for width in widths)
            least, most = (None if limit is None else as_fraction(limit) for limit in (low, high))
            return cls(Intervals(grid, as_fraction(origin), least, most))
        except (ValueError, TypeError):
            raise wrong("The widths and limits of intervals are numbers.", "Write intervals = [5, 10, 20].") from None

    @classmethod
    def dates(cls, periods: Sequence[str]) -> Hierarchy:
        """Months, quarters, years, decades."""
        return cls(Dates(tuple(periods)))

    @classmethod
    def mask(cls, side: str = "right", length: int | None = None) -> Hierarchy:
        """Characters replaced by `*`, one more on each level."""
        return cls(Mask(side, length))

    @classmethod
    def groups(cls, groups: Mapping[str, Any]) -> Hierarchy:
        """Groups of values, nested as deep as you like; the label `*` is the top itself."""
        return cls(listed.table_of_groups(groups))

    @classmethod
    def order(cls, values: Sequence[Any], sizes: Sequence[int] = (2, 4)) -> Hierarchy:
        """Values in their order, this many together at each level."""
        return cls(listed.table_of_order([str(text_of(value)) for value in values], tuple(sizes)))

    @classmethod
    def auto(cls, column: pa.Array | pa.ChunkedArray) -> Hierarchy:
        """A hierarchy made from the data: dates, intervals or masks; no kinship of categories is invented."""
        return cls(automatic.rule_for(column), automatic=True)

    @classmethod
    def of(cls, given: Hierarchy | Mapping[str, Any] | str | Path, column: str | None = None) -> Hierarchy:
        """A hierarchy from whatever may be given for one: itself, nested groups, or a file."""
        if isinstance(given, Hierarchy):
            return given
        if isinstance(given, Mapping):
            return cls.groups(given)
        if isinstance(given, (str, Path)):
            return cls.read(given, column)
        raise wrong("A hierarchy is a Hierarchy, a dict of groups, or the path of a file.")

    @classmethod
    def flat(cls) -> Hierarchy:
        """The value, or `*`."""
        return cls(Flat())

    # what it says

    def bound(self, texts: Sequence[str | None]) -> Hierarchy:
        """The same hierarchy, knowing the values of the data."""
        rule = self.rule
        if isinstance(rule, SortedGroups):
            rule = listed.table_of_order([text for text in texts if text is not None], rule.sizes)
        return Hierarchy(rule, self.automatic, tuple(texts))

    @property
    def leaves(self) -> tuple[str | None, ...]:
        """The values listed, or those of the data it was made for; of intervals with both limits, the whole numbers between."""
        if self.rule.fixed is not None:
            return self.rule.fixed
        return self.known or (self.rule.between() if isinstance(self.rule, Intervals) else ())

    @property
    def levels(self) -> int:
        """How many levels there are, the value itself and the top included."""
        return self.rule.inner(self.leaves) + 2

    def label(self, value: Any, level: int, kind: Kind | None = None) -> str | None:
        """What a value becomes at a level; NULL stays NULL up to the top."""
        if level >= self.levels - 1:
            return self.rule.top if isinstance(self.rule, Table) else TOP
        if value is None or level <= 0:
            return text_of(value)
        return self.rule.label(value, level, kind or _kind_of_value(value))

    def write(self, path: str | Path) -> None:
        """The leaves with their labels, as a file that `read` takes."""
        listed.write_table(
            Path(path),
            [
                [leaf, *(str(self.label(leaf, level)) for level in range(1, self.levels))]
                for leaf in self.leaves
                if leaf is not None
            ],
        )

    def to_dict(self) -> dict[str, object]:
        """As a transformation stores it."""
        return self.rule.to_dict() | ({"automatic": True} if self.automatic else {})


def _kind_of_value(value: Any) -> Kind:
    if isinstance(value, dt.date):
        return "date"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, str):
        return "integer" if value.lstrip("-").isdigit() else "number"
    return "number"
