"""Semantic labels: columns that hold the same values should have the same one.

Columns with mutual containment above a limit hang together; a label given to one of them is proposed for those
without, and where two different labels meet, that is listed as a contradiction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass
from shoal.risk.sketch.files import subject_name

if TYPE_CHECKING:
    from shoal.risk.joining.pairs import Comparison


@dataclass(frozen=True, slots=True)
class Proposal:
    """A column without a label, and the label its values suggest."""

    column: str
    label: str
    because_of: str  # a labelled column that it hangs together with

    def to_dict(self) -> dict[str, str]:
        """All of it, for machines."""
        return {"column": self.column, "label": self.label, "because_of": self.because_of}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Columns that hold the same values under different labels."""

    labels: dict[str, str]  # column → label

    def to_dict(self) -> dict[str, dict[str, str]]:
        """All of it, for machines."""
        return {"labels": self.labels}


def propagate(
    comparison: Comparison, labels: dict[tuple[str, str], str], limit: float
) -> tuple[list[Proposal], list[Contradiction]]:
    """Spread labels over columns that hold the same values."""
    named = [column.name for column in comparison.columns]
    given = {
        position: labels[column.dataset, subject_name(column.subject)]
        for position, column in enumerate(comparison.columns)
        if (column.dataset, subject_name(column.subject)) in labels
    }
    proposals: list[Proposal] = []
    contradictions: list[Contradiction] = []
    for group in _groups(comparison, limit):
        labelled = [position for position in group if position in given]
        distinct = {given[position] for position in labelled}
        if len(distinct) == 1:
            source = labelled[0]
            proposals += [
                Proposal(named[position], given[source], named[source]) for position in group if position not in given
            ]
        elif distinct:
            contradictions.append(Contradiction({named[position]: given[position] for position in labelled}))
    return proposals, contradictions


def _groups(comparison: Comparison, limit: float) -> list[list[int]]:
    """Columns connected by mutual containment above the limit."""
    values = comparison.containments.value
    first, second = comparison.first, comparison.second
    mutual = (np.minimum(values[first, second], values[second, first]) >= limit) & comparison.evident
    leader = list(range(len(comparison.columns)))

    def led_by(position: int) -> int:
        while leader[position] != position:
            leader[position] = leader[leader[position]]
            position = leader[position]
        return position

    for i, j in zip(first[mutual].tolist(), second[mutual].tolist(), strict=True):
        leader[led_by(j)] = led_by(i)
    groups: dict[int, list[int]] = {}
    for position in range(len(leader)):
        groups.setdefault(led_by(position), []).append(position)
    return [group for group in groups.values() if len(group) > 1]
