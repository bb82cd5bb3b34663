"""The cuts of a local recoding, apart from the data they were made on: where a new row falls, and what its cells become.

Places are doubled: an even number is a leaf, an odd one lies between two leaves, so that a new number between two old ones
has a position too. A row outside of every part has no label; it is suppressed.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.anonymity.hierarchies.values import text_of
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from shoal.anonymity.measuring.tuples import Tuples
    from shoal.anonymity.searching.mondrian import Parts
    from shoal.anonymity.searching.spans import Line

    Integers = NDArray[np.int64]

OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class LocalColumn:
    """A column: its leaves in a line (NULL as None), and the labels that parts use."""

    name: str
    kind: str
    leaves: tuple[str | None, ...]
    labels: tuple[str | None, ...]

    def positions(self, values: pa.Array) -> Integers:
        """The doubled position of each distinct value; outside where it has none."""
        texts = [text_of(value) for value in values.to_pylist()]
        known = {leaf: 2 * at for at, leaf in enumerate(self.leaves)}
        keys = None if self.kind == "text" else [_key(self.kind, leaf) for leaf in self.leaves]
        return np.array([known.get(text, self._between(text, keys)) for text in texts], dtype=np.int64)

    def _between(self, text: str | None, keys: list[Any] | None) -> int:
        if keys is None or text is None:
            return OUTSIDE
        return 2 * bisect_left(keys, _key(self.kind, text)) - 1


def _key(kind: str, text: str | None) -> tuple[Any, ...]:
    """The order of `spans`: NULL, then by value, then what is on no line, as NaN."""
    if text is None:
        return (0, 0)
    if kind == "date":
        return (1, text)
    try:
        return (1, as_fraction(text))
    except ValueError:
        return (2, text)


@dataclass(frozen=True, eq=False, slots=True)
class LocalCuts:
    """The finished cutting of a table."""

    columns: tuple[LocalColumn, ...]
    cuts: Integers  # (column, last position on the left, left, right); a side below 0 is the part −1 − side
    low: Integers  # parts × columns
    high: Integers
    label: Integers

    @classmethod
    def of(cls, parts: Parts, lines: Sequence[Line], kinds: Sequence[str]) -> LocalCuts:
        """The cuts of a table, with the labels of its parts."""
        columns, labels = [], []
        for position, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
            known: dict[str | None, int] = {}
            spans = zip(parts.low[:, position].tolist(), parts.high[:, position].tolist(), strict=True)
            labels.append([known.setdefault(line.label(low, high), len(known)) for low, high in spans])
            columns.append(LocalColumn(line.column, kind, line.texts, tuple(known)))
        cuts = np.array([[cut.column, cut.at, cut.left, cut.right] for cut in parts.cuts], dtype=np.int64).reshape(
            -1, 4
        )
        return cls(tuple(columns), cuts, parts.low, parts.high, np.array(labels, dtype=np.int64).T)

    def part_of_tuples(self, tuples: Tuples) -> Integers:
        """The part that each tuple falls into; outside where it falls into none."""
        pairs = enumerate(zip(self.columns, tuples.quasi, strict=True))
        return self.part_of(np.stack([c.positions(own.values)[tuples.codes[:, j]] for j, (c, own) in pairs], axis=1))

    def part_of(self, positions: Integers) -> Integers:
        """The part of each tuple of doubled positions; outside where it lies in no part's span."""
        part = np.full(len(positions), OUTSIDE, dtype=np.int64)
        waiting = [(0 if len(self.cuts) else -1, np.arange(len(positions)))]
        while waiting:
            number, rows = waiting.pop()
            if not len(rows):
                continue
            if number < 0:
                part[rows] = -1 - number
                continue
            column, at, left, right = self.cuts[number].tolist()
            goes_left = positions[rows, column] <= 2 * at
            waiting += [(left, rows[goes_left]), (right, rows[~goes_left])]
        found = part >= 0
        inside = (positions[found] >= 2 * self.low[part[found]]) & (positions[found] <= 2 * self.high[part[found]])
        part[np.flatnonzero(found)[~inside.all(axis=1)]] = OUTSIDE
        return part

    def to_dict(self) -> dict[str, object]:
        """As a transformation stores it."""
        spans = np.stack((self.low, self.high, self.label), axis=2).reshape(len(self.low), -1)
        return {
            "cuts": self.cuts.tolist(),
            "parts": spans.tolist(),
            "columns": {
                column.name: {
                    "kind": column.kind,
                    "leaves": ["" if leaf is None else leaf for leaf in column.leaves],
                    "null_leaf": column.leaves.index(None) if None in column.leaves else -1,
                    "labels": ["" if label is None else label for label in column.labels],
                    "null_label": column.labels.index(None) if None in column.labels else -1,
                }
                for column in self.columns
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LocalCuts:
        """What `to_dict` stored."""
        columns = tuple(
            LocalColumn(
                str(name), str(entry["kind"]),
                _with_null(entry["leaves"], entry["null_leaf"]), _with_null(entry["labels"], entry["null_label"]),
            )
            for name, entry in data["columns"].items()
        )  # fmt: skip
        spans = np.array(data["parts"], dtype=np.int64).reshape(-1, len(columns), 3)
        cuts = np.array(data["cuts"], dtype=np.int64).reshape(-1, 4)
        found = cls(columns, cuts, spans[:, :, 0], spans[:, :, 1], spans[:, :, 2])
        found.check()
        return found

    def check(self) -> None:
        """Refuse cuts that lead in a circle or nowhere."""
        cuts, parts = len(self.cuts), len(self.low)
        for number, (column, _, left, right) in enumerate(self.cuts.tolist()):
            for side in (left, right):
                if not (-parts <= side < 0 or number < side < cuts) or not 0 <= column < len(self.columns):
                    raise ValueError("damaged cuts")
        for position, column in enumerate(self.columns):
            if self.label[:, position].min() < 0 or self.label[:, position].max() >= len(column.labels):
                raise ValueError("damaged labels")


def _with_null(listed: Sequence[str], null: int) -> tuple[str | None, ...]:
    return tuple(None if at == null else str(text) for at, text in enumerate(listed))
