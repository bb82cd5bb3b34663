"""A policy in numbers: its promise, how sensitive common questions are, and what its answers cost beside owner-level privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies import queries, secrets
from shoal.policies.policy import Policy, stretch
from shoal.policy.explanation import Explanation, explain

if TYPE_CHECKING:
    from shoal.policies.queries import Query

MOST_RANGES = 12
"""How many ranges of an attribute the comparison asks for."""


def questions(rule: Policy) -> list[Query]:
    """Common questions about every attribute, as far as the domain allows them."""
    found: list[Query] = []
    for attribute in rule.domain.attributes:
        found.append(queries.histogram(attribute.name))
        if attribute.ordered and attribute.size > 1:
            found += [
                queries.cumulative(attribute.name),
                _ranges(attribute.name, attribute.values),
                queries.sum(attribute.name),
            ]
    return found


def _ranges(name: str, values: Any) -> Query:
    width = max(1, -(-len(values) // MOST_RANGES))
    starts = range(0, len(values), width)
    return queries.ranges(name, [(values[a], values[min(a + width, len(values)) - 1]) for a in starts])


@dataclass(frozen=True)
class Description:
    """What a policy promises, and the L1 sensitivity of common questions."""

    rule: Policy
    rows_per_owner: int = 1

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        rule = self.rule
        return {
            "policy": rule.name,
            "promise": rule.promise,
            "sha256": rule.sha256,
            "moves": rule.moves,
            "max_rows_per_owner": self.rows_per_owner,
            "stretch_to_full": _stretch(rule),
            "sensitivities": [
                {"question": query.name, "l1": float(self.rows_per_owner * rule.l1(query))} for query in _listed(rule)
            ],
            "definition": rule.to_dict(),
        }

    def __str__(self) -> str:
        data = self.to_dict()
        lines = [
            data["promise"],
            f"records that move at once: {data['moves']}; rows per owner: {data['max_rows_per_owner']}",
            f"stretch to hiding the whole value: {data['stretch_to_full']:g}",
            "L1 sensitivity:",
        ]
        width = max(len(row["question"]) for row in data["sensitivities"])
        for row in data["sensitivities"]:
            exact = "  released exactly" if row["l1"] == 0 else ""
            lines.append(f"  {row['question']:<{width}}  {row['l1']:g}{exact}")
        return "\n".join(lines)


def _stretch(rule: Policy) -> float:
    """What one ε costs under the policy that hides the whole value; infinite where some values are not joined."""
    try:
        return float(stretch(rule, Policy(rule.domain, secrets.full(), rule.known)))
    except ShoalError:
        return math.inf


def _listed(rule: Policy) -> list[Query]:
    return [query for query in questions(rule) if not isinstance(query, queries.Ranges)]


def compare(rule: Policy, *, epsilon: float = 1.0, max_rows_per_owner: int = 1) -> list[Explanation]:
    """Expected errors of common questions under the policy, each with owner-level privacy beside it."""
    params.epsilon(epsilon)
    owner = None if max_rows_per_owner == 1 else "owner"
    return [
        explain(query, rule, epsilon=epsilon, owner=owner, max_rows_per_owner=max_rows_per_owner)
        for query in questions(rule)
    ]


def comparison_text(rows: list[Explanation]) -> str:
    """The comparison as a table."""
    width = max(len(row.query) for row in rows)
    lines = [f"{'question':<{width}}  {'mechanism':<9}  {'policy':>12}  {'owner-level':>12}"]
    for row in rows:
        advice = "  prefer owner-level privacy" if row.prefer_owner_level else ""
        lines.append(
            f"{row.query:<{width}}  {row.mechanism:<9}  {row.expected_error:>12.4g}  {row.owner_level_error:>12.4g}{advice}"
        )
    return "\n".join([*lines, "numbers are expected squared errors of one answer, before it is made consistent"])
