"""From totals to estimates: shares with intervals, means, and the projection that makes shares a distribution.

Raw shares are unbiased. *Consistent* ones are their Euclidean projection onto the probability simplex: smaller error in sum,
and a bias for rare values. Intervals are those of the raw shares, moved inside [0, 1].

    >>> project(np.array([0.7, 0.5, -0.1])).round(3).tolist()
    [0.6, 0.4, 0.0]
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError, missing_extra
from shoal.frozen import dataclass
from shoal.mechanisms.binomial import clopper_pearson

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

BAR_WIDTH = 30
ROWS_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Interval:
    """One share with its ends."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean with its ends; `raw` is the unbiased one."""

    mean: float
    low: float
    high: float
    raw: float
    standard_error: float

    def to_dict(self) -> dict[str, float]:
        """The four numbers for machines."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "raw": self.raw}


@dataclass(frozen=True, repr=False, eq=False)
class Estimate:
    """Shares of all values. `raw` is unbiased; `shares` is consistent unless that was switched off."""

    values: tuple[str | int, ...]
    shares: Floats
    raw: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    n: int
    rejected: int
    poison_per_report: float
    epsilon: float
    level: float
    about_mean: MeanInterval | None = None
    promise: str = "local"

    @property
    def counts(self) -> Floats:
        """shares·n."""
        return self.shares * self.n

    @property
    def mean(self) -> float:
        """Of a count question: the mean."""
        if self.about_mean is None:
            raise ShoalError("E_USAGE", "Only numbers and counts have a mean.", hint="Look at .shares.")
        return self.about_mean.mean

    def __getitem__(self, value: str | int) -> Interval:
        if value not in self.values:
            raise ShoalError("E_USAGE", "There is no such value in the estimate.", hint="Look at .values.")
        position = self.values.index(value)
        return Interval(float(self.shares[position]), float(self.low[position]), float(self.high[position]))

    def __len__(self) -> int:
        return len(self.values)

    def to_arrow(self) -> pa.Table:
        """A row for each value."""
        import pyarrow as pa

        numbers = {"share": self.shares, "low": self.low, "high": self.high, "raw": self.raw}
        values = list(self.values) if len({type(value) for value in self.values}) == 1 else list(map(str, self.values))
        return pa.table({"value": values} | numbers | {"standard_error": self.standard_error})

    def to_pandas(self) -> Any:
        """A row for each value, as a data frame."""
        return _to_pandas(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """The estimate for machines."""
        rows = zip(self.values, self.shares, self.low, self.high, self.raw, strict=True)
        names = ("value", "share", "low", "high", "raw")
        found = _facts(self) | {
            "rows": [dict(zip(names, (value, *map(float, row)), strict=True)) for value, *row in rows]
        }
        return found if self.about_mean is None else found | {"mean": self.about_mean.to_dict()}

    def __repr__(self) -> str:
        order = np.argsort(-self.shares, kind="stable")[:ROWS_SHOWN] if len(self) > ROWS_SHOWN else range(len(self))
        width = max((len(str(self.values[i])[:40]) for i in order), default=0)
        lines = [
            f"{str(self.values[i])[:40]:<{width}}  {_bar(self.shares[i])}  {self.shares[i]:7.4f}"
            f"  [{self.low[i]:.4f}, {self.high[i]:.4f}]"
            for i in order
        ]
        left = len(self) - len(lines)
        rest = [f"… and {left:,} values with smaller shares"] if left else []
        about = [] if self.about_mean is None else [_mean_text(self.about_mean)]
        return "\n".join([*lines, *rest, *about, _footer(self)])


@dataclass(frozen=True, repr=False)
class NumberEstimate:
    """The mean of a number question. `raw` is unbiased; `mean`, `low` and `high` lie within the bounds."""

    mean: float
    raw: float
    low: float
    high: float
    standard_error: float
    n: int
    rejected: int
    poison_per_report: float
    epsilon: float
    level: float
    promise: str = "local"

    def to_arrow(self) -> pa.Table:
        """One row."""
        import pyarrow as pa

        names = ("mean", "low", "high", "raw", "standard_error")
        return pa.table({name: [getattr(self, name)] for name in names})

    def to_pandas(self) -> Any:
        """One row, as a data frame."""
        return _to_pandas(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """The estimate for machines."""
        about = MeanInterval(self.mean, self.low, self.high, self.raw, self.standard_error)
        return _facts(self) | {"rows": [], "mean": about.to_dict()}

    def __repr__(self) -> str:
        about = MeanInterval(self.mean, self.low, self.high, self.raw, self.standard_error)
        return f"{_mean_text(about)}\n{_footer(self)}"


def _facts(estimate: Estimate | NumberEstimate) -> dict[str, Any]:
    names = ("n", "rejected", "epsilon", "promise", "level", "poison_per_report")
    return {name: getattr(estimate, name) for name in names}


def _to_pandas(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError:
        raise missing_extra("frames", "A data frame") from None


def _bar(share: float) -> str:
    filled = round(BAR_WIDTH * min(max(share, 0.0), 1.0))
    return "█" * filled + "·" * (BAR_WIDTH - filled)


def _mean_text(about: MeanInterval) -> str:
    return f"mean {about.mean:.6g}  [{about.low:.6g}, {about.high:.6g}]"


def _footer(estimate: Estimate | NumberEstimate) -> str:
    return (
        f"{estimate.n:,} reports, {estimate.rejected:,} rejected; {estimate.level:.4g} intervals; each answer is hidden with"
        f" ε = {estimate.epsilon:g}, but not that somebody answered; a false report moves a result by at most"
        f" {estimate.poison_per_report:.2g}"
    )


# --- consistency ------------------------------------------------------------------------------------------------------


def project(raw: Floats) -> Floats:
    """The nearest point of the probability simplex: everything lowered by one amount, and what falls below 0 set to 0."""
    falling = np.sort(raw)[::-1]
    lowered = (np.cumsum(falling) - 1) / np.arange(1, len(raw) + 1)
    kept = int(np.flatnonzero(falling > lowered)[-1])
    return np.asarray(np.maximum(raw - lowered[kept], 0.0))


def project_part(raw: Floats) -> Floats:
    """The nearest point with no negative share and a sum of at most 1: for candidates that need not be all values."""
    inside = np.maximum(raw, 0.0)
    return inside if inside.sum() <= 1 else project(raw)


# --- intervals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chances:
    """p and q of an oracle as floats; everything an interval needs to know about it."""

    own: float
    other: float

    @classmethod
    def of(cls, chances: tuple[Fraction, Fraction]) -> Chances:
        """From exact chances."""
        return cls(float(chances[0]), float(chances[1]))

    @property
    def gap(self) -> float:
        """The difference p − q."""
        return self.own - self.other

    def raw(self, counts: Counts, n: int) -> Floats:
        """f̂ = (c/n − q)/(p − q)."""
        return np.asarray((counts / n - self.other) / self.gap)

    def variance(self, shares: Floats, n: int, *, population: bool) -> Floats:
        """Var f̂ at the given true shares."""
        p, q = self.own, self.other
        if population:
            rate = q + shares * (p - q)
            return np.asarray(rate * (1 - rate) / (n * self.gap**2))
        return np.asarray((shares * p * (1 - p) + (1 - shares) * q * (1 - q)) / (n * self.gap**2))


def exact_interval(counts: Counts, n: int, chances: Chances, alpha: float) -> tuple[Floats, Floats]:
    """Clopper–Pearson on the reports, mapped through f̂: covers at least as often as it says."""
    low, high = clopper_pearson(counts, n, alpha)
    return (low - chances.other) / chances.gap, (high - chances.other) / chances.gap


def score_interval(raw: Floats, n: int, chances: Chances, alpha: float) -> tuple[Floats, Floats]:
    """All f with (f̂ − f)² ≤ z²·Var(f): the variance is taken at the interval's own ends (Wilson).

    Var(f) = (v₀ + f·v₁)/n is linear in f, so the ends solve a quadratic. Half a report is added on either side: counts are
    whole numbers.
    """
    z = normal_quantile(alpha)
    p, q = chances.own, chances.other
    at_zero = z * z * q * (1 - q) / (chances.gap**2 * n)
    slope = z * z * (p * (1 - p) - q * (1 - q)) / (chances.gap**2 * n)
    half = 0.5 / (n * chances.gap)

    def ends(centre: Floats, side: int) -> Floats:
        # Far below 0 the quadratic has no root: no share explains the count, and the centre is the end.
        root = np.sqrt(np.maximum(slope * slope + 4 * centre * slope + 4 * at_zero, 0.0))
        return np.asarray((2 * centre + slope + side * root) / 2)

    low, high = raw - half, raw + half
    return np.minimum(ends(low, -1), low), np.maximum(ends(high, 1), high)


def normal_quantile(alpha: float) -> float:
    """The z with P[|Z| > z] = α."""
    return -NormalDist().inv_cdf(alpha / 2)


def around(centre: float, standard_error: float, alpha: float, bounds: tuple[float, float]) -> MeanInterval:
    """A normal interval of a mean, moved inside the bounds."""
    reach = normal_quantile(alpha) * standard_error
    low, mean, high = (min(max(x, bounds[0]), bounds[1]) for x in (centre - reach, centre, centre + reach))
    return MeanInterval(mean, low, high, centre, standard_error)


def respondents_needed(variance: float, error: float) -> int:
    """The smallest n with √(variance/n) ≤ error."""
    return max(1, math.ceil(variance / error**2 * (1 - 1e-12)))
