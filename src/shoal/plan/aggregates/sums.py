"""SUM and AVG: sums of bounded numbers, and what is computed from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.frozen import dataclass
from shoal.params import Bounds, many
from shoal.plan.aggregates.complements import around_complement, is_complement, real_numbers, whole_numbers
from shoal.plan.aggregates.counts import CountRows
from shoal.plan.aggregates.defaults import Aggregate, Clamped, KeptRows, OfOwner, OneNumber, Possible, range_in_words
from shoal.plan.aggregates.noisy_measure import Interval, around, around_whole, half_width, integers, nothing
from shoal.plan.expressions import Case, Cast, Literal
from shoal.plan.measures import (
    Measure,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowMoment,
    Steps,
    TotalSum,
)
from shoal.plan.types import DOUBLE, INTEGER, Kind, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.plan.aggregates.noisy_measure import NoisyMeasure
    from shoal.plan.expressions import Expression
    from shoal.plan.known_bounds import Known
    from shoal.plan.releases import AggregateCall, Release


@dataclass(frozen=True, slots=True)
class Sum(OneNumber):
    """SUM(x): the sum of an owner's values in a group, clamped to [L, U]; `in_all`: clamped in all groups together."""

    argument: Expression
    rows: int | None = None
    in_all: bool = False
    name = "SUM"
    shares = (Fraction(1),)
    loses = "the sum"
    of_owner = OfOwner.SUM
    clamped = Clamped.SUM

    @property
    def is_integer(self) -> bool:
        """Sums of integers are integers."""
        return self.argument.type.kind is Kind.INTEGER

    def as_count(self) -> CountRows | None:
        """SUM(CASE WHEN c THEN 1 ELSE 0 END) and SUM(c) count rows: what is sought for them is a number of rows."""
        value, one, none = self.argument, Literal(1, INTEGER), Literal(None, INTEGER)
        if isinstance(value, Cast) and value.value.type.kind is Kind.BOOLEAN:
            return CountRows(Case(((value.value, one),), none, INTEGER, value.position), self.rows)
        if not isinstance(value, Case) or value.type.kind is not Kind.INTEGER:
            return None
        results = [result for _, result in value.branches] + [value.otherwise]
        if not all(isinstance(result, Literal) and result.value in {0, 1, None} for result in results):
            return None
        *counted, otherwise = (one if isinstance(r, Literal) and r.value == 1 else none for r in results)
        branches = tuple((condition, result) for (condition, _), result in zip(value.branches, counted, strict=True))
        return CountRows(Case(branches, otherwise, INTEGER, value.position), self.rows)

    @property
    def type(self) -> Type:
        """Integer in, integer out."""
        return INTEGER if self.is_integer else DOUBLE

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One clamped sum per owner, in each group or in all, or rows clamped individually."""
        if self.in_all:
            return (TotalSum(self.argument, self.is_integer),)
        if self.rows is None:
            return (OwnerSum(self.argument, self.is_integer),)
        return (RowMoment(self.argument, 1, self.rows, centred=False, is_integer=self.is_integer),)

    @property
    def catalog_bounds_note(self) -> str | None:
        """A column's bounds apply to a single row."""
        if self.rows is not None:
            return None
        return "The catalog's bounds of a column are those of one row: a sum of several is clamped to them."

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:
        """The bounds of one value, times the number of values an owner has in a group, bound the owner's sum."""
        if known is None or self.rows is not None:
            return Aggregate.bounds_from(self, known, rows)
        if rows is None:
            # The constants in an expression say nothing about how many rows an owner has.
            return known if known.from_catalog else None
        return replace(known, lower=min(known.lower, known.lower * rows), upper=max(known.upper, known.upper * rows))

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """What is clamped."""
        where = " in all groups together" if self.in_all else where
        what = "each row" if self.rows is not None else f"the sum of each owner{where}"
        return "" if bounds is None else f"{name}: {what} is clamped to {range_in_words(bounds)}."

    def sought_limit(self, call: AggregateCall) -> str | None:
        """The magnitude of an owner's sum, when only that of a row is known."""
        is_open = call.bounds is None or call.bounds_source == "one row"
        return "sum" if self.rows is None and is_open else None

    def within(self, call: AggregateCall, limit: Fraction) -> AggregateCall:
        """On both sides of 0, unless no row is below 0."""
        positive = call.bounds is not None and call.bounds.lower >= 0
        return replace(call, bounds=Bounds(Fraction(0) if positive else -limit, limit), bounds_source="found")

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Sums beyond the bound farther from 0."""
        if self.rows is not None:
            return None
        limit = None if bounds is None else max(abs(bounds.lower), abs(bounds.upper))
        return ("sum", limit) if limit else ("rows", None)

    def possible(self, bounds: Bounds | None) -> Possible:
        """If all values have one sign, so does the sum."""
        if bounds is None:
            return None, None
        return (Fraction(0) if bounds.lower >= 0 else None), (Fraction(0) if bounds.upper <= 0 else None)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """The noisy sum."""
        if readings[0].bounds is None:
            return nothing(len(readings[0].values))
        if is_complement(readings):
            return whole_numbers(readings) if self.is_integer else real_numbers(readings)
        return integers(readings[0]) if self.is_integer else readings[0].floats

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """Exact quantiles of the noise."""
        if readings[0].bounds is None:
            return self.finish(readings), self.finish(readings)
        if is_complement(readings):
            return around_complement(readings, level, whole_number=self.is_integer)
        if self.is_integer:
            return around_whole(readings[0], level)
        return around(readings[0].floats, readings[0].half_width(level))


HIGH_LEVEL = 0.92
"""From this level up, the width of a sum of two noises is at most the root of the sum of their squared widths."""


@dataclass(frozen=True, slots=True)
class Average(Aggregate):
    """AVG(x): the average of per-owner averages, m + S / max(1, n), clamped to [L, U].

    The sum S carries most of the error unless the answer lies at the edge of the bounds, so it gets 70% of the budget. With
    Laplace noise and known bounds the average is read off two sums instead, of x − L and of U − x: one owner moves them by U − L
    in total, so each gets the whole budget. Their sum is n·(U − L); half their difference is S.
    """

    argument: Expression
    rows: int | None = None
    name = "AVG"
    type = DOUBLE
    shares = (Fraction(7, 10), Fraction(3, 10))
    needs_owners = True
    of_owner = OfOwner.MEAN
    clamped = Clamped.MEAN

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """The average of averages, unless rows are bounded individually."""
        if self.rows is not None:
            return Aggregate.limits_in_words(self, name, where, bounds)
        if bounds is None:
            return f"{name} is the average of the owners' own averages{where}."
        return f"{name} is the average of the owners' own averages{where}, each clamped to {range_in_words(bounds)}."

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The centred sum, and how many owners (or rows) it is over."""
        if self.rows is None:
            return OwnerMean(self.argument), OwnerCount(self.argument)
        return RowMoment(self.argument, 1, self.rows), RowMoment(self.argument, 0, self.rows)

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:  # noqa: ARG002 - one signature
        """Averages beyond the bounds."""
        return None if bounds is None else ("value", None)

    def possible(self, bounds: Bounds | None) -> Possible:
        """Averages lie between the values."""
        return (None, None) if bounds is None else (bounds.lower, bounds.upper)

    @property
    def partition(self) -> tuple[Measure, ...]:
        """The two sums that one owner moves by U − L in total; none if rows are bounded per owner."""
        return tuple(OwnerMean(self.argument, end) for end in ("lower", "upper")) if self.rows is None else ()

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """M + S / max(1, n), clamped."""
        total, count = readings
        if total.bounds is None or total.steps is None:
            return nothing(len(total.values))
        if total.measure.origin == "lower":
            return self._share(total, total.floats, -count.floats)
        return self._quotient(total, total.floats, count.floats)

    def owners_of(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any] | None:
        """The count; for two sums that make a whole, that whole."""
        total, count = readings
        if total.steps is None or self.rows not in {None, 1}:
            return None
        if total.measure.origin != "lower":
            return count.floats
        width = float((total.steps.upper - total.steps.lower) * total.grid)
        return (total.floats - count.floats) / width if width else None

    @staticmethod
    def _share(total: NoisyMeasure, above: NDArray[Any], below: NDArray[Any]) -> NDArray[Any]:
        """M + (A − B) / 2n, where A + B = n·(U − L)."""
        assert total.bounds is not None  # noqa: S101 - narrowed by both callers
        assert total.steps is not None  # noqa: S101 - same
        low, width = (float(steps * total.grid) for steps in (total.steps.lower, total.steps.upper - total.steps.lower))
        if not width:  # found bounds can coincide
            return np.full(len(above), float(total.bounds.lower))
        means = low + width / 2 + (above - below) / 2 / np.maximum((above + below) / width, 1.0)
        return np.asarray(np.clip(means, float(total.bounds.lower), float(total.bounds.upper)))

    def _quotient(self, total: NoisyMeasure, sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
        assert total.bounds is not None  # noqa: S101 - narrowed by both callers
        assert total.steps is not None  # noqa: S101 - same
        middle = total.steps.middle * float(total.grid)
        means: NDArray[Any] = middle + sums / np.maximum(counts, 1.0)
        return np.asarray(np.clip(means, float(total.bounds.lower), float(total.bounds.upper)))

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """The means μ consistent with the two noisy numbers: |S − (μ − m)·n| is within the width of its noise.

        That noise is X − (μ − m)·Y. At high levels its width is at most √(w_S² + (μ − m)²·w_n²), for both Laplace and Gaussian
        noise (docs/theory/noise.md). At lower levels, take the extremes of the quotient with both noises within their widths.
        """
        total, count = readings
        if total.bounds is None or total.steps is None:
            return nothing(len(total.values)), nothing(len(total.values))
        each = (1 + level) / 2
        if total.measure.origin == "lower":
            return self._ends(total, -count.floats, total.half_width(each))
        if level >= HIGH_LEVEL:
            return self._allowed(total, count, level)
        sum_width, count_width = total.half_width(each), count.half_width(each)
        ends = [
            self._quotient(total, total.floats + side * sum_width, count.floats + way * count_width)
            for side in (-1, 1)
            for way in (-1, 1)
        ]
        return np.minimum.reduce(ends), np.maximum.reduce(ends)

    def _ends(self, total: NoisyMeasure, below: NDArray[Any], width: float) -> Interval:
        """A and B are not negative and within `width` of what was released: A/(A + B) grows with A and falls with B."""
        above = total.floats
        ends = [
            self._share(total, np.maximum(above + side * width, 0.0), np.maximum(below - side * width, 0.0))
            for side in (-1, 1)
        ]
        return ends[0], ends[1]

    def _allowed(self, total: NoisyMeasure, count: NoisyMeasure, level: float) -> Interval:
        """The roots of (S − u·n)² = w_S² + u²·w_n² around m; the whole range of the bounds if n may be 0."""
        assert total.bounds is not None  # noqa: S101 - narrowed by the caller
        assert total.steps is not None  # noqa: S101 - same
        low, high = float(total.bounds.lower), float(total.bounds.upper)
        middle = total.steps.middle * float(total.grid)
        of_sum, of_count = total.half_width(level), count.half_width(level)
        sums, counts = total.floats, np.maximum(count.floats, 1.0)
        certain = counts > of_count
        lead = np.where(certain, counts**2 - of_count**2, 1.0)
        spread = np.sqrt(np.maximum((sums * of_count) ** 2 + (counts * of_sum) ** 2 - (of_sum * of_count) ** 2, 0.0))
        centre = sums * counts / lead
        ends = [np.clip(middle + centre + side * spread / lead, low, high) for side in (-1, 1)]
        shown = self._quotient(total, sums, counts)
        return (
            np.where(certain, np.minimum(ends[0], shown), low),
            np.where(certain, np.maximum(ends[1], shown), high),
        )

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:
        """(w_S + r·w_n) / (n − w_n): both noises are within their widths, and the mean is anywhere within r of the middle.

        For two sums that make a whole, w/n: if one is larger by w, the other is smaller.
        """
        total, count = releases  # the bounds are known
        each = (1 + level) / 2
        if total.measure.origin == "lower":
            room = float(total.bounds.upper - total.bounds.lower)  # type: ignore[union-attr]
            return min(room, half_width(total.noise, each) / max(1, owners))
        radius = float(Steps.outward(total.bounds, total.noise.grid).radius * total.noise.grid)  # type: ignore[arg-type]
        count_width = half_width(count.noise, each)
        left = max(1.0, owners - count_width)
        return min(2 * radius, (half_width(total.noise, each) + radius * count_width) / left)


@dataclass(frozen=True, slots=True)
class RowAverage(KeptRows):
    """AVG_ROWS(x): the average of at most `rows` rows per owner in a group, m + S / max(1, n), clamped to [L, U]."""

    argument: Expression
    rows: int
    is_share: bool = False
    """Written as a quotient: a count of some rows, divided by that of all."""
    name = "AVG_ROWS"
    type = DOUBLE
    shares = Average.shares
    needs_owners = True
    clamped = Clamped.MEAN
    averages_rows = True

    def limits_in_words(self, name: str, where: str, bounds: Bounds | None) -> str:
        """A share says how many rows count, above and below the line."""
        if not self.is_share:
            return KeptRows.limits_in_words(self, name, where, bounds)
        rows = many(self.rows, "row")
        return f"{name}, divided by COUNT(*): at most {rows} of each owner{where} count, the same above and below the line."

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The centred sum, and how many rows it is over."""
        return self._average.measures

    def given_limit(self, bounds: Bounds | None, *, is_open: bool) -> tuple[str, Fraction | None] | None:
        """Values beyond the bounds."""
        return self._average.given_limit(bounds, is_open=is_open)

    def possible(self, bounds: Bounds | None) -> Possible:
        """Averages lie between the values."""
        return self._average.possible(bounds)

    @property
    def partition(self) -> tuple[Measure, ...]:
        """Σ(x − L) and Σ(U − x) over the rows that are read: each adds U − L to both together, an owner `rows` times that."""
        return tuple(RowMoment(self.argument, 1, self.rows, origin=end) for end in ("lower", "upper"))

    @property
    def _average(self) -> Average:
        """The same arithmetic, with rows limited across all groups."""
        return Average(self.argument, self.rows)

    def finish(self, readings: Sequence[NoisyMeasure]) -> NDArray[Any]:
        """M + S / max(1, n), clamped."""
        return self._average.finish(readings)

    def interval(self, readings: Sequence[NoisyMeasure], level: float) -> Interval:
        """The means consistent with the two noisy numbers."""
        return self._average.interval(readings, level)

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:
        """Assumes one row per owner: no group has fewer rows than owners."""
        return self._average.expected_half_width(releases, level, owners)
