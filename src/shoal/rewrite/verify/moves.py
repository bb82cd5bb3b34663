"""How far one owner can move what is released, from the numbers the engine will compute with.

A measure is a sum over owners, so an owner moves it by what the owner adds: between the clamps, in at most κ groups, or by at
most R rows in all. Norms are those of the worst way to spread it. The passes have their own formulas for the same things.

| measure        | groups per owner (κ)                         | rows per owner (R)                 |
|----------------|----------------------------------------------|------------------------------------|
| one number     | κ entries by a                               | κ entries by a (κ = R)             |
| limited in all | a in one entry, or spread over κ             | –                                  |
| means, from L and from U | κ entries, U − L in each two together | the same                   |
| sums and rows, from L and from U | κ entries, U − L in each two together | –                  |
| rows summed    | κ entries by c·a                             | R·a in one entry, or spread over R |
| squares, from L, between and from U | κ entries, c·(U − L)² in each three together | R·(U − L)² in three, or spread |
| distinct       | κ entries by c                               | R in one entry, or spread over R   |
| leaves, height h | c rows in each of κ·h levels               | R rows in each of h levels         |
| extremes       | κ·h entries by 1                             | κ·h entries by 1                   |
| leaves to choose among | c rows in each of κ groups           | R rows in all                      |
| weights        | d entries by w(d), d ≤ κ                     | the same, d ≤ R                    |
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from shoal.accounting.events import GaussianNoise, LaplaceNoise, QuantileChoice
from shoal.accounting.neighbours import OWNER
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.params import Bounds
from shoal.plan.measures import (
    SATURATION_BITS,
    DistinctValues,
    Leaves,
    OwnerCount,
    OwnerMean,
    OwnerSum,
    RowCount,
    RowMoment,
    TotalRows,
    TotalSum,
)
from shoal.plan.releases import Inferred
from shoal.plan.totals import grid_measure_of
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal.accounting.events import Shift
    from shoal.plan.measures import Histogram, Measure
    from shoal.plan.releases import Contribution, Release, SelectPlan

COUNTS = (OwnerCount, DistinctValues, Leaves)
"""Measures that count owners, values or rows one by one, whatever the bounds."""
COUNTED_OR_SUMMED = (OwnerCount, RowCount, OwnerSum, OwnerMean, RowMoment, TotalRows, TotalSum)
"""Measures that an owner, or a row, moves by this much."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The largest move of one owner in steps: L1 norm, squared L2 norm, entries touched, and the furthest of them."""

    l1: int
    l2_squared: int
    entries: int
    furthest: int

    @classmethod
    def even(cls, entries: int, each: int) -> Moves:
        """At most this many entries, each by this much."""
        return cls(entries * each, entries * each**2, entries, each) if each else cls(0, 0, 0, 0)

    @classmethod
    def spread(cls, cells: int, rows: int, each: int) -> Moves:
        """In each of this many cells, rows of size `each`, all in one entry or each in a different one."""
        together = rows * each
        return cls(cells * together, cells * together**2, cells * rows, together) if each else cls(0, 0, 0, 0)

    def covered_by(self, shift: Shift) -> bool:
        """Whether a declared shift is at least as large in every way that a proof uses."""
        norms = shift.l1 >= self.l1 and shift.l2_squared >= self.l2_squared
        enough = shift.per_coordinate >= self.furthest and (not self.l1 or shift.touched >= self.entries)
        return shift.neighbours == OWNER and norms and enough


def groups_of(contribution: Contribution) -> int:
    """κ: in how many groups one owner is seen; R rows may fall into as many groups."""
    if not contribution.grouped:
        return 1
    return contribution.max_groups if contribution.max_rows is None else contribution.max_rows


def moves_of(release: Release, contribution: Contribution) -> Moves:
    """What one owner does to a release."""
    return moves_under(release, (contribution,))[0]


def moves_under(release: Release, contributions: Sequence[Contribution]) -> list[Moves]:
    """What one owner does to a release under each of these limits; how far a value is from the next does not depend on them."""
    require(release.noise.grid == 1 or not isinstance(release.measure, COUNTS), "what is counted is counted in ones")
    each = _furthest(release) if isinstance(release.measure, COUNTED_OR_SUMMED) else 0
    return [_moves(release, contribution, each) for contribution in contributions]


def _moves(release: Release, contribution: Contribution, each: int) -> Moves:
    groups, rows = groups_of(contribution), contribution.max_rows
    match release.measure:
        case OwnerCount() | RowCount() | OwnerSum() | OwnerMean():
            return Moves.even(groups, each)
        case TotalRows() | TotalSum():
            require(rows is None, "limits of all groups where rows are bounded per owner")
            # The engine multiplies what an owner has in all groups, each within its clamp, by the limit.
            require(groups * each**2 < 2**126, "a limit of all groups that is too large to be multiplied")
            return Moves(each, each**2, groups, each)
        case RowMoment(rows=most):
            return Moves.even(groups, most * each) if rows is None else Moves.spread(1, rows, each)
        case DistinctValues(values=most):
            return Moves.even(groups, most) if rows is None else Moves.spread(1, rows, 1)
        case Leaves() as leaves if isinstance(release.noise, QuantileChoice):
            return _rows_chosen_among(leaves, contribution)
        case Leaves(extreme=None) as leaves:
            levels = leaves.height
            return Moves.spread(groups * levels, leaves.rows, 1) if rows is None else Moves.spread(levels, rows, 1)
        case Leaves() as leaves:
            return Moves.even(groups * leaves.height, 1)
    raise InternalError("a measure of an unknown kind")


def wholes_of(plan: SelectPlan) -> list[tuple[int, ...]]:
    """Sums of the same values from both bounds (and between them), side by side in a column: parts of one whole, with one noise.

    A column that counts the owners reads the two parts of another column the other way round.
    """
    found: list[tuple[int, ...]] = []
    for columns in dict.fromkeys(column.releases for column in plan.columns):
        measures = [plan.releases[i].measure for i in columns if 0 <= i < len(plan.releases)]
        if any(measure.origin != "middle" for measure in measures):
            require(len(columns) == len(measures), "a sum from one bound without the one from the other")
            found.append(tuple(columns))
    own = [positions for positions in found if not reads_owners(plan, positions)]
    require(
        all(positions[::-1] in own for positions in found if positions not in own), "owners read off nobody's numbers"
    )
    require(
        len({position for positions in own for position in positions}) == sum(map(len, own)), "a part of two wholes"
    )
    return own


def reads_owners(plan: SelectPlan, positions: tuple[int, ...]) -> bool:
    """Whether a column reads the whole: the part from the upper bound comes first."""
    return len(positions) == 2 and plan.releases[positions[0]].measure.origin == "upper"


def check_whole(plan: SelectPlan, positions: tuple[int, ...]) -> None:
    """Whatever a mean is, its distances from both bounds make their width K; and (x − L)² + 2(x − L)(U − x) + (U − x)² = K²."""
    parts = [plan.releases[index] for index in positions]
    first, measure = parts[0], parts[0].measure
    squares = isinstance(measure, RowMoment) and measure.power == 2
    known = isinstance(measure, RowMoment | OwnerMean | OwnerSum | RowCount) and measure.power in {1, 2}
    require(known, "parts of a whole that are neither means nor sums nor squares")
    wanted = ["lower", "between", "upper"] if squares else ["lower", "upper"]
    require([part.measure.origin for part in parts] == wanted, "sums that are not from both bounds")
    alike = [replace(cast("Any", part.measure), origin="lower") for part in parts]
    require(all(one == measure for one in alike), "sums of different values")
    if isinstance(measure, OwnerSum | RowCount):
        # An owner without a value counts as 0, which must lie between the bounds.
        held = isinstance(first.bounds, Bounds) and first.bounds.lower <= 0 <= first.bounds.upper
        require(held, "a whole that an owner without a value would leave")
    require(first.bounds is not None, "a whole without bounds")
    require(all((p.bounds, p.noise) == (first.bounds, first.noise) for p in parts), "sums with other bounds or noise")
    pair = isinstance(first.noise, GaussianNoise) and isinstance(measure, OwnerSum | RowCount)
    # a + b = K with a, b ≥ 0 gives a² + b² ≤ K²: a pair keeps either norm.
    require(isinstance(first.noise, LaplaceNoise) or pair, "one noise for several sums is proven for Laplace noise")
    one = moves_of(first, plan.contribution)
    require(all(moves_of(part, plan.contribution) == one for part in parts), "sums of different width")
    whole = replace(one, entries=len(parts) * one.entries)
    require(whole.covered_by(first.noise.shift), "sums move further than their noise covers")


def _rows_chosen_among(leaves: Leaves, contribution: Contribution) -> Moves:
    """A choice depends on the rows themselves, whatever tree could be built on them."""
    groups, rows = groups_of(contribution), contribution.max_rows
    if leaves.extreme is not None:
        return Moves.even(groups, 1)
    return Moves.spread(groups, leaves.rows, 1) if rows is None else Moves.spread(1, rows, 1)


def moves_of_histogram(histogram: Histogram, contribution: Contribution) -> Moves:
    """One value of an owner, in one bin; one per group if groups have their own histograms."""
    return Moves.even(groups_of(contribution) if histogram.per_group else 1, 1)


def moves_of_count(contribution: Contribution) -> Moves:
    """The owners of each group, counted."""
    return Moves.even(groups_of(contribution), 1)


def moves_of_weights(weights: tuple[tuple[int, int], ...]) -> Moves:
    """An owner of any degree adds its weight to this many groups: all norms are the largest over degrees."""
    total = max(degree * weight for degree, weight in weights)
    squared = max(degree * weight**2 for degree, weight in weights)
    return Moves(total, squared, weights[-1][0], weights[0][1])


def _furthest(release: Release) -> int:
    """The most that one owner (or one row, where rows are summed) adds to one group, in steps of the noise's grid."""
    measure, bounds = release.measure, release.bounds
    if isinstance(measure, COUNTS):
        return 1
    if isinstance(measure, RowMoment) and measure.power == 0:
        require(release.noise.grid == 1, "rows are counted in ones")
        return 1
    if isinstance(bounds, Inferred):
        return _furthest_of_any(measure, release.noise.grid)
    require(bounds is not None, "a bounded measure without bounds")
    assert bounds is not None  # noqa: S101 - just required
    return _furthest_between(measure, bounds, release.noise.grid)


def _furthest_between(measure: Measure, bounds: Bounds, grid: Fraction) -> int:
    """At the ends of the clamp that the engine is given, centred and rounded as the engine does."""
    asked = grid_measure_of(measure, bounds, grid)
    steps = asked.steps
    require(steps is not None, "a clamp without ends")
    assert steps is not None  # noqa: S101 - just required
    require(max(abs(steps.lower), abs(steps.upper)) <= 2**SATURATION_BITS, "a clamp beyond where rows saturate")
    if isinstance(measure, RowMoment) and measure.origin != "middle":
        require(measure.power in {1, 2} and measure.centred, "parts of a whole that are neither rows nor squares")
        require(asked.row_grid**measure.power == grid, "rows or squares that are rounded make no whole")
        require(asked.shrink == asked.stretch == 1, "rows or squares that are rounded make no whole")
        return int((steps.upper - steps.lower) ** measure.power)
    centred = (
        isinstance(measure, OwnerMean)
        or measure.origin != "middle"
        or (isinstance(measure, RowMoment) and measure.centred)
    )
    unrounded = asked.shrink == asked.stretch == 1
    require(unrounded or not isinstance(measure, TotalRows | TotalSum), "a limit of all groups is rounded in each")
    middle = steps.middle if centred else 0
    require(asked.row_grid**measure.power * asked.shrink == grid * asked.stretch, "two grids that do not fit")
    ends: Iterable[int] = ((end - middle) ** measure.power * asked.stretch for end in (steps.lower, steps.upper))
    return max(abs((2 * end + asked.shrink) // (2 * asked.shrink)) for end in ends)


def _furthest_of_any(measure: Measure, grid: Fraction) -> int:
    """Under bounds that are found later, which stretch the grid with them: those of [−1, 1], on a grid of powers of two.

    Whatever bounds a histogram yields, they are no further than this in steps of the stretched grid; noise.md has the proof.
    """
    exponent = grid.numerator.bit_length() - grid.denominator.bit_length()
    require(grid == Fraction(2) ** exponent, "a grid that is not a power of two cannot be stretched")
    require(exponent % measure.power == 0, "a grid of squares without a root")
    ends = 1 if measure.origin == "middle" else 2
    return int((ends * math.ceil(1 / Fraction(2) ** (exponent // measure.power))) ** measure.power)
