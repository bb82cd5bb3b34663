"""Which released numbers are parts of others: the exact quotient of the two is then at most 1, whatever noise makes of it.

A count of some rows and of all; of the different values of some rows and of all; a sum over some rows of what is never negative;
and any of them over a table, with WHERE, and over the same table in a scalar subquery, without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import Call, Case, Column, Expression, Literal, transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.plan.aggregates import Aggregate
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect, StatementPlan
    from shoal.release.computed.carried import Source

Parts = frozenset[tuple[str, str]]
Names = dict[str, Expression]


def parts_of(plan: StatementPlan, sources: Mapping[str, Source]) -> Parts:
    """Pairs of symbols, of a part and of its whole."""
    return frozenset(
        (part, whole)
        for part, of_part in sources.items()
        for whole, of_whole in sources.items()
        if part != whole and _is_part(plan, of_part, of_whole)
    )


def _is_part(plan: StatementPlan, part: Source, whole: Source) -> bool:
    one, other = plan.selects[part.select].select, plan.selects[whole.select].select
    some, every = (select.aggregates[source.column].aggregate for select, source in ((one, part), (other, whole)))
    of = plan.selects[whole.select].total_of
    if of is not None and (of.select, of.position) == (part.select, part.column):
        return True
    if _kind(some) is None or _kind(some) != _kind(every):
        return False
    if part.select == whole.select:
        return _argument_is_part(some, some.argument, every.argument)
    names = _names(one.input), _names(other.input)
    if other.keys or None in names or not _fewer_rows(one, other, *names):  # type: ignore[arg-type]
        return False
    ours, theirs = (_named(each.argument, by) for each, by in zip((some, every), names, strict=True))  # type: ignore[arg-type]
    return ours == theirs or _argument_is_part(some, ours, theirs)


def _kind(aggregate: Aggregate) -> str | None:
    """Rows, different values and sums are compared with their own kind alone."""
    if aggregate.counts_rows or aggregate.counts_values:
        return "rows" if aggregate.counts_rows else "values"
    return "sum" if aggregate.adds_up and not aggregate.counts_owners else None


def _argument_is_part(aggregate: Aggregate, some: Expression | None, every: Expression | None) -> bool:
    """Whether one argument is the other where a condition holds, and nothing elsewhere."""
    if aggregate.counts_rows and every is None:
        return True
    if not isinstance(some, Case) or every is None:
        return False
    nothing = {None} if aggregate.counts_rows or aggregate.counts_values else {None, 0}
    results = [result for _, result in some.branches] + [some.otherwise]
    return all(result == every or (isinstance(result, Literal) and result.value in nothing) for result in results)


def _names(node: Node) -> Names | None:
    """Columns of the one table below by their own names; None if there is more than filters over a table."""
    while isinstance(node, nodes.Filter):
        node = node.input
    if not isinstance(node, nodes.Scan):
        return None
    pairs = zip(node.fields, node.columns, strict=True)
    return {field.symbol: Column(f"{node.table}.{name}", field.type) for field, name in pairs}


def _named(expression: Expression | None, names: Names) -> Expression | None:
    if expression is None:
        return None
    return transform(expression, lambda part: names.get(part.symbol, part) if isinstance(part, Column) else part)


def _fewer_rows(one: PrivateSelect, other: PrivateSelect, ours: Names, theirs: Names) -> bool:
    """Whether every condition of the whole is one of the part, over the same table."""
    same = {
        column.symbol.rpartition(".")[0]
        for names in (ours, theirs)
        for column in names.values()
        if isinstance(column, Column)
    }
    return len(same) == 1 and _conditions(other.input, theirs) <= _conditions(one.input, ours)


def _conditions(node: Node, names: Names) -> frozenset[Expression | None]:
    found: set[Expression | None] = set()
    while isinstance(node, nodes.Filter):
        found.update(_named(each, names) for each in _conjuncts(node.predicate))
        node = node.input
    return frozenset(found)


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for argument in condition.arguments for part in _conjuncts(argument))
    return (condition,)
