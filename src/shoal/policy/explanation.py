"""What a release would cost and how good it would be, beside owner-level privacy. Reads no data, spends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.frozen import dataclass
from shoal.policies.planning import owner_level_error, plan_release
from shoal.policies.queries import Sum
from shoal.policy.release import _checked, promise_text

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.policies.policy import Policy
    from shoal.policies.queries import Query


@dataclass(frozen=True)
class Explanation:
    """The plan of a release in numbers. Errors are mean squared errors of an answer, before it is made consistent."""

    query: str
    mechanism: str
    scale: Fraction
    epsilon: Fraction
    expected_error: float
    owner_level_error: float
    owner_level_epsilon: float
    promise: str
    note: str = ""

    @property
    def prefer_owner_level(self) -> bool:
        """Whether owner-level privacy would be as accurate at the same ε."""
        return self.owner_level_error <= self.expected_error

    def __str__(self) -> str:
        lines = [
            f"PROMISE: {self.promise}",
            f"{self.query}: {self.mechanism}, ε = {float(self.epsilon):g} per hop, noise scale {float(self.scale):g}",
            f"expected squared error: {self.expected_error:.4g}; owner-level privacy at this ε: {self.owner_level_error:.4g}",
            f"owner-level loss of this release: ε = {self.owner_level_epsilon:g}",
        ]
        if self.mechanism == "exact":
            lines.append("released exactly: no secret pair changes the answer")
        if self.prefer_owner_level:
            lines.append("owner-level privacy would be as accurate: prefer it")
        return "\n".join([*lines, self.note] if self.note else lines)

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "promise": self.promise,
            "query": self.query,
            "mechanism": self.mechanism,
            "scale": float(self.scale),
            "epsilon": float(self.epsilon),
            "expected_error": self.expected_error,
            "owner_level_error": self.owner_level_error,
            "owner_level_epsilon": self.owner_level_epsilon,
            "prefer_owner_level": self.prefer_owner_level,
        }


def explain(
    query: Query, rule: Policy, *, epsilon: float = 1.0, owner: str | None = None, max_rows_per_owner: int = 1
) -> Explanation:
    """The plan of a release and its expected error; the error of a mean is that of its sum (divide by n²)."""
    exact = _checked(query, rule, epsilon, 0.95, owner, max_rows_per_owner)
    rows = params.whole_number(max_rows_per_owner, option="max_rows_per_owner")
    plan = plan_release(query, rule, exact, rows_per_owner=rows, sampled=owner is not None)
    on_owners = plan_release(query, rule, exact, rows_per_owner=rows, public_n=False, sampled=owner is not None)
    is_mean = isinstance(query, Sum) and query.mean
    return Explanation(
        query.name,
        plan.mechanism,
        plan.scale,
        plan.epsilon,
        plan.expected_error,
        owner_level_error(query, rule, exact, rows),
        float("inf") if is_mean else float(on_owners.owner_loss),
        promise_text(plan, owner),
        "errors are those of the sum: divide by the square of the number of records" if is_mean else "",
    )
