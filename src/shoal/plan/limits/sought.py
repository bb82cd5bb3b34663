"""Limits that a query finds for itself: what to look for, in which bins, and what was found. Data only.

| kind   | what of one owner is put into a bin                                          | limits                         |
|--------|------------------------------------------------------------------------------|--------------------------------|
| groups | the number of groups that the owner has rows in                              | κ, groups per owner            |
| rows   | rows per group, weighted by rows: Σn²/Σn                                     | U of COUNT, c of sampled rows  |
| all    | the owner's rows in all groups together                                      | rows per owner                 |
| rows in all | the same, of the rows that one count reads                              | T of COUNT, in all groups      |
| sum in all | sizes of the owner's sums in all groups together: Σ|s|                   | T of SUM, in all groups        |
| values | different values per group, weighted alike                                   | c of COUNT(DISTINCT x)         |
| sum    | size of the sum per group, weighted by size: Σs²/Σ|s|                        | U of SUM                       |

`cut` finds no limit: it measures what the given limits cut. Its bins are by the amount cut (edges), and within each of those by
the amount kept (kept_edges). If rows can have either sign, a sum has every bin twice: for owners whose sums add up to 0 or more,
then for the others. `value` measures what bounds on values clamp: an owner's bin is that of the average of its values.

Every owner fills one bin of each histogram, so one owner moves one count by one.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.plan.releases import SelectPlan

GROUP_EDGES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
ROW_EDGES = tuple(2**power for power in range(11))
TOTAL_EDGES = (1, 2, 3, 5, 8, 12, 20, *(2**power for power in range(5, 13)))
SUM_EDGES = tuple(Fraction(2) ** power for power in range(-10, 31))
"""Upper edges of bins, also the candidates for a limit; one more bin lies beyond the last. Sums are in units of one row's bound."""
CUT_EDGES, KEPT_EDGES = (0, 3, 15, 63, 255, 1023), (3, 15, 63, 255)
"""What limits cut from an owner, and what they keep."""
MEASURING = frozenset({"cut", "value"})
IN_ALL = frozenset({"rows in all", "sum in all"})
"""Limits of one aggregate that hold for all groups of an owner together."""
SUMS = frozenset({"sum", "sum in all"})
KINDS = ("groups", "rows", "all", "values", *sorted(SUMS | IN_ALL), *MEASURING)


@dataclass(frozen=True, slots=True)
class Sought:
    """One limit to find: the upper edges of its bins, and the aggregates (by position) that it limits."""

    kind: str
    edges: tuple[Fraction, ...]
    calls: tuple[int, ...] = ()
    kept_edges: tuple[Fraction, ...] = ()
    domain: int | None = None
    """How many distinct values there can be, if that is public."""
    signed: bool = False
    """Whether owners with a negative sum have separate bins."""

    def __post_init__(self) -> None:
        every = (self.edges, self.kept_edges)
        rising = all(low < high for edges in every for low, high in pairwise(edges))
        first = self.edges[0] if self.edges else None
        begins = first is not None and (self.kind == "value" or (first == 0 if self.measures else first > 0))
        fits = (self.kind == "cut") == bool(self.kept_edges) and (self.kind in SUMS or not self.signed)
        if self.kind not in KINDS or not begins or not rising or not fits:
            raise InternalError("a limit is sought in bins that nobody knows")

    @property
    def bins(self) -> tuple[int, ...]:
        """The bin numbers; the last bin lies beyond every edge."""
        return tuple(range((len(self.edges) + 1) * (len(self.kept_edges) + 1) * (2 if self.signed else 1)))

    @property
    def measures(self) -> bool:
        """Whether it measures what limits or bounds cut, instead of finding one."""
        return self.kind in MEASURING


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits as constants of an ordinary plan: κ, and a limit for every aggregate (None if none is sought).

    `rows`, if given, replaces all of them: that many rows per owner, in any groups. Limits of the aggregates `in_all` (by
    position) hold for all groups of an owner together.
    """

    groups: int
    of_call: tuple[Fraction | None, ...]
    rows: int | None = None
    in_all: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(self.groups, self.rows or 1) < 1 or any(limit is not None and limit <= 0 for limit in self.of_call):
            raise InternalError("a limit is positive")


@dataclass(frozen=True, slots=True)
class TotalOf:
    """The groups that are divided by a total: the number of their SELECT, whose limits the total has, and the aggregate there.

    `in_pieces`: the total is the sum of what owners have in each group, limited as the groups are; else it has their one limit
    for all groups.
    """

    select: int
    position: int
    in_pieces: bool


@dataclass(frozen=True, slots=True)
class Search:
    """Step one (a noisy histogram for each limit) and the possible outcomes of step two (a plan for each candidate).

    `choices` are built and verified before anything is charged. They cover every κ that can be found, with small placeholders for
    the other limits: the worst-case cost is charged, whatever is found.
    """

    sought: tuple[Sought, ...]
    histograms: tuple[SelectPlan, ...]
    choices: tuple[SelectPlan, ...]
    epsilon: Fraction
    """What step two may spend."""

    def limits(self, position: int) -> bool:
        """Whether a limit is sought for this aggregate."""
        return any(position in sought.calls for sought in self.sought if not sought.measures)

    @property
    def finds(self) -> bool:
        """Whether any limit is to be found, not just measured."""
        return any(not sought.measures for sought in self.sought)

    def __post_init__(self) -> None:
        if len(self.sought) != len(self.histograms) or not self.choices:
            raise InternalError("a search has a histogram for each limit, and something to choose from")
