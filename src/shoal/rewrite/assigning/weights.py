"""How jointly calibrated Gaussian releases share the squared norm Σ Δ²/σ²: evenly, but leaning towards the even split.

The objective is the sum of the logarithms of all errors and of the owners a group needs. An error above the median error of an
even Laplace split ε/(N + 1) counts two and a half times. With aᵤ the share at which aggregate u matches that split, and t the
share of the selection, the solution is wᵤ = min(max(aᵤ, t), 2.5t), Σ wᵤ + t = 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.rewrite.assigning.sizing import reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.rewrite.draft import Draft, Unit

GAUSSIAN_MEDIAN, LAPLACE_MEDIAN = 0.6745, math.log(2)
"""The median of |X| for noise of scale 1."""

MARGIN = 1.05
"""Discrete noise needs a little more than the analytic scale."""

LEANING = 2.5
"""The weight of an error above that of the even split."""

STEPS = 60


def joint_weights(draft: Draft, norm: float, spare: float, *, own_count: bool) -> list[Fraction]:
    """Weights of all parts, all histograms, and of the owner count if it is released for the selection only.

    `norm` is what can be spent, √(Σ Δ²/σ²); `spare` is how much larger than the first candidate's the even split's errors are.
    """
    selecting = 1.0 if own_count else 0.0
    reaches = [
        (1.0, LEANING) if number != draft.shared_unit else (2.0, 1 + LEANING) for number in range(len(draft.units))
    ]
    shares = leaning_shares([_even_share(draft, unit, norm, spare) for unit in draft.units], reaches, selecting)
    count = Fraction(max(1 - sum(shares), 1e-6)).limit_denominator(10**6) if own_count else None
    return _spread(draft, [Fraction(share).limit_denominator(10**6) for share in shares], count)


def weights_by_epsilon(draft: Draft, epsilons: Sequence[Fraction], selection: Fraction | None) -> list[Fraction]:
    """Weights where aggregates have their own ε: its square; `selection` is the ε of the count, if one is released."""
    return _spread(draft, [epsilon**2 for epsilon in epsilons], None if selection is None else selection**2)


def _spread(draft: Draft, shares: Sequence[Fraction], count: Fraction | None) -> list[Fraction]:
    """The aggregates' shares, each split as its aggregate specifies; part of each goes to the histogram that finds its bounds."""
    parts = [Fraction(0)] * len(draft.parts)
    histograms = [Fraction(0)] * len(draft.histograms)
    for unit, share in zip(draft.units, shares, strict=True):
        rest = share
        if unit.histogram is not None:
            rest = share * draft.left_by_histogram(unit) if unit.parts else Fraction(0)
            histograms[unit.histogram] += share - rest
        for index, part_share in zip(unit.parts, unit.shares, strict=True):
            parts[index] += rest * part_share
    weights = [*parts, *histograms, *([] if count is None else [count])]
    return [weight or Fraction(1) for weight in weights]


def leaning_shares(needed: Sequence[float], reaches: Sequence[tuple[float, float]], selecting: float) -> list[float]:
    """wᵤ = min(max(aᵤ, lᵤ·t), hᵤ·t) with Σ wᵤ + selecting·t = 1.

    >>> [round(share, 3) for share in leaning_shares([0.4, 0.4], [(1, 2), (1, 2)], 1)]
    [0.4, 0.4]
    >>> [round(share, 3) for share in leaning_shares([0.9], [(1, 2)], 1)]
    [0.667]
    """

    def at(level: float) -> list[float]:
        return [min(max(need, low * level), high * level) for need, (low, high) in zip(needed, reaches, strict=True)]

    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(at(middle)) + selecting * middle > 1 else (middle, high)
    return at(low)


def _even_share(draft: Draft, unit: Unit, norm: float, spare: float) -> float:
    """The share at which no part of an aggregate errs more, at the median, than under the even split.

    A part of weight w has σ² = d·Δ²/(w·norm²) over d coordinates; the even split has the scale d·Δ/ε, ε being its share.
    """
    takers = len(draft.units) + int(draft.needs_selection and draft.shared_unit is None)
    kept = draft.left_by_histogram(unit)
    epsilon = float(draft.select.options.epsilon * kept) / takers / spare
    needed = [
        float(share / kept) * (GAUSSIAN_MEDIAN / LAPLACE_MEDIAN * epsilon / norm) ** 2 / draft.parts[index].coordinates
        for index, share in zip(unit.parts, unit.shares, strict=True)
        if reach(draft.parts[index])
    ]
    return MARGIN * max(needed, default=0.0)
