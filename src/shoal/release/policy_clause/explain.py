"""A SELECT WITH POLICY in words and numbers: what is hidden, what is not, and how it compares with owner-level privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.explain import Explanation
from shoal.release.policy_clause.plan import expected_error, owner_level_error

if TYPE_CHECKING:
    from shoal.release.policy_clause.plan import Column, PolicyPlan


class PolicyExplanation(Explanation):
    """What a query under a policy will do and cost; begins with its promise."""

    __slots__ = ()

    def __str__(self) -> str:
        data = self.data
        lines = [
            f"PROMISE: policy {data['policy']} (weaker than owner-level privacy)",
            f"  hidden: {data['hidden']} (ε per hop)",
            f"  not hidden: {data['not_hidden']}",
            f"  of every {data['owner']}: at most {data['max_rows_per_owner']} row(s), drawn at random",
            f"COST: ε = {data['epsilon']:g} under the policy; owner-level loss ε = {data['owner_level_epsilon']:g}",
            f"GROUPS: {data['groups']}, all that the domain can produce",
        ]
        for column in data["columns"]:
            lines.append(
                f"  {column['name']}: {column['mechanism']}; expected squared error {column['expected_error']:.4g}, "
                f"owner-level {column['owner_level_error']:.4g}"
            )
            if column["prefer_owner_level"]:
                lines.append("    owner-level privacy would be as accurate: prefer it")
        return "\n".join([*lines, *(f"note: {note}" for note in data["notes"])])


def explain_policy(plan: PolicyPlan, on_owners: PolicyPlan) -> PolicyExplanation:
    """The explanation; `on_owners` is the plan that a ledger about owners would be charged for."""
    select = plan.select
    hidden, _, rest = select.rule.promise.partition("; not hidden: ")
    warning = params.warning_about(select.epsilon)
    return PolicyExplanation(
        {
            "promise": select.rule.promise,
            "policy": select.rule.name,
            "hidden": hidden.partition("hidden: ")[2].removesuffix(" (ε per hop)"),
            "not_hidden": rest.rpartition("; ")[0],
            "owner": select.owner,
            "max_rows_per_owner": select.rows_per_owner,
            "epsilon": float(plan.epsilon),
            "delta": 0.0,
            "owner_level_epsilon": float(on_owners.owner_loss),
            "groups": plan.values.count,
            "columns": [_column(plan, column) for column in plan.columns],
            "output": [f.name for f in select.root.fields],
            "notes": [warning] if warning is not None else [],
        }
    )


def _column(plan: PolicyPlan, column: Column) -> dict[str, Any]:
    error, owner = expected_error(plan, column), owner_level_error(plan, column)
    return {
        "name": column.aggregate.written,
        "mechanism": _mechanism(plan, column),
        "expected_error": error,
        "owner_level_error": owner,
        "prefer_owner_level": owner <= error,
    }


def _mechanism(plan: PolicyPlan, column: Column) -> str:
    if column.aggregate.attribute:
        found = plan.quantiles[column.aggregate.attribute].plan
        return f"prefix counts ({found.mechanism}), largest scale {float(found.scale):g}"
    families = [plan.families[i] for i in column.families]
    if not any(family.scale for family in families):
        return "exact: no secret pair changes it"
    scales = ", ".join("exact" if not f.scale else f"{float(f.scale * f.table.grid):g}" for f in families)
    return f"discrete Laplace noise, scale {scales}"
