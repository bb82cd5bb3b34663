"""A SELECT WITH POLICY with its noise: what is measured, what it costs under the policy and for owners. Reads no data.

Every aggregate is one table v(x) over the domain, or two (AVG: how many rows, and the sum of e − c over them, c public). ε is split
evenly over the aggregates that any secret edge can change; the others are exact and free. Quantiles read prefix counts of their
attribute, one release for all quantiles of it. n is public for the whole table only: a group's size is exact only where no edge
crosses it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.accountants import plan_loss
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies import losses, planning
from shoal.policies.queries import Cumulative
from shoal.policies.strategies import discrete_variance
from shoal.policies.tables import OneHot, whole_steps
from shoal.release.policy_clause.domain_values import DomainValues, Values, evaluate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.deadline import Deadline
    from shoal.plan.policy_select import PolicyAggregate, PolicySelect
    from shoal.policies.planning import Measured, ReleasePlan
    from shoal.policies.policy import Policy
    from shoal.policies.tables import Steps

ONE = Fraction(1)


@dataclass(frozen=True)
class Column:
    """One aggregate: which families it reads, and, for AVG, what each group takes off and between which values it lies."""

    aggregate: PolicyAggregate
    families: tuple[int, ...]
    centres: tuple[Fraction, ...] = ()
    ends: tuple[tuple[Fraction, Fraction], ...] = ()


@dataclass(frozen=True)
class Quantiles:
    """Prefix counts of one attribute; WHERE leaves positions low … high of it, or (`filtered`) rows that no edge moves out."""

    plan: ReleasePlan
    low: int
    high: int
    filtered: bool


@dataclass(frozen=True)
class PolicyPlan:
    """What is run, and hence what is charged."""

    select: PolicySelect
    values: DomainValues
    families: tuple[Measured, ...]
    columns: tuple[Column, ...]
    quantiles: dict[str, Quantiles]
    public_n: bool

    @cached_property
    def epsilon(self) -> Fraction:
        """The loss under the policy, from the events alone."""
        plain = plan_loss([each.event for each in self.families]).epsilon
        return plain + sum((each.plan.epsilon for each in self.quantiles.values()), Fraction(0))

    @property
    def rule(self) -> Policy:
        """The policy."""
        return self.select.rule

    @property
    def rows_per_owner(self) -> int:
        """How many rows of an owner are kept."""
        return self.select.rows_per_owner

    def loss_under(self, other: Policy) -> Fraction | float:
        """The loss under another policy, all families together; infinite if a number that is exact here is secret there."""
        if other.canonical == self.rule.canonical:
            return self.epsilon
        if other.domain != self.rule.domain:
            return math.inf
        total = losses.loss_under(
            self.families,
            self.rows_per_owner,
            other,
            lambda each: other.steps(each.names, each.table, sampled=True),  # type: ignore[arg-type]
            sampled=True,
        )
        for quantiles in self.quantiles.values():
            # Rows that a WHERE excludes might enter along an edge of the other policy.
            total += math.inf if quantiles.filtered else quantiles.plan.loss_under(other)
        return total

    @property
    def owner_loss(self) -> Fraction | float:
        """What it costs to hide all rows of an owner with this noise; infinite if a number is exact."""
        total = losses.owner_loss(self.families, self.rows_per_owner)
        for quantiles in self.quantiles.values():
            loss = quantiles.plan.owner_loss
            total += math.inf if quantiles.filtered else loss
        return total

    @property
    def promise(self) -> str:
        """The policy's promise, whose it is, and whether anything was released exactly."""
        select = self.select
        exact = [c for c in self.columns if not c.aggregate.attribute and not self.families[c.families[-1]].scale]
        said = f"; exact: {', '.join(dict.fromkeys(c.aggregate.written for c in exact))}" if exact else ""
        return f"{select.rule.promise}; about {select.rows_per_owner} row(s) of each {select.owner}{said}"

    @property
    def is_exact(self) -> bool:
        """Whether nothing in the answer gets noise."""
        return self.epsilon == 0


def plan_policy(select: PolicySelect, deadline: Deadline, *, public_n: bool = True) -> PolicyPlan:
    """The plan of a SELECT: its values over the domain, then noise for what secret edges change."""
    values = evaluate(select, deadline)
    if not values.count:
        raise ShoalError(
            "E_UNSUPPORTED",
            "No value of the policy's domain passes WHERE, so the answer has no group.",
            hint="The policy's domain is defined in the catalog.",
            position=select.position,
        )
    drafts = [_draft(select, values, a) for a in select.aggregates if not a.attribute]
    attributes = list(dict.fromkeys(a.attribute for a in select.aggregates if a.attribute))
    noisy = [draft for draft in drafts if any(_steps(select, values, t) for t in draft.tables)]
    secret = [name for name in attributes if _is_secret(select, name)]
    share = select.epsilon / max(1, len(noisy) + len(secret))
    families: list[Measured] = []
    columns = []
    for draft in drafts:
        first = len(families)
        families += draft.measured(select, values, share)
        numbers = tuple(range(first, len(families)))
        columns.append(Column(draft.aggregate, numbers, draft.centres, draft.ends))
    columns += [Column(a, ()) for a in select.aggregates if a.attribute]
    quantiles = {name: _quantiles(select, values, name, share, public_n=public_n) for name in attributes}
    return PolicyPlan(select, values, tuple(families), tuple(columns), quantiles, public_n)


def _steps(select: PolicySelect, values: DomainValues, table: OneHot) -> int:
    return select.rule.steps(values.names, table, sampled=True)


@dataclass(frozen=True)
class _Draft:
    """An aggregate before its noise."""

    aggregate: PolicyAggregate
    tables: tuple[OneHot, ...]
    centres: tuple[Fraction, ...] = ()
    ends: tuple[tuple[Fraction, Fraction], ...] = ()

    def measured(self, select: PolicySelect, values: DomainValues, epsilon: Fraction) -> list[Measured]:
        """The families at this ε: half each if two of them are secret."""
        secret = max(1, sum(_steps(select, values, table) > 0 for table in self.tables))
        return [
            planning.measure(select.rule, values.names, table, epsilon / secret, select.rows_per_owner, sampled=True)
            for table in self.tables
        ]


def _draft(select: PolicySelect, values: DomainValues, aggregate: PolicyAggregate) -> _Draft:
    holds = values.holds(aggregate.condition)
    if aggregate.argument is None:
        return _Draft(aggregate, (_counts(values, holds),))
    if aggregate.kind == "count":
        return _Draft(aggregate, (_counts(values, holds & values.is_there(aggregate.argument)),))
    found = values.of(aggregate.argument)
    there = holds & found.present
    if aggregate.kind == "sum":
        return _Draft(aggregate, (_sums(values, there, found, np.zeros(values.count, dtype=np.int64)),))
    return _average(select, values, aggregate, there, found)


def _counts(values: DomainValues, there: NDArray[np.bool_]) -> OneHot:
    return OneHot(np.where(there, values.groups, -1), np.ones(len(there), dtype=np.int64), values.count)


def _sums(values: DomainValues, there: NDArray[np.bool_], found: Values, centres: Steps) -> OneHot:
    """Σ(e − c) of each group, every group about its own public c."""
    groups = np.where(there, values.groups, -1)
    return OneHot(groups, found.steps - centres[np.maximum(groups, 0)], values.count, found.grid)


def _average(
    select: PolicySelect, values: DomainValues, aggregate: PolicyAggregate, there: NDArray[np.bool_], found: Values
) -> _Draft:
    """C and S = Σ(e − c); c is the middle of each group, of all of them, or 0: the one whose sum moves least."""
    ends = _ends(values, there, found)
    low, high = min(a for a, _ in ends), max(b for _, b in ends)
    candidates = [
        whole_steps(c) for c in ([(a + b) // 2 for a, b in ends], [(low + high) // 2] * len(ends), [0] * len(ends))
    ]
    centres = min(candidates, key=lambda c: _steps(select, values, _sums(values, there, found, c)))
    return _Draft(
        aggregate,
        (_counts(values, there), _sums(values, there, found, centres)),
        tuple(int(c) * found.grid for c in centres),
        tuple((a * found.grid, b * found.grid) for a, b in ends),
    )


def _ends(values: DomainValues, there: NDArray[np.bool_], found: Values) -> list[tuple[int, int]]:
    """The smallest and largest value that a row of each group can have; (0, 0) where it can have none."""
    groups, steps = values.groups[there], found.steps[there]
    order = np.lexsort((steps, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    stops = np.append(starts[1:], len(order)) - 1
    ends = [(0, 0)] * values.count
    for start, stop in zip(starts, stops, strict=True) if len(order) else ():
        ends[int(groups[order[start]])] = (int(steps[order[start]]), int(steps[order[stop]]))
    return ends


# ---- quantiles -------------------------------------------------------------------------------------------------------


def _is_secret(select: PolicySelect, name: str) -> bool:
    table = Cumulative(name).table(select.rule.domain)
    return select.rule.steps((name,), table, sampled=True) > 0


def _quantiles(
    select: PolicySelect, values: DomainValues, name: str, epsilon: Fraction, *, public_n: bool
) -> Quantiles:
    rule, rows = select.rule, select.rows_per_owner
    plan = planning.plan_release(Cumulative(name), rule, epsilon, rows_per_owner=rows, public_n=public_n, sampled=True)
    size = rule.domain.attribute(name).size
    if select.where is None:
        return Quantiles(plan, 0, size - 1, filtered=False)
    kept = _kept_range(select, values, name)
    if kept is not None:
        return Quantiles(plan, *kept, filtered=False)
    crossed = rule.steps(values.names, _counts_of(values.passes), sampled=True)
    if crossed:
        raise ShoalError(
            "E_UNSUPPORTED",
            "A quantile under a policy takes a WHERE that is one range of the same attribute, or one that no secret pair crosses.",
            hint=f"WHERE {name} >= 18, or filter by something that the policy does not hide.",
            position=select.position,
        )
    return Quantiles(plan, 0, size - 1, filtered=True)


def _counts_of(there: NDArray[np.bool_]) -> OneHot:
    return OneHot(np.where(there, 0, -1), np.ones(len(there), dtype=np.int64), 1)


def _kept_range(select: PolicySelect, values: DomainValues, name: str) -> tuple[int, int] | None:
    """First and last position, where WHERE is one range of this attribute alone."""
    if name not in values.names:
        return None
    seen = select.rule.domain.projected(values.names)
    by_attribute = np.moveaxis(values.passes.reshape(seen.shape), seen.axis(name), 0).reshape(
        seen.attribute(name).size, -1
    )
    if not (by_attribute == by_attribute[:, :1]).all():
        return None
    inside = np.flatnonzero(by_attribute[:, 0])
    if not len(inside) or len(inside) != inside[-1] - inside[0] + 1:
        return None
    return int(inside[0]), int(inside[-1])


# ---- errors ----------------------------------------------------------------------------------------------------------


def expected_error(plan: PolicyPlan, column: Column) -> float:
    """The mean squared error of an aggregate's number; for AVG, that of its sum; for quantiles, of their ranges."""
    if column.aggregate.attribute:
        return plan.quantiles[column.aggregate.attribute].plan.expected_error
    family = plan.families[column.families[-1]]
    return discrete_variance(family.scale) * float(family.table.grid) ** 2


def owner_level_error(plan: PolicyPlan, column: Column) -> float:
    """The same under owner-level privacy, at the ε that this aggregate has."""
    select = plan.select
    if column.aggregate.attribute:
        found = plan.quantiles[column.aggregate.attribute].plan
        epsilon = found.epsilon or select.epsilon
        return planning.owner_level_error(found.query, select.rule, epsilon, select.rows_per_owner)
    family = plan.families[column.families[-1]]
    epsilon = family.event.epsilon or select.epsilon
    scale = Fraction(select.rows_per_owner * family.table.reach()) / epsilon
    return discrete_variance(scale) * float(family.table.grid) ** 2
