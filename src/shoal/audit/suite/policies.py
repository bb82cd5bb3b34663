"""Releases under a policy before the tester: neighbours are those of the policy, and no others."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.audit.suite.exact_checks import Computed
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.mechanisms.noise import draw_noise
from shoal.policies import known, planning, queries, secrets
from shoal.policies.domain import Domain
from shoal.policies.graphs.parts import Partition
from shoal.policies.policy import Policy
from shoal.policy.kmeans import plan_kmeans
from shoal.policy.pairs import pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from shoal.policies.queries import Query

LINE = Domain({"x": range(9)})
WARDS = Domain({"x": range(3), "ward": ["A", "B"]})
NEAR = Policy(LINE, secrets.distance(x=2), name="near")
PARTS = Policy(LINE, secrets.partition(x=[0, 4]), name="parts")
FAR = Policy(LINE, secrets.full(), name="full")
DRAWN = Policy(LINE, secrets.graph([(1, 3), (3, 4), (6, 8)]), name="drawn")
COUNTED = Policy(WARDS, secrets.full(), (known.counts_by("ward"),), name="counted")
MOST_PAIRS = 4


class Counted:
    """Records as a plan looks at them."""

    def __init__(self, domain: Domain, records: list[Any]) -> None:
        self._positions = [domain.positions(record) for record in records]
        self._domain = domain

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """How many records have each value of these attributes."""
        seen = self._domain.projected(names)
        found = np.zeros(seen.size, dtype=np.int64)
        for position in self._positions:
            found[np.ravel_multi_index([position[self._domain.axis(name)] for name in seen.names], seen.shape)] += 1
        return found


@dataclass(frozen=True, slots=True)
class PolicyRelease:
    """A question under a policy, at any ε."""

    name: str
    query: Query
    rule: Policy

    def inputs(self) -> list[tuple[list[Any], list[Any]]]:
        """A few neighbours, extremes first."""
        return pairs(self.rule, records=2, limit=MOST_PAIRS)

    def mechanism(self, epsilon: float) -> Callable[[list[Any], int], NDArray[Any]]:
        """Every number that is drawn, family by family."""
        plan = planning.plan_release(self.query, self.rule, as_fraction(epsilon))

        def mechanism(records: list[Any], samples: int) -> NDArray[Any]:
            counted, columns = Counted(self.rule.domain, records), []
            for each in plan.measured:
                totals = np.array(each.totals(counted), dtype=np.int64)
                drawn = draw_noise(each.event, samples * len(totals)).reshape(samples, len(totals))
                columns.append(totals + drawn)
            return np.concatenate(columns, axis=1).astype(np.float64)

        return mechanism

    def largest_loss(self, epsilon: float) -> Computed:
        """The loss between neighbours from exact totals and the scales that are run; it never exceeds what is charged."""
        plan = planning.plan_release(self.query, self.rule, as_fraction(epsilon))
        losses = [_loss(plan, *pair) for pair in pairs(self.rule, records=2, limit=64)]
        largest = max(losses)
        holds = largest <= plan.epsilon <= as_fraction(epsilon)
        return Computed(holds, 0.0, f"largest loss {float(largest):.6g} of {float(plan.epsilon):.6g}")


def _loss(plan: planning.ReleasePlan, first: list[Any], second: list[Any]) -> Fraction | float:
    domain = plan.rule.domain
    total: Fraction | float = Fraction(0)
    for each in plan.measured:
        sides = [each.totals(Counted(domain, side)) for side in (first, second)]
        moved = sum(abs(a - b) for a, b in zip(*sides, strict=True))
        if moved:
            total += Fraction(moved) / each.scale if each.scale else float("inf")
    return total


RELEASES = (
    PolicyRelease("histogram, distance", queries.histogram("x"), NEAR),
    PolicyRelease("sum, distance", queries.sum("x"), NEAR),
    PolicyRelease("prefix counts, distance", queries.cumulative("x"), NEAR),
    PolicyRelease("prefix counts, parts", queries.cumulative("x"), PARTS),
    PolicyRelease("prefix counts, all pairs", queries.cumulative("x"), FAR),
    PolicyRelease("ranges, listed pairs", queries.ranges("x", [(0, 3), (2, 7)]), DRAWN),
    PolicyRelease("histogram, known counts", queries.histogram("x", "ward"), COUNTED),
)


def _clusters(rule: Policy, epsilon: float) -> Computed:
    """One round of k-means on two clusters: what any single move changes, against sizes and sums as they are run."""
    plan = plan_kmeans(rule, 1, as_fraction(epsilon))
    (size,) = rule.domain.shape
    largest: Fraction | float = Fraction(0)
    parts = rule.secret.part_of(rule.domain, "x") if isinstance(rule.secret, Partition) else np.arange(size)
    for x in range(size):
        for y in range(size):
            if rule.secret.is_edge(rule.domain, (x,), (y,)):
                # Clusters are split at every border that the assignment can see.
                split = parts[x] != parts[y]
                moved = abs(2 * x - size + 1) + abs(2 * y - size + 1) if split else 2 * abs(x - y)
                loss: Fraction | float = Fraction(moved) / plan.sums.scale
                loss += (Fraction(2) / plan.sizes.scale if plan.sizes.scale else float("inf")) if split else 0
                largest = max(largest, loss)
    return Computed(largest <= plan.epsilon <= as_fraction(epsilon), 0.0, f"largest loss {float(largest):.6g}")


EXACT: tuple[tuple[str, Callable[[float], Computed]], ...] = (
    *((f"{each.name}, every pair", each.largest_loss) for each in RELEASES),
    ("k-means, distance", lambda epsilon: _clusters(NEAR, epsilon)),
    ("k-means, parts", lambda epsilon: _clusters(PARTS, epsilon)),
)
