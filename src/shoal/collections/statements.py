"""A release as the SQL statement that it is: what the ledger keeps, and what is parsed, planned and verified like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.collections.aggregates import Aggregate, field, number
from shoal.collections.recipes import THIS
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.collections.recipes import Recipe

GROUPS = "groups"
"""What a statement calls the list of public groups."""
RULES = {
    "auto": "AUTO",
    "optimal": "OPTIMAL",
    "laplace": "LAPLACE_THRESHOLD",
    "gaussian": "GAUSSIAN_THRESHOLD",
}


@dataclass(frozen=True, slots=True)
class Question:
    """Groups and how they are found: the fields, groups per owner, and where public groups are from (a name in FROM)."""

    fields: tuple[str, ...] = ()
    max_groups: Any = None
    public: str | None = None


def statement(
    recipe: Recipe,
    question: Question,
    aggregates: Mapping[str, Aggregate],
    *,
    epsilon: Any,
    delta: Any = None,
    confidence_level: Any = None,
    rule: str = "auto",
) -> str:
    """SELECT WITH DIFFERENTIAL_PRIVACY …, and behind it what the collection is."""
    options = _options(question, epsilon, delta, confidence_level, rule)
    side = "g" if question.public is not None else "t"
    keys = [f"{side}.{field(name)}" for name in question.fields]
    columns = [f"{call} AS {field(column)}" for column, call in calls_of(question, aggregates)]
    grouped = f"\nGROUP BY {', '.join(keys)}" if keys else ""
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({', '.join(options)})\n  {', '.join([*keys, *columns])}\n"
        f"FROM {_source(question)}{grouped}\n-- {THIS}: {_on_one_line(recipe)}"
    )


def calls_of(question: Question, aggregates: Mapping[str, Aggregate]) -> list[tuple[str, str]]:
    """(column, SQL) of all aggregates; E_USAGE where two columns would have one name."""
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise ShoalError(
                "E_USAGE",
                f"{name} must be an aggregate.",
                hint="from shoal import aggregates as agg; then n=agg.count(upper=10).",
            )
    found = [call for name, aggregate in aggregates.items() for call in aggregate.calls(name)]
    names = [*question.fields, *(column for column, _ in found)]
    if len(set(map(str.lower, names))) < len(names):
        raise ShoalError(
            "E_USAGE", "Two columns of the release have the same name.", hint="Name the aggregate otherwise."
        )
    return found


def _options(question: Question, epsilon: Any, delta: Any, confidence_level: Any, rule: str) -> list[str]:
    given = (("epsilon", epsilon), ("delta", delta), ("confidence_level", confidence_level))
    options = [f"{name} = {number(value, name)}" for name, value in given if value is not None]
    if question.max_groups is not None:
        auto = isinstance(question.max_groups, str) and question.max_groups.upper() == "AUTO"
        groups = "AUTO" if auto else number(question.max_groups, "max_groups_per_owner")
        options.append(f"max_groups_contributed = {groups}")
    if question.public is not None:
        options.append("group_selection_strategy = PUBLIC_GROUPS")
    elif rule != "auto":
        options.append(f"group_selection_strategy = {rule_named(rule)}")
    return options


def rule_named(rule: Any) -> str:
    """How groups are selected, by its short name or by that of SQL."""
    named = RULES.get(rule.lower()) if isinstance(rule, str) else None
    if named is None and isinstance(rule, str) and rule.upper() in RULES.values():
        named = rule.upper()
    if named is None:
        raise ShoalError("E_USAGE", "There is no such rule.", hint=f"Rules: {', '.join(RULES)}.")
    return named


def _source(question: Question) -> str:
    if question.public is None:
        return f"{THIS} AS t"
    same = " AND ".join(f"t.{field(name)} = g.{field(name)}" for name in question.fields)
    return f"{field(question.public)} AS g LEFT JOIN {THIS} AS t ON {same}"


def _on_one_line(recipe: Recipe) -> str:
    return " ".join(str(recipe).split())
