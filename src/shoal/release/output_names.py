"""What the analyst calls each private aggregate: the names of the output columns that show it or compute with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Column as ColumnOf
from shoal.plan.expressions import walk as walk_expression
from shoal.plan.traverse import all_nodes
from shoal.release.stored_rows import distinct_names
from shoal.sql.grammar.source_text import CallsAsWritten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.nodes import Node
    from shoal.plan.releases import Column, SelectPlan, StatementPlan


@dataclass(frozen=True, slots=True)
class OutputNames:
    """Columns that copy the aggregate, and columns computed from it; neither if only HAVING reads it."""

    copies: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    @property
    def first(self) -> str | None:
        """The name to use for it."""
        return next(iter((*self.copies, *self.computed)), None)

    def label(self, aggregate: str) -> str:
        """How a sentence refers to the aggregate: by its column, as a part of one, or by itself.

        >>> OutputNames(copies=("visits",)).label("COUNT(*)"), OutputNames(computed=("ratio",)).label("SUM(x)")
        ('visits', 'SUM(x) in ratio')
        """
        if self.copies:
            return ", ".join(self.copies)
        return f"{aggregate} in {', '.join(self.computed)}" if self.computed else aggregate


def output_names(plan: StatementPlan) -> list[list[OutputNames]]:
    """For every private SELECT, the names of each of its aggregates, as its own SELECT list has them."""
    found: dict[str, OutputNames] = {}
    for project in _lists_over_groups(plan):
        shown = [(field.name, value) for field, value in project.items if field.name]
        for name, (_, value) in zip(distinct_names([name for name, _ in shown]), shown, strict=True):
            if isinstance(value, ColumnOf):
                _note(found, value.symbol, copies=(name,))
                continue
            for part in walk_expression(value):
                if isinstance(part, ColumnOf):
                    _note(found, part.symbol, computed=(name,))
    return [
        [found.get(column.call.field.symbol, OutputNames()) for column in select.columns] for select in plan.selects
    ]


def _lists_over_groups(plan: StatementPlan) -> Iterator[nodes.Project]:
    """The SELECT lists right above stored rows, wherever the statement uses them."""
    roots = [plan.root, *(select.select.input for select in plan.selects)]
    roots += [select.select.public_groups for select in plan.selects if select.select.public_groups is not None]
    for root in roots:
        for node in all_nodes(root):
            if isinstance(node, nodes.Project) and isinstance(_below(node.input), nodes.StoredRows):
                yield node


def _below(node: Node) -> Node:
    """What HAVING and ORDER BY work on."""
    while isinstance(node, (nodes.Filter, nodes.Sort)):
        node = node.input
    return node


def _note(
    found: dict[str, OutputNames], symbol: str, copies: tuple[str, ...] = (), computed: tuple[str, ...] = ()
) -> None:
    known = found.get(symbol, OutputNames())
    found[symbol] = OutputNames(
        tuple(dict.fromkeys(known.copies + copies)), tuple(dict.fromkeys(known.computed + computed))
    )


def with_output_names(plan: StatementPlan) -> StatementPlan:
    """The plan with every aggregate called by its output, for notes about the answer."""
    written = CallsAsWritten(plan.sql)
    selects = tuple(
        _named(select, names, written) for select, names in zip(plan.selects, output_names(plan), strict=True)
    )
    return replace(plan, selects=selects)


def _named(select: SelectPlan, names: list[OutputNames], written: CallsAsWritten) -> SelectPlan:
    def called(column: Column, name: OutputNames) -> Column:
        is_needed = not name.copies
        asked = (is_needed and written.at(column.call.position)) or column.call.aggregate.name
        field = replace(column.call.field, name=name.label(asked))
        return replace(column, call=replace(column.call, field=field))

    return replace(select, columns=tuple(called(*pair) for pair in zip(select.columns, names, strict=True)))
