"""From the sampled values of a sketch to measures, each with its error.

Let v range over the distinct values, |ID[v]| be its owners and rows[v] its rows. For a threshold k, dropping every
value with fewer than k owners loses

- of the values:  #{v : |ID[v]| < k} / #{v}. The sample is uniform over values, so the error is binomial (Wilson's
  interval).
- of the rows:    Σ_{|ID[v]| < k} rows[v] / all rows. The sum is estimated from the sample (each value stands for 1/θ,
  θ the sampled share of the hash space; variance Σ y²(1−θ)/θ²), the rows are counted exactly.
- of the owners:  Σ_{|ID[v]| < k} |ID[v]| / all owners, at most 1: rare holdings per owner. Where an owner has one
  value (a birth date, a postcode) it is the share of owners who would vanish; where owners have many values it bounds
  from above the share of owners who would lose something. The owners are counted by one HyperLogLog set, whose error
  is added.

With fewer than K values nothing is sampled and only sets of more than M/8 owners are inexact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.sketch.estimate import Estimate, Z, clipped, distinct_from_threshold, divided, exactly, share_of_trials

if TYPE_CHECKING:
    from shoal.risk.sketch.owner_sets import OwnerSets

Whole = Literal["values", "owners", "rows"]
WHOLES: tuple[Whole, ...] = ("values", "owners", "rows")

THRESHOLDS = (2, 5, 10, 50, 100)
"""The k of every report."""

EDGES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Where the bins of a histogram of owners per value begin."""

_EVERYTHING = 1 << 62  # more owners than a value can have

Amounts = npt.NDArray[np.float64] | npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Values drawn from a column, one entry each, by ascending hash."""

    rows_of_value: npt.NDArray[np.int64]
    owners_of_value: npt.NDArray[np.float64]
    exact: Mask  # whether the owners of a value were counted, not estimated
    relative_error: float  # of those that were not
    fraction: float | None  # θ, the sampled share of the hash space; None: every value is here
    rows: int
    owners: Estimate
    counts_rows: bool  # every row is an owner of its own

    def below(self, k: int) -> tuple[Mask, Mask, Mask]:
        """The values with fewer than k owners: by the estimate, surely, and possibly."""
        slack = np.where(self.exact, 0.0, Z * self.relative_error)
        low, high = self.owners_of_value * (1 - slack), self.owners_of_value * (1 + slack)
        return self.owners_of_value < k, high < k, low < k


def distinct_values(kept: int, fraction: float | None) -> Estimate:
    """The number of distinct values."""
    return exactly(kept) if fraction is None else distinct_from_threshold(kept, fraction)


def owners_of_one_set(sets: OwnerSets) -> Estimate:
    """The number of owners in a single set."""
    sizes, exact = sets.sizes()
    if exact[0]:
        return exactly(float(sizes[0]))
    slack = Z * sets.relative_error * sizes[0]
    return Estimate(float(sizes[0]), float(sizes[0] - slack), float(sizes[0] + slack))


def share_below(sample: Sample, k: int, of: Whole = "values") -> Estimate:
    """The share of values with fewer than k owners, or of the rows or owners that dropping these values would lose."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ShoalError("E_USAGE", "A threshold k is a whole number from 1.")
    if of not in WHOLES:
        raise ShoalError("E_USAGE", "A share is of values, of owners or of rows.", hint='of="values"')
    if not len(sample.rows_of_value):
        return exactly(0)
    if of == "values":
        return _share_of_values(sample, int(k))
    if of == "rows":
        return _share_of_total(sample, sample.rows_of_value, exactly(sample.rows), int(k))
    return _share_of_total(sample, sample.owners_of_value, sample.owners, int(k))


def _share_of_values(sample: Sample, k: int) -> Estimate:
    value, surely, possibly = (float(chosen.sum()) for chosen in sample.below(k))
    count = len(sample.rows_of_value)
    if sample.fraction is None:
        return Estimate(value / count, surely / count, possibly / count)
    return share_of_trials(value, count, surely, possibly)


def _share_of_total(sample: Sample, amounts: Amounts, total: Estimate, k: int) -> Estimate:
    """Σ amounts below k over a total that is known better than from the sample.

    Where the whole sample adds up to that total, no large value was missed and the share within the sample is the better
    value; the interval stays the one of the sum.
    """
    share = clipped(divided(_total_below(sample, amounts, k), total))
    everything = _total_below(sample, amounts, _EVERYTHING)
    slack = math.hypot(everything.error, total.error)
    if sample.fraction is None or abs(everything.value - total.value) > slack or slack > 0.1 * total.value:
        return share
    within = float(amounts[sample.below(k)[0]].sum() / amounts.sum())
    return Estimate(within, min(share.low, within), max(share.high, within))


def _total_below(sample: Sample, amounts: Amounts, k: int) -> Estimate:
    """Σ amounts over the values below k, of all values sampled or not."""
    by_estimate, surely, possibly = sample.below(k)
    if sample.fraction is None:
        return Estimate(*(float(amounts[chosen].sum()) for chosen in (by_estimate, surely, possibly)))
    # the K-th hash only tells θ; the K − 1 below it are each there with chance θ
    value, low, high = (amounts[:-1][chosen[:-1]].astype(np.float64) for chosen in (by_estimate, surely, possibly))
    weight, unseen = 1 / sample.fraction, 1 - sample.fraction
    down = Z * weight * math.sqrt(unseen * float(low @ low))
    # one more value of ordinary size may have been missed, also where none was seen
    ordinary = float(value.mean()) if len(value) else float(k - 1)
    up = Z * weight * math.sqrt(unseen * (float(high @ high) + 2 * ordinary**2))
    return Estimate(weight * value.sum(), max(0.0, weight * low.sum() - down), weight * high.sum() + up)


@dataclass(frozen=True, slots=True)
class Point:
    """The cumulative curves at k: what dropping values with fewer than k owners loses."""

    k: int
    values: float
    owners: float
    rows: float


@dataclass(frozen=True, slots=True)
class Measures:
    """Everything a report says about one column or combination."""

    rows: int
    owners: Estimate
    distinct_values: Estimate
    values_per_owner: float
    sampled_values: int
    complete: bool  # all values are in the sample
    counts_rows: bool  # every row is an owner of its own
    minimum: int
    median: float
    maximum: int
    shares: dict[int, dict[Whole, Estimate]]
    curve: tuple[Point, ...]
    total: Point  # what the sample accounts for; less than all rows where a few values have most of them

    @property
    def histogram(self) -> list[dict[str, float | int | None]]:
        """Shares of values, owners and rows by owners per value; the last bin that holds anything ends the list."""
        bins: list[dict[str, float | int | None]] = [
            {
                "from_owners": start.k,
                "to_owners": None if end is self.total else end.k - 1,
                **{of: max(0.0, getattr(end, of) - getattr(start, of)) for of in WHOLES},
            }
            for start, end in zip(self.curve, [*self.curve[1:], self.total], strict=True)
        ]
        while len(bins) > 1 and bins[-1]["values"] == bins[-1]["rows"] == 0:
            bins.pop()
        return bins

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        return {
            "rows": self.rows,
            "owners": self.owners.to_dict(),
            "distinct_values": self.distinct_values.to_dict(),
            "values_per_owner": self.values_per_owner,
            "sampled_values": self.sampled_values,
            "complete": self.complete,
            "owners_per_value": {"minimum": self.minimum, "median": self.median, "maximum": self.maximum},
            "below": {
                str(k): {of: estimate.to_dict() for of, estimate in shares.items()} for k, shares in self.shares.items()
            },
            "histogram": self.histogram,
            "cumulative": [{"k": p.k, "values": p.values, "owners": p.owners, "rows": p.rows} for p in self.curve],
        }


def measure(sample: Sample) -> Measures:
    """All measures of a sample; minimum, median and maximum are those of the sampled values."""
    owners = sample.owners_of_value
    kept = len(owners)
    return Measures(
        rows=sample.rows,
        owners=sample.owners,
        distinct_values=distinct_values(kept, sample.fraction),
        values_per_owner=float(owners.sum()) / (sample.fraction or 1.0) / max(sample.owners.value, 1.0),
        sampled_values=kept,
        complete=sample.fraction is None,
        counts_rows=sample.counts_rows,
        minimum=round(owners.min()) if kept else 0,
        median=float(np.median(owners)) if kept else 0.0,
        maximum=round(owners.max()) if kept else 0,
        shares={k: {of: share_below(sample, k, of) for of in WHOLES} for k in THRESHOLDS},
        curve=tuple(_point(sample, k) for k in _edges_up_to(max(THRESHOLDS[-1], owners.max() if kept else 1))),
        total=_point(sample, _EVERYTHING),
    )


def _edges_up_to(maximum: float) -> list[int]:
    return [edge for position, edge in enumerate(EDGES) if position == 0 or EDGES[position - 1] <= maximum]


def _point(sample: Sample, k: int) -> Point:
    return Point(k, *(share_below(sample, k, of).value for of in WHOLES))
