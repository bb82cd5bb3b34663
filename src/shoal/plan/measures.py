"""Measures: the integers an engine computes, one per group, each a sum over owners of something bounded.

A measure says *what one owner adds to one group*. Everything an aggregate needs is a sum of such bounded integers, so its
sensitivity is defined here and nowhere else. `Grid` gives the step in which reals are counted: rows are rounded to it
individually before any summation (the order rule), so one owner's sum never depends on physical order.

For one group, with bounds [L, U] in steps:

| measure        | one owner adds                                | Δ for one group                  |
|----------------|-----------------------------------------------|----------------------------------|
| OwnerCount     | 1                                             | 1                                |
| OwnerWeight    | w(d), d = groups that the owner is kept in    | w(1); all groups: see its rule   |
| RowCount       | number of rows, clamped to [0, U]             | U                                |
| OwnerSum       | sum of x, clamped to [L, U]                   | max(|L|, |U|)                    |
| TotalRows, TotalSum | the same, cut so that all groups of an owner hold U together | U over all groups |
| both           | the same minus L, and minus U; 0 without rows | U − L for both together          |
| OwnerMean      | mean of x, clamped, minus the middle m        | max(U − m, m − L)                |
|                | the same minus L, and minus U                 | U − L for both together          |
| RowMoment      | Σ (clamp(x) − m)^power over ≤ c rows          | c · max(U − m, m − L)^power      |
|                | x − L and x − U over ≤ c rows                 | c · (U − L) for both together    |
|                | (x − L)², 2(x − L)(U − x) and (U − x)²        | c · (U − L)² for all three       |
| DistinctValues | ≤ c different values                          | c                                |
| Leaves         | ≤ c rows, each in one leaf                    | c in each of the tree's levels   |
| Histogram      | 1 value in logarithmic bins                   | 1 over all bins                  |
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from shoal.errors import InternalError
from shoal.exact import ceil_to_grid, floor_to_grid
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.params import Bounds
    from shoal.plan.expressions import Expression
    from shoal.plan.releases import Contribution

SATURATION_BITS = 90
"""Rows are saturated at ±2⁹⁰ steps, so that 2³⁶ of them still fit 128-bit integers."""

HISTOGRAM_GRID = Fraction(1, 2**30)
"""Before bounds are known, reals are counted in steps of 2⁻³⁰ (and saturate at 2⁶⁰)."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Bounds counted in steps of a grid, rounded outward, with the middle that sums are centred on."""

    lower: int
    upper: int
    middle: int

    @classmethod
    def outward(cls, bounds: Bounds, grid: Fraction) -> Steps:
        """The narrowest whole-step bounds that contain the given ones."""
        lower, upper = floor_to_grid(bounds.lower, grid), ceil_to_grid(bounds.upper, grid)
        return cls(lower, upper, (lower + upper) // 2)

    @property
    def magnitude(self) -> int:
        """max(|L|, |U|)."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def radius(self) -> int:
        """max(U − m, m − L)."""
        return max(self.upper - self.middle, self.middle - self.lower)


def _known(steps: Steps | None) -> Steps:
    if steps is None:
        raise InternalError("a bounded measure without bounds")
    return steps


class MeasureDefaults:
    """Defaults that a measure may override: engines and passes read these and never inspect its class."""

    __slots__ = ()
    reads_rows = False
    """Reads single rows, a bounded number per owner; otherwise one number per owner and group."""
    summed_on_grid = False
    """An owner's values are rounded to the grid and summed before anything is clamped."""
    centred = False
    """The middle of the bounds counts as zero."""
    is_tree = False
    """Counts in the leaves of a tree, which have no grid and no single noisy number."""
    origin = "middle"
    """The zero point of a centred measure: the middle of the bounds, or one of them."""
    averages_owners = False
    """Whether it sums owners' own averages."""
    counts_from_bounds = False
    """Whether it can be counted from either bound instead of 0; the two distances together count owners."""
    extreme: str | None = None
    """Which of an owner's values is read: 'min', 'max', or all of them."""
    never_negative, additive = False, True
    """Whether contributions add up; distinct values do not, since several owners may bring the same one."""
    levels = 1
    """How many parallel vectors one owner moves."""
    leaf_count = 1
    """How many intervals it cuts the bounds into."""
    goes_by_degree = False
    """Whether an owner's contribution depends on how many groups the owner is in."""
    cells = 1
    """How many cells of one group and level an owner can be in."""
    rows_summed = 1
    """How many of an owner's rows go into a sum that is rounded row by row."""
    sums_rows = False
    is_one_each = False
    """Adds 1 for every owner present."""
    limited_in_all = False
    """Whether the bounds hold for all groups of an owner together."""
    branching = 1
    """How many children a node of its tree has."""
    height = 0
    """How many levels its tree has below the root."""

    def coordinates(self, contribution: Contribution) -> int:
        """How many integers one owner can move at once.

        With R rows per owner, all of them may fall into one group. Moving one coordinate R times as far gives the largest L1
        and L2 norms, so it covers every way of spreading the rows.
        """
        in_one_group = contribution.max_rows is not None and self.reads_rows and self.extreme is None
        return self.levels if in_one_group else self.levels * contribution.groups

    def entries(self, contribution: Contribution) -> int | None:
        """How many integers one owner can touch, if rows may fall into different leaves, or bounded rows into different groups."""
        if contribution.max_rows is not None and self.reads_rows:
            return self.levels * contribution.max_rows
        return self.levels * contribution.groups * self.cells if self.cells > 1 else None

    def unit_reach(self, magnitude: Fraction, radius: Fraction) -> Fraction:
        """Δ for one group in the analyst's units, for bounds of this size and of this half-width."""
        return radius if self.centred else magnitude

    def from_origin(self, origin: str) -> Self:  # noqa: ARG002 - most have one only
        """The same measure, counted from the 'lower' or the 'upper' bound, or in its usual form ('middle')."""
        raise InternalError("a whole of something else than sums and counts of rows")

    def feed(self) -> Self:
        """What a histogram of its values reads; moments of one column share their rows."""
        return self

    def with_rows(self, rows: int) -> Self:  # noqa: ARG002 - most look at one number per owner
        """The same measure over this many rows per owner."""
        return self

    def own_numbers(self) -> tuple[int, ...]:
        """Numbers that statements write for it, besides those of bounds and grids."""
        return ()

    def typical(self) -> Self:
        """A representative of all measures whose statements differ only in their numbers."""
        return self.with_rows(2)


@dataclass(frozen=True, slots=True)
class OwnerCount(MeasureDefaults):
    """Owners with a row in the group (with a non-NULL argument, if there is one)."""

    argument: Expression | None = None
    needs_bounds = False
    is_integer = True
    power = 1
    words = "owners"
    is_one_each = True

    def delta(self, steps: Steps | None) -> int:  # noqa: ARG002 - one signature for all measures
        """One owner counts as one."""
        return 1


@dataclass(frozen=True, slots=True)
class OwnerWeight(MeasureDefaults):
    """The weight of an owner with a row in the group, by how many groups it is kept in. A selection reads it; never released."""

    weights: tuple[tuple[int, int], ...]
    """(degree, weight): what counts is the first degree not below the number of groups."""
    argument: Expression | None = None
    needs_bounds = False
    is_integer = True
    power = 1
    words = "weights of owners"
    goes_by_degree = True

    def own_numbers(self) -> tuple[int, ...]:
        """The weights."""
        return tuple(weight for _, weight in self.weights)

    def typical(self) -> Self:
        """With two weights, if there are several."""
        return replace(self, weights=((1, 1 << 40), (2, 1))) if len(self.weights) > 1 else self

    def delta(self, steps: Steps | None) -> int:  # noqa: ARG002 - one signature for all measures
        """That of an owner in one group."""
        return self.weights[0][1]


@dataclass(frozen=True, slots=True)
class RowCount(MeasureDefaults):
    """Rows (with a non-NULL argument, if there is one), clamped per owner."""

    argument: Expression | None = None
    origin: str = "middle"
    """Counted from the 'lower' or the 'upper' bound instead of 0: the two distances add up to U − L for every owner of a group."""
    needs_bounds = True
    is_integer = True
    power = 1
    never_negative = True
    counts_from_bounds = True

    def from_origin(self, origin: str) -> Self:
        """From 0, or from a bound."""
        return replace(self, origin=origin)

    @property
    def words(self) -> str:
        """Depends on where counting starts."""
        return "rows of each owner" if self.origin == "middle" else f"rows of each owner, from the {self.origin} bound"

    def delta(self, steps: Steps | None) -> int:
        """U, or the lower bound if an odd catalog makes it larger; from either bound, the width."""
        known = _known(steps)
        return known.magnitude if self.origin == "middle" else known.upper - known.lower


@dataclass(frozen=True, slots=True)
class OwnerSum(MeasureDefaults):
    """The sum of an owner's values, clamped."""

    argument: Expression
    is_integer: bool
    origin: str = "middle"
    """Counted from the 'lower' or the 'upper' bound instead of 0: the two distances add up to U − L for every owner of a group."""
    needs_bounds = True
    power = 1
    summed_on_grid = True
    counts_from_bounds = True

    def from_origin(self, origin: str) -> Self:
        """From 0, or from a bound."""
        return replace(self, origin=origin)

    @property
    def words(self) -> str:
        """Depends on where counting starts."""
        return "sum of each owner" if self.origin == "middle" else f"sum of each owner, from the {self.origin} bound"

    def unit_reach(self, magnitude: Fraction, radius: Fraction) -> Fraction:
        """The larger bound, or the width."""
        return magnitude if self.origin == "middle" else 2 * radius

    def delta(self, steps: Steps | None) -> int:
        """max(|L|, |U|): never U − L, since an absent owner adds nothing at all; from either bound, the width."""
        known = _known(steps)
        return known.magnitude if self.origin == "middle" else known.upper - known.lower


class LimitedInAll(MeasureDefaults):
    """What an owner has in a group, where its groups together hold at most T = max(|L|, |U|): docs/theory/limits.md."""

    __slots__ = ()
    needs_bounds, power, limited_in_all = True, 1, True

    def coordinates(self, contribution: Contribution) -> int:  # noqa: ARG002 - whatever the groups
        """All of it may be in one group."""
        return 1

    def entries(self, contribution: Contribution) -> int | None:
        """It may be spread over all groups that an owner is kept in."""
        return contribution.groups

    def delta(self, steps: Steps | None) -> int:
        """T, over all groups."""
        return _known(steps).magnitude


@dataclass(frozen=True, slots=True)
class TotalRows(LimitedInAll):
    """Rows of an owner (with a non-NULL argument, if there is one), limited over all groups."""

    argument: Expression | None = None
    is_integer = never_negative = True
    words = "rows of each owner, limited over all groups"


@dataclass(frozen=True, slots=True)
class TotalSum(LimitedInAll):
    """The sums of an owner's values, limited over all groups."""

    argument: Expression
    is_integer: bool
    summed_on_grid = True
    words = "sum of each owner, limited over all groups"


@dataclass(frozen=True, slots=True)
class OwnerMean(MeasureDefaults):
    """The mean of an owner's values, clamped, minus the middle of the bounds; or minus one of the bounds themselves.

    The two with `origin` 'lower' and 'upper' are parts of one whole: x − L and U − x add up to U − L for every x.
    """

    argument: Expression
    origin: str = "middle"
    needs_bounds = True
    is_integer = False
    power = 1
    summed_on_grid = True
    centred = True
    averages_owners = True

    @property
    def words(self) -> str:
        """Depends on where counting starts."""
        return "mean of each owner" if self.origin == "middle" else f"mean of each owner, from the {self.origin} bound"

    def unit_reach(self, magnitude: Fraction, radius: Fraction) -> Fraction:  # noqa: ARG002 - one signature for all
        """Half of the interval, or all of it when counted from one of its ends."""
        return radius if self.origin == "middle" else 2 * radius

    def delta(self, steps: Steps | None) -> int:
        """The larger half of the interval, or all of it."""
        known = _known(steps)
        return known.radius if self.origin == "middle" else known.upper - known.lower


@dataclass(frozen=True, slots=True)
class RowMoment(MeasureDefaults):
    """Σ (clamp(x) − m)^power over at most `rows` rows per owner; m = 0 unless `centred`."""

    argument: Expression | None
    power: int
    rows: int
    centred: bool = True
    is_integer: bool = False
    origin: str = "middle"
    """With power 1: x − L from the 'lower' bound, x − U from the 'upper': U − L in all, signs aside.
    With power 2: (x − L)² from the 'lower' bound, (U − x)² from the 'upper', 2(x − L)(U − x) 'between' them: (U − L)² in all."""
    reads_rows = True
    sums_rows = True

    @property
    def needs_bounds(self) -> bool:
        """Power 0 counts rows."""
        return self.power > 0

    @property
    def words(self) -> str:
        """Depends on the power."""
        if self.origin != "middle":
            side = "between the bounds" if self.origin == "between" else f"from the {self.origin} bound"
            return f"sum of squares of rows, {side}"
        return ("rows", "sum of rows", "sum of squares of rows")[self.power]

    @property
    def rows_summed(self) -> int:  # type: ignore[override]
        """Each of its rows is rounded."""
        return self.rows

    def unit_reach(self, magnitude: Fraction, radius: Fraction) -> Fraction:
        """The number of rows times the largest single row."""
        reach = radius if self.centred else magnitude
        return self.rows * (reach if self.origin == "middle" else 2 * radius) ** self.power

    def feed(self) -> Self:
        """The rows themselves."""
        return replace(self, power=1, centred=True, origin="middle")

    def with_rows(self, rows: int) -> Self:
        """Over this many rows."""
        return replace(self, rows=rows)

    def delta(self, steps: Steps | None) -> int:
        """The number of rows times the largest single row."""
        if steps is None or self.power == 0:
            return self.rows
        if self.origin != "middle":
            return int(self.rows * (steps.upper - steps.lower) ** self.power)
        return int(self.rows * (steps.radius if self.centred else steps.magnitude) ** self.power)


@dataclass(frozen=True, slots=True)
class DistinctValues(MeasureDefaults):
    """Distinct values in a group; each owner contributes at most `values`."""

    argument: Expression
    values: int
    needs_bounds = False
    is_integer = True
    power = 1
    words = "different values"
    reads_rows = True
    additive = False

    def with_rows(self, rows: int) -> Self:
        """Over this many values."""
        return replace(self, values=rows)

    def delta(self, steps: Steps | None) -> int:  # noqa: ARG002 - one signature for all measures
        """Every value an owner contributes can be new."""
        return self.values


@dataclass(frozen=True, slots=True)
class Leaves(MeasureDefaults):
    """Rows per leaf of a b-ary tree over [L, U]; `extreme` feeds one value per owner, its 'min' or 'max'."""

    argument: Expression
    rows: int
    extreme: str | None = None
    branching: int = 16
    height: int = 4
    needs_bounds = True
    is_integer = True
    power = 1
    reads_rows = True
    is_tree = True

    @property
    def words(self) -> str:
        """Depends on what is counted."""
        return "tree of counts of rows" if self.extreme is None else "tree of counts of owners"

    @property
    def levels(self) -> int:  # type: ignore[override]
        """Every level of the tree has a node that counts the row."""
        return self.height

    @property
    def cells(self) -> int:  # type: ignore[override]
        """Each row may be in a different leaf."""
        return self.rows

    def with_rows(self, rows: int) -> Self:
        """Over this many rows."""
        return replace(self, rows=rows)

    @property
    def leaf_count(self) -> int:  # type: ignore[override]
        """How many intervals the tree cuts the bounds into."""
        return int(self.branching**self.height)

    def delta(self, steps: Steps | None) -> int:  # noqa: ARG002 - one signature for all measures
        """One owner's rows in one node."""
        return self.rows


OfOwner = OwnerCount | OwnerWeight | RowCount | OwnerSum | TotalRows | TotalSum | OwnerMean
Measure = OfOwner | RowMoment | DistinctValues | Leaves


@dataclass(frozen=True, slots=True)
class Histogram:
    """Logarithmic bins of the input of `serves`: one value per owner (one per owner and group if `per_group`).

    Bin 0 holds zero; bin ±(j + 1) holds 2^j ≤ |v| < 2^(j+1) steps of `grid`, for whole numbers. Reals are binned one step
    nearer to zero, 2^j < |v| ≤ 2^(j+1): averages of zeros and ones then have the bound 1, not 2.
    """

    serves: Measure
    per_group: bool = False

    def sees_the_same_row(self, other: Histogram) -> bool:
        """Whether both have the same bins and, for an owner with one row, would count the same number."""
        same = self.serves.argument == other.serves.argument and self.per_group == other.per_group
        counts = self.serves.never_negative or other.serves.never_negative
        return same and not counts and self.grid == other.grid

    @property
    def grid(self) -> Fraction:
        """Whole numbers for counts and integers, 2⁻³⁰ for reals."""
        return Fraction(1) if self.serves.is_integer and not self.serves.is_tree else HISTOGRAM_GRID

    @property
    def ends_at_powers(self) -> bool:
        """Whether a bin includes its outer edge, a power of two."""
        return self.grid != 1

    @property
    def top_bin(self) -> int:
        """The outermost bin on either side."""
        return 63 if self.grid == 1 else SATURATION_BITS

    @property
    def bins(self) -> tuple[int, ...]:
        """All bins, from the most negative to the most positive; counts have none below 1."""
        first = 1 if self.serves.never_negative else -self.top_bin
        return tuple(range(first, self.top_bin + 1))

    def edges(self, bin_number: int) -> tuple[Fraction, Fraction]:
        """The interval of values of one bin; for whole numbers it ends at 2^(j+1) − 1, so that rows counted once stay at one."""
        if bin_number == 0:
            return Fraction(0), Fraction(0)
        inner = self.grid * 2 ** (abs(bin_number) - 1)
        outer = self.grid * (2 ** abs(bin_number) - (1 if self.grid == 1 else 0))
        return (inner, outer) if bin_number > 0 else (-outer, -inner)
