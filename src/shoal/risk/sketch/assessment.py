"""What the sketches of a dataset say: measures and a grade for each column and combination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.risk.sketch import measures as measuring
from shoal.risk.sketch.files import SketchedDataset, subject_name
from shoal.risk.sketch.grading import Grade, Graded, grade_column

if TYPE_CHECKING:
    from shoal.risk.scanning.table_sketches import Subject
    from shoal.risk.sketch.measures import Measures

CAVEAT = (
    "These are measures and heuristics for finding, ranking and watching risk in data that exists. They are not a "
    "privacy guarantee: a column that looks safe here can identify together with others, or with data nobody scanned."
)
WHAT_TO_DO_ABOUT_JOINS = (
    "What to do: a pair with a high score lets whoever has both datasets link their owners. Drop the column from one of them, or "
    "give each dataset its own pseudonyms (a keyed hash with its own key), or keep the datasets apart. To share statistics of "
    "both, use private queries (shoal query). Then scan and join again."
)
WHAT_TO_DO_ABOUT_LIMITS = (
    "What to do: recode or drop the columns that broke the policy (shoal anonymity enforce), scan again, and check again. If the "
    "data are meant to be like this, raise the limit in the policy file, where others can see it."
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

    @property
    def identifying(self) -> tuple[ColumnRisk, ...]:
        """Columns that single most owners out by themselves, or are the owner."""
        single = (column for column in self.columns if len(column.subject) == 1)
        return tuple(column for column in single if column.is_owner or column.graded.grade >= Grade.CRITICAL)

    @property
    def telling(self) -> tuple[ColumnRisk, ...]:
        """Columns, and combinations in which no column identifies by itself: the others say nothing new."""
        known = {column.subject[0] for column in self.identifying}
        return tuple(column for column in self.columns if len(column.subject) == 1 or not known & set(column.subject))

    @property
    def folded(self) -> str:
        """What to say of the combinations that are left out of tables; nothing where none is."""
        number = len(self.columns) - len(self.telling)
        if not number:
            return ""
        names = ", ".join(column.name for column in self.identifying[:5])
        noun, verb = ("combination contains", "is") if number == 1 else ("combinations contain", "are")
        return f"{number} {noun} a column that identifies by itself ({names}) and {verb} not listed; --json has them."

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
