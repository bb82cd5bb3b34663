"""Quantiles, MIN and MAX, read off one noisy tree or chosen among its leaves; and APPROX_BOUNDS, read off a noisy histogram."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.aggregates.defaults import PER_ROW, Aggregate, KeptRows, range_in_words, seconds_of_unit
from shoal.plan.aggregates.noisy_measure import Interval, nothing
from shoal.plan.measures import (
    Leaves,
    Measure,
    RowMoment,
)
from shoal.plan.types import DOUBLE, RELEASED_LIST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates.noisy_measure import NoisyMeasure
    from shoal.plan.expressions import Expression


@dataclass(frozen=True, slots=True)
class Quantile(KeptRows):
    """PERCENTILE, MEDIAN, NTILE, APPROX_QUANTILES: read off one noisy tree that all quantiles of a column share."""

    argument: Expression
    fraction: Fraction
    rows: int
    name = "QUANTILE"
    type = DOUBLE
    shares = (Fraction(1),)

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """The requested one."""
        return (self.fraction,)

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Values beyond the bounds."""
        return None if bounds is None else ("value", None)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows per leaf."""
        return (Leaves(self.argument, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The position in [L, U]."""
        return _position(readings[0], float(self.fraction))

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """As the least or greatest value, its interval is open on one side."""
        return KeptRows.limits_in_words(self, name, where, bounds) + _open_ends(self.ranks)

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Where it lies according to the rows."""
        return _ends(readings[0], self.ranks, level)


MOST_QUANTILES = 4_000_000
"""Of all groups of a SELECT together: with their intervals they take about a gigabyte while an answer is made."""


@dataclass(frozen=True, slots=True)
class Quantiles(KeptRows):
    """APPROX_QUANTILES(x, n): the n + 1 cut points from minimum to maximum, read off the same tree; or the quantiles listed."""

    argument: Expression
    parts: int | tuple[Fraction, ...]
    rows: int
    name = "QUANTILES"
    type = RELEASED_LIST
    shares = (Fraction(1),)

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """All cut points, including both ends; or the quantiles listed."""
        if isinstance(self.parts, tuple):
            return self.parts
        return tuple(Fraction(i, self.parts) for i in range(self.parts + 1))

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Rows per leaf."""
        return (Leaves(self.argument, self.rows),)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """Lists of positions in [L, U], monotone."""
        if readings[0].bounds is None:
            return nothing(len(readings[0].values))
        cuts = _positions(readings[0], [float(rank) for rank in self.ranks])
        lists = np.empty(len(cuts), dtype=object)
        lists[:] = [row.tolist() for row in cuts]
        return lists

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """The least and the greatest value have intervals that are open on one side."""
        return KeptRows.limits_in_words(self, name, where, bounds) + _open_ends(self.ranks)

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Lists of ends, one for each quantile."""
        return _ends(readings[0], self.ranks, level, listed=True)


@dataclass(frozen=True, slots=True)
class Extreme(Aggregate):
    """MIN and MAX: the outermost quantile of per-owner extremes."""

    argument: Expression
    side: str
    rows = 1
    bounds_argument = PER_ROW
    type = DOUBLE
    shares = (Fraction(1),)

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """One of the ends."""
        return (Fraction(0 if self.side == "min" else 1),)

    @property
    def name(self) -> str:
        """MIN or MAX."""
        return self.side.upper()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Owners per leaf of their own extreme."""
        return (Leaves(self.argument, 1, extreme=self.side),)

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:  # noqa: ARG002 - one signature
        """Its values are clamped, and its interval is open on one side."""
        clamped = "" if bounds is None else f"values are clamped to {range_in_words(bounds, self)}; "
        side = "down" if self.side == "min" else "up"
        if seconds_of_unit(self) is not None:
            return f"{name}: {clamped}{'an earlier' if side == 'down' else 'a later'} time of one owner may be hidden by the noise."
        return f"{name}: {clamped}its interval goes {side} to where one owner may lie whom the noise hides."

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The position in [L, U]."""
        return _position(readings[0], float(self.ranks[0]))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Extends to the bound on the outer side: an owner there can never be ruled out."""
        return _ends(readings[0], self.ranks, level)


@dataclass(frozen=True, slots=True)
class ApproxBounds(Aggregate):
    """APPROX_BOUNDS(x): [lower, upper] containing nearly all values of one row per owner, the same for every group."""

    argument: Expression
    rows = 1
    name = "APPROX_BOUNDS"
    type = RELEASED_LIST
    shares: tuple[Fraction, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def feed(self) -> Measure | None:
        """What its histogram reads."""
        return RowMoment(self.argument, 1, 1)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:  # noqa: ARG002 - one signature for all
        """Only the histogram is read; see `released.answer_table`."""
        raise InternalError("bounds are not made from readings")

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:  # noqa: ARG002 - same
        """Bounds have no interval."""
        raise InternalError("bounds have no interval")


def _open_ends(ranks: Sequence[Fraction]) -> str:
    """That the least and the greatest value may be those of one row; nothing where neither is asked for."""
    if 0 in ranks and 1 in ranks:
        return " The first interval goes down, and the last one up, to where the rows of one owner may lie whom the noise hides."
    side = "down" if 0 in ranks else "up" if 1 in ranks else ""
    which = "Its interval" if len(ranks) == 1 else "The first interval" if side == "down" else "The last interval"
    return f" {which} goes {side} to where the rows of one owner may lie whom the noise hides." if side else ""


def _ends(reading: NoisyMeasure, ranks: tuple[Fraction, ...], level: float, *, listed: bool = False) -> Interval:
    """Both ends in the analyst's units; NULL if there are no bounds, or no level that high."""
    found = reading.bands.of(ranks).at(level) if reading.bands is not None else None
    size = len(reading.values)
    if found is None or reading.bounds is None:
        return nothing(size), nothing(size)
    low, high = float(reading.bounds.lower), float(reading.bounds.upper)
    ends = []
    for positions in found:
        values = low + (high - low) * positions
        column = np.empty(len(values), dtype=object)
        column[:] = [row if listed else row[0] for row in values.tolist()]
        ends.append(column)
    return ends[0], ends[1]


def _position(reading: NoisyMeasure, fraction: float) -> NDArray[Any]:
    positions: NDArray[Any] = _positions(reading, [fraction])[:, 0]
    return positions


def _positions(reading: NoisyMeasure, fractions: Sequence[float]) -> NDArray[Any]:
    """Where these fractions lie in [L, U]: (groups, fractions); NULL if no bounds were found."""
    if reading.bounds is None or reading.forest is None:
        return nothing(len(reading.values) * len(fractions)).reshape(-1, len(fractions))
    low, high = float(reading.bounds.lower), float(reading.bounds.upper)
    positions: NDArray[Any] = low + (high - low) * reading.forest.quantiles(fractions)
    return positions
