"""Accuracy or more groups: which of several ways to spend (ε, δ) is expected to leave the smaller error, over a public prior.

A group's size m is unknown until it is paid for. The prior: m is as likely to be between 1 and 2 as between 2 and 4, and so on up
to 1/(100·δ) owners, since δ stays below one over a hundred times their number. A group that is not shown loses its whole value: a
relative error of 1. One that is shown errs by e/m, where e is the median error in owners' contributions, and by at most 1. A group
is shown from about h owners on. The criterion is the mean logarithm of the relative error, so halving it is worth the same
everywhere. With few owners per group the selection decides, with large groups the error:

    (1/ln N)·∫ ln min(1, e/m) d(ln m)  over ln max(h, e) ≤ ln m ≤ ln N  =  [x·ln e − x²/2] between these ends, over ln N.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

LARGEST, SMALLEST = 10**9, 10**3
"""The prior's upper end lies between these, whatever δ says."""


def largest_group(delta: Fraction) -> float:
    """N: the owners that δ was chosen for.

    >>> from fractions import Fraction
    >>> round(largest_group(Fraction(1, 10**6)))
    10000
    """
    told = 1 / (100 * float(delta)) if delta else math.inf
    return float(min(max(told, SMALLEST), LARGEST))


def expected_groups(owners: float, largest: float) -> float:
    """The share of the prior's groups that are shown, if a group is shown from this many owners on.

    >>> round(expected_groups(100.0, 1e4), 6)
    0.5
    """
    return max(0.0, math.log(largest / max(owners, 1.0))) / math.log(largest)


def expected_log_error(errors: Sequence[float], owners: float, largest: float) -> float:
    """The mean logarithm of the relative error over all numbers and group sizes; 0 if nothing is ever shown.

    >>> expected_log_error([10.0], 20.0, 1e4) < expected_log_error([20.0], 20.0, 1e4) < 0
    True
    """
    if not errors:
        return -expected_groups(owners, largest)
    return sum(_of_one(max(error, 1e-300), owners, largest) for error in errors) / len(errors)


def _of_one(error: float, owners: float, largest: float) -> float:
    first, last = math.log(max(owners, error, 1.0)), math.log(largest)
    if first >= last:
        return 0.0
    return ((last * math.log(error) - last**2 / 2) - (first * math.log(error) - first**2 / 2)) / last
