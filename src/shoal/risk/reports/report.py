"""What a scan found: per column and combination, measures with errors and a grade; as a table, JSON and a web page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.pages import embedded, write_page
from shoal.risk.reports.page import risk_page
from shoal.risk.reports.terminal import as_text, risk_tables
from shoal.risk.sketch.assessment import CAVEAT, DatasetRisk, assess
from shoal.risk.sketch.files import SketchedDataset, subject_name

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.risk.sketch.khll import Sketch

FORMAT = 1


@dataclass(frozen=True)
class Report:
    """Everything a scan found."""

    sketched: tuple[SketchedDataset, ...]
    key_thrown_away: bool = False

    @cached_property
    def datasets(self) -> tuple[DatasetRisk, ...]:
        """The datasets with their measures; those whose rows have owners first."""
        assessed = [assess(dataset) for dataset in self.sketched]
        return tuple(sorted(assessed, key=lambda dataset: (dataset.owner is None, dataset.name)))

    @cached_property
    def sketches(self) -> Mapping[str, Sketch]:
        """The sketches by `dataset.column`; `column` alone will do where one dataset only has it."""
        return Sketches(self.sketched)

    @property
    def key_ids(self) -> list[str]:
        """The ids of the keys the sketches were made with."""
        return sorted({sketch.key_id or "none" for sketch in self.sketches.values()})

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines; no value and no hash of one is in it."""
        return {
            "format": FORMAT,
            "caveat": CAVEAT,
            "key_ids": self.key_ids,
            "datasets": [dataset.to_dict() for dataset in self.datasets],
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """A page that needs nothing but a browser; written to the path if one is given."""
        return write_page(risk_page(self.datasets, self.key_ids), path)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return embedded(self.to_html())

    def __str__(self) -> str:
        return as_text(risk_tables(self.datasets))


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
