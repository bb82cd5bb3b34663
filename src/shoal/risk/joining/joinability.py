"""Which datasets can be joined: pairs of columns, paths over several datasets, groups, and labels.

>>> from shoal.risk.scanning.scan import scan
>>> numbers = [f"user-{n}" for n in range(500)]
>>> tables = {"crm": {"email": numbers}, "clicks": {"cookie": numbers[100:]}}
>>> joinability(scan(tables)).pairs[0].a_in_b
Estimate(value=1, low=1, high=1)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.pages import write_page
from shoal.risk.joining.knowledge import IDENTIFIED, PSEUDONYMOUS, Knowledge, spaces_of
from shoal.risk.joining.labels import Contradiction, Proposal, propagate
from shoal.risk.joining.pairs import Column, Comparison, Pair, compare
from shoal.risk.joining.paths import LinkGraph, LinkPath
from shoal.risk.reports.join_page import join_page
from shoal.risk.reports.report import Report
from shoal.risk.reports.terminal import as_text, join_tables
from shoal.risk.sketch.assessment import CAVEAT
from shoal.risk.sketch.files import SketchedDataset, read_datasets

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Group

MINIMUM_CONTAINMENT = 0.1
MINIMUM_VALUES = 100
JOINABLE = 0.1
"""The score from which a pair is a link of a path."""

LABEL_CONTAINMENT = 0.8
MOST_PAIRS = 2_000
MOST_PATHS = 100
FORMAT = 1


def joinability(
    source: Any,
    *,
    minimum_containment: float = MINIMUM_CONTAINMENT,
    minimum_values: int = MINIMUM_VALUES,
    knowledge: Knowledge | None = None,
    most_pairs: int = MOST_PAIRS,
) -> Joinability:
    """Compare all columns of all datasets: a folder of sketches, a report of a scan, or several of either.

    Args:
        source: a path of sketch files, a `Report`, sketched datasets, or a list of these.
        minimum_containment: pairs below this in both directions are not listed.
        minimum_values: columns with fewer distinct values are set aside.
        knowledge: labels of columns and spaces of owners, see `spaces`.
        most_pairs: how many pairs to list, the best first; the others are counted.
    """
    datasets = _datasets_of(source)
    known = knowledge or Knowledge()
    spaces = spaces_of(datasets, known)
    comparison = compare(_columns(datasets), _linked_spaces(spaces), minimum_containment, minimum_values)
    return Joinability(comparison, spaces, known.labels, most_pairs)


def _datasets_of(source: Any) -> list[SketchedDataset]:
    if isinstance(source, SketchedDataset):
        return [source]
    if isinstance(source, Report):
        return list(source.sketched)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [dataset for part in source for dataset in _datasets_of(part)]
    return read_datasets(source)


def _columns(datasets: list[SketchedDataset]) -> list[Column]:
    keys = {sketch.key_id for dataset in datasets for sketch in dataset.sketches.values()}
    if len(keys) > 1:
        raise ShoalError(
            "E_SKETCH",
            "The sketches were made with different keys and cannot be compared.",
            hint="Scan all datasets with the same --key FILE.",
        )
    return [
        Column(dataset.name, subject, sketch, subject == (dataset.owner,))
        for dataset in datasets
        for subject, sketch in dataset.sketches.items()
    ]


def _linked_spaces(spaces: dict[str, tuple[str | None, bool]]) -> set[frozenset[str]]:
    identified = [name for name, (space, _) in spaces.items() if space == IDENTIFIED]
    pseudonymous = [name for name, (space, _) in spaces.items() if space == PSEUDONYMOUS]
    return {frozenset((one, other)) for one in identified for other in pseudonymous}


@dataclass(frozen=True)
class Joinability:
    """What a comparison of all columns found."""

    comparison: Comparison
    spaces: dict[str, tuple[str | None, bool]]  # dataset → its space, and whether that is a guess
    given_labels: dict[tuple[str, str], str]
    most_pairs: int

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that are evidence: links of identified to pseudonymous owners first, then by score."""
        return self._listed(aside=False)

    @cached_property
    def set_aside(self) -> tuple[Pair, ...]:
        """The pairs that small numbers or few values explain."""
        return self._listed(aside=True)

    def _listed(self, *, aside: bool) -> tuple[Pair, ...]:
        chosen = [position for position, is_aside in enumerate(self.comparison.set_aside.tolist()) if is_aside == aside]
        return tuple(self.comparison.pair(position) for position in chosen[: self.most_pairs])

    @property
    def not_listed(self) -> int:
        """How many more pairs there are."""
        return len(self.comparison.first) - len(self.pairs) - len(self.set_aside)

    @cached_property
    def _graph(self) -> LinkGraph:
        return LinkGraph(self.comparison, JOINABLE)

    def path(self, start: str, end: str) -> LinkPath | None:
        """The best way to link two datasets, over others if need be; None when there is none."""
        for name in (start, end):
            if name not in self.spaces:
                raise ShoalError("E_UNKNOWN_TABLE", f"There is no dataset {name!r} among the sketches.")
        return self._graph.path(start, end) if {start, end} <= set(self._graph.datasets) else None

    @cached_property
    def paths(self) -> list[LinkPath]:
        """Ways over several datasets, the best first."""
        return self._graph.indirect_paths(MOST_PATHS)

    @cached_property
    def groups(self) -> list[list[str]]:
        """Datasets that hang together."""
        return self._graph.groups()

    @cached_property
    def _spread_labels(self) -> tuple[list[Proposal], list[Contradiction]]:
        return propagate(self.comparison, self.given_labels, LABEL_CONTAINMENT)

    @property
    def proposed_labels(self) -> list[Proposal]:
        """Labels for columns without one."""
        return self._spread_labels[0]

    @property
    def contradictions(self) -> list[Contradiction]:
        """Columns with the same values and different labels."""
        return self._spread_labels[1]

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "format": FORMAT,
            "caveat": CAVEAT,
            "datasets": {name: {"space": space, "guessed": guessed} for name, (space, guessed) in self.spaces.items()},
            "pairs": [pair.to_dict() for pair in self.pairs],
            "set_aside": [pair.to_dict() for pair in self.set_aside],
            "not_listed": self.not_listed,
            "paths": [path.to_dict() for path in self.paths],
            "groups": self.groups,
            "proposed_labels": [proposal.to_dict() for proposal in self.proposed_labels],
            "label_contradictions": [contradiction.to_dict() for contradiction in self.contradictions],
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """A page that needs nothing but a browser; written to the path if one is given."""
        page = join_page(
            self.spaces, self.pairs, self.set_aside, self.paths, self.groups, self.proposed_labels, self.contradictions
        )
        return write_page(page, path)

    def __str__(self) -> str:
        return as_text(self.__rich__())

    def __rich__(self) -> Group:
        return join_tables(self.pairs, self.set_aside, self.paths, self.proposed_labels, self.contradictions)
