"""What a scan found: per column and combination, measures with errors and a grade; as a table, JSON and a web page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.risk import measures as measuring
from shoal.risk.files import SketchedDataset, subject_name
from shoal.risk.grading import Graded, grade_column

if TYPE_CHECKING:
    from shoal.risk.khll import Sketch
    from shoal.risk.measures import Measures
    from shoal.risk.sketching import Subject

CAVEAT = (
    "These are measures and heuristics for finding, ranking and watching risk in data that exists. They are not a "
    "privacy guarantee: a column that looks safe here can identify together with others, or with data nobody scanned."
)
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ColumnRisk:
    """One column or combination."""

    dataset: str
    subject: Subject
    type: str
    is_owner: bool
    measures: Measures
    graded: Graded

    @property
    def name(self) -> str:
        """The column, or the columns with plus signs between."""
        return subject_name(self.subject)

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "name": self.name,
            "columns": list(self.subject),
            "type": self.type,
            "is_owner": self.is_owner,
            "grade": str(self.graded.grade),
            "reason": self.graded.reason,
            **self.measures.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class DatasetRisk:
    """One dataset, its columns from the riskiest to the safest."""

    name: str
    owner: str | None
    rows: int
    columns: tuple[ColumnRisk, ...]
    notes: tuple[str, ...]
    owner_candidates: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "name": self.name,
            "owner": self.owner,
            "counts": "rows" if self.owner is None else "owners",
            "rows": self.rows,
            "notes": list(self.notes),
            "owner_candidates": list(self.owner_candidates),
            "columns": [column.to_dict() for column in self.columns],
        }


@dataclass(frozen=True)
class Report:
    """Everything a scan found."""

    sketched: tuple[SketchedDataset, ...]
    key_thrown_away: bool = False

    @cached_property
    def datasets(self) -> tuple[DatasetRisk, ...]:
        """The datasets with their measures."""
        return tuple(_assessed(dataset) for dataset in self.sketched)

    @cached_property
    def sketches(self) -> Mapping[str, Sketch]:
        """The sketches by `dataset.column`; `column` alone will do where one dataset only has it."""
        return Sketches(self.sketched)

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines; no value and no hash of one is in it."""
        return {
            "format": FORMAT,
            "caveat": CAVEAT,
            "key_ids": sorted({sketch.key_id or "none" for sketch in self.sketches.values()}),
            "datasets": [dataset.to_dict() for dataset in self.datasets],
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """A page that needs nothing but a browser; written to the path if one is given."""
        from shoal.risk.page import risk_page

        return write_page(risk_page(self), path)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from shoal.risk.page import embedded

        return embedded(self.to_html())

    def __str__(self) -> str:
        from shoal.risk.tables import as_text, risk_tables

        return as_text(risk_tables(self))


def write_page(page: str, path: str | Path | None) -> str:
    """Write a page to a file if one is named."""
    if path is not None:
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise ShoalError("E_USAGE", f"The page {str(path)!r} was not written: {error.strerror}.") from None
    return page


def _assessed(dataset: SketchedDataset) -> DatasetRisk:
    columns = []
    for subject, sketch in dataset.sketches.items():
        found = measuring.measure(sketch.sample())
        is_owner = subject == (dataset.owner,)
        graded = grade_column(found, is_owner=is_owner)
        columns.append(ColumnRisk(dataset.name, subject, dataset.types.get(subject, ""), is_owner, found, graded))
    columns.sort(key=lambda column: (-column.graded.grade, -column.measures.shares[5]["owners"].value, column.name))
    return DatasetRisk(
        dataset.name, dataset.owner, dataset.rows, tuple(columns), dataset.notes, dataset.owner_candidates
    )


class Sketches(Mapping[str, "Sketch"]):
    """Sketches by `dataset.column`, or by `column` where that is clear."""

    def __init__(self, datasets: tuple[SketchedDataset, ...]) -> None:
        self._full: dict[str, Sketch] = {}
        self._short: dict[str, list[str]] = {}
        for dataset in datasets:
            for subject, sketch in dataset.sketches.items():
                name = f"{dataset.name}.{subject_name(subject)}"
                self._full[name] = sketch
                self._short.setdefault(subject_name(subject), []).append(name)

    def __getitem__(self, name: str) -> Sketch:
        if name in self._full:
            return self._full[name]
        matching = self._short.get(name, [])
        if len(matching) != 1:
            raise KeyError(name)
        return self._full[matching[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._full)

    def __len__(self) -> int:
        return len(self._full)

    def __repr__(self) -> str:
        return f"Sketches({', '.join(self._full)})"
