"""Planted bugs of policies: sensitivities that forget a step, a group, a move, or a cluster; charges under the wrong promise."""

from fractions import Fraction
from importlib import import_module

import numpy as np
from planted import EXACT, INVARIANT, TESTER, planted

from shoal import policy
from shoal.accounting.accountants import Loss
from shoal.accounting.events import PolicyLaplace, Shift
from shoal.accounting.ledger import Ledger
from shoal.audit import check
from shoal.audit.suite import policies
from shoal.mechanisms.entropy import seeded_entropy
from shoal.params import Budget
from shoal.policies import charging, known, strategies, tables

kmeans = import_module("shoal.policy.kmeans")  # the package shows a function of this name
LINE = policy.Domain({"x": range(256)})


def loses_too_much(number):
    """The loss between neighbours of a policy, from exact totals and the scales that are run, against what is charged."""

    def alarm():
        release = policies.RELEASES[number]
        rule = policy.Policy(release.rule.domain, release.rule.secret, release.rule.known, release.rule.name)
        return not policies.PolicyRelease(release.name, release.query, rule).largest_loss(1.0).holds

    return alarm


@planted(
    "the length of a step minus one",
    "prefix counts under distance θ get the noise of θ − 1",
    EXACT,
    loses_too_much(2),
)
def a_step_short(patch):
    real = strategies.ordered_chain
    patch.setattr(
        strategies,
        "ordered_chain",
        lambda line, factor, epsilon: real(strategies.Line(line.width, line.theta - 1, line.closed), factor, epsilon),
    )
    patch.setattr(policy.Policy, "steps", lambda *_, **__: 1)


@planted(
    "a histogram of sensitivity 1",
    "a record that moves leaves one cell and enters another, and only one of them counts",
    EXACT,
    loses_too_much(0),
)
def one_cell_of_two(patch):
    def between(self, x, y):
        a, b = self.amounts[x], self.amounts[y]
        return np.where(self.groups[x] == self.groups[y], np.abs(a - b), np.maximum(np.abs(a), np.abs(b)))

    patch.setattr(tables.OneHot, "between", between)


@planted(
    "known counts that cost nothing",
    "records that move to keep known counts are left out of the sensitivity",
    EXACT,
    loses_too_much(6),
)
def compensating_moves_ignored(patch):
    patch.setattr(known, "moves", lambda *_: 1)


def crosses_clusters(samples=8000):
    """A record that moves by 2 across the border of two clusters, far from the middle of the box: 9 → 11."""

    def alarm():
        rule = policy.Policy(LINE, policy.distance(x=2))
        plan = kmeans.plan_kmeans(rule, 1, Fraction(1))
        entropy = seeded_entropy(5)

        def one_round(data, n):
            points = np.array(data, dtype=np.int64).reshape(-1, 1)
            nearest = (points[:, 0] >= 10).astype(np.int64)
            drawn = [kmeans.noisy_round(plan, points, nearest, 2, entropy) for _ in range(n)]
            return np.array([[*sizes, *sums.ravel()] for sizes, sums in drawn])

        return not check(one_round, epsilon=1, inputs=[([9], [11])], search=False, samples=samples).passed

    return alarm


@planted(
    "k-means with the noise of the total sum",
    "the sums of clusters get noise for the length of an edge, as if no record changed cluster",
    TESTER,
    crosses_clusters(2000),
)
def published_noise(patch):
    patch.setattr(kmeans, "_box", lambda _: 2)


@planted(
    "cluster sizes for free",
    "sizes of clusters are exact under a distance policy",
    TESTER,
    crosses_clusters(2000),
)
def exact_sizes_under_distance(patch):
    real = kmeans.plan_kmeans

    def plan(rule, rounds, epsilon, rows_per_owner=1):
        made = real(rule, rounds, epsilon, rows_per_owner)
        free = PolicyLaplace(Shift(0, neighbours=rule.neighbours), Fraction(0))
        return kmeans.KMeansPlan(rule, rounds, made.sums, free, rows_per_owner)

    patch.setattr(kmeans, "plan_kmeans", plan)


def cheap_on_owners():
    """SUM(age) at ε = 1 under distance 5 has scale 5, and one owner moves it by 100: a ledger about owners pays 20."""
    ages = policy.Policy(policy.Domain({"age": range(101)}), policy.distance(age=5))
    ledger = Ledger.in_memory(Budget(Fraction(100), Fraction(0)))
    policy.release({"uid": [1], "age": [30]}, policy.sum("age"), ages, epsilon=1, ledger=ledger, owner="uid")
    return ledger.spent[0] != 20


@planted(
    "bounded and unbounded privacy mixed unsaid",
    "a release under a policy is charged its own ε on a ledger about owners",
    INVARIANT,
    cheap_on_owners,
)
def promises_mixed(patch):
    patch.setattr(charging, "loss_on", lambda _, plan, __: Loss(plan.epsilon, Fraction(0)))


def exact_after_sampling():
    """Counts of rows that were kept at random are not known, whatever is known of the table."""
    rule = policies.COUNTED
    histogram = policy.histogram("ward")
    return rule.steps(("ward",), histogram.table(rule.domain), sampled=True) == 0


@planted(
    "known counts of a sample",
    "counts by ward are released exactly although rows of owners were left out at random",
    INVARIANT,
    exact_after_sampling,
)
def sampled_counts_are_exact(patch):
    real = policy.Policy.steps
    patch.setattr(policy.Policy, "steps", lambda self, names, table, **_: real(self, names, table))
