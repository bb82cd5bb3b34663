"""What noisy numbers lose under a promise they were not made for: all families of a release together.

Under another policy: rows per owner · its moves · max over its edges of Σ_i |v_i(x) − v_i(y)|/scale_i. For owners: rows per owner ·
max over x of Σ_i |v_i(x)|/scale_i. The sum is inside the maximum, because one edge moves all families of a release at once;
sums of the families' own maxima would be an upper bound, and are used where the values are too many to look at every pair.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from shoal.policies.tables import Columns, Stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from shoal.policies.policy import Policy
    from shoal.policies.tables import Table

MOST_VALUES = 1 << 11
"""Joint maxima over more values than these would have to look at millions of pairs."""


class Family(Protocol):
    """Numbers with the same noise; scale 0 means exact."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes it is about."""

    @property
    def table(self) -> Table | Columns:
        """What each value adds."""

    @property
    def scale(self) -> Fraction:
        """The noise, in steps."""


def owner_loss(families: Iterable[Family], rows: int) -> Fraction | float:
    """The loss for an owner with this many rows; infinite where a number is exact."""
    noisy = [each for each in families if each.table.reach()]
    if any(not each.scale for each in noisy):
        return math.inf
    return rows * sum((_joint(group, lambda joint: joint.reach()) for group in _groups(noisy)), Fraction(0))


def loss_under(
    families: Iterable[Family], rows: int, rule: Policy, moved: Callable[[Family], int], *, sampled: bool
) -> Fraction | float:
    """The loss under another policy; `moved` gives how many steps it moves one family."""
    noisy = [each for each in families if moved(each)]
    if any(not each.scale for each in noisy):
        return math.inf
    total = Fraction(0)
    for group in _groups(noisy):
        small = rule.domain.projected(group[0].names).size <= MOST_VALUES
        if small and len(group) > 1 and not any(isinstance(each.table, Columns) for each in group):
            names = group[0].names
            total += _joint(group, lambda joint, names=names: rule.steps(names, joint, sampled=sampled))  # type: ignore[misc]
        else:
            total += sum((Fraction(moved(each)) / each.scale for each in group), Fraction(0))
    return rows * total


def _groups(families: Sequence[Family]) -> Iterator[list[Family]]:
    """Families about the same attributes, which one value decides together."""
    for _, group in groupby(sorted(families, key=lambda each: each.names), key=lambda each: each.names):
        yield list(group)


def _joint(group: list[Family], largest: Callable[[Stacked], int]) -> Fraction:
    """The largest of Σ/scale, in whole multiples of one common fraction."""
    rates = [1 / each.scale for each in group]
    common = math.lcm(*(rate.denominator for rate in rates))
    weights = tuple(int(rate * common) for rate in rates)
    tables = tuple(each.table for each in group if not isinstance(each.table, Columns))
    if len(tables) < len(group):  # attributes move apart from each other: their maxima are attained together
        return sum((Fraction(each.table.reach()) / each.scale for each in group), Fraction(0))
    return Fraction(largest(Stacked(tables, weights)), common)
