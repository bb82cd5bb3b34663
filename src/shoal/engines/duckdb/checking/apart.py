"""Questions over the same rows as another one, read apart from these rows.

A search for limits counts owners by what they have in the rows of the query. What the analyst wrote is in those rows, and the
query's own statement reads them. What the search makes of them is ours: it takes the owner, keys and an argument of each row,
and depends on their types alone. So the rows are read once, with the values that are taken of them, and the rest is
read over one row of typed NULLs, once for all queries that are alike.

That holds where the engine gives these values the types of the NULLs, and where the same owners are left out of both. Otherwise a
question is read whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.engines.statements.crowded_owners import products_of, shapes_of
from shoal.engines.statements.pruned import read_input
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.nodes import Field
from shoal.plan.traverse import columns_read, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.totals import TotalsQuery


@dataclass(frozen=True, slots=True)
class Apart:
    """A question over rows that another one reads: what it takes of each, and the question over typed NULLs instead."""

    question: TotalsQuery
    below: TotalsQuery
    taken: tuple[Expression, ...]
    above: TotalsQuery


def divided(queries: Iterable[TotalsQuery]) -> tuple[list[TotalsQuery], list[Apart]]:
    """Questions that are read whole, each kind of rows once, and those over the rows of one of these."""
    asked = list({(query.input, query.keys, query.arguments, query.public_groups): query for query in queries}.values())
    crowds = {id(query): Counter(map(shapes_of, products_of(read_input(query)))) for query in asked}
    found = [
        (query, _apart(query, [other for other in asked if crowds[id(other)] == crowds[id(query)]])) for query in asked
    ]
    alone = [query for query, part in found if part is None]
    parts = [part for _, part in found if part is not None]
    read_below = {id(query) for query in alone}
    alone += [part.question for part in parts if id(part.below) not in read_below]
    return alone, [part for part in parts if id(part.below) in read_below]


def taken_of(query: TotalsQuery, over_others: Iterable[Apart]) -> list[Expression]:
    """What others take of the rows of a question, each value once."""
    return list(dict.fromkeys(value for each in over_others if each.below is query for value in each.taken))


def _apart(query: TotalsQuery, others: Iterable[TotalsQuery]) -> Apart | None:
    lists = list(_lists_of_values(query.input))
    for below in others:
        for taking in lists:
            if below.input == taking.input and _reads_all(below, taking):
                nothing = rows_like([Column(f.symbol, f.type.plain()) for f, _ in taking.items], taking.owner)
                above = replace(query, input=_replaced(query.input, taking, nothing))
                return Apart(query, below, tuple(value for _, value in taking.items), above)
    return None


def rows_like(columns: list[Column], owner: str | None) -> Node:
    """One row of NULLs of the given types."""
    hidden = tuple(Field("", f"n{i}", column.type) for i, column in enumerate(columns))
    listed = nodes.Values((tuple(None for _ in columns),), hidden)
    items = zip(columns, hidden, strict=True)
    return nodes.Project(
        listed, tuple((Field("", c.symbol, c.type), Column(f.symbol, f.type)) for c, f in items), owner
    )


def _lists_of_values(node: Node) -> Iterator[nodes.Project]:
    """Where values are taken of rows, from the top of a relation down, by its first inputs."""
    while below := nodes.inputs(node):
        if isinstance(node, nodes.Project):
            yield node
        node = below[0]


def _reads_all(below: TotalsQuery, taking: nodes.Project) -> bool:
    """Whether the values are computed from columns that the other question reads of the same rows."""
    read = {below.input.owner or ""}.union(
        *(columns_read(key) for _, key in below.keys), *map(columns_read, below.arguments)
    )
    return all(columns_read(value) <= read for _, value in taking.items)


def _replaced(node: Node, taking: nodes.Project, nothing: Node) -> Node:
    return nothing if node is taking else rebuilt(node, lambda below: _replaced(below, taking, nothing))
