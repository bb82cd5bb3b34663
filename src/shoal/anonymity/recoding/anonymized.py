"""A table that was made to meet demands: the rows, what they cost, and how to do the same again."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.anonymity.recoding.output import published_table, write_table
from shoal.anonymity.reports.limits import not_protected
from shoal.anonymity.reports.page import recoding_page
from shoal.anonymity.reports.terminal import recoding_text
from shoal.engines.frames import as_pandas, as_polars
from shoal.frozen import dataclass
from shoal.pages import embedded, write_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.measuring.rows import Rows
    from shoal.anonymity.recoding.transformation import Transformation


@dataclass(frozen=True)
class Anonymized:
    """What `enforce` and `apply` return. `recoding` is global, local or fixed."""

    rows: Rows
    published: tuple[str, ...]
    left_out: tuple[str, ...]
    owner: str | None  # published as a random number, where it was to be kept
    recoding: str
    levels: Mapping[str, int]
    quality: Mapping[str, float]
    suppressed: int
    earlier: int
    before: Measurement
    after: Measurement
    transformation: Transformation
    optimal: bool | None = None
    bound: float | None = None
    checked: int = 0
    lattice: int = 0
    finer: Mapping[str, int] = field(default_factory=dict)
    automatic: tuple[str, ...] = ()
    demands: tuple[str, ...] = ()
    judged_by: str = "loss"

    @property
    def loss(self) -> float:
        """The mean loss of a cell: 0 untouched, 1 nothing left."""
        return self.quality["loss"]

    @property
    def gap(self) -> float | None:
        """How far the result may be from the best, as a share of it; 0 where it is the best, None where nothing is known."""
        if self.optimal:
            return 0.0
        if not self.bound:
            return None
        return self.quality[self.judged_by] / self.bound - 1

    @property
    def owners_lost(self) -> int:
        """Owners none of whose rows are published."""
        return self.before.owners - self.after.owners

    @cached_property
    def _table(self) -> pa.Table:
        names = [name for name in self.published if name != self.owner]
        return published_table(self.rows, names, self.owner)

    def to_arrow(self) -> pa.Table:
        """The published rows."""
        return self._table

    def to_pandas(self) -> Any:
        """The published rows as a pandas frame."""
        return as_pandas(self._table)

    def to_polars(self) -> Any:
        """The published rows as a polars frame."""
        return as_polars(self._table)

    def write(self, path: str | Path) -> None:
        """Write the rows as parquet or CSV, by the ending; the file appears whole or not at all."""
        write_table(self._table, path)

    @cached_property
    def not_protected(self) -> tuple[Any, ...]:
        """What the published table does not protect from, each with a number of it."""
        return not_protected(self.after, self.recoding, dict(self.finer))

    def to_dict(self) -> dict[str, object]:
        """For machines; no value of the data is in it but what hierarchies of the transformation list."""
        after = self.after.to_dict() | {"not_protected": [limit.to_dict() for limit in self.not_protected]}
        return {
            "recoding": self.recoding,
            "levels": dict(self.levels),
            "lattice": self.lattice,
            "checked": self.checked,
            "optimal": self.optimal,
            "bound": self.bound,
            "loss": self.loss,
            "quality": dict(self.quality),
            "suppressed": self.suppressed,
            "owners_lost": self.owners_lost,
            "finer": dict(self.finer),
            "published": list(self.published),
            "left_out": list(self.left_out),
            "before": self.before.to_dict(),
            "after": after,
            "transformation": self.transformation.to_dict(),
        }

    def to_html(self, path: str | Path | None = None, *, show_values: bool = False) -> str:
        """A page that needs nothing but a browser; written to the path if one is given."""
        return write_page(recoding_page(self, show_values=show_values), path)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return embedded(self.to_html())

    def __str__(self) -> str:
        return recoding_text(self)
