"""What bounded owners add, measure by measure, in exact 64-bit integers; the same integers as the statements of `sum_owners`.

A tally first reads one slice of owners (`of`, many slices at once), then adds what it read (`add`, one slice after another).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shoal.engines.memory.rows import EXACT_IN_DOUBLES, LARGEST, TooWide, real_steps
from shoal.engines.memory.segments import Segments, in_order
from shoal.plan.measures import (
    DistinctValues,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    OwnerWeight,
    RowCount,
    RowMoment,
    TotalRows,
    TotalSum,
)
from shoal.plan.totals import LeafCounts

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.engines.memory.bounded_owners import Bounded
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.totals import GridMeasure


SPREAD = 4
"""Sums of a slice are kept for all groups where these are at most this many times as many as pairs."""

Sums = tuple["NDArray[np.int64] | None", "NDArray[np.int64]"]
"""What a slice adds to some groups, or to all of them."""


class Tally(Protocol):
    """Reads slices of owners and adds them up."""

    def of(self, bounded: Bounded) -> Any:
        """What one slice adds."""

    def add(self, part: Any) -> None:
        """Adds what one slice adds."""


def number_of(measure: Measure, arguments: tuple[Expression, ...]) -> int | None:
    """The number of the argument that a measure reads."""
    return None if measure.argument is None else arguments.index(measure.argument)


def fits(task: GridMeasure, rows: int) -> bool:
    """Whether everything that is computed for a task stays within 64 bits, whatever the data."""
    magnitude = task.steps.magnitude if task.steps is not None else 1
    per_owner = task.measure.delta(task.steps)
    widest = max(magnitude, 2 * per_owner * task.stretch + task.shrink, task.delta * rows)
    return widest < LARGEST


def clamped(values: NDArray[np.int64], task: GridMeasure) -> NDArray[np.int64]:
    """The values within the task's bounds, in steps of `row_grid`."""
    assert task.steps is not None  # noqa: S101 - these measures have bounds
    return np.clip(values, task.steps.lower, task.steps.upper)


def rescaled(values: NDArray[np.int64], task: GridMeasure) -> NDArray[np.int64]:
    """From steps of `row_grid` to steps of `grid`, halves up."""
    if task.shrink > 1:
        return np.floor_divide(2 * values + task.shrink, 2 * task.shrink)
    return values * task.stretch if task.stretch > 1 else values


class GroupTally:
    """A sum over owners for every group."""

    def __init__(self, task: GridMeasure, arguments: tuple[Expression, ...], groups: int, rows: int) -> None:
        if not fits(task, rows):
            raise TooWide
        self._task = task
        self._argument = number_of(task.measure, arguments)
        self.totals = np.zeros(groups, dtype=np.int64)

    def of(self, bounded: Bounded) -> Sums:
        """What some owners add to the groups."""
        groups, values = self._pairs(bounded)
        size = len(self.totals)
        if size > SPREAD * len(groups):
            return groups, np.ones(len(groups), dtype=np.int64) if values is None else values
        if values is None:
            return None, np.bincount(groups, minlength=size)
        if self._task.delta * len(groups) >= EXACT_IN_DOUBLES and _magnitude(values) * len(groups) >= EXACT_IN_DOUBLES:
            sums = np.zeros(size, dtype=np.int64)
            np.add.at(sums, groups, values)
            return None, sums
        # no sum on the way has more digits than a double
        return None, np.bincount(groups, values, size).astype(np.int64)

    def add(self, part: Sums) -> None:
        """Adds what a slice adds."""
        groups, values = part
        if groups is None:
            self.totals += values
        else:
            np.add.at(self.totals, groups, values)

    def _pairs(self, bounded: Bounded) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """What every pair of owner and group adds, clamped after the aggregate of the owner; None is 1 for each."""
        if self._task.measure.is_one_each and bounded.always_present(self._argument):
            return bounded.groups, None
        return bounded.groups, self._value(bounded)

    def _value(self, bounded: Bounded) -> NDArray[np.int64]:
        return PER_OWNER[type(self._task.measure)](self._task, self._argument, bounded)


def _owner_count(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:  # noqa: ARG001 - one is one
    return (bounded.counts(number) > 0).astype(np.int64)


def _owner_weight(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:  # noqa: ARG001 - of all rows
    assert isinstance(task.measure, OwnerWeight)  # noqa: S101 - chosen by PER_OWNER
    degrees, weights = (np.array(column, dtype=np.int64) for column in zip(*task.measure.weights, strict=True))
    lengths = bounded.runs.lengths
    by_degree = weights[np.searchsorted(degrees, np.arange(lengths.max(initial=0) + 1))]
    return bounded.runs.spread(by_degree.take(lengths))


def _row_count(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:
    return rescaled(clamped(bounded.counts(number), task), task)


def _owner_sum(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:
    return _of_present(number, bounded, rescaled(clamped(_sums(number, bounded, task.row_grid), task), task))


def _owner_mean(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:
    assert task.steps is not None  # noqa: S101 - means have bounds
    return _of_present(number, bounded, clamped(_means(number, bounded, task.row_grid), task) - task.steps.middle)


def _total_rows(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:
    return cut_in_all(clamped(bounded.counts(number), task), task, bounded)


def _total_sum(task: GridMeasure, number: int | None, bounded: Bounded) -> NDArray[np.int64]:
    return cut_in_all(_of_present(number, bounded, clamped(_sums(number, bounded, task.row_grid), task)), task, bounded)


def cut_in_all(values: NDArray[np.int64], task: GridMeasure, bounded: Bounded) -> NDArray[np.int64]:
    """What is left of every pair where all groups of an owner hold at most T: ⌊Cᵢ·T/C⌋ − ⌊Cᵢ₋₁·T/C⌋ in the order of picks."""
    assert task.steps is not None  # noqa: S101 - limits are bounds
    most = task.steps.magnitude
    heavy = bounded.runs.sums(np.abs(values)) > most
    if not heavy.any():
        return values
    members, runs = bounded.runs.members(heavy), Segments.of_lengths(bounded.runs.lengths[heavy])
    members = members[in_order(bounded.pair_picks[members], runs)]
    chosen = values[members]
    upto = runs.running(np.abs(chosen))
    whole = runs.spread(upto[runs.starts + runs.lengths - 1])
    # Products of real numbers in fine steps are wider than 64 bits; few owners are heavy, and Python's integers are exact.
    wide = most * max(int(upto.max()), 1) >= LARGEST
    ends, before, whole = (each.astype(object) if wide else each for each in (upto, upto - np.abs(chosen), whole))
    left = values.copy()
    left[members] = np.sign(chosen) * (ends * most // whole - before * most // whole).astype(np.int64)
    return left


def _of_present(number: int | None, bounded: Bounded, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """An owner without a value adds nothing, also where the bounds leave out 0."""
    return values if bounded.always_present(number) else np.where(bounded.counts(number) > 0, values, 0)


def _sums(number: int | None, bounded: Bounded, grid: Fraction) -> NDArray[np.int64]:
    """Sums of values; a total and what is missing to its bound read the same."""
    assert number is not None  # noqa: S101 - sums and means have an argument
    return bounded.once(("sums", number, grid), lambda: bounded.segments.sums(bounded.argument(number).in_steps(grid)))


def _means(number: int | None, bounded: Bounded, grid: Fraction) -> NDArray[np.int64]:
    """Means of values."""
    return bounded.once(("means", number, grid), lambda: mean(_sums(number, bounded, grid), bounded.counts(number)))


PER_OWNER: dict[type, Callable[[GridMeasure, int | None, Bounded], NDArray[np.int64]]] = {
    OwnerCount: _owner_count,
    OwnerWeight: _owner_weight,
    RowCount: _row_count,
    OwnerSum: _owner_sum,
    OwnerMean: _owner_mean,
    TotalRows: _total_rows,
    TotalSum: _total_sum,
}
"""What one owner adds, for measures of one number per owner; `engines.statements.sum_owners.PER_OWNER` says the same in SQL."""


def mean(sums: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """⌊(2S + n) / 2n⌋: one fixed rounding."""
    means = sums.copy()
    several = np.flatnonzero(counts > 1)  # dividing takes long, and most owners have one row in a group
    rows = counts[several]
    means[several] = np.floor_divide(2 * sums[several] + rows, 2 * rows)
    return means


class MomentTally(GroupTally):
    """Σ (clamp(x) − m)^power over the sampled rows of every group."""

    def _pairs(self, bounded: Bounded) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """What every sampled row adds."""
        measure, task = self._task.measure, self._task
        assert isinstance(measure, RowMoment)  # noqa: S101 - chosen by tally_of
        if self._argument is None:
            return bounded.groups, bounded.counts(None)
        number, most = self._argument, measure.rows
        groups, _ = bounded.sample(number, most)
        if measure.power == 0:
            return groups, None
        within = task.steps
        assert within is not None  # noqa: S101 - these moments have bounds
        steps = bounded.once(
            ("steps", number, most, task.row_grid, within.lower, within.upper),
            lambda: bounded.sample(number, most)[1].in_steps(task.row_grid, within),
        )
        if measure.origin == "between":
            return groups, 2 * (steps - within.lower) * (within.upper - steps)
        centred = steps - within.middle if measure.centred and within.middle else steps
        return groups, rescaled(_power(centred, measure.power), task)


def _power(numbers: NDArray[np.int64], power: int) -> NDArray[np.int64]:
    """The numbers, or their powers: a product takes a fraction of what `**` does."""
    return numbers if power == 1 else numbers * numbers if power == 2 else numbers**power


class LeafTally:
    """Rows (or extremes of owners) in every leaf of every group."""

    def __init__(self, task: GridMeasure, arguments: tuple[Expression, ...]) -> None:
        assert isinstance(task.measure, Leaves)  # noqa: S101 - chosen by tally_of
        self._measure = task.measure
        self._scale = task.leaf_scale
        self._argument = arguments.index(task.measure.argument)
        self._leaves: list[NDArray[np.int64]] = []

    def of(self, bounded: Bounded) -> NDArray[np.int64]:
        """Numbers of (group, leaf)."""
        if self._measure.extreme is not None:
            present, reals = extremes(bounded, self._argument, self._measure.extreme)
            groups, reals = bounded.groups[present], reals[present]
        else:
            groups, argument = bounded.sample(self._argument, self._measure.rows)
            reals = argument.as_reals()
        lower, factor = self._scale
        with np.errstate(over="ignore", invalid="ignore"):
            position = np.floor((reals - lower) * factor)
        # ∞·0 is not a number, which the engine takes for the largest one
        leaf = np.fmin(np.maximum(position, 0.0), float(self._measure.leaf_count - 1))
        return groups * self._measure.leaf_count + leaf.astype(np.int64)

    def add(self, part: NDArray[np.int64]) -> None:
        """Numbers of (group, leaf)."""
        self._leaves.append(part)

    def counts(self, position: NDArray[np.int64]) -> LeafCounts:
        """Rows per leaf; `position` says which row of the answer a group is."""
        numbers, counts = _counted(_concatenated(self._leaves), len(position) * self._measure.leaf_count)
        groups, leaves = np.divmod(numbers, self._measure.leaf_count)
        return LeafCounts(position[groups], leaves, counts.astype(np.int64))


def extremes(bounded: Bounded, number: int, side: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which pairs have a value, and the smallest or largest one of every pair."""
    argument = bounded.argument(number)
    reals = argument.as_reals()
    fill, reduce = (np.inf, np.minimum) if side == "min" else (-np.inf, np.maximum)
    filled = reals if argument.missing is None else np.where(argument.missing, fill, reals)
    present = np.flatnonzero(bounded.counts(number) > 0)
    return present, reduce.reduceat(filled, bounded.segments.starts) if len(filled) else filled


class DistinctTally:
    """Different values in every group, at most c of each owner."""

    def __init__(self, task: GridMeasure, arguments: tuple[Expression, ...], groups: int) -> None:
        assert isinstance(task.measure, DistinctValues)  # noqa: S101 - chosen by tally_of
        self._measure = task.measure
        self._argument = arguments.index(task.measure.argument)
        self._size = groups
        self._groups: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.uint64]] = []

    def of(self, bounded: Bounded) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Groups and values."""
        pairs, argument = bounded.distinct(self._argument, self._measure.values)
        return bounded.groups[pairs], argument.identities()

    def add(self, part: tuple[NDArray[np.int64], NDArray[np.uint64]]) -> None:
        """Groups and values."""
        self._groups.append(part[0])
        self._values.append(part[1])

    @property
    def totals(self) -> NDArray[np.int64]:
        """How many different values each group has."""
        groups, values = _concatenated(self._groups), _concatenated(self._values)
        order = np.lexsort((values, groups))
        groups, values = groups[order], values[order]
        new = np.ones(len(groups), dtype=bool)
        new[1:] = (groups[1:] != groups[:-1]) | (values[1:] != values[:-1])
        return np.bincount(groups[new], minlength=self._size).astype(np.int64)


class HistogramTally:
    """Logarithmic bins of one value per owner, from the owner's first kept group, or from each (`per_group`)."""

    def __init__(self, histogram: Histogram, arguments: tuple[Expression, ...]) -> None:
        self._histogram = histogram
        self._argument = number_of(histogram.serves, arguments)
        self._width = 2 * histogram.top_bin + 1
        self._cells: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def of(self, bounded: Bounded) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of (group, bin), and how many values each holds; group 0 means all groups if they share the bins."""
        pairs, values = self._values(bounded)
        groups = bounded.groups[pairs] if self._histogram.per_group else np.zeros(len(pairs), dtype=np.int64)
        if self._histogram.ends_at_powers:
            values = values - np.sign(values)
        bins = log_bins(values, self._histogram.top_bin) + self._histogram.top_bin
        return np.unique(groups * self._width + bins, return_counts=True)

    def add(self, part: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        """Numbers of (group, bin), and how many values each holds."""
        self._cells.append(part)

    def counts(self, position: NDArray[np.int64]) -> dict[int, int] | LeafCounts:
        """Values per bin; `position` says which row of the answer a group is."""
        cells, which = np.unique(_concatenated([cell for cell, _ in self._cells]), return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, which, _concatenated([count for _, count in self._cells]).astype(np.int64))
        groups, bins = np.divmod(cells, self._width)
        bins -= self._histogram.top_bin
        if self._histogram.per_group:
            return LeafCounts(position[groups], bins, counts)
        return dict(zip(bins.tolist(), counts.tolist(), strict=True))

    def _values(self, bounded: Bounded) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the pairs that are looked at, and their values in steps of the histogram's grid."""
        measure, number, grid = self._histogram.serves, self._argument, self._histogram.grid
        wanted = np.ones(len(bounded.groups), dtype=bool) if self._histogram.per_group else bounded.first_pairs
        if measure.never_negative:
            return np.flatnonzero(wanted), bounded.counts(number)[wanted]
        assert number is not None  # noqa: S101 - the rest reads an argument
        wanted = wanted & (bounded.counts(number) > 0)
        pairs = np.flatnonzero(wanted)
        if measure.summed_on_grid:
            return pairs, (_means if measure.centred else _sums)(number, bounded, grid)[wanted]
        if measure.extreme is not None:
            _, reals = extremes(bounded, number, measure.extreme)
            return pairs, real_steps(reals[wanted], grid)
        sampled, argument = bounded.one_row(number, first_pairs_only=not self._histogram.per_group)
        return sampled, argument.in_steps(grid)


def log_bins(values: NDArray[np.int64], top: int) -> NDArray[np.int64]:
    """0 for 0, else ±(1 + ⌊log₂|v|⌋), at most ±top.

    >>> log_bins(np.array([0, 1, -2, 3, 2**60 - 1]), 63).tolist()
    [0, 1, -2, 2, 60]
    """
    sizes = np.abs(values)
    _, exponents = np.frexp(sizes.astype(np.float64))
    # a double just below a power of two may have been rounded up to it
    exponents = exponents - ((sizes >> np.maximum(exponents.astype(np.int64) - 1, 0)) == 0) * (sizes > 0)
    return np.asarray(np.sign(values) * np.minimum(exponents.astype(np.int64), top))


def tally_of(task: GridMeasure, arguments: tuple[Expression, ...], groups: int, rows: int) -> Any:
    """The tally of a task, by the class of its measure."""
    return TALLIES[type(task.measure)](task, arguments, groups, rows)


TALLIES: dict[type, Callable[[GridMeasure, tuple[Expression, ...], int, int], Any]] = {
    **dict.fromkeys(PER_OWNER, GroupTally),
    RowMoment: MomentTally,
    Leaves: lambda task, arguments, *_: LeafTally(task, arguments),
    DistinctValues: lambda task, arguments, groups, _: DistinctTally(task, arguments, groups),
}


def _magnitude(values: NDArray[np.int64]) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _counted(numbers: NDArray[np.int64], below: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Different numbers, and how often each occurs: counted off where there are few that could, else sorted."""
    if below > 4 * len(numbers) + 1:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers, minlength=1)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _concatenated(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
