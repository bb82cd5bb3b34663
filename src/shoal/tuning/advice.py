"""What a custodian should try, by rule, in the order in which it helps: coarser groups before any ε."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.tuning.figures import ColumnFigures

GROUPS_LOST = 0.2
LOST_TO_KAPPA = 0.1
CLAMPED = 0.05


def advice(
    kept: float,
    groups: int,
    figures: ColumnFigures | None,
    values: NDArray[np.float64] | None,
    bounds: tuple[float, float] | None,
    names: tuple[str, ...],
    at_four_times: ColumnFigures | None,
) -> list[str]:
    """Sentences for one setting; `at_four_times`: its figures at four times its ε."""
    found = []
    if groups and 1 - kept / groups > GROUPS_LOST:
        found.append("More than a fifth of the groups is lost: ask for coarser groups (a day instead of an hour).")
    if figures is None or values is None:
        return found
    is_limited = figures.lost_to_groups_limit > LOST_TO_KAPPA
    if is_limited:
        found.append("More than a tenth is lost to the limit of groups per owner: raise max_groups_contributed.")
    bias = float(np.median(np.abs(figures.clamp_bias))) if len(figures.clamp_bias) else 0.0
    is_clamped = figures.clamped_low + figures.clamped_high > CLAMPED and bias > 2 * figures.noise
    if is_clamped:
        found.append("Clamping moves the answer by more than twice the noise: wider bounds.")
    largest = float(np.abs(values).max(initial=0.0))
    if bounds is not None and not figures.lost_to_clamping and largest and max(map(abs, bounds)) >= 2 * largest:
        found.append("Nothing is clamped, and the bounds are at least twice the largest value: narrower bounds.")
    if {"AVG", "SUM", "COUNT"} <= set(names):
        found.append("AVG, SUM and COUNT together: ask for two of them, the third follows.")
    if at_four_times is not None and is_limited | is_clamped:
        at_four_times = at_four_times.without_limits  # what they do, another limit mends
    if at_four_times is not None and (at_four_times.median_relative_error or 0.0) > 0.5:
        found.append("Even at four times this epsilon the median error is above 50%: too fine a question to anonymise.")
    return found
