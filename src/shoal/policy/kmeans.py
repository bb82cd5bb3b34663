"""Clusters under a policy: Lloyd's rounds on noisy sizes and sums.

**Sensitivity, and the published mistake.** Each round releases the size and the vector of sums of every cluster. A record that
moves along a secret edge may change cluster: then *two* sums change, each by the whole record, not by the length of the edge. (A
record that moves by 2 across a border, 127 → 129 with centres 64 and 192, changes the sums by 127 + 129 = 256. Noise for the
length of the edge, as published, loses 128 times the ε it claims.) Correct:

- *partition*: a record is assigned by the middle of its part. No edge leaves a part, so none crosses clusters: sizes are exact and
  free, and the sums move by at most the widest part's L1 diameter.
- *every other policy*: sums are taken about the middle of the box, where ‖x − mid‖₁ ≤ Σ(b_i − a_i)/2 for every record; crossing
  or not, an edge moves them by at most Σ(b_i − a_i), and sizes by 2. No better than replacement privacy, and the answer says so.

Both times `moves` (known counts) and the rows per owner.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import PolicyLaplace, Shift
from shoal.engines.domain_records import check_columns, read_records
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.certified import round_scale_up
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.noise import add_noise
from shoal.policies import charging
from shoal.policies.graphs.parts import Partition
from shoal.policies.policy import Policy, stretch
from shoal.policy.release import opened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from shoal.accounting.ledger import Ledger
    from shoal.engines.domain_records import Records
    from shoal.policies.domain import Domain


@dataclass(frozen=True)
class Clusters:
    """Centres and sizes. `sizes_exact`: the policy does not hide them."""

    centers: list[tuple[float, ...]]
    sizes: list[float]
    sizes_exact: bool
    epsilon: Fraction
    promise: str


@dataclass(frozen=True)
class KMeansPlan:
    """What every round runs, and hence what is charged."""

    rule: Policy
    rounds: int
    sums: PolicyLaplace
    sizes: PolicyLaplace
    rows_per_owner: int

    @property
    def sizes_exact(self) -> bool:
        """Whether no edge crosses clusters."""
        return self.sizes.shift.l1 == 0

    @property
    def epsilon(self) -> Fraction:
        """All rounds together."""
        return self.rounds * plan_loss([self.sums, self.sizes]).epsilon

    def loss_under(self, other: Policy) -> Fraction | float:
        """The loss under another policy: by its moves where every move is covered, else by the stretch of the parts."""
        if other.domain != self.rule.domain:
            return math.inf
        if not self.sizes_exact:
            return self.epsilon * Fraction(other.moves, self.rule.moves)
        longest = stretch(self.rule, other)
        return math.inf if math.isinf(longest) else self.epsilon * Fraction(longest)

    @property
    def owner_loss(self) -> Fraction | float:
        """One record adds 1 to a size and at most half of the box to the sums, in half steps."""
        if self.sizes_exact:
            return math.inf
        once = Fraction(_box(self.rule.domain)) / self.sums.scale + 1 / self.sizes.scale
        return self.rounds * self.rows_per_owner * once


def _box(domain: Domain) -> int:
    """Σ(b_i − a_i)."""
    return sum(size - 1 for size in domain.shape)


def plan_kmeans(rule: Policy, rounds: int, epsilon: Fraction, rows_per_owner: int = 1) -> KMeansPlan:
    """ε is split evenly over rounds; half for sizes and half for sums, all for sums where sizes are exact."""
    for attribute in rule.domain.attributes:
        rule.domain.ordered(attribute.name)
    each, factor = epsilon / rounds, rule.moves * rows_per_owner
    box = len(rule.domain.shape)
    if isinstance(rule.secret, Partition):
        reach = sum(rule.secret.spans(rule.domain)[0])
        return KMeansPlan(
            rule, rounds, _event(rule, 2 * reach * factor, each, box), _event(rule, 0, each, 1), rows_per_owner
        )
    return KMeansPlan(
        rule,
        rounds,
        _event(rule, 2 * _box(rule.domain) * factor, each / 2, box),
        _event(rule, 2 * factor, each / 2, 1, Fraction(1)),
        rows_per_owner,
    )


def _event(rule: Policy, l1: int, epsilon: Fraction, entries: int, grid: Fraction = Fraction(1, 2)) -> PolicyLaplace:
    return PolicyLaplace(Shift(l1, entries=entries, neighbours=rule.neighbours), round_scale_up(l1 / epsilon), grid)


def kmeans(
    data: Any,
    k: int,
    rule: Policy,
    *,
    epsilon: float = 1.0,
    iterations: int = 10,
    start: Sequence[Sequence[float]] | None = None,
    ledger: Ledger | str | Path | None = None,
    user: str | None = None,
    owner: str | None = None,
    max_rows_per_owner: int = 1,
    table: str | None = None,
) -> Clusters:
    """K centres of the records. Start points are public: uniform in the box, unless given."""
    if not isinstance(rule, Policy):
        raise ShoalError("E_USAGE", "k-means needs a Policy.")
    params.whole_number(k, option="k", largest=1000)
    params.whole_number(iterations, option="iterations", largest=1000)
    rows = params.whole_number(max_rows_per_owner, option="max_rows_per_owner")
    plan = plan_kmeans(rule, iterations, params.epsilon(epsilon), rows)
    first = _starts(start, k, rule.domain, SYSTEM)
    book = charging.opened(ledger)
    if book is not None:
        charging.loss_on(book, plan, owner)
    with opened(data, table) as source:
        check_columns(source.engine, source.table, rule.domain, owner)

        def run() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            return rounds(plan, read_records(source.engine, source.table, rule.domain, owner, rows), first)

        centers, sizes = charging.charged_run(book, plan, owner, user, f"policy {rule.name}: {k}-means", run)
    return Clusters(
        [tuple(float(x) for x in center) for center in centers],
        [float(size) for size in sizes],
        plan.sizes_exact,
        plan.epsilon,
        _promise(plan),
    )


def _promise(plan: KMeansPlan) -> str:
    if plan.sizes_exact:
        return f"{plan.rule.promise}; clusters follow public parts, and their sizes are exact"
    return f"{plan.rule.promise}; an edge may cross clusters, so the noise is that of replacement privacy"


def _starts(start: Any, k: int, domain: Domain, entropy: Entropy) -> NDArray[np.float64]:
    low, width = _low(domain), np.array(domain.shape, dtype=np.float64) - 1
    if start is None:
        words = entropy.uint64(k * len(domain.shape)).astype(np.float64) / 2.0**64
        return low + words.reshape(k, -1) * width
    points = np.asarray(start, dtype=np.float64)
    if points.shape != (k, len(domain.shape)) or not np.isfinite(points).all():
        raise ShoalError("E_USAGE", f"start is a list of {k} points with {len(domain.shape)} numbers each.")
    return np.clip(points, low, low + width)


def _low(domain: Domain) -> NDArray[np.float64]:
    return np.array([attribute.values[0] for attribute in domain.attributes], dtype=np.float64)


def rounds(
    plan: KMeansPlan, records: Records, centers: NDArray[np.float64], entropy: Entropy = SYSTEM
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every round of a plan: assign, noisy sizes and sums, new centres inside the box."""
    domain = plan.rule.domain
    low = _low(domain)
    high = low + np.array(domain.shape) - 1
    points = np.stack(records.positions, axis=1)
    places = _assigned_by(plan, points) + low
    sizes = np.zeros(len(centers))
    for _ in range(plan.rounds):
        nearest = _nearest(places, centers)
        sizes, sums = noisy_round(plan, points, nearest, len(centers), entropy)
        # Sums are in half steps about the middle of the box; an empty cluster stays where it is.
        moved = (low + high) / 2 + sums / 2 / np.maximum(sizes, 1.0)[:, None]
        centers = np.where((sizes >= 1)[:, None], np.clip(moved, low, high), centers)
    return centers, np.maximum(sizes, 0.0)


def noisy_round(
    plan: KMeansPlan, points: NDArray[np.int64], nearest: NDArray[np.int64], k: int, entropy: Entropy = SYSTEM
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes, and sums of 2·(x − mid) of each cluster, with their noise: integers in, integers out."""
    doubled = 2 * points - (np.array(plan.rule.domain.shape, dtype=np.int64) - 1)
    exact_sizes = np.bincount(nearest, minlength=k).astype(np.int64)
    exact_sums = np.zeros((k, doubled.shape[1]), dtype=np.int64)
    np.add.at(exact_sums, nearest, doubled)
    sizes = add_noise(plan.sizes, exact_sizes, entropy).astype(np.float64)
    sums = add_noise(plan.sums, exact_sums.ravel(), entropy).astype(np.float64).reshape(k, -1)
    return sizes, sums


def _assigned_by(plan: KMeansPlan, points: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a record is assigned by: itself, or the middle of its part."""
    secret, domain = plan.rule.secret, plan.rule.domain
    if not isinstance(secret, Partition):
        return points.astype(np.float64)
    return np.stack(
        [_middles(secret.part_of(domain, name))[points[:, axis]] for axis, name in enumerate(domain.names)], axis=1
    )


def _middles(part: NDArray[np.int64]) -> NDArray[np.float64]:
    """For every position of an attribute, the middle of its part."""
    starts = np.flatnonzero(np.diff(part, prepend=part[0] - 1))
    stops = np.append(starts[1:], len(part)) - 1
    return np.repeat((starts + stops) / 2, stops - starts + 1)


def _nearest(places: NDArray[np.float64], centers: NDArray[np.float64]) -> NDArray[np.int64]:
    if not len(places):
        return np.zeros(0, dtype=np.int64)
    gaps = np.stack([((places - center) ** 2).sum(axis=1) for center in centers], axis=1)
    return np.asarray(np.argmin(gaps, axis=1), dtype=np.int64)
