"""How much a class gives away about a sensitive column: l-diversity in its three forms, α, β.

Everything is computed for all classes at once; what a demand compares too close to its limit is decided exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Held

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

LARGEST_EXACT_POWER = 200_000
"""Owners of a class up to which entropies are compared as whole numbers; above, with 60 digits."""


def homogeneous(held: Held) -> Mask:
    """Classes in which one value is held by every owner."""
    return np.equal(held.most(), held.sizes)


def distinct_l(held: Held) -> Integers:
    """The number of values, at most the number of owners; 1 as soon as every owner holds one value."""
    least = np.minimum(held.distinct(), held.sizes)
    return np.where(homogeneous(held), np.minimum(least, 1), least)


def entropy_l(held: Held) -> Floats:
    """The exponential of the entropy of a class: as many equally common values would be as uncertain."""
    totals = held.totals()
    logs = np.bincount(held.cls, weights=held.owners * np.log(held.owners), minlength=held.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(totals > 0, np.exp(np.log(np.maximum(totals, 1)) - logs / np.maximum(totals, 1)), 0.0)


def entropy_reaches(counts: list[int], limit: Fraction) -> bool:
    """Whether exp(entropy) ≥ limit, exactly: C^C ≥ limit^C · Π c^c with the counts' common factor taken out.

    >>> from fractions import Fraction
    >>> entropy_reaches([3, 3], Fraction(2)), entropy_reaches([3, 2], Fraction(2))
    (True, False)
    """
    factor = math.gcd(*counts)
    counts = [count // factor for count in counts]
    total = sum(counts)
    if total > LARGEST_EXACT_POWER:
        return _entropy_reaches_in_decimals(counts, limit)
    product = math.prod(count**count for count in counts)
    return bool((total * limit.denominator) ** total >= limit.numerator**total * product)


def _entropy_reaches_in_decimals(counts: list[int], limit: Fraction) -> bool:
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        total = Decimal(sum(counts))
        entropy = total.ln() - sum((Decimal(c) * Decimal(c).ln() for c in counts), Decimal(0)) / total
        return bool(entropy >= (Decimal(limit.numerator) / Decimal(limit.denominator)).ln())


def recursive_parts(held: Held, level: int) -> tuple[Integers, Integers]:
    """r₁ of each class, and r_l + … + r_m: what recursive (c, l)-diversity compares."""
    order = np.lexsort((-held.owners, held.cls))
    cls, owners = held.cls[order], held.owners[order]
    rank = np.arange(len(cls)) - np.searchsorted(cls, cls)
    rest = np.bincount(cls[rank >= level - 1], weights=owners[rank >= level - 1], minlength=held.count)
    return held.most(), rest.astype(np.int64)


def recursive_c(held: Held, level: int) -> float:
    """The largest r₁ / (r_l + … + r_m): the demand holds exactly for every c above it."""
    first, rest = recursive_parts(held, level)
    if not len(first):
        return 0.0
    return math.inf if (rest == 0).any() else float((first / rest).max())


def alpha(held: Held) -> Floats:
    """How sure an attacker is of the most common value of each class."""
    return held.most() / held.sizes


def beta(held: Held, owners: int) -> Floats:
    """The largest relative gain over knowing the whole table, of each class."""
    gain = (held.owners / held.sizes[held.cls]) / (held.held[held.value] / owners) - 1
    largest = np.full(held.count, -1.0)
    np.maximum.at(largest, held.cls, gain)
    return largest
