"""Policies: a stated, weaker promise for less noise.

>>> from shoal import policy
>>> ages = policy.Domain({"age": range(0, 101)})
>>> rule = policy.Policy(ages, policy.distance(age=5), name="nearby_age")
>>> rule.l1(policy.sum("age"))
Fraction(5, 1)
>>> policy.release({"age": [30, 41, 52]}, policy.sum("age"), rule, epsilon=1.0).mechanism
'noise'
"""

from shoal.policies.domain import Domain
from shoal.policies.known import counts_by, counts_of
from shoal.policies.policy import Policy, stretch
from shoal.policies.queries import cumulative, histogram, linear, mean, ranges, sum  # noqa: A004 - policy.sum is the name
from shoal.policies.secrets import attributes, distance, full, graph, partition
from shoal.policy.explanation import Explanation, explain
from shoal.policy.kmeans import Clusters, kmeans
from shoal.policy.pairs import pairs
from shoal.policy.release import Interval, Release, release

__all__ = [
    "Clusters",
    "Domain",
    "Explanation",
    "Interval",
    "Policy",
    "Release",
    "attributes",
    "counts_by",
    "counts_of",
    "cumulative",
    "distance",
    "explain",
    "full",
    "graph",
    "histogram",
    "kmeans",
    "linear",
    "mean",
    "pairs",
    "partition",
    "ranges",
    "release",
    "stretch",
    "sum",
]
