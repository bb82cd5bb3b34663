"""What the sketches of a dataset say: measures and a grade for each column and combination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.risk.sketch import measures as measuring
from shoal.risk.sketch.files import SketchedDataset, subject_name
from shoal.risk.sketch.grading import Graded, grade_column

if TYPE_CHECKING:
    from shoal.risk.scanning.table_sketches import Subject
    from shoal.risk.sketch.measures import Measures

CAVEAT = (
    "These are measures and heuristics for finding, ranking and watching risk in data that exists. They are not a "
    "privacy guarantee: a column that looks safe here can identify together with others, or with data nobody scanned."
)
WHAT_HELPS = (
    "What helps: to share statistics, private queries (shoal query). To share rows, measure the columns an outsider may know "
    "with shoal anonymity measure, and recode them with shoal anonymity enforce."
)


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


def assess(dataset: SketchedDataset) -> DatasetRisk:
    """Measure and grade every sketch of a dataset."""
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
