"""What moved since an earlier scan, by how much, and whether that is more than the error of both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.risk.sketch.files import subject_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.sketch.estimate import Estimate
    from shoal.risk.sketch.files import SketchedDataset
    from shoal.risk.sketch.khll import Sketch

_THRESHOLDS = (2, 5, 10)


@dataclass(frozen=True, slots=True)
class Movement:
    """A measure of a column, then and now."""

    column: str
    measure: str
    before: Estimate
    now: Estimate

    @property
    def change(self) -> float:
        """How much more it is now."""
        return self.now.value - self.before.value

    @property
    def beyond_error(self) -> bool:
        """Whether two estimates of one and the same number would seldom (1 time in 20) differ so much."""
        return abs(self.change) > math.hypot(self.before.error, self.now.error)

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "column": self.column,
            "measure": self.measure,
            "before": self.before.to_dict(),
            "now": self.now.to_dict(),
            "change": self.change,
            "beyond_error": self.beyond_error,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two scans side by side."""

    movements: tuple[Movement, ...]  # the largest changes of a share first
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]

    @property
    def moved(self) -> tuple[Movement, ...]:
        """What moved beyond the error."""
        return tuple(movement for movement in self.movements if movement.beyond_error)

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "movements": [movement.to_dict() for movement in self.movements],
            "appeared": list(self.appeared),
            "vanished": list(self.vanished),
        }


def sketches_by_name(datasets: Sequence[SketchedDataset]) -> dict[str, Sketch]:
    """All sketches under `dataset.column`."""
    return {
        f"{dataset.name}.{subject_name(subject)}": sketch
        for dataset in datasets
        for subject, sketch in dataset.sketches.items()
    }


def compare_with_baseline(now: Sequence[SketchedDataset], before: Sequence[SketchedDataset]) -> Comparison:
    """Compare the sketches of two scans, column by column; their keys may differ."""
    later, earlier = sketches_by_name(now), sketches_by_name(before)
    movements = [
        movement for name in later if name in earlier for movement in movements_of(name, earlier[name], later[name])
    ]
    movements.sort(
        key=lambda movement: (not movement.beyond_error, movement.measure == "distinct values", -abs(movement.change))
    )
    return Comparison(
        tuple(movements),
        tuple(sorted(set(later) - set(earlier))),
        tuple(sorted(set(earlier) - set(later))),
    )


def movements_of(name: str, before: Sketch, now: Sketch) -> list[Movement]:
    """The measures of one column, then and now."""
    found = [Movement(name, "distinct values", before.distinct_values(), now.distinct_values())]
    found += [
        Movement(name, f"share of values below {k}", before.share_below(k), now.share_below(k)) for k in _THRESHOLDS
    ]
    of_owners = [sketch.share_below(5, of="owners") for sketch in (before, now)]
    return [*found, Movement(name, "share of owners below 5", *of_owners)]
