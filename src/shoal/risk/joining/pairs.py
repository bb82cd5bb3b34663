"""All pairs of columns of all sketches: how well each joins its two datasets.

Two spaces of owners are joinable through a pair of columns when one column is largely contained in the other and both
single owners out: score = larger containment × uniqueness of one × uniqueness of the other. Pairs that link identified
owners to pseudonymous ones come first.

Small whole numbers are in each other everywhere. A pair is set aside when a column has few values, or when the
containment is no more than chance would give: of the values of A that look like whole numbers of d digits (or dates,
or digits), a share n_B(d)/possible(d) is in B anyway. Columns of the same name are never set aside: keys are how tables
are joined, and a key of 91 customers singles each of them out. Nor are two columns that single out nearly everybody in both
datasets; where chance explains what they share, the pair says so, and is not a link of a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass
from shoal.risk.hashing import shapes
from shoal.risk.joining.containment import AllContainments, all_containments
from shoal.risk.sketch.files import subject_name
from shoal.risk.sketch.grading import Grade, percent

if TYPE_CHECKING:
    from shoal.risk.joining.containment import Matrix
    from shoal.risk.scanning.table_sketches import Subject
    from shoal.risk.sketch.estimate import Estimate
    from shoal.risk.sketch.khll import Sketch

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

FEW_VALUES = "a column has few distinct values"
BY_CHANCE = "small numbers, dates or digits are in each other by chance"
_SINGLES_OUT = 0.95  # from this uniqueness on a column is a key, however few values it has
_LIFT = 2.0  # containment must be this many times what chance gives


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a dataset that was sketched, and what a comparison needs to know of it."""

    dataset: str
    subject: Subject
    sketch: Sketch
    is_owner: bool

    @property
    def name(self) -> str:
        """`dataset.column`."""
        return f"{self.dataset}.{subject_name(self.subject)}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns, and how well they join their datasets."""

    a: str
    b: str
    a_dataset: str
    b_dataset: str
    a_in_b: Estimate
    b_in_a: Estimate
    common: float
    a_uniqueness: Estimate
    b_uniqueness: Estimate
    chance: float  # the containment, in the better direction, that shapes alone would give
    shape_similarity: float
    score: float
    grade: Grade
    links_identified: bool  # one side is identified, the other pseudonymous
    set_aside: str | None  # why the pair is not evidence, where it is not

    @property
    def reason(self) -> str:
        """One sentence."""
        inner, outer = (self.a, self.b) if self.a_in_b.value >= self.b_in_a.value else (self.b, self.a)
        share = percent(max(self.a_in_b.value, self.b_in_a.value))
        alone = min(self.a_uniqueness.value, self.b_uniqueness.value)
        values = "all" if alone == 1 else f"at least {percent(alone)}"
        link = " It links identified owners to pseudonymous ones." if self.links_identified else ""
        chance = " Numbers this small are in each other by chance, too." if self.may_be_chance else ""
        return f"{share} of {inner} is in {outer}; {values} of their values single one owner out.{chance}{link}"

    @property
    def may_be_chance(self) -> bool:
        """Whether what the columns share is no more than chance would give."""
        return max(self.a_in_b.value, self.b_in_a.value) < _LIFT * self.chance

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "a": self.a,
            "b": self.b,
            "a_in_b": self.a_in_b.to_dict(),
            "b_in_a": self.b_in_a.to_dict(),
            "common_values": self.common,
            "a_uniqueness": self.a_uniqueness.to_dict(),
            "b_uniqueness": self.b_uniqueness.to_dict(),
            "chance": self.chance,
            "shape_similarity": self.shape_similarity,
            "score": self.score,
            "grade": str(self.grade),
            "links_identified_to_pseudonymous": self.links_identified,
            "set_aside": self.set_aside,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of columns of different datasets that share enough, as arrays: the best first."""

    columns: list[Column]
    containments: AllContainments
    uniqueness: list[Estimate]
    first: Places
    second: Places
    score: npt.NDArray[np.float64]
    chance: npt.NDArray[np.float64]
    few: Mask
    by_chance: Mask
    keys: Mask
    links: Mask

    @property
    def evident(self) -> Mask:
        """The pairs that nothing but a link explains."""
        return ~(self.few | self.by_chance)

    @property
    def set_aside(self) -> Mask:
        """The pairs that are not evidence; two keys always are some, though chance may explain them."""
        return self.few | (self.by_chance & ~self.keys)

    def pair(self, position: int) -> Pair:
        """One of the pairs in full."""
        i, j = int(self.first[position]), int(self.second[position])
        a, b = self.columns[i], self.columns[j]
        few, by_chance = bool(self.few[position]), bool(self.by_chance[position])
        aside = (FEW_VALUES if few else BY_CHANCE) if self.set_aside[position] else None
        score, links = float(self.score[position]), bool(self.links[position])
        return Pair(
            a.name, b.name, a.dataset, b.dataset, self.containments.estimate(i, j), self.containments.estimate(j, i),
            float(self.containments.common[i, j]), self.uniqueness[i], self.uniqueness[j], float(self.chance[position]),
            shapes.similarity(a.sketch.shapes, b.sketch.shapes), score,
            _grade(score, links=links, aside=aside is not None, chance=by_chance),
            links, aside,
        )  # fmt: skip


def _grade(score: float, *, links: bool, aside: bool, chance: bool = False) -> Grade:
    if aside:
        return Grade.MINIMAL
    if chance:
        return Grade.MEDIUM if score >= 0.5 else Grade.LOW
    if score >= 0.5:
        return Grade.CRITICAL if links else Grade.HIGH
    return Grade.MEDIUM if score >= 0.1 else Grade.LOW


def compare(
    columns: list[Column], linked_datasets: set[frozenset[str]], minimum_containment: float, minimum_values: int
) -> Comparison:
    """Compare all columns; `linked_datasets` are the pairs of datasets of which one is identified, one pseudonymous."""
    containments = all_containments([column.sketch for column in columns])
    uniqueness = [column.sketch.uniqueness() for column in columns]
    first, second = _candidates(columns, containments, minimum_containment)
    forward, backward = containments.value[first, second], containments.value[second, first]
    better = np.maximum(forward, backward)
    expected = chance_containment(columns)
    chance = np.where(forward >= backward, expected[first, second], expected[second, first])
    alone = np.array([estimate.value for estimate in uniqueness])
    score = better * alone[first] * alone[second]
    distinct = np.array([column.sketch.distinct_values().value for column in columns])
    same_name = _same_name(columns, first, second)
    keys = (alone[first] >= _SINGLES_OUT) & (alone[second] >= _SINGLES_OUT)
    few = ((distinct[first] < minimum_values) | (distinct[second] < minimum_values)) & ~same_name & ~keys
    by_chance = (better < _LIFT * chance) & ~same_name
    links = _links(columns, first, second, linked_datasets)
    order = np.lexsort((-better, -score, ~links, few | by_chance))
    return Comparison(
        columns, containments, uniqueness, first[order], second[order], score[order], chance[order], few[order],
        by_chance[order], keys[order], links[order],
    )  # fmt: skip


def _candidates(columns: list[Column], containments: AllContainments, minimum: float) -> tuple[Places, Places]:
    names = {name: number for number, name in enumerate(dict.fromkeys(column.dataset for column in columns))}
    datasets = np.array([names[column.dataset] for column in columns], dtype=np.int64)
    better = np.maximum(containments.value, containments.value.T)
    chosen = np.triu((better >= minimum) & (containments.common > 0), 1) & (datasets[:, None] != datasets[None, :])
    first, second = np.nonzero(chosen)
    return first, second


def _same_name(columns: list[Column], first: Places, second: Places) -> Mask:
    names = np.array([subject_name(column.subject).lower() for column in columns], dtype=object)
    return np.asarray(names[first] == names[second], dtype=np.bool_)


def _links(columns: list[Column], first: Places, second: Places, linked: set[frozenset[str]]) -> Mask:
    if not linked:
        return np.zeros(len(first), dtype=np.bool_)
    names = [column.dataset for column in columns]
    return np.array(
        [frozenset((names[i], names[j])) in linked for i, j in zip(first, second, strict=True)], dtype=np.bool_
    )


def chance_containment(columns: list[Column]) -> Matrix:
    """For all i and j: how much of column i would be in column j if both were drawn at random among values of their shapes.

    Σ over shapes of (share of i with that shape) · min(1, n_j(shape)/possible(shape)).
    """
    counted = [np.unique(column.sketch.shapes, return_counts=True) for column in columns]
    every = np.unique(np.concatenate([np.empty(0, np.uint16), *(found for found, _ in counted)]))
    finite = np.array([shape for shape in every if np.isfinite(shapes.possible_values(int(shape)))], dtype=np.uint16)
    possible = np.array([shapes.possible_values(int(shape)) for shape in finite])
    shares = np.zeros((len(columns), len(finite)))
    for position, (found, counts) in enumerate(counted):
        _, here, there = np.intersect1d(finite, found, assume_unique=True, return_indices=True)
        shares[position, here] = counts[there] / counts.sum()
    distinct = np.array([column.sketch.distinct_values().value for column in columns])
    density = np.minimum(1.0, shares * distinct[:, None] / possible) if len(finite) else shares
    return np.asarray(shares @ density.T)
