"""The most groups an owner can be in, from public facts about the keys: it spends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.plan import nodes
from shoal.plan.expressions import Call, Case, Cast, Column, Expression, Literal
from shoal.plan.kept_rows import equal_columns
from shoal.plan.traverse import all_nodes, columns_read
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.catalog import Catalog
    from shoal.plan.nodes import Node
    from shoal.plan.public_facts import PublicFacts
    from shoal.plan.releases import PrivateSelect

_PARTS = {
    "month": 12,
    "quarter": 4,
    "dayofweek": 7,
    "dayofweek from 1": 7,
    "isodow": 7,
    "hour": 24,
    "day": 31,
    "week": 53,
    "minute": 60,
    "second": 60,
}
"""How many values a part of a date has, NULL aside."""
_DIVIDING = frozenset({"modulo", "mod"})


_OPTIONAL = {"left": ("right",), "right": ("left",), "full": ("left", "right")}


class PublicSizes:
    """How many values expressions can have, including NULL; None if unknown."""

    def __init__(self, catalog: Catalog, origins: Mapping[str, tuple[str, str]], facts: PublicFacts) -> None:
        self._catalog, self._origins, self._facts = catalog, origins, facts

    def groups(self, select: PrivateSelect) -> int | None:
        """The product of the keys' sizes; a key that is a trait of the owner has one value for each."""
        if select.public_groups is not None and not select.keys:
            return 1
        listed_groups = self._length(select.public_groups)
        filled = _filled(select.public_groups)
        product = 1
        for _, value in select.keys:
            if self._is_of_owner(value):
                continue
            size = self.of(value)
            if size is None:
                return listed_groups
            # A list either includes NULL or has no group for it, unless an outer join adds NULL to what the table has.
            listed = (
                select.public_groups is not None
                and isinstance(value, Column)
                and value.symbol not in filled
                and value.type.kind is not Kind.BOOLEAN
            )
            product *= size - 1 if listed else size
        return product if listed_groups is None else min(product, listed_groups)

    def _length(self, listed: Node | None) -> int | None:
        """At most how many groups a public list has: constants, or rows of public tables; None if that is not known."""
        match listed:
            case nodes.Values(rows=rows):
                return len(rows)
            case nodes.Scan(table=table, owner=None):
                return self._facts.size(table) if self._facts.is_counted(table) else None
            case nodes.Filter(input=below) | nodes.Distinct(input=below) | nodes.Project(input=below):
                return self._length(below)
            case nodes.Join(kind="inner", left=left, right=right):
                sizes = self._length(left), self._length(right)
                return None if None in sizes else (sizes[0] or 0) * (sizes[1] or 0)
            case nodes.Join(kind="full", left=left, right=right, condition=Literal(value=False)):
                sizes = self._length(left), self._length(right)
                return None if None in sizes else (sizes[0] or 0) + (sizes[1] or 0)
        return None

    def _is_of_owner(self, value: Expression) -> bool:
        """Whether every row of an owner has the same value: all of it comes from the one row that a table has for each owner."""
        symbols = columns_read(value)
        tables = [self._catalog.table(self._origins[symbol][0]) for symbol in symbols if symbol in self._origins]
        known = [table is not None and table.one_row_per_owner for table in tables]
        return bool(symbols) and len(known) == len(symbols) and all(known)

    def domains(self, select: PrivateSelect) -> tuple[int | None, ...]:
        """For each aggregate the number of different values of x in COUNT(DISTINCT x), NULL aside.

        Rows that an inner join leaves have a partner: a column that must equal one of a public table has none but its values.
        """
        arguments = (call.aggregate.argument if call.aggregate.counts_values else None for call in select.aggregates)
        sizes = (None if value is None else self._joined(value, select.input) for value in arguments)
        return tuple(None if size is None else max(1, size - 1) for size in sizes)

    def _joined(self, value: Expression, rows: Node) -> int | None:
        """Of an expression, or of what a join requires it to equal, whichever is less."""
        sizes = [self.of(value)]
        if isinstance(value, Column):
            joins = (node for node in all_nodes(rows) if isinstance(node, nodes.Join) and node.kind == "inner")
            pairs = (pair for join in joins for pair in equal_columns(join.condition) if value.symbol in pair)
            sizes += [self._of_column(symbol) for pair in pairs for symbol in pair if symbol != value.symbol]
        return min((size for size in sizes if size is not None), default=None)

    def of(self, value: Expression) -> int | None:
        """The number of different values, including NULL."""
        if value.type.kind is Kind.BOOLEAN:
            return 3
        match value:
            case Column():
                return self._of_column(value.symbol)
            case Case(branches=branches, otherwise=otherwise):
                results = [result for _, result in branches] + [otherwise]
                if all(isinstance(result, Literal) for result in results):
                    return len({repr(result.value) for result in results if isinstance(result, Literal)} | {"None"})
            case Call(function=function) if function in _PARTS:
                return _PARTS[function] + 1
            case Call(function="extract" | "date_part", arguments=(Literal(value=str(part)), *_)):
                return _PARTS[part.lower()] + 1 if part.lower() in _PARTS else None
            case Call(function=function, arguments=(_, Literal(value=int(divisor)))) if (
                function in _DIVIDING and divisor
            ):
                return 2 * abs(divisor)
            case Cast(value=inner):
                return self.of(inner)
            case Call(arguments=arguments):
                computed = [each for each in arguments if not isinstance(each, Literal)]
                # What is computed from one expression, and constants, has no more values than that.
                return self.of(computed[0]) if len(computed) == 1 else None
        return None

    def _of_column(self, symbol: str) -> int | None:
        origin = self._origins.get(symbol)
        table = self._catalog.table(origin[0]) if origin is not None else None
        if origin is None or table is None:
            return None
        values = table.facts(origin[1]).values
        if values is not None:
            return len(values) + 1
        lookup = next((r for r in table.lookups if fold(r.column) == fold(origin[1])), None)
        if lookup is not None:
            return self._facts.size(fold(lookup.to)) + 1
        return self._facts.size(fold(table.name)) + 1 if table.public else None


def _filled(listed: Node | None) -> frozenset[str]:
    """Columns of a list of groups that an outer join in it may fill with NULL."""
    joins = [] if listed is None else [node for node in all_nodes(listed) if isinstance(node, nodes.Join)]
    sides = [getattr(join, side) for join in joins for side in _OPTIONAL.get(join.kind, ())]
    return frozenset(field.symbol for side in sides for field in side.fields)
