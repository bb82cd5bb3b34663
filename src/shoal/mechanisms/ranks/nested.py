"""Several quantiles by recursion: the middle one of all rows first, then those on either side of it among the rows on that side.

**Parts.** Leaf ℓ with w rows is treated as eight sub-leaves that share its rows evenly: the first j of them hold ⌊j·w/8⌋. The
middle quantile of a part is chosen among sub-leaves like any quantile (`quantile_choice`). If sub-leaf j of leaf ℓ is chosen,
all rows of leaves below ℓ and ⌊(2j + 1)·w/16⌋ rows of ℓ are the left part, all other rows the right one; both keep the leaf ℓ.
The next quantiles are searched there, at the share of the part's rows that lies below them: (p − a)/(c − a) between the
fractions a and c of the cuts.

**Privacy.** An owner adds c_ℓ ≥ 0 rows to leaf ℓ, c in all. ⌊θ(w + c_ℓ)⌋ − ⌊θw⌋ lies between 0 and c_ℓ for any θ ≤ 1. So given the
same cut the owner adds rows to both parts and takes none away, and what is added to one is not added to the other: the rows
added to all parts of a level are c together. By the same inequality A and B of every sub-leaf grow by 0 to 1 with every row. A draw
in a part that c′ rows are added to loses at most 2c′/scale, and the draws of one level, independent given the cuts above, 2c/scale
together. L levels, one after the other, lose 2·L·c/scale, L = ⌈log2(m + 1)⌉ for m quantiles. In zCDP a draw has
c′²/(2·scale²), and Σc′² ≤ c².

A left quantile is never above its cut and a right one never below it, so the list rises.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal.accounting.events import RankTarget

Counts = npt.NDArray[np.int64]

SUB_LEAVES = 8
FINEST_SHARE = 10_000
"""Shares of a part are rounded to such denominators, so that distances stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows by group and leaf, sorted, each pair once, and the leaves that the quantiles of each group may lie in."""

    group: Counts
    leaf: Counts
    rows: Counts
    lowest: Counts
    beyond: Counts

    def in_sub_leaves(self) -> tuple[Counts, Counts, Counts]:
        """The same rows by sub-leaf, for sub-leaves that hold any."""
        steps = np.arange(SUB_LEAVES + 1)
        held = np.diff(self.rows[:, None] * steps // SUB_LEAVES, axis=1)
        some = held > 0
        cells = self.leaf[:, None] * SUB_LEAVES + steps[:-1]
        return np.repeat(self.group, some.sum(axis=1)), cells[some], held[some]

    def cut(self, chosen: Counts) -> tuple[Part, Part]:
        """What lies on either side of the chosen sub-leaf of every group."""
        at, turn = chosen // SUB_LEAVES, chosen % SUB_LEAVES
        own = at[self.group]
        shared = self.rows * (2 * turn[self.group] + 1) // (2 * SUB_LEAVES)
        left = np.where(self.leaf < own, self.rows, np.where(self.leaf == own, shared, 0))
        return self._with(left, self.lowest, at + 1), self._with(self.rows - left, at, self.beyond)

    def _with(self, rows: Counts, lowest: Counts, beyond: Counts) -> Part:
        some = rows > 0
        return Part(self.group[some], self.leaf[some], rows[some], lowest, beyond)


@dataclass(frozen=True, slots=True)
class Turn:
    """Which target to search for in a part, as a share of the part's rows, and which targets remain on either side."""

    middle: int
    target: RankTarget
    left: slice
    right: slice


def turn_for(targets: Sequence[RankTarget], among: slice, low: Fraction, high: Fraction) -> Turn:
    """The middle of these targets in a part that holds the rows between two fractions."""
    middle = (among.start + among.stop) // 2
    share = (targets[middle].fraction - low) / (high - low)
    target = replace(targets[middle], fraction=share.limit_denominator(FINEST_SHARE))
    return Turn(middle, target, slice(among.start, middle), slice(middle + 1, among.stop))


def sides(turn: Turn, fraction: Fraction, low: Fraction, high: Fraction) -> Iterator[tuple[slice, Fraction, Fraction]]:
    """The targets on either side, left first, and the fractions their part lies between."""
    yield turn.left, low, fraction
    yield turn.right, fraction, high


def ways_to(targets: Sequence[RankTarget]) -> dict[RankTarget, tuple[RankTarget, ...]]:
    """The draws on the way to each target, including the target itself, as shares of the parts."""
    found: dict[RankTarget, tuple[RankTarget, ...]] = {}

    def down(among: slice, low: Fraction, high: Fraction, before: tuple[RankTarget, ...]) -> None:
        if among.start < among.stop:
            turn = turn_for(targets, among, low, high)
            own = targets[turn.middle]
            found[own] = (*before, turn.target)
            for side, above, below in sides(turn, own.fraction, low, high):
                down(side, above, below, found[own])

    down(slice(0, len(targets)), Fraction(0), Fraction(1), ())
    return found
