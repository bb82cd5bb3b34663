"""The leaves of a column in a line, for local recoding: spans of them, what a span loses, and what it is called.

Numbers and dates are ordered by value. Categories are ordered by their labels from the top level down, then by value, so that
everything under one label is one stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.hierarchies.rules import TOP
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.anonymity.hierarchies.ladders import Ladder

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Line:
    """A column's values in a line: `position` of each code, and per level the stretch each position belongs to."""

    column: str
    ordered: bool  # numbers and dates: cut anywhere, labelled by their ends
    position: Integers  # of each code
    texts: tuple[str | None, ...]  # of each position
    leaves_before: Integers  # of each position and the end: leaves before it
    labels: tuple[tuple[str | None, ...], ...]  # level → position → label; categories only

    @property
    def most(self) -> int:
        """The loss of the whole line, in leaves."""
        return max(int(self.leaves_before[-1]) - 1, 1)

    def lost(self, low: int, high: int) -> int:
        """Leaves spanned beyond one; the population's own values are none."""
        return max(int(self.leaves_before[high + 1] - self.leaves_before[low]) - 1, 0)

    def boundaries(self, low: int, high: int) -> list[int]:
        """The last positions of the children of the lowest label that holds the span."""
        for level in range(1, len(self.labels)):
            if self.labels[level][low] == self.labels[level][high]:
                children = self.labels[level - 1]
                return [at for at in range(low, high) if children[at] != children[at + 1]]
        return list(range(low, high))

    def label(self, low: int, high: int) -> str | None:
        """`[low, high]`, or the fewest labels that make up exactly the span."""
        if low == high:
            return self.texts[low]
        if not self.ordered:
            return " | ".join(str(name) for name in self._cover(low, high))
        if self.texts[low] is None:
            rest = self.label(low + 1, high)
            return f"NULL | {rest}"
        return f"[{self.texts[low]}, {self.texts[high]}]"

    def _cover(self, low: int, high: int) -> list[str | None]:
        names: list[str | None] = []
        at = low
        while at <= high:
            level, end = self._largest(at, high)
            name = self.labels[level][at]
            names.append("NULL" if name is None else name)
            at = end + 1
        return names

    def _largest(self, at: int, high: int) -> tuple[int, int]:
        """The highest level whose stretch starts here and ends within the span, and its end."""
        for level in range(len(self.labels) - 1, 0, -1):
            labels = self.labels[level]
            if at > 0 and labels[at - 1] == labels[at]:
                continue
            end = at
            while end + 1 < len(labels) and labels[end + 1] == labels[at]:
                end += 1
            if end <= high and (labels[at] != TOP or end - at + 1 == len(labels)):
                return level, end
        return 0, at


def line_of(ladder: Ladder) -> Line:
    """The values of a column in a line."""
    ordered = ladder.kind != "text"
    keys = [_value_key(ladder, code) if ordered else _label_key(ladder, code) for code in range(len(ladder.texts))]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    leaves = ladder.is_leaf[order].astype(np.int64)
    labels = () if ordered else tuple(
        tuple(names[int(number)] for number in numbers[order])
        for names, numbers in zip(ladder.labels, ladder.maps, strict=True)
    )  # fmt: skip
    texts = tuple(ladder.texts[code] for code in order)
    return Line(ladder.column, ordered, position, texts, np.concatenate(([0], np.cumsum(leaves))), labels)


def _value_key(ladder: Ladder, code: int) -> tuple[object, ...]:
    text = ladder.texts[code]
    if text is None:
        return (0, 0, "")
    if ladder.kind == "date":
        return (1, 0, text)
    try:
        return (1, as_fraction(text), text)
    except ValueError:  # NaN and infinities
        return (2, 0, text)


def _label_key(ladder: Ladder, code: int) -> tuple[object, ...]:
    """Labels from the top down, then the value; NULL first."""
    labels = [
        names[int(numbers[code])] for names, numbers in zip(reversed(ladder.labels), reversed(ladder.maps), strict=True)
    ]
    return tuple((label is not None, label or "") for label in labels)
