"""The private aggregates as analysts write them: one row of `SPELLINGS` each.

A new aggregate is one class in this package and one row here: the binder, the hint that lists aggregates and the audit
suite's own test read the table. The class's methods say what it computes, how large its error is and what happens without bounds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.plan.aggregates import (
    ApproxBounds,
    Average,
    CountDistinct,
    CountRows,
    Extreme,
    Quantile,
    Quantiles,
    RowAverage,
    Sum,
    Variance,
)
from shoal.plan.aggregates.defaults import PER_GROUP, PER_ROW

if TYPE_CHECKING:
    from shoal.plan.aggregates import Aggregate
    from shoal.plan.expressions import Expression

ROWS = "max_contributions_per_group"
STRATEGY = "contribution_bounding_strategy"
HALF = Fraction(1, 2)


class Argument(enum.Enum):
    """What an aggregate is taken of."""

    ROWS = enum.auto()
    """A star, or a value whose NULLs are skipped."""
    CONDITION = enum.auto()
    """Rows where the condition holds."""
    VALUE = enum.auto()
    """A value of any type with equality; the owner column is counted as owners."""
    NUMBER = enum.auto()
    SUMMAND = enum.auto()
    """A number; a decimal with scale 0 counts as whole."""


class Extra(enum.Enum):
    """A constant after the argument."""

    FRACTION = enum.auto()
    PARTS = enum.auto()


@dataclass(frozen=True, slots=True)
class Written:
    """What the analyst wrote, bound."""

    value: Expression | None
    extra: Fraction | int | tuple[Fraction, ...] | None
    rows: int
    """How many of an owner's rows a group reads, if the aggregate reads rows."""
    row_limit: int | None
    """max_rows_contributed of the SELECT."""


Make = Callable[[Any], "Aggregate"]
"""`Written` → the aggregate. The binder has checked that value and extra are present when the row requires them."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an aggregate is written: its names, what it is taken of, constants, named arguments, and which bounds it takes."""

    name: str
    """As the hint lists it."""
    make: Make
    argument: Argument = Argument.NUMBER
    bounds: str | None = PER_ROW
    extra: Extra | None = None
    takes_rows: bool = False
    named: frozenset[str] = frozenset()
    also: tuple[str, ...] = ()
    """Other names in both clauses."""
    only_anon: tuple[str, ...] = ()
    """Other names behind ANON_."""
    of_times: bool = False
    """Whether the result is one of the values, so that dates give a date and timestamps a timestamp."""

    @property
    def arguments(self) -> frozenset[str]:
        """Every argument that can be given by name."""
        bounds = {self.bounds} if self.bounds is not None else set()
        return frozenset({"epsilon", "report_format"}) | self.named | bounds | ({ROWS} if self.takes_rows else set())


def _variance(*, sample: bool, root: bool) -> Make:
    return lambda written: Variance(written.value, written.rows, sample, root)


def _quantile(written: Any) -> Aggregate:
    if isinstance(written.extra, tuple):
        return Quantiles(written.value, written.extra, written.rows)
    return Quantile(written.value, written.extra, written.rows)


def _distinct(written: Any) -> Aggregate:
    return CountDistinct(written.value, written.rows)


def _count(written: Written) -> Aggregate:
    return CountRows(written.value, written.row_limit)


_DISTINCT: dict[str, Any] = {
    "make": _distinct,
    "argument": Argument.VALUE,
    "bounds": None,
    "takes_rows": True,
    "named": frozenset({STRATEGY}),
}
SPELLINGS = (
    Spelling("COUNT", _count, Argument.ROWS, PER_GROUP),
    Spelling("SUM", lambda written: Sum(written.value, written.row_limit), Argument.SUMMAND, PER_GROUP, also=("FSUM",)),
    Spelling(
        "AVG",
        lambda written: Average(written.value, written.row_limit),
        bounds=PER_GROUP,
        also=("MEAN", "FAVG"),
        of_times=True,
    ),
    Spelling("AVG_ROWS", lambda written: RowAverage(written.value, written.rows), takes_rows=True, also=("MEAN_ROWS",)),
    Spelling("VAR_POP", _variance(sample=False, root=False), takes_rows=True, also=("VARP",), only_anon=("VAR",)),
    Spelling("VAR_SAMP", _variance(sample=True, root=False), takes_rows=True, also=("VARIANCE", "VAR")),
    Spelling(
        "STDDEV_POP",
        _variance(sample=False, root=True),
        takes_rows=True,
        also=("STDEVP", "STD"),
        only_anon=("STDDEV",),
    ),
    Spelling("STDDEV_SAMP", _variance(sample=True, root=True), takes_rows=True, also=("STDDEV", "STDEV")),
    Spelling("MIN", lambda written: Extreme(written.value, "min"), of_times=True),
    Spelling("MAX", lambda written: Extreme(written.value, "max"), of_times=True),
    Spelling(
        "MEDIAN",
        lambda written: Quantile(written.value, HALF, written.rows),
        takes_rows=True,
        also=("APPROX_MEDIAN",),
        of_times=True,
    ),
    Spelling(
        "PERCENTILE_CONT",
        _quantile,
        extra=Extra.FRACTION,
        takes_rows=True,
        also=("QUANTILE_CONT", "PERCENTILE"),
        of_times=True,
    ),
    Spelling(
        "PERCENTILE_DISC",
        _quantile,
        extra=Extra.FRACTION,
        takes_rows=True,
        also=("QUANTILE_DISC", "QUANTILE", "APPROX_QUANTILE", "APPROX_PERCENTILE", "PERCENTILE_APPROX"),
        only_anon=("NTILE",),
        of_times=True,
    ),
    Spelling(
        "APPROX_QUANTILES",
        lambda written: Quantiles(written.value, written.extra, written.rows),
        extra=Extra.PARTS,
        takes_rows=True,
        only_anon=("QUANTILES",),
    ),
    Spelling("COUNT(DISTINCT x)", also=("COUNT_DISTINCT",), **_DISTINCT),
    Spelling("APPROX_COUNT_DISTINCT", **_DISTINCT),
    Spelling("COUNTIF", _count, Argument.CONDITION, PER_GROUP, also=("COUNT_IF",)),
    Spelling("APPROX_BOUNDS", lambda written: ApproxBounds(written.value), bounds=None),
)


NAMES = frozenset(name for row in SPELLINGS for name in (row.name, *row.also) if name.isidentifier())
"""Every name for a private aggregate that both clauses accept."""


def spelling_of(name: str, *, anon: bool) -> Spelling | None:
    """The row for a name; after ANON_ (already stripped) some names mean something else."""
    own = (row for row in SPELLINGS if anon and name in row.only_anon)
    shared = (row for row in SPELLINGS if name == row.name or name in row.also)
    return next(own, None) or next(shared, None)


DISTINCT = next(row for row in SPELLINGS if row.name == "COUNT(DISTINCT x)")
