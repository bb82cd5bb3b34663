"""A question under a policy → which numbers get which noise, what it costs, and how large the error will be. Reads no data.

**Proof note.** Precondition: each family of numbers is Σ v(record) with v taken from `Measured.table`, and its event's shift is
its policy sensitivity, recomputed from that same table. Formula: discrete Laplace noise of scale ≥ l1/ε_i on every number.
Postcondition: one set of moves changes the log-likelihood by at most Σ l1/scale over the families it can touch. Families of
different *lines* (parts of an ordered attribute that no edge crosses) are never touched by one move, and a move's share is at most
1/moves of a family's loss, so that the loss of the whole release is the largest sum over one line, not the sum over lines.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import PolicyLaplace, Shift
from shoal.frozen import dataclass
from shoal.mechanisms.certified import round_scale_up
from shoal.policies import losses, strategies
from shoal.policies.graphs.distances import Distance, Within
from shoal.policies.queries import Cumulative, Histogram, Linear, Query, Ranges, Sum
from shoal.policies.strategies import Chain, Line, discrete_variance
from shoal.policies.tables import Columns, OneHot, Prefixes, Table, exact_dot, whole_steps

if TYPE_CHECKING:
    import numpy.typing as npt

    from shoal.policies.policy import Policy

Mechanism = Literal["exact", "noise", "cells", "ordered", "two-level", "tree"]


class Counts(Protocol):
    """Records, as far as a plan may look at them."""

    def counts(self, names: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """How many records have each value of these attributes."""


@dataclass(frozen=True)
class Measured:
    """A family of numbers Σ v(record), all with the same noise; `scale` 0 means released exactly."""

    names: tuple[str, ...]
    table: Table | Columns
    event: PolicyLaplace

    @property
    def scale(self) -> Fraction:
        """The noise, in steps of the table's grid."""
        return self.event.scale

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """The sets of attributes by which records are counted."""
        return [(name,) for name in self.names] if isinstance(self.table, Columns) else [self.names]

    def totals(self, records: Counts) -> list[int]:
        """The exact numbers, in steps."""
        if isinstance(self.table, Columns):
            pairs = zip(self.names, self.table.columns, strict=True)
            return [exact_dot(column, records.counts((name,))) for name, column in pairs]
        return self.table.totals(records.counts(self.names))


@dataclass(frozen=True)
class PlacedLine:
    """A line of an ordered attribute, where it begins, and which families of the plan hold its numbers."""

    start: int
    chain: Chain
    families: tuple[int, ...]


@dataclass(frozen=True)
class ReleasePlan:
    """What is run, and hence what is charged."""

    query: Query
    rule: Policy
    mechanism: Mechanism
    measured: tuple[Measured, ...]
    expected_error: float
    rows_per_owner: int = 1
    public_n: bool = True
    sampled: bool = False
    lines: tuple[PlacedLine, ...] = ()

    @cached_property
    def epsilon(self) -> Fraction:
        """The loss under the policy, from the events alone."""
        apart = {i for line in self.lines for i in line.families}
        shared = [each.event for i, each in enumerate(self.measured) if i not in apart]
        one_line = [plan_loss([self.measured[i].event for i in line.families]).epsilon for line in self.lines]
        return plan_loss(shared).epsilon + max(one_line, default=Fraction(0))

    @property
    def scale(self) -> Fraction:
        """The largest noise, in the unit of the answer."""
        return max(each.scale * each.table.grid for each in self.measured)

    @property
    def owner_loss(self) -> Fraction | float:
        """Rows per owner · max over x of Σ |v_i(x)|/scale_i: what it costs to hide all rows of an owner by this noise.

        Infinite where a number is exact, and where the number of records is used.
        """
        if _is_mean(self.query) or (self.public_n and self.lines):
            return math.inf
        return losses.owner_loss(self.measured, self.rows_per_owner)

    def loss_under(self, other: Policy) -> Fraction | float:
        """What the release costs under another policy: R.moves · max over R's edges of Σ |v_i(x) − v_i(y)|/scale_i."""
        if other.neighbours.canonical == self.rule.neighbours.canonical:
            return self.epsilon
        if other.domain != self.rule.domain:
            return math.inf
        return losses.loss_under(
            self.measured,
            self.rows_per_owner,
            other,
            lambda each: _steps(other, each, sampled=self.sampled),  # type: ignore[arg-type]
            sampled=self.sampled,
        )


def _is_mean(query: Query) -> bool:
    return isinstance(query, Sum) and query.mean


def _steps(rule: Policy, measured: Measured, *, sampled: bool) -> int:
    if isinstance(measured.table, Columns):
        return rule.sum_steps(Sum(measured.names), sampled=sampled)
    return rule.steps(measured.names, measured.table, sampled=sampled)


def measure(
    rule: Policy,
    names: tuple[str, ...],
    table: Table | Columns,
    epsilon: Fraction,
    rows_per_owner: int = 1,
    *,
    sampled: bool = False,
) -> Measured:
    """A family at this ε: its sensitivity looked up over the edges, its scale rounded up."""
    draft = Measured(names, table, PolicyLaplace(Shift(0, neighbours=rule.neighbours), Fraction(0), table.grid))
    l1 = rows_per_owner * _steps(rule, draft, sampled=sampled)
    shift = Shift(l1, entries=max(1, table.coordinates), neighbours=rule.neighbours)
    return Measured(names, table, PolicyLaplace(shift, round_scale_up(l1 / epsilon), table.grid))


def plan_release(
    query: Query,
    rule: Policy,
    epsilon: Fraction,
    *,
    rows_per_owner: int = 1,
    public_n: bool = True,
    sampled: bool = False,
) -> ReleasePlan:
    """The plan with the least expected error.

    `sampled`: rows of owners with more than their share are left out at random. Known counts are then facts about the
    table and not about the rows that are kept: they still bound what moves together, and no longer decide an answer.
    """
    names = query.attributes(rule.domain)
    context = _Context(query, rule, epsilon, rows_per_owner, public_n, sampled, names)
    if isinstance(query, Sum):
        return context.sums()
    if isinstance(query, Cumulative):
        return context.cumulative()
    if isinstance(query, Histogram):
        return context.direct()
    if isinstance(query, Ranges):
        plans = [context.direct(), context.cells(), *context.range_strategies()]
    else:
        plans = [context.direct(), context.cells()]
    return min(plans, key=lambda plan: plan.expected_error)


@dataclass(frozen=True)
class _Context:
    """One question, while plans for it are drawn up."""

    query: Query
    rule: Policy
    epsilon: Fraction
    rows: int
    public_n: bool
    sampled: bool
    names: tuple[str, ...]

    def _plan(
        self, mechanism: Mechanism, measured: tuple[Measured, ...], error: float, lines: tuple[PlacedLine, ...] = ()
    ) -> ReleasePlan:
        named: Mechanism = mechanism if any(each.scale for each in measured) else "exact"
        return ReleasePlan(self.query, self.rule, named, measured, error, self.rows, self.public_n, self.sampled, lines)

    def _measure(self, table: Table | Columns, epsilon: Fraction | None = None) -> Measured:
        return measure(self.rule, self.names, table, epsilon or self.epsilon, self.rows, sampled=self.sampled)

    def direct(self) -> ReleasePlan:
        """Noise on the answers."""
        found = self._measure(self.query.table(self.rule.domain))
        return self._plan("noise", (found,), discrete_variance(found.scale) * float(found.table.grid) ** 2)

    def sums(self) -> ReleasePlan:
        """Noise on each sum; no joint domain is looked at."""
        query: Any = self.query
        columns = [self.rule.domain.ordered(name).values for name in query.names]
        table = Columns(tuple(map(_column, columns)))
        found = measure(self.rule, query.names, table, self.epsilon, self.rows, sampled=self.sampled)
        return self._plan("noise", (found,), discrete_variance(found.scale))

    def cells(self) -> ReleasePlan:
        """Noise on every value of the domain; answers are added up from them."""
        table = self.query.table(self.rule.domain)
        size = self.rule.domain.projected(self.names).size
        found = self._measure(OneHot(np.arange(size), np.ones(size, dtype=np.int64), size))
        weights = mean_square(table)
        return self._plan("cells", (found,), discrete_variance(found.scale) * weights)

    def lines(self) -> list[tuple[int, Line]]:
        """Where the attribute falls apart into lines that no edge crosses."""
        return lines_of(self.rule, self.names[0], public_n=self.public_n, sampled=self.sampled)

    def _placed(self, chains: list[tuple[int, Chain]]) -> tuple[tuple[Measured, ...], tuple[PlacedLine, ...]]:
        measured: list[Measured] = [self._exact_ends([start for start, _ in chains])]
        placed = []
        size = self.rule.domain.attribute(self.names[0]).size
        for start, chain in chains:
            families = []
            for table, scale in chain_tables(chain, start, size):
                l1 = self.rows * self.rule.steps(self.names, table, sampled=self.sampled)
                shift = Shift(l1, entries=max(1, table.coordinates), neighbours=self.rule.neighbours)
                families.append(len(measured))
                measured.append(Measured(self.names, table, PolicyLaplace(shift, scale)))
            placed.append(PlacedLine(start, chain, tuple(families)))
        return tuple(measured), tuple(placed)

    def _exact_ends(self, starts: list[int]) -> Measured:
        """Prefixes where lines begin: no edge crosses them."""
        size = self.rule.domain.attribute(self.names[0]).size
        table = prefixes_at([start for start in starts if start], size)
        shift = Shift(0, entries=max(1, table.coordinates), neighbours=self.rule.neighbours)
        return Measured(self.names, table, PolicyLaplace(shift, Fraction(0)))

    def chains(self, kinds: tuple[strategies.Kind, ...]) -> list[tuple[int, Chain]]:
        """The best strategy of these kinds for each line."""
        size = self.rule.domain.attribute(self.names[0]).size
        factor = self.rule.moves * self.rows
        return [
            (start, strategies.best_chain(line, factor, self.epsilon, size, kinds=kinds))
            for start, line in self.lines()
        ]

    def cumulative(self) -> ReleasePlan:
        """The best strategy for each line."""
        chains = self.chains(("ordered", "two-level", "tree"))
        size = self.rule.domain.attribute(self.names[0]).size
        measured, lines = self._placed(chains)
        error = strategies.mean_range_error([chain for _, chain in chains], size)
        widest = max((chain for _, chain in chains), key=lambda chain: chain.line.unknown)
        return self._plan(widest.kind, measured, error, lines)

    def range_strategies(self) -> list[ReleasePlan]:
        """Noise on the prefixes at the ends of ranges, and the strategies for all prefixes."""
        query: Any = self.query
        plans = [self._ends_of_ranges(query)]
        size = self.rule.domain.attribute(self.names[0]).size
        for kind in ("two-level", "tree"):
            chains = self.chains(("ordered", kind)) if size > 1 else []
            if any(chain.kind == kind for _, chain in chains):
                measured, lines = self._placed(chains)
                plan = self._plan(kind, measured, 0.0, lines)
                errors = [range_error(plan, low, high + 1) for low, high in query.positions(self.rule.domain)]
                plans.append(self._plan(kind, measured, sum(errors) / len(errors), lines))
        return plans

    def _ends_of_ranges(self, query: Ranges) -> ReleasePlan:
        size = self.rule.domain.attribute(self.names[0]).size
        ends = query.positions(self.rule.domain)
        wanted = sorted({end for low, high in ends for end in (low, high + 1) if 0 < end < size + (not self.public_n)})
        uncrossed = {start for start, _ in self.lines()}
        free = [end for end in wanted if end in uncrossed]
        paid = [end for end in wanted if end not in uncrossed]
        found = self._measure(prefixes_at(paid, size))
        exact = self._measure(prefixes_at(free, size))
        noisy = [sum(end in paid for end in (low, high + 1)) for low, high in ends]
        error = discrete_variance(found.scale) * sum(noisy) / len(noisy)
        return self._plan("ordered", (exact, found), error)


def _column(values: Any) -> Any:
    return whole_steps(list(values))


def mean_square(table: Table) -> float:
    """The mean over answers of Σ_x v(x)², in the unit of the answer."""
    if isinstance(table, Prefixes):
        return float(table.above.sum()) / max(1, table.coordinates)
    rows = table.amounts if isinstance(table, OneHot) else table.rows
    squared = (rows.astype(np.float64) ** 2).sum()
    return float(squared) / table.coordinates * float(table.grid) ** 2


def prefixes_at(thresholds: list[int], size: int) -> Prefixes:
    """The counts below these positions of an attribute of this many values."""
    above = len(thresholds) - np.searchsorted(np.array(thresholds, dtype=np.int64), np.arange(size), side="right")
    return Prefixes(above.astype(np.int64), len(thresholds))


def chain_tables(chain: Chain, start: int, size: int) -> list[tuple[Table, Fraction]]:
    """What a strategy measures on its line, with the noise of each: prefixes or blocks, then cells."""
    stop = start + chain.line.width
    inside = np.arange(size)
    cell = np.where((inside >= start) & (inside < stop), inside - start, -1)
    ones = np.ones(size, dtype=np.int64)
    ends = [int(end) for end in chain.ends if end < chain.line.width or not chain.line.closed]
    if chain.kind == "cells":
        return [(OneHot(cell, ones, chain.line.width), chain.cell_scale)]
    if chain.kind == "tree":
        block = np.where(cell >= 0, cell // chain.stride, -1)
        top: Table = OneHot(block, ones, len(chain.blocks))
    else:
        top = prefixes_inside(ends, start, size)
    found: list[tuple[Table, Fraction]] = [(top, chain.top_scale)]
    if chain.kind != "ordered":
        found.append((OneHot(cell, ones, chain.line.width), chain.cell_scale))
    return found


def prefixes_inside(ends: list[int], start: int, size: int) -> Prefixes:
    """Counts of the records of a line below some of its positions; records before the line are known and left out."""
    if start == 0:
        return prefixes_at(ends, size)
    above = prefixes_at([start + end for end in ends], size).above.copy()
    above[:start] = 0
    return Prefixes(above, len(ends))


def lines_of(rule: Policy, name: str, *, public_n: bool = True, sampled: bool = False) -> list[tuple[int, Line]]:
    """An ordered attribute cut where no edge crosses: (first position, line)."""
    size = rule.domain.ordered(name).size
    reach = _reaches(rule, name, size, sampled=sampled)
    starts = [0, *(j for j in range(1, size) if not reach[j])]
    stops = [*starts[1:], size]
    return [
        (start, Line(stop - start, int(reach[start:stop].max(initial=0)) or 1, closed=public_n or stop < size))
        for start, stop in zip(starts, stops, strict=True)
    ]


def _reaches(rule: Policy, name: str, size: int, *, sampled: bool) -> npt.NDArray[np.int64]:
    """For every threshold j, the longest edge that crosses it (0 at threshold 0)."""
    reach = np.zeros(size, dtype=np.int64)
    if rule.cells is not None and rule.steps((name,), Cumulative(name).table(rule.domain), sampled=sampled) == 0:
        return reach
    if isinstance(rule.secret, Distance | Within):
        reach[1:] = rule.secret.farthest(rule.domain, (name,))[rule.domain.axis(name)]
        return reach
    for piece in rule.secret.pieces(rule.domain, (name,)):
        for low, high in _stretches(piece):
            reach[low + 1 : high + 1] = np.maximum(reach[low + 1 : high + 1], high - low)
    return reach


def _stretches(piece: Any) -> list[tuple[int, int]]:
    if isinstance(piece, tuple):
        low, high = np.minimum(*piece), np.maximum(*piece)
        return list({(int(a), int(b)) for a, b in zip(low, high, strict=True)})
    order = np.argsort(piece, kind="stable")
    cuts = np.flatnonzero(np.diff(piece[order])) + 1
    return [(int(group[0]), int(group[-1])) for group in np.split(order, cuts)]


def range_error(plan: ReleasePlan, low: int, high: int) -> float:
    """The variance of c_high − c_low under the strategies of a plan."""
    total = 0.0
    ends = {}
    for position, side in ((low, "low"), (high, "high")):
        for line in plan.lines:
            if line.start <= position < line.start + line.chain.line.width or (
                position == line.start + line.chain.line.width and not line.chain.line.closed
            ):
                ends[side] = (line, position - line.start)
    if "low" in ends and "high" in ends and ends["low"][0] is ends["high"][0]:
        line, first = ends["low"]
        return strategies.range_variance(line.chain, first, ends["high"][1], discrete_variance)
    for line, position in ends.values():
        total += strategies.range_variance(line.chain, 0, position, discrete_variance) if position else 0.0
    return total


# ---- the same question under owner-level privacy -----------------------------------------------------------------------


def owner_level_error(query: Query, rule: Policy, epsilon: Fraction, rows_per_owner: int = 1) -> float:
    """The expected error of the best owner-level mechanism for the same question at the same ε."""
    domain = rule.domain

    def noise(l1: int) -> float:
        return discrete_variance(Fraction(rows_per_owner * l1) / epsilon)

    if isinstance(query, Sum):
        return noise(sum(max(abs(low), abs(high)) for low, high in query.ends(domain)))
    if isinstance(query, Histogram):
        return noise(1)
    if isinstance(query, Cumulative):
        size = domain.ordered(query.attribute).size
        return strategies.mean_range_error([_owner_tree(size, rows_per_owner, epsilon)], size) if size > 1 else 0.0
    table = query.table(domain)
    options = [noise(table.reach()) * float(table.grid) ** 2, noise(1) * mean_square(table)]
    if isinstance(query, Ranges) and domain.ordered(query.attribute).size > 1:
        tree = _owner_tree(domain.ordered(query.attribute).size, rows_per_owner, epsilon)
        ends = query.positions(domain)
        errors = [strategies.range_variance(tree, low, high + 1, discrete_variance) for low, high in ends]
        options.append(sum(errors) / len(errors))
    return min(options)


def _owner_tree(size: int, rows_per_owner: int, epsilon: Fraction) -> Chain:
    """The best tree where an owner adds its rows: sensitivity 1 a level instead of 2; n public, in its favour."""
    return strategies.best_chain(Line(size, size), rows_per_owner, epsilon, size, cell_l1=1, kinds=("tree",))


__all__ = ["Counts", "Linear", "Measured", "ReleasePlan", "lines_of", "measure", "owner_level_error", "plan_release"]
