"""A limit's histogram as an ordinary private SELECT: owners counted in listed bins, each owner in one.

The owner's rows are grouped by owner and key, then by owner alone; the bin is a function of that owner's rows. Bins are public
groups and every owner is in one of them, so ownership, sensitivity and noise are those of COUNT(DISTINCT owner) with κ = 1: the
same passes plan it, the same `verify` checks it, the same engines answer it.
"""

from __future__ import annotations

from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.aggregates import CountOwners
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.limits.sought import IN_ALL, SUMS
from shoal.plan.nodes import Field, Node, RowAggregate
from shoal.plan.releases import AggregateCall, Options, PrivateSelect
from shoal.plan.types import DOUBLE, INTEGER, Kind, Type
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from shoal.plan.aggregates import Aggregate
    from shoal.plan.limits.sought import Sought


ONE = Literal(1, INTEGER)


def histogram_select(select: PrivateSelect, sought: Sought, prefix: str, epsilon: Fraction) -> PrivateSelect:
    """The private SELECT that counts owners by bin, with the ε that it may spend."""
    maker = Maker(select, prefix)
    of_owner = maker.per_owner(sought)
    bin_ = maker.field(INTEGER)
    key = first_edge(sought.edges, of_owner.top, of_owner.bottom)
    if of_owner.net is not None:
        below = functions.resolve("less", [of_owner.net, Literal(0.0, DOUBLE)], None)
        bins = Literal(len(sought.edges) + 1, INTEGER)
        key = functions.case([(below, functions.resolve("add", [key, bins], None))], key, None)
    whole = of_owner.top if sought.kind in IN_ALL else of_owner.bottom
    if whole != ONE:
        # Nothing limits what is nothing: an owner with only zeros, or without any value, is in no listed bin.
        zero = Literal(0.0, DOUBLE) if whole.type.kind is Kind.DOUBLE else Literal(0, INTEGER)
        something = functions.resolve("greater", [whole, zero], None)
        key = functions.case([(something, key)], Literal(-1, INTEGER), None)
    listed = nodes.Values(tuple((position,) for position in sought.bins), (maker.field(INTEGER),))
    options = Options(
        select.options.clause, epsilon, None, max_groups_per_owner=1, strategy="PUBLIC_GROUPS", noise="LAPLACE"
    )
    call = AggregateCall(maker.field(INTEGER), CountOwners(), None, "none")
    return PrivateSelect(
        of_owner.node, ((bin_, key),), (call,), options, listed, "every bin is counted", (), select.position
    )


@dataclass(frozen=True, slots=True)
class _OfOwner:
    """One row per owner, and the quotient top/bottom that is put into a bin."""

    node: Node
    top: Expression
    bottom: Expression
    net: Expression | None = None
    """All sums together, with their sign, where it decides the bin."""


def first_edge(edges: Sequence[Fraction], top: Expression, bottom: Expression) -> Expression:
    """The number of the first edge e with top ≤ e·bottom; no division, so nothing is rounded."""
    real = top.type.kind is Kind.DOUBLE

    def reaches(edge: Fraction) -> Expression:
        most: Expression = Literal(float(edge), DOUBLE) if real else Literal(int(edge), INTEGER)
        if bottom != ONE:
            most = functions.resolve("multiply", [bottom, most], None)
        return functions.resolve("less_equal", [top, most], None)

    branches = [(reaches(edge), Literal(position, INTEGER)) for position, edge in enumerate(edges)]
    return functions.case(branches, Literal(len(edges), INTEGER), None)


class Maker:
    """Builds the relations below one histogram, with symbols that no other part of the statement has."""

    def __init__(self, select: PrivateSelect, prefix: str) -> None:
        if select.input.owner is None:
            raise InternalError("limits are sought of rows that belong to nobody")
        self._select = select
        self._symbols: Iterator[str] = (f"{prefix}_{i}" for i in count())

    def field(self, type_: Type) -> Field:
        """A new field without a name."""
        return Field("", next(self._symbols), type_.plain())

    def per_owner(self, sought: Sought) -> _OfOwner:
        """One row for each owner."""
        pairs, size = self.pairs(sought)
        of_pair = Column(size.symbol, size.type)
        squares = functions.resolve("multiply", [of_pair, of_pair], None)
        last = nodes.field_of(pairs, pairs.owner or "")
        first = self.field(last.type)
        top, whole = self.field(size.type), self.field(size.type)
        bottom: Expression = ONE
        items: tuple[tuple[Field, RowAggregate], ...]
        if sought.kind == "all" or sought.kind in IN_ALL:
            items = ((top, owner_aggregate("SUM", of_pair)),)
        elif sought.kind == "groups":
            items = ((top, owner_aggregate("COUNT")),)
        else:
            items = ((top, owner_aggregate("SUM", squares)), (whole, owner_aggregate("SUM", of_pair)))
            bottom = Column(whole.symbol, whole.type)
        net = self.field(DOUBLE) if sought.signed else None
        if net is not None:
            of_sign = pairs.fields[-1]
            items = (*items, (net, owner_aggregate("SUM", Column(of_sign.symbol, of_sign.type))))
        node = nodes.Aggregate(pairs, ((first, Column(last.symbol, last.type)),), items, first.symbol)
        ratio = Column(top.symbol, top.type), bottom
        return _OfOwner(node, *ratio, None if net is None else Column(net.symbol, DOUBLE))

    def values(self, sought: Sought) -> tuple[Node, Expression, Expression]:
        """One row for each owner: the sum of the aggregate's argument over all its rows, and how many values there are."""
        owner, _, argument, rows = self._rows(sought)
        if argument is None:
            raise InternalError("bounds of values without values")
        value = functions.resolve_cast(Column(argument.symbol, argument.type), DOUBLE, None)
        mine, top, bottom = self.field(owner.type), self.field(DOUBLE), self.field(INTEGER)
        items = ((top, owner_aggregate("SUM", value)), (bottom, owner_aggregate("COUNT", value)))
        node = nodes.Aggregate(rows, ((mine, Column(owner.symbol, owner.type)),), items, mine.symbol)
        return node, Column(top.symbol, top.type), Column(bottom.symbol, bottom.type)

    def pairs(self, sought: Sought) -> tuple[Node, Field]:
        """One row for each owner and group, and its size."""
        return self._pairs(sought, *self._rows(sought))

    def sums(self, of: Aggregate) -> tuple[Node, Field]:
        """One row for each owner and group: how many rows are counted there, or their sum."""
        owner, keys, argument, rows = self._read(of.argument)
        mine, value = self.field(owner.type), [] if argument is None else [Column(argument.symbol, argument.type)]
        added = owner_aggregate("COUNT" if of.counts_rows else "SUM", *value)
        size = self.field(added.type)
        grouped = ((self.field(key.type), Column(key.symbol, key.type)) for key in keys)
        keyed = ((mine, Column(owner.symbol, owner.type)), *grouped)
        return nodes.Aggregate(rows, keyed, ((size, added),), mine.symbol), size

    def _rows(self, sought: Sought) -> tuple[Field, list[Field], Field | None, Node]:
        """The rows of the query with owner, keys and the aggregate's argument; listed groups only, where there is a list."""
        of_call = sought.calls and sought.kind != "all"
        return self._read(self._select.aggregates[sought.calls[0]].aggregate.argument if of_call else None)

    def _read(self, value: Expression | None) -> tuple[Field, list[Field], Field | None, Node]:
        select, below = self._select, self._select.input
        owner = nodes.field_of(below, below.owner or "")
        mine = self.field(owner.type)
        items: list[tuple[Field, Expression]] = [(mine, Column(owner.symbol, owner.type))]
        keys = [self.field(value.type) for _, value in select.keys]
        items += [(field, value) for field, (_, value) in zip(keys, select.keys, strict=True)]
        argument = None if value is None else self.field(value.type)
        if argument is not None and value is not None:
            items.append((argument, value))
        rows: Node = nodes.Project(below, tuple(items), mine.symbol)
        if select.public_groups is not None:
            rows = self._listed(rows, keys, select.public_groups)
        return mine, keys, argument, rows

    @staticmethod
    def _listed(rows: Node, keys: list[Field], groups: Node) -> Node:
        same = [
            functions.resolve(
                "is_not_distinct_from",
                [Column(k.symbol, k.type), functions.resolve_cast(Column(g.symbol, g.type), k.type, None)],
                None,
            )
            for k, g in zip(keys, groups.fields, strict=True)
        ]
        condition = reduce(lambda a, b: functions.resolve("and", [a, b], None), same)
        return nodes.Join(rows, groups, "semi", condition, rows.owner)

    def _pairs(
        self, sought: Sought, owner: Field, keys: list[Field], argument: Field | None, rows: Node
    ) -> tuple[Node, Field]:
        """One row for each owner and group, and its size: rows, different values, or the sum without its sign."""
        mine = self.field(owner.type)
        grouped = tuple((self.field(key.type), Column(key.symbol, key.type)) for key in keys)
        value = None if argument is None else Column(argument.symbol, argument.type)
        if sought.kind in SUMS:
            assert value is not None  # noqa: S101 - a sum has an argument
            aggregate = owner_aggregate("SUM", functions.resolve_cast(value, DOUBLE, None))
        elif sought.kind == "values":
            assert value is not None  # noqa: S101 - so have different values
            aggregate = owner_aggregate("COUNT", value, distinct=True)
        else:
            aggregate = owner_aggregate("COUNT", *([] if value is None else [value]))
        size = self.field(aggregate.type)
        keyed = ((mine, Column(owner.symbol, owner.type)), *grouped)
        pairs: Node = nodes.Aggregate(rows, keyed, ((size, aggregate),), mine.symbol)
        if sought.kind not in SUMS:
            return pairs, size
        last, absolute = self.field(owner.type), self.field(DOUBLE)
        without_sign = functions.resolve("abs", [Column(size.symbol, DOUBLE)], None)
        items: tuple[tuple[Field, Expression], ...] = (
            (last, Column(mine.symbol, mine.type)),
            (absolute, without_sign),
        )
        if sought.signed:
            items = (*items, (self.field(DOUBLE), Column(size.symbol, DOUBLE)))
        return nodes.Project(pairs, items, last.symbol), absolute


def owner_aggregate(name: str, *arguments: Expression, distinct: bool = False) -> RowAggregate:
    """An exact aggregate over one owner's rows."""
    function, type_ = functions.owner_aggregate(name, [a.type for a in arguments], None)
    return RowAggregate(function, arguments, type_, distinct)
