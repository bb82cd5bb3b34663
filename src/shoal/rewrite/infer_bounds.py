"""If bounds are missing and the catalog does not have them, a noisy logarithmic histogram finds them first.

The histogram is a separate release, paid from half of its aggregate's share; the bounds it finds become clamp literals of
the later release. Only data refers back, no call does. If an owner has one row, its sum, its mean and the row are one number:
aggregates of one column then read one histogram, which gets as much as each of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.plan.measures import Histogram
from shoal.plan.releases import Inferred

if TYPE_CHECKING:
    from shoal.rewrite.draft import Draft


def infer_bounds(draft: Draft) -> Draft:
    """The draft with a histogram for every measure whose bounds nobody gave."""
    parts = list(draft.parts)
    units = list(draft.units)
    histograms: list[Histogram] = []
    per_group = draft.select.options.inferred_bounds == "PER_GROUP" and draft.contribution.grouped
    for number, unit in enumerate(units):
        missing = [i for i in unit.parts if parts[i].measure.needs_bounds and parts[i].bounds is None]
        if not missing and unit.feed is None:
            # An aggregate whose measures all belong to one before it reads that one's histogram.
            found = (parts[i].bounds for i in unit.parts)
            units[number] = replace(unit, histogram=next((b.histogram for b in found if isinstance(b, Inferred)), None))
            continue
        histogram = Histogram(unit.feed or parts[missing[0]].measure.feed(), per_group=per_group)
        if draft.select.one_row_per_owner:
            histogram = next((seen for seen in histograms if seen.sees_the_same_row(histogram)), histogram)
        if histogram not in histograms:
            histograms.append(histogram)
        position = histograms.index(histogram)
        for i in missing:
            parts[i] = replace(parts[i], bounds=Inferred(position))
        units[number] = replace(unit, histogram=position)
    return replace(draft, parts=tuple(parts), units=tuple(units), histograms=tuple(histograms))
