"""The one question an engine answers about private data, and the exact integers it returns.

Both are data: the question contains no SQL, the answer no noise. Every engine, and the in-memory path, must return the
same integers for the same question, rows and sampling key.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.plan.measures import Steps

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.nodes import Field, Node
    from shoal.plan.releases import Contribution

MASK = 2**62 - 1
"""Sampling hashes live in 62 bits: products stay below 2¹²⁴, which fits HUGEINT and decimal(38)."""


@dataclass(frozen=True, slots=True)
class SamplingKey:
    """Fresh random numbers per query. Any fixed function of (key, owner, group) is private; utility needs it to look random.

    The pick of a group g of owner u is (mixed(a·u + b) | 1)·mixed(Σ mᵢ·gᵢ + d) mod 2⁶², over 62-bit canonical values; the
    smallest picks are kept. Multiplying two keyed numbers gives every owner a separate order of the groups; mixed(x) =
    x·(⌊x/2³¹⌋ | 1) mod 2⁶² breaks up consecutive numbers, whose first and last would otherwise be picked too often.
    """

    seeds: tuple[int, ...]

    def odd(self, index: int) -> int:
        """A random odd multiplier."""
        return (self.seeds[index % len(self.seeds)] & MASK) | 1

    def number(self, index: int) -> int:
        """A random 62-bit number."""
        return self.seeds[index % len(self.seeds)] & MASK


@dataclass(frozen=True, slots=True)
class GridMeasure:
    """A measure with its grid: rows are counted in steps of `row_grid`, the sum over owners in steps of `grid`.

    `steps` are the `bounds` in steps of `row_grid`; None for measures that are not clamped in steps (leaves, counts of owners).
    """

    measure: Measure
    grid: Fraction
    row_grid: Fraction
    steps: Steps | None
    bounds: Bounds | None = None

    @property
    def delta(self) -> int:
        """What one owner can add to one group, in steps of `grid`: summed rows are rounded individually."""
        rows = self.measure.rows_summed
        return rows * self.rescaled(self.measure.delta(self.steps) // rows)

    @property
    def stretch(self) -> int:
        """How many steps of `grid` make one of `row_grid` (1 unless the grid is finer)."""
        ratio = self.row_grid**self.measure.power / self.grid
        return ratio.numerator if ratio.denominator == 1 else 1

    @property
    def shrink(self) -> int:
        """How many steps of `row_grid` make one of `grid` (1 unless the grid is coarser)."""
        ratio = self.grid / self.row_grid**self.measure.power
        return ratio.numerator if ratio.denominator == 1 else 1

    def rescaled(self, value: int) -> int:
        """A value (of an owner, or of a row) converted from row steps to steps, rounding halves up."""
        return (
            (2 * value * self.stretch + self.shrink) // (2 * self.shrink) if self.shrink > 1 else value * self.stretch
        )

    @property
    def leaf_scale(self) -> tuple[float, float]:
        """The lower bound and the factor leaves / (U − L) as the floats every path computes with."""
        assert self.measure.is_tree  # noqa: S101 - only leaves have one
        assert self.bounds is not None  # noqa: S101 - and bounds
        lower, upper = float(self.bounds.lower), float(self.bounds.upper)
        return lower, (self.measure.leaf_count / (upper - lower) if upper > lower else 0.0)


@dataclass(frozen=True, slots=True)
class TotalsQuery:
    """Owned rows, group keys, measures: bound what each owner adds, then sum over owners in exact integers."""

    input: Node
    keys: tuple[tuple[Field, Expression], ...]
    tasks: tuple[GridMeasure, ...]
    histograms: tuple[Histogram, ...]
    contribution: Contribution
    public_groups: Node | None = None
    shared: tuple[Expression, ...] | None = None
    """If several questions concern the same rows: what any of them reads, so that the rows are read once."""

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What the measures read, each expression once; the same for all questions about the same rows."""
        measures = [task.measure for task in self.tasks] + [histogram.serves for histogram in self.histograms]
        own = (measure.argument for measure in measures if measure.argument is not None)
        return tuple(dict.fromkeys((*(self.shared or ()), *own)))


@dataclass(frozen=True, slots=True)
class LeafCounts:
    """Sparse rows per leaf (or values per bin): parallel arrays of group number, leaf number and count."""

    groups: NDArray[np.int64]
    leaves: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExactTotals:
    """Exact answers: one row per group, one array per task, one (bin → count) per histogram, or per histogram and group."""

    keys: pa.Table
    owners: NDArray[np.int64]
    totals: tuple[NDArray[Any] | LeafCounts, ...]
    histograms: tuple[dict[int, int] | LeafCounts, ...] = ()


def grid_measure_of(measure: Measure, bounds: Bounds | None, grid: Fraction) -> GridMeasure:
    """The task for a measure on a grid, with bounds rounded outward to whole steps."""
    row_grid = row_grid_of(measure, grid)
    if bounds is None or measure.is_tree:
        return GridMeasure(measure, grid, row_grid, None, bounds)
    steps = Steps.outward(bounds, row_grid)
    if measure.centred and bounds.lower == bounds.upper:
        # If the bounds coincide there is nothing to measure, even when they lie between two steps.
        steps = Steps(steps.lower, steps.lower, steps.lower)
    if measure.origin != "middle":
        steps = Steps(steps.lower, steps.upper, steps.lower if measure.origin == "lower" else steps.upper)
    return GridMeasure(measure, grid, row_grid, steps, bounds)


def row_grid_of(measure: Measure, grid: Fraction) -> Fraction:
    """The grid rows are rounded to, given the grid of the sum: its root for squares, 1 for whole numbers."""
    if measure.is_tree or measure.is_integer:
        return Fraction(1)
    if measure.power == 2:
        exponent = grid.numerator.bit_length() - grid.denominator.bit_length()
        return Fraction(2) ** (exponent // 2)
    return grid
