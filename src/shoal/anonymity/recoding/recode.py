"""A chosen recoding carried out: labels for every tuple, which tuples stay, what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.recoding.local_cuts import OUTSIDE, LocalCuts
from shoal.anonymity.recoding.output import Labels
from shoal.anonymity.searching.evaluation import k_of
from shoal.anonymity.searching.quality import global_cells, qualities, span_cells
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.tuples import Tuples
    from shoal.anonymity.searching.mondrian import Parts
    from shoal.anonymity.searching.problem import Levels, Problem
    from shoal.anonymity.searching.spans import Line

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

NOWHERE = "outside every part"
"""What stands for a tuple of the population that no label covers; it is never published."""


@dataclass(frozen=True, eq=False, slots=True)
class Recoded:
    """What becomes of each tuple."""

    labels: tuple[Labels, ...]
    kept: Mask  # of each tuple
    people: tuple[Labels, ...] | None
    quality: Mapping[str, float]  # loss among them, where it is known


def recode_globally(problem: Problem, levels: Levels) -> Recoded:
    """Labels of a level for each column; classes that break a demand are dropped."""
    part, classes = problem.partition(levels)
    kept = problem.kept(classes)
    cells = [global_cells(problem, position, level) for position, level in enumerate(levels)]
    measures = qualities(problem, part, classes, kept, k_of(problem.demands), cells)
    lost = problem.losses_of(kept[part])
    loss = sum(lost[position][level] for position, level in enumerate(levels))
    loss += problem.suppressed_row * int(classes.rows[~kept].sum())
    columns = range(len(levels))
    labels = tuple(
        _labels(problem, position, levels[position], problem.tuples.codes[:, position]) for position in columns
    )
    people = None
    if problem.people is not None:
        people = tuple(
            _labels(problem, position, levels[position], problem.people_codes[position]) for position in columns
        )
    return Recoded(labels, kept[part], people, {"loss": loss / problem.everything} | measures)


def _labels(problem: Problem, position: int, level: int, codes: Integers) -> Labels:
    """At level 0 the values themselves, in their own type."""
    ladder, column = problem.ladders[position], problem.tuples.quasi[position]
    if level == 0 and int(codes.max(initial=0)) < len(column.values):
        return Labels(column.values, codes)
    return Labels.of_texts(ladder.labels[level], ladder.maps[level][codes])


def recode_locally(problem: Problem, lines: Sequence[Line], parts: Parts, cuts: LocalCuts) -> Recoded:
    """The labels of each part; nothing is dropped."""
    from shoal.anonymity.measuring.classes import classes_of

    count = len(parts.low)
    classes = classes_of(problem.tuples, parts.of_tuple, count)
    low, high = parts.low[parts.of_tuple], parts.high[parts.of_tuple]
    cells = [
        span_cells(problem, line, position, low[:, position], high[:, position]) for position, line in enumerate(lines)
    ]
    kept = np.ones(count, dtype=bool)
    measures = qualities(problem, parts.of_tuple, classes, kept, k_of(problem.demands), cells)
    loss = sum(
        unit * int((problem.tuples.rows * (column.leaves - 1)).sum())
        for unit, column in zip(problem.unit, cells, strict=True)
    )
    found = labels_of_cuts(cuts, problem.tuples, problem.people)
    return Recoded(found.labels, found.kept, found.people, {"loss": loss / problem.everything} | measures)


def labels_of_cuts(cuts: LocalCuts, tuples: Tuples, people: Tuples | None) -> Recoded:
    """Every tuple in the part it falls into; those that fall into none are dropped."""
    labels, kept = _cut_labels(cuts, tuples)
    theirs = None if people is None else _cut_labels(cuts, people)[0]
    return Recoded(labels, kept, theirs, {})


def _cut_labels(cuts: LocalCuts, tuples: Tuples) -> tuple[tuple[Labels, ...], Mask]:
    part = cuts.part_of_tuples(tuples)
    kept = part != OUTSIDE
    labels = []
    for position, column in enumerate(cuts.columns):
        if bool((cuts.low[:, position] == cuts.high[:, position]).all()) and bool(kept.all()):
            labels.append(Labels(tuples.quasi[position].values, tuples.codes[:, position]))
            continue
        texts = [*column.labels, NOWHERE]
        labels.append(Labels.of_texts(texts, np.where(kept, cuts.label[part, position], len(texts) - 1)))
    return tuple(labels), kept
