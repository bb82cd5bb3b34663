"""The lattice of levels: a lower bound for every recoding, raised by what evaluated recodings teach.

A bound is a sum over columns, so a whole box of finer recodings is raised by one broadcast. Bounds are int64; where exact
losses are larger, they are divided by `divisor` and rounded down, which keeps them lower bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.searching.problem import Levels, Problem

    Integers = NDArray[np.int64]

DEAD = np.iinfo(np.int64).max
LARGEST = 1 << 61


class Lattice:
    """Bounds of all recodings, as an array with an axis for each column."""

    def __init__(self, problem: Problem) -> None:
        self.shape = problem.shape
        self.divisor = max(1, -(-problem.everything // LARGEST))
        self._column_loss = problem.column_loss
        self._suppressed_row = problem.suppressed_row
        self.bound: Integers = self._summed(self._column_loss, self.shape, 0)
        self.order: Integers = np.argsort(-self.bound.ravel(), kind="stable")
        self.checked = np.zeros(self.bound.size, dtype=bool)

    def _summed(self, columns: Sequence[Sequence[int]], shape: Sequence[int], constant: int) -> Integers:
        total = np.array(constant // self.divisor, dtype=np.int64)
        for column, size in zip(columns, shape, strict=True):
            total = total[..., None] + np.array([loss // self.divisor for loss in column[:size]], dtype=np.int64)
        return total

    def _box(self, levels: Levels) -> tuple[slice, ...]:
        return tuple(slice(0, level + 1) for level in levels)

    def kill(self, levels: Levels) -> None:
        """No recoding at most as general as this one can meet the demands."""
        self.bound[self._box(levels)] = DEAD

    def learn(self, levels: Levels, failing: Sequence[Sequence[int]], rows: int) -> None:
        """These rows are suppressed in the whole box: there they lose everything instead of their labels' loss."""
        if not rows:
            return
        rest = [
            [whole - part for whole, part in zip(*columns, strict=True)]
            for columns in zip(self._column_loss, failing, strict=True)
        ]
        box = self._box(levels)
        raised = self._summed(rest, [level + 1 for level in levels], rows * self._suppressed_row)
        np.maximum(self.bound[box], raised, out=self.bound[box])

    def index(self, levels: Levels) -> int:
        """The position of a recoding in lexicographic order."""
        return int(np.ravel_multi_index(levels, self.shape))

    def levels(self, index: int) -> Levels:
        """The recoding at a position."""
        return tuple(int(level) for level in np.unravel_index(index, self.shape))

    def least(self) -> int:
        """The least bound among recodings that live and were not checked; DEAD where there is none."""
        flat = self.bound.ravel()
        return int(np.min(flat, where=~self.checked, initial=DEAD))
