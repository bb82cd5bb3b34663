"""Shortest paths in a secret graph, where no quotient gives them.

>>> fewest_steps((10,), (Fraction(3),), Fraction(10))  # steps of at most 3
4
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.policies.domain import LARGEST_TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

Positions = tuple[int, ...]


def breadth_first(neighbours: Mapping[Positions, tuple[Positions, ...]], x: Positions, y: Positions) -> int | float:
    """Edges on the shortest path from x to y; infinite where there is none."""
    reached = {x: 0}
    waiting = deque([x])
    while waiting:
        value = waiting.popleft()
        if value == y:
            return reached[value]
        for other in neighbours.get(value, ()):
            if other not in reached:
                reached[other] = reached[value] + 1
                waiting.append(other)
    return math.inf


def fewest_steps(way: Positions, weights: tuple[Fraction, ...], limit: Fraction) -> int | float:
    """The fewest whole steps s with Σ weight·|s| ≤ limit that sum to the way (all parts ≥ 0); infinite where none do.

    Steps that turn back never help: cut to what is missing, a step costs no more. So the search runs forward inside the
    box of the way, along steps to which nothing can be added.
    """
    if not any(way):
        return 0
    if any(gap and weight > limit for gap, weight in zip(way, weights, strict=True)):
        return math.inf
    if len(way) == 1:
        return -(-way[0] // int(limit / weights[0]))
    if math.prod(gap + 1 for gap in way) > LARGEST_TABLE:
        raise ShoalError("E_LIMITS", "The way between these values is too long to search.")
    steps = _maximal_steps(way, weights, limit)
    front, count = {tuple(0 for _ in way)}, 0
    seen = set(front)
    while way not in front:
        front = {_cut(at, step, way) for at in front for step in steps} - seen
        seen |= front
        count += 1
    return count


def _cut(at: Positions, step: Positions, way: Positions) -> Positions:
    return tuple(min(a + s, w) for a, s, w in zip(at, step, way, strict=True))


def _maximal_steps(way: Positions, weights: tuple[Fraction, ...], limit: Fraction) -> list[Positions]:
    found = []
    *free, last = range(len(way))
    for chosen in itertools.product(*(range(min(way[i], int(limit / weights[i])) + 1) for i in free)):
        left = limit - sum((weights[i] * chosen[i] for i in free), Fraction(0))
        if left >= 0:
            found.append((*chosen, min(way[last], int(left / weights[last]))))
    return found
