"""A hierarchy laid over the values of a column: for every value its label at every level, as numbers.

Leaves are the values a file lists, or the distinct values of the data; NULL is a leaf beside the others. Loss counts the
leaves under a label, so that a leaf the data lacks still counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.anonymity.hierarchies.rules import wrong
from shoal.anonymity.hierarchies.values import Kind, text_of
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from shoal.anonymity.hierarchies.hierarchy import Hierarchy

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Ladder:
    """The levels of one column.

    A *code* is the position of a value in the data's order; then come the values that only the population has, then the leaves
    that nobody has.
    """

    column: str
    hierarchy: Hierarchy
    leaves: int
    kind: Kind
    texts: tuple[str | None, ...]  # of each code
    is_leaf: NDArray[np.bool_]  # the population's own values are none
    maps: tuple[Integers, ...]  # level → code → label
    labels: tuple[tuple[str | None, ...], ...]  # level → label → text
    under: tuple[Integers, ...]  # level → label → leaves below it

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.maps)

    def lost(self, level: int) -> Integers:
        """For each code, the leaves below its label beyond one."""
        return self.under[level][self.maps[level]] - 1


def ladder_of(column: str, hierarchy: Hierarchy, values: pa.Array, kind: Kind, others: Sequence[Any] = ()) -> Ladder:
    """Lay a hierarchy over a column's distinct values (NULL among them), and over values only the population has."""
    data = values.to_pylist()
    typed = [*data, *others]
    texts = tuple(text_of(value) for value in typed)
    hierarchy = hierarchy.bound(texts[: len(data)])
    fixed = hierarchy.rule.fixed
    _refuse_missing(column, texts, fixed)
    leaves = set(texts[: len(data)]) | set(fixed or ())
    unseen = sorted(leaf for leaf in leaves - set(texts) if leaf is not None)
    members = [*typed, *unseen]
    is_leaf = np.array([text in leaves for text in (*texts, *unseen)], dtype=bool)
    maps, labels, under = [], [], []
    for level in range(hierarchy.levels):
        numbers, names = _numbered(_labels(column, hierarchy, members, level, kind))
        below = np.bincount(numbers[is_leaf], minlength=len(names)).astype(np.int64)
        top = hierarchy.label(None, hierarchy.levels)
        if top in names and level > 0:
            below[names.index(top)] = len(leaves)  # a label of everything covers everything, also on a lower level
        maps.append(numbers)
        labels.append(tuple(names))
        under.append(np.maximum(below, 1))
    return Ladder(
        column,
        hierarchy,
        len(leaves),
        kind,
        (*texts, *unseen),
        is_leaf,
        tuple(maps),
        tuple(labels),
        tuple(under),
    )


def _refuse_missing(column: str, texts: Sequence[str | None], fixed: Sequence[str | None] | None) -> None:
    """A file must list what the data has; how many are missing is said, never which."""
    if fixed is None:
        return
    known = set(fixed)
    missing = sum(text is not None and text not in known for text in texts)
    if missing:
        raise wrong(
            f"The hierarchy of {column!r} lacks {missing:,} of the column's values.",
            hint=f"Add them under *: shoal anonymity hierarchy SOURCE --column {column} --complete FILE -o FILE",
        )


def _labels(column: str, hierarchy: Hierarchy, members: Sequence[Any], level: int, kind: Kind) -> list[str | None]:
    found: list[str | None] = []
    wrong_values = 0
    for value in members:
        try:
            found.append(hierarchy.label(value, level, kind))
        except (ValueError, TypeError, OverflowError):
            wrong_values += 1
    if wrong_values:
        raise wrong(
            f"The hierarchy of {column!r} does not fit {wrong_values:,} of the column's values.",
            hint="Intervals need numbers or dates, dates need dates.",
        )
    return found


def _numbered(labels: Sequence[str | None]) -> tuple[Integers, list[str | None]]:
    """Labels as numbers, in order of first appearance."""
    seen: dict[str | None, int] = {}
    numbers = np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
    return numbers, list(seen)
