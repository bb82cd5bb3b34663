"""How much a recoding loses, in five measures: loss, discernibility, average class size, entropy, Kullback–Leibler.

>>> round(kl_of_classes([[4, 2], [1, 1]], suppressed=[], leaf_tuples=[2, 2], domain=4), 6)
0.042475
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from shoal.anonymity.measuring.tuples import summed
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Classes
    from shoal.anonymity.searching.problem import Problem
    from shoal.anonymity.searching.spans import Line

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

Quality = Literal["loss", "discernibility", "class_size"]
QUALITIES: tuple[Quality, ...] = ("loss", "discernibility", "class_size")


def discernibility(class_rows: Integers, kept: Mask, rows: int) -> int:
    """Σ (rows of a class)² + rows · suppressed rows."""
    suppressed = int(class_rows[~kept].sum())
    return sum(int(size) ** 2 for size in class_rows[kept]) + suppressed * rows


def class_size(kept: Mask, rows: int, k: int) -> float:
    """The average size of a class, in multiples of k; the suppressed rows are one more class."""
    return rows / count_classes(kept) / k


def count_classes(kept: Mask) -> int:
    """Classes that stay; the suppressed rows are one more."""
    return max(int(kept.sum()) + (0 if kept.all() else 1), 1)


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """What a recoding does to one column: for each tuple the rows of the table under its label, and the leaves under it."""

    leaf_rows: Integers
    label_rows: Integers
    leaves: Integers


def global_cells(problem: Problem, position: int, level: int) -> Cells:
    """The cells of a column at a level."""
    tuples, ladder = problem.tuples, problem.ladders[position]
    leaf = tuples.codes[:, position]
    label = ladder.maps[level][leaf]
    by_leaf = summed(leaf, tuples.rows, len(ladder.texts))
    by_label = summed(label, tuples.rows, len(ladder.labels[level]))
    return Cells(by_leaf[leaf], by_label[label], ladder.under[level][label])


def span_cells(problem: Problem, line: Line, column: int, low: Integers, high: Integers) -> Cells:
    """The cells of a column of which each tuple has a span of positions."""
    tuples = problem.tuples
    position = line.position[tuples.codes[:, column]]
    by_position = summed(position, tuples.rows, len(line.texts))
    before = np.concatenate(([0], np.cumsum(by_position)))
    leaves = line.leaves_before[high + 1] - line.leaves_before[low]
    return Cells(by_position[position], before[high + 1] - before[low], leaves)


def qualities(
    problem: Problem, part: Integers, classes: Classes, kept: Mask, k: int, cells: Sequence[Cells]
) -> dict[str, float]:
    """All measures but loss."""
    rows, under = problem.rows, np.ones(classes.count)
    lost = most = 0.0
    for column in cells:
        of_class = np.ones(classes.count)
        of_class[part] = column.leaves
        under *= of_class
        label_rows = np.where(kept[part], column.label_rows, rows)
        lost += float((problem.tuples.rows * np.log2(label_rows / column.leaf_rows)).sum())
        most += float((problem.tuples.rows * np.log2(rows / column.leaf_rows)).sum())
    domain = math.prod(ladder.leaves for ladder in problem.ladders)
    return {
        "discernibility": discernibility(classes.rows, kept, rows),
        "class_size": class_size(kept, rows, k),
        "entropy": lost / most if most > 0 else 0.0,
        "kl": _kl(problem.tuples.rows, part, classes.rows, kept, under, float(domain)),
    }


def _kl(rows: Integers, part: Integers, class_rows: Integers, kept: Mask, under: Floats, domain: float) -> float:
    """Nats from the data's distribution over leaf tuples to the released one; suppressed rows are spread over all."""
    total = int(rows.sum())
    if not total:
        return 0.0
    spread = float(class_rows[~kept].sum()) / domain
    released = np.where(kept, class_rows / under, 0.0)[part] + spread
    return float((rows / total * np.log(rows / released)).sum())


def kl_of_classes(
    classes: Sequence[Sequence[int]], suppressed: Sequence[int], leaf_tuples: Sequence[int], domain: int
) -> float:
    """The same from counts of leaf tuples, class by class, for those who check it by hand."""
    rows = np.array([count for part in [*classes, suppressed] for count in part])
    part = np.array([number for number, each in enumerate([*classes, suppressed]) for _ in each], dtype=np.int64)
    kept = np.array([*[True] * len(classes), False])
    sizes = np.array([sum(each) for each in [*classes, suppressed]])
    return _kl(rows, part, sizes, kept, np.array([*leaf_tuples, 1], dtype=float), float(domain))
