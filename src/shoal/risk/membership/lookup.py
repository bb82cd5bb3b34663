"""An owner looked up in the sketches of a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.membership.posterior import Posterior, membership
from shoal.risk.sketch.files import SketchedDataset, subject_name
from shoal.risk.sketch.khll import Sketch

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Found:
    """What one sketch says."""

    dataset: str
    column: str | None  # None: about being in the dataset at all
    posterior: Posterior

    def __str__(self) -> str:
        place = self.dataset if self.column is None else f"{self.dataset}.{self.column}"
        return f"{place}: {self.posterior}"

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"dataset": self.dataset, "column": self.column, **self.posterior.to_dict()}


def look_up(
    datasets: Iterable[SketchedDataset],
    owner: Any,
    *,
    value: Any = None,
    column: str | None = None,
    key: bytes | None = None,
    prior: float = 0.5,
) -> tuple[Found, ...]:
    """What every dataset says about an owner; with a value, what every column of the right name says about both."""
    found = [
        Found(
            dataset.name,
            None if value is None else name,
            membership(_opened(sketch, key), owner, value=value, prior=prior),
        )
        for dataset in datasets
        for name, sketch in _asked(dataset, column, every=value is not None)
    ]
    if not found:
        raise ShoalError(
            "E_USAGE", "No sketch here counts owners in such a column.", hint="--column NAME, or leave it out."
        )
    return tuple(found)


def _asked(dataset: SketchedDataset, column: str | None, *, every: bool) -> list[tuple[str, Sketch]]:
    """Single columns only; for the owner alone one of them is as good as all."""
    if dataset.owner is None:
        return []
    named = [(subject_name(subject), sketch) for subject, sketch in dataset.sketches.items() if len(subject) == 1]
    chosen = [(name, sketch) for name, sketch in named if column in {None, name}]
    return chosen if every else chosen[:1]


def _opened(sketch: Sketch, key: bytes | None) -> Sketch:
    if sketch.key_id is not None and key is None:
        raise ShoalError("E_USAGE", "The sketch is keyed: nobody can be looked up without its key.", hint="--key FILE")
    return sketch if sketch.key_id is None else Sketch.from_bytes(sketch.to_bytes(), key=key)
