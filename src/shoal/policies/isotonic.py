"""Constrained inference: the nearest answers that could be true. Post-processing of released numbers, free of charge.

>>> rising([1.0, 3.0, 2.0, 4.0]).tolist()
[1.0, 2.5, 2.5, 4.0]
>>> onto_total([3.0, -1.0, 0.5], 2.0).tolist()
[2.0, 0.0, 0.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = npt.NDArray[np.float64]


def rising(values: Sequence[float] | Floats) -> Floats:
    """The non-decreasing sequence at the least squared distance: neighbours that fall are pooled, once through."""
    levels: list[float] = []
    sizes: list[int] = []
    for value in np.asarray(values, dtype=np.float64).tolist():
        level, size = value, 1
        while levels and levels[-1] > level:
            level = (level * size + levels[-1] * sizes[-1]) / (size + sizes[-1])
            size += sizes.pop()
            levels.pop()
        levels.append(level)
        sizes.append(size)
    return np.repeat(np.array(levels, dtype=np.float64), sizes)


def rising_between(values: Sequence[float] | Floats, low: float, high: float) -> Floats:
    """The same, inside [low, high]: clipping after pooling is the projection (bounded isotonic regression)."""
    return np.clip(rising(values), low, high)


def onto_total(values: Sequence[float] | Floats, total: float) -> Floats:
    """The numbers ≥ 0 with this sum at the least squared distance: one threshold off all of them, found by sorting."""
    array = np.asarray(values, dtype=np.float64)
    if not len(array) or total <= 0:
        return np.zeros(len(array))
    order = np.sort(array)[::-1]
    excess = (np.cumsum(order) - total) / np.arange(1, len(order) + 1)
    last = int(np.flatnonzero(order > excess)[-1])
    return np.asarray(np.maximum(array - excess[last], 0.0), dtype=np.float64)
