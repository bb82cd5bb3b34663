"""What given limits cut, read from the noisy histogram of `measure_cut`: post-processing of numbers already paid for.

Rows of cells are what is cut of an owner, columns what is kept. With b the noise's scale and B cells, a cell stands out from
b·ln(10·B) (alone, without the cell below it, from b·ln(1000·B)), or where it and all above it hold together more than 4.5
standard deviations of their noise: heavy owners are spread over many cells. In each column cells up to the highest that stands out
are believed, negative ones as 0; above it a cell is at most 0.3 of the one before. Feared is b more, and half of the one before
where the column is cut for certain. A column in which no cell stands out is empty. A cell stands for the middles of its bins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.rewrite.limits.choosing import FEWEST_OWNERS, HALF, Kept, at_most_half

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.plan.limits.sought import Sought

MIDDLES = (1.8, 8.0, 32.0, 128.0, 512.0, 2048.0)
"""For the bins 1–3, 4–15, 16–63 and so on, in their unit."""
FALL, SLOW = 0.3, 0.5
"""How fast cells fall above the last believed one; if some rows are surely cut, more may be."""
FALSE_CELLS, SURELY, POOLED = 10, 1000, 4.5
EXPONENT = 1.5
"""Groups differ from the whole more than when limits are chosen to keep most."""


def what_is_kept(sought: Sought, counts: Sequence[float], scale: float, epsilon: float) -> Kept:
    """The share of an aggregate that limits keep; half is assumed if too few owners are seen."""
    rows, columns = len(sought.edges) + 1, len(sought.kept_edges) + 1
    noisy = np.array(counts, dtype=np.float64).reshape(rows, columns)
    believed, feared = np.zeros(noisy.shape), np.zeros(noisy.shape)
    for column in range(columns):
        believed[:, column], feared[:, column] = _read(noisy[:, column], scale, noisy.size)
    if believed.sum() * epsilon < FEWEST_OWNERS:
        return at_most_half(_share(believed), _share(feared)) if believed.any() else HALF
    binds = bool((noisy[1:] >= scale * math.log(SURELY * noisy.size)).any())
    share = _share(believed)
    return Kept(share, min(share, _share(feared)), measured=True, exponent=EXPONENT, binds=binds)


def _share(owners: NDArray[np.float64]) -> float:
    """What is kept of everything, by the middles of the cells."""
    kept = float(owners.sum(axis=0) @ np.array(MIDDLES[: owners.shape[1]]))
    cut = float(owners.sum(axis=1) @ np.array((0.0, *MIDDLES)))
    return kept / (kept + cut)


def _read(column: NDArray[np.float64], scale: float, cells: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two readings of the cells with about the same kept: believed, and feared."""
    from_here = np.cumsum(column[::-1])[::-1]
    together = POOLED * scale * np.sqrt(2.0 * np.arange(len(column), 0, -1))
    above = column >= scale * math.log(FALSE_CELLS * cells)
    alone = ~np.concatenate([[False], above[:-1]]) & (column < scale * math.log(SURELY * cells))
    high = np.flatnonzero((above & ~alone) | (from_here >= together))
    if not len(high):
        return np.zeros(len(column)), np.zeros(len(column))
    top = int(high[-1])
    believed, feared = np.maximum(column, 0.0), np.maximum(column, 0.0)
    for position in range(top + 1, len(column)):
        believed[position] = min(believed[position], FALL * believed[position - 1])
        feared[position] = min(feared[position] + scale, (SLOW if top else FALL) * feared[position - 1])
    return believed, feared


def both(first: Kept | None, second: Kept | None) -> Kept | None:
    """What two kinds of limits keep together; if one of them is a guess, so is the whole."""
    if first is None or second is None:
        return first or second
    if not (first.measured and second.measured):
        return at_most_half(first.share * second.share, first.pessimistic * second.pessimistic)
    return Kept(
        first.share * second.share,
        first.pessimistic * second.pessimistic,
        measured=True,
        exponent=max(first.exponent, second.exponent),
        binds=first.binds or second.binds,
        heaviness=max(first.heaviness, second.heaviness),
    )
